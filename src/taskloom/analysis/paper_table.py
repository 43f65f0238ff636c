"""A paper's table or figure as data: what runs are grouped by, what is measured, the unit of
analysis, the published numbers and the margin of agreement.

    TABLE1 = PaperTable(
        paper="ctlpp",
        name="table1",
        title="My Table 1",
        text="Mean ± standard deviation over seeds.",
        group_by={"model": "learner", "variant": "recipe.variant", "split": "split"},
    )

    @study("mine/table1", describe="Accuracy by model, variant and split")
    def table1(runs: Runs) -> Finding:
        return TABLE1.finding(TABLE1.cells(runs))

The names on the left of `group_by` are the words of the published numbers (`of:` in the paper's
published.yaml). Studies that select or combine runs in their own way build their cells with `cell`.
Means, intervals, verdicts, the figure and its caption are computed here. A study that shows more
than its cells passes its own table and notes to `finding`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import (
    Conditions,
    PublishedNumber,
    comparable,
    conditions_of,
    differences,
    published,
)
from taskloom.analysis.verdict import Judgement, judge_mean
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import Estimate, over_seeds, over_tasks, two_way, wilson
from taskloom.experiments.table import Runs

QUESTIONS = "questions"
"""Unit of scores [seeds, questions]: intervals are over both."""

Scores = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TableCell:
    """One measured number of a table.

    Attributes:
        labels: A value for each column that distinguishes cells.
        scores: One score for each unit; empty if nothing was measured.
        conditions: Settings under which the scores were measured.
        number: The published number; None if the paper has none.
        claim: Description of the number, for the list of judgements.
        extra: Differences from the paper's conditions beyond the settings.
        items: Test items behind each score. If given, the interval of a single seed is over them.
        share_of: Number of things that the published number is a share of; 0 if it is the mean of
            a training.
        comparable: False if something beyond the settings makes the published number incomparable.
        further: Further columns of the cell's row in the data of the figure.
    """

    labels: Mapping[str, Any]
    scores: Scores
    conditions: Conditions
    number: PublishedNumber | None = None
    claim: str = ""
    extra: tuple[str, ...] = ()
    items: int = 0
    share_of: int = 0
    comparable: bool = True
    further: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_unit(self) -> list[float]:
        """One score for each seed or task, whatever questions there are."""
        scores = np.asarray(self.scores)
        return list((scores.mean(axis=1) if scores.ndim > 1 else scores).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """The declaration of a paper's table.

    Attributes:
        paper: The paper whose numbers are compared with ours: `dyna-babi`.
        place: Only numbers from this place: `Table 1`. Empty: all places.
        numbers: Published numbers, if the paper has no file here (`paper` is empty).
        unit: Unit of analysis. Scores are one for each of `seeds`, or one for each of `tasks`,
            `pairs` or `compositions`; intervals are over them. Scores of `questions` are [seeds,
            questions].
        margin: Largest difference that counts as agreement. None: that of the published number.
        name: File name of the figure.
        title: Heading of the finding.
        text: Paragraph below the heading.
        group_by: Columns of the table, each with `learner`, `split` or a setting
            (`recipe.variant`). The last is the series of the figure.
        notes: Sentences below the table.
        caption: Caption of the figure. `{intervals}` stands for the sentence on units and
            intervals, `{units}`, `{range}` and `{items}` for numbers of units with and without
            their noun, and of questions.
        columns: Columns of the figure's data. Default: labels, mean, interval, spread, units,
            published number.
        draw: Draws the figure.
        axes: Columns of each part of the figure (`place`, `series`, `panel`, `x`), its labels and
            limits.
        as_drawn: True if the table is the data of the figure.
    """

    paper: str = ""
    place: str = ""
    numbers: tuple[PublishedNumber, ...] = ()
    unit: str = "seeds"
    margin: float | None = None
    name: str = ""
    title: str = ""
    text: str = ""
    group_by: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    caption: str = "{intervals}. Diamonds are the paper's numbers."
    columns: tuple[str, ...] = ()
    draw: Callable[..., Any] = figures.intervals
    axes: Mapping[str, Any] = field(default_factory=dict)
    as_drawn: bool = False

    @property
    def _units(self) -> str:
        """Name of the column with the number of trainings or tasks behind a mean."""
        return "seeds" if self.unit == QUESTIONS else self.unit

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
        scores: Scores,
        conditions: Conditions,
        *,
        of: Mapping[str, Any] | None = None,
        claim: str = "",
        extra: Iterable[str] = (),
        **further: Any,
    ) -> TableCell:
        """A cell with its published number.

        Args:
            labels: A value for each column that distinguishes cells.
            scores: One score for each unit.
            conditions: Settings under which they were measured.
            of: Words by which the published number is looked up. None: the labels. Empty: the paper
                has no number.
            claim: Description of the number. Default: the labels.
            extra: Differences from the paper's conditions beyond the settings.
            **further: Other attributes of the cell.
        """
        words = labels if of is None else of
        number = self._published(words) if words else None
        if number is not None and self.margin is not None:
            number = replace(number, own_margin=self.margin)
        named = claim or ", ".join(map(str, labels.values()))
        return TableCell(labels, scores, conditions, number, named, (*extra,), **further)

    def _published(self, words: Mapping[str, Any]) -> PublishedNumber | None:
        if self.paper:
            numbers = published(self.paper, self.place or None, **words)
        else:
            numbers = [n for n in self.numbers if all(n.of.get(k) == v for k, v in words.items())]
        return numbers[0] if numbers else None

    def points(self, cells: Sequence[TableCell]) -> ResultTable:
        """The data of the figure: means with 95 % intervals over units, beside published
        numbers. Cells without scores are omitted.
        """
        labels = tuple(cells[0].labels) if cells else tuple(self.group_by)
        spread = {"seeds": "sd", QUESTIONS: "n"}.get(self.unit, "se")
        default = (*labels, "mean", "low", "high", spread, self._units, "published")
        rows = []
        for cell in cells:
            if np.size(cell.scores):
                number = cell.number.value if cell.number else None
                own = {**cell.further, **cell.labels, **self.estimate(cell)}
                rows.append({"published": number, **own})
        return ResultTable(self.columns or default, rows)

    def estimate(self, cell: TableCell) -> dict[str, Any]:
        """Mean, ends of the 95 % interval, spread and number of units of a cell."""
        if self.unit == QUESTIONS:
            both = two_way(np.asarray(cell.scores))
            columns = {"mean": both.mean, "low": both.low, "high": both.high}
            return {**columns, "n": both.items, "seeds": both.seeds}
        scores = cell.by_unit
        several = len(scores) > 1
        columns = {"mean": fmean(scores), self.unit: len(scores)}
        if self.unit != "seeds":
            tasks = over_tasks(scores) if several else None
            return {**columns, **interval_columns(tasks), "se": tasks.se if tasks else None}
        if not cell.items:
            return seed_point(scores)
        if several:
            seeds = over_seeds(scores, items=cell.items)
            low, high = seeds.low, seeds.high
        else:
            # One seed says nothing about other seeds, so its interval is over its items.
            low, high = wilson(columns["mean"] * cell.items, cell.items)
        return {**columns, "low": low, "high": high, "n": cell.items}

    def with_interval(self, cell: TableCell) -> str:
        """Mean and 95 % interval of a cell as text; a dash if nothing was measured."""
        if not np.size(cell.scores):
            return "–"
        measured = self.estimate(cell)
        return "{mean:.3f} [{low:.3f}, {high:.3f}]".format(**measured)

    def judgements(self, cells: Iterable[TableCell]) -> list[Judgement]:
        """Verdicts on the cells that have a published number."""
        judgements = []
        for cell in cells:
            number = cell.number
            if number is None:
                continue
            their_ends = None
            if cell.share_of:
                # A share of tasks varies with the tasks as well as with the training.
                their_ends = wilson(number.value * cell.share_of, cell.share_of)
            judgement = judge_mean(
                cell.by_unit,
                number,
                claim=cell.claim,
                conditions=(*differences(number, cell.conditions), *cell.extra),
                comparable=cell.comparable and comparable(number, cell.conditions),
                unit=self._units,
                their_ends=their_ends,
            )
            judgements.append(judgement)
        return judgements

    def figure(self, points: ResultTable, axes: Mapping[str, Any]) -> StudyFigure:
        """The figure of the data, with its caption."""
        # A declaration may leave these columns out of the figure's data.
        counts = [point[self._units] for point in points if self._units in points.columns]
        items = [point["n"] for point in points if "n" in points.columns]
        units = count_of(counts, self._units.removesuffix("s"))
        if self.unit == QUESTIONS:
            intervals = seeds_and_items_caption(counts, items)
        elif self.unit == "seeds":
            intervals = seeds_caption(counts)
        else:
            intervals = f"Means over {units} with 95 % intervals (t over {self.unit})"
        words = {
            "{intervals}": intervals,
            "{units}": units,
            "{range}": count_range(counts),
            "{items}": count_of(items, "question"),
        }
        caption = self.caption
        # Not by `str.format`: a caption may contain the braces of a name.
        for placeholder, text in words.items():
            caption = caption.replace(placeholder, text)
        return StudyFigure(self.name, caption, points, partial(self.draw, **axes))

    def finding(
        self,
        cells: Sequence[TableCell],
        *,
        table: ResultTable | None = None,
        notes: Iterable[str] = (),
        **changes: Any,
    ) -> Finding:
        """Table, figure, verdicts and notes of cells.

        Args:
            cells: The cells. Unless `table` is given or `as_drawn` is set, their labels are the
                columns of `group_by`.
            table: The table, if it does not have a row for each cell.
            notes: Sentences before those that are declared.
            **changes: Attributes of the declaration to replace: `title`, `text`, `caption`.
        """
        if changes:
            return replace(self, **changes).finding(cells, table=table, notes=notes)
        points = self.points(cells)
        figure = self.figure(points, self.axes) if self.axes else self._plain_figure(points)
        if self.as_drawn:
            table = points
        elif table is None:
            table = self._rows(cells)
        judgements = tuple(self.judgements(cells))
        return Finding(self.title, self.text, table, (figure,), judgements, (*notes, *self.notes))

    def _rows(self, cells: Sequence[TableCell]) -> ResultTable:
        """A row for each cell: ours beside the published number."""
        shown = mean_and_sd if self.unit == "seeds" else mean_and_se
        rows = [
            {
                **cell.labels,
                self.unit: len(cell.scores),
                "ours": shown(cell.by_unit),
                "published": str(cell.number or "–"),
            }
            for cell in cells
        ]
        return ResultTable((*self.group_by, self.unit, "ours", "published"), rows)

    def _plain_figure(self, points: ResultTable) -> StudyFigure:
        """The figure of a table that declares no axes: its last column is the series."""
        *places, series = self.group_by
        rows = [{**row, "name": ", ".join(str(row[c]) for c in places)} for row in points]
        named = ResultTable(("name", *points.columns), rows)
        return self.figure(named, {"place": "name", "series": series})


def wide_table(
    cells: Sequence[TableCell],
    down: Sequence[str],
    across: str,
    shown: Callable[[TableCell], str],
) -> ResultTable:
    """A row for each value of the labels `down` and a column for each value of `across`.

    Args:
        cells: The cells, in the order of rows and columns.
        down: Labels, or further columns, of rows.
        across: Label, or further column, whose values are columns.
        shown: The text of a cell. Cells that are not there have a dash.
    """
    columns = [{**cell.further, **cell.labels} for cell in cells]
    heads = list(dict.fromkeys(str(known[across]) for known in columns))
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cell, known in zip(cells, columns, strict=True):
        key = tuple(known[column] for column in down)
        empty = dict.fromkeys(heads, "–")
        row = rows.setdefault(key, {**dict(zip(down, key, strict=True)), **empty})
        row[str(known[across])] = shown(cell)
    return ResultTable((*down, *heads), list(rows.values()))


def table_of(rows: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Build a table with the columns of the first row."""
    return ResultTable(tuple(rows[0]) if rows else (), rows)


