"""The splits of a task that is one function: which contents each owns, which are held out, and how
rows are drawn.

Every split owns a fixed part of all contents, by its name. Sizes do not matter and other splits do
not either, so a test split is the same beside a small and a large training set, and a smaller split
is a prefix of a larger one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from taskloom.core.errors import RecipeError, TaskloomError, raised_at
from taskloom.core.example import Example
from taskloom.core.seeding import Key, Random

SLOTS = {"train": (0, 16), "ood": (16, 22), "test": (22, 25), "iid": (25, 28), "dev": (28, 30)}
"""The part of the contents that a split of a usual name owns, in 32nds: training a half. Held-out
examples are rare in most tasks, so `ood` has the largest part of the rest.
"""

OTHERS = (30, 32)
"""What splits of other names share, in the order of the recipe: the first has 1/2 of it, the next
1/6, then 1/12, and so on. There is no last one, and a split that is added at the end takes nothing
from those before it.
"""

TRIES = 10_000
"""Draws for one example before the split counts as exhausted."""

RARE_TRIES = 100_000
"""The same for tasks with a held-out part, where as few as `FEWEST` in `PROBES` draws may be of the
kind that a split needs.
"""

PROBES, FEWEST, PROBED = 2_000, 10, 64
"""How many examples are drawn to see what is held out: `PROBED`, and more until `FEWEST` of either
kind are there, but no more than `PROBES`.
"""

HELD_OUT = "held_out"
"""The trait of every example of a task that declares what is held out."""

PARTS_OF_EXAMPLE = ("example", "traits", "derivation")
"""What a predicate may ask for by name, beside the task's knobs."""

Owns = Callable[[str], bool]
"""Whether a content belongs to a split."""


def owners(names: Iterable[str], key: Key) -> dict[str, Owns]:
    """Build for each split the test whether a content is its own; every content is of one split at
    most.
    """
    tests: dict[str, Owns] = {}
    low, high = OTHERS
    unusual = 0
    for name in names:
        if name in SLOTS:
            start, stop = SLOTS[name][0] / 32, SLOTS[name][1] / 32
        else:
            unusual += 1
            start = (high - (high - low) / unusual) / 32
            stop = (high - (high - low) / (unusual + 1)) / 32
        tests[name] = partial(_between, key, start, stop)
    return tests


def _between(key: Key, low: float, high: float, content: str) -> bool:
    return low <= key.unit(content) < high


