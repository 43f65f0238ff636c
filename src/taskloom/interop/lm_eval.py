"""A dataset as tasks of lm-evaluation-harness: YAML files, the rows, and a small module that scores
by the recipe's scorer.

    taskloom export my-data --format lm-eval -o tasks/
    lm_eval --include_path tasks --tasks taskloom_my_data --model hf --model_args pretrained=…

If there are few possible answers (`Yes`, eight symbols), a task has two variants: a choice of the
most likely answer, for models with likelihoods, and `…_generative` for chat models. All other tasks
generate. Every split is a task, and the splits of a dataset are a group. For each trait with few
values, the parts of a split by that trait are a group, too. The texts of the files are in
`templates/lm_eval`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import yaml

from taskloom.core.descriptions import Describer
from taskloom.core.errors import ParameterError, nearest
from taskloom.core.example import Example
from taskloom.core.extraction import EXTRACT, chat_prompt, shown_answer
from taskloom.core.files import path_of
from taskloom.data.dataset import Dataset, load
from taskloom.interop import need
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.interop.templates import (
    copy_dataset,
    dataset_values,
    export_folder,
    fill,
    made_dataset,
)

Variant = Literal["choice", "generation"]

VARIANTS: dict[str, tuple[Variant, ...]] = {
    "choice": ("choice",),
    "generation": ("generation",),
    "both": ("choice", "generation"),
}
"""Variants of a task by their option value."""

MOST_CHOICES = 32
"""Maximum answers to choose from, because each costs a forward pass."""

MOST_VALUES = 12
"""Maximum values of a trait by which a split is divided into tasks."""

METRICS = {"choice": ("acc", "acc_norm"), "generation": ("score",)}

LINE = "line"
"""Extraction for models that continue a prompt. All others are for chat models."""


@dataclass(frozen=True, slots=True)
class LmEvalTasks:
    """Result of an export.

    Attributes:
        folder: Folder for `--include_path`.
        groups: For each variant, the group of all splits, for `--tasks`.
        tasks: The task of each split and variant.
        by_trait: The groups of parts, by split and trait.
        choices: The possible answers; empty if there is no choice variant.
    """

    folder: Path
    groups: tuple[str, ...]
    tasks: tuple[str, ...]
    by_trait: tuple[str, ...]
    choices: tuple[str, ...]


def export_lm_eval(
    folder: str | PathLike[str],
    out: str | PathLike[str],
    *,
    extract: str = EXTRACT,
    variants: str = "both",
) -> LmEvalTasks:
    """Write the tasks of a dataset.

    Args:
        folder: A dataset that Taskloom made; its rows are copied.
        out: Output folder, which may already contain tasks of other datasets.
        extract: How answers are extracted from generated text; see
            `taskloom.core.extraction.KINDS`. With `line`, the answer continues the prompt, for
            models that were not trained to chat. All others use the prompt that all bridges share.
        variants: `choice`, `generation` or `both`. Datasets with many answers have no choice
            variant.
    """
    if variants not in VARIANTS:
        raise ParameterError("as", f"is '{variants}'; {nearest(variants, VARIANTS)}")
    data = made_dataset(folder)
    shared = dataset_values(data, extract)
    name = f"taskloom_{_word(data.manifest['recipe']['name'])}"
    place = path_of(out) / name
    choices = closed_answers(data)
    if variants == "choice" and not choices:
        raise ParameterError(
            "as",
            f"is choice, which needs 2 to {MOST_CHOICES} answers and ten rows per answer; use"
            f" generation for {folder}",
        )
    files: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    by_trait: list[str] = []
    written = [v for v in VARIANTS[variants] if choices or v == "generation"]
    for variant in written:
        # The suffix depends only on the data, so a name has the same meaning in every export.
        group = f"{name}_generative" if choices and variant == "generation" else name
        parts = _variant_files(data, group, variant)
        files |= parts.files
        groups[group] = parts.tasks
        by_trait += parts.by_trait
    with export_folder(place) as beside:
        copy_dataset(folder, beside / "data")
        for file, content in files.items():
            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
            (beside / f"{file}.yaml").write_text(text, encoding="utf-8")
        values = {**shared, **_template_values(data, name, choices, extract)}
        values["tasks"] = _listed(groups)
        for variant in written:
            # The file has no suffix .yaml, because the harness would then load it as a task.
            text = fill(f"lm_eval/{variant}_yaml.txt", values)
            (beside / f"_{variant}_yaml").write_text(text, encoding="utf-8")
        for file in ("utils.py", "README.md"):
            text = fill(f"lm_eval/{file}.txt", values)
            (beside / file).write_text(text, encoding="utf-8")
    tasks = [task for some in groups.values() for task in some]
    kept = choices if "choice" in written else ()
    return LmEvalTasks(path_of(out), tuple(groups), tuple(tasks), tuple(by_trait), kept)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The files of one variant, and the names of its tasks and of its groups by trait."""

    files: dict[str, Any]
    tasks: list[str]
    by_trait: list[str]


