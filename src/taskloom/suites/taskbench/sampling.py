"""Keyed hashes of words, sequences of words (Algorithm 1 of the paper), and the pairs whose reverse
must not be in training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from taskloom.core.errors import RecipeError
from taskloom.recipe.fields import split_key
from taskloom.suites.taskbench.split_shares import SplitShares
from taskloom.suites.taskbench.worlds.random_relations import mix_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.core.seeding import Key
    from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable

    U64 = NDArray[np.uint64]
    I64 = NDArray[np.int64]
    I32 = NDArray[np.int32]
    Mask = NDArray[np.bool_]

LISTED = 1 << 18
"""Maximum number of distinct sequences to list, so that each occurs once. For larger spaces, two
draws are hardly ever equal.
"""

SMALLEST = 0.002
"""Minimum share of a split that is drawn by rejection. At this share, a sequence takes 500 draws on
average. Only spaces with more than `LISTED` sequences are drawn this way. The split then has over
500 sequences, so drawing always terminates.
"""


TOGETHER = 1_024
"""Minimum number of sequences per batch. NumPy takes as long for fewer."""

MOST_TURNS = 16
"""Maximum number of draws per row in one batch. More would be wasted in all but the smallest
splits.
"""

SEARCH = 8_192
"""Seeking in a random stream costs as much as generating this many words, so shorter gaps are
skipped by generating.
"""


class Hashes:
    """Keyed hashes of texts. Each text is hashed once, regardless of how many tasks use it."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self._known = _known(key)
        self._lists: dict[int, HashedTexts] = {}

    def of(self, texts: Sequence[str], numbers: NDArray[np.int32]) -> U64:
        """Return the hashes of the texts with these indices."""
        if id(texts) not in self._lists:
            n = len(texts)
            self._lists[id(texts)] = HashedTexts(
                texts, np.zeros(n, np.uint64), np.zeros(n, np.bool_)
            )
        _, hashes, present = self._lists[id(texts)]
        missing = numbers[~present[numbers]]
        if len(missing):
            hashes[missing] = self._look_up([texts[number] for number in missing.tolist()])
            present[missing] = True
        return hashes[numbers]

    def _look_up(self, texts: Sequence[str]) -> U64:
        known = self._known
        new = [text for text in texts if text not in known]
        known.update(zip(new, self.key.hashes64(new).tolist(), strict=True))
        return np.array([known[text] for text in texts], dtype=np.uint64)


class HashedTexts(NamedTuple):
    """Known hashes of a list of texts. The list is kept alive because `id(texts)` identifies it."""

    texts: Sequence[str]
    hashes: U64
    present: NDArray[np.bool_]


@lru_cache(maxsize=4)
def _known(key: Key) -> dict[str, int]:
    """Cache the hashes for a key, because recipes with the same seed hash the same words."""
    return {}


def salted(hashes: U64, key: Key, *parts: str | int) -> U64:
    """Return other hashes of the same content, for a different purpose."""
    return mix_all(hashes ^ np.uint64(key.hash64(*parts)))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Drawn sequences, as indices into the pools.

    Attributes:
        words: Indices of the words, one row per sequence.
        kept: True for each position that the filter keeps.
        places: Index in the domain for each kept position, row by row.
    """

    words: NDArray[np.int32]
    kept: NDArray[np.bool_]
    places: I64


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Sequences before the filter, one per row.

    Attributes:
        places: Indices in the domain and in the dropped words, kept words first.
        words: Indices of the words, in the same order.
        order: The permutation applied to the words.
    """

    places: I64
    words: NDArray[np.int32]
    order: I64


