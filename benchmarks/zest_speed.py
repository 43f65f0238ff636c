"""CPU seconds of ZEST: making the default recipe, reading it again, and scoring 12,000 instances,
against their budgets.

Run: python benchmarks/zest_speed.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.plan import check
from taskloom.suites.zest.synthetic.task_world import task_world, zest_tasks

T = TypeVar("T")


def timed(what: str, budget: float, run: Callable[[], T]) -> T:
    start = time.process_time()
    result = run()
    seconds = time.process_time() - start
    print(f"{what:<52} {seconds:7.2f} s   budget {budget:5.1f} s   ratio {seconds / budget:.2f}")
    return result


def noisy(answer: str, rng: Random) -> str:
    """A prediction that is right, missing, superfluous or damaged."""
    return rng.choice(
        [answer, answer, answer.upper(), "n/a", "yes", answer[: len(answer) // 2], answer + " more"]
    )


def main() -> None:
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    fields = recipe.fields
    world = timed(
        "tasks of zest/synthetic (1,251)", 30, lambda: task_world(fields, Key(recipe.digest, 0))
    )
    examples = timed(
        "examples of zest/synthetic (25,020)",
        30,
        lambda: [
            world.example(t, i)
            for ts in world.splits.values()
            for t in ts
            for i in range(world.passages)
        ],
    )
    wrong = timed(
        "answers again by the independent reader (25,020)",
        30,
        lambda: [e for e in examples if check(e) != e.targets],
    )
    print(f"answers on which generator and reader differ: {len(wrong)} of {len(examples):,}")
    tasks = zest_tasks(world, "test")
    rng = Random(0)
    predictions = [noisy(str(i.answer), rng) for t in tasks for i in t.instances]
    for mode in ("official", "corrected"):
        timed(
            f"scoring {len(predictions):,} instances, {mode}",
            3,
            partial(score, tasks, predictions, mode),
        )


if __name__ == "__main__":
    main()
