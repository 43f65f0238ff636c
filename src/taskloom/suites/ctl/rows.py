"""Expressions as the columns of a dataset, whole arrays at a time.

An expression of `graphs` is a start symbol, its functions in order of application and the value
after each, all of them numbers. `Renderer` looks up their names in tables of phrases and joins them
by Arrow's kernels, so that no text is built in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import numbers, repeated, strings
from taskloom.core.shards import STEP, schema
from taskloom.suites.ctl.graphs import Expressions
from taskloom.suites.ctl.world import SymbolWorld

TRAITS: dict[str, type] = {
    "length": int,
    "functions": str,
    "groups": str,
    "values": str,
    "seen": bool,
}
"""Length of the chain; functions, their groups and the values after each, in order of application;
whether training has it.
"""


@dataclass(frozen=True, slots=True)
class ExpressionRows:
    """Some rows of a split: expressions grouped by length, the places they go to, and whether
    training has each.
    """

    parts: list[tuple[NDArray[np.int64], Expressions]]
    seen: NDArray[np.bool_]


SPACE = strings([" "])[0]

LARGEST_TABLE = 4_096
"""Phrases of one table: enough for pairs of 64 functions and for four of eight symbols, and made in
a millisecond.
"""


class JoinedWords:
    """Words joined by spaces, several words in one look-up: fewer and larger pieces to gather and
    to join.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.most = max(k for k in range(1, 5) if k == 1 or len(words) ** k <= LARGEST_TABLE)
        self._tables: dict[int, pa.Array] = {}

    def pieces(self, codes: NDArray[Any]) -> list[pa.Array]:
        """Return columns whose join is the phrase of each row of `codes` [rows, words]."""
        starts = range(0, codes.shape[1], self.most)
        return [self._look_up(codes[:, start : start + self.most]) for start in starts]

    def _look_up(self, codes: NDArray[Any]) -> pa.Array:
        number = codes[:, 0].astype(np.int32)
        for i in range(1, codes.shape[1]):
            number = number * len(self.words) + codes[:, i]
        return pc.take(self._table(codes.shape[1]), numbers(number))

    def _table(self, length: int) -> pa.Array:
        if length not in self._tables:
            self._tables[length] = strings(
                [" ".join(words) for words in product(self.words, repeat=length)]
            )
        return self._tables[length]


class Renderer:
    """Renderer of expressions as rows of a dataset."""

    def __init__(self, world: SymbolWorld, order: str, task: str) -> None:
        names = [str(s) for s in range(world.symbols)]
        groups = world.group_of()
        kinds = sorted(set(groups))
        self.names, self.symbols = strings(world.names), strings(names)
        self.functions, self.values, self.groups = (
            JoinedWords(world.names),
            JoinedWords(names),
            JoinedWords(kinds),
        )
        self.group_of = np.array([kinds.index(group) for group in groups], dtype=np.int32)
        self.outermost_first = order == "right-to-left"
        self.task = task

    def table(self, start: int, rows: ExpressionRows) -> pa.Table:
        """Return the rows as a table; `start` is the index of the first."""
        n = len(rows.seen)
        if not n:
            return schema(TRAITS).empty_table()
        # Parts come by length; one gather at the end puts every row into its place.
        origin = np.empty(n, dtype=np.int64)
        origin[np.concatenate([at for at, _ in rows.parts])] = np.arange(n)
        columns = [self._columns(e) for _, e in rows.parts]
        places = numbers(origin)
        joined = {
            name: pc.take(pa.concat_arrays([c[name] for c in columns]), places)
            for name in columns[0]
        }
        lengths = joined.pop("length")
        traits = [
            lengths,
            joined.pop("functions"),
            joined.pop("groups"),
            joined.pop("values"),
            numbers(rows.seen),
        ]
        wanted = schema(TRAITS)
        nothing = pa.nulls(n, pa.string())
        arrays = [
            numbers(np.arange(start, start + n)),
            repeated(self.task, pa.string(), n),
            joined["input"],
            joined["targets"],
            nothing,
            nothing,
            joined["derivation"],
            pa.StructArray.from_arrays(traits, names=list(TRAITS)),
        ]
        return pa.table(arrays, schema=wanted)

    def _columns(self, e: Expressions) -> dict[str, pa.Array]:
        n, length = e.functions.shape
        symbol = pc.take(self.symbols, numbers(e.symbols))
        if self.outermost_first:
            words = [*self.functions.pieces(e.functions[:, ::-1]), symbol]
        else:
            words = [symbol, *self.functions.pieces(e.functions)]
        every = numbers(np.arange(n + 1, dtype=np.int32))
        steps = pa.StructArray.from_arrays(
            [
                pc.take(self.names, numbers(e.functions.ravel())),
                pc.take(self.symbols, numbers(e.values.ravel())),
                pa.nulls(n * length, STEP.field("of").type),
            ],
            fields=list(STEP),
        )
        return {
            "input": _join(words),
            "targets": pa.ListArray.from_arrays(
                every, pc.take(self.symbols, numbers(e.values[:, -1]))
            ),
            "derivation": pa.ListArray.from_arrays(
                numbers(np.arange(n + 1, dtype=np.int32) * length), steps
            ),
            "length": numbers(np.full(n, length, dtype=np.int64)),
            "functions": _join(self.functions.pieces(e.functions)),
            "groups": _join(self.groups.pieces(self.group_of[e.functions])),
            "values": _join(self.values.pieces(e.values)),
        }


def _join(words: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*words, SPACE)
