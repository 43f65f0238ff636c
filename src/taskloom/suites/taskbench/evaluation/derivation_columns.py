"""The values of each step of a derivation, computed for whole columns of inputs and official
answers.

A derivation has one step for each atom and operator of the function, in the order in which they are
applied. The value of a step is the one that leads to the official answer: for
`chain(antonyms, hyponyms)`, a hyponym that has this answer as an antonym. It is empty if the step
is not involved, for example an operand of a union that does not have the answer.

Words are traced by table operations on all rows at once. Entities are traced pair by pair, because
facts may come from an endpoint, which has no tables.

`derivations.py` is a separate mechanism: for `taskloom apply`, it computes all values of every step
for one input. A row needs only the path to one answer, which would have to be searched for among
these values. Per input, `derivations.py` takes 241 µs for `chain(antonyms[eng], hyponyms[eng])`,
and 14 µs for `union(antonyms[eng], synonyms[eng])` and `chain(occupation, father)`. The functions
in this module take 2.1, 0.9 and 1.6 µs per row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import even, held, numbers, strings
from taskloom.core.shards import STEP
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.evaluation.derivations import BETWEEN, Deriver
from taskloom.suites.taskbench.language import map_filter, show
from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Difference,
    Expression,
    Intersection,
    Inverse,
    Is,
    Operator,
    PredicateOperator,
    RelationOperator,
    SequenceOperator,
    Union,
)
from taskloom.suites.taskbench.tables import BATCH, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable
    from taskloom.suites.taskbench.plan import Function
    from taskloom.suites.taskbench.worlds.facts.fact_functions import FactSpace
    from taskloom.suites.taskbench.worlds.words import Words

    I32 = NDArray[np.int32]
    Mask = NDArray[np.bool_]

Outline = list[tuple[str, tuple[int, ...]]]
"""Rule of each step, with the indices of the steps whose values it uses."""


NOTHING = -1
"""Index that stands for "no word"."""

Path = tuple[str, ...]
"""Value of each step: an entity, a word, `true`, `false`, or an empty text."""


def outline(tree: Expression, source: int | None = None, steps: Outline | None = None) -> Outline:
    """Return the steps of a relation or predicate (in normal form). `source` is the index of the
    step that produces its inputs.
    """
    steps = [] if steps is None else steps
    of = () if source is None else (source,)
    match tree:
        case Atom(name):
            steps.append((name, of))
        case Is(relation, _):
            outline(relation, source, steps)
            steps.append((show(tree), (len(steps) - 1,)))
        case Inverse():
            steps.append((show(tree), of))
        case Chain():
            outline(tree.rest, source, steps)
            if is_predicate(tree.head):
                steps.append((show(tree.head), (len(steps) - 1,)))
            else:
                outline(tree.head, len(steps) - 1, steps)
        case Operator(parts):
            ends = []
            for part in parts:
                outline(part, source, steps)
                ends.append(len(steps) - 1)
            steps.append((tree.word, tuple(ends)))
    return steps


def is_predicate(tree: Expression) -> bool:
    """True if an expression without map and filter is a predicate."""
    from taskloom.suites.taskbench import atoms

    match tree:
        case Atom(name):
            known = atoms.known(name)
            return known is not None and known.type.form == "predicate"
        case Is() | PredicateOperator():
            return True
        case Chain():
            return is_predicate(tree.head)
        case RelationOperator() | SequenceOperator():
            return False
        case _:
            assert_never(tree)


class WordPaths:
    """Finds intermediate values that are words."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def columns(
        self, tree: Expression, solved: FunctionTable, inputs: I32, answers: I32
    ) -> list[pa.Array]:
        """Return the texts of the values of each step in the outline."""
        if is_predicate(tree):
            return self._truths(tree, inputs)
        return [self._texts(column) for column in self._values(tree, inputs, answers)]

    def _texts(self, items: I32) -> pa.Array:
        nothing = items == NOTHING
        if not nothing.any():
            return held(self.words.shown).take(numbers(items))
        # Position 0 is the empty text. Only texts that occur are listed, which are a small fraction
        # of all words.
        different, places = np.unique(items[~nothing], return_inverse=True)
        listed = pa.concat_arrays([strings([""]), held(self.words.shown).take(numbers(different))])
        where = np.zeros(len(items), dtype=np.int64)
        where[~nothing] = places + 1
        return listed.take(numbers(where))

    def _values(self, tree: Expression, xs: I32, ys: I32) -> list[I32]:
        """Return one column per step. If y is empty, so are all steps that lead to it."""
        match tree:
            case Atom() | Inverse():
                return [ys]
            case Chain():
                between = self._between(tree.outer, tree.inner, xs, ys)
                return [
                    *self._values(tree.inner, xs, between),
                    *self._values(tree.outer, between, ys),
                ]
            case Union(parts):
                columns = []
                for part in parts:
                    own = np.where(self._has(part, xs, ys), ys, NOTHING).astype(np.int32)
                    columns += self._values(part, xs, own)
                return [*columns, ys]
            case Intersection(parts):
                return [*(column for part in parts for column in self._values(part, xs, ys)), ys]
            case Difference():
                nothing = np.full_like(ys, NOTHING)
                return [
                    *self._values(tree.kept, xs, ys),
                    *self._values(tree.removed, xs, nothing),
                    ys,
                ]
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {tree.notation}")
            case _:
                assert_never(tree)

    def _table(self, tree: Expression, items: I32) -> tuple[Table, I32]:
        """Return the values of a relation, and the row of each item in them. For an atom this is
        the existing table of all its values.
        """
        match tree:
            case Atom(name):
                return self.words.relation(name), items
            case Inverse():
                return self.words.inverse(tree.atom), items
            case _:
                different, places = np.unique(items, return_inverse=True)
                return evaluator.values(tree, different, self.words), places.astype(np.int32)

    def _has(self, tree: Expression, xs: I32, ys: I32) -> Mask:
        """Return a mask of the pairs in which y is a value of x."""
        present: Mask = np.asarray(ys != NOTHING)
        table, rows = self._table(tree, xs[present])
        present[present] = table.has(rows, ys[present])
        return present

    def _between(self, outer: Expression, inner: Expression, xs: I32, ys: I32) -> I32:
        """For each pair, return the first z in inner(x) such that y is in outer(z)."""
        middle = np.full(len(xs), NOTHING, dtype=np.int32)
        places = np.flatnonzero(ys != NOTHING)
        table, rows = self._table(inner, xs[places])
        # The candidates for z are the values of inner(x) or, if these are fewer, the inputs of
        # outer that have the value y. For example, hypernyms have few values, but their inverse has
        # thousands.
        forward = True
        if isinstance(outer, Atom):
            back, back_rows = self.words.inverse(outer.name), ys[places]
            forward = int(table.counts[rows].sum()) <= int(back.counts[back_rows].sum())
            if not forward:
                table, rows = back, back_rows
        reached = np.concatenate(([0], np.cumsum(table.counts[rows])))
        low = 0
        while low < len(places):
            high = max(
                low + 1, int(np.searchsorted(reached, reached[low] + BATCH // 4, side="right")) - 1
            )
            tried = table.take(rows[low:high])
            owners, zs = places[low:high][tried.owners()], tried.values
            if forward:
                right = self._has(outer, zs, ys[owners])
            else:
                right = self._has(inner, xs[owners], zs)
            # Assign in reverse order, so that the first of several candidates remains.
            middle[owners[right][::-1]] = zs[right][::-1]
            low = high
        return middle

    def _truths(self, tree: Expression, xs: I32) -> list[pa.Array]:
        """Return one column per step of a predicate."""
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
        """For each x, return the first z in inner(x) for which the predicate holds."""
        table, rows = self._table(inner, xs)
        tried = table.take(rows)
        right = evaluator.holds(head, tried.values, self.words)
        matches = np.full(len(xs), NOTHING, dtype=np.int32)
        matches[tried.owners()[right][::-1]] = tried.values[right][::-1]
        return matches


class FactPaths:
    """Finds intermediate values that are entities or words."""

    def __init__(self, space: FactSpace) -> None:
        self.space = space
        self._known: dict[str, dict[tuple[str, str], Path]] = {}

    def columns(
        self, tree: Expression, solved: FunctionTable, inputs: I32, answers: I32
    ) -> list[pa.Array]:
        """Return the texts of the values of each step in the outline."""
        if isinstance(tree, Atom | Inverse):
            return [held(solved.outputs).take(numbers(answers))]
        # Pairs recur in sequences, so search for each distinct pair only once.
        width = max(1, len(solved.outputs))
        different, places = np.unique(inputs * np.int64(width) + answers, return_inverse=True)
        pairs = [
            (solved.inputs[code // width], solved.outputs[code % width])
            for code in different.tolist()
        ]
        known = self._known.setdefault(show(tree), {})
        self._learn(tree, solved.type.source, [pair for pair in pairs if pair not in known], known)
        paths = [known[pair] for pair in pairs]
        columns = [[path[step] for path in paths] for step in range(len(outline(tree)))]
        return [strings(column).take(numbers(places)) for column in columns]

    def prepare(self, tree: Expression, solved: FunctionTable) -> None:
        """Request all labels that any row may need from the server in one batch, so that the
        queries do not depend on how rows are divided into shards.
        """
        if not self.space.remote:
            return
        begun = self.space.meanings(solved.inputs, solved.type.source)
        self.space.meanings(solved.outputs)
        met: set[str] = set()
        self._meet(tree, {item for items in begun.values() for item in items}, met)
        self.space.say(met)

    def _meet(self, tree: Expression, items: set[str], met: set[str]) -> set[str]:
        """Return the values of a relation for any of the items. All intermediate values are added
        to `met`.
        """
        match tree:
            case Chain(parts):
                # The head of a chain may be a predicate, which leads to no further items.
                relations = parts[1:] if is_predicate(parts[0]) else parts
                for part in reversed(relations):
                    items = self._meet(part, items, met)
            case Is(relation, _):
                items = self._meet(relation, items, met)
            case Atom() if is_predicate(tree):
                items = set()
            case Inverse() | Atom():
                items = {y for x in items for y in self._values(tree, x)}
            case Operator(parts):
                items = set().union(*(self._meet(part, items, met) for part in parts))
        met |= items
        return items

    def _learn(
        self,
        tree: Expression,
        kind: str,
        new: list[tuple[str, str]],
        known: dict[tuple[str, str], Path],
    ) -> None:
        """Find the paths of new pairs, then the labels of everything on these paths in one
        query.
        """
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
        labels = self.space.say({item for path in paths.values() for item in path})
        for pair, path in paths.items():
            known[pair] = tuple([labels.get(item, item) for item in path])

    def _values(self, tree: Expression, x: str) -> tuple[str, ...]:
        match tree:
            case Atom(name):
                return self.space.look(name, x)
            case Inverse():
                return self.space.look(tree.atom, x, inverse=True)
            case _:
                return Deriver.values(tree, x, self.space)

    def _path(self, tree: Expression, x: str, goals: Collection[str]) -> Path:
        """Return the value of each step on a path from x to one of the goals, or an empty path."""
        match tree:
            case Chain():
                return self._chain_path(tree, x, goals)
            case Union():
                return self._union_path(tree, x, goals)
            case Intersection():
                return self._intersection_path(tree, x, goals)
            case Atom() | Inverse():
                reached = self._first_goal(tree, x, goals)
                return () if reached is None else (reached,)
            case Difference():
                reached = self._first_goal(tree, x, goals)
                if reached is None:
                    return ()
                # The removed operand has no value on the way to a goal.
                return (*self._path(tree.kept, x, (reached,)), *_blank(tree.removed), reached)
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {tree.notation}")
            case _:
                assert_never(tree)

    def _first_goal(self, tree: Expression, x: str, goals: Collection[str]) -> str | None:
        for y in self._values(tree, x):
            if y in goals:
                return y
        return None

    def _chain_path(self, tree: Chain, x: str, goals: Collection[str]) -> Path:
        """Return a path through the first intermediate value from which a goal can be reached."""
        for middle in self._values(tree.inner, x):
            after = self._path(tree.outer, middle, goals)
            if after:
                return self._path(tree.inner, x, (middle,)) + after
        return ()

    def _union_path(self, tree: Union, x: str, goals: Collection[str]) -> Path:
        """Return the paths of all operands that reach a goal. The value is that of the first such
        operand; columns of other operands are empty.
        """
        steps: Path = ()
        reached: list[str] = []
        for part in tree.parts:
            path = self._path(part, x, goals)
            if path:
                reached.append(path[-1])
            steps += path or _blank(part)
        return (*steps, reached[0]) if reached else ()

    def _intersection_path(self, tree: Intersection, x: str, goals: Collection[str]) -> Path:
        """Return the paths of all operands to a goal that they share. The first goal in sorted
        order is used, so that the result does not depend on the order of sets.
        """
        shared = set(goals).intersection(*(self._values(part, x) for part in tree.parts))
        if not shared:
            return ()
        goal = min(shared)
        steps: Path = ()
        for part in tree.parts:
            steps += self._path(part, x, (goal,))
        return (*steps, goal)

    def _truths(self, tree: Expression, given: tuple[str, ...]) -> Path:
        """Return the value of each step of a predicate, for all items that a name may refer to."""
        deriver = Deriver(tree, self.space.predicate_type, self.space)
        decided = deriver.decided(given)
        truth = ("true" if deriver.holds(decided) else "false",)
        matches = self.space.matches
        match tree:
            case Is(relation, value):
                self.space.meanings({value}, "")

                def wanted(y: str) -> bool:
                    return bool(matches(relation, value, (y,)))

                return self._path_to(relation, decided, wanted) + truth
            case Chain():
                head = Deriver(tree.head, self.space.predicate_type, self.space)

                def holds(z: str) -> bool:
                    return head.holds(head.decided((z,)))

                return self._path_to(tree.rest, decided, holds) + truth
            case PredicateOperator(parts):
                return (*(item for part in parts for item in self._truths(part, decided)), *truth)
            case Atom():
                return truth
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {tree.notation}")
            case _:
                assert_never(tree)

    def _path_to(
        self, relation: Expression, given: tuple[str, ...], wanted: Callable[[str], bool]
    ) -> Path:
        """Return the value of each step on the first path to a requested value, or empty values if
        there is none.
        """
        for x in given:
            goals = [y for y in self._values(relation, x) if wanted(y)]
            path = self._path(relation, x, goals)
            if path:
                return path
        return _blank(relation)


def _blank(tree: Expression) -> Path:
    """Return empty values for the columns of a function that is not involved in an answer."""
    return ("",) * len(outline(tree))


class Paths(Protocol):
    """Finds the values between inputs and answers."""

    def columns(
        self,
        tree: Expression,
        solved: FunctionTable,
        inputs: NDArray[np.int32],
        answers: NDArray[np.int32],
    ) -> list[pa.Array]:
        """Return the texts of the values of each step in the outline, one for each pair of an input
        and its answer.
        """


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
        """Return one derivation for each sequence: the words kept by the filter, followed by the
        values for each of them.

        Args:
            solved: The function.
            kept: The kept words of all sequences, concatenated.
            answers: The official answer for each kept word.
            texts: The texts of the kept words.
            rows: Number of sequences.
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
    """Build the derivations of rows that have the same steps with different values."""
    many = len(steps)
    # The columns are concatenated, but derivations need their values row by row.
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
