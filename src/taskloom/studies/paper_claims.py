"""Claims of the paper that need no number of its own: one thing is more than another, or more than a limit."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_task_differences, welch
from taskloom.studies.findings import Finding

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A claim and what we measured of it.

    Attributes:
        text: The claim.
        place: Where the paper has it.
        measure: What is measured.
        value: Our number.
        low: The lower end of its 95 % interval; nan where there is none.
        high: Its upper end.
        limit: The claim holds where the whole interval is above this; below it where `below`.
        below: Whether the claim is that the number is small.
        within: Where this is not 0, the claim is that the number is between its negative and it: two things are alike.
        trainings: Of the side that has fewer; of one the outcome is said of that training. 0 where each task was trained.
    """

    text: str
    place: str
    measure: str
    value: float
    low: float
    high: float
    limit: float = 0.0
    below: bool = False
    within: float = 0.0
    trainings: int = 0

    @property
    def outcome(self) -> str:
        """Return whether it holds: the whole interval is on one side of the limit, or cannot be told."""
        if math.isnan(self.low) or math.isnan(self.high):
            return OPEN
        if self.within:
            holds = -self.within <= self.low and self.high <= self.within
            fails = self.low > self.within or self.high < -self.within
        else:
            above, under = self.low > self.limit, self.high < self.limit
            holds, fails = (under, above) if self.below else (above, under)
        if not holds and not fails:
            return OPEN
        outcome = HOLDS if holds else FAILS
        return f"{outcome} in one training" if self.trainings == 1 else outcome


def claim_table(claims: Iterable[PaperClaim]) -> ResultTable:
    """Return claims as a table."""
    columns = ("claim", "place", "measure", "ours", "outcome")
    rows = []
    for claim in claims:
        form = ".3f" if claim.limit else "+.3f"  # what is held against 0 is a difference
        value, low, high = (f"{round(number, 3) + 0.0:{form}}" for number in (claim.value, claim.low, claim.high))
        interval = "" if math.isnan(claim.low) else f" [{low}, {high}]"
        ours = "not measured" if math.isnan(claim.value) else f"{value}{interval}"
        rows.append(dict(zip(columns, (claim.text, claim.place, claim.measure, ours, claim.outcome), strict=True)))
    return ResultTable(columns, rows)


RULE = (
    "A claim holds where the whole 95 % interval of our number is on its side of the limit, does not hold where it is on the "
    "other, and cannot be told otherwise."
)


def claim_findings(title: str, claims: Iterable[PaperClaim], rule: str = RULE) -> list[Finding]:
    """Return the claims as a finding of their own; none where these runs say nothing about any."""
    table = claim_table(claims)
    return [Finding(f"{title}: the paper's claims", rule, table)] if table else []


def difference_claim(
    text: str,
    place: str,
    measure: str,
    more: Sequence[float],
    less: Sequence[float],
    paired: bool = False,
    within: float = 0.0,
    parts: Sequence[Collection[str]] | None = None,
) -> PaperClaim:
    """Return the claim that the tasks of one group score more than those of another, or than the same ones otherwise.

    Args:
        text: The claim.
        place: Where the paper has it.
        measure: What is measured.
        more: Scores that should be higher, one a task.
        less: Scores that should be lower.
        paired: Whether the scores at one place are of the same task.
        within: Where this is not 0, the claim is that the two differ by no more.
        parts: What each task is made of, where the scores are paired and tasks may share parts.
    """
    nan = math.nan
    if len(more) < 2 or len(less) < 2:
        return PaperClaim(text, place, measure, nan, nan, nan)
    if paired:
        estimate = over_task_differences([a - b for a, b in zip(more, less, strict=True)], parts)
        return PaperClaim(text, place, measure, estimate.mean, estimate.low, estimate.high, within=within)
    result = welch(less, more)
    return PaperClaim(text, place, measure, result.difference, result.low, result.high, within=within)
