"""Every recipe as a task of Inspect, with the recipe's scorer and its metrics by trait.

    inspect eval taskloom/SUITE-NAME -T n=200 -T split=ood --model …
    inspect eval taskloom/recipe -T recipe=my-recipe.yaml --model …

Inspect finds the tasks by its entry point `inspect_ai`, which asks this module for `registered`.
The name of a task is that of its recipe with `-` for `/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from taskloom.core.extraction import ANSWER_FORMAT, DESCRIBED, EXTRACT, chat_prompt
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.interop.packages import need
from taskloom.recipe.overrides import Changes, changed_fields, given_changes
from taskloom.recipe.recipe import names as recipe_names

RECORD = "taskloom"
"""The key of a sample's metadata under which scoring finds the example; traits stand beside it by
their names.
"""

MOST_GROUPS = 12
"""Values of a trait up to which metrics are grouped by it."""


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
    ) -> Any:
        asked = (set, described, extract, by, epochs, changes, answer_format)
        return recipe_to_task(recipe, split, n, seed, *asked)

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
) -> Any:
    """Return the `Task` of a recipe.

    Args:
        recipe: A recipe's name or file, or the folder of a dataset.
        split: Which split; the first test split by default.
        n: How many examples; all by default.
        seed: Of the samples; the recipe's own by default.
        set: Another name for `changes`.
        described: Whether inputs begin with the description of their task.
        extract: How answers are cut out of replies.
        by: Traits that metrics are grouped by; by default every trait with two to a dozen values.
        epochs: How often each sample is answered.
        changes: Changes of the recipe's fields, as `--set` takes them.
        answer_format: The sentence after each input that asks for a form; empty: none.
    """
    need("inspect-ai", "inspect_ai", "Task")
    from inspect_ai import Epochs, Task
    from inspect_ai.dataset import MemoryDataset, Sample
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
    samples = [
        Sample(
            input=chat_prompt(example.input, answer_format),
            target=list(example.targets),
            id=f"{graded.split}-{index}",
            metadata={**example.traits, RECORD: to_record(example)},
        )
        for index, example in enumerate(graded)
    ]
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


def _listed(changes: str | list[str] | Mapping[str, Any] | None) -> Changes:
    """Return changes as Python has them; Inspect's `-T` gives a single one as text."""
    return [changes] if isinstance(changes, str) else changes


_cache: dict[str, GradedSplit] = {}


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
    """Return the scorer of recipes as Inspect registers it: its arguments name the recipe, so that
    a log can be scored again.
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
    """Return mean and standard error, of all samples and by each trait."""
    from inspect_ai.scorer import grouped, mean, stderr

    metrics = [mean(), stderr()]
    for trait in small_traits(graded) if by is None else by:
        for metric, name in ((mean(), "mean"), (stderr(), "stderr")):
            metrics.append(
                grouped(metric, trait, all=False, name_template=f"{trait}={{group_name}} {name}")
            )
    return metrics


def small_traits(graded: GradedSplit) -> list[str]:
    """Return the traits that every example has, with two to a dozen values."""
    values: dict[str, set[Any]] = {}
    counts: dict[str, int] = {}
    for example in graded:
        for trait, value in example.traits.items():
            values.setdefault(trait, set()).add(value)
            counts[trait] = counts.get(trait, 0) + 1
    return [
        t for t, some in values.items() if 1 < len(some) <= MOST_GROUPS and counts[t] == len(graded)
    ]
