"""The scored columns of many small files of predictions, in one file.

Opening 10,000 Parquet files costs Arrow some seconds, whatever is computed from them; reading their copies (`scored_file`) costs
one. What a question about that many runs has read is therefore kept in the cache folder (`TASKLOOM_CACHE`), in one Arrow file a
store. A run's rows are taken from there as long as size, time and number (inode) of its predictions are those of the file that
was read. Otherwise the run's own file is read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from taskloom.arrow import numbers
from taskloom.errors import DataError
from taskloom.files import atomic, cache_folder, digest

FILES = 200
"""Fewer files are read faster than anybody notices."""

MOST_ROWS = 4_000_000
"""Rows in all, about 400 MB in memory; where files have more rows, it is not their number that costs."""

MOST_BYTES = 2**30
"""Bytes in all: long traits may take more than rows usually do, and are not copied into one array then."""

VERSION = 1
"""Raised whenever a file that was written before could be misread."""

Mark = tuple[int, int, int]
"""Size, time of the last change in nanoseconds and inode of a file."""


@dataclass(frozen=True, slots=True)
class ScoredTable:
    """The rows of runs, one run after the other.

    Attributes:
        table: The rows.
        marks: What each run's file looked like when it was read.
        counts: How many rows each run has, in the table's order.
    """

    table: pa.Table | None = None
    marks: dict[str, Mark] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def rows(self, runs: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Return the rows of runs, in their order."""
        assert self.table is not None
        ends = dict(zip(self.counts, np.cumsum(list(self.counts.values())).tolist(), strict=True))
        counts = np.array([self.counts[run] for run in runs], np.int64)
        starts = np.array([ends[run] for run in runs], np.int64) - counts
        table = self.table.select(list(columns))
        if len(runs) and (starts[1:] == starts[:-1] + counts[:-1]).all():
            return table.slice(int(starts[0]), int(counts.sum()))
        before = np.cumsum(counts) - counts
        return table.take(numbers(np.repeat(starts - before, counts) + np.arange(int(counts.sum()))))


class ScoreCache:
    """The scored columns of the runs of a store.

    Args:
        store: The store's folder.
        schema: The columns that are kept.
        path: Where the predictions of a run are.
        read: Reads columns of a file.
        saved: Whether what was read is kept in the cache folder, or only in memory.
    """

    def __init__(
        self,
        store: Path,
        schema: pa.Schema,
        path: Callable[[str], str],
        read: Callable[[str, Sequence[str]], pa.Table],
        saved: bool = True,
    ) -> None:
        self.file = cache_folder("scores", f"{digest(os.path.abspath(store))}.arrow")
        self._schema = schema
        self._path = path
        self._read = read
        self._saved = saved
        self._known: ScoredTable | None = None if saved else ScoredTable()

    def rows(self, runs: Sequence[str], columns: Sequence[str]) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return columns of the predictions of runs, and how many rows each has; none where it kept no predictions."""
        marks = {run: mark for run in runs if (mark := _mark(self._path(run))) is not None}
        if self._known is None:
            self._known = self._load()
        fresh = [run for run, mark in marks.items() if self._known.marks.get(run) != mark]
        if fresh or self._known.table is None:
            self._known = self._extended(self._known, fresh, marks)
            if self._saved and len(fresh) >= FILES:
                _write(self._known, self.file)
        counts = np.array([self._known.counts[run] if run in marks else 0 for run in runs], np.int64)
        return self._known.rows(list(marks), columns), counts

    def _extended(self, known: ScoredTable, fresh: Sequence[str], marks: dict[str, Mark]) -> ScoredTable:
        """Read the files of runs, and put them behind what is known of others."""
        stale = {*fresh}
        room = known.table is not None and known.table.num_rows <= MOST_ROWS
        kept = [run for run in known.counts if run not in stale and (room or run in marks)]
        names = self._schema.names
        parts = [known.rows(kept, names)] if kept else [pa.Table.from_batches([], self._schema)]
        parts += [self._read(self._path(run), names) for run in fresh]
        counts = {run: known.counts[run] for run in kept}
        counts |= {run: part.num_rows for run, part in zip(fresh, parts[1:], strict=True)}
        table = pa.concat_tables(parts).unify_dictionaries()
        if table.nbytes <= MOST_BYTES:
            table = table.combine_chunks()
        return ScoredTable(
            table, {**{run: known.marks[run] for run in kept}, **{run: marks[run] for run in fresh}}, counts
        )

    def _load(self) -> ScoredTable:
        """Read the file; nothing is known where there is none, or a damaged one."""
        try:
            with pa.memory_map(str(self.file)) as source, pa.ipc.open_file(source) as reader:
                about = json.loads(reader.schema.metadata[b"taskloom"])
                table = reader.read_all().replace_schema_metadata(None)
            table.validate(full=True)
            if about["version"] != VERSION or table.schema != self._schema:
                return ScoredTable()
            marks = {run: (size, time, inode) for run, size, time, inode, _ in about["runs"]}
            counts = {run: rows for run, *_, rows in about["runs"]}
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
            return ScoredTable()
        return ScoredTable(table, marks, counts) if sum(counts.values()) == table.num_rows else ScoredTable()


def _write(known: ScoredTable, file: Path) -> None:
    """Write a file; where that fails the next process reads the runs' own files again."""
    assert known.table is not None
    if known.table.nbytes > MOST_BYTES:
        return
    runs: list[list[Any]] = [[run, *known.marks[run], rows] for run, rows in known.counts.items()]
    table = known.table.replace_schema_metadata({"taskloom": json.dumps({"version": VERSION, "runs": runs})})
    with suppress(DataError, pa.ArrowException), atomic(file) as beside:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table)


def _mark(path: str) -> Mark | None:
    """Return what a file looks like; None where there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    if not S_ISREG(about.st_mode):
        return None
    return about.st_size, about.st_mtime_ns, about.st_ino
