"""Groups of scores: millions of scored rows, sorted once into a table of seeds × items per group.

Groups in which every run answered the same items are extracted in bulk (`SortedScores.tables`).
Otherwise the overhead of ten thousand small groups would exceed the cost of their million rows.
`ScoredRows` reads the rows of runs with the columns that they are grouped by.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import array_of, numbers, strings, whole_array
from taskloom.core.arrow import column as column_of
from taskloom.core.errors import nearest
from taskloom.experiments.files import StoreError
from taskloom.experiments.record import RunsError

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs


TOGETHER = 1 << 18
"""Maximum scores extracted at a time. Each of the arrays that this needs takes 2 MB."""

FEW_CHUNKS = 16
"""Minimum number of chunks for which it pays to combine a column."""


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """The scores of one group.

    Attributes:
        values: Value of each grouping column, shared by the whole group.
        runs: Numbers of its runs, in the order of their rows.
        scores: One array of scores per run.
        items: One array of item numbers per run, in ascending order.
        tasks: One array of task numbers per run.
    """

    values: tuple[Any, ...]
    runs: tuple[int, ...]
    scores: tuple[NDArray[Any], ...]
    items: tuple[NDArray[Any], ...]
    tasks: tuple[NDArray[Any], ...]

    @property
    def crossed(self) -> bool:
        """True if every run answered the same items, each once."""
        first = self.items[0]
        if not (np.diff(first) > 0).all() or any(len(other) != len(first) for other in self.items):
            return False
        return bool((np.stack(self.items) == first).all())


@dataclass(frozen=True, slots=True)
class SortedScores:
    """Scored rows sorted by group, then by run, then by item.

    Attributes:
        columns: The distinct values of each grouping column, in order.
        codes: For each group, one number that encodes its combination of values.
        edges: First row of each group, and the end of the last group.
        cuts: First row of each run in each group, and the end of the last run.
        first: For each group, the index in `cuts` of its first run, followed by the total number of
            runs.
        runs: Run of each row.
        scores: Score of each row.
        items: Item of each row.
        tasks: Task of each row.
    """

    columns: list[list[Any]]
    codes: NDArray[Any]
    edges: NDArray[Any]
    cuts: NDArray[Any]
    first: NDArray[Any]
    runs: NDArray[Any]
    scores: NDArray[Any]
    items: NDArray[Any]
    tasks: NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[ScoreGroup]:
        return map(self.group, range(len(self)))

    def group(self, number: int) -> ScoreGroup:
        """Return one group."""
        cuts = self.cuts[self.first[number] : self.first[number + 1] + 1].tolist()
        parts = list(itertools.pairwise(cuts))
        return ScoreGroup(
            self.values([number])[0],
            self.runs_of(number),
            *(
                tuple(column[a:b] for a, b in parts)
                for column in (self.scores, self.items, self.tasks)
            ),
        )

    def values(self, numbers: Sequence[int] | slice = slice(None)) -> list[tuple[Any, ...]]:
        """Value of each group in each grouping column. Default: of all groups."""
        codes, shared = self.codes[numbers], []
        if not self.columns:
            return [()] * len(codes)
        for ordered in reversed(self.columns):
            codes, places = np.divmod(codes, len(ordered))
            shared.append([ordered[place] for place in places.tolist()])
        return list(zip(*reversed(shared), strict=True))

    def runs_of(self, number: int) -> tuple[int, ...]:
        """Numbers of a group's runs, in the order of their rows."""
        return tuple(self.runs[self.cuts[self.first[number] : self.first[number + 1]]].tolist())

    def tables(self) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Yield the crossed groups as arrays, many groups of the same shape at a time.

        Yields:
            Numbers of the groups, their runs [groups × runs], and their scores [groups × runs ×
                items].
        """
        if not len(self):
            return
        sizes, starts = np.diff(self.cuts), self.first[:-1]
        counts, items = np.diff(self.first), np.minimum.reduceat(sizes, starts)
        even = np.flatnonzero(items == np.maximum.reduceat(sizes, starts))
        for runs, n in {*zip(counts[even].tolist(), items[even].tolist(), strict=True)}:
            alike = even[(counts[even] == runs) & (items[even] == n)]
            step = max(1, TOGETHER // (runs * n))
            for part in np.split(alike, range(step, len(alike), step)):
                rows = self.edges[part][:, None] + np.arange(runs * n)
                item = self.items[rows].reshape(-1, runs, n)
                crossed = (np.diff(item[:, 0]) > 0).all(axis=1) & (item == item[:, :1]).all(
                    axis=(1, 2)
                )
                scores = self.scores[rows].reshape(-1, runs, n)
                yield part[crossed], self.runs[rows[:, ::n]][crossed], scores[crossed]


def sort_scores(
    keys: Sequence[pa.ChunkedArray],
    run: pa.ChunkedArray,
    item: pa.ChunkedArray,
    task: pa.ChunkedArray,
    score: pa.ChunkedArray,
) -> SortedScores:
    """Sort rows by group, then by run, then by item. Groups are in the order of their values.

    Args:
        keys: The grouping columns.
        run: Number of each row's run.
        item: Number of each row's item.
        task: Number of each row's task.
        score: Score of each row. Rows without a score are omitted.
    """
    scores = whole_array(score)
    finite = np.isfinite(scores)
    kept: NDArray[Any] | slice = slice(None) if finite.all() else finite
    values, whole = [], np.zeros(len(scores[kept]), np.int64)
    for key in keys:
        array = _encoded(key)
        rank, ordered = _ranked(array.dictionary.to_pylist())
        values.append(ordered)
        if len(rank):
            whole *= len(rank)
            whole += rank[array_of(array.indices)[kept]]
    runs, items, tasks = (whole_array(c)[kept] for c in (run, item, task))
    order = _order(whole, runs, items)
    whole, runs = whole[order], runs[order]
    new_group = _changes(whole)
    cuts = np.flatnonzero(new_group | _changes(runs))
    edges = np.flatnonzero(new_group)
    codes, rows = whole[edges], len(whole)
    del whole, new_group  # 18 MB for two million rows, before as much is copied
    return SortedScores(
        values,
        codes,
        np.append(edges, rows),
        np.append(cuts, rows),
        np.append(np.searchsorted(cuts, edges), len(cuts)),
        runs,
        scores[kept][order],
        items[order],
        tasks[order],
    )


def _encoded(key: pa.ChunkedArray) -> pa.DictionaryArray:
    """Encode a column as indices into its distinct values, including null."""
    if pa.types.is_dictionary(key.type) and key.null_count:
        key = key.cast(key.type.value_type)
    whole = key.chunk(0) if key.num_chunks == 1 else key.combine_chunks()
    return (
        whole
        if pa.types.is_dictionary(whole.type)
        else whole.dictionary_encode(null_encoding="encode")
    )


def _order(groups: NDArray[Any], runs: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
    """Order of rows by group, run and item. If the three fit into one number, sorting by it is
    three times as fast.
    """
    if not len(groups):
        return np.zeros(0, np.int64)
    lows = [int(column.min()) for column in (groups, runs, items)]
    sizes = [
        int(column.max()) - low + 1 for column, low in zip((groups, runs, items), lows, strict=True)
    ]
    if sizes[0] * sizes[1] * sizes[2] >= 2**62:
        return np.lexsort((items, runs, groups))
    number = groups - lows[0]
    for column, low, size in zip((runs, items), lows[1:], sizes[1:], strict=True):
        number *= size  # in place: each further array of two million rows takes 16 MB
        number += column - low
    return np.argsort(number, kind="stable")


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """True at the first value and at each value that differs from the previous one."""
    return np.concatenate((np.ones(min(1, len(values)), np.bool_), values[1:] != values[:-1]))


def _ranked(values: list[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Rank of each value, and the values by rank. Numbers come first, then text, then null."""
    order = sorted(range(len(values)), key=lambda i: _sortable(values[i]))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return rank, [values[i] for i in order]


