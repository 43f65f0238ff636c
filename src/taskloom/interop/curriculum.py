"""A curriculum: examples of a training split that grow harder as they are solved.

Levels are bounds of a trait (`length`, `support`, `sentences`), from easy to hard. At a level,
examples are drawn from those whose trait does not exceed its bound; when the mean score of the last
`window` answers reaches `threshold`, the next level begins. All of them are rows of one split of
one recipe, so what its test splits hold out stays unseen at every level.

Which example stands at which position hangs on the seed and on where levels began, and on nothing
else. That is the whole state: a run that is resumed with it draws the same examples.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from taskloom.core.errors import DataError, ParameterError, echo, nearest
from taskloom.core.example import Example, Trait
from taskloom.core.files import atomic
from taskloom.core.seeding import Key
from taskloom.interop.graded import GradedSplit

STATE = "curriculum.json"
"""The file of the state, in the folder of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Levels:
    """How a curriculum rises.

    Attributes:
        trait: The trait that makes examples hard; its values are numbers.
        bounds: The largest value at each level, rising; empty: every value that the split has.
        threshold: The mean score from which the next level begins.
        window: Over how many answers the mean is taken.
    """

    trait: str
    bounds: tuple[float, ...] = ()
    threshold: float = 0.8
    window: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ParameterError(
                "threshold", f"must be above 0 and at most 1, not {self.threshold}"
            )
        if self.window < 1:
            raise ParameterError("window", f"must be at least 1, not {self.window}")
        if list(self.bounds) != sorted(set(self.bounds)):
            raise ParameterError(
                "bounds", f"must rise from level to level, not {echo(self.bounds)}"
            )


def levels_of(examples: GradedSplit) -> Levels:
    """Return the levels that the recipe of a split declares under `curriculum`."""
    declared = examples.curriculum
    if declared is None:
        raise ParameterError(
            "levels",
            f"is missing, and {examples.name} declares none: curriculum: {{trait: length, bounds:"
            " [3, 4, 5]}",
        )
    return Levels(declared.trait, declared.bounds, declared.threshold, declared.window)


class Curriculum:
    """Examples by position, and the level that answers have reached.

    Attributes:
        examples: The split that examples are drawn from.
        levels: How it rises.
        seed: Of the order of examples.
        began: The positions at which the levels above the first began.
        drawn: How many examples were drawn.
    """

    def __init__(self, examples: GradedSplit, levels: Levels, seed: int = 0) -> None:
        self.examples, self.levels, self.seed = examples, levels, seed
        values = [self._value(example) for example in examples]
        self.bounds = levels.bounds or tuple(sorted(set(values)))
        self._pools = [[i for i, v in enumerate(values) if v <= bound] for bound in self.bounds]
        if not self._pools[0]:
            raise ParameterError(
                "bounds",
                f"begins with {self.bounds[0]}; no example has a {levels.trait} of at most that",
            )
        self._orders = [
            Key("curriculum", seed, level).permutation(len(p))
            for level, p in enumerate(self._pools)
        ]
        self.began: list[int] = []
        self.drawn = 0
        self._window: deque[float] = deque(maxlen=levels.window)

    def _value(self, example: Example) -> float:
        value: Trait | None = example.traits.get(self.levels.trait)
        if value is None:
            raise ParameterError(
                "trait", f"is '{self.levels.trait}'; {nearest(self.levels.trait, example.traits)}"
            )
        if isinstance(value, str):
            raise ParameterError(
                "trait",
                f"is '{self.levels.trait}', whose values are texts such as {echo(value)}; name one"
                " of numbers",
            )
        return float(value)

    @property
    def level(self) -> int:
        """The level that answers have reached, from 0."""
        return len(self.began)

    @property
    def bound(self) -> float:
        """The largest value of the trait at this level."""
        return self.bounds[self.level]

    def at(self, position: int) -> Example:
        """Return the example at a position: one of the level that held when it was drawn."""
        level = sum(begin <= position for begin in self.began)
        pool, order = self._pools[level], self._orders[level]
        return self.examples[pool[int(order(position % len(pool)))]]

    def __iter__(self) -> Iterator[Example]:
        """Yield examples without end from position 0; those that were drawn before are the same
        again.
        """
        position = 0
        while True:
            self.drawn = max(self.drawn, position + 1)
            yield self.at(position)
            position += 1

    def record(self, scores: Sequence[float]) -> bool:
        """Take the scores of answers, and return whether the next level begins, with the next
        example that is drawn.
        """
        self._window.extend(scores)
        full = len(self._window) == self.levels.window
        if (
            self.level + 1 == len(self.bounds)
            or not full
            or sum(self._window) / len(self._window) < self.levels.threshold
        ):
            return False
        self.began.append(self.drawn)
        self._window.clear()  # easier answers do not count towards the next level
        return True

    def state(self) -> dict[str, Any]:
        """Return all that a resumed run needs, for JSON."""
        how = {
            "levels": asdict(self.levels),
            "seed": self.seed,
            "recipe": self.examples.name,
            "split": self.examples.split,
        }
        return {
            **how,
            "bounds": list(self.bounds),
            "began": self.began,
            "drawn": self.drawn,
            "window": list(self._window),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Set the state; one of another curriculum is refused."""
        own = json.loads(json.dumps(self.state()))
        for key in ("recipe", "split", "seed", "levels", "bounds"):
            if state.get(key) != own[key]:
                raise DataError(
                    f"the curriculum's state is of another one: its {key} is"
                    f" {echo(state.get(key))}, here {echo(own[key])}"
                )
        self.began, self.drawn = list(state["began"]), int(state["drawn"])
        self._window = deque(state["window"], maxlen=self.levels.window)

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        with atomic(folder / STATE) as beside:
            beside.write_text(json.dumps(self.state()) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the state from the folder of a checkpoint."""
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder / STATE} cannot be read ({error}); resume from another checkpoint"
            ) from error
        self.restore(state)
