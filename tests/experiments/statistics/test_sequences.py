"""Confidence sequences hold at every sample size at once, and decide with few observations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from taskloom.experiments.statistics.intervals import wilson
from taskloom.experiments.statistics.sequences import ConfidenceSequence, Floats

STREAMS = 2_000
LONG = 1_000

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


@pytest.mark.parametrize(("draw", "mean", "low"), STREAM_KINDS)
def test_the_mean_is_never_refuted_in_95_percent_of_streams(
    draw: Draw, mean: float, low: float
) -> None:
    """`benchmarks/sequences.py` follows streams of 100,000."""
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(STREAMS):
        sequence = ConfidenceSequence(low=low)
        sequence.follow(np.array([(mean - low) / (1.0 - low)]))
        sequence.add(draw(random, LONG))
        missed += int(sequence.refuted[0])
    # Binomial with n = 2,000 and p = 0.05: more than 125 has probability 0.6 %.
    assert missed <= 125


def test_the_interval_contains_every_candidate_that_is_not_refuted() -> None:
    random = np.random.default_rng(4)
    sequence = ConfidenceSequence()
    sequence.add(bernoulli(0.3)(random, 500))
    first, last = sequence.interval
    candidates = np.linspace(0.0, 1.0, len(sequence.refuted))[~sequence.refuted]
    assert first <= candidates.min() <= candidates.max() <= last


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


def test_batches_do_not_change_the_interval() -> None:
    stream = np.random.default_rng(2).random(1_000)
    whole, parts = ConfidenceSequence(), ConfidenceSequence()
    whole.add(stream)
    for start in range(0, 1_000, 7):
        parts.add(stream[start : start + 7])
    assert parts.n == whole.n == 1_000
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.interval == pytest.approx(whole.interval)


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
