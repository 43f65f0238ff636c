"""A dataset as tasks of lm-evaluation-harness: YAML files, the rows, and a small module that scores
by the recipe's scorer.

    taskloom export my-data --format lm-eval -o tasks/
    lm_eval --include_path tasks --tasks taskloom_my_data --model hf --model_args pretrained=…

Answers that are few and known (`Yes`, eight symbols) make a multiple-choice task, all others a
generation task; `--extract final` makes a generation task of both, for chat models. Every split is
a task; the splits of the dataset are a group, and so are, for each trait with few values, the parts
of a split by that trait.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from taskloom.core.arguments import path_of
from taskloom.core.errors import DataError, ParameterError
from taskloom.core.extraction import Extraction, chat_prompt
from taskloom.core.files import atomic_folder
from taskloom.data.dataset import MANIFEST, Dataset, load
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.interop.packages import need

MOST_CHOICES = 32
"""Different answers of a dataset up to which it is a multiple-choice task: every choice costs a
pass of the model.
"""

MOST_VALUES = 12
"""Values of a trait up to which its parts are tasks of their own."""

METRIC = "score"

LINE = "line"
"""The extraction for models that continue a prompt; all others are for chat models."""

MODULE = '''"""Rows and scores of {name}, by Taskloom: pip install taskloom."""

from pathlib import Path

from taskloom.interop import lm_eval

FOLDER = Path(__file__).parent / "{data}"
EXTRACT = "{extract}"


def rows(**settings):
    return lm_eval.documents(FOLDER, **settings)


def score(doc, results):
    return lm_eval.score(FOLDER, doc, results, extract=EXTRACT)
'''


@dataclass(frozen=True, slots=True)
class LmEvalTasks:
    """What was written.

    Attributes:
        folder: What `--include_path` takes.
        group: The group of all splits, what `--tasks` takes.
        tasks: The task of each split.
        by_trait: The groups of parts, by split and trait.
        choices: The answers to choose from; empty for a generation task.
    """

    folder: Path
    group: str
    tasks: tuple[str, ...]
    by_trait: tuple[str, ...]
    choices: tuple[str, ...]


def export_lm_eval(
    folder: str | PathLike[str], out: str | PathLike[str], *, extract: str = LINE
) -> LmEvalTasks:
    """Write the tasks of a dataset.

    Args:
        folder: A dataset that Taskloom made; its rows are copied.
        out: Where the tasks go; a folder that may hold those of other datasets.
        extract: How answers are cut out of what a model generates: see
            `taskloom.core.extraction.KINDS`. `line`: the answer continues the prompt, and few
            known answers make a multiple-choice task; others: a generation task for chat models,
            with the prompt of all bridges.
    """
    Extraction.read(extract)
    if not (path_of(folder) / MANIFEST).is_file():
        raise DataError(
            f"{folder} is not a Taskloom dataset; make one with 'taskloom make RECIPE -o {folder}'"
        )
    data = load(path_of(folder))
    _ = data.recipe  # the scorer is the recipe's, so its code must be known
    group = f"taskloom_{_word(data.manifest['recipe']['name'])}"
    place = path_of(out) / group
    if place.exists():
        raise DataError(f"{place} exists already; remove it, or name another folder")
    tested = [
        s for s in data.splits if data.role(s) == "test" and data.manifest["splits"][s]["n"]
    ] or data.splits[:1]
    choices = closed_answers(data) if extract == LINE else ()
    files: dict[str, Any] = {}
    names = {split: f"{group}_{_word(split)}" for split in tested}
    for split, name in names.items():
        files[name] = _task(name, group, data, split, choices, extract)
    by_trait = {}
    for split, name in names.items():
        for trait, values in _small_traits(data, split).items():
            parts = {value: f"{name}_{trait}_{_word(value)}" for value in values}
            if len(set(parts.values())) < len(parts):
                continue  # values that are one name: such a trait has no tasks of its own
            for value, part in parts.items():
                files[part] = _task(part, group, data, split, choices, extract, trait, value)
            by_trait[f"{name}_by_{trait}"] = list(parts.values())
    files[f"{group}_group"] = _group(group, list(names.values()))
    files |= {f"{name}_group": _group(name, parts) for name, parts in by_trait.items()}
    with atomic_folder(place) as beside:
        shutil.copytree(
            path_of(folder),
            beside / f"{group}_data",
            ignore=shutil.ignore_patterns("*.jsonl", "*.lock", "*.tmp"),
        )
        for name, content in files.items():
            (beside / f"{name}.yaml").write_text(_yaml(content, group), encoding="utf-8")
        module = MODULE.format(
            name=data.manifest["recipe"]["name"],
            data=f"{group}_data",
            extract=extract.replace("\\", "\\\\").replace('"', '\\"'),
        )
        (beside / f"{group}_rows.py").write_text(module, encoding="utf-8")
    return LmEvalTasks(path_of(out), group, tuple(names.values()), tuple(by_trait), choices)


def _word(value: object) -> str:
    """Return a value as a part of a task's name."""
    return re.sub(r"\W+", "_", str(value)).strip("_") or "none"


