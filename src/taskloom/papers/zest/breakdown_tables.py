"""Tables 5 and 6 of ZEST: what is left of the scores with the question alone, or with the passage
alone, and what kinds of errors a model makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taskloom.analysis.finding import Finding
from taskloom.analysis.paper_table import PaperTable, TableCell, wide_table
from taskloom.analysis.published_numbers import published
from taskloom.analysis.seed_scores import seeds_caption
from taskloom.analysis.study import check_split, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.zest.competence_tables import EXPERIMENT, TABLE3, beside, measured, notes_of
from taskloom.papers.zest.directions import ClaimedDirection, directions_finding
from taskloom.papers.zest.experiments import KEPT_TRAITS, PARTS, description_experiments
from taskloom.papers.zest.runs import (
    SCORES,
    SPLITS,
    DescriptionRuns,
    Measure,
    above_constant,
    constant_runs,
    description_runs,
    overall,
    percent,
    tasks_of,
)
from taskloom.suites.zest.evaluation.corrected import MISTAKES
from taskloom.suites.zest.evaluation.score_report import Mode, ScoreReport
from taskloom.suites.zest.task_files import is_structure

NAMES = {
    "both": "full data",
    "question": "question only",
    "context": "context only",
    "none": "nothing",
}
"""The rows of the table; a constant answer needs no input."""


NOT_NA = "answers that are not n/a"

TABLE5 = replace(TABLE3, place="Table 5", name="table5", title="ZEST Table 5")


@study(
    "zest/table5",
    describe="Scores with the question alone and with the passage alone, on dev",
    place="ZEST, Table 5",
    experiment=description_experiments(PARTS),
    traits=KEPT_TRAITS,
)
def table5(runs: Runs, *, mode: Mode = "official", split: str = "dev") -> list[Finding]:
    """Compute Table 5 on a split.

    Args:
        runs: The runs.
        mode: `official`: as the public script evaluates; `corrected`: without its faults.
        split: The split that was answered.
    """
    groups = [
        group
        for group in description_runs(runs, PARTS, mode, totals=True)
        if split in group.reports
    ]
    check_split(runs, split)
    constants = constant_runs(groups, mode)
    constants = [constant for constant in constants if split in constant.reports]
    cells = [cell for group in [*groups, *constants] for cell in _cells(group, split)]
    wide = wide_table(cells, ("model", "input", "seeds", NOT_NA), "score", beside)
    finding = TABLE5.finding(
        cells,
        table=ResultTable(("model", "input", "seeds", *SCORES.values(), NOT_NA), list(wide)),
        text=(
            f"Scores on {split} in percent, mean ± standard deviation over seeds, of models trained"
            " on such inputs; in brackets the paper's, of T5-11B on dev. Constant answers are to"
            " the same tasks."
        ),
        caption=(
            f"Scores on {tasks_of(groups, split)} with all of the input, with half of it, and of"
            f" constant answers. {seeds_caption(len(group.reports[split]) for group in groups)};"
            " diamonds are the paper's numbers."
        ),
        notes=(*notes_of(groups), *_missing(groups)),
    )
    directions = [
        *_directions(groups, split),
        *above_constant(_questions(groups), constants, [split]),
    ]
    return [finding, directions_finding(directions)] if directions else [finding]


def _cells(group: DescriptionRuns, split: str) -> Iterator[TableCell]:
    constant = group.part == "none"
    row = {
        "model": group.model,
        "input": NAMES[group.part],
        "seeds": "" if constant else len(group.reports[split]),
        NOT_NA: percent(group.answered[split].values()),
    }
    for score, head in SCORES.items():
        labels = {"name": group.model if constant else NAMES[group.part], "score": head}
        words = {"input": group.part, "what": score}
        claim = f"{group.model}, {NAMES[group.part]}: {head}"
        yield measured(
            TABLE5, group, split, overall(score), labels, of=words, claim=claim, further=row
        )


def _directions(groups: list[DescriptionRuns], split: str) -> Iterator[ClaimedDirection]:
    """Yield the directions from each half of the input to the whole of it."""
    for whole in (group for group in groups if group.part == "both"):
        for half in (
            group for group in groups if group.part != "both" and group.model == whole.model
        ):
            for score, head in SCORES.items():
                theirs = [
                    published("zest", "Table 5", input=g.part, what=score)[0].value
                    for g in (whole, half)
                ]
                higher, lower = (g.values(split, overall(score)) for g in (whole, half))
                claim = f"{split}: {NAMES['both']} above {NAMES[half.part]}, {head}"
                yield ClaimedDirection(
                    claim, whole.model, theirs[0] - theirs[1], higher, lower, paired=False
                )


def _questions(groups: list[DescriptionRuns]) -> list[DescriptionRuns]:
    """Runs on the question alone, under a name that says so. Table 3 compares those on the whole
    input with constants.
    """
    return [
        replace(group, model=f"{group.model}, question only")
        for group in groups
        if group.part == "question"
    ]


def _missing(groups: list[DescriptionRuns]) -> list[str]:
    lacking = [NAMES[part] for part in PARTS if part not in {group.part for group in groups}]
    return [f"There are no runs of: {', '.join(lacking)}."] if lacking else []


CATEGORIES = {
    "recall": ("recall",),
    "precision": ("precision",),
    "partial": ("partial",),
    "other": ("malformed", "other"),
}
"""The categories of the table, by ours: the paper counts unreadable JSON among the others."""

LOOKED_AT = 100
"""Errors that the paper's authors put into categories."""


