"""Any recipe as an environment of verifiers (its v1 interface): a taskset of examples whose reward
is the recipe's score.

    from taskloom.interop.verifiers import load_environment

    environment = load_environment(recipe="my-recipe.yaml", n=1000)

The taskset is `taskloom-recipes` for the tool's own commands. `export_verifiers` writes a dataset as
a package of its own, which can be pushed to a hub.
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
    """Return the taskset of a recipe; a wrong name or setting raises here, before any rollout.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Which split; the first with the role by default.
        n: How many examples; all by default.
        seed: Of the samples; the recipe's own by default.
        changes: Changes of the recipe's fields.
        set: Another name for `changes`.
        described: Whether prompts begin with the description of their task.
        extract: How answers are cut out of replies.
        role: `train` or `test`: what the split is for, where none is named.
        answer_format: The sentence after each input that asks for a form; empty: none.
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
        agent: Settings of the agent, as verifiers' `AgentConfig` takes them; by default the
            tool-less harness on this machine.
        ask: Hide the story: the agent asks for its sentences one by one, then answers.
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
        extract: How answers are cut out of replies.
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
