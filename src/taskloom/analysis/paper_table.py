"""A paper's table as data: what runs are grouped by, what is measured, the published numbers and the margin of agreement.

    TABLE1 = PaperTable(
        name="table1", title="My Table 1", text="Mean ± standard deviation over seeds.", paper="ctlpp",
        group_by={"model": "learner", "variant": "recipe.variant", "split": "split"},
    )

    @study("mine/table1", describe="Accuracy by model, variant and split")
    def table1(runs: Runs) -> Finding:
        return TABLE1.finding(TABLE1.cells(runs))

The names on the left of `group_by` are the words of the published numbers (`of:` in the paper's published.yaml). Studies that
choose or combine runs in their own way make their cells by `cell` and take points and judgements from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean, stdev
from typing import Any, Literal

from taskloom.analysis import figures
from taskloom.analysis.conditions import Conditions, comparable, conditions_of, differences
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import PublishedNumber, published
from taskloom.analysis.seed_scores import (
    count_of,
    interval_columns,
    mean_and_sd,
    mean_and_se,
    repeated_runs,
)
from taskloom.analysis.verdict import Judgement, judge_mean
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seeds, over_tasks
from taskloom.experiments.table import Runs


@dataclass(frozen=True, slots=True)
class TableCell:
    """One measured number of a table.

    Attributes:
        labels: Where it stands: a value for each column that tells cells apart.
        scores: One score for each unit; empty if nothing was measured.
        conditions: Settings under which the scores were measured.
        number: The published number; None if the paper has none.
        claim: What the number is of, for the list of judgements.
        extra: Differences from the paper's conditions beyond the settings.
    """

    labels: Mapping[str, Any]
    scores: Sequence[float]
    conditions: Conditions
    number: PublishedNumber | None
    claim: str
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """The declaration of a paper's table.

    Attributes:
        paper: The paper whose numbers stand beside ours: `dyna-babi`.
        place: Only numbers of this place: `Table 1`. Empty: of any.
        unit: Unit of analysis. Scores are one for each seed, or one for each task; intervals are over them.
        margin: Largest difference that counts as agreement. None: that of the published number.
        name: File name of the figure.
        title: Heading of the finding.
        text: Paragraph below the heading.
        group_by: Columns of the table, each with `learner`, `split` or a setting (`recipe.variant`). The last is the series of
            the figure.
        notes: Sentences below the table.
    """

    paper: str
    place: str = ""
    unit: Literal["seeds", "tasks"] = "seeds"
    margin: float | None = None
    name: str = ""
    title: str = ""
    text: str = ""
    group_by: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def cells(self, runs: Runs) -> list[TableCell]:
        """Cells of runs that differ in the seed alone, one for each split that they answered."""
        cells = []
        for names in repeated_runs(runs):
            conditions = conditions_of(runs, names[0])
            for split in runs[names[0]].splits:
                known = {**conditions, "learner": runs[names[0]].learner, "split": split}
                labels = {column: known.get(setting) for column, setting in self.group_by.items()}
                results = [
                    runs[name].splits[split].score for name in names if split in runs[name].splits
                ]
                scores = [score for score in results if score is not None]
                if scores:
                    cells.append(self.cell(labels, scores, conditions))
        return cells

    def cell(
        self,
        labels: Mapping[str, Any],
        scores: Sequence[float],
        conditions: Conditions,
        *,
        of: Mapping[str, Any] | None = None,
        claim: str = "",
        extra: Iterable[str] = (),
    ) -> TableCell:
        """A cell with its published number.

        Args:
            labels: A value for each column that tells cells apart.
            scores: One score for each unit.
            conditions: Settings under which they were measured.
            of: The words that the published number is looked up by. None: the labels. Empty: the paper has no number.
            claim: What the number is of. Default: the labels.
            extra: Differences from the paper's conditions beyond the settings.
        """
        words = labels if of is None else of
        numbers = published(self.paper, self.place or None, **words) if words else []
        number = numbers[0] if numbers else None
        if number is not None and self.margin is not None:
            number = replace(number, own_margin=self.margin)
        return TableCell(
            labels,
            scores,
            conditions,
            number,
            claim or ", ".join(map(str, labels.values())),
            (*extra,),
        )

    def points(self, cells: Sequence[TableCell]) -> ResultTable:
        """The data of the figure: means with 95 % intervals over units, beside published numbers."""
        labels = tuple(cells[0].labels) if cells else tuple(self.group_by)
        spread = "sd" if self.unit == "seeds" else "se"
        columns = (*labels, "mean", "low", "high", spread, self.unit, "published")
        rows = []
        for cell in cells:
            if cell.scores:
                number = cell.number.value if cell.number else None
                rows.append({**cell.labels, **self._estimate(cell.scores), "published": number})
        return ResultTable(columns, rows)

    def _estimate(self, scores: Sequence[float]) -> dict[str, Any]:
        mean, several = fmean(scores), len(scores) > 1
        if self.unit == "tasks":
            tasks = over_tasks(scores) if several else None
            return {
                "mean": mean,
                **interval_columns(tasks),
                "se": tasks.se if tasks else None,
                "tasks": len(scores),
            }
        seeds = over_seeds(scores) if several else None
        return {
            "mean": mean,
            **interval_columns(seeds),
            "sd": stdev(scores) if several else None,
            "seeds": len(scores),
        }

    def judgements(self, cells: Iterable[TableCell]) -> list[Judgement]:
        """Verdicts on the cells that have a published number."""
        return [
            judge_mean(
                cell.scores,
                cell.number,
                claim=cell.claim,
                conditions=(*differences(cell.number, cell.conditions), *cell.extra),
                comparable=comparable(cell.number, cell.conditions),
                unit=self.unit,
            )
            for cell in cells
            if cell.number is not None
        ]

    def finding(self, cells: Sequence[TableCell]) -> Finding:
        """Table, figure, verdicts and notes of cells whose labels are the columns of `group_by`."""
        *places, series = self.group_by
        shown = mean_and_sd if self.unit == "seeds" else mean_and_se
        rows = [
            {
                **c.labels,
                self.unit: len(c.scores),
                "ours": shown(c.scores),
                "published": str(c.number or "–"),
            }
            for c in cells
        ]
        points = self.points(cells)
        named = [
            {**row, "name": ", ".join(str(row[column]) for column in places)} for row in points
        ]
        units = count_of((len(cell.scores) for cell in cells), self.unit.removesuffix("s"))
        caption = f"Means over {units} with 95 % intervals (t over {self.unit}). Diamonds are the paper's numbers."
        plot = partial(figures.intervals, place="name", series=series)
        return Finding(
            self.title,
            self.text,
            ResultTable((*self.group_by, self.unit, "ours", "published"), rows),
            (StudyFigure(self.name, caption, ResultTable(("name", *points.columns), named), plot),),
            tuple(self.judgements(cells)),
            self.notes,
        )
