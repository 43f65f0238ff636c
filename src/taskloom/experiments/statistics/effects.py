"""How large a difference is, apart from how sure."""

from __future__ import annotations

from math import asin, exp, inf, lgamma, nan, sqrt
from typing import TYPE_CHECKING

from taskloom.experiments.statistics.distributions import StatisticsError
from taskloom.experiments.statistics.intervals import LEVEL, clopper_pearson, vector
from taskloom.experiments.statistics.paired_tests import discordant

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def cohens_h(a: float, b: float) -> float:
    """Return the distance of two shares on the arcsine scale: 0.98 to 0.99 is more than 0.50 to 0.51; 0.2 is small, 0.8 large."""
    for share in (a, b):
        if not 0 <= share <= 1:
            raise StatisticsError(f"Cohen's h compares shares between 0 and 1, not {share}")
    return 2 * asin(sqrt(b)) - 2 * asin(sqrt(a))


def hedges_g(a: ArrayLike, b: ArrayLike) -> float:
    """Return the mean difference of paired seeds in their standard deviations, corrected for few seeds (Hedges 1981)."""
    first, second = vector(a, "scores of seeds", 3), vector(b, "scores of seeds", 3)
    if len(first) != len(second):
        raise StatisticsError(f"not the same seeds: {len(first)} and {len(second)}")
    gaps = second - first
    spread, df = float(gaps.std(ddof=1)), len(gaps) - 1
    if spread == 0:
        return 0.0 if float(gaps.mean()) == 0 else inf * float(gaps.mean())
    # The exact factor; its logarithm, since gamma itself overflows at 340 seeds.
    shrink = exp(lgamma(df / 2) - lgamma((df - 1) / 2)) / sqrt(df / 2)
    return float(gaps.mean()) / spread * shrink


def odds_ratio(a: ArrayLike, b: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Compute the matched odds ratio of b to a (items only b has right per item only a has right), with its exact interval."""
    only_a, only_b = discordant(a, b)
    if only_a + only_b == 0:
        return nan, 0.0, inf
    low, high = clopper_pearson(only_b, only_a + only_b, level)
    return _odds(only_b / (only_a + only_b)), _odds(low), _odds(high)


def _odds(share: float) -> float:
    return inf if share == 1 else share / (1 - share)
