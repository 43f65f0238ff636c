"""How long does a learner take to become competent? From the learning curves of any runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.conditions import run_labels
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.seed_scores import seed_point, seeds_caption
from taskloom.analysis.settings import ShareSetting, check_choice
from taskloom.analysis.small_recipes import any_recipe_experiments
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs

Curve = dict[int, float]
"""Score by step."""


@study(
    "runs/learning-steps",
    describe="Steps until a learner reaches a threshold on each split, seed by seed",
    experiment=any_recipe_experiments,
)
def learning_steps(runs: Runs, *, threshold: ShareSetting = 0.95, split: str = "") -> Finding:
    """Find the first step at which each seed reaches the threshold.

    Args:
        runs: Runs with learning curves.
        threshold: The score that is to be reached.
        split: Only this split; by default all but training.
    """
    labels = run_labels(runs)
    curves: dict[tuple[str, str], dict[str, Curve]] = {}
    measured = [point for point in runs.curves().to_pylist() if point["score"] is not None]
    if split and measured:
        check_choice(runs, "split", split, (point["split"] for point in measured))
    for point in measured:
        if split in ("", point["split"]) and (split or point["split"] != "train"):
            group = (labels[point["run"]], point["split"])
            curves.setdefault(group, {}).setdefault(point["run"], {})[point["step"]] = point[
                "score"
            ]
    if not curves:
        raise StudyError(f"{runs.path} has no learning curves; set evaluate_every in the learners")
    rows = [_row(*group, seeds, threshold) for group, seeds in curves.items()]
    columns = ("trainings", "split", "seeds", "reached", "first", "median", "last")
    points = [p for group, seeds in curves.items() for p in _points(*group, seeds)]
    data = ResultTable(("trainings", "split", "step", "mean", "low", "high", "seeds"), points)
    caption = (
        f"Score by training step. {seeds_caption(len(seeds) for seeds in curves.values())}; the"
        f" dashed line is the threshold, {threshold:g}."
    )
    plot = partial(
        figures.lines,
        x="step",
        series="split",
        panel="trainings",
        xlabel="training steps",
        ylabel="score",
        threshold=threshold,
    )
    return Finding(
        "Steps to competence",
        f"The first measured step with a score of at least {threshold:g}, by seed: the earliest,"
        " the median and the last of those that reach it. A seed that reaches it and falls again"
        " has reached it.",
        ResultTable(columns, rows),
        (StudyFigure("learning-steps", caption, data, plot),),
    )


def first_step(curve: Curve, threshold: float) -> int | None:
    """Return the first step whose score reaches the threshold; None where none does.

    >>> first_step({100: 0.5, 200: 0.97, 300: 0.9}, 0.95)
    200
    """
    return next((step for step in sorted(curve) if curve[step] >= threshold), None)


def _row(trainings: str, split: str, seeds: dict[str, Curve], threshold: float) -> dict[str, Any]:
    firsts = [
        step for curve in seeds.values() if (step := first_step(curve, threshold)) is not None
    ]
    return {
        "trainings": trainings,
        "split": split,
        "seeds": len(seeds),
        "reached": len(firsts),
        **step_columns(firsts),
    }


def step_columns(firsts: Sequence[int]) -> dict[str, int | None]:
    """Return the earliest, the median and the last of some steps, as the columns of a table's row.

    >>> step_columns([300, 100, 500]), step_columns([])
    ({'first': 100, 'median': 300, 'last': 500}, {'first': None, 'median': None, 'last': None})
    """
    median = round(statistics.median(firsts)) if firsts else None
    return {"first": min(firsts, default=None), "median": median, "last": max(firsts, default=None)}


def _points(trainings: str, split: str, seeds: dict[str, Curve]) -> Iterator[dict[str, Any]]:
    """Yield the mean curve; where seeds stop early it ends with the first that stops, since it
    would jump to the others.
    """
    for step in sorted(set.intersection(*(set(curve) for curve in seeds.values()))):
        scores = [curve[step] for curve in seeds.values()]
        yield {"trainings": trainings, "split": split, "step": step, **seed_point(scores)}
