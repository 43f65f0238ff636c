"""Accuracy by a trait, crossed with another or with the split: for any runs that kept their predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.runs import Runs
from taskloom.experiments.scored_rows import known_traits
from taskloom.studies import figures
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.seed_scores import count_range
from taskloom.studies.study import StudyError, study


@study(
    "runs/trait-accuracy",
    describe="Accuracy by a trait crossed with another, such as whether training has it, or with the split",
)
def trait_accuracy(runs: Runs, *, trait: str = "", cross: str = "split", split: str = "") -> Finding:
    """Compute the accuracy for each pair of values of two traits, with intervals over seeds and items."""
    if not trait:
        own = [name for name in known_traits(runs) if name not in {*runs.table.column_names, "task", cross}]
        raise StudyError(f"name a trait: trait=NAME; the examples of {runs.store.path} have {', '.join(own) or 'none'}")
    by = list(dict.fromkeys(["recipe", "learner", trait, cross]))
    table = runs.accuracy(by=by, split=split or None)
    # Whatever else tells rows apart: splits, and the settings in which recipes and learners vary.
    apart = [name for name in table.columns[: table.columns.index("mean")] if name not in by]
    rows: list[dict[str, Any]] = [
        {**row, "trainings": _label(row, apart), "x": row[cross], "y": row[trait]}
        for row in table
        if row[trait] is not None and row[cross] is not None
    ]
    if not rows:
        raise StudyError(f"no example has both '{trait}' and '{cross}'")
    data = ResultTable(("trainings", "y", "x", "mean", "low", "high", "n", "seeds"), rows)
    seeds, items = ([row[name] for row in rows] for name in ("seeds", "n"))
    caption = (
        f"Accuracy by {trait} and {cross}: means over {count_range(seeds)} seeds and {count_range(items)} items a cell; intervals "
        "(95 %, over seeds and items) are in the data."
    )
    plot = partial(figures.heat_map, x="x", y="y", value="mean", panel="trainings", xlabel=cross, ylabel=trait)
    shown = ResultTable((*by[:2], *apart, *by[2:], "mean", "low", "high", "n", "seeds"), rows)
    figure = StudyFigure("trait-accuracy", caption, data, plot)
    return Finding(f"Accuracy by {trait} and {cross}", "", shown, (figure,))


def _label(row: Mapping[str, Any], apart: Sequence[str]) -> str:
    """Return what a panel is of: learner and recipe, and whatever else tells rows apart."""
    further = [f"{name.partition('.')[2] or name} {row[name]}" for name in apart if row[name] is not None]
    return ", ".join([str(row["learner"]), str(row["recipe"]), *further])
