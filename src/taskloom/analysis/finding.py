"""Results of a study: a table, figures drawn from data, judgements on published numbers, and
claims.

A claim of a paper needs no published number. It may state that one quantity is larger than another,
or larger than a limit. All claims of one table that have an interval form one family. Their
p-values are corrected together by Holm's method, so that the probability of any false "holds" or
"does not hold" in the table is at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.verdict import Judgement, judgement_table
from taskloom.core.tables import paragraph
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import holm, over_task_differences, welch
from taskloom.experiments.statistics.distributions import t_quantile, t_two_sided
from taskloom.experiments.statistics.intervals import LEVEL


@dataclass(frozen=True, slots=True, repr=False)
class StudyFigure:
    """A figure and the data that it is drawn from, which are saved next to it.

    Attributes:
        name: Stem of its files: `heat-map` is written as `heat-map.svg`, `.pdf` and `.csv`.
        caption: Description of what is shown, with the numbers of seeds and items and the unit of
            intervals.
        data: Everything that is drawn.
        draw: Function that draws the data as a matplotlib figure, one of
            `taskloom.analysis.figures` or your own.
    """

    name: str
    caption: str
    data: ResultTable
    draw: Callable[[ResultTable], Any]

    def __repr__(self) -> str:
        return f"<StudyFigure {self.name}: {self.caption}>"

    def _repr_html_(self) -> str:
        return figures.image(self.draw(self.data), self.caption) + paragraph(self.caption)


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """The answer to one question.

    Attributes:
        title: Title.
        text: What was measured, in a sentence or two.
        table: The numbers.
        figures: Figures, drawn from data.
        judgements: Our numbers compared with the published ones.
        notes: Caveats: conditions that differ, too few seeds, things that were not measured.
    """

    title: str
    text: str = ""
    table: ResultTable | None = None
    figures: tuple[StudyFigure, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        parts = [f"{len(self.table)} rows"] if self.table is not None else []
        parts += [f"{len(self.figures)} figures"] if self.figures else []
        parts += [f"{len(self.judgements)} judgements"] if self.judgements else []
        return f"<Finding '{self.title}': {', '.join(parts) or 'no numbers'}>"

    def _repr_html_(self) -> str:
        parts = [paragraph(self.title, strong=True)]
        if self.text:
            parts.append(paragraph(self.text))
        if self.table is not None:
            parts.append(self.table._repr_html_())
        if self.judgements:
            parts.append(judgement_table(self.judgements)._repr_html_())
        parts += [figure._repr_html_() for figure in self.figures]
        parts += [paragraph(note) for note in self.notes]
        return "".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """The finding for JSON, with the data of its figures."""
        return {
            "title": self.title,
            "text": self.text,
            "table": self.table.to_dicts() if self.table is not None else [],
            "figures": [
                {"name": f.name, "caption": f.caption, "data": f.data.to_dicts()}
                for f in self.figures
            ],
            "judgements": [judgement.to_dict() for judgement in self.judgements],
            "notes": list(self.notes),
        }


HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive"

ALPHA = 1 - LEVEL
"""Maximum probability of any false outcome in a table of claims."""


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A claim of a paper and our measurement of it.

    Attributes:
        text: The claim.
        place: Its place in the paper.
        measure: The measured quantity.
        value: Our number.
        low: The lower end of its 95 % interval; nan if there is none.
        high: Its upper end.
        limit: The claim holds if the whole interval is above this limit, or below it if `below` is
            true.
        below: True if the claim is that the number is small.
        within: If not 0, the claim is that the number is between `-within` and `within`, that is,
            that two quantities are about equal.
        trainings: Number of trainings on the side with fewer. Outcomes of a single training are
            marked. 0 if each task was trained separately.
        df: Degrees of freedom of the interval, for the p-value; infinite for a normal one.
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
    df: float = math.inf

    @property
    def measured(self) -> bool:
        """True if there is an interval."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def side(self) -> str:
        """Outcome by the 95 % interval alone: HOLDS or FAILS if it is entirely on one side of the
        limit, otherwise OPEN.
        """
        if not self.measured:
            return OPEN
        if self.within:
            holds = -self.within <= self.low and self.high <= self.within
            fails = self.low > self.within or self.high < -self.within
        else:
            above, under = self.low > self.limit, self.high < self.limit
            holds, fails = (under, above) if self.below else (above, under)
        if holds:
            return HOLDS
        return FAILS if fails else OPEN

    @property
    def p(self) -> float:
        """Two-sided p-value of the claim or of its opposite. It is at most 0.05 exactly when the
        whole interval is on one side.
        """
        if self.within:
            # Two one-sided tests: inside, the larger p counts; outside, the smaller one.
            both = [self._p_against(self.within), self._p_against(-self.within)]
            return max(both) if abs(self.value) <= self.within else min(both)
        return self._p_against(self.limit)

    def _p_against(self, limit: float) -> float:
        """Two-sided p-value of the number against a limit, computed from the half of the interval
        on the limit's side.
        """
        half = self.value - self.low if limit < self.value else self.high - self.value
        if half <= 0:
            return 1.0 if self.value == limit else 0.0
        return t_two_sided(
            (self.value - limit) / half * t_quantile(0.5 + LEVEL / 2, self.df), self.df
        )

    def outcome(self, corrected_p: float = 0.0) -> str:
        """Outcome of the claim: it holds if the interval is on its side and the p-value, corrected
        for the family, is small enough.
        """
        if self.side == OPEN or corrected_p > ALPHA:
            return OPEN
        return f"{self.side} in one training" if self.trainings == 1 else self.side


