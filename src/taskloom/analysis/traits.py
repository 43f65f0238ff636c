"""Studies of traits, for any runs that kept their predictions: the trait that predicts errors best,
and the accuracy by each trait.

For each group of repeated trainings and each split, an item's score is its mean over seeds. A trait
explains the share of these scores' variance that is between its values. The share is adjusted for
the number of values (epsilon squared, 1 - (1 - eta squared)(n - 1)/(n - k)), since many values
explain some variance by chance. Its p-value is from a permutation test over items, corrected (Holm)
for all tested traits and groups. If no permutation explains as much, the p-value of the F test is
used: permutations give no p below 1/2,001, which would not remain significant after correction for
a hundred tests.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.analysis.any_runs import any_recipe_experiments, stored_datasets
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.paper_table import (
    count_of,
    count_range,
    interval_columns,
    seeds_and_items_caption,
)
from taskloom.analysis.study import StudyError, check_choice, check_split, study
from taskloom.core.arrow import array_of, whole_array
from taskloom.data.dataset import Dataset
from taskloom.experiments.accuracy import run_labels, short_value
from taskloom.experiments.groups import known_traits, trait_names
from taskloom.experiments.groups import trait as trait_column
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import correct, over_items
from taskloom.experiments.statistics.distributions import f_above
from taskloom.experiments.table import Runs

PERMUTATIONS = 2_000
"""Number of permutations. A p-value of 0.01 then has a relative error of about a fifth. Smaller
p-values come from the F test.
"""

MOST_VALUES = 30
"""Maximum values of a trait. A trait with more identifies items rather than conditions."""

MOST_PANELS = 9
"""Maximum groups that are drawn. The table has all of them."""

FEWEST = 3
"""Minimum items per value, on average, for a trait to be tested."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TraitValues:
    """The value of one trait for each of some items.

    Attributes:
        names: The values, sorted. Not all need to occur.
        codes: Index of each item's value in `names`; -1 for items without the trait.
    """

    names: Sequence[str]
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> TraitValues:
        """Encode the values of a text column."""
        encoded = values.combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.full(len(names) + 1, -1, np.int32)  # the last entry is for null
        place[order] = np.arange(len(names))
        codes = array_of(encoded.indices.fill_null(len(names)))
        return cls([names[i] for i in order], place[codes])


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """Items that repeated trainings answered: mean scores over seeds, and each item's traits."""

    trainings: str
    split: str
    scores: Floats
    traits: Mapping[str, TraitValues]


@study(
    "runs/error-traits",
    describe=(
        "Which single trait predicts errors best, corrected for all traits that were looked at"
    ),
    experiment=any_recipe_experiments,
)
def error_traits(runs: Runs, *, split: str = "") -> Finding:
    """Rank the traits of examples by the share of the variance of scores between their values.

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
            f"{runs.path} has no predictions with a trait that varies and scores that vary with"
            " items; nothing can be said about errors"
        )
    for row, p in zip(rows, correct([row["p"] for row in rows], "holm"), strict=True):
        row["corrected_p"] = float(p)
    rows.sort(key=lambda r: (r["trainings"], r["split"], -r["explained"]))
    columns = (
        "trainings",
        "split",
        "trait",
        "values",
        "explained",
        "corrected_p",
        "worst",
        "best",
        "n",
    )
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        best.setdefault((row["trainings"], row["split"]), row)
    sure = sum(row["corrected_p"] < 0.05 for row in best.values())
    return Finding(
        "Traits that predict errors",
        f"Looked at: {count_of([len(rows)], 'trait')} in {count_of([len(best)], 'group')}"
        f" (trainings and split). In {sure} of {len(best)} the best trait explains more than chance"
        " at the level of 5 %, corrected for all of them (Holm).",
        ResultTable(columns, rows),
        (_figure(groups, best),),
        notes=("A trait that predicts errors need not cause them: traits go together.",),
    )


def _figure(
    groups: Sequence[ScoredItems], best: Mapping[tuple[str, str], Mapping[str, Any]]
) -> StudyFigure:
    """Scores by the values of each group's best trait, for groups with the smallest p-values."""
    shown = sorted(best, key=lambda group: best[group]["corrected_p"])[:MOST_PANELS]
    by_group = {(g.trainings, g.split): g for g in groups}
    points = [p for group in shown for p in _points(by_group[group], best[group]["trait"])]
    data = ResultTable(("group", "value", "trait", "mean", "low", "high", "n"), points)
    surest = (
        f"; of {len(best)} groups the {len(shown)} in which it is surest"
        if len(shown) < len(best)
        else ""
    )
    caption = (
        "Mean score by the values of the trait that explains most, with 95 % intervals over items "
        f"({count_range(point['n'] for point in points)} a value){surest}."
    )
    label = "value of the trait"
    plot = partial(
        figures.intervals,
        place="value",
        series="trait",
        panel="group",
        xlabel="score",
        shared=False,
        ylabel=label,
    )
    return StudyFigure("error-traits", caption, data, plot)


