"""How runs are read: the record of one run, the table of many runs, and the sources of both.

A `RunSource` is a store, a file of scores, predictions made elsewhere, or logs of other tools. The
store is in a separate module. The others are in `sources` and keep their records in memory
(`LoadedRuns`).
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import column
from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.files import path_of
from taskloom.experiments.files import (
    CURVE_COLUMNS,
    CURVES,
    PREDICTION_COLUMNS,
    PREDICTIONS,
    REPLIES,
    REPLY_COLUMNS,
    SCHEMA,
    StoreError,
    damaged,
)

LAST_SEED = 2**63 - 1
"""Maximum seed that fits the integer column of seeds."""

BEST_OF_FIELD = "learner.best_of"
"""Name of the field that marks runs chosen from several tries."""

LIMIT_FIELD = "recipe.limit"
"""Name of the field with the maximum number of examples answered per split."""

TASK_FIELD = "recipe.task"
"""Name of the field with the task of a run, if its recipe has several tasks."""


UNTIL_FIELD = "recipe.until"
"""Name of the field with the stopping rule of runs that were asked until their accuracy was
certain.
"""


class RunsError(TaskloomError):
    """Raised if a question cannot be answered with the given runs."""


SUITE_SCORE = "score."
"""Prefix of the columns for scores that a suite computes itself, in the table of runs:
`score.C@90`.
"""

KINDS: Mapping[str, type] = {
    "run": str,
    "kind": str,
    "recipe": str,
    "learner": str,
    "seed": int,
    "fields": dict,
    "scorer": str,
    "splits": dict,
}
"""Required keys of scores.json with the types of their values. `data` is also required and may have
any type.
"""

REQUIRED_KEYS = frozenset((*KINDS, "data"))

REPLY_MEASURES = ("in_form", "tokens_in", "tokens_out", "tokens_thinking", "cost")
"""Measures of a chat model's replies to a split, in the order of table columns: share of answers in
form, mean tokens per reply, and total cost.
"""

PLAIN_KEYS = frozenset(("n", "score", "items"))
"""Keys of a split whose values need no further checks."""

LARGEST_INTEGER = 2**53
"""Maximum absolute value of an integer in scores.json. Larger ones are not exact as floats."""


@dataclass(frozen=True, slots=True)
class SplitScores:
    """The result of a run on one split.

    Attributes:
        n: Number of examples.
        score: Mean score; None if there were no examples.
        further: Scores that the suite computes for the whole split: `C@90`.
        by_task: Number of examples and mean score of each task, if there are several.
        items: Digest of the examples, independent of how they are written. None in runs of older
            versions.
        replies: Measures of a chat model's replies: `in_form`, mean `tokens_out`, `cost`.
        asked: Items, tokens and cost of a split that was asked until certain, and why asking
            stopped.
    """

    n: int
    score: float | None
    further: Mapping[str, float] = field(default_factory=dict)
    by_task: Mapping[str, Any] = field(default_factory=dict)
    items: str | None = None
    replies: Mapping[str, float] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry of the split in scores.json."""
        optional = {
            "scores": self.further,
            "by_task": self.by_task,
            "items": self.items,
            "asked": self.asked,
            "replies": self.replies,
        }
        known = {key: value for key, value in optional.items() if value}
        return {"n": self.n, "score": self.score, **known}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a learner, trained with one seed and evaluated on the splits of a recipe.

    Attributes:
        name: Its digest, or a substitute if it was not made by `taskloom run`.
        kind: Digest shared by runs that differ only in the seed.
        recipe: The recipe.
        learner: The learner.
        seed: The seed.
        fields: Values of the settings that were set: `recipe.FIELD`, `learner.SETTING`.
        splits: The result on each split that was answered.
        scorer: The scorer of the examples.
        data: Digest of the dataset.
    """

    name: str
    kind: str
    recipe: str
    learner: str
    seed: int
    fields: Mapping[str, Any]
    splits: Mapping[str, SplitScores]
    scorer: str = ""
    data: str = ""

    def score(self, split: str) -> float | None:
        """Mean score on a split; None if it was not answered."""
        return self.splits[split].score if split in self.splits else None


def run_record(scores: Any, name: str, path: str) -> Run:
    """Check the contents of scores.json and return the record of the run.

    Args:
        scores: The contents.
        name: Name of the run that the file should belong to.
        path: The file, for errors.
    """
    if not isinstance(scores, dict):
        raise damaged(path, "it is not a mapping")
    if scores.get("schema") != SCHEMA:
        raise StoreError(
            f"{path} has schema {scores.get('schema')}, this taskloom reads {SCHEMA}; delete"
            f" {os.path.dirname(path)}"
        )
    if not scores.keys() >= REQUIRED_KEYS:
        raise damaged(
            path, f"it lacks '{next(key for key in (*KINDS, 'data') if key not in scores)}'"
        )
    for key, kind in KINDS.items():
        # JSON has no subclasses, and True must not count as a number
        if type(scores[key]) is not kind:
            raise damaged(path, f"'{key}' is {str(scores[key])[:60]!r}")
    for split, entry in scores["splits"].items():
        if problem := _split_problem(entry):
            raise damaged(path, f"the split '{split}' {problem}")
    if scores["run"] != name:
        raise StoreError(
            f"{path} is of the run {scores['run']}: its folder was renamed; delete it, or give it"
            " back its name"
        )
    return record_of(scores)


def record_of(scores: Mapping[str, Any]) -> Run:
    """Build the record from contents of scores.json that have been checked."""
    return Run(
        scores["run"],
        scores["kind"],
        scores["recipe"],
        scores["learner"],
        scores["seed"],
        scores["fields"],
        {split: _split_scores(entry) for split, entry in scores["splits"].items()},
        scores["scorer"],
        str(scores["data"]),
    )


def _split_scores(entry: Mapping[str, Any]) -> SplitScores:
    if entry.keys() <= PLAIN_KEYS:  # nearly all splits; 10,000 runs have 20,000 of them
        return SplitScores(entry["n"], entry["score"], items=entry.get("items"))
    further, by_task = entry.get("scores", {}), entry.get("by_task", {})
    items, replies = entry.get("items"), entry.get("replies", {})
    asked = entry.get("asked", {})
    return SplitScores(entry["n"], entry["score"], further, by_task, items, replies, asked)


def _split_problem(entry: Any) -> str:
    """Error in the scores of a split; empty if there is none."""
    if not isinstance(entry, dict):
        return "is not a mapping"
    if "score" not in entry:
        return "has no score"
    n, score = entry.get("n"), entry["score"]
    if type(n) is not int or n < 0 or not _fits(n):
        return f"has {str(n)[:60]!r} examples"
    if score is not None and not (type(score) in (int, float) and _fits(score)):
        return f"has the score {str(score)[:60]!r}"
    if entry.keys() <= PLAIN_KEYS:
        return ""
    for key in ("scores", "replies"):
        measures = entry.get(key, {})
        if not isinstance(measures, dict) or not all(
            isinstance(value, int | float) and _fits(value) for value in measures.values()
        ):
            return f"has {key} that are not numbers"
    if not isinstance(entry.get("by_task", {}), dict):
        return "has scores by task that are not a mapping"
    if not isinstance(entry.get("asked", {}), dict):
        return "has a record of asking that is not a mapping"
    return ""


def _fits(number: float) -> bool:
    """True if a column of floats can hold the number: it is a float, or an integer that is exact
    as one.
    """
    return isinstance(number, float) or abs(number) <= LARGEST_INTEGER


def run_table(runs: Sequence[Run], seconds: Mapping[str, Any] | None = None) -> pa.Table:
    """A row for each run and split: run, recipe, learner, seed, a column per field, split, n,
    score, suite scores.

    Rows are sorted by everything but the digest, so that equal stores have equal tables.

    Args:
        runs: The runs.
        seconds: Seconds of each run, for a column of their own.
    """
    fields = sorted({name for run in runs for name in run.fields})
    rows = _sorted_rows(runs, fields)
    of_rows = [run for run, _ in rows]
    columns: dict[str, pa.Array] = {
        "run": column([run.name for run in of_rows], pa.string()),
        "recipe": column([run.recipe for run in of_rows], pa.string()),
        "learner": column([run.learner for run in of_rows], pa.string()),
        "seed": column([run.seed for run in of_rows], pa.int64()),
    }
    for name in fields:
        columns[name] = _field_column([run.fields.get(name) for run in of_rows])
    columns["split"] = column([split for _, split in rows], pa.string())
    columns |= _score_columns([run.splits[split] for run, split in rows])
    if seconds is not None:
        columns["seconds"] = column([seconds[run.name] for run in of_rows], pa.float64())
    return pa.table(columns)


def _sorted_rows(runs: Sequence[Run], fields: Sequence[str]) -> list[tuple[Run, str]]:
    """Pairs of run and split in the order of the table."""
    rows = []
    for run in runs:
        values = json.dumps([run.fields.get(name) for name in fields])
        order = (run.recipe, run.learner, values, run.seed, run.name)
        rows += [(order, split, run) for split in run.splits]
    rows.sort(key=lambda row: row[:2])
    return [(run, split) for _, split, run in rows]


def _score_columns(scored: Sequence[SplitScores]) -> dict[str, pa.Array]:
    """Size and mean score of every row, then the suites' own scores."""
    columns = {
        "n": column([scores.n for scores in scored], pa.int64()),
        "score": column([scores.score for scores in scored], pa.float64()),
    }
    measured = [{**scores.further, **scores.replies} for scores in scored]
    of_suites = {name for scores in scored for name in scores.further}
    of_replies = [name for name in REPLY_MEASURES if any(name in s.replies for s in scored)]
    for name in dict.fromkeys([*sorted(of_suites), *of_replies]):
        values = [measures.get(name) for measures in measured]
        columns[SUITE_SCORE + name] = column(values, pa.float64())
    return columns


