"""Comparison pages: two runs side by side with the paired test, and heat maps of accuracy by two
traits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from taskloom.analysis.report.effects import is_reference
from taskloom.apps.view.folders import VanishedError
from taskloom.apps.view.page_templates import render, trait_order
from taskloom.apps.view.prediction_rows import PredictionRows, ScoreColumns, ScoredAnswer
from taskloom.apps.view.run_pages import chosen_split, prediction_rows, proof_address, with_stories
from taskloom.apps.view.state import chosen_filters, page_start, store_folder, viewed_store
from taskloom.apps.view.stores import ViewedStore
from taskloom.core.errors import InputError, TaskloomError
from taskloom.experiments.record import Run
from taskloom.experiments.result_table import probability

PAGE = 7
"""Examples per page."""

SIDES = 400
"""Maximum runs offered in a list. Others can be named in the address."""

MOST_RUNS = 60
"""Maximum runs in a heat map. Reading the predictions of each takes some milliseconds."""

MOST_LINES = 60
"""Maximum rows, and maximum columns, of a heat map. Larger ones are unreadable."""

FEW = 10
"""Minimum examples of a cell for full colour. Cells with fewer are faded."""

OUTCOMES = {
    "a": "only A is right",
    "b": "only B is right",
    "neither": "both are wrong",
    "both": "both are right",
}
"""Outcomes of two answers to one example, in the order in which examples are listed."""


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """The answers of two runs to one example."""

    a: ScoredAnswer
    b: ScoredAnswer

    @property
    def same(self) -> bool:
        """True if both runs were given the same input."""
        return self.a.input == self.b.input

    @property
    def outcome(self) -> str:
        """Outcome of the pair, a key of `OUTCOMES`."""
        return {(True, False): "a", (False, True): "b", (False, False): "neither"}.get(
            (self.a.right, self.b.right), "both"
        )


def compare(request: Request) -> Response:
    """Compare two runs: the paired test on a split, optionally by a trait, and every example with
    both answers.
    """
    folder, viewed = store_folder(request), viewed_store(request)
    whole = viewed.runs()
    if len(whole) < 2:
        raise VanishedError("a comparison needs two runs; the store has fewer")
    a, b = _sides(request, viewed, whole)
    split = chosen_split(request, [a, b])
    rows = [prediction_rows(viewed, run.name) for run in (a, b)]
    text, filters = request.query_params.get("q", "").strip(), chosen_filters(request)
    joined = _joined(rows[0].columns(split, text, filters), rows[1].columns(split, "", filters))
    show = request.query_params.get("show", "")
    order = joined.order(show)
    start = page_start(request, len(order), PAGE)
    traits = rows[0].traits()
    by = next((trait for trait in traits if trait == request.query_params.get("by", "")), "")
    test, problem = _paired_test(viewed, whole, a, b, split, by)
    pairs = _pairs(request, rows, joined, order[start : start + PAGE], split)
    return render(
        request,
        "compare.html",
        folder=folder,
        a=a,
        b=b,
        label=viewed.label,
        runs=whole[:SIDES],
        split=split,
        splits=[s for s in a.splits if s in b.splits],
        pairs=pairs,
        counts=joined.counts(),
        outcomes=OUTCOMES,
        show=show,
        listed=len(order),
        start=start,
        page=PAGE,
        q=text,
        filters=filters,
        by=by,
        named=rows[0].named_by(a.recipe),
        proofs=proof_address(request, a, split, [pair.a for pair in pairs]),
        traits=traits,
        test=test,
        problem=problem,
    )


def _sides(request: Request, viewed: ViewedStore, whole: Sequence[Run]) -> tuple[Run, Run]:
    """The two requested runs. Default: the first run and its `_counterpart`."""
    name_a, name_b = (request.query_params.get(side, "") for side in "ab")
    a = viewed.run(name_a) if name_a else whole[0]
    b = viewed.run(name_b) if name_b else _counterpart(a, whole)
    return a, b


def _counterpart(a: Run, whole: Sequence[Run]) -> Run:
    """The run that is most likely to be compared with another: same recipe and seed, different
    learner.
    """
    others = [r for r in whole if r.name != a.name]
    same_recipe = [r for r in others if r.recipe == a.recipe]
    other_learner = [r for r in same_recipe if r.learner != a.learner]
    same_seed = [r for r in other_learner if r.seed == a.seed]
    candidates = same_seed or other_learner or same_recipe or others
    return candidates[0]


@dataclass(frozen=True, slots=True)
class JoinedAnswers:
    """Examples that both runs answered: their indices, their rows in both files, and the index of
    each outcome in `OUTCOMES`.
    """

    index: NDArray[np.int64]
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    outcome: NDArray[np.int64]

    def counts(self) -> dict[str, int]:
        """Number of examples with each outcome."""
        return {name: int((self.outcome == place).sum()) for place, name in enumerate(OUTCOMES)}

    def order(self, show: str) -> NDArray[np.int64]:
        """Positions of the examples in listing order: by outcome, then by index. Only one outcome
        if `show` names it.
        """
        if show and show not in OUTCOMES:
            raise InputError(f"'show' is one of {', '.join(OUTCOMES)}, not '{show[:40]}'")
        order = np.lexsort((self.index, self.outcome))
        return order[self.outcome[order] == list(OUTCOMES).index(show)] if show else order


def _joined(of_a: ScoreColumns, of_b: ScoreColumns) -> JoinedAnswers:
    index, at_a, at_b = np.intersect1d(of_a.index, of_b.index, return_indices=True)
    a, b = of_a.right[at_a], of_b.right[at_b]
    outcome = np.select([a & ~b, b & ~a, ~a & ~b], [0, 1, 2], 3)
    return JoinedAnswers(index, (of_a.rows[at_a], of_b.rows[at_b]), outcome)


def _pairs(
    request: Request,
    rows: Sequence[PredictionRows],
    joined: JoinedAnswers,
    places: NDArray[np.int64],
    split: str,
) -> list[AnswerPair]:
    a, b = (rows[side].take(joined.rows[side][places], split) for side in (0, 1))
    a = with_stories(request, a)
    return [AnswerPair(one, other) for one, other in zip(a, b, strict=True)]


def _paired_test(
    viewed: ViewedStore, whole: Sequence[Run], a: Run, b: Run, split: str, by: str
) -> tuple[list[Mapping[str, Any]], str]:
    """Rows of the paired tests, or a sentence on why there are none.

    The two runs are compared. If either run has replicates with other seeds, all seeds of both are
    compared as well. With a trait, every comparison is made for each value of the trait.
    """
    if a.name == b.name:
        return [], "A and B are the same run"
    seeds = [[run.name for run in whole if _kind(run) == _kind(side)] for side in (a, b)]
    tests = {"these two runs": ([a.name], [b.name])}
    if _kind(a) != _kind(b) and max(map(len, seeds)) > 1:
        tests[f"all seeds, {len(seeds[0])} and {len(seeds[1])}"] = (seeds[0], seeds[1])
    rows: list[Mapping[str, Any]] = []
    problem = ""
    for label, (of_a, of_b) in tests.items():
        try:
            table = viewed.table().where({"run": [*of_a, *of_b]})
            results = table.compare(
                {"run": of_a}, {"run": of_b}, split=split, by=[by] if by else []
            )
        except TaskloomError as error:
            problem = problem or str(error)
            continue
        for row in results:
            rows.append(
                {
                    **row,
                    "runs": label,
                    "group": row[by] if by else "",
                    "p_text": probability(row["corrected_p"]),
                }
            )
    return rows, "" if rows else problem


def _kind(run: Run) -> str:
    return json.dumps([run.recipe, run.learner, dict(run.fields)], sort_keys=True)


def heat(request: Request) -> Response:
    """Show a heat map of a learner's accuracy on a recipe by two traits."""
    folder, viewed = store_folder(request), viewed_store(request)
    whole = viewed.runs()
    if not whole:
        raise VanishedError("a heat map needs a run; the store has none")
    recipes = sorted({run.recipe for run in whole})
    learners = sorted({run.learner for run in whole})
    asked = request.query_params.get("learner") or ""
    fitting = [run for run in whole if (run.learner == asked if asked else _reads(run))]
    worst = min(fitting, key=_lowest, default=whole[0])
    recipe = _among(request, "recipe", recipes, [worst.recipe])
    trained = [x for x in learners if any(_is_of(r, recipe, x) for r in whole)]
    learner = _among(request, "learner", trained, [x for x in trained if not is_reference(x)])
    chosen = [run for run in whole if _is_of(run, recipe, learner)]
    if not chosen:
        raise VanishedError(f"no run of '{learner[:80]}' on '{recipe[:80]}'")
    if not chosen[0].splits:
        raise VanishedError("no split was answered")
    split = _among(request, "split", list(chosen[0].splits), [hardest_split(chosen)])
    predictions = prediction_rows(viewed, chosen[0].name)
    traits = list(predictions.traits())
    named = predictions.named_by(recipe)
    if traits:
        x, y = _axes(request, predictions, split, traits, named)
        maps, problem = _maps(viewed, chosen[:MOST_RUNS], split, x, y)
    else:
        x = y = ""
        maps, problem = [], "the examples have no trait with several values"
    chance = predictions.best_constant(split)
    return render(
        request,
        "heat.html",
        folder=folder,
        recipes=recipes,
        learners=learners,
        recipe=recipe,
        named=named,
        learner=learner,
        split=split,
        splits=list(chosen[0].splits),
        traits=traits,
        x=x,
        y=y,
        maps=maps,
        problem=problem,
        ends=_ends(maps, problem),
        chance=chance,
        all_at_chance=_all_at_chance(maps, chance),
        few=FEW,
        used=min(len(chosen), MOST_RUNS),
        total=len(chosen),
    )


