"""The index of a run store: scores and traits of many runs in one SQLite file.

A store of 10,000 runs has 20,000 small files, and opening them takes seconds for any query. The
index holds the contents of every scores.json, and the scores and traits of the predictions. It is
only a cache: an entry is valid only while size, time and inode of the run's own file are unchanged.
A missing, stale or damaged index is rebuilt from the run folders. If it cannot be written, only
time is lost. It is in the cache folder (`TASKLOOM_CACHE`).
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from taskloom.core.arrow import numbers
from taskloom.core.errors import DataError
from taskloom.core.files import cache_folder, digest
from taskloom.experiments.files import PREDICTION_COLUMNS, PREDICTIONS, SCORES

SCORED = ("split", "index", "task", "score", "traits")
"""Columns of predictions in the index: those by which scores are grouped. Texts, which are most of
a file, are excluded.
"""

SCORED_COLUMNS = pa.schema([PREDICTION_COLUMNS.field(name) for name in SCORED])

FEW = 200
"""Minimum number of runs for an index on disk. Fewer are quickly read again."""

MOST_ROWS = 4_000_000
"""Maximum rows in the index, about 400 MB in memory. With more, the number of files is no longer
the bottleneck.
"""

MOST_BYTES = 2**30
"""Maximum bytes that are copied into one array. Rows with long traits can exceed it."""

MOST_SEGMENTS = 32
"""Number of segments above which they are merged into one."""

TOGETHER = 1_000
"""Number of runs whose rows are copied and written together, because the buffers of single files
take several times the memory of their rows.
"""

VERSION = 1
"""Version in the file's name, raised whenever an older index could be misread."""

Mark = str
"""Size, time of the last change and inode of a file."""