def is_held_out_split(name: str) -> bool:
    """True if a split has held-out examples only; every other split has none.

    >>> is_held_out_split("ood"), is_held_out_split("ood-long"), is_held_out_split("iid")
    (True, True, False)
    """
    return name.partition("-")[0] == "ood"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What makes an example of a task held out.

    Attributes:
        task: The task's name.
        predicate: The function that its author gave.
        parameters: What it takes, by name: knobs of the task, `example`, `traits` or `derivation`.
    """

    task: str
    predicate: Callable[..., object]
    parameters: tuple[str, ...]

    @classmethod
    def read(cls, task: str, predicate: object, knobs: Iterable[str]) -> HeldOut:
        """Check a predicate against the knobs that it may ask for."""
        knobs = list(knobs)
        offered = [*PARTS_OF_EXAMPLE, *knobs]
        if not callable(predicate):
            raise TaskloomError(
                f"{task}: held_out is {predicate!r}; give a function such as lambda length:"
                " length > 5"
            )
        try:
            parameters = tuple(inspect.signature(predicate).parameters)
        except ValueError as error:
            raise TaskloomError(
                f"{task}: held_out is {predicate!r}, whose parameters are not known"
            ) from error
        for name in parameters:
            if name not in offered:
                raise TaskloomError(
                    f"{task}: held_out asks for '{name}'; it may ask for: {', '.join(offered)}"
                )
            if name in PARTS_OF_EXAMPLE and name in knobs:
                raise TaskloomError(
                    f"{task}: held_out asks for '{name}', which is a knob, too; rename the knob"
                )
        if not parameters:
            raise TaskloomError(
                f"{task}: held_out asks for nothing; it may ask for: {', '.join(offered)}"
            )
        return cls(task, predicate, parameters)

    def __call__(self, example: Example, knobs: Mapping[str, Any]) -> bool:
        """True if an example, made with these values of the knobs, is held out."""
        parts = {"example": example, "traits": example.traits, "derivation": example.derivation}
        try:
            verdict = self.predicate(
                **{p: parts[p] if p in parts else knobs[p] for p in self.parameters}
            )
            known = verdict in (True, False)
        except (Exception, SystemExit) as error:
            raise TaskloomError(
                f"{self.task}: held_out raised {type(error).__name__}: {error}{raised_at(error)} "
                f"(for the input {example.input[:60]!r})"
            ) from error
        if not known:
            raise TaskloomError(
                f"{self.task}: held_out gave {verdict!r:.60}; it must give True or False"
            )
        return bool(verdict)


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows of a task's splits, under given values of its knobs.

    Attributes:
        task: The task's name.
        make: Makes one example from a generator and knobs.
        knobs: Values or ranges that items are drawn with; presentation knobs have their defaults
            here.
        written: Values or ranges of the presentation knobs that differ from their defaults.
        key: What all random streams hang on.
        owns: For every split, whether a content is its own.
        held_out: What is held out, if the task declares it.
    """

    task: str
    make: Callable[..., Example]
    knobs: Mapping[str, Any]
    written: Mapping[str, Any]
    key: Key
    owns: Mapping[str, Owns]
    held_out: HeldOut | None = None

    def rows(self, split: str, start: int, stop: int) -> Iterator[Example]:
        """Yield rows start..stop of a split."""
        for index in range(start, stop):
            yield self._row(split, index)

    def _row(self, split: str, index: int) -> Example:
        rng = self.key.random(split, index)
        owned = self.owns[split]
        state = None
        for _ in range(RARE_TRIES if self.held_out else TRIES):
            if self.written:
                state = rng.getstate()
            values, example = self._item(rng)
            if not owned(example.content):
                continue
            if self.held_out is None:
                return self._rewritten(example, values, state, split, index)
            withheld = self.held_out(example, values)
            if withheld == is_held_out_split(split):
                final = self._rewritten(example, values, state, split, index)
                return replace(final, traits={**final.traits, HELD_OUT: withheld})
        raise RecipeError(
            f"{self.task}: {RARE_TRIES if self.held_out else TRIES:,} draws gave nothing for the"
            f" split '{split}' that is not in another one; the task has too few different examples"
            " for these splits: widen a knob or ask for fewer splits"
        )

    def example(self) -> Example:
        """Make one example of no split: what the traits are called and how they are typed is seen
        from it.
        """
        item = self._item(self.key.random("probe"))[1]
        return replace(item, traits={**item.traits, HELD_OUT: False}) if self.held_out else item

    def _item(self, rng: Random) -> tuple[dict[str, Any], Example]:
        values = {name: draw(value, rng) for name, value in self.knobs.items()}
        return values, self.make(rng, **values)

    def _rewritten(
        self, item: Example, values: Mapping[str, Any], state: Any, split: str, index: int
    ) -> Example:
        """Write an item as the presentation knobs say: the same draws once more, with other values
        of those knobs.
        """
        if not self.written:
            return item
        rng = Random()
        rng.setstate(state)
        for name in self.knobs:
            draw(self.knobs[name], rng)
        chosen = {
            n: draw(v, self.key.child("presentation", n, split).random(index))
            for n, v in self.written.items()
        }
        example = self.make(rng, **{**values, **chosen})
        if example.traits != item.traits:
            trait = next(
                t
                for t in {**item.traits, **example.traits}
                if item.traits.get(t) != example.traits.get(t)
            )
            raise TaskloomError(
                f"{self.task}: {', '.join(chosen)} is declared as presentation but changes the"
                f" trait '{trait}'; declare it as world or draw, or draw the same random numbers"
                " whatever its value"
            )
        return replace(example, key=item.content)

    def check_held_out(self) -> None:
        """Raise, before anything is made, if the predicate is not a rule by which these splits can
        be filled.
        """
        if self.held_out is None:
            return
        counts, drawn = {True: 0, False: 0}, 0
        while drawn < PROBES and (drawn < PROBED or min(counts.values()) < FEWEST):
            rng = self.key.random("held out", drawn)
            values, example = self._item(rng)
            verdict = self.held_out(example, values)
            if self.held_out(example, values) != verdict:
                raise TaskloomError(
                    f"{self.task}: held_out gave both True and False for one example (input"
                    f" {example.input[:60]!r}); it must depend on nothing but what it is given"
                )
            counts[verdict] += 1
            drawn += 1
        for wanted, kind in ((True, "held out"), (False, "not held out")):
            asking = [split for split in self.owns if is_held_out_split(split) == wanted]
            if asking and counts[wanted] < FEWEST:
                count = (
                    f"{counts[wanted]:,} of {drawn:,} drawn examples are"
                    if counts[wanted]
                    else "no example is"
                )
                raise RecipeError(
                    f"{self.task}: {count} {kind}, so the split '{asking[0]}' cannot be filled; "
                    "change held_out or the values of the knobs"
                )


def draw(value: Any, rng: Random) -> Any:
    """Draw a knob's value for one example: itself, or a number from its range."""
    return (
        rng.randint(value.low, value.high)
        if hasattr(value, "low") and hasattr(value, "high")
        else value
    )
