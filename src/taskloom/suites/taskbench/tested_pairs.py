"""Pairs of an input and an answer that a held-out split tests, so that training has none of them
the other way round.

Relations between words are symmetric more often than not: where `hot` is tested with the antonym
`cold`, a training row that gives `hot` for `cold` gives the test away. Inputs of training and of
held-out splits are disjoint anyway, so only reversed pairs can be in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.evaluation.function_table import FunctionTable
    from taskloom.suites.taskbench.sampling import Hashes
    from taskloom.suites.taskbench.split_shares import SplitShares

    I32 = NDArray[np.int32]
    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]


UNSEEN = -2
"""The number of a text that nobody has asked for yet: a lexicon has ten times more texts than a
function has answers.
"""


class TestedPairs:
    """The pairs of all relations of a recipe whose input is held out.

    Training rows of one function are compared with the tested pairs of all functions:
    `union(antonyms[eng], synonyms[eng])` tests pairs that `antonyms[eng]` could show.
    """

    __test__ = False  # pytest takes classes whose names begin with Test for tests

    def __init__(
        self, tables: Iterable[FunctionTable], hashes: Hashes, shares: SplitShares
    ) -> None:
        self.tables = [table for table in tables if table.type.form != "predicate"]
        self.hashes = hashes
        self.shares = shares
        self._numbered: dict[int, tuple[Sequence[str], I32]] = {}

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Give a number to every text that is an input of some function; other texts cannot be in a
        reversed pair.
        """
        ids: dict[str, int] = {}
        for table in self.tables:
            for number in table.domain.tolist():
                ids.setdefault(table.inputs[number], len(ids))
        return ids

    @cached_property
    def _tested(self) -> Mask:
        """Give for every text whether it is tested."""
        texts = list(self._ids)
        return self.shares.tested(self.hashes.of(texts, np.arange(len(texts), dtype=np.int32)))

    @cached_property
    def _codes(self) -> I64:
        """Give the tested pairs, sorted."""
        codes = [np.zeros(0, dtype=np.int64)]
        for table in self.tables:
            inputs = self._numbers(table.inputs, table.domain)
            rows = np.flatnonzero(self._tested[inputs])
            tested = table.answers.take(rows)
            answers = self._numbers(table.outputs, tested.values)
            known = answers >= 0
            codes.append(self._code(np.repeat(inputs[rows], tested.counts)[known], answers[known]))
        return np.unique(np.concatenate(codes))

    def trained(self, table: FunctionTable) -> Mask:
        """Return for each input of a function whether training may have it: none of its pairs is
        tested the other way round.
        """
        mask = np.ones(len(table.domain), dtype=np.bool_)
        if table.type.form == "predicate" or not len(self._codes):
            return mask
        answers = self._numbers(table.outputs, table.answers.values)
        # A text that is no input has the number -1, which is the place after the last.
        reverse = np.flatnonzero(np.append(self._tested, False)[answers])
        rows = np.searchsorted(table.answers.starts, reverse, side="right") - 1
        codes = self._code(answers[reverse], self._numbers(table.inputs, table.domain)[rows])
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        mask[rows[self._codes[at] == codes]] = False
        return mask

    def _code(self, inputs: I32, answers: I32) -> I64:
        code: I64 = inputs.astype(np.int64) * len(self._ids) + answers
        return code

    def _numbers(self, texts: Sequence[str], places: I32) -> I32:
        """Return the numbers of the texts at some places of a list, -1 for texts that are no input;
        each is looked up once.
        """
        if id(texts) not in self._numbered:
            self._numbered[id(texts)] = texts, np.full(len(texts), UNSEEN, dtype=np.int32)
        numbers = self._numbered[id(texts)][1]
        wanted = np.zeros(len(texts), dtype=np.bool_)
        wanted[places] = True
        new = np.flatnonzero(wanted & (numbers == UNSEEN))
        ids = self._ids
        numbers[new] = [ids.get(texts[place], -1) for place in new.tolist()]
        chosen: I32 = numbers[places]
        return chosen
