"""Tables of scores from another program, as CSV, TSV or Parquet: a row for each run and split.

    recipe,learner,seed,split,n,score,learner.steps
    ctl/A,bilstm,0,iid,1000,1.0,80000
    ctl/A,bilstm,0,ood,1000,0.977,80000

The columns are those of `tl.runs(...).table`, which may be written to such a file as it is. Settings that were made have columns
that begin with `recipe.` or `learner.`; a row without a value has the default. Further numbers are columns `score.NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from taskloom.core.errors import DataError, echo, nearest
from taskloom.experiments.record import SUITE_SCORE

ENDINGS = (".csv", ".tsv", ".parquet")

NEEDED = ("recipe", "learner", "seed", "split", "n", "score")
"""Columns that every table has."""

SETTINGS = ("recipe.", "learner.")
"""How the names of columns with settings begin."""

IGNORED = ("run",)
"""A column of tables of runs that says nothing: names of runs follow from the rest."""

LAST_SEED = 2**63 - 1
"""The greatest number that a column of seeds holds."""

SEED = f"a seed is a whole number from 0 to {LAST_SEED}"
"""What errors say of seeds."""


def read_groups(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table of scores as the groups of a file of scores.

    Args:
        path: The table.

    Raises:
        DataError: For a file that cannot be read, columns that are missing or unknown, and rows that contradict each other.
    """
    table = _read(path)
    _check_columns(path, table.column_names)
    groups: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        where = f"{path}, row {number}"
        fields = {name: _setting(row[name]) for name in row if name.startswith(SETTINGS) and row[name] is not None}
        missing = [name for name in NEEDED if row[name] is None]
        if missing:
            raise DataError(f"{where} has no '{missing[0]}'; every row needs {', '.join(NEEDED)}")
        key = json.dumps([row["recipe"], row["learner"], fields], sort_keys=True, default=str)
        empty = {"recipe": str(row["recipe"]), "learner": str(row["learner"]), "fields": fields, "n": {}, "seeds": {}}
        _add(groups.setdefault(key, empty), row, where)
    return list(groups.values())


def _add(group: dict[str, Any], row: Mapping[str, Any], where: str) -> None:
    """Add the score of a row to its group."""
    split = str(row["split"])
    number, n, score = (_number(row[name]) for name in ("seed", "n", "score"))
    if not is_seed(number):
        raise DataError(f"{where} has the seed {echo(row['seed'])}; {SEED}")
    if not isinstance(n, int) or n < 1:
        raise DataError(f"{where} has n {echo(row['n'])}; it is the number of examples of the split, at least 1")
    if not isinstance(score, int | float) or not 0 <= score <= 1:
        raise DataError(f"{where} has the score {echo(row['score'])}; a score is a share from 0 to 1, not per cent")
    if group["n"].setdefault(split, n) != n:
        raise DataError(
            f"{where} has n {echo(n)} for '{split}', where a row of the same learner has {group['n'][split]}"
        )
    seed = str(number)
    scores = group["seeds"].setdefault(seed, {})
    if split in scores:
        raise DataError(
            f"{where} has a second score of seed {seed} on '{split}'; tell the rows apart by their settings"
        )
    scores[split] = score
    further = {name.removeprefix(SUITE_SCORE): row[name] for name in row if name.startswith(SUITE_SCORE)}
    known = {name: value for name, value in further.items() if value is not None}
    if known:
        group.setdefault("further", {}).setdefault(seed, {})[split] = known


def _read(path: Path) -> pa.Table:
    try:
        if path.suffix.lower() == ".parquet":
            return pyarrow.parquet.read_table(path)
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        return pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter))
    except pa.ArrowException as error:
        kind = path.suffix[1:].upper() if path.suffix.lower() != ".parquet" else "Parquet"
        raise DataError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def _check_columns(path: Path, columns: list[str]) -> None:
    shape = f"a table of scores has a row for each run and split, with {', '.join(NEEDED)}"
    for name in NEEDED:
        if name not in columns:
            raise DataError(f"{path} has no column '{name}'; {shape}")
    for name in columns:
        if name not in (*NEEDED, *IGNORED) and not name.startswith((*SETTINGS, SUITE_SCORE)):
            raise DataError(
                f"{path} has an unknown column '{name}'; {nearest(name, NEEDED)}; settings are called recipe.NAME and "
                f"learner.NAME, further numbers {SUITE_SCORE}NAME"
            )
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has the column '{twice}' twice; remove one")


def is_seed(value: Any) -> bool:
    """Return whether a value may be the seed of a run.

    >>> is_seed(0), is_seed(-1), is_seed(1.5), is_seed(10**30)
    (True, False, False, False)
    """
    return isinstance(value, int) and 0 <= value <= LAST_SEED


def _number(value: Any) -> Any:
    """Return the number of a cell; cells of a column with a word in it are all text. What is no number stays as it is."""
    if isinstance(value, bool):
        return None
    try:
        return _whole(float(value)) if isinstance(value, str) else _whole(value)
    except ValueError:
        return value


def _whole(value: Any) -> Any:
    """Return a whole number as one, where a program wrote it as 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _setting(value: Any) -> Any:
    """Return the value of a setting; tables of runs have lists and mappings as JSON."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return _whole(value)
