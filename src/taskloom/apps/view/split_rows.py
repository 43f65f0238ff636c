"""The rows of a split, a few at a time. Memory does not grow with the dataset, and time hardly
does. Rows are located by the sizes of files and row groups. A search reads only the columns that it
needs, for a limited time, and returns the row to continue from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from taskloom.core import shards
from taskloom.core.errors import DataError
from taskloom.core.example import Example
from taskloom.data.foreign import adapt

BATCH = 2_048
"""Number of rows that are decoded at a time."""

PATIENCE = 2.0
"""Seconds after which a search stops and offers to continue."""

TASK = "task"
"""Name of the task in filters, next to the traits."""


@dataclass(frozen=True, slots=True)
class NumberedExample:
    """An example with its index in the split."""

    index: int
    example: Example


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search.

    Attributes:
        rows: Numbers of the matching rows, ascending.
        next: The row to continue from; None if the whole split has been searched.
        looked: Number of rows that were searched.
    """

    rows: list[int]
    next: int | None
    looked: int


class SplitRows:
    """The rows of one split in Parquet files.

    Args:
        files: The files in order, with their numbers of rows.
        foreign: True if Taskloom did not write them, so that their columns must be converted.
    """

    def __init__(self, files: Sequence[tuple[Path, int]], *, foreign: bool = False) -> None:
        self.files = list(files)
        self.foreign = foreign
        self.n = sum(rows for _, rows in self.files)

    def read(self, start: int, count: int) -> list[NumberedExample]:
        """Read rows, beginning with `start`."""
        return self.take(range(max(0, start), min(self.n, max(0, start) + count)))

    def take(self, rows: Sequence[int]) -> list[NumberedExample]:
        """Read rows by their numbers, which must be ascending."""
        numbered: list[NumberedExample] = []
        wanted = list(rows)
        if not wanted:
            return []
        for low, batch in self._batches(wanted[0], None):
            places = [row - low for row in wanted[len(numbered) :] if row < low + batch.num_rows]
            if places:
                table = self._ours(
                    pa.Table.from_batches([batch]).take(pa.array(places, pa.int64()))
                )
                examples = shards.to_examples(table)
                numbered += [
                    NumberedExample(low + place, one)
                    for place, one in zip(places, examples, strict=True)
                ]
            if len(numbered) == len(wanted):
                break
        return numbered

    def search(
        self,
        text: str,
        filters: Mapping[str, str],
        start: int,
        count: int,
        patience: float = PATIENCE,
    ) -> SearchResult:
        """Find rows from `start` onwards that contain a text and have the given traits.

        Args:
            text: Text to find in input or targets, ignoring case; empty: any.
            filters: Values by the name of the trait (or `task`), each an exact value or, for
                numbers, a range such as `2..5`.
            start: The first row to search.
            count: Maximum number of matches.
            patience: Seconds after which to stop.
        """
        end = time.monotonic() + patience
        columns = [*(["input", "targets"] if text else []), *(["task"] if TASK in filters else [])]
        # A dot in a name would address a nested column. Traits are not nested, so all are read
        # instead.
        columns += [
            "traits" if "." in name else f"traits.{name}" for name in filters if name != TASK
        ]
        matches: list[int] = []
        place = start
        for low, batch in self._batches(start, None if self.foreign else columns):
            table = self._ours(pa.Table.from_batches([batch]))
            mask = matching(table, text, filters)
            matches += [
                low + row for row in pc.indices_nonzero(mask).to_pylist() if low + row >= start
            ]
            place = low + batch.num_rows
            if len(matches) >= count or time.monotonic() > end:
                break
        if len(matches) > count:
            return SearchResult(
                matches[:count], matches[count - 1] + 1, matches[count - 1] + 1 - start
            )
        return SearchResult(matches, place if place < self.n else None, place - start)

    def traits(self) -> dict[str, str]:
        """Kind of each trait by name: `text`, `number` or `bool`."""
        for path, _ in self.files:
            with opened(path) as file:
                schema = file.schema_arrow
            if "traits" in schema.names and pa.types.is_struct(schema.field("traits").type):
                return {field.name: _kind(field.type) for field in schema.field("traits").type}
        return {}

    def _ours(self, table: pa.Table) -> pa.Table:
        return adapt(table, self.files[0][0]) if self.foreign else table

    def _batches(
        self, start: int, columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches, beginning with the one that holds row `start`, each with the number of its
        first row.
        """
        low = 0
        for path, rows in self.files:
            if low + rows > start:
                yield from _file_batches(path, low, start, columns)
            low += rows


def _file_batches(
    path: Path, low: int, start: int, columns: Sequence[str] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    with opened(path) as file:
        known = None if columns is None else _columns(file, columns)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if low + rows > start:
                at = low
                for batch in _decoded(file, path, group, known):
                    if at + batch.num_rows > start:
                        yield at, batch
                    at += batch.num_rows
            low += rows


def _decoded(
    file: pq.ParquetFile, path: Path, group: int, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(BATCH, [group], columns, use_threads=False)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(path, error) from error


def _columns(file: pq.ParquetFile, wanted: Sequence[str]) -> list[str]:
    """The columns to decode. If none is requested, one that always exists, so that rows can be
    counted.
    """
    schema = file.schema_arrow
    traits = (
        {field.name for field in schema.field("traits").type} if "traits" in schema.names else set()
    )
    for column in wanted:
        trait = column.partition(".")[2]
        if trait and trait not in traits:
            raise DataError(
                f"the examples have no trait '{trait[:80]}'; choose one of"
                f" {', '.join(sorted(traits)) or 'none'}"
            )
    return list(wanted) or ["index"]


def opened(path: Path) -> pq.ParquetFile:
    """Open a Parquet file. Raise `DataError` if that fails."""
    try:
        file = pq.ParquetFile(path, memory_map=True, pre_buffer=False)
        _ = [field.name for field in file.schema_arrow]
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; rerun 'taskloom make' to restore it") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        raise damaged(path, error) from error
    return file


def damaged(path: Path, error: Exception) -> DataError:
    """Error for a file that cannot be read."""
    return DataError(
        f"{path} is damaged ({(str(error).splitlines() or ['no reason given'])[0][:200]});"
        " restore it"
    )


def matching(table: pa.Table, text: str, filters: Mapping[str, str]) -> Any:
    """Mask of the rows that contain a text and have the given traits."""
    mask = pa.array([True] * table.num_rows, pa.bool_())
    if text:
        pieces = [table.column("input"), pc.binary_join(table.column("targets"), "\n")]
        hits = [pc.match_substring(piece, text, ignore_case=True) for piece in pieces]
        mask = pc.or_(*(pc.fill_null(hit, False) for hit in hits))
    for name, value in filters.items():
        mask = pc.and_(mask, pc.fill_null(_equal(_column(table, name), value), False))
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


def _column(table: pa.Table, name: str) -> Any:
    if name == TASK:
        return table.column("task")
    traits = table.column("traits") if "traits" in table.column_names else None
    if traits is None or name not in [field.name for field in traits.type]:
        raise DataError(f"the examples have no trait '{name[:80]}'")
    return pc.struct_field(traits, [field.name for field in traits.type].index(name))


def _equal(column: Any, value: str) -> Any:
    if value == "null":
        return pc.is_null(column)
    if _kind(column.type) == "number":
        low, dots, high = value.partition("..")
        try:
            ends = [
                float(low) if low or not dots else -float("inf"),
                float(high or "inf") if dots else float(low),
            ]
        except ValueError:
            return pa.nulls(len(column), pa.bool_())
        numbers = pc.cast(column, pa.float64(), safe=False)
        return pc.and_(pc.greater_equal(numbers, ends[0]), pc.less_equal(numbers, ends[1]))
    if _kind(column.type) == "bool":
        return (
            pc.equal(column, value == "true")
            if value in ("true", "false")
            else pa.nulls(len(column), pa.bool_())
        )
    return pc.equal(pc.cast(column, pa.string()), value)


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "bool"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "text"
