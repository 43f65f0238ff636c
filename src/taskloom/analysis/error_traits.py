"""Which single trait of the examples predicts a model's errors best? For any runs that kept their predictions.

For each group of repeated trainings and each split, an item's score is its mean over seeds. A trait explains the share of the
variance of these scores that lies between its values; the share is adjusted for the number of values (epsilon squared,
1 - (1 - eta squared)(n - 1)/(n - k)), since many values explain something by chance. Its p-value is that of a permutation of the
items, corrected (Holm) for all traits and groups that were looked at. Where no permutation explains as much, that of the F test
takes its place: permutations alone give no p below 1/2,001, from which a correction for a hundred looks leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.analysis.conditions import run_labels
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.seed_scores import count_of, count_range, interval_columns
from taskloom.analysis.settings import check_split
from taskloom.analysis.small_recipes import any_recipe_experiments
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import correct, over_items
from taskloom.experiments.statistics.distributions import f_above
from taskloom.experiments.table import Runs

PERMUTATIONS = 2_000
"""A p of 0.01 is then known to a fifth of itself; smaller ones are those of the F test."""

MOST_VALUES = 30
"""A trait with more values than this names items rather than conditions."""

MOST_PANELS = 9
"""Groups that are drawn; the table has all."""

FEWEST = 3
"""Items per value, on average, below which nothing can be said of a value."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """The items that repeated trainings answered: mean scores over seeds, and the traits of each."""

    trainings: str
    split: str
    scores: Floats
    traits: Mapping[str, list[str | None]]


@study(
    "runs/error-traits",
    describe="Which single trait predicts errors best, corrected for all traits that were looked at",
    experiment=any_recipe_experiments,
)
def error_traits(runs: Runs, *, split: str = "") -> Finding:
    """Rank the traits of examples by how much of the variance of scores lies between their values.

    Args:
        runs: Runs that kept their predictions.
        split: Only this split.
    """
    check_split(runs, split)
    rows: list[dict[str, Any]] = []
    groups = list(scored_items(runs, split))
    for group in groups:
        rows += [
            {"trainings": group.trainings, "split": group.split, "trait": name, **measured}
            for name, values in group.traits.items()
            if (measured := explained(group.scores, values)) is not None
        ]
    if not rows:
        raise StudyError(
            f"{runs.path} has no predictions with a trait that varies and scores that vary with items; nothing can be "
            "said about errors"
        )
    for row, p in zip(rows, correct([row["p"] for row in rows], "holm"), strict=True):
        row["corrected_p"] = float(p)
    rows.sort(key=lambda r: (r["trainings"], r["split"], -r["explained"]))
    columns = ("trainings", "split", "trait", "values", "explained", "corrected_p", "worst", "best", "n")
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        best.setdefault((row["trainings"], row["split"]), row)
    sure = sum(row["corrected_p"] < 0.05 for row in best.values())
    return Finding(
        "Traits that predict errors",
        f"Looked at: {count_of([len(rows)], 'trait')} in {count_of([len(best)], 'group')} (trainings and split). In "
        f"{sure} of {len(best)} the best trait explains more than chance at the level of 5 %, corrected for all of them (Holm).",
        ResultTable(columns, rows),
        (_figure(groups, best),),
        notes=("A trait that predicts errors need not cause them: traits go together.",),
    )


def _figure(groups: Sequence[ScoredItems], best: Mapping[tuple[str, str], Mapping[str, Any]]) -> StudyFigure:
    """Return the scores by the values of each group's best trait, of the groups in which it is surest."""
    shown = sorted(best, key=lambda group: best[group]["corrected_p"])[:MOST_PANELS]
    by_group = {(g.trainings, g.split): g for g in groups}
    points = [p for group in shown for p in _points(by_group[group], best[group]["trait"])]
    data = ResultTable(("group", "value", "trait", "mean", "low", "high", "n"), points)
    surest = f"; of {len(best)} groups the {len(shown)} in which it is surest" if len(shown) < len(best) else ""
    caption = (
        "Mean score by the values of the trait that explains most, with 95 % intervals over items "
        f"({count_range(point['n'] for point in points)} a value){surest}."
    )
    label = "value of the trait"
    plot = partial(
        figures.intervals, place="value", series="trait", panel="group", xlabel="score", shared=False, ylabel=label
    )
    return StudyFigure("error-traits", caption, data, plot)


