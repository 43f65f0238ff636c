"""Comparison of text spans: normalised, as bags of words, and aligned if there are several.

The conventions are those of the DROP evaluator, which the public ZEST script took over (paper,
appendix D).
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf


def best_pairs(weights: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the pairs (row, column) with the largest total weight. The number of pairs equals the
    shorter side of the matrix.

    This is the shortest augmenting path algorithm for rectangular matrices (Crouse 2016). SciPy's
    solver uses it too, so ties are broken as in the public script. SciPy itself is not a dependency
    of the core.

    Integers remain integers, so that callers can get an exact optimum.

    >>> best_pairs([[1, 5], [2, 9], [7, 8]])
    [(1, 1), (2, 0)]
    """
    if not weights or not weights[0]:
        return []
    if len(weights) > len(weights[0]):
        turned = best_pairs([list(column) for column in zip(*weights, strict=True)])
        return sorted((row, column) for column, row in turned)
    n, m = len(weights), len(weights[0])
    if n == 1:
        row = weights[0]
        return [(0, max(range(m), key=row.__getitem__))]
    return _augment([[-w for w in row] for row in weights], n, m)


def _augment(costs: list[list[float]], n: int, m: int) -> list[tuple[int, int]]:
    row_price: list[float] = [0] * n
    column_price: list[float] = [0] * m
    row_of = [-1] * m
    column_of = [-1] * n
    for start in range(n):
        shortest: list[float] = [inf] * m
        path = [-1] * m
        done_rows: list[int] = []
        done_columns: list[int] = []
        open_columns = list(range(m - 1, -1, -1))
        lowest: float = 0
        row, sink = start, -1
        while sink < 0:
            done_rows.append(row)
            best, at = inf, -1
            for position, column in enumerate(open_columns):
                reduced = lowest + costs[row][column] - row_price[row] - column_price[column]
                if reduced < shortest[column]:
                    shortest[column] = reduced
                    path[column] = row
                # Among equally close columns, a free one ends the search at once.
                if shortest[column] < best or (shortest[column] == best and row_of[column] < 0):
                    best, at = shortest[column], position
            lowest = best
            column = open_columns[at]
            if row_of[column] < 0:
                sink = column
            else:
                row = row_of[column]
            done_columns.append(column)
            open_columns[at] = open_columns[-1]
            open_columns.pop()
        row_price[start] += lowest
        for r in done_rows[1:]:
            row_price[r] += lowest - shortest[column_of[r]]
        for c in done_columns:
            column_price[c] -= lowest - shortest[c]
        column = sink
        while True:
            row = path[column]
            row_of[column] = row
            column_of[row], column = column, column_of[row]
            if row == start:
                break
    return list(enumerate(column_of))


Bag = frozenset[str]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PIECES = re.compile(r"[ -]")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

CACHED_LENGTH = 500
"""Maximum length of texts in the caches, because a prediction may be a line of 10 MB."""


def is_number(text: str) -> bool:
    """True if Python parses the text as a float. This includes '1e3', '1_000', 'inf' and 'nan'."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _piece(piece: str) -> str:
    piece = piece.lower()
    if not is_number(piece):
        piece = piece.translate(_NO_PUNCTUATION)
    if is_number(piece):
        piece = str(float(piece))
    return " ".join(_ARTICLES.sub(" ", piece).split())


_piece_cached = lru_cache(maxsize=1 << 15)(_piece)


def _normalise(text: str) -> str:
    pieces = (
        _piece_cached(p) if len(p) < CACHED_LENGTH else _piece(p) for p in _PIECES.split(text)
    )
    return " ".join(p for p in pieces if p)


_normalise_cached = lru_cache(maxsize=1 << 15)(_normalise)


def normalise(text: str) -> str:
    """Normalise a span: lower case, no ASCII punctuation, no articles, numbers as floats, split at
    spaces and hyphens.

    >>> normalise("The $1,000 prize-money")
    '1000.0 prize money'
    """
    return _normalise_cached(text) if len(text) < CACHED_LENGTH else _normalise(text)


@lru_cache(maxsize=1 << 15)
def _bag(normalised: str) -> tuple[Bag, Bag]:
    words = frozenset(normalised.split())
    return words, frozenset(word for word in words if is_number(word))


def bag(text: str) -> tuple[Bag, Bag]:
    """Return the set of words in a span, and the subset that are numbers."""
    return _bag(normalise(text))


def word_f1(gold: tuple[Bag, Bag], predicted: tuple[Bag, Bag]) -> float:
    """Return the F1 overlap of two bags, or 0 if the gold span has numbers and the prediction
    shares none of them.
    """
    gold_words, gold_numbers = gold
    words, numbers = predicted
    if gold_numbers and not gold_numbers & numbers:
        return 0.0
    shared = len(gold_words & words)
    precision = shared / len(words) if words else 1.0
    recall = shared / len(gold_words) if gold_words else 1.0
    if precision == 0.0 and recall == 0.0:
        return 0.0
    return (2 * precision * recall) / (precision + recall)


def in_turn(values: Iterable[float]) -> float:
    """Add values one by one, including the resulting rounding errors."""
    total = 0.0
    for value in values:
        total += value
    return total


def mean(values: Sequence[float]) -> float:
    """Compute the mean in NumPy's order of summation. From eight values on, the last bit may differ
    from Python's result.
    """
    if len(values) < 8:
        return in_turn(values) / len(values)
    import numpy as np

    return float(np.mean(np.array(values)))


def aligned(gold: Sequence[str], predicted: Sequence[str]) -> list[float]:
    """Return the word F1 of every gold span under the best one-to-one alignment, and a 0 for each
    superfluous prediction.
    """
    gold_bags = [bag(g) for g in gold]
    bags = [bag(p) for p in predicted]
    scores = [[word_f1(g, p) for p in bags] for g in gold_bags]
    f1s = [0.0] * max(len(gold), len(predicted))
    for row, column in best_pairs(scores):
        f1s[row] = scores[row][column]
    return f1s


def list_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the mean word F1 under the best alignment, divided by the length of the longer list,
    without rounding.
    """
    if len(gold) == 1 and len(predicted) == 1:
        return word_f1(bag(gold[0]), bag(predicted[0]))
    return mean(aligned(gold, predicted))


def exact(gold: Sequence[str], predicted: Sequence[str]) -> bool:
    """True if the normalised spans are equal, in any order."""
    return len(gold) == len(predicted) and {normalise(g) for g in gold} == {
        normalise(p) for p in predicted
    }


def numpy_round(value: float) -> float:
    """Round to two decimals as NumPy does: 0.615 gives 0.62, where Python's `round` gives 0.61."""
    return round(value * 100) / 100