SEEDLESS = ("bag-of-words", "majority", "nearest-neighbour", "solver")
"""Deterministic learners. They give the same answers with every seed, which says nothing about how
scores vary.
"""


def repeated_runs(runs: Runs) -> list[list[str]]:
    """Groups of runs that differ in the seed alone, in the order of their first runs. A group of a
    `SEEDLESS` learner has one run.
    """
    kinds: dict[str, list[str]] = {}
    for run in runs:
        group = kinds.setdefault(run.kind, [])
        if not group or run.learner not in SEEDLESS:
            group.append(run.name)
    return list(kinds.values())


def mean_and_sd(scores: Sequence[float]) -> str:
    """Mean ± standard deviation as text.

    >>> mean_and_sd([0.9, 0.8]), mean_and_sd([0.9]), mean_and_sd([])
    ('0.850 ± 0.071', '0.900', '–')
    """
    if not scores:
        return "–"
    mean = statistics.fmean(scores)
    return f"{mean:.3f} ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else f"{mean:.3f}"


def mean_and_se(scores: Sequence[float]) -> str:
    """Mean over tasks ± its standard error as text. Small means are written with an exponent, so
    that they do not read as 0.

    >>> mean_and_se([0.9, 0.8]), mean_and_se([0.9]), mean_and_se([2e-5, 4e-5]), mean_and_se([0.0])
    ('0.850 ± 0.050', '0.900', '3.0e-05 ± 1.0e-05', '0.000')
    """
    mean = statistics.fmean(scores)
    form = ".1e" if 0 < mean < 0.0005 else ".3f"
    return (
        f"{mean:{form}} ± {over_tasks(scores).se:{form}}" if len(scores) > 1 else f"{mean:{form}}"
    )


