"""Scores by task for every suite: mean, competence at T (C@T) and consistency, as defined by ZEST.

A model is competent in a task if its mean score there is at least T percent; C@T is the share of
such tasks. Related tasks form families (a chain of functions and the same functions in another
order, a task and its paraphrase), and consistency scores each family by its worst task. Every
example names its task, so only a dataset and predictions are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from taskloom.core.descriptions import UNSEEN
from taskloom.core.errors import InputError, ParameterError, nearest
from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.offers import Evaluation
from taskloom.core.predictions import size_and_splits, some_predictions_for
from taskloom.core.registry import SUITES, find_scorer
from taskloom.core.scoring import Scorer, answer_or_none, competence_at
from taskloom.data import Dataset, Examples, load

THRESHOLDS: tuple[float, ...] = (75, 90)


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Score of one task: number of examples, mean score, family, and whether the task was withheld
    from training.
    """

    task: str
    n: int
    score: float
    family: str = ""
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Mean and C@T over tasks or families."""

    tasks: int
    mean: float
    at: dict[str, float]


@dataclass(frozen=True, slots=True)
class Competence:
    """Scores of predictions, by task.

    Attributes:
        examples: Number of scored examples.
        accuracy: Mean score over examples.
        overall: Mean and C@T over all tasks.
        withheld: Mean and C@T separately for tasks that `unseen` withheld from training and for the
            other tasks. The other tasks need not be in training: CTL has splits of chains that
            training never shows. Empty if nothing was withheld.
        consistency: Mean and C@T over families of at least two tasks, each scored by its worst
            task. None if tasks are not linked.
        tasks: Every task.
        of: Number of examples in the split, if only some of them have predictions.
    """

    examples: int
    accuracy: float
    overall: Row
    withheld: dict[str, Row]
    consistency: Row | None
    tasks: tuple[TaskScore, ...]
    of: int | None = None

    def to_dict(self, details: bool = False) -> dict[str, Any]:
        """Return the result as JSON data; `details` adds every task."""
        values = asdict(self)
        return (
            values
            if details
            else {name: value for name, value in values.items() if name != "tasks"}
        )

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Return the result as readable text."""
        rows = [("all tasks", self.overall), *self.withheld.items()]
        if self.consistency is not None:
            rows.append(("families, by their worst task", self.consistency))
        width = max(len(name) for name, _ in rows)
        heads = ["number", "mean", *(f"C@{t}" for t in self.overall.at)]
        examples = share(self.examples, self.of)
        lines = [f"{examples}, mean score {100 * self.accuracy:.1f}", ""]
        lines.append(" " * width + "".join(f"{h:>9}" for h in heads))
        for name, row in rows:
            values = [row.mean, *row.at.values()]
            lines.append(
                f"{name:<{width}}{row.tasks:>9,}" + "".join(f"{100 * v:>9.1f}" for v in values)
            )
        return "\n".join(lines)


def share(examples: int, of: int | None) -> str:
    """Number of scored examples, in words.

    >>> share(100, 2280), share(100, None)
    ('100 of 2,280 examples (4.4 %)', '100 examples')
    """
    if of is None:
        return f"{examples:,} examples"
    return f"{examples:,} of {of:,} examples ({100 * examples / of:.1f} %)"


