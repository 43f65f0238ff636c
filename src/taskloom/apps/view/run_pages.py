"""Pages of run stores: all runs, running jobs, a single run, and its predictions with wrong ones
first. Learning curves are the same as in reports, with the same colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from taskloom.analysis.panels import Curve, curve_panel
from taskloom.analysis.plot_style import colour_of
from taskloom.apps.view.datasets import open_dataset
from taskloom.apps.view.folders import VanishedError
from taskloom.apps.view.page_templates import plain, render, trait_order
from taskloom.apps.view.prediction_rows import (
    PredictionRows,
    ScoreColumns,
    ScoredAnswer,
    lit_story,
)
from taskloom.apps.view.state import (
    chosen_filters,
    page_start,
    state_of,
    store_folder,
    viewed_store,
)
from taskloom.apps.view.stores import ViewedStore, log_end
from taskloom.core.errors import InputError, TaskloomError
from taskloom.experiments.files import CURVE_COLUMNS
from taskloom.experiments.record import Run
from taskloom.experiments.statistics import wilson
from taskloom.experiments.table import Runs

PAGE = 50
"""Runs per page."""

ANSWERS = 8
"""Predictions per page."""

GROUPS = 300
"""Maximum rows of the results table. `taskloom runs show` prints longer ones."""

SHOWS = {"all": "all, wrong first", "wrong": "wrong", "right": "right"}
"""Filters for predictions, with their labels."""

POINTS = 400
"""Maximum points of a line. Longer curves are thinned out, because the plot has no more pixels."""

LINES = 8
"""Maximum lines of a plot, which is the number of colours."""

NAME = 60
"""Maximum characters of a line's name."""

MOST_DATASETS = 50
"""Maximum datasets that are searched for that of a run."""


def store(request: Request) -> Response:
    """Show a store: results by recipe, learner and split, its runs in pages, and running jobs."""
    folder, viewed = store_folder(request), viewed_store(request)
    runs, damaged = viewed.runs(), viewed.damaged()
    text = request.query_params.get("q", "").strip()
    rows = [_run_row(viewed, run) for run in runs if not text or _mentions(run, text)]
    listed = _sorted(rows, request.query_params.get("runs_sort", ""))
    start = page_start(request, len(listed), PAGE)
    columns, measures, results, problem = _results(viewed)
    return render(
        request,
        "store.html",
        folder=folder,
        runs=listed[start : start + PAGE],
        heads=_heads(rows),
        found=len(listed),
        total=len(runs) + len(damaged),
        damaged=list(damaged.values()),
        start=start,
        page=PAGE,
        q=text,
        columns=columns,
        measures=measures,
        results=_sorted(results, request.query_params.get("sort", "")),
        result_heads=_heads(results),
        problem=problem,
        live=viewed.live(),
    )


def live(request: Request) -> Response:
    """Return the part of a store's page that is refreshed continually."""
    return render(
        request, "live.html", folder=store_folder(request), live=viewed_store(request).live()
    )


def _mentions(run: Run, text: str) -> bool:
    """True if every word of a search occurs in the run's digest, recipe, learner or fields."""
    values = [run.name, run.recipe, run.learner, *map(str, run.fields.values())]
    searched = "\n".join(values).lower()
    return all(word in searched for word in text.lower().split())


def _run_row(viewed: ViewedStore, run: Run) -> dict[str, Any]:
    """A run as a row of a table that can be sorted."""
    finished = viewed.store().finished_at(run.name)
    scores = {f"score {split}": entry.score for split, entry in run.splits.items()}
    return {
        "run": run,
        "label": viewed.label(run),
        "seed": run.seed,
        "finished": finished,
        **scores,
    }


