"""Accuracy by a trait, crossed with another or with the split: for any runs that kept their predictions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.compute as pc

from taskloom.analysis.conditions import short_value
from taskloom.analysis.divergence_accuracy import stored_datasets
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.seed_scores import count_of, seeds_and_items_caption
from taskloom.analysis.settings import check_choice, check_split
from taskloom.analysis.small_recipes import any_recipe_experiments
from taskloom.analysis.study import StudyError, study
from taskloom.data.dataset import Dataset
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.scored_rows import known_traits
from taskloom.experiments.table import Runs


@study(
    "runs/trait-accuracy",
    describe="Accuracy by a trait crossed with another, such as whether training has it, or with the split",
    experiment=any_recipe_experiments,
)
def trait_accuracy(runs: Runs, *, trait: str = "", cross: str = "split", split: str = "") -> list[Finding]:
    """Compute the accuracy for each pair of values of two traits, with intervals over seeds and items.

    Args:
        runs: Runs that kept their predictions.
        trait: Of the examples; by default every one with 2 to `MOST_VALUES` values, by itself.
        cross: Another trait, `split`, or `in-training`: whether training has the trait's value.
        split: Only this split.
    """
    check_split(runs, split)
    known = known_traits(runs)
    check_choice(runs, "cross", cross, [*known, IN_TRAINING])
    if trait:
        check_choice(runs, "trait", trait, known)
        return [_by_trait(runs, trait, cross, split, "trait-accuracy")]
    own = [name for name in known if name not in {*runs.table.column_names, "task", cross}]
    chosen = [name for name in own if 2 <= _number_of_values(runs, name, split) <= MOST_VALUES]
    if not own:
        raise StudyError(
            f"{runs.path} has no answers to examples with traits; name a run store whose runs kept their predictions"
        )
    if not chosen:
        raise StudyError(
            f"no trait of {runs.path} has 2 to {MOST_VALUES} values; name one: trait=NAME, of {', '.join(own)}"
        )
    return [_by_trait(runs, name, cross, split, "trait-accuracy-" + re.sub(r"\W+", "-", name)) for name in chosen]


MOST_VALUES = 30
"""Values of a trait above which a table of them is not read; a trait that is named may have more."""


def _number_of_values(runs: Runs, trait: str, split: str) -> int:
    return len({row[trait] for row in runs.accuracy(by=[trait], split=split or None)} - {None})


def _by_trait(runs: Runs, trait: str, cross: str, split: str, stem: str) -> Finding:
    """Return the accuracies by one trait; `stem` is that of the figure's files."""
    by = [column for column in dict.fromkeys(["recipe", "learner", trait, cross]) if column != IN_TRAINING]
    table = runs.accuracy(by=by, split=split or None)
    # Whatever else tells rows apart: splits, and the settings in which recipes and learners vary.
    apart = [name for name in table.columns[: table.columns.index("mean")] if name not in by]
    cells = list(table)
    if cross == IN_TRAINING:
        cells, by = _with_training(runs, cells, trait, ["recipe", "learner", *apart]), [*by, IN_TRAINING]
    rows: list[dict[str, Any]] = [
        {**row, "trainings": _label(row, apart), "x": row[cross], "y": row[trait]}
        for row in cells
        if row[trait] is not None and row[cross] is not None
    ]
    if not rows:
        raise StudyError(f"no example has both '{trait}' and '{cross}'")
    data = ResultTable(("trainings", "y", "x", "mean", "low", "high", "n", "seeds"), rows)
    seeds, items = ([row[name] for row in rows] for name in ("seeds", "n"))
    grid = {(row["trainings"], row["x"], row["y"]) for row in rows}
    sides = (len({row[side] for row in rows}) for side in ("trainings", "x", "y"))
    empty = " Cells without a number have no items." if len(grid) < math.prod(sides) else ""
    intervals = seeds_and_items_caption(seeds, items, "item")
    caption = f"Accuracy by {trait} and {cross}, cell by cell. {intervals}, which are in the data.{empty}"
    plot = partial(heat_map, x="x", y="y", value="mean", panel="trainings", xlabel=cross, ylabel=trait)
    shown = ResultTable((*by[:2], *apart, *by[2:], "mean", "low", "high", "n", "seeds"), rows)
    figure = StudyFigure(stem, caption, data, plot)
    text = " ".join(_seen_and_unseen(rows, trait)) if cross == IN_TRAINING else ""
    return Finding(f"Accuracy by {trait} and {cross}", text, shown, (figure,))


IN_TRAINING = "in-training"
"""What `cross` may be beside traits: whether the training data that a run learned have the trait's value."""


def _with_training(
    runs: Runs, rows: Sequence[Mapping[str, Any]], trait: str, same: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows with whether training has their value of a trait; without those whose training data are not here."""
    trained = {digest: _trained_values(data, trait) for digest, data in stored_datasets(runs).items()}
    own: dict[tuple[Any, ...], set[str]] = {}
    for run in runs.table.to_pylist():
        values = trained.get(runs[run["run"]].data)
        if values:
            own.setdefault(tuple(run[name] for name in same), set()).update(values)
    if not own:
        raise StudyError(f"{runs.path} has no datasets whose training split has the trait '{trait}' (STORE/data)")
    places = ((row, own.get(tuple(row[name] for name in same))) for row in rows)
    return [
        {**row, IN_TRAINING: "yes" if str(row[trait]) in values else "no"}
        for row, values in places
        if values is not None
    ]


def _trained_values(data: Dataset, trait: str) -> set[str]:
    """Return the values of a trait in training, as runs spell them."""
    values: set[str] = set()
    for split in (name for name in data.splits if data.role(name) == "train"):
        traits = data.table(split).column("traits")
        if traits.type.get_field_index(trait) >= 0:
            some = pc.unique(pc.struct_field(traits, trait)).to_pylist()
            values |= {value if isinstance(value, str) else json.dumps(value) for value in some if value is not None}
    return values


def _seen_and_unseen(rows: Sequence[Mapping[str, Any]], trait: str) -> Iterator[str]:
    """Yield the mean over all items whose value of the trait training has, and over those whose value it lacks."""
    for trainings in dict.fromkeys(row["trainings"] for row in rows):
        parts = []
        for answer, what in (("yes", "has"), ("no", "lacks")):
            own = [row for row in rows if row["trainings"] == trainings and row[IN_TRAINING] == answer]
            items = sum(row["n"] for row in own)
            if items:
                mean = sum(row["mean"] * row["n"] for row in own) / items
                parts.append(f"{mean:.3f} where training {what} the value of {trait} ({count_of([items], 'item')})")
        yield f"{trainings}: {', '.join(parts)}."


def _label(row: Mapping[str, Any], apart: Sequence[str]) -> str:
    """Return what a panel is of: learner and recipe, and whatever else tells rows apart."""
    further = [f"{name.partition('.')[2] or name} {short_value(row[name])}" for name in apart if row[name] is not None]
    return ", ".join([str(row["learner"]), str(row["recipe"]), *further])
