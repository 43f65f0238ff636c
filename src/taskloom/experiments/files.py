"""The files of a run: their names and columns, and the errors about those that cannot be read or written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from taskloom.core.errors import DataError

SCHEMA = 1
"""Raised whenever stores written before could be misread."""

STORE = "store.json"
CONFIG, SCORES, CURVES, PREDICTIONS = (
    "config.yaml",
    "scores.json",
    "curves.parquet",
    "predictions.parquet",
)
ENVIRONMENT, LOG, MODEL = "environment.json", "log.txt", "model"

FLEETING = (ENVIRONMENT, LOG)
"""Files that a power cut may take: no result depends on them."""

DIGEST = re.compile("[0-9a-f]{32}")
"""What the folders of runs are called."""

PREDICTION_COLUMNS = pa.schema(
    [
        ("split", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int64()),
        ("task", pa.string()),
        ("input", pa.string()),
        ("targets", pa.list_(pa.string())),
        ("prediction", pa.string()),
        ("score", pa.float64()),
        ("traits", pa.map_(pa.string(), pa.string())),
        ("candidates", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.float64())),
    ]
)
"""Of predictions.parquet. Traits are a map from name to value as JSON spells it (text without quotes); candidates and their
log-probabilities are null unless `keep` names them."""

CURVE_COLUMNS = pa.schema(
    [("step", pa.int64()), ("split", pa.string()), ("score", pa.float64()), ("loss", pa.float64())]
)

COLUMNS = {PREDICTIONS: PREDICTION_COLUMNS, CURVES: CURVE_COLUMNS}
"""The columns of the Parquet files of a run."""


class StoreError(DataError):
    """A run store that cannot be read or written."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's errors about writing into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise StoreError(
            f"cannot write to {path}: {why}; every finished run is kept: free space or make the folder writable, then rerun the "
            "command to resume"
        ) from error


def damaged(path: str | Path, why: str) -> StoreError:
    """Return the error about a file of a run that cannot be read."""
    return StoreError(
        f"{path} is damaged ({why}); delete {os.path.dirname(path)} and rerun the experiment"
    )


SMALL = 2**18
"""Maximum size of a Parquet file that is read whole; of a larger one, only the wanted columns are read."""


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file of a run, and check it."""
    try:
        # Not read_table, which prepares for large files far away: 1.1 ms a small file, this 0.3, and 0.2 for bytes in memory.
        small = path.stat().st_size <= SMALL
        source = pa.BufferReader(path.read_bytes()) if small else path
        with pq.ParquetFile(source, memory_map=not small, pre_buffer=False) as file:
            table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        table = table if columns is None else table.select(list(columns))
        table.validate(
            full=True
        )  # otherwise a text that is not UTF-8 would be noticed only when it is looked at
        expected = COLUMNS.get(path.name)
        if expected is None:
            return table
        schema = (
            expected
            if columns is None
            else pa.schema([expected.field(c) for c in table.column_names])
        )
        return table if table.schema == schema else table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise damaged(path, str(error).splitlines()[0]) from error
