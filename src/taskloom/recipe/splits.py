"""Splits of a task that is a single function: which contents each split owns, which contents are
held out, and how rows are drawn.

Every split owns a fixed part of all contents, which depends only on the split's name. So a test
split does not change with the size of the training set or with other splits, and a smaller split is
a prefix of a larger one.
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
"""The part of all contents that each split with a standard name owns, in 32nds. Training owns half.
Held-out examples are rare in most tasks, so `ood` has the largest part of the rest.
"""

OTHERS = (30, 32)
"""Part shared by splits with other names, in the order of the recipe. The first gets 1/2 of it, the
next 1/6, then 1/12, and so on indefinitely, so that adding a split at the end does not change those
before it.
"""

TRIES = 10_000
"""Maximum draws for one example before the split is considered exhausted."""

RARE_TRIES = 100_000
"""The same for tasks with a held-out rule, for which as few as `FEWEST` of `PROBES` draws may be of
the kind that a split needs.
"""

PROBES, FEWEST, PROBED = 2_000, 10, 64
"""Numbers of examples drawn to test the held-out rule: `PROBED` at first, then more until there are
`FEWEST` of both kinds, up to `PROBES` in total.
"""

HELD_OUT = "held_out"
"""Name of the trait of every example in a task with a held-out rule."""

PARTS_OF_EXAMPLE = ("example", "traits", "derivation")
"""Arguments that a predicate may accept by name, in addition to the task's knobs."""

Owns = Callable[[str], bool]
"""Predicate: True if a content belongs to the split."""


def owners(names: Iterable[str], key: Key) -> dict[str, Owns]:
    """Return one predicate per split that is true for the contents it owns. Every content belongs
    to at most one split.
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
    """True if a split has only held-out examples. Other splits have none.

    >>> is_held_out_split("ood"), is_held_out_split("ood-long"), is_held_out_split("iid")
    (True, True, False)
    """
    return name.partition("-")[0] == "ood"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A rule that decides which examples of a task are held out.

    Attributes:
        task: The task's name.
        predicate: Function given by the task's author.
        parameters: Names of the predicate's arguments: knobs of the task, `example`, `traits` or
            `derivation`.
    """

    task: str
    predicate: Callable[..., object]
    parameters: tuple[str, ...]

    @classmethod
    def read(cls, task: str, predicate: object, knobs: Iterable[str]) -> HeldOut:
        """Check that a predicate accepts only available arguments."""
        knobs = list(knobs)
        offered = [*PARTS_OF_EXAMPLE, *knobs]
        if not callable(predicate):
            raise TaskloomError(
                f"{task}: held_out is {predicate!r}; use a function such as lambda length: length "
                "> 5"
            )
        try:
            parameters = tuple(inspect.signature(predicate).parameters)
        except ValueError as error:
            raise TaskloomError(
                f"{task}: held_out is {predicate!r}, whose parameters cannot be inspected"
            ) from error
        for name in parameters:
            if name not in offered:
                raise TaskloomError(
                    f"{task}: held_out has the parameter '{name}'; it may have: "
                    f"{', '.join(offered)}"
                )
            if name in PARTS_OF_EXAMPLE and name in knobs:
                raise TaskloomError(
                    f"{task}: held_out has the parameter '{name}', which is also a knob; rename "
                    "the knob"
                )
        if not parameters:
            raise TaskloomError(
                f"{task}: held_out has no parameters; it may have: {', '.join(offered)}"
            )
        return cls(task, predicate, parameters)

    def __call__(self, example: Example, knobs: Mapping[str, Any]) -> bool:
        """True if an example generated with these values of the knobs is held out."""
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
    """Rows of a task's splits for given values of its knobs.

    Attributes:
        task: Name of the task.
        make: Generates an example from a generator and knobs.
        knobs: Values or ranges for drawing items. Presentation knobs have their defaults here.
        written: Values or ranges of presentation knobs that differ from their defaults.
        key: Key of all random streams.
        owns: For every split, the predicate for the contents that it owns.
        held_out: The held-out rule, if the task declares one.
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
            f"{self.task}: {RARE_TRIES if self.held_out else TRIES:,} draws gave no example for "
            f"the split '{split}' that is not in another split; the task has too few distinct "
            "examples for these splits: widen a knob or request fewer splits"
        )

    def example(self) -> Example:
        """Generate an example outside of any split, to find the names and types of traits."""
        item = self._item(self.key.random("probe"))[1]
        return replace(item, traits={**item.traits, HELD_OUT: False}) if self.held_out else item

    def _item(self, rng: Random) -> tuple[dict[str, Any], Example]:
        values = {name: draw(value, rng) for name, value in self.knobs.items()}
        return values, self.make(rng, **values)

    def _rewritten(
        self, item: Example, values: Mapping[str, Any], state: Any, split: str, index: int
    ) -> Example:
        """Write an item again with its presentation knobs, by repeating the same draws with other
        values of these knobs.
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
                f"{self.task}: {', '.join(chosen)} is declared as presentation but changes the "
                f"trait '{trait}'; declare it as world or draw, or draw the same random numbers "
                "for all its values"
            )
        return replace(example, key=item.content)

    def check_held_out(self) -> None:
        """Check before generation that these splits can be filled under the held-out rule, and
        raise an error otherwise.
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
                    f"{self.task}: held_out returned both True and False for the same example "
                    f"(input {example.input[:60]!r}); it must depend only on its arguments"
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
    """Draw a knob's value for one example: the value itself, or a number from its range."""
    return (
        rng.randint(value.low, value.high)
        if hasattr(value, "low") and hasattr(value, "high")
        else value
    )
