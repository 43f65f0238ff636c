"""Any recipe as an environment of verifiers (its v1 interface): a taskset of examples whose reward
is the recipe's score.

    from taskloom.interop.verifiers import load_environment

    environment = load_environment(recipe="my-recipe.yaml", n=1000)

The tool's own commands find the taskset as `taskloom-recipes`. `export_verifiers` writes a dataset
as a separate package, which can be pushed to a hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from taskloom.core.extraction import ANSWER_FORMAT, DESCRIBED, EXTRACT
from taskloom.interop import need
from taskloom.interop.templates import export_package
from taskloom.recipe.overrides import Changes, changed_fields, given_changes

TASKSET = "taskloom-recipes"


def load_taskset(
    recipe: str,
    split: str | None = None,
    n: int | None = None,
    *,
    seed: int | None = None,
    changes: Changes = None,
    set: Changes = None,
    described: bool = DESCRIBED,
    extract: str = EXTRACT,
    role: str = "train",
    answer_format: str = ANSWER_FORMAT,
) -> Any:
    """Return the taskset of a recipe. Wrong names and settings raise here, before any rollout.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first one with the role.
        n: Number of examples. Default: all.
        seed: Seed of the samples. Default: the recipe's own.
        changes: Changes to the recipe's fields.
        set: Another name for `changes`.
        described: True if prompts begin with the description of their task.
        extract: How answers are extracted from replies.
        role: `train` or `test`, the role of the split if none is named.
        answer_format: Sentence after each input that asks for an answer format; empty: none.
    """
    _check()
    from taskloom_recipes import RecipeConfig, RecipeTaskset

    config = RecipeConfig(
        id=TASKSET,
        recipe=recipe,
        split=split,
        n=n,
        seed=seed,
        set=dict(changed_fields(given_changes(changes, set))),
        described=described,
        extract=extract,
        role=role,
        answer_format=answer_format,
    )
    config.open()
    return RecipeTaskset(config)


def load_environment(
    recipe: str, *, agent: Mapping[str, Any] | None = None, ask: bool = False, **settings: Any
) -> Any:
    """Return an environment with one agent that answers the examples of a recipe without tools.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        agent: Settings for verifiers' `AgentConfig`. Default: the harness without tools, on this
            machine.
        ask: True to hide the story, so that the agent requests its sentences one by one before it
            answers.
        settings: The other arguments of `load_taskset`.
    """
    taskset = load_taskset(recipe, **settings)
    from taskloom_recipes import RecipeEnv, RecipeEnvConfig

    defaults = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    settings_of_agent = {**defaults, **(agent or {})}
    return RecipeEnv(RecipeEnvConfig(taskset=taskset.config, agent=settings_of_agent, ask=ask))


def export_verifiers(
    folder: str | PathLike[str], out: str | PathLike[str], *, extract: str = EXTRACT
) -> str:
    """Write a dataset as an environment package, with the rows in it, and return its name.

    Args:
        folder: A dataset that Taskloom made.
        out: The folder of the package; it must not exist. Its name is that of the environment.
        extract: How answers are extracted from replies.
    """
    return export_package("verifiers", folder, out, extract)


def _check() -> Any:
    names = (
        "Env",
        "SingleAgentEnvConfig",
        "Task",
        "TaskData",
        "Taskset",
        "TasksetConfig",
        "reward",
    )
    return need("verifiers", "verifiers.v1", *names)
