"""Paired tests against published values, SciPy, brute force and their own error rates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.seeding import Key
from taskloom.experiments.statistics import (
    StatisticsError,
    independent_seeds,
    mcnemar,
    paired_bootstrap,
    paired_two_way,
    sign_flip,
    welch,
)
from tests.experiments.statistics.test_intervals import draw, generator
from tests.slow import slow_except


def answers(both: int, only_a: int, only_b: int, neither: int) -> tuple[list[int], list[int]]:
    a = [1] * both + [1] * only_a + [0] * only_b + [0] * neither
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return a, b


def test_published_mcnemar() -> None:
    # Fagerland, Lydersen and Laake (BMC Medical Research Methodology 13:91, 2013), airway
    # hyper-responsiveness.
    a, b = answers(1, 1, 7, 12)
    assert mcnemar(a, b, "chi2").p == pytest.approx(0.034, abs=5e-4)
    assert mcnemar(a, b, "exact").p == pytest.approx(0.070, abs=5e-4)
    assert mcnemar(a, b, "mid-p").p == pytest.approx(0.039, abs=5e-4)
    assert mcnemar(a, b).difference == pytest.approx(6 / 21)


PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)


@given(PAIRS)
def test_mcnemar_against_the_binomial(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(x) for x in zip(*pairs, strict=True))
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    exact = scipy.stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    found = mcnemar(a, b, "exact")
    assert found.p == pytest.approx(exact)
    assert mcnemar(a, b).p <= found.p + 1e-12
    assert found.low <= found.high
    # Swapping the two models turns everything round.
    other = mcnemar(b, a, "exact")
    assert other.p == pytest.approx(found.p)
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))


@given(PAIRS, st.randoms())
def test_the_order_of_items_does_not_matter(pairs: list[tuple[int, int]], random: Any) -> None:
    a, b = zip(*pairs, strict=True)
    random.shuffle(pairs)
    c, d = zip(*pairs, strict=True)
    assert mcnemar(a, b) == mcnemar(c, d)


@pytest.mark.parametrize(
    ("items", "differing"), [(20, 0.3), (50, 0.4), *slow_except([(50, 0.1), (100, 0.2)])]
)
def test_mid_p_errs_as_often_as_promised(items: int, differing: float) -> None:
    """The exact error rate where neither model is better, summed over all outcomes: how many items
    differ, and which way.
    """
    rate = {"exact": 0.0, "mid-p": 0.0}
    for differ in range(items + 1):
        ways = scipy.stats.binom.pmf(np.arange(differ + 1), differ, 0.5)
        ways = ways * scipy.stats.binom.pmf(differ, items, differing)
        for method in rate:
            p = [
                mcnemar(*answers(0, k, differ - k, items - differ), method=method).p
                for k in range(differ + 1)
            ]
            rate[method] += sum(w for w, value in zip(ways, p, strict=True) if value <= 0.05)
    assert rate["exact"] <= 0.05
    assert rate["exact"] < rate["mid-p"] <= 0.052


def test_bootstrap_is_the_same_everywhere() -> None:
    a = [i * 7 % 23 / 23 for i in range(23)]
    b = [i * 5 % 19 / 17 for i in range(23)]
    once = paired_bootstrap(a, b, key=3)
    assert once == paired_bootstrap(a, b, key=3)
    assert once != paired_bootstrap(a, b, key=4)
    assert once == paired_bootstrap(a, b, key=Key("paired bootstrap", 3))
    # These digits hold on every machine and version of NumPy; what changes them changes everybody's
    # reports.
    assert (round(once.low, 6), round(once.high, 6), round(once.p, 6)) == GOLDEN


GOLDEN = (-0.137551, 0.208276, 0.681832)


def test_bootstrap_in_pieces_is_the_bootstrap_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = generator("pieces")
    a, b = rng.random(50), rng.random(50)
    whole = paired_bootstrap(a, b)
    monkeypatch.setattr("taskloom.experiments.statistics.paired_tests._CHUNK", 128)
    assert paired_bootstrap(a, b) == whole


def test_bootstrap_agrees_with_scipy() -> None:
    rng = generator("scipy")
    a = rng.random(200)
    b = a + rng.normal(0.03, 0.3, 200)
    ours = paired_bootstrap(a, b, resamples=20_000)
    theirs = scipy.stats.bootstrap(
        (b - a,), np.mean, n_resamples=20_000, method="percentile", rng=rng
    )
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.003)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.003)
    assert ours.p == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, abs=0.02)


def test_bootstrap_draws_every_item_alike() -> None:
    """The draws themselves: each of 7 items as often as the others, by chi-squared."""
    from taskloom.experiments.statistics.paired_tests import _resampled_means

    counts = [_resampled_means(np.eye(7)[i], Key("even"), 10_000).sum() * 7 for i in range(7)]
    assert sum(counts) == pytest.approx(70_000)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=8))
def test_sign_flips_against_brute_force(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    gaps = b - a
    sums = [
        abs(sum(s * g for s, g in zip(signs, gaps, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(gaps))
    ]
    assert sign_flip(a, b).p == pytest.approx(sum(s >= abs(gaps.sum()) for s in sums) / len(sums))
    assert sign_flip(b, a).p == sign_flip(a, b).p


def test_sign_flips_of_many_seeds_are_drawn() -> None:
    rng = generator("flips")
    a, b = rng.normal(0, 1, 40), rng.normal(0.5, 1, 40)
    found = sign_flip(a, b)
    assert found == sign_flip(a, b)
    assert found.p == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, abs=0.02)
    assert sign_flip(np.zeros(5), np.ones(5)).p == 2 / 2**5


# Thousandths, as shares of items are: for numbers that differ in the sixteenth digit SciPy itself
# is not exact.
SEEDS = st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=2, max_size=9)


@given(SEEDS, SEEDS)
def test_welch_against_scipy(a: list[float], b: list[float]) -> None:
    found = welch(a, b)
    if np.var(a) + np.var(b) > 1e-9:
        theirs = scipy.stats.ttest_ind(b, a, equal_var=False)
        assert found.p == pytest.approx(theirs.pvalue, abs=1e-9)
        assert found.df == pytest.approx(theirs.df)
        ends = theirs.confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_two_way_of_one_effect_is_the_paired_t_test() -> None:
    """Where items do not differ at all, only seeds are left: the paired t test over the seeds."""
    a, b = np.array([0.2, 0.4, 0.7, 0.5]), np.array([0.3, 0.7, 0.7, 0.9])
    found = paired_two_way(np.repeat(a[:, None], 50, 1), np.repeat(b[:, None], 50, 1))
    theirs = scipy.stats.ttest_rel(b, a)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-9)
    assert found.df == pytest.approx(3)


def errors(world: tuple[int, int, float, float, float], times: int) -> float:
    """How often two learners that are alike are found to differ at 0.05."""
    rng = generator("errors", str(world))
    seeds, items, middle, by_seed, by_item = world
    wrong = 0
    for _ in range(times):
        # The same items for both: their difficulty is shared, and each learner has a taste of its
        # own.
        hard = by_item * rng.normal(size=(1, items))
        tables = []
        for _learner in range(2):
            logit = (
                middle
                + hard
                + by_seed * rng.normal(size=(seeds, 1))
                + 0.5 * rng.normal(size=(1, items))
            )
            tables.append((rng.random((seeds, items)) < 1 / (1 + np.exp(-logit))).astype(float))
        wrong += paired_two_way(tables[0], tables[1]).p <= 0.05
    return wrong / times


ALIKE = [
    (3, 300, 1.4, 0.0, 1.0),
    (3, 300, 1.4, 0.5, 1.0),
    (5, 300, 2.5, 0.2, 1.0),
    (10, 100, 0.0, 0.5, 1.0),
]


@pytest.mark.parametrize("world", ALIKE, ids=str)
def test_two_way_seldom_finds_what_is_not_there(
    world: tuple[int, int, float, float, float],
) -> None:
    assert errors(world, 400) <= 0.10


@pytest.mark.slow
@pytest.mark.parametrize("world", ALIKE, ids=str)
def test_two_way_errs_nearly_as_promised(world: tuple[int, int, float, float, float]) -> None:
    assert errors(world, 5_000) <= 0.075


def table(
    rng: np.random.Generator, seeds: int, hard: np.ndarray[Any, Any], by_seed: float
) -> np.ndarray[Any, Any]:
    """Right or wrong answers of some trainings to items of given difficulty."""
    logit = 0.3 + hard + by_seed * rng.normal(size=(seeds, 1)) + 0.5 * rng.normal(size=hard.shape)
    right: np.ndarray[Any, Any] = (
        rng.random((seeds, hard.shape[1])) < 1 / (1 + np.exp(-logit))
    ).astype(float)
    return right


def test_seeds_of_two_learners_have_no_order() -> None:
    """Pairing them would make the interval depend on it, and leave out those that one side has more
    of.
    """
    rng = generator("independent seeds")
    hard = rng.normal(size=(1, 200))
    a, b = table(rng, 3, hard, 0.5), table(rng, 5, hard, 0.5)
    found, turned = independent_seeds(a, b), independent_seeds(a[::-1], b[[3, 0, 4, 1, 2]])
    assert (found.low, found.high, found.p) == pytest.approx((turned.low, turned.high, turned.p))
    assert found.difference == pytest.approx(b.mean() - a.mean())
    back = independent_seeds(b, a)
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))


def test_independent_seeds_of_one_effect_are_welch() -> None:
    """Where items do not differ at all, only seeds are left."""
    a, b = np.array([0.2, 0.4, 0.7, 0.5]), np.array([0.3, 0.7, 0.9])
    found = independent_seeds(np.repeat(a[:, None], 50, 1), np.repeat(b[:, None], 50, 1))
    theirs = scipy.stats.ttest_ind(b, a, equal_var=False)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-9)
    interval = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "by_seed"), [(3, 3, 0.5), (3, 5, 0.3), (2, 3, 0.3), (2, 2, 0.3), (3, 3, 0.0)]
)
def test_independent_seeds_seldom_find_what_is_not_there(a: int, b: int, by_seed: float) -> None:
    rng = generator("independent", a, b, str(by_seed))
    wrong, times = 0, 400
    for _ in range(times):
        hard = rng.normal(size=(1, 300))
        wrong += (
            independent_seeds(table(rng, a, hard, by_seed), table(rng, b, hard, by_seed)).p <= 0.05
        )
    assert wrong / times <= 0.08


def test_a_planted_difference_of_independent_seeds_is_found() -> None:
    rng = generator("planted")
    hard = rng.normal(size=(1, 400))
    a, b = table(rng, 3, hard - 1.5, 0.1), table(rng, 4, hard, 0.1)
    assert independent_seeds(a, b).low > 0.1
    with pytest.raises(StatisticsError, match="two seeds each"):
        independent_seeds(a[:1], b)
    with pytest.raises(StatisticsError, match="the same items"):
        independent_seeds(a[:, :9], b)


def test_all_right_against_all_wrong() -> None:
    """No spread at all, which happens: t is undefined there, and the exact test answers."""
    found = paired_two_way(np.zeros((3, 20)), np.ones((3, 20)))
    assert found.p == pytest.approx(2 / 2**20)
    assert 0.6 < found.low < found.high == 1
    alike = paired_two_way(np.ones((3, 20)), np.ones((3, 20)))
    assert (alike.p, alike.difference) == (1.0, 0.0)
    assert alike.low < 0 < alike.high
    assert welch([0.0, 1e-90], [0.0, 1e-90]).p == 1.0
    for low, high in (
        (0.0, 1.0),
        (0.1, 0.2),
        (0.7, 0.3),
    ):  # 0.1 three times has a mean that is not 0.1
        assert welch([low] * 3, [high] * 3).p == pytest.approx(2 / 20)


def test_pooling_seeds_into_mcnemar_is_not_offered() -> None:
    table = draw(generator("pool"), 3, 20, 1.0, 0.0, 0.0)
    with pytest.raises(StatisticsError, match="one row of numbers"):
        mcnemar(table, table)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: mcnemar([1, 0], [1]), "not the same items: 2 and 1"),
        (lambda: mcnemar([0.5], [1]), "paired bootstrap"),
        (lambda: mcnemar([1], [1], "fisher"), "known: mid-p, exact, chi2"),
        (lambda: paired_bootstrap([1, 0], [1]), "not the same items"),
        (lambda: paired_bootstrap([1, 0], [1, 0], resamples=10), "at least 100"),
        (lambda: sign_flip([1, 2], [1, 2, 3]), "not the same seeds"),
        (lambda: paired_two_way([[1, 0]], [[1, 0]]), "at least 2 × 2"),
    ],
)
def test_bad_numbers_get_a_sentence(call: Any, word: str) -> None:
    with pytest.raises(StatisticsError, match=word):
        call()


@pytest.mark.parametrize("items", [1, 2, 12])
def test_the_bootstrap_of_equal_differences_is_not_certain(items: int) -> None:
    """Every resample of them is alike, which is no evidence that the next item is."""
    found = paired_bootstrap([[0.0] * items] * 3, [[0.5] * items] * 2)
    assert found.p == pytest.approx(2.0 ** (1 - items))
    assert found.low < found.difference == 0.5 < found.high
    assert paired_bootstrap([0.1] * items, [0.1] * items).p == 1


def test_equal_scores_of_all_seeds_have_newcombes_interval() -> None:
    found = welch([1.0] * 25, [1.0] * 25)
    assert (found.low, found.high) == pytest.approx((-0.133, 0.133), abs=0.001)
    assert found.p == 1.0