def _axes(
    request: Request, predictions: PredictionRows, split: str, traits: Sequence[str], named: str
) -> tuple[str, str]:
    """The traits of both axes. Default: the pair that `telling_pair` chooses. The horizontal axis
    gets the trait with fewer values, because narrow screens have more room below.
    """
    asked = {"x", "y"} <= set(request.query_params)
    # This reads thousands of rows, so it is called only if a default is needed.
    best = [] if asked else predictions.telling_pair(split, trait_order(named), FEW)
    x = _among(request, "x", traits, best)
    # A trait alone is a map of its own values; other traits may have too many.
    y = _among(request, "y", traits, [trait for trait in best if trait != x] or [x])
    return x, y


def _reads(run: Run) -> bool:
    return not is_reference(run.learner)


def _lowest(run: Run) -> float:
    """Score of a run on its hardest split; infinite without scores."""
    score = run.splits[hardest_split([run])].score if run.splits else None
    return math.inf if score is None or math.isnan(score) else score


def hardest_split(runs: Sequence[Run]) -> str:
    """The held-out split with the lowest mean score; iid only if there is no other."""

    def key(split: str) -> tuple[bool, float]:
        scores = [run.splits[split].score for run in runs if split in run.splits]
        known = [score for score in scores if score is not None and not math.isnan(score)]
        return split == "iid", sum(known) / len(known) if known else math.inf

    return min(runs[0].splits, key=key)


