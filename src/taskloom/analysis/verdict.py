"""Does our number agree with the published one? One rule for all studies.

The rule uses the 95 % interval of the difference *ours - published* and the margin, the largest
difference that still counts as agreement: 0.05 for accuracies, 0.10 if the published standard
deviation between trainings exceeds 0.15. In this order:

1. There is no interval, because there is only one training: **inconclusive**.
2. The whole interval is within the margin: **agrees**. A difference may be significant and still
   too small to matter.
3. The whole interval is on one side of 0, by more than the paper's rounding: **disagrees**. 4.
Otherwise **inconclusive**: the data are compatible with both.

The intervals, with their coverage in simulations of skewed seeds
(`tests/analysis/test_verdict.py`):

* Means with a published standard deviation (`judge_mean`): the wider of Welch's interval and the
  one with a pooled variance. Welch's alone covers 0.82 with three skewed seeds, because three that
  happen to be alike look certain; the published spread of 25 trainings corrects that. A standard
  deviation below the paper's rounding, theirs or ours, counts as half a unit of the last decimal:
  equal scores of a few trainings don't prove that there is no spread.
* Means without one: the published number is treated as one more training (or a mean of `n`) with
  our spread. It is judged by the prediction interval with n - 1 degrees of freedom, or by the same
  on the arcsine scale if that is wider, as it is for skewed accuracies near 0 or 1.
* Shares of trainings (`judge_share`): Newcombe's interval from the exact intervals of both shares.
  Wilson's ends fall below 0.94 for some shares.
* Numbers with their own interval (`judge_estimate`: slopes): Newcombe's interval, computed from it.

Numbers that need no training (`judge_number`: parameter counts, sizes of datasets) agree if they
are equal after rounding as the paper rounds; there is no third verdict.

If conditions differ that the paper's file calls essential (another world, another model), comparing
numbers says nothing about the claim: the verdict is **not comparable**, and the conditions are
listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from taskloom.analysis.published_numbers import PublishedNumber
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import clopper_pearson, newcombe, over_seeds, wilson
from taskloom.experiments.statistics.distributions import t_quantile
from taskloom.experiments.statistics.intervals import LEVEL

AGREES, DISAGREES, OPEN, OTHER = "agrees", "disagrees", "inconclusive", "not comparable"

DECIMALS = 3
"""Maximum decimals of means and shares over trainings, even if the paper has more, because our
intervals are not more precise.
"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Comparison of our number with a published one.

    Attributes:
        claim: Description of the number.
        place: Its place in the paper.
        ours: Our number; nan if nothing was measured.
        low: Lower end of its interval; nan if there is none.
        high: Its upper end.
        seeds: Number of trainings behind ours; 0 for a number that needs no training.
        published: The published number.
        published_text: As the paper writes it, with its standard deviation.
        difference: Ours - published.
        difference_low: Lower end of the difference's interval; nan if there is none.
        difference_high: Its upper end.
        verdict: `agrees`, `disagrees`, `inconclusive` or `not comparable`.
        conditions: Differences from the paper's conditions, one sentence each.
        decimals: Number of decimals to show.
        unit: Unit that `seeds` counts; `tasks` if the number is a mean over tasks, each of which
            was trained.
        margin: Largest difference that counts as agreement; nan for numbers that are compared after
            rounding.
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
    margin: float = math.nan

    def cells(self) -> tuple[str, ...]:
        """Row of a table for people."""
        ours = _with_interval(self.ours, self.low, self.high, self.decimals)
        n = str(self.seeds or "")
        if self.seeds and self.unit != "seeds":
            n = f"{self.seeds} {self.unit}"
        gap = _with_interval(
            self.difference, self.difference_low, self.difference_high, self.decimals, sign="+"
        )
        margin = "" if math.isnan(self.margin) else f"±{self.margin:.2f}"
        conditions = "; ".join(self.conditions)
        return (
            self.claim,
            self.place,
            ours,
            n,
            self.published_text,
            gap,
            margin,
            self.verdict,
            conditions,
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON; numbers that are not finite are null."""
        plain = {
            k: None if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in asdict(self).items()
        }
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
    their_ends: tuple[float, float] | None = None,
) -> Judgement:
    """Judge the mean score of our trainings against a published mean.

    Args:
        scores: One score per training.
        number: The published mean.
        claim: Description of the number. Default: the published number's own description.
        conditions: Differences from the paper's conditions.
        comparable: False if an essential condition differs.
        level: Confidence level of the intervals.
        unit: Unit over which the trainings vary: `seeds` or `tasks`.
        their_ends: Interval of the published number over the units that it is a share of. It adds
            to the spread of trainings, which is ours, and replaces a published standard deviation.
    """
    n = len(scores)
    mean = sum(scores) / n if n else math.nan
    if n < 2:
        ends = (math.nan, math.nan)
        return _judgement(
            number, claim, mean, ends, n, (math.nan, math.nan), conditions, comparable, unit
        )
    ours = over_seeds(scores, level)
    if number.sd is None or their_ends is not None:
        gap_low, gap_high = _as_one_more_training(scores, number, level)
    else:
        gap_low, gap_high = _between_means(scores, number, number.sd, level)
    if their_ends is not None:
        gap = mean - number.value
        gap_low = gap - math.hypot(gap - gap_low, their_ends[1] - number.value)
        gap_high = gap + math.hypot(gap_high - gap, number.value - their_ends[0])
    interval = (max(gap_low, -1.0), min(gap_high, 1.0))  # both are shares
    return _judgement(
        number, claim, mean, (ours.low, ours.high), n, interval, conditions, comparable, unit
    )


def _between_means(
    scores: Sequence[float], number: PublishedNumber, published_sd: float, level: float
) -> tuple[float, float]:
    """Interval of the difference from a published mean with a standard deviation: the wider of
    Welch's and the pooled one.
    """
    n, m = len(scores), number.n
    ours = max(stdev(scores), number.rounding)
    theirs = max(published_sd, number.rounding)
    a, b = ours**2 / n, theirs**2 / m
    # The spread of a single number is its standard error over tasks, whose number is not published,
    # so it gets our degrees of freedom.
    their_df = m - 1 if m > 1 else n - 1
    df = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / their_df)
    half = t_quantile(0.5 + level / 2, df) * math.sqrt(a + b)
    if m > 1:
        pooled = ((n - 1) * ours**2 + (m - 1) * theirs**2) / (n + m - 2)
        pooled_half = t_quantile(0.5 + level / 2, n + m - 2) * math.sqrt(pooled * (1 / n + 1 / m))
        half = max(half, pooled_half)
    gap = fmean(scores) - number.value
    return gap - half, gap + half


def _as_one_more_training(
    scores: Sequence[float], number: PublishedNumber, level: float
) -> tuple[float, float]:
    """Interval of the difference from a published number without a standard deviation, which is
    assumed to be ours.

    The only known spread is that of our n scores, so there are n - 1 degrees of freedom.
    """
    n, mean = len(scores), fmean(scores)
    quantile = t_quantile(0.5 + level / 2, n - 1)
    half = quantile * max(stdev(scores), number.rounding) * math.sqrt(1 / n + 1 / number.n)
    low, high = mean - half, mean + half
    if number.n == 1 and min(scores) >= 0 and max(scores) <= 1:
        # The distribution of accuracies near 0 or 1 is skewed, and those of a few seeds are often
        # nearly equal. The arcsine transform stabilises their variance.
        angles = [math.asin(math.sqrt(score)) for score in scores]
        reach = quantile * stdev(angles) * math.sqrt(1 + 1 / n)
        centre = fmean(angles)
        low = min(low, math.sin(max(centre - reach, 0.0)) ** 2)
        high = max(high, math.sin(min(centre + reach, math.pi / 2)) ** 2)
    gap = mean - number.value
    return gap - (mean - low), gap + (high - mean)


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
    """Judge the share of our trainings that succeeded against a published share of `number.n`
    trainings.

    Args:
        hits: Number of our trainings that succeeded.
        n: Number of our trainings.
        number: The published share.
        claim: Description of the number.
        conditions: Differences from the paper's conditions.
        comparable: False if an essential condition differs.
        level: Confidence level of the intervals.
    """
    if n < 2:
        share = hits / n if n else math.nan
        ends = (math.nan, math.nan)
        return _judgement(
            number, claim, share, ends, n, (math.nan, math.nan), conditions, comparable
        )
    share, theirs = hits / n, number.value
    their_ends = clopper_pearson(round(theirs * number.n), number.n, level)
    interval = newcombe(share, clopper_pearson(hits, n, level), theirs, their_ends)
    ends = wilson(hits, n, level)
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
    """Judge a number that has its own interval, such as a slope. The interval of the difference is
    Newcombe's.

    Args:
        value: Our number.
        ends: Ends of its interval; nan if there is none.
        n: Number of trainings behind it.
        number: The published number.
        their_ends: Ends of the published number's interval. If empty, the number is treated as
            exact except for its rounding.
        claim: Description of the number.
        conditions: Differences from the paper's conditions.
        comparable: False if an essential condition differs.
        unit: Unit over which the trainings vary: `seeds` or `tasks`.
    """
    theirs = their_ends or (number.value - number.rounding, number.value + number.rounding)
    interval = newcombe(value, ends, number.value, theirs)
    return _judgement(number, claim, value, ends, n, interval, conditions, comparable, unit)


def judge_number(
    value: float,
    number: PublishedNumber,
    *,
    claim: str = "",
    conditions: Sequence[str] = (),
    tolerance: float = 0.0,
) -> Judgement:
    """Judge a number that needs no training. It agrees if it equals the published one after the
    paper's rounding.

    Args:
        value: Our number.
        number: The published one.
        claim: Description of the number.
        conditions: Differences from the paper's conditions.
        tolerance: Maximum difference that still counts as agreement, for numbers that depend on
            sampling.
    """
    gap = value - number.value
    # The small factor allows for floating-point errors in differences that equal the tolerance.
    close = abs(gap) <= max(number.rounding, tolerance) * (1 + 1e-9)
    return Judgement(
        claim=claim or number.name,
        place=number.place,
        ours=value,
        low=math.nan,
        high=math.nan,
        seeds=0,
        published=number.value,
        published_text=str(number),
        difference=gap,
        difference_low=math.nan,
        difference_high=math.nan,
        verdict=AGREES if close else DISAGREES,
        conditions=tuple(conditions),
        decimals=max(0, number.decimals),
    )


def verdict(low: float, high: float, number: PublishedNumber) -> str:
    """Verdict from the interval of the difference, by the rule at the head of this module."""
    if math.isnan(low) or math.isnan(high):
        return OPEN
    if -number.margin <= low and high <= number.margin:
        return AGREES
    if low > number.rounding or high < -number.rounding:
        return DISAGREES
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
        number.margin,
    )


def _with_interval(value: float, low: float, high: float, decimals: int, sign: str = "") -> str:
    if math.isnan(value):
        return "not measured"
    shown = _rounded(value, decimals, sign)
    return (
        shown
        if math.isnan(low)
        else f"{shown} [{_rounded(low, decimals, sign)}, {_rounded(high, decimals, sign)}]"
    )


def _rounded(value: float, decimals: int, sign: str) -> str:
    """Format a number, without a minus sign if it rounds to zero.

    >>> _rounded(-0.0004, 3, "+"), _rounded(-0.4, 0, ""), _rounded(-0.02, 2, "+")
    ('+0.000', '0', '-0.02')
    """
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}"


def judgement_table(judgements: Iterable[Judgement]) -> ResultTable:
    """Judgements as a table: our number with its interval, the published number, the difference,
    the verdict.
    """
    return ResultTable(COLUMNS, [dict(zip(COLUMNS, j.cells(), strict=True)) for j in judgements])


COLUMNS = (
    "claim",
    "place",
    "ours",
    "seeds",
    "published",
    "difference",
    "margin",
    "verdict",
    "conditions that differ",
)


def short_judgement_table(judgements: Iterable[Judgement]) -> ResultTable:
    """Judgements as a table that fits a page, without conditions and without columns that have the
    same value in all rows.

    Conditions are long and shared by many rows, so they are listed by `differing_conditions`. The
    place is the same in most findings, and numbers that need no training have no seeds.
    """
    judgements = list(judgements)
    table = judgement_table(judgements)
    units = {judgement.unit for judgement in judgements if judgement.seeds}
    # The column is named after its unit if all rows have the same one.
    unit = units.pop() if len(units) == 1 else "seeds"
    rows = [{**row, unit: row["seeds"].removesuffix(f" {unit}")} for row in table]
    shown = [unit if column == "seeds" else column for column in COLUMNS[:-1]]
    unsaid = {"place"} if len({row["place"] for row in rows}) < 2 else set()
    unsaid |= {column for column in (unit, "margin") if not any(row[column] for row in rows)}
    return ResultTable([column for column in shown if column not in unsaid], rows)


CONDITIONS = "Conditions that differ from the paper's:"
"""Heading of `differing_conditions` on pages and in the terminal."""


def differing_conditions(judgements: Sequence[Judgement]) -> list[str]:
    """Conditions that differ from the paper's: first those of all claims, then a line for each set
    that some claims share.
    """
    first = judgements[0].conditions if judgements else ()
    common = [c for c in first if all(c in j.conditions for j in judgements)]
    concerned: dict[tuple[str, ...], list[str]] = {}
    for judgement in judgements:
        if further := tuple(c for c in judgement.conditions if c not in common):
            concerned.setdefault(further, []).append(judgement.claim)
    every = [judgement.claim for judgement in judgements]
    lines = [f"all: {', '.join(common)}"] if common else []
    for conditions, claims in concerned.items():
        lines.append(f"{'; '.join(_joined_claims(claims, every))}: {', '.join(conditions)}")
    return lines


def _joined_claims(claims: Sequence[str], every: Sequence[str]) -> list[str]:
    """Join claims, with one name for all claims about the same thing ('chain, FPT: slope' and
    'chain, FPT: r²' become 'chain, FPT').
    """
    things = {claim: claim.rpartition(": ")[0] for claim in every}
    incomplete = {things[claim] for claim in every if claim not in claims}
    names = []
    for claim in claims:
        thing = things[claim]
        names.append(thing if thing and thing not in incomplete else claim)
    return list(dict.fromkeys(names))
