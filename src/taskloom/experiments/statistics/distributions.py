"""Quantiles and tail areas under the names that the statistics here use.

SciPy's special functions load in a tenth of the time of `scipy.stats`, but still in 0.2 s. They are
imported when a statistic needs them, so that commands without statistics start without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from taskloom.core.errors import TaskloomError


class StatisticsError(TaskloomError):
    """Numbers that a statistic cannot be computed from."""


def check_level(level: float) -> float:
    """Check a confidence level: a share strictly between 0 and 1."""
    if not 0 < level < 1:
        raise StatisticsError(f"a confidence level lies between 0 and 1, such as 0.95; not {level}")
    return level


def normal_quantile(p: float) -> float:
    """Value below which the standard normal distribution has the share `p`."""
    return NormalDist().inv_cdf(p)


def t_quantile(p: float, df: float) -> float:
    """Value below which Student's t with `df` degrees of freedom has the share `p`."""
    return t_quantiles(p, [df])[0]


def t_quantiles(p: float, dfs: Sequence[float]) -> list[float]:
    """`t_quantile` for each of many degrees of freedom."""
    from scipy.special import stdtrit

    quantiles: list[float] = stdtrit(dfs, p).tolist()
    return quantiles


def t_two_sided(t: float, df: float) -> float:
    """Share of Student's t that is at least as far from 0 as `t`."""
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(t)))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Value below which the beta distribution has the share `p`."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, p))


def binomial_below(k: int, n: int, p: float) -> float:
    """Probability of at most `k` successes in `n` trials."""
    from scipy.special import bdtr

    return float(bdtr(k, n, p))


def chi2_above(x: float, df: float) -> float:
    """Share of the chi-squared distribution above `x`."""
    from scipy.special import chdtrc

    return float(chdtrc(df, x))


def f_above(x: float, df: float, df_within: float) -> float:
    """Share of the F distribution above `x`.

    Args:
        x: The ratio of the mean squares.
        df: Degrees of freedom between groups.
        df_within: Degrees of freedom within groups.
    """
    from scipy.special import fdtrc

    return float(fdtrc(df, df_within, x))


def t_power(shift: float, df: float, alpha: float) -> float:
    """How often a two-sided t test at `alpha` rejects, when t is shifted by `shift` (the noncentral
    t distribution).
    """
    from scipy.special import nctdtr

    edge = t_quantile(1 - alpha / 2, df)
    below = float(nctdtr(df, shift, -edge))
    upto = float(nctdtr(df, shift, edge))
    # Far out SciPy gives nan: there the power is one to any number of digits that can be printed.
    if math.isnan(upto):
        return 1.0
    if math.isnan(below):
        below = 0.0
    return below + 1 - upto
