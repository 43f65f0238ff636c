"""Corrections and effect sizes."""

from __future__ import annotations

import itertools
from math import asin, inf, isnan, pi, sqrt

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from taskloom.experiments.statistics import (
    StatisticsError,
    benjamini_hochberg,
    bonferroni,
    cohens_h,
    correct,
    hedges_g,
    holm,
    odds_ratio,
)

# Benjamini and Hochberg (1995), section 3: fifteen tests of one study; theirs finds four,
# Bonferroni three.
STUDY = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0
]  # fmt: skip


def test_published_findings() -> None:
    assert (benjamini_hochberg(STUDY) <= 0.05).sum() == 4
    assert (bonferroni(STUDY) <= 0.05).sum() == 3
    assert (holm(STUDY) <= 0.05).sum() == 3


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(P_VALUES, st.randoms())
def test_properties(values: list[float], random: object) -> None:
    p = np.array(values)
    assert (p <= benjamini_hochberg(p) + 1e-15).all()
    assert (benjamini_hochberg(p) <= holm(p) + 1e-15).all()
    assert (holm(p) <= bonferroni(p) + 1e-15).all()
    assert (bonferroni(p) <= 1).all()
    order = np.argsort(p[::-1], kind="stable")
    for method in (holm, benjamini_hochberg, bonferroni):
        assert np.allclose(
            method(p[::-1]), method(p)[::-1]
        )  # the order of the tests does not matter
        assert (np.diff(method(p[::-1])[order]) >= 0).all()  # nor is a smaller p overtaken
    assert np.allclose(benjamini_hochberg(p), scipy.stats.false_discovery_control(p))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_closed_testing_with_bonferroni(p: list[float]) -> None:
    """By definition: a hypothesis falls when every set that holds it falls by Bonferroni."""
    for i, found in enumerate(holm(p)):
        sets = [
            s
            for r in range(1, len(p) + 1)
            for s in itertools.combinations(range(len(p)), r)
            if i in s
        ]
        assert found == pytest.approx(max(min(1.0, len(s) * min(p[j] for j in s)) for s in sets))


def test_by_name() -> None:
    assert list(correct([0.01, 0.02], "holm")) == list(holm([0.01, 0.02]))
    assert list(correct([0.01, 0.02], "none")) == [0.01, 0.02]
    with pytest.raises(StatisticsError, match="did you mean 'holm'"):
        correct([0.1], "holms")
    with pytest.raises(StatisticsError, match="between 0 and 1"):
        holm([0.5, float("nan")])


def test_effect_sizes() -> None:
    assert cohens_h(0.0, 1.0) == pytest.approx(pi)
    assert cohens_h(0.5, 0.7) == pytest.approx(2 * asin(sqrt(0.7)) - pi / 2)
    assert cohens_h(0.98, 0.99) > cohens_h(0.50, 0.51) > 0
    a = [0.0] * 6
    b = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]
    raw = np.mean(b) / np.std(b, ddof=1)
    assert hedges_g(a, b) == pytest.approx(raw * (1 - 3 / (4 * 5 - 1)), rel=0.01)
    assert hedges_g(a, a) == 0
    ratio, low, high = odds_ratio([1, 0, 0, 0, 1], [0, 1, 1, 1, 1])
    assert ratio == pytest.approx(3.0)
    assert low < 3 < high
    assert odds_ratio([0, 0], [1, 1])[2] == inf
    assert isnan(odds_ratio([1], [1])[0])
    with pytest.raises(StatisticsError, match="between 0 and 1"):
        cohens_h(0.5, 1.2)
    with pytest.raises(StatisticsError, match="at least 3"):
        hedges_g([0, 1], [1, 1])
