"""Intervals against published values, against SciPy, and by how often they cover."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.seeding import Key
from taskloom.experiments.statistics import (
    StatisticsError,
    between_kinds,
    clopper_pearson,
    newcombe,
    over_items,
    over_seed_differences,
    over_seeds,
    over_task_differences,
    over_tasks,
    two_way,
    wilson,
)
from taskloom.experiments.statistics.intervals import crossed

# Newcombe, Statistics in Medicine 17 (1998), table I: right, n, Wilson, Clopper-Pearson.
NEWCOMBE = [
    (81, 263, (0.2553, 0.3662), (0.2527, 0.3676)),
    (15, 148, (0.0624, 0.1605), (0.0578, 0.1617)),
    (0, 20, (0.0000, 0.1611), (0.0000, 0.1684)),
    (1, 29, (0.0061, 0.1718), (0.0009, 0.1776)),
]


def generator(*parts: str | int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=Key("statistics", *parts).hash64()))


@pytest.mark.parametrize(("right", "n", "score", "exact"), NEWCOMBE)
def test_published_intervals(
    right: int, n: int, score: tuple[float, float], exact: tuple[float, float]
) -> None:
    assert wilson(right, n) == pytest.approx(score, abs=5e-5)
    assert clopper_pearson(right, n) == pytest.approx(exact, abs=5e-5)


@given(st.integers(1, 2000), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_shares_agree_with_scipy(n: int, data: Any, level: float) -> None:
    right = data.draw(st.integers(0, n))
    test = scipy.stats.binomtest(right, n)
    for ours, name in ((wilson, "wilson"), (clopper_pearson, "exact")):
        low, high = ours(right, n, level)
        theirs = test.proportion_ci(level, method=name)
        assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
        assert 0 <= low <= right / n <= high <= 1
    # Wrong and right are mirror images.
    low, high = wilson(n - right, n, level)
    assert wilson(right, n, level) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=30)
    | st.lists(st.floats(0, 1), min_size=2, max_size=30)
)
def test_t_agrees_with_scipy(scores: list[float]) -> None:
    found = over_seeds(scores)
    se = scipy.stats.sem(scores)
    assert found.se == pytest.approx(se, abs=1e-12)
    if se > 1e-9:
        low, high = scipy.stats.t.interval(0.95, len(scores) - 1, np.mean(scores), se)
        if all(0 <= score <= 1 for score in scores):  # the interval of shares ends where shares do
            low, high = max(low, 0.0), min(high, 1.0)
        assert (found.low, found.high) == pytest.approx((low, high))
        assert over_tasks(scores).low == pytest.approx(found.low)


def test_published_t_interval() -> None:
    # Student's sleep data (1908): differences of two drugs in ten patients, R's t.test gives 0.70
    # to 2.46, t = 4.06.
    found = over_seeds([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert (found.low, found.high) == pytest.approx((0.7001142, 2.4598858), abs=1e-6)
    assert found.mean / found.se == pytest.approx(4.0621, abs=1e-4)


def test_tasks_count_the_same_whatever_the_seeds() -> None:
    table = np.array([[0.2, 0.9, 0.5], [0.4, 0.7, 0.5]])
    assert over_tasks(table).mean == pytest.approx(0.5 * (0.2 + 0.4) / 3 + 0.8 / 3 + 0.5 / 3)
    assert (over_tasks(table).seeds, over_tasks(table).items) == (2, 3)


def test_items_of_one_run() -> None:
    assert over_items([1, 0, 1, 1]).method == "Wilson"
    assert (over_items([1, 0, 1, 1]).low, over_items([1, 0, 1, 1]).high) == wilson(3, 4)
    partial = over_items([0.5, 1, 0, 1])
    assert (partial.method, partial.df) == ("t over items", 3)


def test_variance_components_by_hand() -> None:
    """A table of sums of squares small enough for paper: rows 1 2 3 / 3 2 7."""
    table = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 7.0]])
    # Row means 2, 4; column means 2, 2, 5; mean 3. Seeds: 3(1+1)/1 = 6; items: 2(1+1+4)/2 = 6;
    # rest: squares of (0, 1, -1, 0, -1, 1) = 4 over 2 = 2.
    mean, variance, df = crossed(table)
    assert mean == 3
    assert variance == pytest.approx((6 + 6 - 2) / 6)
    assert df == pytest.approx(10**2 / (6**2 / 1 + 6**2 / 2 + 2**2 / 2))


@given(st.integers(2, 5), st.integers(2, 12), st.integers(0, 10**6))
def test_order_of_seeds_and_items_does_not_matter(seeds: int, items: int, seed: int) -> None:
    rng = generator("order", seed)
    table = (rng.random((seeds, items)) < 0.7).astype(float)
    shuffled = table[rng.permutation(seeds)][:, rng.permutation(items)]
    one, other = two_way(table), two_way(shuffled)
    assert (one.mean, one.low, one.high) == pytest.approx(
        (other.mean, other.low, other.high), abs=1e-9
    )
    assert 0 <= one.low <= one.mean <= one.high <= 1


def test_an_interval_never_collapses() -> None:
    assert two_way(np.ones((3, 500))).low == pytest.approx(wilson(500, 500)[0])
    assert two_way(np.zeros((3, 500))).high == pytest.approx(wilson(0, 500)[1])
    one_wrong = np.ones((3, 500))
    one_wrong[0, 0] = 0
    assert two_way(one_wrong).high - two_way(one_wrong).low > 0.002


@pytest.mark.parametrize("score", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("seeds", [2, 3, 25])
def test_seeds_that_score_the_same_do_not_promise_that_all_seeds_will(
    score: float, seeds: int
) -> None:
    """A hundred items at most can tell an accuracy of 1 from one of 0.99, however many seeds are
    right on all of them.
    """
    alike = over_seeds([score] * seeds, items=100)
    assert alike.method == "Wilson over items, seeds alike"
    assert (alike.seeds, alike.items) == (seeds, 100)
    assert (alike.low, alike.high) == pytest.approx(wilson(100 * score, 100))
    assert alike.low <= abs(score - 0.01) <= alike.high
    if score in (0.0, 1.0):
        whole = two_way(np.full((seeds, 100), score))
        assert (alike.low, alike.high) == pytest.approx((whole.low, whole.high))
    unknown = over_seeds([score] * seeds)
    assert unknown.method == "seeds alike"
    assert math.isnan(unknown.low)
    assert math.isnan(unknown.high)
    apart = over_seeds([score] * (seeds - 1) + [abs(score - 0.01)], items=100)
    assert apart.method == "t over seeds"


def test_one_seed_or_one_item_is_the_simpler_interval() -> None:
    row = np.array([[1.0, 0.0, 1.0]])
    assert two_way(row) == over_items(row[0])
    assert two_way(row.T).method == "t over seeds"


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: over_seeds([0.5]), "at least 2"),
        (lambda: over_seeds([0.5, float("nan")]), "not finite"),
        (lambda: wilson(5, 4), "no more right"),
        (lambda: clopper_pearson(0, 0), "at least one item"),
        (lambda: wilson(1, 2, level=95), "between 0 and 1"),
        (lambda: two_way(np.zeros((2, 2, 2))), "seeds × items"),
        (lambda: two_way([[0.0, np.inf]]), "not finite"),
    ],
)
def test_bad_numbers_get_a_sentence(call: Any, word: str) -> None:
    with pytest.raises(StatisticsError, match=word):
        call()


def draw(
    rng: np.random.Generator, seeds: int, items: int, middle: float, by_seed: float, by_item: float
) -> Any:
    """Right or wrong answers with seed and item effects on the logit scale."""
    logit = middle + by_seed * rng.normal(size=(seeds, 1)) + by_item * rng.normal(size=(1, items))
    return (rng.random((seeds, items)) < scipy.special.expit(logit)).astype(float)


def truth(middle: float, by_seed: float, by_item: float) -> float:
    """The mean of expit(middle + normal) by quadrature: 200 nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    spread = np.hypot(by_seed, by_item)
    return float((weights * scipy.special.expit(middle + spread * nodes)).sum() / weights.sum())


