"""Table 5 of ZEST: what is left of the scores with the question alone, or with the passage alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import PublishedNumber, published
from taskloom.analysis.seed_scores import seeds_caption
from taskloom.analysis.settings import check_split
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.zest.competence_tables import beside, judged, notes_of
from taskloom.papers.zest.description_experiments import KEPT_TRAITS, PARTS, description_experiments
from taskloom.papers.zest.description_runs import (
    SCORES,
    DescriptionRuns,
    above_constant,
    constant_runs,
    description_runs,
    overall,
    percent,
    summary,
    tasks_of,
)
from taskloom.papers.zest.directions import ClaimedDirection, directions_finding
from taskloom.suites.zest.evaluation.score_report import Mode

NAMES = {
    "both": "full data",
    "question": "question only",
    "context": "context only",
    "none": "nothing",
}
"""The rows of the table; a constant answer needs no input."""


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
    points = [point for group in [*groups, *constants] for point in _points(group, split)]
    columns = ("name", "score", "mean", "low", "high", "seeds", "published")
    caption = (
        f"Scores on {tasks_of(groups, split)} with all of the input, with half of it, and of constant answers. "
        f"{seeds_caption(len(group.reports[split]) for group in groups)}; diamonds are the paper's numbers."
    )
    plot = partial(figures.intervals, place="name", series="score", xlabel="F1, or share of tasks")
    finding = Finding(
        "ZEST Table 5",
        f"Scores on {split} in percent, mean ± standard deviation over seeds, of models trained on such inputs; in brackets the "
        "paper's, of T5-11B on dev. Constant answers are to the same tasks.",
        ResultTable(
            ("model", "input", "seeds", *SCORES.values(), "answers that are not n/a"),
            [_row(g, split) for g in [*groups, *constants]],
        ),
        (StudyFigure("table5", caption, ResultTable(columns, points), plot),),
        tuple(judgement for group in groups for judgement in _judgements(group, split)),
        (*notes_of(groups), *_missing(groups)),
    )
    directions = [
        *_directions(groups, split),
        *above_constant(_questions(groups), constants, [split]),
    ]
    return [finding, directions_finding(directions)] if directions else [finding]


def _published(group: DescriptionRuns, score: str) -> list[PublishedNumber]:
    return published("zest", "Table 5", input=group.part, what=score)


def _row(group: DescriptionRuns, split: str) -> dict[str, Any]:
    cells = {
        head: beside(percent(group.values(split, overall(score))), _published(group, score))
        for score, head in SCORES.items()
    }
    return {
        "model": group.model,
        "input": NAMES[group.part],
        "seeds": "" if group.part == "none" else len(group.reports[split]),
        **cells,
        "answers that are not n/a": percent(group.answered[split].values()),
    }


def _points(group: DescriptionRuns, split: str) -> Iterator[dict[str, Any]]:
    for score, head in SCORES.items():
        measured = summary(group.values(split, overall(score)))
        number = next((number.value for number in _published(group, score)), None)
        name = group.model if group.part == "none" else NAMES[group.part]
        yield {"name": name, "score": head, **measured, "published": number}


def _judgements(group: DescriptionRuns, split: str) -> Iterator[Judgement]:
    for score, head in SCORES.items():
        claim = f"{group.model}, {NAMES[group.part]}: {head}"
        yield from judged(group, split, overall(score), _published(group, score), claim)


def _directions(groups: list[DescriptionRuns], split: str) -> Iterator[ClaimedDirection]:
    """Yield whether the whole input is worth more than each half of it."""
    for whole in (group for group in groups if group.part == "both"):
        for half in (
            group for group in groups if group.part != "both" and group.model == whole.model
        ):
            for score, head in SCORES.items():
                theirs = [_published(g, score)[0].value for g in (whole, half)]
                higher, lower = (g.values(split, overall(score)) for g in (whole, half))
                claim = f"{split}: {NAMES['both']} above {NAMES[half.part]}, {head}"
                yield ClaimedDirection(
                    claim, whole.model, theirs[0] - theirs[1], higher, lower, paired=False
                )


def _questions(groups: list[DescriptionRuns]) -> list[DescriptionRuns]:
    """Runs on the question alone, under a name that says so. Table 3 compares those on the whole input with constants."""
    return [
        replace(group, model=f"{group.model}, question only")
        for group in groups
        if group.part == "question"
    ]


def _missing(groups: list[DescriptionRuns]) -> list[str]:
    lacking = [NAMES[part] for part in PARTS if part not in {group.part for group in groups}]
    return [f"There are no runs of: {', '.join(lacking)}."] if lacking else []
