"""Results of a study: a table, figures that are drawn from data, and judgements on published
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.verdict import Judgement
from taskloom.core.tables import paragraph
from taskloom.experiments.result_table import ResultTable


@dataclass(frozen=True, slots=True, repr=False)
class StudyFigure:
    """A figure and the data that it is drawn from, which are saved beside it.

    Attributes:
        name: The stem of its files: `heat-map` is written as `heat-map.svg`, `.pdf` and `.csv`.
        caption: What is shown, with the number of seeds and items, and what intervals are over.
        data: Everything that is drawn.
        draw: From the data to a figure of matplotlib; those of `taskloom.analysis.figures`, or your
            own.
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
        judgements: Our numbers beside the published ones.
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


def judgement_table(judgements: Iterable[Judgement]) -> ResultTable:
    """Judgements as a table: ours with its interval, the published number, the difference, the
    verdict.
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
    """Judgements as a table that fits a page: without conditions, and without columns that are the
    same in all rows.

    Conditions are long and many rows share them: `differing_conditions` has them. The place is the
    same for most findings, and numbers that no training made have no seeds.
    """
    judgements = list(judgements)
    table = judgement_table(judgements)
    units = {judgement.unit for judgement in judgements if judgement.seeds}
    # The column is named after its unit if all rows have the same.
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
    """Claims, with one name in place of all claims about one thing ('chain, FPT: slope' and 'chain,
    FPT: r²' become 'chain, FPT').
    """
    things = {claim: claim.rpartition(": ")[0] for claim in every}
    incomplete = {things[claim] for claim in every if claim not in claims}
    names = []
    for claim in claims:
        thing = things[claim]
        names.append(thing if thing and thing not in incomplete else claim)
    return list(dict.fromkeys(names))