def _sorted(rows: Sequence[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """Sort rows by a column, descending if its name has a minus sign. Rows without a value come
    last.
    """
    column = sort.removeprefix("-")
    if not column:
        return list(rows)
    if rows and not any(column in row for row in rows):
        raise InputError(f"there is no column '{column[:80]}' to sort by")
    there = [row for row in rows if row.get(column) is not None]
    missing = [row for row in rows if row.get(column) is None]
    there.sort(key=lambda row: _natural(row[column]), reverse=sort.startswith("-"))
    return there + missing


def _natural(value: Any) -> tuple[int, float, str]:
    """Sort key: numbers before texts, NaN as the smallest number."""
    if isinstance(value, int | float):
        return 0, -math.inf if math.isnan(value) else float(value), ""
    return 1, 0.0, str(value)


def _heads(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Summary of each column: the range of its numbers, or the number of its values."""
    columns = dict.fromkeys(name for row in rows for name in row)
    heads = {}
    for column in columns:
        values = [row[column] for row in rows if row.get(column) is not None]
        numeric = [v for v in values if isinstance(v, int | float) and not math.isnan(v)]
        if numeric and len(numeric) == len(values):
            whole = all(isinstance(value, int) for value in numeric)
            ends = [f"{end:,}" if whole else f"{end:.2f}" for end in (min(numeric), max(numeric))]
            heads[column] = " to ".join(dict.fromkeys(ends))
        else:
            kinds = len(set(map(str, values)))
            heads[column] = f"{kinds:,} {'value' if kinds == 1 else 'values'}"
    return heads


def _results(viewed: ViewedStore) -> tuple[list[str], list[str], list[dict[str, Any]], str]:
    """The columns that distinguish results, further measures, the rows, and an error message if the
    results cannot be computed.
    """
    try:
        table = viewed.table()
        if not len(table):
            return [], [], [], ""
        results = viewed.results()
    except TaskloomError as error:
        return [], [], [], str(error)
    # Columns of an overview: what distinguishes the results, then the mean with its interval, then
    # further measures.
    mean, method = results.columns.index("mean"), results.columns.index("method")
    distinguishing, measures = results.columns[:mean], results.columns[method + 1 :]
    # The page always names recipe, learner and split, even if all results share them.
    shared = {
        column: str(table.table[column][0].as_py())
        for column in ("recipe", "learner", "split")
        if column not in distinguishing
    }
    # One row beyond the maximum indicates to the page that there are more.
    rows = [{**shared, **row} for row in results][: GROUPS + 1]
    return [*shared, *distinguishing], list(measures), rows, ""


def run(request: Request) -> Response:
    """Show one run: its scores, curves, configuration, machine and log."""
    folder, viewed = store_folder(request), viewed_store(request)
    chosen = viewed.run(request.query_params.get("run", ""))
    runs = Runs(viewed.store(), [chosen.name])
    try:
        config = runs.config(chosen.name)
    except TaskloomError as error:
        config = f"# {error}"
    return render(
        request,
        "run.html",
        folder=folder,
        run=chosen,
        label=viewed.label(chosen),
        finished=viewed.store().finished_at(chosen.name),
        config=config,
        environment=runs.environment(chosen.name),
        log=log_end(viewed.store().log_file(chosen.name)),
        intervals=_intervals(runs),
        repeats=runs.source.config_file(chosen.name) is not None,
        has_predictions=runs.keeps_predictions(chosen.name),
        plots=_plots(viewed, chosen),
    )


def _intervals(runs: Runs) -> dict[str, tuple[float, float]]:
    """The interval of a run's score on each split; empty if it cannot be computed."""
    found = {}
    for split in {row["split"] for row in runs.table.to_pylist()}:
        try:
            rows = list(runs.accuracy(by=[], split=split))
        except TaskloomError:
            continue
        if len(rows) == 1 and not math.isnan(rows[0]["low"]):
            found[split] = (rows[0]["low"], rows[0]["high"])
    return found


def _plots(viewed: ViewedStore, chosen: Run) -> list[CurvePlot]:
    """The learning curves of a run: the scores of its splits, and the training loss."""
    try:
        viewed.refuse_links(chosen.name)
        curve = viewed.store().curve(chosen.name, CURVE_COLUMNS.names)
    except TaskloomError:
        return []
    rows = curve.to_pylist() if curve is not None else []
    scores: dict[str, list[tuple[float, float]]] = {}
    losses: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for value, lines in ((row["score"], scores), (row["loss"], losses)):
            if value is not None and np.isfinite(value):
                lines.setdefault(str(row["split"]), []).append((float(row["step"]), float(value)))
    plots = [curve_plot("score", scores, (0.0, 1.0)), curve_plot("loss", losses)]
    return [plot for plot in plots if plot is not None]


def prediction_rows(viewed: ViewedStore, name: str) -> PredictionRows:
    """The predictions of a run. Raise `VanishedError` if it kept none."""
    viewed.refuse_links(name)
    store = viewed.store()
    if not store.keeps_predictions(name):
        raise VanishedError("the run kept no predictions; run it with keep: {predictions: true}")
    return PredictionRows(store, name)


def predictions(request: Request) -> Response:
    """Show the predictions of a run on a split, wrong ones first, with the shares of right answers
    by trait.
    """
    folder, viewed = store_folder(request), viewed_store(request)
    chosen = viewed.run(request.query_params.get("run", ""))
    rows = prediction_rows(viewed, chosen.name)
    split = chosen_split(request, [chosen])
    text, filters = request.query_params.get("q", "").strip(), chosen_filters(request)
    show = request.query_params.get("show", "all")
    if show not in SHOWS:
        raise InputError(f"'show' is one of {', '.join(SHOWS)}, not '{show[:40]}'")
    columns = rows.columns(split, text, filters)
    n, wrong = len(columns.rows), int((~columns.right).sum())
    order = _ordered(columns, show)
    start = page_start(request, len(order), ANSWERS)
    known = rows.traits()
    named = rows.named_by(chosen.recipe)
    # First the traits on which scores depend most, then those that the suite explains, then others.
    suite_order = trait_order(named)
    telling = [name for name in rows.telling_traits(split, suite_order) if name in known]
    explained = [name for name in suite_order if name in known]
    traits = {name: known[name] for name in dict.fromkeys([*telling, *explained, *known])}
    by = request.query_params.get("by", "") or next(iter(traits), "")
    shown = rows.take(columns.rows[order[start : start + ANSWERS]], split)
    answers = with_stories(request, rows.with_originals(shown, split))
    return render(
        request,
        "predictions.html",
        folder=folder,
        run=chosen,
        label=viewed.label(chosen),
        split=split,
        answers=answers,
        n=n,
        wrong=wrong,
        interval=wilson(n - wrong, n) if n else None,
        listed=len(order),
        start=start,
        page=ANSWERS,
        q=text,
        filters=filters,
        show=show,
        shows=SHOWS,
        traits=traits,
        telling=max(1, len(telling)),
        named=named,
        chance=rows.best_constant(split),
        proofs=proof_address(request, chosen, split, answers),
        by=by,
        groups=_by_trait(viewed, chosen, split, by) if by in traits else [],
    )


def with_stories(request: Request, answers: Sequence[ScoredAnswer]) -> list[ScoredAnswer]:
    """The answers, with highlighted stories if their suite has stories."""
    suite = answers[0].task.partition("/")[0] if answers else ""
    if not suite:
        return list(answers)
    examples = [
        {"input": one.input, "targets": one.targets, "traits": dict(one.traits)} for one in answers
    ]
    try:
        found = state_of(request).pictures.request("lit", suite=suite, examples=examples)["lit"]
    except TaskloomError:
        return list(answers)
    lit = found or [None] * len(answers)
    return [
        replace(one, story=lit_story(one.input, *places)) if places else one
        for one, places in zip(answers, lit, strict=True)
    ]


def proof_address(request: Request, run: Run, split: str, answers: Sequence[ScoredAnswer]) -> str:
    """Address of the page that shows examples of the run's dataset with their proofs. Empty unless
    the dataset is in a viewed folder.
    """
    if not run.data or not answers:
        return ""
    for folder in state_of(request).folders.of_kind("dataset")[:MOST_DATASETS]:
        try:
            data = open_dataset(folder)
            if data.manifest.get("digest") != run.data or split not in data.splits:
                continue
            # Runs that were evaluated on another recipe may have a split of the same name.
            row = data.splits[split].read(answers[0].index, 1)
        except (TaskloomError, OSError):
            continue
        if row and row[0].example.input == answers[0].input:
            return f"/data/{folder.name}/example"
    return ""


def _ordered(columns: ScoreColumns, show: str) -> Any:
    """Positions of the listed rows: by score, then by index."""
    places = np.lexsort((columns.index, columns.score))
    if show == "all":
        return places
    return places[columns.right[places] == (show == "right")]


def chosen_split(request: Request, runs: Sequence[Run]) -> str:
    """The split named in the query. Default: the first one that all runs answered."""
    shared = [split for split in runs[0].splits if all(split in run.splits for run in runs)]
    wanted = request.query_params.get("split", "")
    if wanted and wanted not in shared:
        raise VanishedError(
            f"no split '{wanted[:80]}' was answered; there are {', '.join(shared) or 'none'}"
        )
    if not shared:
        raise VanishedError("no split was answered by both runs")
    return wanted or shared[0]


def _by_trait(viewed: ViewedStore, chosen: Run, split: str, by: str) -> list[Mapping[str, Any]]:
    """Accuracy of a run for each value of a trait, with its interval."""
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
class CurvePlot:
    """A plot of lines over training steps.

    Attributes:
        title: Its title.
        svg: The drawing.
        lines: Name, number of the colour, and last value of each line.
    """

    title: str
    svg: str
    lines: list[tuple[str, int, float]]


def curve_plot(
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    limits: tuple[float, float] | None = None,
) -> CurvePlot | None:
    """A plot of curves (steps and values); None if there is nothing to draw.

    Args:
        title: Its title.
        curves: Points by the name of the line.
        limits: Ends of the vertical axis, widened for values beyond them; None: the range of the
            data.
    """
    points = [point for curve in curves.values() for point in curve]
    if len({step for step, _ in points}) < 2:  # a line needs two steps
        return None
    if limits is not None:
        values = [value for _, value in points]
        limits = (min(limits[0], *values), max(limits[1], *values))
    drawn = []
    for name, curve in list(curves.items())[:LINES]:
        ordered = sorted(curve)
        *before, last = ordered
        thinned = before[:: max(1, len(ordered) // POINTS)]
        steps, heights = zip(*thinned, last, strict=True)
        drawn.append(Curve(plain(name, NAME), steps, heights))
    colours = colour_of([curve.split for curve in drawn])
    panel = curve_panel(title, drawn, colours, name=title, limits=limits)
    lines = [(curve.split, colours[curve.split], curve.scores[-1]) for curve in drawn]
    return CurvePlot(title, panel.svg, lines)
