"""Spearman's correlation of a few values, and how often chance makes one as strong."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis.any_runs import pearson

PERMUTATIONS = 20_000
"""Number of random orders for more than eight values, which have too many orders to try all."""


def order_chance(x: list[float], y: list[float]) -> float:
    """Share of random orders of y that correlate with x at least as strongly; over all orders of up
    to eight values.

    >>> order_chance([1.0, 2.0, 3.0], [9.0, 5.0, 2.0])
    0.3333333333333333
    """
    first, second = np.array(ranks(x)), np.array(ranks(y))
    if len(x) <= 8:
        orders = np.array(list(itertools.permutations(second)))
    else:
        rng = np.random.default_rng(0)
        orders = np.stack([second, *(rng.permutation(second) for _ in range(PERMUTATIONS))])
    # All orders have the mean and the spread of the first, so that products alone rank them as
    # correlations would.
    strengths = np.abs((orders - second.mean()) @ (first - first.mean()))
    return float((strengths >= strengths[0] - 1e-9).mean())


RESAMPLES = 10_000
"""Bootstrap samples. The ends of the interval of 36 tables move by less than 0.01 between seeds of
the resampling.
"""


def bootstrap_interval(x: list[float], y: list[float], level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of Spearman's correlation over resampled pairs, seeded.

    Resamples in which one side does not vary are left out.
    """
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(x), (RESAMPLES, len(x)))
    first, second = (_centred_ranks(np.asarray(values)[chosen]) for values in (x, y))
    spread = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    vary = spread > 0
    values = (first * second).sum(axis=1)[vary] / spread[vary]
    tail = 50 * (1 - level)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def _centred_ranks(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean ranks within each row, less their mean."""
    below = (rows[:, None, :] < rows[:, :, None]).sum(axis=2)
    equal = (rows[:, None, :] == rows[:, :, None]).sum(axis=2)
    values = below + equal / 2
    centred: NDArray[np.float64] = values - values.mean(axis=1, keepdims=True)
    return centred


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's correlation; nan if one side does not vary. Equal values share their mean rank.

    >>> round(rank_correlation([1.0, 2.0, 3.0, 4.0], [9.0, 7.0, 7.0, 1.0]), 3)
    -0.949
    """
    return pearson(ranks(x), ranks(y))


def ranks(values: list[float]) -> list[float]:
    """Rank of each value; equal values share their mean rank."""
    array = np.asarray(values)
    return [float((array < value).sum() + ((array == value).sum() - 1) / 2) for value in array]
