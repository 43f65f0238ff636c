"""How the official answer of each row comes about, as the derivation that rows carry and the audit compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import even, numbers, strings
from taskloom.core.shards import STEP
from taskloom.suites.taskbench.evaluation.derivation_columns import Outline, outline
from taskloom.suites.taskbench.evaluation.derivations import BETWEEN
from taskloom.suites.taskbench.language import map_filter, show
from taskloom.suites.taskbench.language.operators import Expression

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.evaluation.function_table import FunctionTable
    from taskloom.suites.taskbench.plan import Function


class Paths(Protocol):
    """Finds the values between inputs and answers."""

    def columns(
        self,
        tree: Expression,
        solved: FunctionTable,
        inputs: NDArray[np.int32],
        answers: NDArray[np.int32],
    ) -> list[pa.Array]:
        """Return for each step of the outline the texts of its values, one for each pair of an input and its answer."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The derivations of one function."""

    function: Function
    paths: Paths

    def words(
        self, solved: FunctionTable, inputs: NDArray[np.int32], answers: NDArray[np.int32]
    ) -> pa.Array:
        """Return one derivation for each pair of an input and its official answer."""
        tree = self.function.expression
        return derivations(
            outline(tree), self.paths.columns(tree, solved, inputs, answers), len(inputs)
        )

    def sequences(
        self,
        solved: FunctionTable,
        kept: NDArray[np.int32],
        answers: NDArray[np.int32],
        texts: pa.Array,
        rows: int,
    ) -> pa.Array:
        """Return one derivation for each sequence: the words that the filter kept, then the values at each of them.

        Args:
            solved: The function.
            kept: The words that stay, sequence behind sequence.
            answers: The official answer at each of them.
            texts: The texts of the words that stay.
            rows: How many sequences there are.
        """
        element, predicate = map_filter(self.function.expression)
        steps: Outline = []
        columns: list[pa.Array] = []
        if predicate is not None:
            steps.append((f"filter({show(predicate)})", ()))
            columns.append(texts)
        if element is not None:
            inner = outline(element, 0 if steps else None, list(steps))[len(steps) :]
            steps += [(f"map({rule})", of) for rule, of in inner]
            columns += self.paths.columns(element, solved, kept, answers)
        size = len(kept) // rows if rows else 0
        between = strings([BETWEEN])[0]
        return derivations(
            steps, [pc.binary_join(even(column, size, rows), between) for column in columns], rows
        )


def derivations(steps: Outline, columns: list[pa.Array], rows: int) -> pa.Array:
    """Return the derivations of rows that have the same steps with other values."""
    many = len(steps)
    # The columns lie behind one another; the derivations want them row by row.
    order = np.arange(rows * many, dtype=np.int64)
    values = pa.concat_arrays(columns).take(numbers((order % many) * rows + order // many))
    rules = strings([rule for rule, _ in steps]).take(numbers(order % many))
    ends = np.cumsum([0, *(len(of) for _, of in steps)])
    sources = np.array([i for _, of in steps for i in of], dtype=np.int32)
    starts = np.append((np.arange(rows)[:, None] * ends[-1] + ends[:-1]).ravel(), rows * ends[-1])
    used = pa.ListArray.from_arrays(
        numbers(starts.astype(np.int32)), numbers(np.tile(sources, rows))
    )
    steps_array = pa.StructArray.from_arrays([rules, values, used], fields=list(STEP))
    return even(steps_array, many, rows)
