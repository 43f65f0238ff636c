"""Every recipe as a task of Inspect, with the recipe's scorer and its metrics by trait.

    inspect eval taskloom/SUITE-NAME -T n=200 -T split=ood --model …
    inspect eval taskloom/recipe -T recipe=my-recipe.yaml --model …

Inspect finds the tasks by its entry point `inspect_ai`, which asks this module for `registered`.
The name of a task is that of its recipe with `-` for `/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from os import PathLike
from typing import Any

from taskloom.core.errors import ParameterError
from taskloom.core.example import Example
from taskloom.core.extraction import (
    ANSWER_FORMAT,
    DESCRIBED,
    EXTRACT,
    chat_prompt,
    shown_answer,
)
from taskloom.interop import need
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.interop.templates import export_package
from taskloom.recipe.overrides import Changes, changed_fields, given_changes
from taskloom.recipe.recipe import names as recipe_names

RECORD = "taskloom"
"""Key of a sample's metadata with the example for scoring. Traits have separate keys."""

CLUSTER = "taskloom_task"
"""Key of a sample's metadata with its task, if the split has several tasks."""

REASONING = "Think step by step before you answer."
"""Sentence that asks for reasoning. It precedes the one that asks for an answer format."""

MOST_GROUPS = 12
"""Maximum values of a trait by which metrics are grouped."""


@lru_cache(maxsize=1)
def register() -> dict[str, Callable[..., Any]]:
    """Register the scorer and a task for every recipe with Inspect, and return the tasks by
    name.
    """
    inspect_ai = need("inspect-ai", "inspect_ai", "Task", "task")
    build_scorer()
    tasks = {"recipe": _task_of("")}
    tasks |= {name.replace("/", "-"): _task_of(name) for name in recipe_names()}
    return {name: inspect_ai.task(name=name)(function) for name, function in tasks.items()}


def __getattr__(name: str) -> Any:
    if name == "registered":
        return register()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _task_of(default: str) -> Callable[..., Any]:
    """A function that builds the task of a recipe. Inspect reads its parameters for `-T`, so they
    are those of `recipe_to_task`, spelt out.
    """

    def recipe_task(
        recipe: str = default,
        split: str | None = None,
        n: int | None = None,
        seed: int | None = None,
        set: str | list[str] | dict[str, Any] | None = None,
        described: bool = DESCRIBED,
        extract: str = EXTRACT,
        by: str | list[str] | None = None,
        epochs: int = 1,
        changes: str | list[str] | dict[str, Any] | None = None,
        answer_format: str = ANSWER_FORMAT,
        fewshot: int = 0,
        system: str = "",
        reasoning: bool = False,
    ) -> Any:
        return recipe_to_task(
            recipe,
            split,
            n,
            seed,
            set=set,
            described=described,
            extract=extract,
            by=by,
            epochs=epochs,
            changes=changes,
            answer_format=answer_format,
            fewshot=fewshot,
            system=system,
            reasoning=reasoning,
        )

    return recipe_task


def recipe_to_task(
    recipe: str,
    split: str | None = None,
    n: int | None = None,
    seed: int | None = None,
    set: str | list[str] | Mapping[str, Any] | None = None,
    described: bool = DESCRIBED,
    extract: str = EXTRACT,
    by: str | list[str] | None = None,
    epochs: int = 1,
    changes: str | list[str] | Mapping[str, Any] | None = None,
    answer_format: str = ANSWER_FORMAT,
    fewshot: int = 0,
    system: str = "",
    reasoning: bool = False,
) -> Any:
    """Build the Inspect `Task` of a recipe.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Name of the split. Default: the first test split.
        n: Number of examples. Default: all.
        seed: Seed of the samples. Default: the recipe's own.
        set: Another name for `changes`.
        described: True if inputs begin with the description of their task.
        extract: How answers are extracted from replies.
        by: Traits by which metrics are grouped. Default: every trait with two to a dozen values.
        epochs: Number of times that each sample is answered.
        changes: Changes to the recipe's fields, as `--set` takes them.
        answer_format: Sentence after each input that asks for an answer format; empty: none.
        fewshot: Number of examples of the training split to show as earlier turns.
        system: The system message; empty: none.
        reasoning: True to ask the model to think step by step before it answers.
    """
    need("inspect-ai", "inspect_ai", "Task")
    from inspect_ai import Epochs, Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
    from inspect_ai.solver import generate

    where: dict[str, Any] = {
        "recipe": recipe,
        "split": split,
        "n": n,
        "seed": seed,
        "set": dict(changed_fields(given_changes(_listed(changes), _listed(set)))),
        "described": described,
    }
    graded = _opened(**where, extract=extract)
    tasks = clusters_of(graded)

    def prompt(example: Example) -> str:
        text = f"{example.input}\n\n{REASONING}" if reasoning else example.input
        return chat_prompt(text, answer_format)

    before: list[Any] = [ChatMessageSystem(content=system)] if system else []
    for example in _shown_examples(where, fewshot):
        before.append(ChatMessageUser(content=prompt(example)))
        before.append(ChatMessageAssistant(content=shown_answer(example.target, answer_format)))
    samples = []
    for index, example in enumerate(graded):
        metadata = {**example.traits, RECORD: to_record(example)}
        if tasks:
            metadata[CLUSTER] = example.task
        text = prompt(example)
        sample = Sample(
            input=[*before, ChatMessageUser(content=text)] if before else text,
            target=list(example.targets),
            id=f"{graded.split}-{index}",
            metadata=metadata,
        )
        samples.append(sample)
    name = f"{graded.name}, {graded.split}"
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=generate(),
        scorer=build_scorer()(**where, extract=extract),
        metrics=_metrics(graded, [by] if isinstance(by, str) else by),
        epochs=Epochs(epochs, "mean"),
        metadata={
            "recipe": graded.name,
            "split": graded.split,
            "seed": graded.seed,
            "scorer": graded.plan.scorer.name,
        },
    )


