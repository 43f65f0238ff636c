"""Spearman's correlation of a few values, and how often chance makes one as strong."""

from __future__ import annotations

import itertools

import numpy as np

from taskloom.studies.divergence_accuracy import pearson

PERMUTATIONS = 20_000
"""Orders that are drawn where there are more than all of eight seeds."""


def order_chance(x: list[float], y: list[float]) -> float:
    """Return how often a random order of y correlates with x at least as strongly; over all orders of up to eight values.

    >>> order_chance([1.0, 2.0, 3.0], [9.0, 5.0, 2.0])
    0.3333333333333333
    """
    first, second = np.array(ranks(x)), np.array(ranks(y))
    if len(x) <= 8:
        orders = np.array(list(itertools.permutations(second)))
    else:
        rng = np.random.default_rng(0)
        orders = np.stack([second, *(rng.permutation(second) for _ in range(PERMUTATIONS))])
    # All orders have the mean and the spread of the first, so that products alone rank them as correlations would.
    strengths = np.abs((orders - second.mean()) @ (first - first.mean()))
    return float((strengths >= strengths[0] - 1e-9).mean())


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Return Spearman's correlation, nan where one side does not vary; equal values share their mean rank.

    >>> round(rank_correlation([1.0, 2.0, 3.0, 4.0], [9.0, 7.0, 7.0, 1.0]), 3)
    -0.949
    """
    return pearson(ranks(x), ranks(y))


def ranks(values: list[float]) -> list[float]:
    """Return the rank of each value; equal values share their mean rank."""
    array = np.asarray(values)
    return [float((array < value).sum() + ((array == value).sum() - 1) / 2) for value in array]
