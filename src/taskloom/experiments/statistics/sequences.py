"""Confidence sequences: intervals for a mean that hold at every sample size at once.

An ordinary 95 % interval holds for one sample size that was fixed in advance. If you look at it
after every answer and stop sampling as soon as it is narrow enough, it misses the mean far more
often than in 5 % of cases. A confidence sequence may be looked at as often as you like: with
probability 95 % it contains the mean at *all* sample sizes, so stopping early is safe.

The construction is a betting martingale with a grid of bets (Waudby-Smith and Ramdas, 2024,
*Estimating means of bounded random variables by betting*). For each candidate mean m, gamblers with
equal capital bet a share s of it on every observation x in [0, 1], half of them that the mean is
larger than m and half that it is smaller:

    K(m) = mean over s of Π (1 + s (x − m) / m) and Π (1 − s (x − m) / (1 − m))

At the true mean every game is fair, so by Ville's inequality K ever exceeds 1 / α with probability
at most α. The sequence at time t contains the m that have not been refuted so far. One of the
shares is always near the best one, so intervals adapt to the variance: differences of paired
answers that are mostly equal need far fewer observations than the range of their values suggests.
The paper's default is one gambler per side whose bet follows the variance. Compared with it, the
grid needs 0.5 to 0.65 of the observations to exclude a mean that is 0.05 to 0.1 away, because
unlucky first bets cost little, and about as many if the mean is 0.2 away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

STEPS = 1_000
"""Number of steps into which the candidate means divide the range. Intervals are widened by one
step on each side, so they stay valid between candidates.
"""

SHARES: Floats = np.array([0.002, 0.006, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
"""Shares of their capital that the gamblers on one side bet. A share s is best for scores of 0 and
1 whose mean is s (1 − m) above m, or s m below it. So small shares are for small gaps, down to a
step. Large shares are denser, because they settle clear cases early.
"""

TINY = 1e-12
"""Replaces 0 as a divisor, because any larger observation refutes m = 0."""

BLOCK = 64
"""Maximum distinct observations whose returns are computed at once, to limit memory to 12 MB."""


def log_returns(observations: Floats, candidates: Floats) -> Floats:
    """Return the logarithm of the factor by which each gambler's capital is multiplied:
    [observations, gamblers, candidates].
    """
    gap = observations[:, None, None] - candidates
    larger = SHARES[:, None] / np.maximum(candidates, TINY)
    smaller = SHARES[:, None] / np.maximum(1.0 - candidates, TINY)
    bets = np.concatenate([larger * gap, -smaller * gap], axis=1)
    # This is faster than log1p. A share is at least 0.002, so the lost digits do not matter.
    return np.asarray(np.log(1.0 + bets))


@dataclass(slots=True)
class ConfidenceSequence:
    """Interval for the mean of a stream of bounded numbers, valid at every sample size.

    Args:
        low: Smallest possible observation: 0 for scores, -1 for differences of two scores.
        high: Largest possible observation.
        level: Probability that the interval contains the mean at all times.
        population: Number of distinct observations, if none is repeated. After the last of them the
            interval is the mean itself.
    """

    low: float = 0.0
    high: float = 1.0
    level: float = 0.95
    population: float = math.inf
    n: int = field(default=0, init=False)
    _total: float = field(default=0.0, init=False)
    _candidates: Floats = field(init=False)
    _capital: Floats = field(init=False)
    _refuted: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self._candidates = np.linspace(0.0, 1.0, STEPS + 1)
        self._capital = np.zeros((2 * len(SHARES), STEPS + 1))
        self._refuted = np.zeros(STEPS + 1, dtype=bool)

    @property
    def mean(self) -> float:
        """Mean of the observations so far; NaN before the first."""
        if self.n == 0:
            return math.nan
        return self.low + (self.high - self.low) * self._total / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Smallest and largest mean that the observations have not refuted."""
        if self.n == self.population:
            return self.mean, self.mean
        left = np.flatnonzero(~self._refuted)
        # Refuting every candidate has probability below 1 - level. The observed mean is then the
        # best estimate.
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
        """Add further observations, and test the candidates after the last of them.

        Raises:
            ValueError: If an observation is outside the range.
        """
        values = np.atleast_1d(np.asarray(observations, dtype=np.float64))
        if not np.all((values >= self.low) & (values <= self.high)):
            raise ValueError(f"observations must be between {self.low} and {self.high}")
        unit = (values - self.low) / (self.high - self.low)
        self.n += len(unit)
        self._total += float(unit.sum())
        # Order does not matter between two tests, and most scores are 0 or 1.
        different, counts = np.unique(unit, return_counts=True)
        for i in range(0, len(different), BLOCK):
            returns = log_returns(different[i : i + BLOCK], self._candidates)
            self._capital += np.tensordot(counts[i : i + BLOCK], returns, axes=1)
        together = np.logaddexp.reduce(self._capital, axis=0) - math.log(len(self._capital))
        self._refuted |= together >= -math.log(1.0 - self.level)
