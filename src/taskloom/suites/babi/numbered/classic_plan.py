"""From knobs and split sizes to a plan: what a recipe of one classic task comes down to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.plan import Plan, Split
from taskloom.scoring import AnyOf, Exact
from taskloom.seeding import Key
from taskloom.suites.babi.numbered import TASKS
from taskloom.suites.babi.numbered.knobs import TaskKnobs
from taskloom.suites.babi.show import show_derived

TRIES = 10_000
"""Stories drawn for one example before a split counts as exhausted."""

TRAITS: dict[str, type] = {
    "number": int,
    "question": str,
    "support": int,
    "supports": int,
    "support_lines": str,
    "sentences": int,
}


def plan(number: int, sizes: Mapping[str, int], key: Key, knobs: TaskKnobs | None = None) -> Plan:
    """The plan of one task.

    An example is one question of one story; it belongs to a split by the keyed hash of what its story tells, so no two splits share
    a story, in whatever wording.

    Args:
        number: 14 to 20.
        sizes: Examples in each split; `train` is learned from, the others are tests.
        key: Holds recipe digest and seed.
        knobs: Defaults follow the published files.
    """
    task = TASKS[number]
    chosen = knobs or task.knobs()
    shares = key.child("split").share(sizes)

    def rows(split: str) -> Callable[[int, int], Iterator[Example]]:
        belongs = shares[split]

        def make(start: int, stop: int) -> Iterator[Example]:
            for index in range(start, stop):
                rng = key.random(split, index)
                for _ in range(TRIES):
                    example = task.one(rng, chosen)
                    if belongs(example.content):
                        break
                else:
                    raise RecipeError(
                        f"babi/{number}: {TRIES} stories gave nothing for the split '{split}' that is not in another one; "
                        "widen a knob or ask for fewer splits"
                    )
                yield example

        return make

    return Plan(
        splits=tuple(Split(name, n, rows(name), "train" if name == "train" else "test") for name, n in sizes.items()),
        traits=TRAITS,
        describe=task.describe,
        scorer=AnyOf() if number == 19 else Exact(),
        answer=task.answer,
        check=task.check,
        show=show_derived,
    )
