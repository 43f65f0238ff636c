"""Quantiles and tail areas, from SciPy's special functions, which load in a tenth of the time of `scipy.stats`.

What every small table of scores needs, the normal distribution and Student's t, is computed without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from taskloom.errors import MissingExtra, TaskloomError
from taskloom.experiments.statistics import student_t

MANY = 1_000
"""Quantiles from which on importing SciPy takes less time than computing them in Python (50 microseconds each)."""


class StatisticsError(TaskloomError):
    """Numbers that a statistic cannot be computed from."""


def special() -> Any:
    """Import `scipy.special` when a statistic needs it and not before."""
    try:
        import scipy.special
    except ImportError as error:
        raise MissingExtra("an interval or a test", "scipy", "report") from error
    return scipy.special


def check_level(level: float) -> float:
    """Check a confidence level: a share strictly between 0 and 1."""
    if not 0 < level < 1:
        raise StatisticsError(f"a confidence level lies between 0 and 1, such as 0.95; not {level}")
    return level


def normal_quantile(p: float) -> float:
    """Return where the standard normal distribution has the share `p` below."""
    return NormalDist().inv_cdf(p)


def t_quantile(p: float, df: float) -> float:
    """Return where Student's t with `df` degrees of freedom has the share `p` below."""
    return t_quantiles(p, [df])[0]


def t_quantiles(p: float, dfs: Sequence[float]) -> list[float]:
    """Return `t_quantile` for each of many degrees of freedom."""
    if len(dfs) <= MANY and all(student_t.in_range(p, df) for df in dfs):
        return [student_t.quantile(p, df) for df in dfs]
    quantiles: list[float] = special().stdtrit(dfs, p).tolist()
    return quantiles


def t_two_sided(t: float, df: float) -> float:
    """Return the share of Student's t that is at least as far from 0 as `t`."""
    if math.isfinite(t) and 1 <= df <= student_t.MOST_FREEDOM:
        return student_t.two_sided(t, df)
    return float(2 * special().stdtr(df, -abs(t)))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return where the beta distribution has the share `p` below."""
    return float(special().betaincinv(a, b, p))


def binomial_below(k: int, n: int, p: float) -> float:
    """Return the probability of at most `k` successes in `n` trials."""
    return float(special().bdtr(k, n, p))


def chi2_above(x: float, df: float) -> float:
    """Return the share of the chi-squared distribution above `x`."""
    return float(special().chdtrc(df, x))


def f_above(x: float, df: float, df_within: float) -> float:
    """Return the share of the F distribution above `x`.

    Args:
        x: The ratio of the mean squares.
        df: Degrees of freedom between groups.
        df_within: Degrees of freedom within groups.
    """
    return float(special().fdtrc(df, df_within, x))


def t_power(shift: float, df: float, alpha: float) -> float:
    """Return how often a two-sided t test at `alpha` rejects, when t is shifted by `shift` (the noncentral t distribution)."""
    edge = t_quantile(1 - alpha / 2, df)
    below = float(special().nctdtr(df, shift, -edge))
    upto = float(special().nctdtr(df, shift, edge))
    # Far out SciPy gives nan: there the power is one to any number of digits that can be printed.
    return 1.0 if math.isnan(upto) else (0.0 if math.isnan(below) else below) + 1 - upto
