"""Differences between kinds of items, against simulations whose difference is known."""

from __future__ import annotations

import numpy as np
import pytest

from taskloom.experiments.statistics import StatisticsError, between_kinds, between_kinds_by_stratum
from tests.experiments.statistics.test_intervals import generator


@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.3), (3, 0.3), (3, 0.0), (5, 0.1)])
def test_the_difference_of_two_kinds_of_items_is_covered(seeds: int, spread: float) -> None:
    """Seeds that are alike on both kinds of items, and seeds that are not."""
    rng = generator("between kinds", seeds, str(spread))
    wrong, times = 0, 400
    for _ in range(times):
        common, own = 0.4 * rng.normal(size=(seeds, 1)), spread * rng.normal(size=(seeds, 1))
        tables = []
        for n, side in ((100, own), (300, -own)):
            logit = 0.2 + common + side + rng.normal(size=(1, n))
            tables.append((rng.random((seeds, n)) < 1 / (1 + np.exp(-logit))).astype(float))
        found = between_kinds(tables[0], tables[1])
        wrong += not found.low <= 0 <= found.high
    assert wrong / times <= 0.08


def test_a_planted_difference_of_kinds_is_found_with_its_sign() -> None:
    one, other = np.array([[1, 1, 1, 0], [1, 1, 0, 1]] * 2), np.array([[0, 0, 1], [0, 0, 0]] * 2)
    found = between_kinds(np.repeat(one, 20, 1), np.repeat(other, 20, 1))
    assert found.mean == pytest.approx(0.75 - 1 / 6)
    assert 0 < found.low < found.mean < found.high
    assert between_kinds(other, one).mean == pytest.approx(-found.mean)
    with pytest.raises(StatisticsError, match="the same seeds"):
        between_kinds(one, other[:2])


def test_a_confounder_makes_no_difference_within_its_strata() -> None:
    """Kind one is mostly of easy items and the other mostly of hard ones: all of the difference is
    that of the strata.
    """
    rng, times = generator("strata"), 300
    missed = {"whole": 0, "strata": 0}
    for _ in range(times):
        shift = rng.normal(0, 0.3, (3, 1))
        strata = []
        for ability, sizes in ((1.5, (150, 50)), (-1.5, (50, 150))):
            sides = [1 / (1 + np.exp(-(ability + shift + rng.normal(size=(1, n))))) for n in sizes]
            first, second = ((rng.random(side.shape) < side).astype(float) for side in sides)
            strata.append((first, second))
        one, other = (
            np.concatenate([stratum[side] for stratum in strata], axis=1) for side in (0, 1)
        )
        whole, within = between_kinds(one, other), between_kinds_by_stratum(strata)
        missed["whole"] += not whole.low <= 0 <= whole.high
        missed["strata"] += not within.low <= 0 <= within.high
    assert missed["whole"] / times > 0.9
    assert missed["strata"] / times <= 0.08


def test_strata_are_weighted_by_their_items_and_one_stratum_is_the_whole() -> None:
    one, other = np.array([[1, 1, 1, 0], [1, 1, 0, 1]]), np.array([[0, 0, 1], [0, 0, 0]])
    assert between_kinds_by_stratum([(one, other)]) == between_kinds(one, other)
    twice = between_kinds_by_stratum([(one, other), (np.repeat(other, 2, 1), np.repeat(one, 2, 1))])
    gap = between_kinds(one, other).mean
    assert twice.mean == pytest.approx((7 * gap - 14 * gap) / 21)
    assert (twice.items, twice.seeds) == (21, 2)
    with pytest.raises(StatisticsError, match="at least one stratum"):
        between_kinds_by_stratum([])