def _sortable(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 2, 0.0, ""
    try:
        return 0, float(value), str(value)
    except (TypeError, ValueError):
        return 1, 0.0, str(value)


def numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Number the distinct values. Null counts as a value."""
    encoded = pa.chunked_array(
        [column.combine_chunks()] if column.num_chunks != 1 else column.chunks, column.type
    )
    return pa.chunked_array(
        [c.indices for c in encoded.dictionary_encode(null_encoding="encode").chunks], pa.int32()
    )


def trait_lists(
    rows: Iterable[Sequence[tuple[str, str]] | None],
) -> dict[str, list[str | None]]:
    """Values of each trait by row; None for rows without it. Traits are in the order of their first
    occurrence.

    >>> trait_lists([[("length", "2")], None, [("length", "3"), ("group", "a")]])
    {'length': ['2', None, '3'], 'group': [None, None, 'a']}
    """
    items = [dict(row or ()) for row in rows]
    names = dict.fromkeys(itertools.chain.from_iterable(items))
    return {name: [item.get(name) for item in items] for name in names}


def trait(traits: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """One trait of every row; null for rows without it."""
    if traits.num_chunks > FEW_CHUNKS:
        return pc.map_lookup(traits, strings([name])[0], "first")
    return pa.chunked_array([_trait(chunk, name) for chunk in traits.chunks], pa.string())


def _trait(rows: pa.MapArray, name: str) -> pa.Array:
    """Look up a trait like `pc.map_lookup`, in a tenth of its half second per million rows."""
    wanted = strings([name])[0]
    if rows.null_count:
        return pc.map_lookup(rows, wanted, "first")
    offsets = array_of(rows.offsets)
    entries = np.flatnonzero(array_of(pc.equal(rows.keys, wanted)))
    entries = entries[(entries >= offsets[0]) & (entries < offsets[-1])]
    places = np.full(len(rows), -1)
    places[(np.searchsorted(offsets, entries, "right") - 1)[::-1]] = entries[
        ::-1
    ]  # the first of several in a row
    validity = pa.py_buffer(np.packbits(places >= 0, bitorder="little"))
    return rows.items.take(
        pa.Array.from_buffers(pa.int64(), len(places), [validity, pa.py_buffer(places)])
    )


class ScoredRows:
    """Scores of runs, row by row, ready for grouping. Only the necessary columns are read.

    Attributes:
        about: Columns of the table of runs, indexed by the number of the run.
        columns: Grouping columns.
    """

    def __init__(
        self,
        runs: Runs,
        apart: Sequence[str],
        traits: Sequence[str],
        splits: Sequence[str],
        tasks: bool = False,
    ) -> None:
        self._runs = runs
        self.columns = [*apart, *traits]
        self._kinds: dict[int, str] = {}
        self._inputs: dict[tuple[Any, ...], pa.Table] = {}
        self._splits = list(splits) or None
        table = runs.table
        if splits:  # runs that never answered these splits are irrelevant
            table = table.filter(pc.is_in(table["split"], strings(list(splits))))
        table = table.filter(numbers(whole_array(table["n"]) > 0))
        self.names = list(dict.fromkeys(table["run"].to_pylist()))
        place = {name: i for i, name in enumerate(self.names)}
        self.about: list[dict[str, Any]] = [{}] * len(self.names)
        for row in table.drop_columns(["split", "n", "score", *runs.suite_scores]).to_pylist():
            self.about[place[row["run"]]] = row
        wanted = ["split", "index", "score", *(["task"] if tasks or "task" in traits else [])]
        rows, number = self._read([*wanted, *(["traits"] if set(traits) - {"task"} else [])])
        self._number = pa.chunked_array([number])
        self._keys = [
            rows["split"] if c == "split" else self._spread(c, table.schema.field(c).type)
            for c in apart
        ]
        self._keys += [rows["task"] if t == "task" else trait(rows["traits"], t) for t in traits]
        for name, key in zip(traits, self._keys[len(apart) :], strict=True):
            if key.null_count == len(key) and len(key):
                raise RunsError(
                    f"no example and no run has '{name}';"
                    f" {nearest(name, known_traits(runs, splits))}"
                )
        self._rows = rows

    def _read(self, wanted: Sequence[str]) -> tuple[pa.Table, pa.Array]:
        """Read columns of all runs, and number the run of each row."""
        about = int(whole_array(self._runs.table["n"]).sum())
        rows, counts = self._runs.source.scored(self.names, wanted, about)
        number = numbers(np.repeat(np.arange(len(self.names), dtype=np.int32), counts))
        if self._splits:
            wanted_rows = pc.is_in(rows["split"].cast(pa.string()), strings(self._splits))
            rows, number = rows.filter(wanted_rows), number.filter(wanted_rows.combine_chunks())
        bare = np.flatnonzero(np.bincount(array_of(number), minlength=len(self.names)) == 0)
        if len(bare):
            raise StoreError(
                f"{len(bare)} of {len(self.names)} runs have no predictions of"
                f" {' and '.join(self._splits or ['any split'])} (the first:"
                f" {self.names[bare[0]]}), which are needed here: run them with keep:"
                " {predictions: true}, or ask for means over seeds alone (`over` seeds)"
            )
        return rows, number

    def _spread(self, column: str, kind: pa.DataType) -> pa.ChunkedArray:
        """Repeat a column of the runs for every row, as indices into its values."""
        values = column_of([about[column] for about in self.about], kind).dictionary_encode(
            null_encoding="encode"
        )
        places = array_of(values.indices)[array_of(self._number.chunk(0))]
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(numbers(places), values.dictionary)]
        )

    @cached_property
    def task_names(self) -> list[str]:
        """Tasks in the order of their numbers."""
        return [str(name) for name in self._rows["task"].combine_chunks().unique().to_pylist()]

    def groups(self) -> list[ScoreGroup]:
        """Groups in the order of their values."""
        return list(self.sorted_scores())

    def sorted_scores(self) -> SortedScores:
        """Rows sorted by group."""
        rows = self._rows
        task = numbered(rows["task"]) if "task" in rows.column_names else self._number
        return sort_scores(self._keys, self._number, rows["index"], task, rows["score"])

    def alike(self, runs: Sequence[int]) -> bool:
        """True if runs differ only in the seed, so that equal indices mean equal items."""
        return len(runs) == 1 or len({self._kind(run) for run in runs}) == 1

    def _kind(self, run: int) -> str:
        if run not in self._kinds:
            self._kinds[run] = self._runs[self.names[run]].kind
        return self._kinds[run]

    def items_noted(self, group: ScoreGroup) -> list[str | None]:
        """Digests of the items of the splits that a group's first run answered; None if an older
        run has none.
        """
        split = dict(zip(self.columns, group.values, strict=True)).get("split")
        answered = self._runs[self.names[group.runs[0]]].splits
        return [answered[s].items for s in ([split] if split else self._splits or sorted(answered))]

    def inputs(self, group: ScoreGroup) -> pa.Table:
        """Indices and texts of the items that a group's first run answered."""
        if group.values not in self._inputs:
            split = dict(zip(self.columns, group.values, strict=True)).get("split")
            rows = self._runs.source.predictions(
                [self.names[group.runs[0]]],
                ["index", "input"],
                splits=[split] if split else self._splits,
            )
            self._inputs[group.values] = rows.select(["index", "input"])
        return self._inputs[group.values]


def known_traits(runs: Runs, splits: Sequence[str] = ()) -> list[str]:
    """Names that scores can be grouped by: columns of the runs, the task, and the traits in one run
    of each recipe.
    """
    return sorted(shown_traits(runs, splits) | {"task", *runs.table.column_names})


def shown_traits(runs: Runs, splits: Sequence[str] = ()) -> set[str]:
    """Traits that occur in one run of each recipe."""
    table = runs.table
    first = dict(
        zip(reversed(table["recipe"].to_pylist()), reversed(table["run"].to_pylist()), strict=True)
    )
    names = list(first.values())
    own = table.filter(pc.is_in(table["run"], strings(names)))
    rows, _ = runs.source.scored(names, ["split", "traits"], int(whole_array(own["n"]).sum()))
    if splits:
        rows = rows.filter(pc.is_in(rows["split"].cast(pa.string()), strings(list(splits))))
    return trait_names(rows["traits"])


def trait_names(traits: pa.ChunkedArray) -> set[str]:
    """Names of the traits that occur in some row."""
    names: set[str] = set()
    for chunk in traits.chunks:
        # If the chunk is a slice, `keys` also has keys of rows outside it.
        start, stop = chunk.offsets[0].as_py(), chunk.offsets[-1].as_py()
        names.update(chunk.keys.slice(start, stop - start).unique().to_pylist())
    return names
