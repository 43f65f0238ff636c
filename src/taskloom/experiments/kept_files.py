"""Parquet files of runs, read once for many questions about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from taskloom.experiments.run_files import COLUMNS, PREDICTION_COLUMNS, PREDICTIONS, damaged
from taskloom.experiments.score_cache import ScoreCache
from taskloom.experiments.scored_file import read_scored


@dataclass(slots=True)
class KeptFiles:
    """Files of runs that were read.

    Attributes:
        columns: The columns of predictions that are kept.
        at_once: Whether all of them are read as soon as one is asked for.
        tables: Predictions, by path.
        size: Their bytes in all.
        scores: What scores.json says, by path.
        together: The scores of all of them in one table, where all are read at once.
    """

    columns: tuple[str, ...]
    at_once: bool
    tables: dict[Path, pa.Table] = field(default_factory=dict)
    size: int = 0
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    together: ScoreCache | None = None


KEPT: ContextVar[KeptFiles | None] = ContextVar("kept", default=None)

MOST_KEPT = 2**30
"""Bytes of predictions that are kept in memory; beyond, files are read again."""

SMALL = 2**18
"""Bytes of a Parquet file that is read whole; of a larger one, only the columns that are wanted."""

RARELY_READ = ("candidates", "logprobs")

SCORED = ("split", "index", "task", "score", "traits")
"""The columns that questions about scores read: without texts, which are most of a file."""

SCORED_COLUMNS = pa.schema([PREDICTION_COLUMNS.field(name) for name in SCORED])


@contextmanager
def predictions_kept() -> Iterator[None]:
    """Read every file of predictions and scores once in the block, however often it is asked for: a report asks seven times."""
    with keeping(KeptFiles(tuple(c for c in PREDICTION_COLUMNS.names if c not in RARELY_READ), at_once=True)):
        yield


@contextmanager
def keeping(kept: KeptFiles) -> Iterator[None]:
    """Keep what is read in the block."""
    token = KEPT.set(kept)
    try:
        yield
    finally:
        KEPT.reset(token)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file of a run."""
    kept = KEPT.get()
    if kept is None or columns is None or path.name != PREDICTIONS or not set(columns) <= set(kept.columns):
        return _read_parquet(path, columns)
    table = kept.tables.get(path)
    if table is None or not set(columns) <= set(table.column_names):
        known = [] if table is None else table.column_names
        wanted = [c for c in kept.columns if kept.at_once or c in columns or c in known]
        kept.size -= 0 if table is None else kept.tables.pop(path).nbytes
        table = _read_parquet(path, wanted)
        size = table.nbytes
        if kept.size + size <= MOST_KEPT:
            kept.tables[path] = table
            kept.size += size
    return table.select(list(columns))


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pa.Table:
    try:
        # Not read_table, which prepares for large files far away: 1.1 ms a small file, this 0.3, and 0.2 for bytes in memory.
        small = path.stat().st_size <= SMALL
        source = pa.BufferReader(path.read_bytes()) if small else path
        with pq.ParquetFile(source, memory_map=not small, pre_buffer=False) as file:
            table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        table = table if columns is None else table.select(list(columns))
        table.validate(full=True)  # a text that is not UTF-8 would be noticed only where it is looked at
        expected = COLUMNS.get(path.name)
        if expected is None:
            return table
        schema = expected if columns is None else pa.schema([expected.field(c) for c in table.column_names])
        return table if table.schema == schema else table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise damaged(path, str(error).splitlines()[0]) from error


def read_scored_columns(path: str, columns: Sequence[str]) -> pa.Table:
    """Read scored columns of a run's predictions, from their copy where that is sound."""
    table = read_scored(path, columns, SCORED_COLUMNS)
    return _read_parquet(Path(path), columns) if table is None else table