def _variant_files(data: Dataset, group: str, variant: Variant) -> _Parts:
    """Build the tasks of one variant: each includes the variant's template."""
    sizes = data.manifest["splits"]
    tested = [s for s in data.splits if data.role(s) == "test" and sizes[s]["n"]]
    train = next((s for s in data.splits if data.role(s) == "train" and sizes[s]["n"]), "")
    files: dict[str, Any] = {}
    names = {split: f"{group}_{_word(split)}" for split in tested or data.splits[:1]}
    by_trait = []
    for split, name in names.items():
        rows = {"split": split, "train": train}
        files[name] = _task(name, variant, rows)
        for trait, values in _small_traits(data, split).items():
            parts = {value: f"{name}_{trait}_{_word(value)}" for value in values}
            if len(set(parts.values())) < len(parts):
                # two values would have the same task name, so there are no tasks for this trait
                continue
            for value, part in parts.items():
                files[part] = _task(part, variant, {**rows, "trait": trait, "value": value})
            by_trait.append(f"{name}_by_{trait}")
            files[f"{by_trait[-1]}_group"] = _group(by_trait[-1], list(parts.values()), variant)
    files[f"{group}_group"] = _group(group, list(names.values()), variant)
    return _Parts(files, list(names.values()), by_trait)


def _task(name: str, variant: Variant, rows: Mapping[str, Any]) -> dict[str, Any]:
    return {"task": name, "include": f"_{variant}_yaml", "dataset_kwargs": dict(rows)}


def _group(name: str, tasks: list[str], variant: Variant) -> dict[str, Any]:
    means = [
        {"metric": metric, "aggregation": "mean", "weight_by_size": True}
        for metric in METRICS[variant]
    ]
    return {
        "group": name,
        "task": tasks,
        "aggregate_metric_list": means,
        "metadata": {"version": 2.0},
    }


def _template_values(
    data: Dataset, name: str, choices: Sequence[str], extract: str
) -> dict[str, Any]:
    """The values of the templates."""
    manifest = data.manifest
    line = extract == LINE
    trained = any(data.role(s) == "train" and manifest["splits"][s]["n"] for s in data.splits)
    return {
        "group": name,
        "choices": json.dumps(choices, ensure_ascii=False),
        "fewshot": "fewshot_split: train" if trained else "",
        # The harness fills in the braces. A JSON string is also a YAML string.
        "form": json.dumps("\nAnswer:" if line else chat_prompt(""))[1:-1],
        "target": "{{target}}" if line else json.dumps(shown_answer("{{target}}"))[1:-1],
        "delimiter": " " if line else "\\n",
        "until": json.dumps(["\n"] if line else []),
        "tokens": 64 if line else 1024,
    }


def _listed(groups: Mapping[str, Sequence[str]]) -> str:
    """The groups with their tasks, as a list in Markdown."""
    return "\n".join(f"* `{group}`: `{'`, `'.join(tasks)}`" for group, tasks in groups.items())


