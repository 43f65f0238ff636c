"""Confidence sequences: intervals for a mean that hold at every sample size at once.

A common 95 % interval holds for one sample size that was fixed in advance. If the sample is looked
at after every answer and sampling stops as soon as the interval is narrow enough, it misses the
mean far more often than in 5 % of cases. A confidence sequence may be looked at as often as one
likes: with probability 95 % it contains the mean at *all* sample sizes, so stopping early is safe.

The construction is the hedged capital process of Waudby-Smith and Ramdas (2024, *Estimating means
of bounded random variables by betting*). For each candidate mean m, two gamblers bet that the mean
is larger and smaller than m. With observations x in [0, 1] and bets λ that depend on earlier
observations only, their capital is

    K⁺(m) = Π (1 + min(λ, c / m) (x − m))        K⁻(m) = Π (1 − min(λ, c / (1 − m)) (x − m))

At the true mean both games are fair, so by Ville's inequality (K⁺ + K⁻) / 2 ever exceeds 1 / α with
probability at most α. The sequence at time t holds the m that no gambler has refuted so far. The
bets adapt to the variance that was seen: differences of paired answers that are mostly equal need
far fewer observations than the range of their values suggests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

STEPS = 1_000
"""Candidate means in the range. Intervals are widened by one step on each side, so they stay valid
between candidates.
"""

CAUTION = 0.5
"""Maximum share of its capital that a gambler may lose in one bet (c above). A half is the value
that the paper recommends.
"""

BLOCK = 256
"""Observations per block of a batch, to bound memory: a block has this many rows of candidates."""


@dataclass(slots=True)
class ConfidenceSequence:
    """Interval for the mean of a stream of bounded numbers, valid at every moment.

    Args:
        low: Smallest possible observation: 0 for scores, -1 for differences of two scores.
        high: Largest possible observation.
        level: Probability that the interval contains the mean at all times.
    """

    low: float = 0.0
    high: float = 1.0
    level: float = 0.95
    n: int = field(default=0, init=False)
    _total: float = field(default=0.0, init=False)
    _squares: float = field(default=0.0, init=False)
    refuted: NDArray[np.bool_] = field(init=False)
    _candidates: Floats = field(init=False)
    _up: Floats = field(init=False)
    _down: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.follow(np.linspace(0.0, 1.0, STEPS + 1))

    def follow(self, candidates: Floats) -> None:
        """Start with these candidate means, as shares of the range. `refuted` has one entry each."""
        self._candidates = candidates
        self._up = np.zeros(len(candidates))
        self._down = np.zeros(len(candidates))
        self.refuted = np.zeros(len(candidates), dtype=bool)

    @property
    def mean(self) -> float:
        """Mean of the observations so far; NaN before the first."""
        if self.n == 0:
            return math.nan
        return self.low + (self.high - self.low) * self._total / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Smallest and largest mean that the observations leave possible."""
        left = np.flatnonzero(~self.refuted)
        # Refuting every candidate has probability below 1 - level. The mean is then the best guess.
        first, last = (left[0], left[-1]) if len(left) else (self._nearest, self._nearest)
        step = 1.0 / STEPS
        first_mean = max(0.0, self._candidates[first] - step)
        last_mean = min(1.0, self._candidates[last] + step)
        width = self.high - self.low
        return self.low + width * float(first_mean), self.low + width * float(last_mean)

    @property
    def _nearest(self) -> int:
        return round(STEPS * self._total / self.n)

    def excludes(self, border: float) -> bool:
        """True if the mean is on one side of a border, at this level."""
        low, high = self.interval
        return border < low or border > high

    def add(self, observations: ArrayLike) -> None:
        """Take further observations, in the order in which they were made.

        Raises:
            ValueError: If an observation is outside the range.
        """
        values = np.atleast_1d(np.asarray(observations, dtype=np.float64))
        if not np.all((values >= self.low) & (values <= self.high)):
            raise ValueError(f"observations must be between {self.low} and {self.high}")
        unit = (values - self.low) / (self.high - self.low)
        for start in range(0, len(unit), BLOCK):
            self._add_block(unit[start : start + BLOCK])

    def _add_block(self, x: Floats) -> None:
        bets = self._bets(x)[:, None]
        m = self._candidates
        with np.errstate(divide="ignore"):
            upper, lower = CAUTION / m, CAUTION / (1.0 - m)
        gap = x[:, None] - m
        up = self._up + np.cumsum(np.log1p(np.minimum(bets, upper) * gap), axis=0)
        down = self._down + np.cumsum(np.log1p(-np.minimum(bets, lower) * gap), axis=0)
        # Capital of the two gamblers together, each of whom began with one half.
        both = np.logaddexp(up, down) - math.log(2.0)
        self.refuted |= (both >= -math.log(1.0 - self.level)).any(axis=0)
        self._up, self._down = up[-1], down[-1]

    def _bets(self, x: Floats) -> Floats:
        """Bet on each observation, from the variance of the observations before it."""
        times = np.arange(self.n + 1, self.n + len(x) + 1)
        totals = self._total + np.cumsum(x)
        # One half and one quarter are the mean and variance assumed before any observation.
        means = (0.5 + totals) / (times + 1)
        squares = self._squares + np.cumsum((x - means) ** 2)
        before = np.concatenate([[self._squares], squares[:-1]])
        variances = (0.25 + before) / times
        self.n, self._total, self._squares = int(times[-1]), float(totals[-1]), float(squares[-1])
        evidence = 2.0 * math.log(2.0 / (1.0 - self.level))
        return np.asarray(np.sqrt(evidence / (variances * times * np.log1p(times))))
