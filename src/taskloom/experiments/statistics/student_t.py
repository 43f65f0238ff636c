"""Student's t distribution in plain Python, for the few numbers of a small report.

Importing SciPy's special functions takes 0.1 s, as long as all else that such a report computes. The incomplete beta function
is evaluated by its continued fraction (Lentz's method), as in Numerical Recipes, 6.4.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, fabs, lgamma, log, log1p, pi
from statistics import NormalDist

MOST_FREEDOM = 10_000.0
"""Degrees of freedom up to which shares are right to eleven digits: logarithms of factorials lose digits beyond."""

TINY = 1e-300
"""In the place of a 0 in the continued fraction."""

CLOSE = 1e-15
"""A relative change that ends the continued fraction: a few of the last bits."""

LAST_STEP = 1e-8
"""A relative change that ends Newton's method, which doubles the number of right digits with each step."""


def in_range(p: float, df: float) -> bool:
    """Return whether `quantile` is for these: shares that people ask for, and at least one degree of freedom."""
    return 1e-6 <= p <= 1 - 1e-6 and df >= 1


def two_sided(t: float, df: float) -> float:
    """Return the share that is at least as far from 0 as `t`: the incomplete beta function of df / (df + t²)."""
    a, square = df / 2, t * t
    x, rest = df / (df + square), square / (df + square)
    if rest == 0:
        return 1.0
    log_x = log1p(-rest) if rest < 0.5 else log(x)
    front = exp(lgamma(a + 0.5) - lgamma(a) - lgamma(0.5) + a * log_x + 0.5 * log(rest))
    # The fraction converges quickly on this side of its middle; on the other the complement is computed.
    if x < (a + 1) / (a + 2.5):
        return front * _fraction(x, a, 0.5) / a
    return 1 - front * _fraction(rest, 0.5, a) / 0.5


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + factor * d)
            c = _not_zero(1 + factor / c)
            value *= c * d
        if fabs(c * d - 1) < CLOSE:
            break
    return value


def _not_zero(value: float) -> float:
    return value if fabs(value) > TINY else TINY


@lru_cache(maxsize=10_000)
def quantile(p: float, df: float) -> float:
    """Return where the distribution has the share `p` below; within `in_range`."""
    if p < 0.5:
        return -quantile(1 - p, df)
    tail = 2 * (1 - p)
    if tail >= 1:
        return 0.0
    t = _expansion(NormalDist().inv_cdf(p), df)
    if df > MOST_FREEDOM:
        return t
    scale = lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * log(df * pi)
    for _ in range(100):
        share = two_sided(t, df)
        density = 2 * exp(scale - (df + 1) / 2 * log1p(t * t / df))
        # Newton's method on logarithms of both, since far out the share is a power of t.
        step = exp(share * log(share / tail) / (density * t))
        t *= step
        if fabs(step - 1) < LAST_STEP:
            break
    return t


def _expansion(z: float, df: float) -> float:
    """Return the quantile by that of the normal distribution and powers of 1 / df (Abramowitz and Stegun, 26.7.5).

    Beyond `MOST_FREEDOM` it is right to ten digits; below it is where Newton's method starts from.
    """
    return (
        z
        + (z**3 + z) / (4 * df)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
    )
