"""From millions of scored rows to one table of seeds × items for each group, by sorting once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """The scores of one group.

    Attributes:
        values: What the group has in common, one value per grouping column.
        runs: The runs in it, as numbers in the order of their rows.
        scores: One array of scores per run.
        items: One array of item numbers per run, ascending.
        tasks: One array of task numbers per run.
    """

    values: tuple[Any, ...]
    runs: tuple[int, ...]
    scores: tuple[NDArray[Any], ...]
    items: tuple[NDArray[Any], ...]
    tasks: tuple[NDArray[Any], ...]

    @property
    def crossed(self) -> bool:
        """Return whether every run answered the same items, each once."""
        first = self.items[0]
        return bool((np.diff(first) > 0).all()) and all(np.array_equal(first, other) for other in self.items[1:])


def groups(
    keys: Sequence[pa.ChunkedArray],
    run: pa.ChunkedArray,
    item: pa.ChunkedArray,
    task: pa.ChunkedArray,
    score: pa.ChunkedArray,
) -> Iterator[ScoreGroup]:
    """Yield groups of rows with equal keys, runs apart, items in order; groups come in the order of their values.

    Args:
        keys: The grouping columns.
        run: Which run each row is of, as numbers.
        item: Which item, as numbers.
        task: Which task, as numbers.
        score: Its score; rows without one are left out.
    """
    scores = score.to_numpy()
    kept = np.isfinite(scores)
    codes, values = [], []
    for key in keys:
        encoded = pa.chunked_array([key.combine_chunks()] if key.num_chunks != 1 else key.chunks, key.type)
        encoded = encoded.dictionary_encode(null_encoding="encode").combine_chunks()
        array = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        rank, ordered = _ranked(array.dictionary.to_pylist())
        codes.append(rank[array.indices.to_numpy(zero_copy_only=False)][kept] if len(rank) else np.empty(0, np.int64))
        values.append(ordered)
    whole = np.zeros(int(kept.sum()), np.int64)
    for code, ordered in zip(codes, values, strict=True):
        whole = whole * max(1, len(ordered)) + code
    runs, items, tasks = (c.to_numpy()[kept] for c in (run, item, task))
    order = np.lexsort((items, runs, whole))
    whole, runs, items, tasks, scores = whole[order], runs[order], items[order], tasks[order], scores[kept][order]
    for low, high in _stretches(whole):
        code, shared = int(whole[low]), []
        for ordered in reversed(values):
            code, place = divmod(code, len(ordered))
            shared.append(ordered[place])
        parts = [(low + a, low + b) for a, b in _stretches(runs[low:high])]
        yield ScoreGroup(
            tuple(reversed(shared)),
            tuple(int(runs[a]) for a, _ in parts),
            *(tuple(column[a:b] for a, b in parts) for column in (scores, items, tasks)),
        )


def _ranked(values: list[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Rank the values: numbers before text, by size, null last; return each value's rank, and the values by rank."""
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


def _stretches(values: NDArray[Any]) -> list[tuple[int, int]]:
    """Find where equal neighbours begin and end."""
    if not len(values):
        return []
    edges = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    return list(itertools.pairwise(edges))


def numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Number the values: equal ones have equal numbers, and null is a value too."""
    encoded = pa.chunked_array([column.combine_chunks()] if column.num_chunks != 1 else column.chunks, column.type)
    return pa.chunked_array([c.indices for c in encoded.dictionary_encode(null_encoding="encode").chunks], pa.int32())


def trait(traits: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return one trait of every row; null where a row lacks it."""
    return pc.map_lookup(traits, pa.scalar(name), "first")
