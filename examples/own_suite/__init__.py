"""Walks on a grid: a suite in one folder. A recipe says how long the walks of a split are, so length can be held out.

`taskloom show examples/own_suite::walks/longer` and every other command know it; a package that names this module under the
entry point group `taskloom` needs no path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import taskloom as tl

STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


class Walks(tl.fields.Size):
    """One split: how many walks, and how many steps they have."""

    steps: tl.fields.Span = tl.fields.Span(2, 4)


class WalkFields(tl.fields.Fields):
    """The fields of a recipe; unknown keys are errors."""

    splits: dict[str, Walks] = tl.fields.draw()


def end_of(steps: Sequence[str]) -> str:
    """Walk step by step."""
    x = y = 0
    for step in steps:
        x, y = x + STEPS[step][0], y + STEPS[step][1]
    return f"{x} {y}"


def rows(
    key: tl.Key, split: str, part: Walks, belongs: Callable[[str], bool], start: int, stop: int
) -> Iterator[tl.Example]:
    """Yield the examples start..stop of a split; each depends on nothing but the key, the split and its index."""
    for index in range(start, stop):
        rng = key.random(split, str(part.steps), index)
        while not belongs(
            text := " ".join(
                rng.choices(list(STEPS), k=rng.randint(part.steps.low, part.steps.high))
            )
        ):
            pass
        yield tl.Example(text, end_of(text.split()), {"steps": len(text.split())}, task="walks/end")


def solve_by_counting(example: tl.Example) -> tuple[str, ...]:
    """Answer again in another way: the order of the steps does not matter."""
    count = example.input.split().count
    return (f"{count('east') - count('west')} {count('north') - count('south')}",)


def as_tsv(examples: Sequence[tl.Example], fields: WalkFields | None) -> tl.Export:
    """Return walks and their ends as tab-separated lines, for `taskloom export --format tsv`."""
    return tl.Export(f"{e.input}\t{e.target}\n" for e in examples)


EXPORTERS = {"tsv": as_tsv}


@tl.suite
class WalkSuite(tl.Suite):
    """Walks on a grid; `weave` is all that a suite needs, `exporters` is one of the things that it may offer."""

    name = "walks"
    describe = "Where a walk on a grid ends"
    fields = WalkFields
    exporters = EXPORTERS

    def weave(self, fields: WalkFields, key: tl.Key) -> tl.Plan:
        """Plan the splits of a recipe; no walk is in two of them, and no size of one moves another."""
        owns = tl.owners(fields.splits, key.child("split"))
        splits = tuple(
            tl.Split(name, part.n, partial(rows, key, name, part, owns[name]), tl.role_of(name))
            for name, part in fields.splits.items()
        )
        return tl.Plan(
            splits,
            {"steps": int},
            "Start at 0 0. Say where the walk ends.",
            check=solve_by_counting,
        )
