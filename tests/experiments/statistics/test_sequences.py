"""Confidence sequences hold at every sample size at once, and decide with few observations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from taskloom.experiments.statistics.intervals import wilson
from taskloom.experiments.statistics.sequences import (
    STEPS,
    ConfidenceSequence,
    Floats,
    log_returns,
)

STREAMS = 2_000
LONG = 300

Draw = Callable[[np.random.Generator, int], Floats]


def bernoulli(p: float) -> Draw:
    return lambda random, n: (random.random(n) < p).astype(np.float64)


def paired(p: float, q: float) -> Draw:
    """Differences of two independent models' right answers."""
    return lambda random, n: bernoulli(p)(random, n) - bernoulli(q)(random, n)


STREAM_KINDS = [
    *(pytest.param(bernoulli(p), p, 0.0, id=f"{p}") for p in (0.001, 0.03, 0.5, 0.8, 0.99)),
    pytest.param(lambda random, n: random.beta(0.5, 0.2, n), 5 / 7, 0.0, id="partial-scores"),
    pytest.param(paired(0.6, 0.6), 0.0, -1.0, id="equal-models"),
    pytest.param(paired(0.9, 0.7), 0.2, -1.0, id="unequal-models"),
]


def refuted_after_any(x: Floats, mean: float) -> bool:
    """True if the mean is refuted after any observation."""
    capital = np.cumsum(log_returns(x, np.array([mean]))[:, :, 0], axis=0)
    together = np.logaddexp.reduce(capital, axis=1) - math.log(capital.shape[1])
    return bool((together >= math.log(20)).any())


@pytest.mark.parametrize(("draw", "mean", "low"), STREAM_KINDS)
def test_the_mean_is_never_refuted_in_95_percent_of_streams(
    draw: Draw, mean: float, low: float
) -> None:
    """`benchmarks/sequences.py` follows streams of 100,000."""
    random = np.random.default_rng(0)
    unit = (mean - low) / (1.0 - low)
    missed = 0
    for _ in range(STREAMS):
        missed += refuted_after_any((draw(random, LONG) - low) / (1.0 - low), unit)
    # Binomial with n = 2,000 and p = 0.05: more than 125 has probability 0.6 %.
    assert missed <= 125


def test_the_interval_is_all_that_is_not_refuted_and_a_step_more() -> None:
    random = np.random.default_rng(4)
    x = bernoulli(0.3)(random, 300)
    sequence = ConfidenceSequence()
    for one in x:
        sequence.add(one)
    left = [m for m in np.linspace(0, 1, STEPS + 1) if not refuted_after_any(x, m)]
    assert sequence.interval == pytest.approx((left[0] - 1 / STEPS, left[-1] + 1 / STEPS))


def test_fewer_looks_refute_nothing_more() -> None:
    random = np.random.default_rng(2)
    for _ in range(20):
        stream = random.random(500)
        whole, parts = ConfidenceSequence(), ConfidenceSequence()
        whole.add(stream)
        for start in range(0, 500, 7):
            parts.add(stream[start : start + 7])
        assert parts.n == whole.n == 500
        assert parts.mean == pytest.approx(whole.mean)
        assert whole.interval[0] <= parts.interval[0] + 1e-9
        assert parts.interval[1] <= whole.interval[1] + 1e-9


def test_a_mean_near_the_ends_is_known_closely() -> None:
    """The largest bets alone would never refute 0.005 if the mean is 0.01."""
    stream = np.zeros(100_000)
    stream[::100] = 1.0
    sequence = ConfidenceSequence()
    sequence.add(stream)
    low, high = sequence.interval
    assert 0.006 < low < 0.01 < high < 0.014


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_observations_leave_the_end_of_the_range(value: float) -> None:
    sequence = ConfidenceSequence()
    sequence.add(np.full(1_000, value))
    low, high = sequence.interval
    assert low <= value <= high
    assert high - low < 0.02


def test_a_common_interval_misses_when_it_is_looked_at_again_and_again() -> None:
    """The control: the same streams, looked at every ten answers."""
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(100):
        right = np.cumsum(random.random(600) < 0.5)
        looks = (wilson(int(right[n - 1]), n) for n in range(10, 601, 10))
        missed += any(not low <= 0.5 <= high for low, high in looks)
    assert missed > 20


def test_two_models_that_differ_by_a_fifth_are_told_apart_early_and_rightly() -> None:
    random = np.random.default_rng(1)
    asked, wrong = [], 0
    for _ in range(100):
        sequence = ConfidenceSequence(low=-1.0)
        while not sequence.excludes(0.0):
            sequence.add(paired(0.7, 0.5)(random, 10))
        asked.append(sequence.n)
        wrong += sequence.interval[1] < 0
    assert wrong <= 11
    assert np.mean(asked) < 1_000 / 3


def test_differences_that_are_mostly_zero_are_narrow_sooner() -> None:
    random = np.random.default_rng(3)
    rare, common = ConfidenceSequence(low=-1.0), ConfidenceSequence(low=-1.0)
    moved = random.random(500) < 0.05
    signs = random.choice([-1.0, 1.0], 500)
    rare.add(moved * signs)
    common.add(signs)
    assert width(rare) < width(common) / 2


def width(sequence: ConfidenceSequence) -> float:
    low, high = sequence.interval
    return high - low


def test_nothing_is_known_before_the_first_observation() -> None:
    sequence = ConfidenceSequence(low=-1.0)
    assert math.isnan(sequence.mean)
    assert sequence.interval == (-1.0, 1.0)
    assert not sequence.excludes(0.0)


def test_observations_outside_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.0 and 1\.0"):
        ConfidenceSequence().add([0.5, 1.5])
