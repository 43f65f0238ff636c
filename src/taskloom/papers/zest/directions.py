"""Directions, that is, which of two scores is higher. They can hold even for another model and
other tasks, whose numbers cannot agree with the paper's.

A direction holds if the difference over seeds is on the paper's side of 0 with a p-value of at most
0.05 after Holm's correction over the directions of one table. It does not hold if the difference is
as clearly on the other side, and is inconclusive otherwise. All seeds answer the same tasks. If the
two scores belong to different tasks, or to a model and a constant answer, a claim beyond these
tasks also needs the interval over tasks. Without it, the direction only holds on these tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from taskloom.analysis.finding import Finding
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import holm, over_seed_differences, welch
from taskloom.experiments.statistics.distributions import t_two_sided

COLUMNS = ("direction", "model", "paper", "ours", "p", "over tasks", "seeds", "verdict")

ALPHA = 0.05
"""Significance level of a direction, after Holm's correction over its table."""

INCONCLUSIVE = "inconclusive"
BUILT_IN = "built into the score"

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ClaimedDirection:
    """A comparison of two scores.

    Attributes:
        claim: The side that is higher in the paper, as text.
        model: Our model.
        paper: The paper's difference. None if the paper does not report these scores.
        higher: Our scores of the side that is higher in the paper, by seed.
        lower: Our scores of the other side, by seed.
        paired: True if both sides have the same seeds, in the same order; otherwise the seeds are
            independent.
        tasks: Ends of the difference's interval over tasks. None if the difference is not between
            tasks.
        built_in: True if the second score is below the first by definition. Such a direction is not
            tested.
    """

    claim: str
    model: str
    paper: float | None
    higher: Sequence[float]
    lower: Sequence[float]
    paired: bool = True
    tasks: Ends | None = None
    built_in: bool = False

    @property
    def gap(self) -> float:
        """Difference of the two means."""
        return sum(self.higher) / len(self.higher) - sum(self.lower) / len(self.lower)

    @property
    def test(self) -> tuple[float, float, float]:
        """Ends of the difference's 95 % interval over seeds, and its p-value. NaN, NaN and 1 if
        there are too few seeds.
        """
        if min(len(self.higher), len(self.lower)) < 2:
            return math.nan, math.nan, 1.0
        if not self.paired:
            result = welch(self.lower, self.higher)
            return result.low, result.high, 1.0 if math.isnan(result.p) else result.p
        own = over_seed_differences([a - b for a, b in zip(self.higher, self.lower, strict=True)])
        if math.isnan(own.low):  # equal differences have no variance to test with
            return math.nan, math.nan, 1.0
        return own.low, own.high, t_two_sided(own.mean / own.se, own.df)

    @property
    def seeds(self) -> str:
        """Number of seeds, or the numbers of both sides if they differ."""
        more, fewer = len(self.higher), len(self.lower)
        return str(more) if more == fewer else f"{more} and {fewer}"

    def verdict(self, p: float) -> str:
        """Verdict on the direction.

        Args:
            p: Its p-value over seeds, corrected.
        """
        if self.built_in:
            return BUILT_IN
        if p > ALPHA:
            return INCONCLUSIVE
        above = self.gap > 0
        outcome = "holds" if above else "does not hold"
        if self.tasks is None:
            return outcome
        over_tasks = self.tasks[0] > 0 if above else self.tasks[1] < 0
        return outcome if over_tasks else f"{outcome} on these tasks"

    def row(self, p: float) -> dict[str, object]:
        """Row of a table, in percentage points.

        Args:
            p: Its p-value over seeds, after correction.
        """
        low, high, _ = self.test
        return {
            "direction": self.claim,
            "model": self.model,
            "paper": "not published" if self.paper is None else f"{100 * self.paper:+.0f}",
            "ours": f"{100 * self.gap:+.1f}{_points((low, high))}",
            "p": None if self.built_in else p,
            "over tasks": "" if self.tasks is None else _points(self.tasks).strip(),
            "seeds": self.seeds,
            "verdict": self.verdict(p),
        }


def _points(ends: Ends) -> str:
    return "" if math.isnan(ends[0]) else f" [{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]"


def directions_finding(
    directions: Sequence[ClaimedDirection], title: str = "Directions"
) -> Finding:
    """Build a finding from directions, with p-values corrected over all of them."""
    shown = [d for d in directions if d.higher and d.lower]
    tested = [d for d in shown if not d.built_in]
    corrected = (
        dict(zip(map(id, tested), holm([d.test[2] for d in tested]).tolist(), strict=True))
        if tested
        else {}
    )
    has_tasks = any(d.tasks is not None for d in shown)
    sentences = [
        (
            "Differences in points, ours with the 95 % interval over seeds, which all answer the"
            " same tasks."
        ),
        (
            f"p is two-sided over seeds, with Holm's correction for the {len(tested)} directions"
            " that are tested in this table."
        ),
        f"A direction holds if the difference is above 0 with p ≤ {ALPHA:g}.",
    ]
    if has_tasks:
        sentences.append(
            "If the interval over tasks (of the mean over seeds) includes 0, it holds on these"
            " tasks only."
        )
    if any(d.built_in for d in shown):
        sentences.append(
            "Differences that are built into the score are not tested: a paraphrase or flip counts"
            " with the smaller of its own F1 and its base task's."
        )
    columns = tuple(column for column in COLUMNS if has_tasks or column != "over tasks")
    rows = [d.row(corrected.get(id(d), 1.0)) for d in shown]
    return Finding(title, " ".join(sentences), ResultTable(columns, rows))
