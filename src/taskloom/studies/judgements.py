"""Does our number agree with the published one? One rule for all studies.

Ours is known with an interval, the published one with its own standard error and its rounding. The rule looks at the interval
(95 %) of the difference *ours - published*, and asks in this order:

1. No interval, since there is one training only: **cannot be told**.
2. The whole interval is within ± `small` (0.05 for accuracies): **agrees**. A difference may be significant and still too small
   for any claim to rest on it.
3. The whole interval is on one side of 0, by more than the paper's rounding: **disagrees**.
4. The whole interval is within ± one published standard deviation between trainings: **agrees**. A difference that large is one
   that the next training of the paper's own authors would show.
5. Otherwise **cannot be told**: both "the same" and "different" would fit these trainings.

Means (`judge_mean`) get Welch's interval: the variances of both means add up, with Welch's degrees of freedom. A published
standard deviation below the rounding counts as half a unit of the last decimal, and so does ours: equal scores of a few trainings
do not prove that there is no spread, and have no interval of their own. A number without standard deviation is taken for one
training with our spread. Shares of trainings (`judge_share`) get Newcombe's interval from two Wilson intervals, numbers with an
interval of their own (`judge_estimate`: slopes) from that. Numbers that no training made (`judge_number`: parameter counts, sizes
of datasets) agree where they are equal after rounding as the paper rounds, and there is no third answer.

Where conditions that the paper's file calls essential differ (another world, another model), a comparison of numbers says nothing
about the claim: the verdict is **not comparable**, and the conditions are listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from taskloom.experiments.statistics import over_seeds, wilson
from taskloom.experiments.statistics.distributions import t_quantile
from taskloom.experiments.statistics.intervals import LEVEL
from taskloom.studies.published_numbers import PublishedNumber

AGREES, DISAGREES, OPEN, OTHER = "agrees", "disagrees", "cannot be told", "not comparable"

DECIMALS = 3
"""Of means and shares over trainings, also where the paper has more: no interval of ours is known as closely."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Our number beside a published one.

    Attributes:
        claim: What the number is of.
        place: Where the paper has it.
        ours: Our number; nan where nothing was measured.
        low: The lower end of its interval; nan where there is none.
        high: Its upper end.
        seeds: Trainings that ours rests on; 0 for a number that no training made.
        published: The published number.
        published_text: As the paper writes it, with its standard deviation.
        difference: Ours - published.
        difference_low: The lower end of the difference's interval; nan where there is none.
        difference_high: Its upper end.
        verdict: `agrees`, `disagrees`, `cannot be told` or `not comparable`.
        conditions: What differs from the paper's conditions, a sentence each.
        decimals: How many the number is shown with.
        unit: What `seeds` counts; `tasks` where a number is a mean over tasks, each of which was trained.
    """

    claim: str
    place: str
    ours: float
    low: float
    high: float
    seeds: int
    published: float
    published_text: str
    difference: float
    difference_low: float
    difference_high: float
    verdict: str
    conditions: tuple[str, ...] = ()
    decimals: int = 3
    unit: str = "seeds"

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table that people read."""
        ours = _with_interval(self.ours, self.low, self.high, self.decimals)
        n = (str(self.seeds) if self.unit == "seeds" else f"{self.seeds} {self.unit}") if self.seeds else ""
        gap = _with_interval(self.difference, self.difference_low, self.difference_high, self.decimals, sign="+")
        outcome = f"{self.verdict} from {_trainings(self.seeds, self.unit)}" if self.verdict == OPEN else self.verdict
        conditions = "; ".join(self.conditions)
        return (self.claim, self.place, ours, n, self.published_text, gap, outcome, conditions)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, where what is not finite is null."""
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}
        return {**plain, "conditions": list(self.conditions)}


def judge_mean(
    scores: Sequence[float],
    number: PublishedNumber,
    *,
    claim: str = "",
    conditions: Sequence[str] = (),
    comparable: bool = True,
    level: float = LEVEL,
    unit: str = "seeds",
) -> Judgement:
    """Judge the mean score of our trainings against a published mean.

    Args:
        scores: One score a training.
        number: The published mean.
        claim: What it is of; by default what the number says.
        conditions: What differs from the paper's conditions.
        comparable: False where an essential condition differs.
        level: Of the intervals.
        unit: What the trainings differ in: `seeds`, or `tasks`.
    """
    n = len(scores)
    mean = sum(scores) / n if n else math.nan
    if n < 2:
        ends = (math.nan, math.nan)
        return _judgement(number, claim, mean, ends, n, (math.nan, math.nan), conditions, comparable, unit)
    estimate = over_seeds(scores, level)
    least = number.rounding
    ours = max(estimate.se * math.sqrt(n), least)
    theirs = max(number.sd if number.sd is not None else ours, least)
    a, b = ours**2 / n, theirs**2 / number.n
    # A published mean of one training, or of an unknown spread, adds no degrees of freedom of its own.
    df = (a + b) ** 2 / (a**2 / (n - 1) + (b**2 / (number.n - 1) if number.n > 1 else b**2 / (n - 1)))
    half = t_quantile(0.5 + level / 2, df) * math.sqrt(a + b)
    gap = mean - number.value
    interval = (max(gap - half, -1.0), min(gap + half, 1.0))  # both are shares
    return _judgement(number, claim, mean, (estimate.low, estimate.high), n, interval, conditions, comparable, unit)


def judge_share(
    hits: int,
    n: int,
    number: PublishedNumber,
    *,
    claim: str = "",
    conditions: Sequence[str] = (),
    comparable: bool = True,
    level: float = LEVEL,
) -> Judgement:
    """Judge a share of our trainings (those that succeeded) against a published share of `number.n` trainings.

    Args:
        hits: Our trainings for which it holds.
        n: Our trainings.
        number: The published share.
        claim: What it is of.
        conditions: What differs from the paper's conditions.
        comparable: False where an essential condition differs.
        level: Of the intervals.
    """
    if n < 2:
        share = hits / n if n else math.nan
        ends = (math.nan, math.nan)
        return _judgement(number, claim, share, ends, n, (math.nan, math.nan), conditions, comparable)
    share, theirs = hits / n, number.value
    ends, their_ends = wilson(hits, n, level), wilson(round(theirs * number.n), number.n, level)
    interval = _difference(share, ends, theirs, their_ends)
    return _judgement(number, claim, share, ends, n, interval, conditions, comparable)


def judge_estimate(
    value: float,
    ends: tuple[float, float],
    n: int,
    number: PublishedNumber,
    their_ends: tuple[float, float] | None = None,
    *,
    claim: str = "",
    conditions: Sequence[str] = (),
    comparable: bool = True,
    unit: str = "seeds",
) -> Judgement:
    """Judge a number that comes with an interval of its own, such as a slope; the interval of the difference is Newcombe's.

    Args:
        value: Our number.
        ends: Of its interval; nan where there is none.
        n: Trainings that it rests on.
        number: The published number.
        their_ends: Of the published number's interval; none: it is taken as exact, but for its rounding.
        claim: What it is of.
        conditions: What differs from the paper's conditions.
        comparable: False where an essential condition differs.
        unit: What the trainings differ in.
    """
    theirs = their_ends or (number.value - number.rounding, number.value + number.rounding)
    interval = _difference(value, ends, number.value, theirs)
    return _judgement(number, claim, value, ends, n, interval, conditions, comparable, unit)


def _difference(
    ours: float, ends: tuple[float, float], theirs: float, their_ends: tuple[float, float]
) -> tuple[float, float]:
    """Return Newcombe's interval of ours - theirs from an interval of each."""
    gap = ours - theirs
    return (
        gap - math.hypot(ours - ends[0], their_ends[1] - theirs),
        gap + math.hypot(ends[1] - ours, theirs - their_ends[0]),
    )


