"""Recipes as tasksets of verifiers: tasks, rewards, a rollout."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskloom.errors import TaskloomError
from tests.interop.cases import HOSTILE, MANY, RECIPES, expected, replies

vf = pytest.importorskip("verifiers.v1", reason="needs verifiers: make test-interop")

from taskloom.interop.verifiers import load_environment, load_taskset  # noqa: E402


def reward(task: Any, environment: Any, reply: object) -> tuple[float, str]:
    """Score a reply as the tool does after a rollout, and return the reward and the reason."""
    about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(task=about, agent=vf.AgentInfo(name="agent", config=environment.config.agent, model="none"))
    trace.root_reply = reply
    asyncio.run(task.score(trace))
    return trace.reward, trace.info["taskloom"]["reason"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_rewards_are_the_scores_of_taskloom(recipe: str) -> None:
    environment = load_environment(recipe, split=RECIPES[recipe], n=MANY, seed=4)
    graded = environment.taskset.config.open()
    examples, tasks = list(graded), list(environment.taskset)
    texts = [text.strip() for text in replies(examples, graded.plan.scorer)]  # the tool strips replies
    rewards = [reward(task, environment, text)[0] for task, text in zip(tasks, texts, strict=True)]
    assert rewards == expected(texts, examples, graded.plan.scorer, "final")
    assert 0.2 < sum(rewards) / MANY < 0.8


def test_tasks_carry_their_examples_and_keys_that_differ() -> None:
    taskset = load_taskset("babi/2", n=30)
    tasks = list(taskset.shuffle(seed=1).take(5))
    assert len({task.key for task in tasks}) == 5
    assert all(task.data.record["traits"]["support"] == 2 for task in tasks)
    assert all(task.data.prompt.startswith("Say where the object is") for task in tasks)
    assert [task.data.answer for task in taskset] == [e.target for e in taskset.config.open()]


def test_hostile_replies_get_no_reward_and_a_reason() -> None:
    environment = load_environment("babi/8", n=1)
    (task,) = environment.taskset
    for reply in HOSTILE:
        if isinstance(reply, str):
            value, reason = reward(task, environment, reply)
            assert value == 0
            assert reason


def test_a_wrong_recipe_is_refused_before_any_rollout() -> None:
    with pytest.raises(TaskloomError, match="did you mean 'babi/2'"):
        load_environment("babbi/2")
    with pytest.raises(TaskloomError, match="extract is 'lastline'"):
        load_environment("babi/2", extract="lastline")


def test_the_tool_finds_the_taskset_by_its_name() -> None:
    from verifiers.v1.utils.loaders import taskset_class

    assert taskset_class("taskloom-recipes").__name__ == "RecipeTaskset"