def closed_answers(data: Dataset) -> tuple[str, ...]:
    """Return all answers of a dataset where they are few, and each is a row's whole answer; else
    none.
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
    """Return the traits of a split that have from two to a dozen values, with their values."""
    table = data.table(split)
    if "traits" not in table.column_names:
        return {}
    rows = table.column("traits").to_pylist()
    values = {trait: {row[trait] for row in rows} - {None} for trait in (rows[0] if rows else {})}
    return {trait: sorted(some) for trait, some in values.items() if 1 < len(some) <= MOST_VALUES}


def _task(
    name: str,
    group: str,
    data: Dataset,
    split: str,
    choices: Sequence[str],
    extract: str,
    trait: str = "",
    value: Any = None,
) -> dict[str, Any]:
    train = next(
        (s for s in data.splits if data.role(s) == "train" and data.manifest["splits"][s]["n"]), ""
    )
    return {
        "task": name,
        "custom_dataset": "!function rows",
        "dataset_path": group,
        "dataset_kwargs": {
            "split": split,
            "train": train,
            **({"trait": trait, "value": value} if trait else {}),
        },
        "test_split": "test",
        **({"fewshot_split": "train"} if train else {}),
        "output_type": "multiple_choice" if choices else "generate_until",
        "doc_to_text": "{{input}}\nAnswer:" if extract == LINE else chat_prompt("{{input}}"),
        "doc_to_target": "{{choice}}" if choices else "{{target}}",
        **(
            {"doc_to_choice": list(choices)}
            if choices
            else {"generation_kwargs": _generation(extract)}
        ),
        "process_results": "!function score",
        "metric_list": [{"metric": METRIC, "aggregation": "mean", "higher_is_better": True}],
        "metadata": {
            "version": 1.0,
            "digest": data.digest,
            "recipe": str(data.manifest["recipe"]["name"]),
            "seed": data.manifest["seed"],
        },
    }


def _generation(extract: str) -> dict[str, Any]:
    """Return when generation ends: a line is enough where the first line is the answer."""
    line = extract == LINE
    return {
        "until": ["\n"] if line else [],
        "max_gen_toks": 64 if line else 1024,
        "do_sample": False,
    }


def _group(name: str, tasks: list[str]) -> dict[str, Any]:
    mean = [{"metric": METRIC, "aggregation": "mean", "weight_by_size": True}]
    return {
        "group": name,
        "task": tasks,
        "aggregate_metric_list": mean,
        "metadata": {"version": 1.0},
    }


def _yaml(content: Mapping[str, Any], group: str) -> str:
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    return re.sub(r"'!function (\w+)'", rf"!function {group}_rows.\1", text)


# What the written module calls


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
    """Return the rows of a split as documents of the harness: the split itself as `test`, and
    `train` to show examples from.

    Args:
        folder: The dataset.
        split: Which split is tested.
        train: Which split examples are shown from.
        trait: Where given, only rows whose trait has the value.
        value: The value.
        metadata: What else the harness passes on.
    """
    datasets = need("datasets", "datasets", "Dataset")
    data = load(folder)
    answers = closed_answers(data)

    def rows(name: str, only: str = "") -> Any:
        examples = [e for e in data[name] if not only or e.traits.get(only) == value]
        documents = [
            {
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
    folder: Path, doc: Mapping[str, Any], results: Sequence[Any], *, extract: str = LINE
) -> dict[str, float]:
    """Return the score of what a model generated, or of the choice that it finds most likely."""
    graded = _opened(folder, extract)
    choices = closed_answers_of(folder) if extract == LINE else ()
    example = from_record(json.loads(doc["record"]))
    if not choices:
        return {METRIC: graded.grade(results[0] if results else None, example).score}
    likelihoods = [float(result[0]) for result in results[: len(choices)]]
    best = max(range(len(likelihoods)), key=likelihoods.__getitem__)
    return {METRIC: graded.plan.scorer.score(choices[best], example)}


@lru_cache(maxsize=32)
def closed_answers_of(folder: Path) -> tuple[str, ...]:
    """Return the answers to choose from."""
    return closed_answers(load(folder))
