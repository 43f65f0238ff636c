"""Directions that the paper claims: which of two scores is higher. They can hold for another model and other tasks, where numbers
cannot agree.

A direction holds where the whole 95 % interval of the difference over seeds is on the paper's side of 0, and does not hold where it
is on the other side; otherwise these seeds cannot tell. Seeds all answer the same tasks. Where the two scores are of tasks of two
kinds, a claim about the kinds needs the interval over tasks as well: without it the direction is that of these tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seed_differences, welch
from taskloom.studies.findings import Finding

COLUMNS = ("direction", "model", "paper", "ours", "over tasks", "seeds", "verdict")

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ClaimedDirection:
    """One score beside another.

    Attributes:
        claim: Which is higher in the paper.
        model: Ours.
        paper: The paper's difference; None where it does not have these scores.
        higher: Our scores of what is higher in the paper, by seed.
        lower: Our scores of the other.
        paired: Whether both are of the same seeds, one by one; else the seeds have nothing to do with each other.
        tasks: The ends of the difference's interval over tasks; None where it is not of two kinds of tasks.
    """

    claim: str
    model: str
    paper: float | None
    higher: Sequence[float]
    lower: Sequence[float]
    paired: bool = True
    tasks: Ends | None = None

    @property
    def ends(self) -> Ends:
        """Return the ends of the difference's interval over seeds; nan where there are too few."""
        if min(len(self.higher), len(self.lower)) < 2:
            return math.nan, math.nan
        if self.paired:
            own = over_seed_differences([a - b for a, b in zip(self.higher, self.lower, strict=True)])
            return own.low, own.high
        result = welch(self.lower, self.higher)
        return result.low, result.high

    @property
    def seeds(self) -> str:
        """Return how many seeds there are, of both sides where they differ."""
        more, fewer = len(self.higher), len(self.lower)
        return str(more) if more == fewer else f"{more} and {fewer}"

    @property
    def verdict(self) -> str:
        """Return whether the direction holds."""
        low, high = self.ends
        if not (low > 0 or high < 0):
            return f"cannot be told from {self.seeds} seed{'' if self.seeds == '1' else 's'}"
        outcome = "holds" if low > 0 else "does not hold"
        of_tasks = self.tasks is None or (self.tasks[0] > 0 if low > 0 else self.tasks[1] < 0)
        return outcome if of_tasks else f"{outcome} on these tasks"

    def row(self) -> dict[str, object]:
        """Return the row of a table, in points of a hundred."""
        gap = sum(self.higher) / len(self.higher) - sum(self.lower) / len(self.lower)
        paper = "not published" if self.paper is None else f"{100 * self.paper:+.0f}"
        tasks = "" if self.tasks is None else _points(self.tasks).strip()
        cells = (
            self.claim,
            self.model,
            paper,
            f"{100 * gap:+.1f}{_points(self.ends)}",
            tasks,
            self.seeds,
            self.verdict,
        )
        return dict(zip(COLUMNS, cells, strict=True))


def _points(ends: Ends) -> str:
    return "" if math.isnan(ends[0]) else f" [{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]"


def directions_finding(directions: Sequence[ClaimedDirection]) -> Finding:
    """Return directions as a finding."""
    shown = [d for d in directions if d.higher and d.lower]
    of_tasks = any(d.tasks is not None for d in shown)
    text = (
        "Differences in points, ours with the 95 % interval over seeds. A direction holds where the whole interval is on the "
        "paper's side of 0"
    )
    rest = (
        ", and that over tasks, of the mean over seeds, as well; where only the first is, it holds on these tasks."
        if of_tasks
        else "."
    )
    columns = tuple(column for column in COLUMNS if of_tasks or column != "over tasks")
    return Finding("Directions", text + rest, ResultTable(columns, [d.row() for d in shown]))
