"""Power analysis: the number of examples and seeds needed to detect a gap, estimated before any
model is trained.

The model is that of `paired_two_way`. A learner's answer to an item is right with probability
`accuracy`, which varies between seeds with the standard deviation `seed_sd`. The answers of two
runs to the same item are correlated: by `paired_correlation` between the two learners, and by
`seed_correlation` between seeds of one learner. For k seeds and n items the differences b - a then
have the variances

    between seeds    2 seed_sd²
    between items    seed_correlation (v_a + v_b) - 2 paired_correlation sqrt(v_a v_b)
    the rest         (1 - seed_correlation) (v_a + v_b)

with v = accuracy (1 - accuracy). Their mean is tested by t with Satterthwaite's degrees of freedom
at the expected mean squares. More examples do not reduce the variance between seeds. If that
variance alone hides the gap, no number of examples is enough, and the result is None. In simulated
experiments, the formula is accurate to within 0.06 from three seeds on. With two seeds it can be
off by 0.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from taskloom.experiments.statistics import distributions as dist
from taskloom.experiments.statistics.distributions import StatisticsError

MOST_EXAMPLES = 10**9
MOST_SEEDS = 10**5


@dataclass(frozen=True, slots=True)
class PowerQuestion:
    """The gap to detect, and the assumptions.

    Attributes:
        gap: Difference in accuracy to detect. Its sign only matters for accuracies near 0 or 1.
        accuracy: Accuracy of one learner; the other's is accuracy + gap.
        seed_sd: Standard deviation of a learner's accuracy between seeds. With 0, trainings differ
            only by chance on single items.
        paired_correlation: Correlation between the two learners' answers to the same item; 0 for
            different items.
        seed_correlation: Correlation between the answers of two seeds of one learner to the same
            item, which determines how far seeds can replace examples. None: halfway between the
            paired correlation of two learners and 1 (the same answers).
        alpha: Significance level.
        power: Probability of detecting the gap.
    """

    gap: float
    accuracy: float
    seed_sd: float = 0.0
    paired_correlation: float = 0.0
    seed_correlation: float | None = None
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        """Raise an error for values that are not allowed."""
        other = self.accuracy + self.gap
        for name, value, good in (
            ("accuracy", self.accuracy, 0 < self.accuracy < 1),
            ("gap", self.gap, self.gap != 0),
            ("seed-sd", self.seed_sd, 0 <= self.seed_sd <= 0.5),
            ("paired-correlation", self.paired_correlation, 0 <= self.paired_correlation < 1),
            ("seed-correlation", self.within, self.paired_correlation <= self.within <= 1),
            ("alpha", self.alpha, 0 < self.alpha < 1),
            ("power", self.power, self.alpha < self.power < 1),
        ):
            if not good:
                raise StatisticsError(f"{name} must be {_ALLOWED[name]}, not {value:g}")
        if not 0 <= other <= 1:
            raise StatisticsError(
                f"accuracy {self.accuracy} and a gap of {self.gap} make {other:.6g}, which is not"
                " an accuracy"
            )

    @property
    def within(self) -> float:
        """Correlation between seeds of one learner."""
        return (
            (1 + self.paired_correlation) / 2
            if self.seed_correlation is None
            else self.seed_correlation
        )

    def components(self) -> tuple[float, float, float]:
        """Variances of the differences: between seeds, between items, and the residual."""
        first = self.accuracy * (1 - self.accuracy)
        second = (self.accuracy + self.gap) * (1 - self.accuracy - self.gap)
        items = self.within * (first + second) - 2 * self.paired_correlation * sqrt(first * second)
        # With equal correlations and unequal variances, the items' variance would be slightly below
        # 0.
        return 2 * self.seed_sd**2, max(0.0, items), (1 - self.within) * (first + second)


_ALLOWED = {
    "accuracy": "a share between 0 and 1",
    "gap": "a difference other than 0",
    "seed-sd": "between 0 and 0.5",
    "paired-correlation": "from 0 (different items) to below 1",
    "seed-correlation": (
        "from the paired correlation to 1 (seeds of one learner are at least as alike as two"
        " learners)"
    ),
    "alpha": "a share between 0 and 1, such as 0.05",
    "power": "a share between alpha and 1, such as 0.8",
}


def power(question: PowerQuestion, examples: int, seeds: int) -> float:
    """Probability of detecting the gap with this many examples and seeds of each learner."""
    _check_sizes(examples, seeds)
    a, b, e = question.components()
    if seeds == 1:
        # With one training each, only the items are tested, and the claim is about these two
        # models. Variation between seeds alone also causes gaps, so the power to detect *the
        # learners'* gap is unknown.
        if a > 0:
            return 0.0
        return dist.t_power(
            abs(question.gap) / sqrt((b + e) / examples),
            float(max(1, examples - 1)),
            question.alpha,
        )
    by_seed, by_item = e + examples * a, e + seeds * b
    total = by_seed + by_item - e
    parts = (
        by_seed**2 / (seeds - 1)
        + by_item**2 / max(1, examples - 1)
        + e**2 / max(1, (seeds - 1) * (examples - 1))
    )
    return dist.t_power(
        abs(question.gap) / sqrt(total / (examples * seeds)),
        max(1.0, total**2 / parts),
        question.alpha,
    )


def examples_needed(question: PowerQuestion, seeds: int) -> int | None:
    """Minimum number of examples to detect the gap with this many seeds, or None if no number is
    enough.
    """
    return _least(lambda n: power(question, n, seeds), question.power, MOST_EXAMPLES)


def seeds_needed(question: PowerQuestion, examples: int) -> int | None:
    """Minimum number of seeds per learner to detect the gap with this many examples, or None if no
    number is enough.
    """
    return _least(lambda k: power(question, examples, k), question.power, MOST_SEEDS)


def gap_found(question: PowerQuestion, examples: int, seeds: int) -> float | None:
    """Smallest detectable gap, with the question's sign, for this many examples and seeds, or None
    if no gap is detectable.
    """
    sign = 1 if question.gap > 0 else -1
    room = (1 - question.accuracy) if sign > 0 else question.accuracy
    low, high = 0.0, room

    def enough(gap: float) -> bool:
        return power(replace(question, gap=sign * gap), examples, seeds) >= question.power

    if not enough(high):
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return sign * high


def plan(
    question: PowerQuestion, examples: int | None = None, seeds: int | None = None
) -> list[dict[str, Any]]:
    """Compute the missing number of examples or seeds. If both are given, compute their power and
    the smallest detectable gap.
    """
    if examples is not None and seeds is not None:
        reached = power(question, examples, seeds)
        gap = gap_found(question, examples, seeds)
        return [{"seeds": seeds, "examples": examples, "power": reached, "smallest_gap": gap}]
    if examples is not None:
        tried: list[tuple[int | None, int | None]] = [(seeds_needed(question, examples), examples)]
    elif seeds is not None:
        tried = [(seeds, examples_needed(question, seeds))]
    else:
        tried = [(k, examples_needed(question, k)) for k in (1, 3, 5, 10, 20, 50)]
    return [
        {"seeds": k, "examples": n, "power": power(question, n, k) if n and k else None}
        for k, n in tried
    ]


def _least(reach: Callable[[int], float], wanted: float, most: int) -> int | None:
    """Find the smallest size that reaches the requested power, by doubling and bisection."""
    high = 1
    while reach(high) < wanted:
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle) >= wanted else (middle, high)
    return high


def _check_sizes(examples: int, seeds: int) -> None:
    if examples < 1 or seeds < 1:
        raise StatisticsError(
            f"{examples} examples and {seeds} seeds: at least one of each is needed"
        )
