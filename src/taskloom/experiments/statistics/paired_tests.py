"""Paired tests of two learners on the same items. They are more sensitive than comparing two
intervals.

Each test returns a `Comparison` of `a` and `b`: the difference of the means (b - a), an interval
for it, and a two-sided p-value.

* One run each: `mcnemar` (right or wrong) or `paired_bootstrap` (any score). These tests compare
  the two models.
* Several seeds each: `paired_two_way` (seeds and items), `sign_flip` (seeds alone). These tests
  compare the two learners.
* Several independent seeds each: `independent_seeds` (seeds and items), which pairs only the items.
* Different items: `welch` over the seeds, without pairing.

Multiple comparisons need a correction: `correct` raises p-values so that the error rate holds for
all of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import asin, comb, exp, inf, isfinite, lgamma, nan, sqrt
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import nearest
from taskloom.core.seeding import Key
from taskloom.experiments.statistics import distributions as dist
from taskloom.experiments.statistics.distributions import StatisticsError
from taskloom.experiments.statistics.intervals import (
    LEVEL,
    clopper_pearson,
    crossed,
    is_binary,
    matrix,
    newcombe,
    noise_of_mean,
    vector,
    wilson,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[Any]


RESAMPLES = 10_000
EXACT_FLIPS = 16
"""Maximum number of seeds for which all 2^seeds sign patterns are tried. With more seeds,
`RESAMPLES` random patterns are used.
"""

_CHUNK = 1 << 22
"""Number of random words that the bootstrap draws at a time, which take 32 MiB."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a test that compares b with a.

    Attributes:
        a: Mean score of a.
        b: Mean score of b.
        difference: b - a.
        low: Lower end of the difference's interval; nan if the test gives no interval.
        high: Upper end of the difference's interval.
        p: Two-sided p-value.
        test: Name of the test.
        seeds: Number of trainings of each learner (the smaller number if they differ).
        items: Number of items that both learners answered; 0 if they answered different ones.
        df: Degrees of freedom; infinite if the test has none.
        level: Confidence level of the interval.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    test: str
    seeds: int
    items: int
    df: float = inf
    level: float = LEVEL

    def to_dict(self) -> dict[str, Any]:
        """Fields for JSON. Numbers that are not finite are null."""
        return {
            k: None if isinstance(v, float) and not isfinite(v) else v
            for k, v in asdict(self).items()
        }


def discordant(a: ArrayLike, b: ArrayLike) -> tuple[int, int]:
    """Count the items that only `a` has right, and those that only `b` has right."""
    first, second = _items(a, b)
    if not (is_binary(first) and is_binary(second)):
        raise StatisticsError(
            "McNemar's test needs right or wrong (1 or 0); for partial scores use the paired"
            " bootstrap"
        )
    return int(((first == 1) & (second == 0)).sum()), int(((first == 0) & (second == 1)).sum())