def _is_of(run: Run, recipe: str, learner: str) -> bool:
    return run.recipe == recipe and run.learner == learner


def _among(request: Request, name: str, known: Sequence[str], best: Sequence[str] = ()) -> str:
    """A value from the query, which must be known. Default: the first of `best`, or of all."""
    value = request.query_params.get(name, "")
    if value and value not in known:
        raise VanishedError(
            f"there is no {name} '{value[:80]}' here; there are {', '.join(known)[:300] or 'none'}"
        )
    return value or next(iter(best or known), "")


def _maps(
    viewed: ViewedStore, chosen: Sequence[Run], split: str, x: str, y: str
) -> tuple[list[dict[str, Any]], str]:
    """One map for each setting in which the runs differ, or a sentence on why there is none."""
    by = [y, x] if x != y else [x]
    try:
        shown = viewed.table().where({"run": [run.name for run in chosen]})
        results = shown.accuracy(by=by, split=split)
    except TaskloomError as error:
        return [], str(error)
    apart = [c for c in results.columns[: results.columns.index("mean")] if c not in by]
    groups: dict[tuple[Any, ...], dict[tuple[Any, Any], Mapping[str, Any]]] = {}
    for row in results:
        groups.setdefault(tuple(row[c] for c in apart), {})[row[y], row[x]] = row
    maps = []
    for values, cells in groups.items():
        rows, columns = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
        if max(len(rows), len(columns)) > MOST_LINES:
            size = f"{len(rows):,} rows and {len(columns):,} columns"
            return [], f"{size} are too many for a map, which has at most {MOST_LINES} of each"
        setting = dict(zip(apart, values, strict=True))
        maps.append(
            {
                "title": ", ".join(f"{_short(name)}: {value}" for name, value in setting.items()),
                "rows": _sorted(rows),
                "columns": _sorted(columns),
                "cells": cells,
                # Answers are listed by run, so a cell of several seeds links to the first one's.
                "run": next((run for run in chosen if _has(run, setting)), None),
            }
        )
    return maps, ""


def _short(name: str) -> str:
    """Name of a setting without its prefix: `parts`."""
    return name.removeprefix("recipe.").removeprefix("learner.")


def _has(run: Run, setting: Mapping[str, Any]) -> bool:
    return all(str(run.fields.get(name)) == str(value) for name, value in setting.items())


def _ends(
    maps: Sequence[Mapping[str, Any]], problem: str
) -> list[tuple[str, Mapping[str, Any], str]]:
    """The cells with the lowest and the highest score, with the titles of their maps. Cells with
    few examples are ignored.
    """
    cells = [
        (cell, map_["title"])
        for map_ in maps
        for cell in map_["cells"].values()
        if cell["n"] >= FEW
    ]
    if problem or len(cells) < 2:
        return []
    ordered = sorted(cells, key=lambda one: one[0]["mean"])
    return [("Lowest", *ordered[0]), ("Highest", *ordered[-1])]


def _all_at_chance(maps: Sequence[Mapping[str, Any]], chance: float | None) -> bool:
    """True if the interval of every cell with enough examples includes the score of chance."""
    cells = [cell for map_ in maps for cell in map_["cells"].values() if cell["n"] >= FEW]
    if chance is None or not cells:
        return False
    return all(cell["low"] is not None and cell["low"] <= chance <= cell["high"] for cell in cells)


def _sorted(values: Sequence[Any]) -> list[Any]:
    def key(value: Any) -> tuple[int, float, str]:
        try:
            return 0, float(value), str(value)
        except (TypeError, ValueError):
            return 1, 0.0, str(value)

    return sorted(values, key=key)
