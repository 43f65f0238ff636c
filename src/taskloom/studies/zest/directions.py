"""Directions that the paper claims: which of two scores is higher. They can hold for another model and other tasks, where numbers
cannot agree.

A direction holds where the whole 95 % interval (t over seeds) of the difference, seed by seed, is on the paper's side of 0, and
does not hold where it is on the other side; otherwise these seeds cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seed_differences
from taskloom.studies.findings import Finding

COLUMNS = ("direction", "model", "paper", "ours", "seeds", "verdict")


@dataclass(frozen=True, slots=True)
class ClaimedDirection:
    """One score beside another.

    Attributes:
        claim: Which is higher in the paper.
        model: Ours.
        paper: The paper's difference, in points.
        higher: Our scores of what is higher in the paper, by seed.
        lower: Our scores of the other, of the same seeds.
    """

    claim: str
    model: str
    paper: float
    higher: Sequence[float]
    lower: Sequence[float]

    @property
    def verdict(self) -> str:
        """Return whether the direction holds."""
        gaps = [a - b for a, b in zip(self.higher, self.lower, strict=True)]
        if len(gaps) < 2:
            return f"cannot be told from {len(gaps)} seed{'' if len(gaps) == 1 else 's'}"
        estimate = over_seed_differences(gaps)
        if estimate.low > 0:
            return "holds"
        return "does not hold" if estimate.high < 0 else f"cannot be told from {len(gaps)} seeds"

    def row(self) -> dict[str, object]:
        """Return the row of a table, in points of a hundred."""
        gaps = [100 * (a - b) for a, b in zip(self.higher, self.lower, strict=True)]
        mean = sum(gaps) / len(gaps)
        interval = ""
        if len(gaps) > 1:
            estimate = over_seed_differences(gaps)
            interval = f" [{estimate.low:+.1f}, {estimate.high:+.1f}]"
        cells = (self.claim, self.model, f"{100 * self.paper:+.0f}", f"{mean:+.1f}{interval}", len(gaps), self.verdict)
        return dict(zip(COLUMNS, cells, strict=True))


def directions_finding(directions: Sequence[ClaimedDirection]) -> Finding:
    """Return directions as a finding."""
    return Finding(
        "Directions",
        "Differences in points, ours with the 95 % interval over seeds. A direction holds where the whole interval is on the "
        "paper's side of 0.",
        ResultTable(COLUMNS, [d.row() for d in directions if len(d.higher) == len(d.lower) and d.higher]),
    )
