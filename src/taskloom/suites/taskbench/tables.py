"""Relations as compact arrays, with the few operations of which all compositions consist.

A `Table` contains a sorted set of symbols (small integers) for each of n rows, with all sets
concatenated in one array. A relation over a hundred thousand words with a million pairs takes 4 MB,
and is composed with another one in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I32 = NDArray[np.int32]
    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]

BATCH = 1 << 18
"""Maximum number of pairs that a composition expands at once. They need 4 MB of working memory,
which fits into the processor's cache.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A sorted set of symbols for each row.

    Attributes:
        starts: Row i has the values starts[i]..starts[i + 1].
        values: All sets, concatenated.
    """

    starts: I64
    values: I32

    @classmethod
    def empty(cls, rows: int) -> Table:
        """Return a table of empty sets."""
        return cls(np.zeros(rows + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))

    @classmethod
    def of_pairs(cls, owners: I64, values: NDArray[Any], rows: int) -> Table:
        """Build a table from these pairs, with duplicates removed."""
        if len(owners) == 0:
            return cls.empty(rows)
        width = int(values.max()) + 1
        kind = _key_type(rows, width)
        keys = owners.astype(kind)
        keys *= kind.type(width)
        keys += values.astype(kind)
        return cls._of_keys(keys, width, rows)

    @classmethod
    def _of_keys(cls, keys: NDArray[Any], width: int, rows: int) -> Table:
        """Build a table from pairs given as keys row * width + value. The keys are sorted in
        place.
        """
        keys.sort(kind="stable" if _runs(keys) else "quicksort")
        keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        bounds = (np.arange(rows, dtype=np.int64) * width).astype(keys.dtype)
        starts = np.append(np.searchsorted(keys, bounds), len(keys)).astype(np.int64)
        # Subtracting the row's offset is faster than dividing by the width.
        keys -= np.repeat(bounds, np.diff(starts))
        return cls(starts, keys.astype(np.int32))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def counts(self) -> I64:
        """Size of each row's set."""
        return np.diff(self.starts)

    def row(self, i: int) -> I32:
        """Set of a single row."""
        return self.values[self.starts[i] : self.starts[i + 1]]

    def owners(self) -> I64:
        """Return the row of each value."""
        return np.repeat(np.arange(self.rows, dtype=np.int64), self.counts)

    def take(self, rows: I64 | I32) -> Table:
        """Return these rows, in this order."""
        counts = self.counts[rows]
        return Table(_starts(counts), self.values[_ranges(self.starts[:-1][rows], counts)])

    def filled(self) -> Table:
        """Return the rows that have values. Only the row starts are copied."""
        return Table(np.append(self.starts[:-1][self.counts > 0], self.starts[-1]), self.values)

    def after(self, inner: Table) -> Table:
        """Apply this relation after another: row i becomes the union of this table's rows for the
        values in inner's row i.
        """
        sizes = self.counts[inner.values]
        reached = _starts(sizes)[inner.starts]
        parts: list[Table] = []
        low = 0
        most = max(1, (1 << 32) // (int(self.values.max(initial=0)) + 1) - 1)
        while low < inner.rows:
            high = max(
                low + 1, int(np.searchsorted(reached, reached[low] + BATCH, side="right")) - 1
            )
            high = min(high, low + most)
            parts.append(self._after(inner, low, high))
            low = high
        return stack(parts) if parts else Table.empty(0)

    def _after(self, inner: Table, low: int, high: int) -> Table:
        first, last = inner.starts[low], inner.starts[high]
        middle = inner.values[first:last]
        starts = self.starts[middle]
        counts = self.starts[middle + 1] - starts
        values = self.values[_ranges(starts, counts)]
        if not len(values):
            return Table.empty(high - low)
        width = int(values.max()) + 1
        kind = _key_type(high - low, width)
        rows = np.repeat(
            np.arange(high - low, dtype=kind) * kind.type(width), inner.counts[low:high]
        )
        keys = np.repeat(rows, counts)
        keys += values.astype(kind)
        return Table._of_keys(keys, width, high - low)

    def union(self, other: Table) -> Table:
        """Return the union of the two sets of each row."""
        owners = np.concatenate((self.owners(), other.owners()))
        return Table.of_pairs(owners, np.concatenate((self.values, other.values)), self.rows)

    def intersection(self, other: Table) -> Table:
        """Return the intersection of the two sets of each row."""
        return self.keep(self.inside(other))

    def keep(self, mask: Mask) -> Table:
        """Keep the values for which the mask is true."""
        return Table(_starts(mask)[self.starts], self.values[mask])

    def flipped(self, rows: int) -> Table:
        """Return the inverse relation, as a table of `rows` rows."""
        return Table.of_pairs(self.values.astype(np.int64), self.owners(), rows)

    def closure(self) -> Table:
        """Return the transitive closure of a relation on symbols. Each step expands only the pairs
        found in the previous step, so each pair is expanded once. WordNet's nouns take 18 steps.
        """
        reached = frontier = self
        while len(frontier.values):
            further = self.after(frontier)
            frontier = further.keep(~further.inside(reached))
            reached = reached.union(frontier)
        return reached

    def inside(self, other: Table) -> Mask:
        """Return a mask of the values that are also in the other table's row."""
        width = np.int64(1 + max(self.values.max(initial=0), other.values.max(initial=0)))
        here = self.owners() * width + self.values
        there = other.owners() * width + other.values
        if not len(there):
            return np.zeros(len(here), dtype=np.bool_)
        places = np.minimum(np.searchsorted(there, here), len(there) - 1)
        return np.asarray(there[places] == here)

    def has(self, rows: I64 | I32, values: I64 | I32) -> Mask:
        """Return a mask of the pairs (row, value) whose value is in the row's set, by parallel
        binary search.
        """
        if not len(self.values):
            return np.zeros(len(rows), dtype=np.bool_)
        low, end = self.starts[rows], self.starts[np.add(rows, 1)]
        high = end
        while True:
            active = low < high
            if not active.any():
                break
            middle = (low + high) >> 1
            less = self.values[np.minimum(middle, len(self.values) - 1)] < values
            low = np.where(active & less, middle + 1, low)
            high = np.where(active & ~less, middle, high)
        return np.asarray(
            (low < end) & (self.values[np.minimum(low, len(self.values) - 1)] == values)
        )

    def any(self, mask: Mask) -> Mask:
        """Return a mask of the rows that have a value for which `mask` is true. `mask` has one
        truth value per symbol.
        """
        totals = _starts(mask[self.values])
        return np.asarray(totals[self.starts[1:]] > totals[self.starts[:-1]])


def stack(parts: list[Table]) -> Table:
    """Concatenate tables row-wise."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([part.counts for part in parts])
    return Table(_starts(counts), np.concatenate([part.values for part in parts]))


def of_sets(sets: list[list[int]]) -> Table:
    """Build a table from these sets, in the given order (which must be sorted if sets are compared
    later).
    """
    counts = np.array([len(s) for s in sets], dtype=np.int64)
    return Table(_starts(counts), np.array([v for s in sets for v in s], dtype=np.int32))


def _key_type(rows: int, width: int) -> np.dtype[Any]:
    """Return an integer type for the keys row * width + value. Keys of half the width are sorted
    twice as fast.
    """
    return np.dtype(np.uint32 if rows * width < 1 << 32 else np.int64)


def _runs(keys: NDArray[Any]) -> bool:
    """True if the keys are a few concatenated sorted runs, which a merge sort joins in one pass."""
    return int(np.count_nonzero(keys[1:] < keys[:-1])) < 8


def _starts(counts: NDArray[Any]) -> I64:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _ranges(starts: I64, counts: I64) -> I64:
    """Return the concatenated ranges starts[i]..starts[i] + counts[i]."""
    ends = np.cumsum(counts)
    places = np.repeat(starts - ends + counts, counts)
    places += np.arange(len(places), dtype=np.int64)
    return places
