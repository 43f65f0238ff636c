"""Expressions as the columns of a dataset, whole arrays at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.dataset.shards import STEP, schema
from taskloom.suites.ctl.graphs import Expressions
from taskloom.suites.ctl.world import SymbolWorld

TRAITS: dict[str, type] = {"length": int, "functions": str, "groups": str, "values": str, "seen": bool}
"""Length of the chain; functions, their groups and the values after each, in order of application; whether training has it."""


@dataclass(frozen=True, slots=True)
class ExpressionRows:
    """Some rows of a split: expressions grouped by length, the places they go to, and whether training has each."""

    parts: list[tuple[NDArray[np.int64], Expressions]]
    seen: NDArray[np.bool_]


class Renderer:
    """Renderer of expressions as rows of a dataset."""

    def __init__(self, world: SymbolWorld, order: str, task: str) -> None:
        self.names = pa.array(world.names)
        self.symbols = pa.array([str(s) for s in range(world.symbols)])
        self.groups = pa.array(world.group_of())
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
        joined = {name: pa.concat_arrays([c[name] for c in columns]).take(pa.array(origin)) for name in columns[0]}
        lengths = joined.pop("length")
        traits = [lengths, joined.pop("functions"), joined.pop("groups"), joined.pop("values"), pa.array(rows.seen)]
        wanted = schema(TRAITS)
        nothing = pa.nulls(n, pa.string())
        arrays = [
            pa.array(np.arange(start, start + n)),
            pa.repeat(pa.scalar(self.task), n),
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
        functions = [self.names.take(pa.array(e.functions[:, i])) for i in range(length)]
        values = [self.symbols.take(pa.array(e.values[:, i])) for i in range(length)]
        groups = [self.groups.take(pa.array(e.functions[:, i])) for i in range(length)]
        symbol = self.symbols.take(pa.array(e.symbols))
        words = [*reversed(functions), symbol] if self.outermost_first else [symbol, *functions]
        every = pa.array(np.arange(n + 1, dtype=np.int32))
        steps = pa.StructArray.from_arrays(
            [
                self.names.take(pa.array(e.functions.ravel())),
                self.symbols.take(pa.array(e.values.ravel())),
                pa.nulls(n * length, STEP.field("of").type),
            ],
            fields=list(STEP),
        )
        return {
            "input": _join(words),
            "targets": pa.ListArray.from_arrays(every, values[-1]),
            "derivation": pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * length), steps),
            "length": pa.array(np.full(n, length, dtype=np.int64)),
            "functions": _join(functions),
            "groups": _join(groups),
            "values": _join(values),
        }


def _join(words: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*words, " ")
