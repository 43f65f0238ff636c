"""The default recipe, made once for all tests of the generator."""

from __future__ import annotations

import pytest

from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world


@pytest.fixture(scope="session")
def full() -> TaskWorld:
    """The tasks of the default recipe."""
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    return task_world(recipe.fields, Key(recipe.digest, 0))


@pytest.fixture(
    scope="session", params=[10, pytest.param(1, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def full_examples(full: TaskWorld, request: pytest.FixtureRequest) -> dict[str, list[Example]]:
    """Examples of the default recipe: every tenth of the 20 passages of each task, or all of
    them.
    """
    numbers = range(0, full.passages, request.param)
    return {
        split: [full.example(task, i) for task in tasks for i in numbers]
        for split, tasks in full.splits.items()
    }
