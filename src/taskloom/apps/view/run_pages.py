"""Pages of run stores: all runs, what is running, one run, its predictions with wrong ones first.

Learning curves are drawn by the template as SVG, from the numbers of `curve_plot`: a page may hold
no script and no style of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from taskloom.apps.view.datasets import inside
from taskloom.apps.view.folders import VanishedError
from taskloom.apps.view.page_templates import render
from taskloom.apps.view.prediction_rows import PredictionRows, ScoreColumns
from taskloom.apps.view.state import chosen_filters, page_start, store_folder, viewed_store
from taskloom.apps.view.stores import StoredRun, ViewedStore, log_end
from taskloom.core.errors import InputError, TaskloomError
from taskloom.experiments.files import CURVES, LOG, PREDICTIONS, read_parquet

PAGE = 50
"""Runs of one page."""

ANSWERS = 25
"""Predictions of one page."""

GROUPS = 300
"""Rows of the table of results; more are left to `taskloom runs show`."""

SHOWS = {"all": "all, wrong first", "wrong": "wrong", "right": "right"}
"""Which predictions are listed."""

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 32
"""Size of a plot of learning curves and its margins, in the units of the viewBox."""

POINTS = 400
"""Points of a line; more than the plot has pixels for are thinned out."""

LINES = 8
"""Lines of a plot: as many as the style sheet has colours for."""


def store(request: Request) -> Response:
    """Show a store: results by recipe, learner and split; its runs, in pages; what is running."""
    folder, viewed = store_folder(request), viewed_store(request)
    runs = viewed.runs()
    text = request.query_params.get("q", "").strip()
    listed = [run for run in runs if _mentions(run, text)] if text else runs
    start = page_start(request, len(listed), PAGE)
    columns, results, problem = _results(viewed)
    return render(
        request,
        "store.html",
        folder=folder,
        runs=listed[start : start + PAGE],
        found=len(listed),
        total=len(runs),
        damaged=[run for run in runs if run.problem],
        start=start,
        page=PAGE,
        q=text,
        columns=columns,
        results=results,
        problem=problem,
        live=viewed.live(),
    )


def live(request: Request) -> Response:
    """Return the part of a store's page that is asked for again and again."""
    return render(
        request, "live.html", folder=store_folder(request), live=viewed_store(request).live()
    )


def _mentions(run: StoredRun, text: str) -> bool:
    scores = run.scores
    parts = (
        run.name,
        scores.get("recipe", ""),
        scores.get("learner", ""),
        *map(str, scores.get("fields", {}).values()),
    )
    return all(any(word.lower() in str(part).lower() for part in parts) for word in text.split())


def _results(viewed: ViewedStore) -> tuple[list[str], list[dict[str, Any]], str]:
    """Return the columns that tell results apart, and a row for each; a sentence where they cannot be computed."""
    try:
        table = viewed.table()
        if not len(table):
            return [], [], ""
        results = viewed.results()
    except TaskloomError as error:
        return [], [], str(error)
    measured = ("mean", "low", "high", "se", "sd", "n", "seeds", "method")
    apart = [c for c in results.columns if c not in measured]
    fixed = {
        c: str(table.table[c][0].as_py()) for c in ("recipe", "learner", "split") if c not in apart
    }
    rows = [{**fixed, **row} for row in results][: GROUPS + 1]
    return [*fixed, *apart], rows, ""


def chosen_run(request: Request, viewed: ViewedStore, key: str = "run") -> StoredRun:
    """Return the run that a query names; raise an error where it is damaged."""
    run = viewed.run(request.query_params.get(key, ""))
    if run.problem:
        raise InputError(run.problem)
    return run


def run(request: Request) -> Response:
    """Show one run: its scores, curves, configuration, machine and log."""
    folder, viewed = store_folder(request), viewed_store(request)
    chosen = chosen_run(request, viewed)
    files = viewed.store()
    try:
        config = files.config(chosen.name)
    except TaskloomError as error:
        config = f"# {error}"
    path = files.folder(chosen.name)
    return render(
        request,
        "run.html",
        folder=folder,
        run=chosen,
        config=config,
        environment=files.environment(chosen.name),
        log=log_end(path / LOG),
        has_predictions=(path / PREDICTIONS).is_file(),
        plots=_plots(viewed, chosen),
    )


def _plots(viewed: ViewedStore, chosen: StoredRun) -> list[CurvePlot]:
    """Return the learning curves of a run: the scores of its splits, and the training loss."""
    path = viewed.store().folder(chosen.name) / CURVES
    if not path.is_file():
        return []
    try:
        rows = read_parquet(inside(viewed.path, path)).to_pylist()
    except TaskloomError:
        return []
    scores: dict[str, list[tuple[float, float]]] = {}
    losses: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for value, lines in ((row["score"], scores), (row["loss"], losses)):
            if value is not None and np.isfinite(value):
                lines.setdefault(str(row["split"]), []).append((float(row["step"]), float(value)))
    plots = [curve_plot("score", scores, low=0.0, high=1.0), curve_plot("loss", losses)]
    return [plot for plot in plots if plot is not None]