def seed_point(scores: Sequence[float]) -> dict[str, Any]:
    """Mean of scores with its interval over seeds, as columns of a figure's row. A single score, or
    equal ones, have no interval.
    """
    several = len(scores) > 1
    return {
        "mean": statistics.fmean(scores),
        **interval_columns(over_seeds(scores) if several else None),
        "sd": statistics.stdev(scores) if several else None,
        "seeds": len(scores),
    }


def interval_columns(estimate: Estimate | None) -> dict[str, float | None]:
    """Ends of an interval as columns of a figure's row; None if there is no estimate or no
    interval.
    """
    if estimate is None or math.isnan(estimate.low):
        return {"low": None, "high": None}
    return {"low": estimate.low, "high": estimate.high}


def count_range(counts: Iterable[int]) -> str:
    """Range of numbers of seeds or questions, for a caption. Groups of 0 are omitted.

    >>> count_range([25, 2, 0]), count_range([25, 25]), count_range([3, 1_500]), count_range([])
    ('2 to 25', '25', '3 to 1,500', '0')
    """
    known = sorted({count for count in counts if count}) or [0]
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def count_of(counts: Iterable[int], noun: str) -> str:
    """Numbers with their noun, in the singular for 1.

    >>> count_of([1, 3], "seed"), count_of([1, 1], "seed"), count_of([1_500], "question")
    ('1 to 3 seeds', '1 seed', '1,500 questions')
    """
    numbers = count_range(counts)
    return f"{numbers} {noun}" if numbers == "1" else f"{numbers} {noun}s"