def _word(value: object) -> str:
    """Convert a value to a part of a task's name."""
    return re.sub(r"\W+", "_", str(value)).strip("_") or "none"


def closed_answers(data: Dataset) -> tuple[str, ...]:
    """All answers of a dataset, if there are at most `MOST_CHOICES`, with ten rows per answer on
    average. Otherwise none.
    """
    answers: set[str] = set()
    rows = 0
    for split in data.splits:
        column = data.table(split).column("targets").to_pylist()
        rows += len(column)
        for targets in column:
            answers.update(targets)
            if len(answers) > MOST_CHOICES:
                return ()
    return tuple(sorted(answers)) if len(answers) > 1 and rows >= 10 * len(answers) else ()


def _small_traits(data: Dataset, split: str) -> dict[str, list[Any]]:
    """Traits of a split with two to a dozen values, and these values."""
    table = data.table(split)
    if "traits" not in table.column_names:
        return {}
    rows = table.column("traits").to_pylist()
    values = {trait: {row[trait] for row in rows} - {None} for trait in (rows[0] if rows else {})}
    return {trait: sorted(some) for trait, some in values.items() if 1 < len(some) <= MOST_VALUES}


# Called by the exported module


@lru_cache(maxsize=32)
def _opened(folder: Path, extract: str) -> GradedSplit:
    return open_split(folder, extract=extract)


def documents(
    folder: Path,
    *,
    split: str,
    train: str = "",
    trait: str = "",
    value: Any = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return the rows of a split as documents of the harness: the split as `test`, and few-shot
    examples as `train`.

    Args:
        folder: The dataset.
        split: The split to test.
        train: The split of few-shot examples.
        trait: Use only rows in which this trait has the given value.
        value: The value of the trait.
        metadata: Further values that the harness passes.
    """
    datasets = need("datasets", "datasets", "Dataset")
    data = load(folder)
    answers = closed_answers(data)
    describer = Describer(data.recipe.plan(data.manifest["seed"]), "instruction")
    is_described = bool(data.recipe.described)

    def description(example: Example) -> str:
        # The harness puts it before the few-shot examples, or into the system message.
        if is_described:
            return ""
        return describer.described(example).input.removesuffix(example.input)

    def rows(name: str, only: str = "") -> Any:
        examples = [e for e in data[name] if not only or e.traits.get(only) == value]
        documents = [
            {
                "description": description(e),
                "input": e.input,
                "target": e.target,
                "choice": answers.index(e.target) if answers else -1,
                "record": json.dumps(to_record(e), ensure_ascii=False),
            }
            for e in examples
        ]
        return datasets.Dataset.from_list(documents)

    if split not in data:
        raise ParameterError("split", f"is '{split}'; the dataset has {', '.join(data.splits)}")
    return {"test": rows(split, trait), **({"train": rows(train)} if train else {})}


def score(
    folder: Path, doc: Mapping[str, Any], results: Sequence[Any], *, extract: str = EXTRACT
) -> dict[str, float]:
    """Score generated text."""
    example = from_record(json.loads(doc["record"]))
    reply = results[0] if results else None
    return {"score": _opened(folder, extract).grade(reply, example).score}


def choose(folder: Path, doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, float]:
    """Score the model's most likely answer, and its most likely one per character."""
    scorer = _opened(folder, LINE).plan.scorer
    answers = closed_answers_of(folder)
    example = from_record(json.loads(doc["record"]))
    sums = [float(result[0]) for result in results[: len(answers)]]
    means = [total / len(answer) for total, answer in zip(sums, answers, strict=True)]
    return {
        "acc": scorer.score(answers[sums.index(max(sums))], example),
        "acc_norm": scorer.score(answers[means.index(max(means))], example),
    }


@lru_cache(maxsize=32)
def closed_answers_of(folder: Path) -> tuple[str, ...]:
    """The answers to choose from."""
    return closed_answers(load(folder))