def judge_number(
    value: float, number: PublishedNumber, *, claim: str = "", conditions: Sequence[str] = (), tolerance: float = 0.0
) -> Judgement:
    """Judge a number that no training made: it agrees where it is the published one after the paper's rounding.

    Args:
        value: Our number.
        number: The published one.
        claim: What it is of.
        conditions: What differs from the paper's conditions.
        tolerance: A larger difference that counts as agreement, for numbers that sampling makes.
    """
    close = abs(value - number.value) <= max(number.rounding, tolerance) * (1 + 1e-9)
    gap = value - number.value
    verdict = AGREES if close else DISAGREES
    text, nan = str(number), math.nan
    decimals = max(0, number.decimals)
    return Judgement(
        claim or number.name, number.place, value, nan, nan, 0, number.value, text, gap, nan, nan, verdict,
        tuple(conditions), decimals,
    )  # fmt: skip


def verdict(low: float, high: float, number: PublishedNumber) -> str:
    """Return the verdict on an interval of the difference; the rule is at the head of this module."""
    if math.isnan(low) or math.isnan(high):
        return OPEN
    if -number.small <= low and high <= number.small:
        return AGREES
    if low > number.rounding or high < -number.rounding:
        return DISAGREES
    if number.sd is not None and -number.sd <= low and high <= number.sd:
        return AGREES
    return OPEN


def _judgement(
    number: PublishedNumber,
    claim: str,
    ours: float,
    ends: tuple[float, float],
    seeds: int,
    interval: tuple[float, float],
    conditions: Sequence[str],
    comparable: bool,
    unit: str = "seeds",
) -> Judgement:
    outcome = verdict(*interval, number) if comparable else OTHER
    return Judgement(
        claim or number.name,
        number.place,
        ours,
        *ends,
        seeds,
        number.value,
        str(number),
        ours - number.value,
        *interval,
        outcome,
        tuple(conditions),
        DECIMALS,
        unit,
    )


def _with_interval(value: float, low: float, high: float, decimals: int, sign: str = "") -> str:
    if math.isnan(value):
        return "not measured"
    shown = _rounded(value, decimals, sign)
    return shown if math.isnan(low) else f"{shown} [{_rounded(low, decimals, sign)}, {_rounded(high, decimals, sign)}]"


def _rounded(value: float, decimals: int, sign: str) -> str:
    """Format a number; what rounds to zero has no minus.

    >>> _rounded(-0.0004, 3, "+"), _rounded(-0.4, 0, ""), _rounded(-0.02, 2, "+")
    ('+0.000', '0', '-0.02')
    """
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}"


def _trainings(n: int, unit: str) -> str:
    return f"1 {unit.removesuffix('s')}" if n == 1 else f"{n} {unit}"