def export_inspect(
    folder: str | PathLike[str], out: str | PathLike[str], *, extract: str = EXTRACT
) -> str:
    """Write a dataset as a package with a `@task` function and the rows, and return its name.

    Args:
        folder: A dataset that Taskloom made.
        out: The folder of the package; it must not exist. Its name is that of the package.
        extract: How answers are extracted from replies.
    """
    return export_package("inspect", folder, out, extract)


def _shown_examples(where: Mapping[str, Any], number: int) -> list[Example]:
    """The first examples of the training split."""
    if number == 0:
        return []
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ParameterError("fewshot", f"must be a whole number of at least 0, not {number!r}")
    shown = open_split(
        where["recipe"],
        n=number,
        seed=where["seed"],
        changes=where["set"],
        described=where["described"],
        role="train",
    )
    if shown.plan.split(shown.split).role != "train":
        raise ParameterError(
            "fewshot", f"is {number}, and {shown.name} has no training split to show examples from"
        )
    return list(shown)


def _listed(changes: str | list[str] | Mapping[str, Any] | None) -> Changes:
    """Put a single change into a list, because Inspect's `-T` passes it as a text."""
    return [changes] if isinstance(changes, str) else changes


_cache: dict[str, GradedSplit] = {}
"""Opened splits. The task and its scorer both need them, and Inspect calls the scorer
separately.
"""


def _opened(
    recipe: str,
    split: str | None,
    n: int | None,
    seed: int | None,
    set: dict[str, Any],
    described: bool,
    extract: str,
) -> GradedSplit:
    key = repr((recipe, split, n, seed, set, described, extract))
    if key not in _cache:
        _cache[key] = open_split(
            recipe, split, n, seed=seed, changes=set, described=described, extract=extract
        )
    return _cache[key]


@lru_cache(maxsize=1)
def build_scorer() -> Callable[..., Any]:
    """Build the scorer for Inspect. Its arguments identify the recipe, so that logs can be
    rescored.
    """
    need("inspect-ai", "inspect_ai.scorer", "Score", "grouped", "mean", "scorer", "stderr")
    from inspect_ai.scorer import Score, mean, scorer, stderr

    def recipe_score(
        recipe: str,
        split: str | None = None,
        n: int | None = None,
        seed: int | None = None,
        set: dict[str, Any] | None = None,
        described: bool = DESCRIBED,
        extract: str = EXTRACT,
    ) -> Any:
        graded = _opened(recipe, split, n, seed, set or {}, described, extract)

        async def score(state: Any, target: Any) -> Any:
            grade = graded.grade(state.output.completion, from_record(state.metadata[RECORD]))
            return Score(value=grade.score, answer=grade.answer, explanation=grade.reason)

        return score

    built: Callable[..., Any] = scorer(metrics=[mean(), stderr()], name="taskloom")(recipe_score)
    return built


def _metrics(graded: GradedSplit, by: list[str] | None) -> list[Any]:
    """Mean and standard error over all samples and by trait.

    Samples of one task are not independent, so the error is clustered by task if there are several.
    """
    from inspect_ai.scorer import grouped, mean, stderr

    def error(groups: Mapping[Any, set[str]]) -> Any:
        # The clustered error is undefined if all samples of a group have the same task.
        if all(len(tasks) > 1 for tasks in groups.values()):
            return stderr(cluster=CLUSTER)
        return stderr()

    is_clustered = bool(clusters_of(graded))
    metrics = [mean(), stderr(cluster=CLUSTER) if is_clustered else stderr()]
    for trait in small_traits(graded) if by is None else by:
        groups: dict[Any, set[str]] = {}
        for example in graded:
            groups.setdefault(example.traits.get(trait), set()).add(example.task)
        spread = error(groups) if is_clustered else stderr()
        for metric, name in ((mean(), "mean"), (spread, "stderr")):
            metrics.append(
                grouped(metric, trait, all=False, name_template=f"{trait}={{group_name}} {name}")
            )
    return metrics


def clusters_of(graded: GradedSplit) -> set[str]:
    """The tasks of a split, if there are several and one of them has several examples."""
    tasks = {example.task for example in graded}
    return tasks if 1 < len(tasks) < len(graded) else set()


def small_traits(graded: GradedSplit) -> list[str]:
    """Traits that every example has, with two to a dozen values."""
    values: dict[str, set[Any]] = {}
    counts: dict[str, int] = {}
    for example in graded:
        for trait, value in example.traits.items():
            values.setdefault(trait, set()).add(value)
            counts[trait] = counts.get(trait, 0) + 1
    return [
        t for t, some in values.items() if 1 < len(some) <= MOST_GROUPS and counts[t] == len(graded)
    ]