def mcnemar(a: ArrayLike, b: ArrayLike, method: str = "mid-p", level: float = LEVEL) -> Comparison:
    """McNemar's test of two models on the same right-or-wrong items. Only items on which they
    differ are informative.

    Args:
        a: 1 or 0 for each item.
        b: The same items, in the same order.
        method: `mid-p` (recommended by Fagerland et al. 2013: near the nominal error rate for all
            sizes), `exact` (binomial, never above the nominal error rate, so less power), or `chi2`
            (for large numbers, without continuity correction).
        level: Confidence level of the interval. This is Bonett and Price's adjusted interval, which
            is reliable even if the models hardly differ.
    """
    only_a, only_b = discordant(a, b)
    first, second = _items(a, b)
    n, differ, fewer = len(first), only_a + only_b, min(only_a, only_b)
    if method == "chi2":
        p = dist.chi2_above((only_a - only_b) ** 2 / differ, 1) if differ else 1.0
    elif method in ("exact", "mid-p"):
        twice = 2 * dist.binomial_below(fewer, differ, 0.5) if differ else 1.0
        at = dist.binomial_below(fewer, differ, 0.5) - (
            dist.binomial_below(fewer - 1, differ, 0.5) if fewer else 0.0
        )
        p = twice - at if method == "mid-p" and differ else twice
    else:
        raise StatisticsError(f"McNemar's test has no method '{method}'; known: mid-p, exact, chi2")
    share_a, share_b = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = dist.normal_quantile(0.5 + dist.check_level(level) / 2)
    half *= sqrt((share_a + share_b - (share_b - share_a) ** 2) / (n + 2))
    low, high = max(-1.0, share_b - share_a - half), min(1.0, share_b - share_a + half)
    mean_a, mean_b = float(first.mean()), float(second.mean())
    test = f"McNemar ({method})"
    return Comparison(
        mean_a, mean_b, (only_b - only_a) / n, low, high, min(1.0, p), test, 1, n, inf, level
    )


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, key: Key | int = 0, resamples: int = RESAMPLES, level: float = LEVEL
) -> Comparison:
    """Paired bootstrap over items, for any score. With seeds × items, the trained models are
    treated as fixed.

    Items are drawn with replacement, both models' scores together. The interval is between
    percentiles. The p-value is (1 + times) / (1 + resamples), where `times` counts the resampled
    differences that deviate from the observed difference by at least its absolute value. If all
    items differ by the same amount, all resamples are equal, so sign flips of the items and
    Wilson's interval are used instead.

    Args:
        a: A score for each item, or seeds × items.
        b: The same items, in the same order.
        key: Seed of the draws. The same key gives the same numbers on every machine.
        resamples: Number of resamples.
        level: Confidence level of the interval.
    """
    import numpy as np

    first, second = matrix(a), matrix(b)
    if first.shape[1] != second.shape[1]:
        raise StatisticsError(f"not the same items: {first.shape[1]} and {second.shape[1]}")
    gaps = second.mean(axis=0) - first.mean(axis=0)
    if resamples < 100:
        raise StatisticsError(
            f"{resamples} resamples are too few for a percentile; use at least 100"
        )
    if float(np.ptp(gaps)) <= 1e-12:  # every resample has the same mean
        ends = (
            float(first.mean()),
            float(second.mean()),
            float(gaps.mean()),
            len(first),
            len(second),
        )
        return _without_spread(*ends, len(gaps), "paired bootstrap", dist.check_level(level))
    means = _resampled_means(
        gaps, key if isinstance(key, Key) else Key("paired bootstrap", key), resamples
    )
    gap = float(gaps.mean())
    # Allow a small tolerance, so that a resample with the same difference counts even if its sum is
    # rounded differently.
    strayed = int((np.abs(means - gap) >= abs(gap) - 1e-12).sum())
    tail = (1 - dist.check_level(level)) / 2
    low, high = (float(q) for q in np.quantile(means, [tail, 1 - tail]))
    p = (1 + strayed) / (1 + resamples)
    seeds = min(len(first), len(second))
    return Comparison(
        float(first.mean()),
        float(second.mean()),
        gap,
        low,
        high,
        p,
        "paired bootstrap",
        seeds,
        len(gaps),
        inf,
        level,
    )