def bootstrap(table: Any, rng: np.random.Generator, times: int = 300) -> tuple[float, float]:
    """The usual resampling of seeds and items, for comparison."""
    seeds, items = table.shape
    rows, columns = rng.integers(0, seeds, (times, seeds)), rng.integers(0, items, (times, items))
    means = [table[np.ix_(r, c)].mean() for r, c in zip(rows, columns, strict=True)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


WORLDS = [
    (3, 500, 1.4, 0.0, 1.0),
    (3, 500, 1.4, 0.15, 1.0),
    (3, 500, 1.4, 0.5, 1.0),
    (3, 500, 1.4, 1.5, 0.5),
    (5, 500, 1.4, 0.15, 1.0),
    (5, 500, 1.4, 0.5, 2.0),
    (10, 200, 1.4, 0.5, 1.0),
    (3, 500, 5.0, 0.5, 1.0),
    (5, 100, 3.0, 1.0, 1.0),
    (3, 200, 6.0, 1.0, 1.0),
]
"""Seeds, items, middle on the logit scale, spread of seeds, spread of items."""


def coverage(world: tuple[int, int, float, float, float], times: int) -> float:
    rng, right = generator("coverage", str(world)), truth(*world[2:])
    found = [two_way(draw(rng, *world)) for _ in range(times)]
    return sum(f.low <= right <= f.high for f in found) / times


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_two_way_covers(world: tuple[int, int, float, float, float]) -> None:
    """At 95 % promised, 300 draws: below 0.89 would be four standard errors under 0.945."""
    assert coverage(world, 300) >= 0.89


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_two_way_covers_nearly_as_promised(world: tuple[int, int, float, float, float]) -> None:
    assert coverage(world, 5_000) >= 0.91


@pytest.mark.slow
def test_the_bootstrap_of_three_seeds_does_not() -> None:
    """Why `two_way` is a formula: what its docstring says of the bootstrap."""
    world = (3, 500, 1.4, 1.5, 0.5)
    rng, right = generator("bootstrap"), truth(*world[2:])
    ends = [bootstrap(draw(rng, *world), rng) for _ in range(1_000)]
    assert sum(low <= right <= high for low, high in ends) / 1_000 < 0.80


@pytest.mark.parametrize(
    ("share", "n"), [(0.5, 30), (0.8, 100), (0.95, 100), (0.99, 500), (0.02, 60)]
)
def test_shares_cover_exactly(share: float, n: int) -> None:
    """No simulation needed: the coverage is a sum over all outcomes."""
    mass = scipy.stats.binom.pmf(np.arange(n + 1), n, share)
    covered = {
        f: sum(m for k, m in enumerate(mass) if f(k, n)[0] <= share <= f(k, n)[1])
        for f in (wilson, clopper_pearson)
    }
    assert covered[clopper_pearson] >= 0.95
    assert covered[wilson] >= 0.92


def test_differences_of_seeds_may_be_below_zero_where_shares_end() -> None:
    gaps = [0.02, 0.31]
    assert over_seeds(gaps).low == 0
    estimate = over_seed_differences(gaps)
    assert estimate.mean == pytest.approx(0.165)
    assert estimate.low == pytest.approx(0.165 - 12.706 * 0.145, abs=1e-3)
    assert estimate.high == pytest.approx(0.165 + 12.706 * 0.145, abs=1e-3)


@pytest.mark.parametrize("equal", [[0.0] * 4, [0.1] * 3, [1.0] * 25])
def test_equal_scores_or_differences_have_no_interval_of_no_width(equal: list[float]) -> None:
    for found in (
        over_tasks(equal),
        over_seed_differences(equal),
        over_task_differences(equal),
        over_seeds(equal),
    ):
        assert found.mean == pytest.approx(equal[0])
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        assert found.method in ("tasks alike", "seeds alike")
    kinds = between_kinds([[1, 1, 1]] * 2, [[0, 0]] * 2)
    assert (kinds.mean, kinds.method) == (1, "seeds alike")
    assert math.isnan(kinds.low)
    assert math.isnan(two_way([[3.0, 3.0]] * 2).low)


def test_one_item_does_not_make_an_interval_jump() -> None:
    """200 zeros, or 199 and a score of 0.05: nearly the same data, nearly the same interval, that
    of Wilson.
    """
    zeros = over_items([0.0] * 200)
    nearly = over_items([0.0] * 199 + [0.05])
    assert zeros.high == pytest.approx(0.019, abs=0.001)
    assert nearly.high == pytest.approx(zeros.high, abs=0.001)
    table = two_way([[0.0] * 199 + [0.05], [0.0] * 200])
    assert table.high == pytest.approx(two_way([[0.0] * 200] * 2).high, abs=0.006)
    alike = over_items([0.5] * 200)
    assert (alike.low, alike.high) == pytest.approx((0.48, 0.52), abs=0.001)
    assert math.isnan(over_items([7.0] * 20).low)


@pytest.mark.parametrize("scored", [0.01, 0.03, 0.2])
def test_few_partial_scores_above_zero_are_covered(scored: float) -> None:
    """Most items score 0, a few anything up to 1; t alone covers less than 0.80 in the first
    case.
    """
    rng, times, n = generator("partial", round(100 * scored)), 400, 200
    truth = scored / 2
    covered = 0
    for _ in range(times):
        found = over_items((rng.random(n) < scored) * rng.random(n))
        covered += found.low <= truth <= found.high
    assert covered / times >= 0.94


def test_low_partial_scores_of_two_seeds_are_covered() -> None:
    """Scores of 0 or 0.25 with a mean of 0.02: the interval must not be pulled towards one half
    beyond the truth.
    """
    rng, times, truth = generator("low partial"), 400, 0.02
    covered = 0
    for _ in range(times):
        found = two_way((rng.random((2, 40)) < truth / 0.25) * 0.25)
        covered += found.low <= truth <= found.high
    assert covered / times >= 0.94


def test_many_partial_scores_are_hardly_wider_than_t() -> None:
    scores = generator("many partial").beta(2, 2, 1000)
    plain = scipy.stats.t.interval(0.95, 999, scores.mean(), scipy.stats.sem(scores))
    found = over_items(scores)
    assert (found.high - found.low) / (plain[1] - plain[0]) < 1.05


def test_newcombe_of_shares() -> None:
    """Newcombe, Statistics in Medicine 17 (1998), table II of the second paper: 56 of 70 against 48
    of 80, method 10.
    """
    found = newcombe(56 / 70, wilson(56, 70), 48 / 80, wilson(48, 80))
    assert found == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_an_estimate_without_an_interval_is_json_and_reads_well() -> None:
    found = over_seeds([0.5, 0.5])
    assert str(found) == "0.500"
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["low"] is None
    assert over_seeds([0.25, 0.5]).to_dict()["low"] == 0


def test_differences_of_tasks_that_share_parts_are_covered() -> None:
    """Parts that one procedure finds easier; t over tasks takes 57 pairs of 28 parts for 57
    independent tasks.
    """
    rng, times = generator("shared parts"), 200
    covered = {"tasks": 0, "parts": 0}
    for _ in range(times):
        effects = 0.05 * rng.normal(size=28)
        pairs = [rng.choice(28, 2, replace=False) for _ in range(57)]
        gaps = [effects[i] + effects[j] + 0.05 * rng.normal() for i, j in pairs]
        shared = over_task_differences(gaps, [(str(i), str(j)) for i, j in pairs])
        for name, found in (("tasks", over_task_differences(gaps)), ("parts", shared)):
            covered[name] += found.low <= 0 <= found.high
    assert covered["tasks"] / times < 0.8
    assert covered["parts"] / times > 0.92


def test_tasks_with_parts_of_their_own_have_the_interval_over_tasks() -> None:
    gaps = [0.1, 0.3, -0.2, 0.4, 0.25]
    plain, own = (
        over_task_differences(gaps),
        over_task_differences(gaps, [[name] for name in "abcde"]),
    )
    assert (own.low, own.high) == pytest.approx((plain.low, plain.high))
    assert plain.low == pytest.approx(over_seed_differences(gaps).low)
    for few in ([["a"], ["b"], ["a"], ["b"], ["c"]], [["a", name] for name in "bcdef"]):
        assert math.isnan(over_task_differences(gaps, few).low)