def claim_table(claims: Iterable[PaperClaim]) -> ResultTable:
    """Claims as a table: one family, corrected by Holm."""
    claims = list(claims)
    family = [claim for claim in claims if claim.measured]
    corrected = (
        dict(zip(map(id, family), holm([claim.p for claim in family]).tolist(), strict=True))
        if family
        else {}
    )
    columns = ("claim", "place", "measure", "ours", "corrected p", "outcome")
    rows = []
    for claim in claims:
        form = ".3f" if claim.limit else "+.3f"  # numbers with the limit 0 are differences
        value, low, high = (
            f"{round(number, 3) + 0.0:{form}}" for number in (claim.value, claim.low, claim.high)
        )
        interval = f" [{low}, {high}]" if claim.measured else ""
        ours = "not measured" if math.isnan(claim.value) else f"{value}{interval}"
        p = corrected.get(id(claim), math.nan)
        shown_p = "" if math.isnan(p) else _p_text(p)
        cells = (claim.text, claim.place, claim.measure, ours, shown_p, claim.outcome(p))
        rows.append(dict(zip(columns, cells, strict=True)))
    return ResultTable(columns, rows)


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


RULE = (
    "A claim holds if the whole 95 % interval of our number is on its side of the limit, and does"
    " not hold if it is on the other. Its p-value must also be at most 0.05 after Holm's correction"
    " for all claims of this table that have an interval. Otherwise the outcome is inconclusive."
)


def claim_findings(title: str, claims: Iterable[PaperClaim], rule: str = RULE) -> list[Finding]:
    """Claims as a separate finding. Empty if these runs address none of them."""
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
    """Claim that the tasks of one group score higher than those of another, or than the same tasks
    under another condition.

    Args:
        text: The claim.
        place: Its place in the paper.
        measure: The measured quantity.
        more: Scores that should be higher, one per task.
        less: Scores that should be lower.
        paired: True if the scores at one position are of the same task.
        within: If not 0, the claim is that the two differ by at most this.
        parts: Parts of each task, if the scores are paired and tasks may share parts.
    """
    nan = math.nan
    if len(more) < 2 or len(less) < 2:
        return PaperClaim(text, place, measure, nan, nan, nan)
    if paired:
        estimate = over_task_differences([a - b for a, b in zip(more, less, strict=True)], parts)
        interval = (estimate.mean, estimate.low, estimate.high)
        return PaperClaim(text, place, measure, *interval, within=within, df=estimate.df)
    result = welch(less, more)
    interval = (result.difference, result.low, result.high)
    return PaperClaim(text, place, measure, *interval, within=within, df=result.df)