def seeds_caption(counts: Iterable[int]) -> str:
    """Sentence of a caption on seeds and intervals.

    >>> seeds_caption([1, 1]), seeds_caption([1, 3])
    ('One training each, without intervals', 'Means over 1 to 3 seeds with 95 % intervals (t over seeds) where there are several')
    """
    known = [count for count in counts if count]
    if max(known, default=0) < 2:
        return "One training each, without intervals"
    several = " where there are several" if min(known) < 2 else ""
    return f"Means over {count_of(known, 'seed')} with 95 % intervals (t over seeds){several}"


def seeds_and_items_caption(
    seeds: Iterable[int], items: Iterable[int], noun: str = "question"
) -> str:
    """Sentence of a caption on seeds, items and intervals over both. Intervals of a single seed are
    over its items alone.

    >>> seeds_and_items_caption([2], [60, 90])
    'Means over 2 seeds and 60 to 90 questions with 95 % intervals over both'
    >>> seeds_and_items_caption([1], [60], "item")
    'Means over 60 items of one training each, with 95 % intervals over items'
    >>> seeds_and_items_caption([1, 5], [60])
    'Means over 1 to 5 seeds and 60 questions with 95 % intervals over both; of one seed over questions'
    """
    counts = sorted({count for count in seeds if count})
    if not counts or counts[-1] < 2:
        return (
            f"Means over {count_of(items, noun)} of one training each, with 95 % intervals over"
            f" {noun}s"
        )
    of_one = f"; of one seed over {noun}s" if counts[0] == 1 else ""
    both = f"{count_of(counts, 'seed')} and {count_of(items, noun)}"
    return f"Means over {both} with 95 % intervals over both{of_one}"
