"""The entities between names and their answers, pair by pair: facts may come from an endpoint that knows no tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa

from taskloom.suites.taskbench.arrow import held, numbers, strings
from taskloom.suites.taskbench.evaluation.derivation_columns import is_predicate, outline
from taskloom.suites.taskbench.evaluation.derivations import Deriver
from taskloom.suites.taskbench.language import (
    Atom,
    Chain,
    Expression,
    Intersection,
    Inverse,
    Is,
    Operator,
    PredicateOperator,
    RelationOperator,
    SequenceOperator,
    Union,
    show,
)
from taskloom.suites.taskbench.worlds.facts.query_world import QueryWorld

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.evaluation.function_table import FunctionTable
    from taskloom.suites.taskbench.worlds.facts.fact_functions import FactSpace

Path = tuple[str, ...]
"""The value of each step: an entity, a word, `true`, `false`, or nothing."""


class FactPaths:
    """Finds the entities (and words) between entities."""

    def __init__(self, space: FactSpace) -> None:
        self.space = space
        self._known: dict[str, dict[tuple[str, str], Path]] = {}

    def columns(
        self, tree: Expression, solved: FunctionTable, inputs: NDArray[np.int32], answers: NDArray[np.int32]
    ) -> list[pa.Array]:
        """For each step of the outline the texts of its values."""
        if isinstance(tree, Atom | Inverse):
            return [held(solved.outputs).take(numbers(answers))]
        # A pair comes up again and again in sequences: each is looked for once.
        width = max(1, len(solved.outputs))
        different, places = np.unique(inputs * np.int64(width) + answers, return_inverse=True)
        pairs = [(solved.inputs[code // width], solved.outputs[code % width]) for code in different.tolist()]
        known = self._known.setdefault(show(tree), {})
        self._learn(tree, solved.type.source, [pair for pair in pairs if pair not in known], known)
        columns = zip(*(known[pair] for pair in pairs), strict=True) if pairs else ([],) * len(outline(tree))
        return [strings(column).take(numbers(places)) for column in columns]

    def prepare(self, tree: Expression, solved: FunctionTable) -> None:
        """Ask a server for all names that any row may need, at once: the questions then do not depend on the shards."""
        if not isinstance(self.space.world, QueryWorld):
            return
        begun = self.space.meanings(solved.inputs, solved.type.source)
        self.space.meanings(solved.outputs)
        met: set[str] = set()
        self._meet(tree, {item for items in begun.values() for item in items}, met)
        self.space.say(met)

    def _meet(self, tree: Expression, items: set[str], met: set[str]) -> set[str]:
        """The values of a relation at any of the items; all that lies on the way is added to `met`."""
        match tree:
            case Chain(parts):
                for part in reversed(parts if not is_predicate(parts[0]) else parts[1:]):
                    items = self._meet(part, items, met)
            case Is(relation, _):
                items = self._meet(relation, items, met)
            case Inverse() | Atom():
                items = set() if is_predicate(tree) else {y for x in items for y in self._values(tree, x)}
            case Operator(parts):
                items = set().union(*(self._meet(part, items, met) for part in parts))
        met |= items
        return items

    def _learn(
        self, tree: Expression, kind: str, new: list[tuple[str, str]], known: dict[tuple[str, str], Path]
    ) -> None:
        """Find the paths of new pairs, and then the names of all that lies on them at once."""
        begun = self.space.meanings({x for x, _ in new}, kind)
        predicate = is_predicate(tree)
        goals = {} if predicate else self.space.meanings({y for _, y in new}, "")
        size = len(outline(tree))
        paths: dict[tuple[str, str], Path] = {}
        for x, y in new:
            if predicate:
                paths[x, y] = self._truths(tree, begun[x])
            else:
                tries = (self._path(tree, item, goals[y]) for item in begun[x])
                paths[x, y] = next((path for path in tries if path), ("",) * size)
        said = self.space.say({item for path in paths.values() for item in path})
        for pair, path in paths.items():
            known[pair] = tuple([said.get(item, item) for item in path])

    def _values(self, tree: Expression, x: str) -> tuple[str, ...]:
        match tree:
            case Atom(name):
                return self.space.look(name, x)
            case Inverse():
                return self.space.look(tree.atom, x, inverse=True)
            case _:
                return Deriver.values(tree, x, self.space)

    def _path(self, tree: Expression, x: str, goals: Collection[str]) -> Path:
        """The values of each step from x to one of the goals, or nothing."""
        match tree:
            case Chain():
                for z in self._values(tree.inner, x):
                    if after := self._path(tree.outer, z, goals):
                        return self._path(tree.inner, x, (z,)) + after
                return ()
            case Union(parts):
                paths = [self._path(part, x, goals) for part in parts]
                reached = [path[-1] for path in paths if path]
                if not reached:
                    return ()
                sizes = [len(outline(part)) for part in parts]
                padded = [path or ("",) * size for path, size in zip(paths, sizes, strict=True)]
                return (*(item for path in padded for item in path), reached[0])
            case Intersection(parts):
                shared = set(goals).intersection(*(self._values(part, x) for part in parts))
                if not shared:
                    return ()
                y = min(shared)
                return (*(item for part in parts for item in self._path(part, x, (y,))), y)
            case Atom() | Inverse():
                return next(((y,) for y in self._values(tree, x) if y in goals), ())
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {tree.notation}")
            case _:
                assert_never(tree)

    def _truths(self, tree: Expression, given: tuple[str, ...]) -> Path:
        """The values of each step of a predicate at whatever a name may mean."""
        deriver = Deriver(tree, self.space.predicate_type, self.space)
        decided = deriver.decided(given)
        truth = ("true" if deriver.holds(decided) else "false",)
        match tree:
            case Is(relation, value):
                goals = {value, value.replace(" ", "_"), *self.space.meanings({value}, "")[value]}
                tries = (self._path(relation, x, goals) for x in decided)
                return next((p for p in tries if p), ("",) * len(outline(relation))) + truth
            case Chain():
                inner = tree.rest
                met = Deriver(tree.head, self.space.predicate_type, self.space)
                tries = (
                    self._path(inner, x, [z for z in self._values(inner, x) if met.holds(met.decided((z,)))])
                    for x in decided
                )
                return next((p for p in tries if p), ("",) * len(outline(inner))) + truth
            case PredicateOperator(parts):
                return (*(item for part in parts for item in self._truths(part, decided)), *truth)
            case Atom():
                return truth
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {tree.notation}")
            case _:
                assert_never(tree)
