"""Table 6 of ZEST: what kinds of errors a model makes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import published
from taskloom.analysis.seed_scores import seeds_caption
from taskloom.analysis.settings import check_split
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.zest.competence_tables import EXPERIMENT, beside, judged, notes_of
from taskloom.papers.zest.description_experiments import KEPT_TRAITS
from taskloom.papers.zest.description_runs import (
    SPLITS,
    DescriptionRuns,
    Measure,
    description_runs,
    percent,
    summary,
    tasks_of,
)
from taskloom.suites.zest.evaluation.corrected import MISTAKES
from taskloom.suites.zest.evaluation.score_report import Mode, ScoreReport
from taskloom.suites.zest.task_files import is_structure

CATEGORIES = {
    "recall": ("recall",),
    "precision": ("precision",),
    "partial": ("partial",),
    "other": ("malformed", "other"),
}
"""The categories of the table, by ours: the paper counts unreadable JSON among the others."""

LOOKED_AT = 100
"""Errors that the paper's authors put into categories."""


def share(category: str) -> Measure:
    """Return the measure of a category: its share of all errors."""

    def measure(report: ScoreReport) -> float | None:
        errors = sum(report.mistakes.values())
        return (
            sum(report.mistakes[kind] for kind in CATEGORIES[category]) / errors if errors else None
        )

    return measure


def unreadable(report: ScoreReport) -> float | None:
    """Return the share of structures that are asked for and answered by something that is not JSON."""
    wanted = {
        (score.task.id, place)
        for score in report.tasks
        for place, instance in enumerate(score.task.instances)
        if isinstance(instance.answer, str) and is_structure(instance.answer)
    }
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
    rows, points = [], []
    judgements: list[Judgement] = []
    for group in groups:
        for category in CATEGORIES:
            values = group.values(shown, share(category))
            numbers = published("zest", "Table 6", category=category)
            rows.append({"model": group.model, **_row(group, shown, category)})
            number = numbers[0].value if numbers else None
            points.append(
                {"name": category, "model": group.model, **summary(values), "published": number}
            )
            claim = f"{group.model}, {shown}: {category}"
            judgements += judged(group, shown, share(category), numbers, claim, share_of=LOOKED_AT)
    return Finding(
        "ZEST Table 6",
        f"Errors on {shown} by category, in percent of all errors, mean ± standard deviation over seeds; in brackets the paper's.",
        ResultTable(("model", "error", "what", "share of errors", "errors"), rows),
        (_figure(points, tasks_of(groups, shown)),),
        tuple(judgements),
        (*notes_of(groups), *_structure_notes(groups, shown)),
    )


def _row(group: DescriptionRuns, split: str, category: str) -> dict[str, Any]:
    counts = [
        sum(r.mistakes[kind] for kind in CATEGORIES[category])
        for r in group.reports[split].values()
    ]
    return {
        "error": category,
        "what": "; or ".join(MISTAKES[kind] for kind in CATEGORIES[category]),  # type: ignore[index]
        "share of errors": beside(
            percent(group.values(split, share(category))),
            published("zest", "Table 6", category=category),
        ),
        "errors": sum(counts),
    }


def _figure(points: list[dict[str, Any]], where: str) -> StudyFigure:
    columns = ("name", "model", "mean", "low", "high", "seeds", "published")
    caption = (
        f"Categories of errors, as shares of all errors on {where}. {seeds_caption(point['seeds'] for point in points)}; diamonds "
        f"are the paper's shares of {LOOKED_AT} errors that its authors looked at."
    )
    plot = partial(figures.intervals, place="name", series="model", xlabel="share of errors")
    return StudyFigure("table6", caption, ResultTable(columns, points), plot)


def _structure_notes(groups: Sequence[DescriptionRuns], split: str) -> list[str]:
    return [
        f"{group.model}: {percent(group.values(split, unreadable))} % of the structures that are asked for are answered by "
        "something that is not JSON (the paper's model: 1.5 % on test)."
        for group in groups
        if group.values(split, unreadable)
    ]
