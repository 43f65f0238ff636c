"""What a study returns: a table, figures that are drawn from data, and judgements on published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from taskloom.experiments.result_table import ResultTable
from taskloom.studies.judgements import Judgement


@dataclass(frozen=True, slots=True)
class StudyFigure:
    """A figure and the data that it is drawn from, which are saved beside it.

    Attributes:
        name: The stem of its files: `heat-map` is written as `heat-map.svg`, `.pdf` and `.csv`.
        caption: What is shown, with the number of seeds and items, and what intervals are over.
        data: Everything that is drawn.
        draw: From the data to a figure of matplotlib; those of `taskloom.studies.figures`, or your own.
    """

    name: str
    caption: str
    data: ResultTable
    draw: Callable[[ResultTable], Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question.

    Attributes:
        title: What it is about.
        text: What was measured, in a sentence or two.
        table: The numbers.
        figures: Figures, drawn from data.
        judgements: Our numbers beside the published ones.
        notes: What a reader must know before believing it: conditions that differ, too few seeds, what was not measured.
    """

    title: str
    text: str = ""
    table: ResultTable | None = None
    figures: tuple[StudyFigure, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for JSON, with the data of its figures."""
        return {
            "title": self.title,
            "text": self.text,
            "table": self.table.to_dicts() if self.table is not None else [],
            "figures": [{"name": f.name, "caption": f.caption, "data": f.data.to_dicts()} for f in self.figures],
            "judgements": [judgement.to_dict() for judgement in self.judgements],
            "notes": list(self.notes),
        }


def judgement_table(judgements: Iterable[Judgement]) -> ResultTable:
    """Return judgements as a table: ours with its interval, the published number, the difference, the verdict."""
    columns = ("claim", "place", "ours", "seeds", "published", "difference", "verdict", "conditions that differ")
    return ResultTable(columns, [dict(zip(columns, j.cells(), strict=True)) for j in judgements])
