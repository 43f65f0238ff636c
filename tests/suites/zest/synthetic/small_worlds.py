"""Small worlds of procedural ZEST, and the examples of one."""

from __future__ import annotations

from typing import Any

from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world

SMALL: dict[str, Any] = {"tasks": {"train": 60, "dev": 40, "test": 60}, "passages": 3}


def small(seed: int = 0, **changes: Any) -> TaskWorld:
    """Build a world of few tasks."""
    return task_world(ZestFields.model_validate(SMALL | changes), Key("small", seed))


def every_task(world: TaskWorld) -> list[tuple[str, DescribedTask]]:
    """List the tasks of all splits, each with its split."""
    return [(split, task) for split, tasks in world.splits.items() for task in tasks]


def examples(world: TaskWorld, *kinds: str) -> list[Example]:
    """Make all examples of a world, or those of some kinds of tasks."""
    tasks = [task for _, task in every_task(world) if not kinds or task.kind in kinds]
    return [world.example(task, i) for task in tasks for i in range(world.passages)]
