"""A function that was evaluated on its whole domain: all that datasets, profiles and scorers need
to know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from taskloom.suites.taskbench.language import Type
from taskloom.suites.taskbench.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRUTH = ("false", "true")


@dataclass(frozen=True, eq=False)
class FunctionTable:
    """The graph of a function, in numbers that stand for texts.

    Attributes:
        name: The normal form, as text.
        type: What it takes and gives.
        inputs: The texts that inputs are numbers of.
        outputs: The texts that answers are numbers of.
        domain: The inputs that have an answer, in the order of their texts. For sequence functions
            the words from which sequences are drawn and which stay in the result.
        table: The answers of each input of the domain, or what computes them when they are first
            asked for: a plan needs only the domain, and worker processes compute the answers of the
            tasks that they make.
        dropped: For sequence functions with a filter: the words that it drops.
        filtered: Whether there is a filter.
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
        """Give the answers of each input of the domain."""
        return self.table if isinstance(self.table, Table) else self.table()

    @property
    def words(self) -> int:
        """Give the number of words (or names) that inputs are made of; for filters the smaller of
        the two kinds.
        """
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
    """Return the profile of a function; for sequence functions that of one position."""
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