@dataclass(frozen=True, slots=True)
class PartialEvaluation:
    """A suite's own evaluation, when predictions cover only some examples of a split.

    Attributes:
        report: Evaluation of those examples.
        examples: Number of those examples.
        of: Number of examples in the split.
    """

    report: Evaluation
    examples: int
    of: int

    def to_dict(self, details: bool = False) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {**self.report.to_dict(details), "examples": self.examples, "of": self.of}

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Return the result as readable text."""
        return f"{share(self.examples, self.of)}\n\n{self.report.text()}"


def competence(
    examples: Iterable[Example],
    predictions: Sequence[str],
    scorer: Scorer,
    by: str = "task",
    linked: str = "",
    thresholds: Sequence[float] = THRESHOLDS,
) -> Competence:
    """Score predictions by task.

    Args:
        examples: Examples in the order of the predictions.
        predictions: One prediction per example.
        scorer: Scorer of predictions.
        by: `task`, or the trait whose values define tasks.
        linked: Trait whose value is shared by the tasks of a family. A task belongs to the family
            of its first example.
        thresholds: The T of each C@T, in percent.
    """
    items = list(examples)
    if len(predictions) != len(items):
        raise InputError(
            f"{len(predictions):,} predictions and {len(items):,} examples; give one for each, in"
            " the dataset's order"
        )
    if not items:
        raise InputError("there is no example to score; choose another split")
    if not thresholds or not all(0 <= t <= 100 for t in thresholds):
        raise InputError(f"thresholds are percentages from 0 to 100, not {list(thresholds)}")
    scores: dict[str, list[float]] = {}
    first: dict[str, Example] = {}
    for example, prediction in zip(items, predictions, strict=True):
        task = _value(example, by)
        first.setdefault(task, example)
        scores.setdefault(task, []).append(scorer.score(prediction, example))
    tasks = tuple(
        TaskScore(
            task,
            len(values),
            fsum(values) / len(values),
            _value(first[task], linked) if linked else "",
            bool(first[task].traits.get(UNSEEN, False)),
        )
        for task, values in scores.items()
    )
    every = [score for values in scores.values() for score in values]
    return Competence(
        examples=len(items),
        accuracy=fsum(every) / len(every),
        overall=_row([t.score for t in tasks], thresholds),
        withheld=_withheld(tasks, thresholds),
        consistency=_consistency(tasks, thresholds) if linked else None,
        tasks=tasks,
    )


def _value(example: Example, name: str) -> str:
    if name == "task":
        return example.task
    if name not in example.traits:
        raise InputError(
            f"there is no trait '{name}' to group by; {nearest(name, ['task', *example.traits])}"
        )
    return str(example.traits[name])


def _row(values: Sequence[float], thresholds: Sequence[float]) -> Row:
    many = len(values)
    at = {f"{t:g}": competence_at(values, t) for t in thresholds}
    return Row(many, fsum(values) / many, at)


def _withheld(tasks: Sequence[TaskScore], thresholds: Sequence[float]) -> dict[str, Row]:
    parts = {
        "not withheld": [t.score for t in tasks if not t.unseen],
        "withheld": [t.score for t in tasks if t.unseen],
    }
    return (
        {name: _row(values, thresholds) for name, values in parts.items() if values}
        if parts["withheld"]
        else {}
    )


def _consistency(tasks: Sequence[TaskScore], thresholds: Sequence[float]) -> Row | None:
    families: dict[str, list[float]] = {}
    for task in tasks:
        families.setdefault(task.family, []).append(task.score)
    worst = [min(values) for values in families.values() if len(values) > 1]
    return _row(worst, thresholds) if worst else None


def score_dataset(
    data: Dataset,
    split: str,
    pred: str | Path | Sequence[str],
    by: str = "",
    linked: str = "",
    thresholds: Sequence[float] = THRESHOLDS,
    extract: str = "",
) -> Competence:
    """Score predictions for a split of a dataset with the dataset's own scorer and tasks.

    Args:
        data: The dataset.
        split: Name of the split.
        pred: The predictions in the order of the examples, or a file of them (`-` for standard
            input): lines, or JSON lines, CSV or Parquet with `prediction` and, if they have ids,
            the examples' numbers in `id` or `index`. If a file with ids covers only some examples,
            only those are scored.
        by: Trait whose values define tasks. Default: as defined by the dataset.
        linked: Trait whose value is shared by the tasks of a family.
        thresholds: The T of each C@T, in percent.
        extract: How answers are extracted from replies; see `taskloom.core.extraction`.
    """
    tasks_by = by or str(data.manifest.get("tasks_by", "task"))
    whole = Examples(data.table(split))
    examples, texts = _answered(whole, split, pred, extract)
    report = competence(examples, texts, scorer_of(data), tasks_by, linked, thresholds)
    return report if len(examples) == len(whole) else replace(report, of=len(whole))


def _answered(
    whole: Examples, split: str, pred: str | Path | Sequence[str], extract: str
) -> tuple[Examples | list[Example], list[str]]:
    """Examples that have predictions, and the answers extracted from these."""
    if not isinstance(pred, str | Path):
        return whole, _cut(pred, extract)
    objects = any(target.startswith("{") for example in whole for target in example.targets)
    numbers, rows = some_predictions_for(pred, len(whole), split=split, objects=objects)
    texts = _cut([row.text for row in rows], extract)
    if len(numbers) == len(whole):
        return whole, texts
    return [whole[number] for number in numbers], texts


def _cut(replies: Sequence[str], extract: str) -> list[str]:
    """Extract the answers from replies. Without an extraction, the replies themselves."""
    if not extract:
        return list(replies)
    answer = Extraction.read(extract)
    return [answer_or_none(answer(reply)) for reply in replies]


def find_split(data: Dataset, predictions: str | Path | Sequence[str]) -> str:
    """Split that predictions are for. Raises an error that names the splits if it is ambiguous."""
    size, named = _size(predictions)
    sizes: dict[str, int] = {split: entry["n"] for split, entry in data.manifest["splits"].items()}
    if named:
        fitting = [split for split in sizes if split in named]
    else:
        fitting = [split for split in sizes if sizes[split] == size]
    # If no split fits, take the only test split. Scoring then reports which predictions are
    # missing.
    known = fitting or list(sizes)
    tests = [split for split in known if data.role(split) != "train"]
    found = tests or known
    if len(found) == 1:
        return found[0]
    if "test" in found:  # preferred to a dev split of the same size
        return "test"
    many = "the predictions" if size is None else f"{size:,} predictions"
    fit = "fit several splits" if fitting else "fit no split"
    listed = ", ".join(f"{split} ({sizes[split]:,})" for split in known)
    raise ParameterError("split", f"is needed, since {many} {fit}: {listed}")


def _size(predictions: str | Path | Sequence[str]) -> tuple[int | None, frozenset[str]]:
    """Number of predictions and the splits that they name. None for standard input, which can be
    read only once.
    """
    if not isinstance(predictions, str | Path):
        return len(predictions), frozenset()
    if str(predictions) == "-":
        return None, frozenset()
    return size_and_splits(predictions)


def score(
    data: Dataset | str | Path,
    predictions: str | Path | Sequence[str],
    split: str = "",
    *,
    by: str = "",
    linked: str = "",
    thresholds: Sequence[float] = THRESHOLDS,
    extract: str = "",
    **options: str,
) -> Evaluation:
    """Score external predictions with the evaluation of the dataset's suite, like `taskloom score`.

    Args:
        data: A dataset, or its folder.
        predictions: Predictions in the order of the examples, or a file of them; see
            `score_dataset`.
        split: Name of the split. Default: the split with as many examples as there are predictions,
            trying `test` first and training last.
        by: Trait whose values define tasks. Default: as defined by the dataset.
        linked: Trait whose value is shared by the tasks of a family.
        thresholds: The T of each C@T, in percent.
        extract: How answers are extracted from replies; see `taskloom.core.extraction`.
        options: Options of the suite's own evaluation, if it has one; `taskloom score --help` lists
            them.
    """
    data = data if isinstance(data, Dataset) else load(data)
    split = split or find_split(data, predictions)
    suite = SUITES.find(str(data.manifest.get("recipe", {}).get("suite", "")))
    if suite is None or suite.evaluate is None:
        if options:
            raise InputError(f"score has no parameter '{next(iter(options))}' for this dataset")
        return score_dataset(data, split, predictions, by, linked, thresholds, extract)
    if by or linked:
        raise InputError(
            f"by and linked are for other suites; {suite.name} itself defines which tasks belong"
            " together"
        )
    whole = data[split]
    if (
        isinstance(predictions, str | Path)
        and not extract
        and _is_whole(predictions, len(whole), split)
    ):
        # The suite reads the file itself, because it may support formats of its own.
        return suite.evaluate(whole, Path(predictions), thresholds=thresholds, **options)
    examples, texts = _answered(whole, split, predictions, extract)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.jsonl"
        lines = (
            json.dumps({"index": i, "prediction": text}) + "\n" for i, text in enumerate(texts)
        )
        file.write_text("".join(lines), encoding="utf-8")
        report = suite.evaluate(examples, file, thresholds=thresholds, **options)
    if len(examples) == len(whole):
        return report
    return PartialEvaluation(report, len(examples), len(whole))


def _is_whole(predictions: str | Path, examples: int, split: str) -> bool:
    """True unless a file has ids and lacks those of some examples. Pipes and standard input can be
    read only once, so they are left to the suite.
    """
    if not Path(predictions).is_file():
        return True
    numbers, _ = some_predictions_for(
        predictions, examples, split=split, objects=True, lines=lambda source: []
    )
    return len(numbers) == examples


def scorer_of(data: Dataset) -> Scorer:
    """Scorer of a dataset: by name if that is sufficient, otherwise built by its recipe. For data
    from elsewhere, any-of.
    """
    from taskloom.core.scoring import SCORERS

    manifest: Mapping[str, Any] = data.manifest
    name = str(manifest.get("scorer", "any-of"))
    if name in SCORERS or "seed" not in manifest:
        return find_scorer(name)
    return data.recipe.plan(manifest["seed"]).scorer