def prediction_rows(viewed: ViewedStore, name: str) -> PredictionRows:
    """Return the predictions of a run; raise a `VanishedError` where it kept none."""
    path = viewed.store().folder(name) / PREDICTIONS
    if not path.is_file():
        raise VanishedError("the run kept no predictions; run it with keep: {predictions: true}")
    return PredictionRows(inside(viewed.path, path))


def predictions(request: Request) -> Response:
    """Show the predictions of a run on a split, wrong ones first, with the shares of right answers by trait."""
    folder, viewed = store_folder(request), viewed_store(request)
    chosen = chosen_run(request, viewed)
    rows = prediction_rows(viewed, chosen.name)
    split = chosen_split(request, [chosen])
    text, filters = request.query_params.get("q", "").strip(), chosen_filters(request)
    show = request.query_params.get("show", "all")
    if show not in SHOWS:
        raise InputError(f"'show' is one of {', '.join(SHOWS)}, not '{show[:40]}'")
    columns = rows.columns(split, text, filters)
    order = _ordered(columns, show)
    start = page_start(request, len(order), ANSWERS)
    traits = rows.traits()
    by = request.query_params.get("by", "") or next(iter(traits), "")
    return render(
        request,
        "predictions.html",
        folder=folder,
        run=chosen,
        split=split,
        answers=rows.take(columns.rows[order[start : start + ANSWERS]]),
        n=len(columns.rows),
        wrong=int((~columns.right).sum()),
        listed=len(order),
        start=start,
        page=ANSWERS,
        q=text,
        filters=filters,
        show=show,
        shows=SHOWS,
        traits=traits,
        by=by,
        groups=_by_trait(viewed, chosen, split, by) if by in traits else [],
    )


def _ordered(columns: ScoreColumns, show: str) -> Any:
    """Return the places of the rows that are listed: by score, then by index."""
    places = np.lexsort((columns.index, columns.score))
    if show == "all":
        return places
    return places[columns.right[places] == (show == "right")]


def chosen_split(request: Request, runs: Sequence[StoredRun]) -> str:
    """Return the split that a query names; by default the first that all runs answered."""
    shared = [
        split
        for split in runs[0].scores["splits"]
        if all(split in run.scores["splits"] for run in runs)
    ]
    wanted = request.query_params.get("split", "")
    if wanted and wanted not in shared:
        raise VanishedError(
            f"no split '{wanted[:80]}' was answered; there are {', '.join(shared) or 'none'}"
        )
    if not shared:
        raise VanishedError("no split was answered by both")
    return wanted or shared[0]


def _by_trait(
    viewed: ViewedStore, chosen: StoredRun, split: str, by: str
) -> list[Mapping[str, Any]]:
    """Return the accuracy of a run for each value of a trait, with its interval."""
    try:
        results = viewed.table().where({"run": chosen.name}).accuracy(by=[by], split=split)
    except TaskloomError:
        return []
    return [
        {
            "value": row[by],
            "mean": row["mean"],
            "low": row["low"],
            "high": row["high"],
            "n": row["n"],
        }
        for row in results
    ]


@dataclass(frozen=True, slots=True)
class CurveLine:
    """A line: its name, its points for a polyline, and its last value."""

    name: str
    points: str
    last: float


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """A plot of lines over training steps.

    Attributes:
        title: What is drawn.
        lines: The lines.
        ticks: Values on the vertical axis, with their heights.
        steps: The steps at both ends of the horizontal axis.
    """

    title: str
    lines: list[CurveLine]
    ticks: list[tuple[str, float]]
    steps: tuple[float, float]


def curve_plot(
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    low: float | None = None,
    high: float | None = None,
) -> CurvePlot | None:
    """Return a plot of curves (steps and values); None where there is nothing to draw.

    Args:
        title: What is drawn.
        curves: Points by the name of the line.
        low: The lower end of the vertical axis; the lowest value by default.
        high: The upper end.
    """
    points = [point for curve in curves.values() for point in curve]
    if len({step for step, _ in points}) < 2:  # a line needs two steps
        return None
    steps = [step for step, _ in points]
    values = [value for _, value in points]
    first, last = min(steps), max(steps)
    # Values beyond the wanted ends widen the axis, so that no line leaves the plot.
    bottom = min(values) if low is None else min(low, *values)
    top = max(values) if high is None else max(high, *values)
    span = (top - bottom) or 1.0  # all values equal

    def place(step: float, value: float) -> str:
        x = LEFT + (step - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        return f"{x:.1f},{_height(value, bottom, span):.1f}"

    lines = []
    for name, curve in list(curves.items())[:LINES]:
        ordered = sorted(curve)
        thinned = ordered[:: max(1, len(ordered) // POINTS)]
        lines.append(CurveLine(name, " ".join(place(*point) for point in thinned), ordered[-1][1]))
    ticks = [bottom + span * i / 4 for i in range(5)]
    return CurvePlot(
        title,
        lines,
        [(f"{tick:.3g}", _height(tick, bottom, span)) for tick in ticks],
        (first, last),
    )


def _height(value: float, bottom: float, span: float) -> float:
    return HEIGHT - BOTTOM - (value - bottom) / span * (HEIGHT - TOP - BOTTOM)
