"""What scores.json says of a run: checked, and the table that the records of many runs make."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from taskloom.arrow import column
from taskloom.experiments.run_files import SCHEMA, StoreError, damaged

REQUIRED = ("run", "kind", "recipe", "learner", "seed", "fields", "scorer", "splits", "data")
"""Keys that scores.json must have."""

REQUIRED_KEYS = frozenset(REQUIRED)

PLAIN_KEYS = frozenset(("n", "score", "items"))
"""Keys of a split's entry whose values say all: the others have parts."""

KINDS = {"kind": str, "recipe": str, "learner": str, "seed": int, "fields": dict, "scorer": str, "splits": dict}
"""Types of their values, where something depends on them."""

SUITE_SCORE = "score."
"""Stands before the names of scores that a suite computes itself, in the table of runs: `score.C@90`."""


def checked_record(scores: Any, run: str, path: str) -> dict[str, Any]:
    """Return the contents of scores.json; raise an error unless it is of this version, of this run, and whole."""
    if not isinstance(scores, dict):
        raise damaged(path, "it is not a mapping")
    if scores.get("schema") != SCHEMA:
        raise StoreError(
            f"{path} has schema {scores.get('schema')}, this taskloom reads {SCHEMA}; delete {os.path.dirname(path)}"
        )
    if not scores.keys() >= REQUIRED_KEYS:
        raise damaged(path, f"it lacks '{next(key for key in REQUIRED if key not in scores)}'")
    for key, kind in KINDS.items():
        if type(scores[key]) is not kind:  # JSON has no subclasses, and True is not a number
            raise damaged(path, f"'{key}' is {str(scores[key])[:60]!r}")
    for split, entry in scores["splits"].items():
        why = _entry_fault(entry)
        if why:
            raise damaged(path, f"the split '{split}' {why}")
    if scores["run"] != run:
        raise StoreError(
            f"{path} is of the run {scores['run']}: its folder was renamed; delete it, or give it back its name"
        )
    return scores


def _entry_fault(entry: Any) -> str:
    """Return what is wrong with the scores of a split; empty where nothing is."""
    if type(entry) is dict and entry.keys() <= PLAIN_KEYS and type(entry.get("score")) is float:
        n = entry.get("n")
        if type(n) is int and n >= 0:
            return ""  # nearly all entries: 10,000 runs have 20,000 of them
    if not isinstance(entry, dict):
        return "is not a mapping"
    if "score" not in entry:
        return "has no score"
    n, score = entry.get("n"), entry.get("score")
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        return f"has {str(n)[:60]!r} examples"
    if not (score is None or (isinstance(score, int | float) and not isinstance(score, bool))):
        return f"has the score {str(score)[:60]!r}"
    own = entry.get("scores", {})
    if not isinstance(own, dict) or not all(isinstance(v, int | float) for v in own.values()):
        return "has scores that are not numbers"
    return "" if isinstance(entry.get("by_task", {}), dict) else "has scores by task that are not a mapping"


def record_table(scores: list[dict[str, Any]], took: Mapping[str, Any] | None) -> pa.Table:
    """Return a row for each run and split, sorted by everything but the digest.

    Args:
        scores: The records of the runs.
        took: Seconds of each run, for a column of their own; None: no such column.
    """
    fields = sorted({name for one in scores for name in one["fields"]})
    rows = []
    for one in scores:
        values = [one["fields"].get(name) for name in fields]
        head = (one["recipe"], one["learner"], json.dumps(values), one["seed"], one["run"])
        rows += [(head, split, entry, values) for split, entry in one["splits"].items()]
    rows.sort(key=lambda row: (row[0], row[1]))
    columns: dict[str, pa.Array] = {
        "run": column([head[4] for head, *_ in rows], pa.string()),
        "recipe": column([head[0] for head, *_ in rows], pa.string()),
        "learner": column([head[1] for head, *_ in rows], pa.string()),
        "seed": column([head[3] for head, *_ in rows], pa.int64()),
    }
    for place, name in enumerate(fields):
        columns[name] = _column([values[place] for *_, values in rows])
    columns["split"] = column([split for _, split, *_ in rows], pa.string())
    columns["n"] = column([entry["n"] for _, _, entry, _ in rows], pa.int64())
    columns["score"] = column([entry["score"] for _, _, entry, _ in rows], pa.float64())
    for name in sorted({name for _, _, entry, _ in rows for name in entry.get("scores", {})}):
        values = [entry.get("scores", {}).get(name) for _, _, entry, _ in rows]
        columns[SUITE_SCORE + name] = column(values, pa.float64())
    if took is not None:
        columns["seconds"] = column([took[head[4]] for head, *_ in rows], pa.float64())
    return pa.table(columns)


PLAIN: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _column(values: list[Any]) -> pa.Array:
    """Return values of one kind as they are; lists, mappings and mixed kinds as JSON text."""
    kinds = {type(v) for v in values if v is not None}
    if kinds == {int, float}:
        return pa.array(values, pa.float64())
    if len(kinds) == 1 and kinds <= PLAIN.keys():
        return column(values, PLAIN[kinds.pop()])
    if len(kinds) <= 1 and not kinds & {list, dict}:
        return pa.array(values)
    return column(
        [v if v is None or isinstance(v, str) else json.dumps(v, sort_keys=True) for v in values], pa.string()
    )