def scored_items(
    runs: Runs, split: str = "", labels: Mapping[str, str] | None = None
) -> Iterator[ScoredItems]:
    """Yield the items of each group of repeated trainings and each split, with their mean scores
    over seeds.

    Args:
        runs: Runs that kept their predictions.
        split: Only this split.
        labels: Group of each run. Default: learner, recipe and the fields in which runs vary.
            Runs without a label are omitted.
    """
    labels = run_labels(runs) if labels is None else labels
    # Read from the index of the store: reading single files takes twice as long for 4,000 runs.
    columns = ["split", "index", "score", "traits"]
    table, counts = runs.source.scored(runs.names, columns, sum(runs.table["n"].to_pylist()))
    known = sorted(trait_names(table["traits"]))
    values = {name: TraitValues.of(trait_column(table["traits"], name)) for name in known}
    names = dict.fromkeys(labels.values())
    places = {label: place for place, label in enumerate(names)}
    split_column = table["split"].cast(pa.string()).combine_chunks().dictionary_encode()
    splits = split_column.dictionary.to_pylist()
    # Index of each row's group, or -1 for runs without a label.
    of_run = np.array([places.get(labels.get(run, ""), -1) for run in runs.names], np.int32)
    label_codes = np.repeat(of_run, counts)
    split_codes = array_of(split_column.indices)
    if split:
        wanted = splits.index(split) if split in splits else -1
        label_codes = np.where(split_codes == wanted, label_codes, -1)
    codes = label_codes * np.int32(len(splits)) + split_codes
    scores = whole_array(table["score"])
    index = whole_array(table["index"])
    # Rows are sorted by group once. A mask for each group would cost groups × rows.
    rows = np.flatnonzero(np.isfinite(scores) & (label_codes >= 0))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    present, starts = np.unique(codes[rows], return_index=True)
    labels_in_order = list(places)
    groups_with = {
        name: set(np.unique(codes[rows[one.codes[rows] >= 0]]).tolist())
        for name, one in values.items()
    }
    for code, own in zip(present.tolist(), np.split(rows, starts[1:]), strict=True):
        label, split_name = labels_in_order[code // len(splits)], splits[code % len(splits)]
        first, means = _item_means(index[own], scores[own])
        # All seeds answered the same items, so the traits of one answer are enough.
        items = own[first]
        traits = {
            name: TraitValues(one.names, one.codes[items])
            for name, one in values.items()
            if code in groups_with[name]
        }
        yield ScoredItems(label, split_name, means, traits)


def _item_means(index: NDArray[Any], scores: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Position of the first answer to each item, and its mean score over all answers, by item
    index.
    """
    if (index[1:] > index[:-1]).all():  # a single seed needs no sorting
        return np.arange(len(index)), scores
    _, first, items = np.unique(index, return_index=True, return_inverse=True)
    return first, np.bincount(items, scores) / np.bincount(items)


def explained(
    scores: Floats, values: TraitValues, permutations: int = PERMUTATIONS
) -> dict[str, Any] | None:
    """Share of the variance of scores that a trait explains, with its p-value; None if the trait
    does not apply.

    Args:
        scores: Score of each item.
        values: Value of the trait for each item.
        permutations: Number of permutations; 0 takes the F test alone, which is 1,000 times as
            fast.
    """
    known = values.codes >= 0
    own, codes = (scores, values.codes) if known.all() else (scores[known], values.codes[known])
    present, codes = _renumbered(codes, len(values.names))
    n, k = len(codes), len(present)
    if k < 2 or k > MOST_VALUES or n < FEWEST * k or n <= k:
        return None
    mean = own.mean()
    total = float(((own - mean) ** 2).sum())
    variance = total / n
    if variance < 1e-12:
        return None
    names = [values.names[place] for place in present.tolist()]
    counts = np.bincount(codes)
    means = np.bincount(codes, own) / counts
    between = float((counts * (means - mean) ** 2).sum())
    share = between / total
    rng = np.random.default_rng(0)
    beyond = 0
    for _ in range(permutations):
        permuted = np.bincount(codes, rng.permutation(own)) / counts
        beyond += float((counts * (permuted - mean) ** 2).sum()) >= between - 1e-12 * total
    low, high = int(means.argmin()), int(means.argmax())
    return {
        "values": k,
        "explained": 1 - (1 - share) * (n - 1) / (n - k),
        "p": (
            (1 + beyond) / (1 + permutations)
            if beyond
            else min(_f_test(share, n, k), 1 / (1 + permutations))
        ),
        "means": dict(zip(names, means.tolist(), strict=True)),
        "variance": variance,
        "worst": f"{names[low]} ({means[low]:.2f})",
        "best": f"{names[high]} ({means[high]:.2f})",
        "n": n,
    }


def _f_test(share: float, n: int, k: int) -> float:
    """p-value of the F test that groups explain that share of the variance by chance."""
    within = (1 - share) / (n - k)
    return f_above(share / (k - 1) / within, k - 1, n - k) if within > 0 else 0.0


def _renumbered(codes: NDArray[Any], known: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Distinct codes in order, and the index of each code among them.

    Args:
        codes: The codes, from 0.
        known: Number of codes that can occur.
    """
    if known > len(codes):
        return np.unique(codes, return_inverse=True)
    present = np.flatnonzero(np.bincount(codes))  # three times as fast as sorting
    if len(present) == known:
        return present, codes
    return present, np.searchsorted(present, codes)


def _points(group: ScoredItems, trait: str) -> Iterator[dict[str, Any]]:
    values = group.traits[trait]
    title = f"{group.trainings}, {group.split}: {trait}"
    places = {values.names[place]: place for place in set(values.codes.tolist()) - {-1}}
    for value in sorted(places, key=figures.natural_order):
        scores = group.scores[values.codes == places[value]]
        yield {
            "group": title,
            "value": value,
            "trait": trait,
            "mean": float(scores.mean()),
            **interval_columns(over_items(scores) if len(scores) > 1 else None),
            "n": len(scores),
        }


@study(
    "runs/trait-accuracy",
    describe=(
        "Accuracy by a trait crossed with another, such as whether training has it, or with the"
        " split"
    ),
    experiment=any_recipe_experiments,
)
def trait_accuracy(
    runs: Runs, *, trait: str = "", cross: str = "split", split: str = ""
) -> list[Finding]:
    """Compute the accuracy for each pair of values of two traits, with intervals over seeds and
    items.

    Args:
        runs: Runs that kept their predictions.
        trait: Trait of the examples. Default: each one with 2 to `MOST_VALUES` values, by itself.
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
            f"{runs.path} has no answers to examples with traits; name a run store whose runs kept"
            " their predictions"
        )
    if not chosen:
        raise StudyError(
            f"no trait of {runs.path} has 2 to {MOST_VALUES} values; name one: trait=NAME, of"
            f" {', '.join(own)}"
        )
    return [
        _by_trait(runs, name, cross, split, "trait-accuracy-" + re.sub(r"\W+", "-", name))
        for name in chosen
    ]


def _number_of_values(runs: Runs, trait: str, split: str) -> int:
    return len({row[trait] for row in runs.accuracy(by=[trait], split=split or None)} - {None})


def _by_trait(runs: Runs, trait: str, cross: str, split: str, stem: str) -> Finding:
    """Accuracies by one trait; `stem` names the figure's files."""
    by = [
        column
        for column in dict.fromkeys(["recipe", "learner", trait, cross])
        if column != IN_TRAINING
    ]
    table = runs.accuracy(by=by, split=split or None)
    # Everything else that distinguishes rows: splits, and the settings in which recipes and
    # learners vary.
    apart = [name for name in table.columns[: table.columns.index("mean")] if name not in by]
    cells = list(table)
    if cross == IN_TRAINING:
        cells, by = (
            _with_training(runs, cells, trait, ["recipe", "learner", *apart]),
            [*by, IN_TRAINING],
        )
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
    caption = (
        f"Accuracy by {trait} and {cross}, cell by cell. {intervals}, which are in the data.{empty}"
    )
    plot = partial(
        heat_map, x="x", y="y", value="mean", panel="trainings", xlabel=cross, ylabel=trait
    )
    shown = ResultTable((*by[:2], *apart, *by[2:], "mean", "low", "high", "n", "seeds"), rows)
    figure = StudyFigure(stem, caption, data, plot)
    text = " ".join(_seen_and_unseen(rows, trait)) if cross == IN_TRAINING else ""
    return Finding(f"Accuracy by {trait} and {cross}", text, shown, (figure,))


IN_TRAINING = "in-training"
"""Value of `cross` that groups items by whether the run's training data have the trait's value."""


def _with_training(
    runs: Runs, rows: Sequence[Mapping[str, Any]], trait: str, same: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows with a column that states whether training has their value of a trait. Rows whose
    training data are missing are dropped.
    """
    trained = {
        digest: _trained_values(data, trait) for digest, data in stored_datasets(runs).items()
    }
    own: dict[tuple[Any, ...], set[str]] = {}
    for run in runs.table.to_pylist():
        values = trained.get(runs[run["run"]].data)
        if values:
            own.setdefault(tuple(run[name] for name in same), set()).update(values)
    if not own:
        raise StudyError(
            f"{runs.path} has no datasets whose training split has the trait '{trait}' (STORE/data)"
        )
    places = ((row, own.get(tuple(row[name] for name in same))) for row in rows)
    return [
        {**row, IN_TRAINING: "yes" if str(row[trait]) in values else "no"}
        for row, values in places
        if values is not None
    ]


def _trained_values(data: Dataset, trait: str) -> set[str]:
    """Values of a trait in training, as runs spell them."""
    values: set[str] = set()
    for split in (name for name in data.splits if data.role(name) == "train"):
        traits = data.table(split).column("traits")
        if traits.type.get_field_index(trait) >= 0:
            some = pc.unique(pc.struct_field(traits, trait)).to_pylist()
            values |= {
                value if isinstance(value, str) else json.dumps(value)
                for value in some
                if value is not None
            }
    return values


def _seen_and_unseen(rows: Sequence[Mapping[str, Any]], trait: str) -> Iterator[str]:
    """Yield the mean over all items whose value of the trait occurs in training, and the mean over
    the others.
    """
    for trainings in dict.fromkeys(row["trainings"] for row in rows):
        parts = []
        for answer, what in (("yes", "has"), ("no", "lacks")):
            own = [
                row for row in rows if row["trainings"] == trainings and row[IN_TRAINING] == answer
            ]
            items = sum(row["n"] for row in own)
            if items:
                mean = sum(row["mean"] * row["n"] for row in own) / items
                parts.append(
                    f"{mean:.3f} where training {what} the value of {trait}"
                    f" ({count_of([items], 'item')})"
                )
        yield f"{trainings}: {', '.join(parts)}."


def _label(row: Mapping[str, Any], apart: Sequence[str]) -> str:
    """Label of a panel: learner, recipe, and everything else that distinguishes rows."""
    further = [
        f"{name.partition('.')[2] or name} {short_value(row[name])}"
        for name in apart
        if row[name] is not None
    ]
    return ", ".join([str(row["learner"]), str(row["recipe"]), *further])
