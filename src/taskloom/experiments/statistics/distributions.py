"""Quantiles, tail probabilities and correlations, under the names that statistics use for them.

SciPy's special functions load ten times as fast as `scipy.stats`, but still take 0.2 s. They are
imported when a statistic needs them, so that commands without statistics start without them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from taskloom.core.errors import TaskloomError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StatisticsError(TaskloomError):
    """Raised if a statistic cannot be computed from the given numbers."""


def check_level(level: float) -> float:
    """Check a confidence level: a share strictly between 0 and 1."""
    if not 0 < level < 1:
        raise StatisticsError(f"a confidence level lies between 0 and 1, such as 0.95; not {level}")
    return level


def normal_quantile(p: float) -> float:
    """Quantile `p` of the standard normal distribution."""
    return NormalDist().inv_cdf(p)


def t_quantile(p: float, df: float) -> float:
    """Quantile `p` of Student's t distribution with `df` degrees of freedom."""
    return t_quantiles(p, [df])[0]


def t_quantiles(p: float, dfs: Sequence[float]) -> list[float]:
    """Return `t_quantile` for each of many degrees of freedom."""
    from scipy.special import stdtrit

    quantiles: list[float] = stdtrit(dfs, p).tolist()
    return quantiles


def t_two_sided(t: float, df: float) -> float:
    """Two-sided p-value of `t`: the probability that Student's t is at least as far from 0."""
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(t)))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Quantile `p` of the beta distribution."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, p))


def binomial_below(k: int, n: int, p: float) -> float:
    """Probability of at most `k` successes in `n` trials."""
    from scipy.special import bdtr

    return float(bdtr(k, n, p))


def chi2_above(x: float, df: float) -> float:
    """Upper tail probability of the chi-squared distribution at `x`."""
    from scipy.special import chdtrc

    return float(chdtrc(df, x))


def f_above(x: float, df: float, df_within: float) -> float:
    """Upper tail probability of the F distribution at `x`.

    Args:
        x: The ratio of the mean squares.
        df: Degrees of freedom between groups.
        df_within: Degrees of freedom within groups.
    """
    from scipy.special import fdtrc

    return float(fdtrc(df, df_within, x))


def t_power(shift: float, df: float, alpha: float) -> float:
    """Probability that a two-sided t test at `alpha` rejects if t is shifted by `shift` (noncentral
    t distribution).
    """
    from scipy.special import nctdtr

    edge = t_quantile(1 - alpha / 2, df)
    below = float(nctdtr(df, shift, -edge))
    upto = float(nctdtr(df, shift, edge))
    # SciPy returns nan far in the tail, where the power is 1 to any printable precision.
    if math.isnan(upto):
        return 1.0
    if math.isnan(below):
        below = 0.0
    return below + 1 - upto


FEWEST = 3
"""Minimum number of points for a correlation."""


def pearson(x: list[float], y: list[float]) -> float:
    """Pearson's correlation, or nan for fewer than three points or if x or y is constant.

    >>> round(pearson([0.0, 0.5, 1.0], [1.0, 0.5, 0.0]), 3)
    -1.0
    """
    if len(x) < FEWEST or len(set(x)) < 2 or len(set(y)) < 2:
        return math.nan
    return statistics.correlation(x, y)


PERMUTATIONS = 20_000
"""Number of random orders to try if there are more than eight values, which have too many orders to
try them all.
"""


def order_chance(x: list[float], y: list[float]) -> float:
    """Share of orders of y that correlate with x at least as strongly as the given one. With up to
    eight values all orders are tried, with more a random sample.

    >>> order_chance([1.0, 2.0, 3.0], [9.0, 5.0, 2.0])
    0.3333333333333333
    """
    import numpy as np

    first, second = np.array(ranks(x)), np.array(ranks(y))
    if len(x) <= 8:
        orders = np.array(list(itertools.permutations(second)))
    else:
        rng = np.random.default_rng(0)
        orders = np.stack([second, *(rng.permutation(second) for _ in range(PERMUTATIONS))])
    # All orders have the same mean and spread, so products rank them as correlations would.
    strengths = np.abs((orders - second.mean()) @ (first - first.mean()))
    return float((strengths >= strengths[0] - 1e-9).mean())


RESAMPLES = 10_000
"""Number of bootstrap samples. With this number, the intervals of 36 tables change by less than
0.01 between resampling seeds.
"""


def bootstrap_interval(x: list[float], y: list[float], level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of Spearman's correlation over resampled pairs, with a fixed seed.

    Resamples in which x or y is constant are omitted.
    """
    import numpy as np

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
    """Ranks within each row, minus their mean. Ties share their mean rank."""
    below = (rows[:, None, :] < rows[:, :, None]).sum(axis=2)
    equal = (rows[:, None, :] == rows[:, :, None]).sum(axis=2)
    values = below + equal / 2
    centred: NDArray[np.float64] = values - values.mean(axis=1, keepdims=True)
    return centred


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Spearman's correlation, or nan if x or y is constant. Ties share their mean rank.

    >>> round(rank_correlation([1.0, 2.0, 3.0, 4.0], [9.0, 7.0, 7.0, 1.0]), 3)
    -0.949
    """
    return pearson(ranks(x), ranks(y))


def ranks(values: list[float]) -> list[float]:
    """Rank of each value. Ties share their mean rank."""
    import numpy as np

    array = np.asarray(values)
    return [float((array < value).sum() + ((array == value).sum() - 1) / 2) for value in array]