TABLE6 = PaperTable(
    paper="zest",
    place="Table 6",
    name="table6",
    title="ZEST Table 6",
    columns=("name", "model", "mean", "low", "high", "seeds", "published"),
    axes={"place": "name", "series": "model", "xlabel": "share of errors"},
)


def share(category: str) -> Measure:
    """Measure of a category: its share of all errors."""

    def measure(report: ScoreReport) -> float | None:
        errors = sum(report.mistakes.values())
        return (
            sum(report.mistakes[kind] for kind in CATEGORIES[category]) / errors if errors else None
        )

    return measure


def unreadable(report: ScoreReport) -> float | None:
    """Share of requested structures that were answered by something that is not JSON."""
    wanted = set()
    for score in report.tasks:
        for place, instance in enumerate(score.task.instances):
            if isinstance(instance.answer, str) and is_structure(instance.answer):
                wanted.add((score.task.id, place))
    broken = sum((i.task, i.index) in wanted and i.mistake == "malformed" for i in report.instances)
    return broken / len(wanted) if wanted else None


@study(
    "zest/table6",
    describe="Categories of errors: n/a for an answer, an answer for n/a, parts of a list, others",
    place="ZEST, Table 6 and section 5.3",
    experiment=EXPERIMENT,
    traits=KEPT_TRAITS,
)
def table6(runs: Runs, *, mode: Mode = "official", split: str = "") -> Finding:
    """Compute Table 6 on a split.

    Args:
        runs: The runs.
        mode: `official`: as the public script evaluates; `corrected`: without its faults.
        split: The split that was answered; test by default, or dev where no run answered test.
    """
    groups = description_runs(runs, mode=mode)
    check_split(runs, split)
    shown = split or next(
        (s for s in reversed(SPLITS) if any(s in g.reports for g in groups)), "dev"
    )
    groups = [group for group in groups if shown in group.reports]
    cells = [cell for group in groups for cell in _error_cells(group, shown)]
    rows = [{**cell.further, "share of errors": beside(cell)} for cell in cells]
    return TABLE6.finding(
        cells,
        table=ResultTable(("model", "error", "what", "share of errors", "errors"), rows),
        text=(
            f"Errors on {shown} by category, in percent of all errors, mean ± standard deviation"
            " over seeds; in brackets the paper's."
        ),
        caption=(
            f"Categories of errors, as shares of all errors on {tasks_of(groups, shown)}."
            f" {{intervals}}; diamonds are the paper's shares of {LOOKED_AT} errors that its"
            " authors looked at."
        ),
        notes=(*notes_of(groups), *_structure_notes(groups, shown)),
    )


def _error_cells(group: DescriptionRuns, split: str) -> Iterator[TableCell]:
    for category, kinds in CATEGORIES.items():
        reports = group.reports[split].values()
        values = group.values(split, share(category))
        row = {
            "model": group.model,
            "error": category,
            "what": "; or ".join(MISTAKES[kind] for kind in kinds),  # type: ignore[index]
            "errors": sum(report.mistakes[kind] for report in reports for kind in kinds),
        }
        yield measured(
            TABLE6,
            group,
            split,
            share(category),
            {"name": category, "model": group.model},
            of={"category": category} if values else {},
            claim=f"{group.model}, {split}: {category}",
            share_of=LOOKED_AT,
            further=row,
        )


def _structure_notes(groups: Sequence[DescriptionRuns], split: str) -> list[str]:
    return [
        f"{group.model}: {percent(group.values(split, unreadable))} % of the structures that are"
        " asked for are answered by something that is not JSON (the paper's model: 1.5 % on test)."
        for group in groups
        if group.values(split, unreadable)
    ]
