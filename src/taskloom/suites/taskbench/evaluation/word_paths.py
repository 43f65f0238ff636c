"""The values between words and their answers, for whole columns at once by table operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa

from taskloom.suites.taskbench.arrow import held, numbers, strings
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.evaluation.derivation_columns import is_predicate
from taskloom.suites.taskbench.language import (
    Atom,
    Chain,
    Expression,
    Intersection,
    Inverse,
    Is,
    PredicateOperator,
    RelationOperator,
    SequenceOperator,
    Union,
)
from taskloom.suites.taskbench.tables import BATCH, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.evaluation.function_table import FunctionTable
    from taskloom.suites.taskbench.worlds.words.words import Words

    I32 = NDArray[np.int32]
    Mask = NDArray[np.bool_]

NOTHING = -1
"""Stands for no word."""


class WordPaths:
    """Finds the words between words."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def columns(self, tree: Expression, solved: FunctionTable, inputs: I32, answers: I32) -> list[pa.Array]:
        """For each step of the outline the texts of its values."""
        if is_predicate(tree):
            return self._truths(tree, inputs)
        return [self._texts(column) for column in self._values(tree, inputs, answers)]

    def _texts(self, found: I32) -> pa.Array:
        nothing = found == NOTHING
        if not nothing.any():
            return held(self.words.shown).take(numbers(found))
        # Place 0 is nothing: the texts that occur are few beside all words.
        different, places = np.unique(found[~nothing], return_inverse=True)
        listed = pa.concat_arrays([strings([""]), held(self.words.shown).take(numbers(different))])
        where = np.zeros(len(found), dtype=np.int64)
        where[~nothing] = places + 1
        return listed.take(numbers(where))

    def _values(self, tree: Expression, xs: I32, ys: I32) -> list[I32]:
        """One column a step; where y is nothing, so is everything that leads to it."""
        match tree:
            case Atom() | Inverse():
                return [ys]
            case Chain():
                between = self._between(tree.outer, tree.inner, xs, ys)
                return [*self._values(tree.inner, xs, between), *self._values(tree.outer, between, ys)]
            case Union(parts):
                columns = []
                for part in parts:
                    columns += self._values(part, xs, np.where(self._has(part, xs, ys), ys, NOTHING).astype(np.int32))
                return [*columns, ys]
            case Intersection(parts):
                return [*(column for part in parts for column in self._values(part, xs, ys)), ys]
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {tree.notation}")
            case _:
                assert_never(tree)

    def _table(self, tree: Expression, items: I32) -> tuple[Table, I32]:
        """The values of a relation, and for each item its row; of an atom the whole table, which is at hand anyway."""
        match tree:
            case Atom(name):
                return self.words.relation(name), items
            case Inverse():
                return self.words.inverse(tree.atom), items
            case _:
                different, places = np.unique(items, return_inverse=True)
                return evaluator.values(tree, different, self.words), places.astype(np.int32)

    def _has(self, tree: Expression, xs: I32, ys: I32) -> Mask:
        """For each pair whether y is a value at x."""
        found: Mask = np.asarray(ys != NOTHING)
        table, rows = self._table(tree, xs[found])
        found[found] = table.has(rows, ys[found])
        return found

    def _between(self, outer: Expression, inner: Expression, xs: I32, ys: I32) -> I32:
        """For each pair the first z of inner(x) with y in outer(z)."""
        found = np.full(len(xs), NOTHING, dtype=np.int32)
        places = np.flatnonzero(ys != NOTHING)
        table, rows = self._table(inner, xs[places])
        forward = True
        if isinstance(outer, Atom):
            back, back_rows = self.words.inverse(outer.name), ys[places]
            forward = int(table.counts[rows].sum()) <= int(back.counts[back_rows].sum())
            if not forward:
                table, rows = back, back_rows
        reached = np.concatenate(([0], np.cumsum(table.counts[rows])))
        low = 0
        while low < len(places):
            high = max(low + 1, int(np.searchsorted(reached, reached[low] + BATCH // 4, side="right")) - 1)
            tried = table.take(rows[low:high])
            owners, zs = places[low:high][tried.owners()], tried.values
            right = self._has(outer, zs, ys[owners]) if forward else self._has(inner, xs[owners], zs)
            # Written backwards, so that the first of several stays.
            found[owners[right][::-1]] = zs[right][::-1]
            low = high
        return found

    def _truths(self, tree: Expression, xs: I32) -> list[pa.Array]:
        """One column a step of a predicate."""
        truth = evaluator.holds(tree, xs, self.words)
        columns: list[pa.Array] = []
        match tree:
            case Is(relation, value):
                number = self.words.numbers.get(value.replace(" ", "_"), NOTHING)
                wanted = np.where(truth, number, NOTHING).astype(np.int32)
                columns = [self._texts(column) for column in self._values(relation, xs, wanted)]
            case Chain():
                matching = self._matching(tree.head, tree.rest, xs)
                columns = [self._texts(column) for column in self._values(tree.rest, xs, matching)]
            case PredicateOperator(parts):
                columns = [column for part in parts for column in self._truths(part, xs)]
            case Atom():
                pass
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {tree.notation}")
            case _:
                assert_never(tree)
        return [*columns, strings(["false", "true"]).take(numbers(truth.astype(np.int32)))]

    def _matching(self, head: Expression, inner: Expression, xs: I32) -> I32:
        """For each x the first z of inner(x) of which the predicate holds."""
        table, rows = self._table(inner, xs)
        tried = table.take(rows)
        right = evaluator.holds(head, tried.values, self.words)
        found = np.full(len(xs), NOTHING, dtype=np.int32)
        found[tried.owners()[right][::-1]] = tried.values[right][::-1]
        return found
