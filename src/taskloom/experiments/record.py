"""The typed record of a run, without its predictions, and the table of many records."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from taskloom.core.arrow import column
from taskloom.core.errors import TaskloomError
from taskloom.experiments.files import SCHEMA, StoreError, damaged

LAST_SEED = 2**63 - 1
"""Largest seed that fits a column of seeds."""

BEST_OF_FIELD = "learner.best_of"
"""Field of runs that are the best of several tries."""

LIMIT_FIELD = "recipe.limit"
"""Field of runs that answer at most this many examples of each split."""

TASK_FIELD = "recipe.task"
"""Field of runs on one task of a recipe that has several."""


UNTIL_FIELD = "recipe.until"
"""Field of runs that were asked until their accuracy was certain."""


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
"""Measures of a chat model's replies to a split, in the order of tables: the share of answers in
form, mean tokens of a reply, and the cost of all replies.
"""

PLAIN_KEYS = frozenset(("n", "score", "items"))
"""Keys of a split whose values need no further checks."""


@dataclass(frozen=True, slots=True)
class SplitScores:
    """The result of a run on one split.

    Attributes:
        n: Number of examples.
        score: Mean score; None if there were no examples.
        further: Scores that the suite computes for the whole split: `C@90`.
        by_task: Number of examples and mean score of each task, if there are several.
        items: Digest of the examples, however they are written; None in runs of older versions.
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
        kind: What runs that differ in the seed alone have in common.
        recipe: The recipe.
        learner: The learner.
        seed: The seed.
        fields: Settings that were set: `recipe.FIELD`, `learner.SETTING`.
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
    if type(n) is not int or n < 0:
        return f"has {str(n)[:60]!r} examples"
    if score is not None and type(score) not in (int, float):
        return f"has the score {str(score)[:60]!r}"
    if entry.keys() <= PLAIN_KEYS:
        return ""
    for key in ("scores", "replies"):
        measures = entry.get(key, {})
        if not isinstance(measures, dict) or not all(
            isinstance(value, int | float) for value in measures.values()
        ):
            return f"has {key} that are not numbers"
    if not isinstance(entry.get("by_task", {}), dict):
        return "has scores by task that are not a mapping"
    if not isinstance(entry.get("asked", {}), dict):
        return "has a record of asking that is not a mapping"
    return ""


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
    """All runs and splits, in the order of the table."""
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
