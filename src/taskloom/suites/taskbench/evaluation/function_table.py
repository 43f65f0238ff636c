"""A function that was evaluated on its whole domain: all that datasets, profiles and scorers need to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.language import (
    Atom,
    Expression,
    Inverse,
    Is,
    Map,
    Type,
    atoms_of,
    map_filter,
    show,
    type_of,
)
from taskloom.suites.taskbench.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.worlds.words.words import Words

TRUTH = ("false", "true")


@dataclass(frozen=True, eq=False)
class FunctionTable:
    """The graph of a function, in numbers that stand for texts.

    Attributes:
        name: The normal form, as text.
        type: What it takes and gives.
        inputs: The texts that inputs are numbers of.
        outputs: The texts that answers are numbers of.
        domain: The inputs that have an answer, in the order of their texts. For sequence functions the words from which
            sequences are drawn and which stay in the result.
        answers: The answers of each input of the domain.
        dropped: For sequence functions with a filter: the words that it drops.
        filtered: Whether there is a filter.
    """

    name: str
    type: Type
    inputs: Sequence[str]
    outputs: Sequence[str]
    domain: NDArray[np.int32]
    answers: Table
    dropped: NDArray[np.int32]
    filtered: bool = False

    @property
    def words(self) -> int:
        """How many words (or names) inputs are made of; for filters the smaller of the two kinds."""
        return min(len(self.domain), len(self.dropped)) if self.filtered else len(self.domain)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a score on a task must be compared with.

    Attributes:
        inputs: Size of the domain.
        answers: Mean number of acceptable answers.
        majority: The score of always giving the answer that is right most often.
        chance: The score of giving any answer of the task by chance.
    """

    inputs: int
    answers: float
    majority: float
    chance: float


def profile(solved: FunctionTable) -> Profile:
    """The profile of a function; for sequence functions that of one position."""
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


def solve(expression: Expression, found: Type, words: Words) -> FunctionTable:
    """Evaluate a word function or sequence function (in normal form) on the vocabulary."""
    rows = words.vocabulary[found.language]
    nobody = np.zeros(0, dtype=np.int32)
    name = show(expression)
    if found.form == "predicate":
        truth = evaluator.holds(expression, rows, words)
        table = Table(np.arange(len(rows) + 1, dtype=np.int64), truth.astype(np.int32))
        return FunctionTable(name, found, words.shown, TRUTH, rows, table, nobody)
    if found.form == "relation":
        kept, table = _values(expression, rows, words)
        return FunctionTable(name, found, words.shown, words.shown, kept, table, nobody)
    function, predicate = map_filter(expression)
    dropped = nobody
    if predicate is not None:
        true = evaluator.holds(predicate, rows, words)
        rows, dropped = rows[true], rows[~true]
    if function is None:
        table = Table(np.arange(len(rows) + 1, dtype=np.int64), rows)
    else:
        rows, table = _values(function, rows, words)
    return FunctionTable(name, found, words.shown, words.shown, rows, table, dropped, predicate is not None)


def _values(function: Expression, rows: NDArray[np.int32], words: Words) -> tuple[NDArray[np.int32], Table]:
    language = type_of(function, atoms.signature).language
    whole = words.vocabulary[language]
    table = _vocabulary_values(function, language, words).take(np.searchsorted(whole, rows))
    has = table.counts > 0
    return rows[has], table.take(np.flatnonzero(has))


@lru_cache(maxsize=256)
def _vocabulary_values(function: Expression, language: str, words: Words) -> Table:
    """The values at the whole vocabulary, kept: map(f), map(f, filter(p)) and f itself share them."""
    return evaluator.values(function, words.vocabulary[language], words)


def composition(expression: Expression) -> str:
    """The name of the outermost composition: atomic, chain, …, map, filter, map_filter."""
    if isinstance(expression, Atom | Is | Inverse):
        return "atomic"
    if isinstance(expression, Map) and expression.before is not None:
        return "map_filter"
    return expression.word


def family(expression: Expression) -> str:
    """The families of the atoms: lexical, random, factual, or several of them joined by +."""
    found = {known.family for name in atoms_of(expression) if (known := atoms.known(name)) is not None}
    return "+".join(sorted(found))