@dataclass(slots=True)
class IndexedRows:
    """The scored columns of runs, concatenated.

    Attributes:
        table: The rows.
        marks: Size, time and inode of each run's file when it was read.
        counts: Number of rows of each run, in the table's order.
        starts: Index of the first row of each run.
    """

    table: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], SCORED_COLUMNS))
    marks: dict[str, Mark] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    starts: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        # Computed once for all queries: a report asks for one run at a time, of thousands.
        ends = accumulate(self.counts.values(), initial=0)
        self.starts = dict(zip(self.counts, ends, strict=False))

    def of(self, runs: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """The rows of some runs, in their order."""
        counts = np.array([self.counts[run] for run in runs], np.int64)
        starts = np.array([self.starts[run] for run in runs], np.int64)
        table = self.table.select(list(columns))
        consecutive = bool(len(runs)) and bool((starts[1:] == starts[:-1] + counts[:-1]).all())
        if consecutive:
            return table.slice(int(starts[0]), int(counts.sum()))
        before = np.cumsum(counts) - counts
        return table.take(
            numbers(np.repeat(starts - before, counts) + np.arange(int(counts.sum())))
        )

    def without(self, runs: set[str]) -> IndexedRows:
        """The rows of all other runs."""
        kept = [run for run in self.counts if run not in runs]
        if len(kept) == len(self.counts):
            return self
        marks, counts = ({run: of[run] for run in kept} for of in (self.marks, self.counts))
        return IndexedRows(self.of(kept, SCORED), marks, counts)  # type: ignore[arg-type]

    def extended(self, *more: IndexedRows) -> IndexedRows:
        """Append other rows to these."""
        parts = [rows for rows in (self, *more) if rows.counts]
        if len(parts) < 2:
            return parts[0] if parts else self
        marks: dict[str, Mark] = {}
        counts: dict[str, int] = {}
        for rows in parts:
            marks |= rows.marks
            counts |= rows.counts
        return IndexedRows(_whole([rows.table for rows in parts]), marks, counts)


def _whole(parts: Sequence[pa.Table]) -> pa.Table:
    """Combine parts into one table, with contiguous columns unless they are too large."""
    table = pa.concat_tables(parts).unify_dictionaries()
    return table.combine_chunks() if table.nbytes <= MOST_BYTES else table


class Index:
    """The index of a run store.

    Args:
        store: The store's folder.
        read_scores: Reads scores.json of a run.
        read_rows: Reads the scored columns of a run's predictions.
    """

    def __init__(
        self,
        store: Path,
        read_scores: Callable[[str], dict[str, Any]],
        read_rows: Callable[[str], pa.Table],
    ) -> None:
        self.file = cache_folder("runs", f"{digest(os.path.abspath(store))}-{VERSION}.sqlite")
        self._store = str(store)
        self._read_scores = read_scores
        self._read_rows = read_rows
        self._scores: dict[str, tuple[Mark, dict[str, Any]]] = {}
        self._rows = IndexedRows()
        self._loaded: set[str] = set()

    def scores(self, runs: Sequence[str], least: int | None = None) -> list[dict[str, Any]]:
        """Contents of scores.json of each run. Newly read ones are saved if they come from at least
        this many runs.
        """
        self._load("scores", len(runs))
        fresh = []
        for run in runs:
            mark = self._mark(run, SCORES)
            if run not in self._scores or self._scores[run][0] != mark:
                self._scores[run] = (mark or "", self._read_scores(run))
                fresh.append(run)
        if fresh and len(fresh) >= (FEW if least is None else least):
            self._save_scores(fresh)
        return [self._scores[run][1] for run in runs]

    def rows(
        self, runs: Sequence[str], columns: Sequence[str], least: int | None = None
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Columns of the predictions of runs, and the number of rows of each run, which is 0 if it
        kept no predictions.
        """
        marks = {run: mark for run in runs if (mark := self._mark(run, PREDICTIONS)) is not None}
        self._load("rows", len(marks))
        stale = [run for run, mark in marks.items() if self._rows.marks.get(run) != mark]
        if stale:
            fresh = [
                self._read(stale[start : start + TOGETHER], marks)
                for start in range(0, len(stale), TOGETHER)
            ]
            self._rows = self._rows.without(set(stale)).extended(*fresh)
            if (
                len(stale) >= (FEW if least is None else least)
                and self._rows.table.nbytes <= MOST_BYTES
            ):
                self._save_rows(fresh)
            del fresh
            pa.default_memory_pool().release_unused()
        counts = np.array([self._rows.counts[run] if run in marks else 0 for run in runs], np.int64)
        return self._rows.of(list(marks), columns), counts

    def _read(self, runs: Sequence[str], marks: Mapping[str, Mark]) -> IndexedRows:
        """Read the files of runs."""
        tables = [self._read_rows(run) for run in runs]
        counts = {run: table.num_rows for run, table in zip(runs, tables, strict=True)}
        whole = _whole(tables)
        # Arrow does not release the memory of the small buffers: 200 MB for 10,000 runs.
        tables.clear()
        pa.default_memory_pool().release_unused()
        return IndexedRows(whole, {run: marks[run] for run in runs}, counts)

    def refresh(self, runs: Sequence[str]) -> None:
        """Update the file with these runs, however few of them are new. Damaged runs are skipped:
        they raise an error when they are requested.
        """
        if len(runs) < FEW:
            return
        with suppress(DataError):
            self.scores(runs, least=1)
            self.rows(runs, SCORED, least=1)

    def has(self, run: str, columns: Sequence[str]) -> bool:
        """True if these columns of a run's predictions are in memory, and the run has not changed
        since.
        """
        mark = self._rows.marks.get(run)
        return (
            mark is not None
            and set(columns) <= set(SCORED)
            and mark == self._mark(run, PREDICTIONS)
        )

    def _mark(self, run: str, file: str) -> Mark | None:
        """Size, time and inode of a run's file; None if there is none."""
        try:
            status = os.stat(f"{self._store}/{run[:2]}/{run}/{file}")
        except OSError:
            return None
        if not S_ISREG(status.st_mode):
            return None
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"

    def _load(self, what: str, runs: int) -> None:
        """Load the index file once, if there are enough runs for it to pay off."""
        if what in self._loaded or runs < FEW:
            return
        self._loaded.add(what)
        if not self.file.exists():
            return
        try:
            with closing(sqlite3.connect(self.file)) as db:
                if what == "scores":
                    self._scores |= dict(_stored_scores(db))
                else:
                    self._rows = _joined(_segments(db))
                    pa.default_memory_pool().release_unused()
        except (sqlite3.Error, pa.ArrowException, OSError, ValueError, TypeError, KeyError):
            # Damaged: everything is read from the run folders.
            with suppress(OSError):
                self.file.unlink()

    def _save_scores(self, runs: Sequence[str]) -> None:
        rows = []
        for run in runs:
            mark, scores = self._scores[run]
            rows.append(_sealed(run, mark, json.dumps(scores)))
        self._write(REPLACE_SCORES, rows)

    def _save_rows(self, fresh: Sequence[IndexedRows]) -> None:
        for rows in fresh:
            self._write(ADD_SEGMENT, [_packed(rows)])
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.file)) as db, db:
            [(segments,)] = db.execute("SELECT count(*) FROM segments")
            if segments > MOST_SEGMENTS:
                db.execute("DELETE FROM segments")
                db.execute(ADD_SEGMENT, _packed(self._rows))

    def _write(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Write to the file; if that fails, the next process reads the runs' own files again."""
        with suppress(sqlite3.Error, OSError, DataError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file)) as db, db:
                for table in TABLES:
                    db.execute(table)
                db.executemany(statement, rows)