@dataclass(frozen=True)
class Sequences:
    """The sequence sampler of Algorithm 1: draws m words of domain(fM) for which fF holds and n - m
    for which it does not, and shuffles them.

    In the paper, n and m are swapped in the loops of the listing, but the text is correct.

    Attributes:
        solved: The function.
        key: The key of the task.
        hashes: Hashes of content.
        shares: Shares of the splits.
        length: Length of a sequence (n).
        kept: Number of kept words (m), or n if there is no filter.
        word_disjoint: True if splits share no words, False if they only share no sequences.
        trained: Mask of the domain words that may be used for training, if splits share no words.
            Default: all.
    """

    solved: FunctionTable
    key: Key
    hashes: Hashes
    shares: SplitShares
    length: int
    kept: int
    word_disjoint: bool
    trained: NDArray[np.bool_] | None = None

    def split_key(self, split: str) -> Key:
        """Return the key of a split's stream. It depends neither on the split's size nor on how
        sequences are written.
        """
        return split_key(self.key, split, {"length": self.length, "kept": self._kept})

    @property
    def _kept(self) -> int:
        return self.kept if self.solved.filtered else self.length

    def space(self, split: str) -> int:
        """Count the different sequences that the words of a split can form."""
        inside, outside = self.pools(split)
        m = self._kept
        return comb(self.length, m) * int(len(inside) ** m) * int(len(outside) ** (self.length - m))

    def size(self, split: str) -> int:
        """Number of different sequences in the split, estimated if there are too many to list."""
        space = self.space(split)
        if space <= LISTED:
            return len(self._listed(split).words)
        if self.word_disjoint:
            return space
        share = self.shares.weights[split]
        if share < SMALLEST:
            raise RecipeError(
                f"shares.{split}: {share:g} of all sequences is too small a share to draw from "
                f"{space:,} sequences; raise it to {SMALLEST:g}, or write pairs: disjoint"
            )
        # Use integers, because a space of 9,143 words at 1,000 positions exceeds any float.
        return space * round(share * 10**6) // 10**6

    def rounds(self, split: str, n: int) -> float:
        """Number of times that `draw` can give n sequences: infinite unless they are listed."""
        return len(self._listed(split).words) // n if self.space(split) <= LISTED else math.inf

    def _listed(self, split: str) -> Drawn:
        """List every sequence of a small split once, in a keyed order."""
        listed = self._lists.get(split)
        if listed is None:
            listed = self._lists[split] = self._list(split)
        return listed

    @cached_property
    def _lists(self) -> dict[str, Drawn]:
        return {}

    def _list(self, split: str) -> Drawn:
        inside, outside = self.pools(split)
        m, n = self._kept, self.length
        if not self.space(split):
            return Drawn(
                np.zeros((0, n), np.int32), np.zeros((0, n), np.bool_), np.zeros(0, np.int64)
            )
        digits = _counted((len(inside),) * m + (len(outside),) * (n - m))
        # Positions of the kept words: each choice of m of the n positions, for every choice of
        # words.
        orders = np.array(
            [[*kept, *sorted(set(range(n)) - set(kept))] for kept in combinations(range(n), m)]
        )
        columns = np.argsort(orders, axis=1)
        picked = np.concatenate((inside[digits[:, :m]], outside[digits[:, m:]]), axis=1)
        kept_hashes, dropped_hashes = self._hashes
        solved = self.solved
        words = np.concatenate(
            (solved.domain[picked[:, :m]], solved.dropped[picked[:, m:]]), axis=1
        )
        hashes = np.concatenate((kept_hashes[picked[:, :m]], dropped_hashes[picked[:, m:]]), axis=1)
        words, hashes, picked = (
            np.concatenate([a[:, c] for c in columns]) for a in (words, hashes, picked)
        )
        kept = np.repeat(columns < m, len(digits), axis=0)
        content = _sequence_hash(hashes)
        order = np.argsort(salted(content, self.key, "order"), kind="stable")
        if not self.word_disjoint:
            order = order[self.shares.member(content[order], split)]
        return Drawn(words[order], kept[order], picked[order][kept[order]])

    @cached_property
    def _hashes(self) -> tuple[U64, U64]:
        """Hashes of the domain and of the dropped words."""
        solved = self.solved
        return self.hashes.of(solved.inputs, solved.domain), self.hashes.of(
            solved.inputs, solved.dropped
        )

    def pools(self, split: str) -> tuple[I64, I64]:
        """Return the indices in the domain and in the dropped words from which the split may
        draw.
        """
        solved = self.solved
        if not self.word_disjoint:
            return np.arange(len(solved.domain)), np.arange(len(solved.dropped))
        inside, outside = (self.shares.member(hashes, split) for hashes in self._hashes)
        if split == "train" and self.trained is not None:
            inside &= self.trained
        return np.flatnonzero(inside), np.flatnonzero(outside)

    def draw(self, split: str, start: int, stop: int) -> Drawn:
        """Draw sequences start..stop of a split."""
        m = self._kept
        if self.space(split) <= LISTED:
            listed = self._listed(split)
            return Drawn(
                listed.words[start:stop],
                listed.kept[start:stop],
                listed.places[start * m : stop * m],
            )
        drawn = self._draw_first(split, start, stop - start)
        kept = drawn.order < m
        return Drawn(drawn.words, kept, np.take_along_axis(drawn.places, drawn.order, 1)[kept])

    def _draw_first(self, split: str, start: int, count: int) -> Shuffled:
        """Draw sequences repeatedly. Each row keeps the first sequence that belongs to the
        split.
        """
        inside, outside = self.pools(split)
        shape = (count, self.length)
        kept = Shuffled(
            np.zeros(shape, np.int64), np.zeros(shape, np.int32), np.zeros(shape, np.int64)
        )
        pending, turn = np.arange(count), 0
        own, key = self._hashes, self.split_key(split)
        while len(pending):
            # In a small split, only one draw in ten may belong to it. For the last rows, many draws
            # in one batch cost as much as one.
            turns = 1 if self.word_disjoint else max(1, min(MOST_TURNS, TOGETHER // len(pending)))
            keys = [key.child("draw", turn + i) for i in range(turns)]
            raw = np.concatenate(
                [_words_of(k, start, count, pending, 2 * self.length) for k in keys]
            )
            raw = raw.reshape(-1, 2, self.length)
            places, words, hashes = self._pick(raw[:, 0], inside, outside, own, self._kept)
            order = np.argsort(raw[:, 1], axis=1, kind="stable")
            belongs = np.ones((turns, len(pending)), dtype=np.bool_)
            if not self.word_disjoint:
                content = _sequence_hash(np.take_along_axis(hashes, order, 1))
                belongs = self.shares.member(content, split).reshape(belongs.shape)
            done = np.asarray(belongs.any(axis=0))
            first = (belongs.argmax(axis=0) * len(pending) + np.arange(len(pending)))[done]
            rows = pending[done]
            kept.places[rows], kept.order[rows] = places[first], order[first]
            kept.words[rows] = np.take_along_axis(words[first], order[first], 1)
            pending, turn = pending[~done], turn + turns
        return kept

    def _pick(
        self, raw: U64, inside: I64, outside: I64, own: tuple[U64, U64], m: int
    ) -> tuple[I64, NDArray[np.int32], U64]:
        """Return the indices, word numbers and hashes of drawn words. The first m columns come from
        the domain, the others from the dropped words.
        """
        solved = self.solved
        first = inside[(raw[:, :m] % np.uint64(max(1, len(inside)))).astype(np.int64)]
        if m == raw.shape[1]:
            return first, solved.domain[first], own[0][first]
        rest = outside[(raw[:, m:] % np.uint64(len(outside))).astype(np.int64)]
        places = np.concatenate((first, rest), axis=1)
        words = np.concatenate((solved.domain[first], solved.dropped[rest]), axis=1)
        return places, words, np.concatenate((own[0][first], own[1][rest]), axis=1)


def _words_of(key: Key, start: int, count: int, rows: I64, width: int) -> U64:
    """Return random words for the `count` rows after `start`, or for a selection of them, each row
    `width` words wide.
    """
    if count * width <= SEARCH * len(rows):
        return key.words(start * width, (start + count) * width).reshape(count, width)[rows]
    return np.array(
        [key.words((start + row) * width, (start + row + 1) * width) for row in rows.tolist()]
    )


@lru_cache(maxsize=4)
def _counted(bases: tuple[int, ...]) -> I64:
    """Enumerate all numbers whose digits have these bases, one number per row."""
    digits = np.zeros((prod(bases), len(bases)), dtype=np.int64)
    rest = np.arange(len(digits))
    for column, base in enumerate(bases):
        rest, digits[:, column] = np.divmod(rest, base)
    return digits


def _sequence_hash(hashes: U64) -> U64:
    """Hash each row, depending on its order."""
    combined = np.zeros(len(hashes), dtype=np.uint64)
    for column in hashes.T:
        combined = mix_all(combined * np.uint64(0x9E3779B97F4A7C15) + column)
    return combined


UNSEEN = -2
"""Index of a text that has not been looked up yet. Texts are numbered on demand, because a lexicon
has ten times as many texts as a function has answers.
"""


class TestedPairs:
    """The pairs of input and answer that held-out splits test, over all relations of a recipe.

    Most relations between words are symmetric: if `hot` is tested with the antonym `cold`, a
    training row with the input `cold` and the answer `hot` reveals the answer. The inputs of
    training and of held-out splits are disjoint anyway, so only reversed pairs can be in both.

    Training rows of one function are compared with the tested pairs of all functions, because
    `antonyms[eng]` could reveal pairs that `union(antonyms[eng], synonyms[eng])` tests.
    """

    __test__ = False  # pytest collects classes whose names begin with Test

    def __init__(
        self, tables: Iterable[FunctionTable], hashes: Hashes, shares: SplitShares
    ) -> None:
        self.tables = [table for table in tables if table.type.form != "predicate"]
        self.hashes = hashes
        self.shares = shares
        self._numbered: dict[int, tuple[Sequence[str], I32]] = {}

    @cached_property
    def _ids(self) -> dict[str, int]:
        """An index for every text that is an input of some function. Other texts cannot be in a
        reversed pair.
        """
        ids: dict[str, int] = {}
        for table in self.tables:
            for number in table.domain.tolist():
                ids.setdefault(table.inputs[number], len(ids))
        return ids

    @cached_property
    def _tested(self) -> Mask:
        """Mask of the texts that are tested."""
        texts = list(self._ids)
        return self.shares.tested(self.hashes.of(texts, np.arange(len(texts), dtype=np.int32)))

    @cached_property
    def _codes(self) -> I64:
        """Codes of the tested pairs, sorted."""
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
        """For each input of a function, True if training may contain it because none of its pairs
        is tested in reverse.
        """
        mask = np.ones(len(table.domain), dtype=np.bool_)
        if table.type.form == "predicate" or not len(self._codes):
            return mask
        answers = self._numbers(table.outputs, table.answers.values)
        # Texts that are not inputs have the id -1, which indexes the additional last position.
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
        """Return the numbers of texts, given by their indices in a list, or -1 for texts that are
        not inputs. Each text is looked up once.
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
