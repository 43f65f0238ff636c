"""The fast evaluator: evaluates an expression for many words at once, or for the whole vocabulary,
using only table operations.

The result is a `FunctionTable`, which contains everything that datasets, profiles and scorers need
to know about a function. For facts, `worlds/facts/fact_functions.py` builds the same kind of table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, assert_never

import numpy as np

from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.language import Type, map_filter, show, type_of
from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Difference,
    Expression,
    Intersection,
    Inverse,
    Is,
    Land,
    Lnot,
    Lor,
    PredicateOperator,
    RelationOperator,
    SequenceOperator,
    Union,
)
from taskloom.suites.taskbench.language.parser import ExpressionError
from taskloom.suites.taskbench.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.worlds.words import Words

    Mask = NDArray[np.bool_]
    Rows = NDArray[np.int32]

TRUTH = ("false", "true")


@dataclass(frozen=True, eq=False)
class FunctionTable:
    """The inputs and answers of a function, with texts represented by indices.

    Attributes:
        name: The normal form of the function, as text.
        type: Types of its input and output.
        inputs: Texts that input indices refer to.
        outputs: Texts that answer indices refer to.
        domain: The inputs that have an answer, in the order of their texts. For sequence functions,
            the words that sequences are drawn from and that stay in the result.
        table: The answers of each input of the domain, or a function that computes them on first
            use. A plan needs only the domain, so worker processes compute only the answers of the
            tasks they generate.
        dropped: For sequence functions with a filter, the words that it drops.
        filtered: True if there is a filter.
    """

    name: str
    type: Type
    inputs: Sequence[str]
    outputs: Sequence[str]
    domain: NDArray[np.int32]
    table: Table | Callable[[], Table]
    dropped: NDArray[np.int32]
    filtered: bool = False

    @cached_property
    def answers(self) -> Table:
        """Answers of each input of the domain."""
        return self.table if isinstance(self.table, Table) else self.table()

    @cached_property
    def positions(self) -> dict[str, int]:
        """Index of each input in the domain."""
        return {self.inputs[number]: i for i, number in enumerate(self.domain.tolist())}

    @property
    def words(self) -> int:
        """Number of distinct words (or names) in inputs. With a filter, the smaller of the numbers
        of kept and of dropped words.
        """
        return min(len(self.domain), len(self.dropped)) if self.filtered else len(self.domain)


@dataclass(frozen=True, slots=True)
class Profile:
    """Reference values for scores on a task.

    Attributes:
        inputs: Size of the domain.
        answers: Mean number of acceptable answers.
        majority: Score of the best constant answer.
        chance: Score of an answer drawn uniformly from the task's answers.
    """

    inputs: int
    answers: float
    majority: float
    chance: float


def profile(solved: FunctionTable) -> Profile:
    """Compute the profile of a function. For sequence functions, it is the profile of a single
    position.
    """
    counts = solved.answers.counts
    if not len(counts):
        return Profile(0, 0.0, 0.0, 0.0)
    hits = np.bincount(solved.answers.values)
    return Profile(
        len(counts),
        float(counts.mean()),
        float(hits.max() / len(counts)),
        float(counts.mean() / np.count_nonzero(hits)),
    )


MOST_PATHS = 200_000_000
"""Maximum number of paths through a chain, summed over its steps. This many take about 15 seconds
and 2 GB. `chain(hyponyms[eng], inverse(hyponyms[eng]))` connects nearly every noun with every other
one, and for all of WordNet the result does not fit into any machine's memory.
"""


def values(function: Expression, rows: Rows, words: Words) -> Table:
    """Return the values of a relation (in normal form) for each of these words."""
    match function:
        case Atom(name):
            return words.relation(name).take(rows)
        case Inverse():
            return words.inverse(function.atom).take(rows)
        case Chain():
            outer, inner = _last_step(function, rows, words)
            return outer.after(inner)
        case Union(parts):
            table = values(parts[0], rows, words)
            for part in parts[1:]:
                table = table.union(values(part, rows, words))
            return table
        case Intersection(parts):
            table = values(parts[0], rows, words)
            for part in parts[1:]:
                table = table.intersection(values(part, rows, words))
            return table
        case Difference():
            table = values(function.kept, rows, words)
            return table.keep(~table.inside(values(function.removed, rows, words)))
        case Is() | PredicateOperator() | SequenceOperator():
            raise ValueError(f"not a relation: {function.notation}")
        case _:
            assert_never(function)


def _last_step(chain: Chain, rows: Rows, words: Words) -> tuple[Table, Table]:
    """Return the relation that a chain applies last, and the table to which it is applied."""
    table = values(chain.parts[-1], rows, words)
    paths = 0
    for part in reversed(chain.parts[1:-1]):
        outer, inner = _step(part, table, words)
        paths = _check_paths(outer, inner, paths, chain)
        table = outer.after(inner)
    outer, inner = _step(chain.parts[0], table, words)
    _check_paths(outer, inner, paths, chain)
    return outer, inner


def _step(part: Expression, table: Table, words: Words) -> tuple[Table, Table]:
    """Return a relation of a chain as a table, and the table to which it is applied, renumbered to
    its rows.
    """
    if isinstance(part, Atom):
        return words.relation(part.name), table
    met, inner = _renumbered(table, len(words.texts))
    return values(part, met, words), inner


def _check_paths(outer: Table, inner: Table, before: int, chain: Chain) -> int:
    """Return the number of paths up to a step of a chain, including `before` paths in earlier
    steps.

    Raises:
        ExpressionError: If there are too many paths.
    """
    paths = before + int(outer.counts[inner.values].sum())
    if paths > MOST_PATHS:
        raise ExpressionError(
            f"{show(chain)} has {paths:,} paths from inputs to answers, more than the maximum of "
            f"{MOST_PATHS:,}; chain functions with fewer answers, or narrow one of them by an "
            "intersection or a filter"
        )
    return paths


def _renumbered(table: Table, size: int) -> tuple[Rows, Table]:
    """Return the distinct values of a table, and the table with each value replaced by its index
    among them.
    """
    met = np.zeros(size, dtype=np.bool_)
    met[table.values] = True
    different = np.flatnonzero(met).astype(np.int32)
    places = np.zeros(size, dtype=np.int32)
    places[different] = np.arange(len(different), dtype=np.int32)
    return different, Table(table.starts, places[table.values])


def holds(predicate: Expression, rows: Rows, words: Words) -> Mask:
    """Return a mask of the words for which a predicate (in normal form) holds."""
    match predicate:
        case Atom(name):
            return words.predicate(name)[rows]
        case Is(relation, value):
            mask = np.zeros(len(words.texts), dtype=np.bool_)
            number = words.numbers.get(value.replace(" ", "_"))
            if number is not None:
                mask[number] = True
            return values(relation, rows, words).any(mask)
        case Lnot():
            return ~holds(predicate.part, rows, words)
        case Land(parts):
            return np.asarray(np.logical_and.reduce([holds(part, rows, words) for part in parts]))
        case Lor(parts):
            return np.asarray(np.logical_or.reduce([holds(part, rows, words) for part in parts]))
        case Chain():
            different, table = _renumbered(values(predicate.rest, rows, words), len(words.texts))
            return table.any(holds(predicate.head, different, words))
        case RelationOperator() | SequenceOperator():
            raise ValueError(f"not a predicate: {predicate.notation}")
        case _:
            assert_never(predicate)


def solve(expression: Expression, kind: Type, words: Words) -> FunctionTable:
    """Evaluate a word function or sequence function (in normal form) on the vocabulary."""
    rows = words.vocabulary[kind.language]
    none_dropped = np.zeros(0, dtype=np.int32)
    name = show(expression)
    if kind.form == "predicate":
        truth = holds(expression, rows, words)
        table = Table(np.arange(len(rows) + 1, dtype=np.int64), truth.astype(np.int32))
        return FunctionTable(name, kind, words.shown, TRUTH, rows, table, none_dropped)
    if kind.form == "relation":
        kept, answers = _domain_values(expression, rows, words)
        return FunctionTable(name, kind, words.shown, words.shown, kept, answers, none_dropped)
    # A sequence function is a map of a function, a filter by a predicate, or a map after a filter.
    function, predicate = map_filter(expression)
    dropped = none_dropped
    if predicate is not None:
        true = holds(predicate, rows, words)
        rows, dropped = rows[true], rows[~true]
    computed: Table | Callable[[], Table]
    if function is None:
        # A filter alone keeps each word as it is.
        computed = Table(np.arange(len(rows) + 1, dtype=np.int64), rows)
    else:
        rows, computed = _domain_values(function, rows, words)
    filtered = predicate is not None
    return FunctionTable(name, kind, words.shown, words.shown, rows, computed, dropped, filtered)


def _domain_values(
    function: Expression, rows: Rows, words: Words
) -> tuple[Rows, Callable[[], Table]]:
    """Return the words for which a relation has values, and a function that computes these
    values.
    """
    language = type_of(function, atoms.signature).language
    whole = words.vocabulary[language]
    mask = _vocabulary_mask(function, language, words)
    if len(rows) == len(whole):
        return rows[mask], lambda: _vocabulary_values(function, language, words).filled()
    kept = rows[mask[np.searchsorted(whole, rows)]]
    return kept, lambda: _vocabulary_values(function, language, words).take(
        np.searchsorted(whole, kept)
    )


@lru_cache(maxsize=256)
def _vocabulary_values(function: Expression, language: str, words: Words) -> Table:
    """Return the values for the whole vocabulary. They are cached, because map(f), map(f,
    filter(p)) and f share them.
    """
    return values(function, words.vocabulary[language], words)


@lru_cache(maxsize=256)
def _vocabulary_mask(function: Expression, language: str, words: Words) -> Mask:
    """Return a mask of the vocabulary's words that have values. For a chain this needs only the
    sizes of the last step, not its values.
    """
    rows = words.vocabulary[language]
    match function:
        case Chain():
            outer, inner = _last_step(function, rows, words)
            return inner.any(outer.counts > 0)
        case Union(parts):
            return np.asarray(
                np.logical_or.reduce([_vocabulary_mask(part, language, words) for part in parts])
            )
        case _:
            return np.asarray(_vocabulary_values(function, language, words).counts > 0)