PLAIN: Mapping[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}


def _field_column(values: list[Any]) -> pa.Array:
    """Values unchanged if they have one type; lists, mappings and mixed types as JSON text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array(values, pa.float64())
    if len(kinds) == 1 and kinds <= PLAIN.keys():
        return column(values, PLAIN[kinds.pop()])
    if len(kinds) <= 1 and not kinds & {list, dict}:
        return pa.array(values)
    texts = [
        value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)
        for value in values
    ]
    return column(texts, pa.string())


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that has failed and not succeeded since.

    Attributes:
        cell: Recipe, learner and seed, for people; empty if they were not written down.
        reason: Why it failed.
    """

    cell: str
    reason: str


OWN_COLUMNS = (
    pa.field("run", pa.string()),
    pa.field("recipe", pa.string()),
    pa.field("learner", pa.string()),
    pa.field("seed", pa.int64()),
)
"""Columns in front of predictions and curves."""


class RunSource(ABC):
    """Source of runs: a run store, a score file, or predictions made elsewhere.

    Attributes:
        path: The folder or file.
    """

    path: Path

    @abstractmethod
    def names(self) -> list[str]:
        """Digests of all runs, sorted."""

    @abstractmethod
    def records(self, names: Iterable[str] | None = None) -> list[Run]:
        """Records of runs (default: all), without opening their predictions."""

    @abstractmethod
    def config(self, run: str) -> str:
        """Experiment of this run alone, as YAML."""

    @abstractmethod
    def environment(self, run: str) -> dict[str, Any]:
        """Machine, versions and seconds of a run; empty if unknown."""

    @abstractmethod
    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the predictions (`predictions.parquet`) or curves of a run; None if they were
        not kept.
        """

    @abstractmethod
    def keeps_predictions(self, run: str) -> bool:
        """True if the run's inputs and answers are known."""

    def keeps_item_scores(self, run: str) -> bool:
        """True if the score of each example is known, not only the mean."""
        return self.keeps_predictions(run)

    def answers(self, run: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the predictions of one run; None if it kept none."""
        return self.rows(run, PREDICTIONS, columns)

    def curve(self, run: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the learning curve of one run; None if it has none."""
        return self.rows(run, CURVES, columns)

    def replies(self, run: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of a chat model's whole replies, one row for each prediction; None if the run
        has none.
        """
        return self.rows(run, REPLIES, columns)

    def replies_to(self, run: str, split: str, indices: Sequence[int]) -> pa.Table | None:
        """A chat model's whole replies to some items of a split; None if the run has none."""
        table = self.replies(run, REPLY_COLUMNS.names)
        return None if table is None else replies_among(table, split, indices)

    def model(self, run: str) -> Path | None:
        """Folder of the trained model; None if the run kept none."""
        return None

    def log_file(self, run: str) -> Path | None:
        """Log file of a run; None if the run has no folder."""
        return None

    def finished_at(self, run: str) -> float:
        """Time at which a run finished, in seconds since the epoch: the modification time of its
        file.
        """
        try:
            return self.path.stat().st_mtime
        except OSError:
            return 0.0

    def readable(self) -> tuple[list[str], dict[str, str]]:
        """Digests of the runs whose scores can be read, and the errors of the others."""
        return self.names(), {}

    def __contains__(self, run: str) -> bool:
        return run in self.names()

    def config_file(self, run: str) -> Path | None:
        """File with the experiment of this run alone; None if the run has no folder."""
        return None

    def answer_batches(
        self, run: str, columns: Sequence[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the predictions of one run, `size` rows at a time; nothing if it kept none."""
        rows = self.answers(run, columns)
        return iter(() if rows is None else rows.to_batches(size))

    def failures(self) -> dict[str, FailedRun]:
        """Runs that have failed and not succeeded since, by digest."""
        return {}

    def record(self, run: str) -> Run:
        """Record of one run."""
        return self.records([run])[0]

    def runs(self, names: Iterable[str] | None = None, *, seconds: bool = False) -> pa.Table:
        """A row for each run and split; see `run_table`.

        Args:
            names: Digests of the runs. Default: all.
            seconds: True to add the duration of each run. It is not part of the plain table, which
                is the same on every machine.
        """
        records = self.records(names)
        took = (
            {run.name: self.environment(run.name).get("seconds") for run in records}
            if seconds
            else None
        )
        return run_table(records, took)

    def scored(
        self, runs: Sequence[str], columns: Sequence[str], n: int
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Columns of the predictions of runs, concatenated, and the number of rows of each run.

        Args:
            runs: Digests. Runs that kept no predictions have no rows.
            columns: A subset of `SCORED`.
            n: Approximate number of rows.
        """
        parts = [
            pa.Table.from_batches([], pa.schema([PREDICTION_COLUMNS.field(c) for c in columns]))
        ]
        for run in runs:
            rows = self.answers(run, columns)
            parts.append(parts[0] if rows is None else rows)
        counts = np.array([part.num_rows for part in parts[1:]], np.int64)
        return pa.concat_tables(parts).unify_dictionaries(), counts

    def predictions(
        self,
        runs: Iterable[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        splits: Sequence[str] | None = None,
    ) -> pa.Table:
        """Predictions of runs as one table, with the run's own columns (run, recipe, learner, seed)
        in front.

        Args:
            runs: Digests. Default: all.
            columns: Columns of predictions.parquet. Default: all.
            splits: Only these splits.
        """
        return self._gather(PREDICTIONS, PREDICTION_COLUMNS, runs, columns, splits)

    def curves(self, runs: Iterable[str] | None = None) -> pa.Table:
        """Learning curves of runs as one table, with the run's own columns in front."""
        return self._gather(CURVES, CURVE_COLUMNS, runs, None, None)

    def _gather(
        self,
        file: str,
        schema: pa.Schema,
        runs: Iterable[str] | None,
        columns: Sequence[str] | None,
        splits: Sequence[str] | None,
    ) -> pa.Table:
        chosen = schema.names if columns is None else list(columns)
        read = chosen if splits is None else list(dict.fromkeys([*chosen, "split"]))
        wanted = pa.schema([*OWN_COLUMNS, *(schema.field(c) for c in chosen)])
        parts = [pa.Table.from_batches([], wanted)]  # empty_table would import pandas
        for record in self.records(runs):
            table = self.rows(record.name, file, read)
            if table is None:
                continue  # it was not kept
            if splits is not None:
                among = column(list(splits), pa.string())
                named = pc.is_in(table["split"].cast(pa.string()), among)
                table = table.filter(named).select(chosen)
            values = (record.name, record.recipe, record.learner, record.seed)
            for place, (own, value) in enumerate(zip(OWN_COLUMNS, values, strict=True)):
                repeated = pa.repeat(column([value], own.type)[0], table.num_rows)
                table = table.add_column(place, own.name, repeated)
            parts.append(table.cast(wanted))
        return pa.concat_tables(parts).unify_dictionaries()


class LoadedRuns(RunSource):
    """Runs in memory. Subclasses provide what else their kind of file has beyond scores.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path_of(path)
        self._scores: dict[str, dict[str, Any]] = {}

    def names(self) -> list[str]:
        """Digests of all runs, sorted."""
        return sorted(self._scores)

    def records(self, names: Iterable[str] | None = None) -> list[Run]:
        """Records of runs. Default: all."""
        records = []
        for run in self.names() if names is None else names:
            if run not in self._scores:
                raise DataError(f"{self.path} has no run {run}")
            records.append(record_of(self._scores[run]))
        return records

    def keeps_predictions(self, run: str) -> bool:
        """Always false: a score file has at most the scores of examples."""
        return False


def replies_among(table: pa.Table, split: str, indices: Sequence[int]) -> pa.Table:
    """Rows with whole replies to some items of a split."""
    wanted = pa.array(list(indices), pa.int64())
    mine = pc.and_(pc.equal(table["split"], split), pc.is_in(table["index"], wanted))
    return table.filter(mine)