def scored_items(runs: Runs, split: str = "") -> Iterator[ScoredItems]:
    """Yield the items of each group of repeated trainings and each split, with their mean scores over seeds."""
    table = runs.predictions(split or None, ["split", "index", "score", "traits"])
    labels = run_labels(runs)
    sums: dict[tuple[str, str], dict[int, list[float]]] = {}
    traits: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for row in table.to_pylist():
        if row["score"] is not None:
            group = (labels[row["run"]], row["split"])
            sums.setdefault(group, {}).setdefault(row["index"], []).append(row["score"])
            traits.setdefault(group, {})[row["index"]] = dict(row["traits"] or ())
    for group, items in sums.items():
        order = sorted(items)
        names = sorted({name for i in order for name in traits[group][i]})
        by_name = {name: [traits[group][i].get(name) for i in order] for name in names}
        yield ScoredItems(*group, np.array([np.mean(items[i]) for i in order]), by_name)


def explained(scores: Floats, values: Sequence[str | None]) -> dict[str, Any] | None:
    """Return how much of the variance of scores a trait explains, with its p-value; None where it does not apply."""
    known = np.array([value is not None for value in values])
    names, codes = np.unique([str(v) for v in values if v is not None], return_inverse=True)
    own, n, k = scores[known], int(known.sum()), len(names)
    if k < 2 or k > MOST_VALUES or n < FEWEST * k or n <= k or float(own.var()) < 1e-12:
        return None
    share = _eta(own, codes, k)
    rng = np.random.default_rng(0)
    beyond = sum(_eta(rng.permutation(own), codes, k) >= share - 1e-12 for _ in range(PERMUTATIONS))
    means = np.bincount(codes, own, minlength=k) / np.bincount(codes, minlength=k)
    low, high = int(means.argmin()), int(means.argmax())
    return {
        "values": k,
        "explained": 1 - (1 - share) * (n - 1) / (n - k),
        "p": (1 + beyond) / (1 + PERMUTATIONS) if beyond else min(_f_test(share, n, k), 1 / (1 + PERMUTATIONS)),
        "worst": f"{names[low]} ({means[low]:.2f})",
        "best": f"{names[high]} ({means[high]:.2f})",
        "n": n,
    }


def _f_test(share: float, n: int, k: int) -> float:
    """Return how probable it is by chance that groups explain that share of the variance, by the F test."""
    within = (1 - share) / (n - k)
    return f_above(share / (k - 1) / within, k - 1, n - k) if within > 0 else 0.0


def _eta(scores: Floats, codes: NDArray[np.int64], k: int) -> float:
    """Return the share of the variance that lies between groups."""
    counts = np.bincount(codes, minlength=k)
    means = np.bincount(codes, scores, minlength=k) / counts
    between = float((counts * (means - scores.mean()) ** 2).sum())
    return between / float(((scores - scores.mean()) ** 2).sum())


def _points(group: ScoredItems, trait: str) -> Iterator[dict[str, Any]]:
    values = group.traits[trait]
    title = f"{group.trainings}, {group.split}: {trait}"
    for value in sorted({v for v in values if v is not None}, key=figures.natural_order):
        scores = group.scores[np.array([v == value for v in values])]
        yield {
            "group": title,
            "value": value,
            "trait": trait,
            "mean": float(scores.mean()),
            **interval_columns(over_items(scores) if len(scores) > 1 else None),
            "n": len(scores),
        }