TABLES = (
    "CREATE TABLE IF NOT EXISTS scores (run TEXT PRIMARY KEY, mark TEXT, scores TEXT, digest BLOB)",
    (
        "CREATE TABLE IF NOT EXISTS segments (number INTEGER PRIMARY KEY, runs TEXT, rows BLOB,"
        " digest BLOB)"
    ),
)
"""Tables of the index. A segment has the rows of up to `TOGETHER` runs that were read together, so
that a hundred thousand rows are a single value.
"""

READ_SCORES = "SELECT run, mark, scores, digest FROM scores"
REPLACE_SCORES = "INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)"
READ_SEGMENTS = "SELECT runs, rows, digest FROM segments ORDER BY number"
ADD_SEGMENT = "INSERT INTO segments (runs, rows, digest) VALUES (?, ?, ?)"


def _sealed(*values: str | bytes) -> tuple[str | bytes, ...]:
    """Values with their digest: SQLite does not detect a changed byte, and Arrow may crash."""
    seal = blake2b(digest_size=16)
    for value in values:
        seal.update(value.encode() if isinstance(value, str) else value)
    return (*values, seal.digest())


def _unsealed(row: tuple[str | bytes, ...]) -> tuple[Any, ...]:
    """Values of a row, after checking their digest."""
    if _sealed(*row[:-1]) != row:
        raise ValueError("the index is damaged")
    return row[:-1]


def _stored_scores(db: sqlite3.Connection) -> Iterator[tuple[str, tuple[Mark, dict[str, Any]]]]:
    for row in db.execute(READ_SCORES):
        run, mark, text = _unsealed(row)
        yield run, (mark, json.loads(text))


def _packed(rows: IndexedRows) -> tuple[str | bytes, ...]:
    """A segment: the runs with their marks and numbers of rows, and the rows as an Arrow stream."""
    runs = [[run, rows.marks[run], count] for run, count in rows.counts.items()]
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(out, SCORED_COLUMNS, options=options) as writer:
        writer.write_table(rows.table.combine_chunks())
    return _sealed(json.dumps(runs), out.getvalue().to_pybytes())


def _segments(db: sqlite3.Connection) -> Iterator[IndexedRows]:
    for row in db.execute(READ_SEGMENTS):
        runs, content = _unsealed(row)
        about = json.loads(runs)
        table = pa.ipc.open_stream(content).read_all()
        marks = {run: mark for run, mark, _ in about}
        counts = {run: count for run, _, count in about}
        yield IndexedRows(table, marks, counts)


def _joined(segments: Iterator[IndexedRows]) -> IndexedRows:
    """Merge all segments. A run that was read again is also in a later segment, which takes
    precedence.
    """
    newest: list[IndexedRows] = []
    seen: set[str] = set()
    for segment in reversed(list(segments)):
        newest.append(segment.without(seen))
        seen |= segment.counts.keys()
    return IndexedRows().extended(*reversed(newest))