def _resampled_means(gaps: Floats, key: Key, resamples: int) -> Floats:
    import numpy as np

    n = len(gaps)
    means = np.empty(resamples)
    step = max(1, _CHUNK // n)
    for low in range(0, resamples, step):
        high = min(resamples, low + step)
        # The upper 32 bits scaled to the range: biased by less than n / 2^32.
        drawn = (key.words(low * n, high * n) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)
        means[low:high] = gaps[drawn.astype(np.int64)].reshape(high - low, n).mean(axis=1)
    return means


def paired_two_way(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> Comparison:
    """Test two learners with several seeds each on the same items, by a t test whose error rate
    holds for new seeds and new items.

    The differences per seed and item are a crossed table like the scores themselves (see
    `intervals.two_way`). The variance of the mean is (A + B - E) / (seeds · items), with
    Satterthwaite's degrees of freedom. If equal seeds have nothing in common, pairing them costs
    degrees of freedom, but from three seeds on the test remains valid: equal learners differed at
    0.05 in 2 to 6 % of simulated cases with 3 to 10 seeds each, and in 5 to 13 % with two.

    Args:
        a: seeds × items.
        b: seeds × items, of the same shape.
        level: Confidence level of the interval.
    """
    first, second = matrix(a), matrix(b)
    if first.shape != second.shape or min(first.shape) < 2:
        raise StatisticsError(
            "a test over seeds and items needs the same shape for both, at least 2 × 2; not"
            f" {first.shape} and {second.shape}"
        )
    gap, variance, df = crossed(second - first)
    return _by_t(first, second, gap, variance, df, "t over seeds × items", first.shape[1], level)


def independent_seeds(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> Comparison:
    """Test two learners with independent seeds on the same items. The error rate holds for new
    seeds and new items.

    Seed 0 of one learner and seed 0 of another have nothing in common, so pairing them is
    arbitrary: the interval would depend on the order of the seeds, and additional seeds of one
    learner would be ignored. Here the variance of the difference is that of the mean of each
    learner's seeds, plus that of the items' differences, minus the part counted twice, with
    Satterthwaite's degrees of freedom. In simulations of two learners with two varying seeds each,
    this test erred in 5 % of cases and `paired_two_way` in 13 %. Two seeds against many are worse
    than two against two, because two seeds with similar scores underestimate the spread. With 2 and
    25 seeds the test erred in 11 to 16 % of cases at an accuracy of 0.8 and in 5 to 18 % near 0.96,
    more often the more the seeds vary (5 and 25 seeds: 4 to 11 %).

    Args:
        a: seeds × items, at least two seeds.
        b: seeds × items, with the same items. The number of seeds may differ.
        level: Confidence level of the interval.
    """
    first, second = matrix(a), matrix(b)
    if first.shape[1] != second.shape[1] or min(*first.shape, *second.shape) < 2:
        raise StatisticsError(
            "a test over independent seeds needs the same items for both, at least two, and two"
            f" seeds each; not {first.shape} and {second.shape}"
        )
    gaps = second.mean(axis=0) - first.mean(axis=0)
    by_seed = [_variance_of_mean(side.mean(axis=1)) for side in (first, second)]
    by_item, noise = _variance_of_mean(gaps), [noise_of_mean(side) for side in (first, second)]
    rest = sum(part for part, _ in noise)
    # As in `crossed`, negative components are set to 0.
    variance = (
        sum(max(part, own) for (part, _), (own, _) in zip(by_seed, noise, strict=True))
        + max(by_item[0], rest)
        - rest
    )
    spread = sum(part**2 / df for part, df in (*by_seed, by_item, *noise))
    df = max(1.0, variance**2 / spread) if spread > 0 else inf
    return _by_t(
        first, second, float(gaps.mean()), variance, df, "t over seeds × items", len(gaps), level
    )


def _variance_of_mean(values: Floats) -> tuple[float, int]:
    """Variance of the mean of the given values, and its degrees of freedom."""
    return float(values.var(ddof=1)) / len(values), len(values) - 1


def sign_flip(a: ArrayLike, b: ArrayLike, key: Key | int = 0, level: float = LEVEL) -> Comparison:
    """Paired permutation test over seeds. If the learners are equal, each difference may have
    either sign.

    The test assumes no distribution. With k seeds, p cannot be below 2 / 2^k: five seeds never
    reach 0.05, six can. The interval is that of t.
    """
    import numpy as np

    first, second = vector(a, "scores of seeds", 2), vector(b, "scores of seeds", 2)
    if len(first) != len(second):
        raise StatisticsError(f"not the same seeds: {len(first)} and {len(second)}")
    gaps = second - first
    k = len(gaps)
    if k <= EXACT_FLIPS:
        signs = 1 - 2 * ((np.arange(2**k)[:, None] >> np.arange(k)) & 1)
        extra = 0
    else:
        bits = (key if isinstance(key, Key) else Key("sign flip", key)).words(
            0, RESAMPLES * k
        ) >> np.uint64(63)
        signs = 1 - 2 * bits.astype(np.int64).reshape(RESAMPLES, k)
        extra = 1
    slack = 1e-12 * float(np.abs(gaps).sum())
    beyond = int((np.abs(signs @ gaps) >= abs(float(gaps.sum())) - slack).sum())
    p = (extra + beyond) / (extra + len(signs))
    shown = _by_t(
        first, second, float(gaps.mean()), float(gaps.var(ddof=1)) / k, k - 1, "", 0, level
    )
    return Comparison(
        shown.a,
        shown.b,
        shown.difference,
        shown.low,
        shown.high,
        p,
        "sign flips over seeds",
        k,
        0,
        k - 1,
        level,
    )


def welch(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> Comparison:
    """Welch's t test for two groups of seeds without shared items, such as seeds on different
    recipes or test sets.
    """
    first, second = vector(a, "scores of seeds", 2), vector(b, "scores of seeds", 2)
    va, vb = float(first.var(ddof=1)) / len(first), float(second.var(ddof=1)) / len(second)
    total = va + vb
    df = total**2 / (va**2 / (len(first) - 1) + vb**2 / (len(second) - 1)) if total > 1e-24 else inf
    return _by_t(
        first, second, float(second.mean() - first.mean()), total, df, "Welch over seeds", 0, level
    )


def _by_t(
    a: Floats,
    b: Floats,
    gap: float,
    variance: float,
    df: float,
    test: str,
    items: int,
    level: float,
) -> Comparison:
    seeds = min(len(a), len(b))
    mean_a, mean_b = float(a.mean()), float(b.mean())
    dist.check_level(level)
    if variance <= 1e-24:  # equal scores, up to rounding: the variance of three times 0.1 is 3e-34
        return _without_spread(mean_a, mean_b, gap, len(a), len(b), items, test, level)
    half = dist.t_quantile(0.5 + level / 2, df) * sqrt(variance)
    p = dist.t_two_sided(gap / sqrt(variance), df)
    return Comparison(mean_a, mean_b, gap, gap - half, gap + half, p, test, seeds, items, df, level)


def _without_spread(
    a: float, b: float, gap: float, rows_a: int, rows_b: int, items: int, test: str, level: float
) -> Comparison:
    """Compare two learners if all differences are equal (usually all right against all wrong), so
    that t is undefined.

    The p-value is that of an exact test: sign flips of the items or, if no items are shared, a
    permutation of the seeds. The interval is Newcombe's, with each learner's mean as a share of its
    items or seeds: 25 of 25 against 25 of 25 is 0 ± 0.13.
    """
    ends = (nan, nan)
    if 0 <= a <= 1 and 0 <= b <= 1:
        size_a, size_b = items or rows_a, items or rows_b
        ends = newcombe(b, wilson(b * size_b, size_b, level), a, wilson(a * size_a, size_a, level))
    p = 2.0 ** (1 - items) if items else 2 / comb(rows_a + rows_b, rows_a)
    return Comparison(
        a, b, gap, *ends, p if gap else 1.0, test, min(rows_a, rows_b), items, inf, level
    )


def _items(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    first, second = vector(a, "scores of items", 1), vector(b, "scores of items", 1)
    if len(first) != len(second):
        raise StatisticsError(f"not the same items: {len(first)} and {len(second)}")
    return first, second


def cohens_h(a: float, b: float) -> float:
    """Distance between two shares on the arcsine scale, where 0.98 and 0.99 are farther apart than
    0.50 and 0.51. 0.2 is small, 0.8 large.
    """
    for share in (a, b):
        if not 0 <= share <= 1:
            raise StatisticsError(f"Cohen's h compares shares between 0 and 1, not {share}")
    return 2 * asin(sqrt(b)) - 2 * asin(sqrt(a))


def hedges_g(a: ArrayLike, b: ArrayLike) -> float:
    """Mean difference between paired seeds in standard deviations, corrected for few seeds (Hedges
    1981).
    """
    first, second = vector(a, "scores of seeds", 3), vector(b, "scores of seeds", 3)
    if len(first) != len(second):
        raise StatisticsError(f"not the same seeds: {len(first)} and {len(second)}")
    gaps = second - first
    spread, df = float(gaps.std(ddof=1)), len(gaps) - 1
    if spread == 0:
        return 0.0 if float(gaps.mean()) == 0 else inf * float(gaps.mean())
    # Compute the exact factor from logarithms, because gamma itself overflows at 340 seeds.
    shrink = exp(lgamma(df / 2) - lgamma((df - 1) / 2)) / sqrt(df / 2)
    return float(gaps.mean()) / spread * shrink


def odds_ratio(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Compute the matched odds ratio of b to a, with its exact interval: the number of items that
    only b has right, divided by the number that only a has right.
    """
    only_a, only_b = discordant(a, b)
    if only_a + only_b == 0:
        return nan, 0.0, inf
    low, high = clopper_pearson(only_b, only_a + only_b, level)
    return _odds(only_b / (only_a + only_b)), _odds(low), _odds(high)


def _odds(share: float) -> float:
    return inf if share == 1 else share / (1 - share)


def bonferroni(p: ArrayLike) -> NDArray[Any]:
    """Bonferroni's method, p · m. The probability of any false finding among all m stays below
    alpha. Holm's method guarantees the same with more power.
    """
    import numpy as np

    values = _check(p)
    raised: NDArray[Any] = np.minimum(1.0, values * len(values))
    return raised


def holm(p: ArrayLike) -> NDArray[Any]:
    """Holm's step-down method, the default. The probability of any false finding stays below alpha
    under any dependence.
    """
    import numpy as np

    values = _check(p)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return _back(np.minimum(1.0, raised), order)


def benjamini_hochberg(p: ArrayLike) -> NDArray[Any]:
    """Benjamini and Hochberg's step-up method, for screening. On average, at most a share alpha of
    the findings is false.
    """
    import numpy as np

    values = _check(p)
    order = np.argsort(values, kind="stable")
    m = len(values)
    raised = values[order] * m / np.arange(1, m + 1)
    return _back(np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1]), order)


def uncorrected(p: ArrayLike) -> NDArray[Any]:
    """Return the p-values unchanged."""
    return _check(p)


CORRECTIONS: dict[str, Callable[[Any], Any]] = {
    "holm": holm,
    "benjamini-hochberg": benjamini_hochberg,
    "bonferroni": bonferroni,
    "none": uncorrected,
}


def correct(p: ArrayLike, how: str = "holm") -> NDArray[Any]:
    """Correct p-values by the named method."""
    if how not in CORRECTIONS:
        raise StatisticsError(f"there is no correction '{how}'; {nearest(how, CORRECTIONS)}")
    corrected: NDArray[Any] = CORRECTIONS[how](p)
    return corrected


def _back(values: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    restored = np.empty_like(values)
    restored[order] = values
    return restored


def _check(p: ArrayLike) -> NDArray[Any]:
    import numpy as np

    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise StatisticsError("p-values are a row of numbers between 0 and 1")
    return values
