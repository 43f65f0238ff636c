"""The default recipe, made once for all tests of the generator."""

from __future__ import annotations

import pytest

from taskloom.example import Example
from taskloom.recipe import read
from taskloom.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world

STRIDE = 10
"""Of the 20 passages of each task every tenth is made; `--nightly` makes all."""


@pytest.fixture(scope="session")
def full() -> TaskWorld:
    """The tasks of the default recipe."""
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    return task_world(recipe.fields, Key(recipe.digest, 0))


@pytest.fixture(scope="session")
def full_examples(full: TaskWorld, request: pytest.FixtureRequest) -> dict[str, list[Example]]:
    """The examples of the default recipe: two of each task, or all of them."""
    stride = 1 if request.config.getoption("--nightly") else STRIDE
    numbers = range(0, full.passages, stride)
    return {split: [full.example(task, i) for task in tasks for i in numbers] for split, tasks in full.splits.items()}
