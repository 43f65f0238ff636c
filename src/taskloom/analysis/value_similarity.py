"""Is one value the same vector whichever part of an input made it? For any runs that kept their
models, pretrained ones included.

CTL++ asks this of a symbol and the function that gives it. Here the value is the answer or a trait,
and the part any trait: the vectors of all inputs with the same value and part are averaged, and
those of one value are compared across parts. States of pretrained models point into one direction
to begin with, so that a high cosine alone says little: cosines between different values stand
beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.analysis.conditions import run_labels
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.settings import check_choice, check_split
from taskloom.analysis.similarity import ALIKE, GAP, SILHOUETTE, Floats, cosines, evidence
from taskloom.analysis.small_recipes import any_recipe_experiments
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.learners.saved import load

MOST_INPUTS = 2_000
"""Inputs whose states are computed: seconds for a network from scratch, a minute for a pretrained
model on a CPU.
"""

FEWEST_PARTS = 3
"""Parts of a value below which there is nothing to cluster."""

MOST_PARTS = 30
"""Values of a trait above which it names inputs rather than parts of them."""

ANSWER = "answer"


@study(
    "runs/similarity",
    describe=(
        "Similarity of a value's representations by the part that made it, for any kept model and"
        " layer"
    ),
    experiment=any_recipe_experiments,
)
def value_similarity(
    runs: Runs,
    *,
    part: str = "",
    value: str = ANSWER,
    where: str = "readout",
    split: str = "",
    run: str = "",
) -> Finding:
    """Compare the states that stand for one value across the parts of inputs that made it.

    Args:
        runs: Runs that kept their models.
        part: A trait of the examples; by default that with most values, up to `MOST_PARTS`.
        value: Another trait, or `answer`.
        where: A layer of the model, or `readout`.
        split: Only this split.
        run: The beginning of the name of a run; the first that kept its model by default.
    """
    check_split(runs, split)
    chosen = _chosen(runs, run)
    columns = ["input", "targets", "traits"]
    answers = runs.predictions(split or None, columns, runs=[chosen]).to_pylist()
    part = part or _most_parts(runs, answers, value)
    inputs, values, parts = _items(runs, answers, part, value)
    folder = runs.model(chosen)
    assert folder is not None  # `_chosen` takes only runs that kept their model
    fitted = load(folder)
    states = np.asarray(fitted.represent(inputs, where), dtype=np.float64)
    vectors = mean_vectors(states, values, parts)
    rows = list(_rows(vectors))
    if not rows:
        raise StudyError(
            f"no {value} has {FEWEST_PARTS} different values of '{part}'; choose another part"
        )
    points = [point for row in rows for point in _points(row)]
    name = run_labels(runs)[chosen]
    seed = runs[chosen].seed
    caption = (
        f"Mean cosine of the vectors at '{where}' of one {value} made by different values of"
        f" {part}, and of different values made by any: {name}, seed {seed} ({len(inputs):,}"
        " inputs; one model, no interval)."
    )
    plot = partial(
        figures.intervals,
        place="value",
        series="cosines",
        xlabel="mean cosine",
        limits=(-0.2, 1.0),
        ylabel=value,
    )
    closer = sum(row["same value"] > row["other values"] for row in rows)
    return Finding(
        f"Similarity of one {value} across {part}",
        f"In {closer} of {len(rows)} values the vectors of one value are closer to each other than"
        f" to those of other values. {sum(row['codes'] == 'separate' for row in rows)} have"
        " separate codes by the absolute criterion.",
        ResultTable(COLUMNS, rows),
        (
            StudyFigure(
                "similarity", caption, ResultTable(("value", "cosines", "mean"), points), plot
            ),
        ),
        notes=(CRITERION, *_other_models(runs, run)),
    )


COLUMNS = (
    "value",
    "parts",
    "same value",
    "other values",
    "clusters of the cut",
    "silhouette",
    "gap of clusters",
    "codes",
)

CRITERION = (
    f"Codes are separate where the clusters of the cut have a silhouette of at least {SILHOUETTE:g}"
    f" and cosines within them are larger than between them by at least {GAP:g}; one where the mean"
    f" cosine is at least {ALIKE:g}; else scattered. Scattered does not mean that there are no"
    " clusters: two planted groups of 16 with cosines of 0.6 within and 0.2 between are found in"
    " 28 % of trials."
)


def _kept(runs: Runs, wanted: str) -> list[str]:
    return [run for run in runs.names if runs.model(run) is not None and run.startswith(wanted)]


def _other_models(runs: Runs, wanted: str) -> Iterator[str]:
    kept = _kept(runs, wanted)
    if len(kept) > 1:
        yield (
            f"{len(kept)} runs kept their model; this is {kept[0][:8]}. Name the beginning of"
            f" another: run={kept[1][:8]}."
        )


def _chosen(runs: Runs, wanted: str) -> str:
    kept = _kept(runs, wanted)
    if not kept:
        which = f" that begins with '{wanted}'" if wanted else ""
        raise StudyError(
            f"{runs.path} has no run{which} with a kept model; run with keep: {{model: true}}"
        )
    return kept[0]


def _trait_values(answers: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the values of each trait of the examples."""
    values: dict[str, set[str]] = {}
    for row in answers:
        for name, value in row["traits"] or ():
            values.setdefault(name, set()).add(value)
    return values


def _most_parts(runs: Runs, answers: Sequence[Mapping[str, Any]], value: str) -> str:
    """Return the trait with most values that still are parts of many inputs each."""
    known = {name: len(of) for name, of in sorted(_trait_values(answers).items()) if name != value}
    fit = {name: n for name, n in known.items() if FEWEST_PARTS <= n <= MOST_PARTS}
    if not fit:
        raise StudyError(
            f"no trait of {runs.path} has {FEWEST_PARTS} to {MOST_PARTS} values; name a part:"
            f" part=TRAIT, of {', '.join(known) or 'none'}"
        )
    return max(fit, key=lambda name: fit[name])


def _items(
    runs: Runs, answers: Sequence[Mapping[str, Any]], part: str, value: str
) -> tuple[list[str], list[str], list[str]]:
    """Return the inputs that a run answered, with the value and the part of each."""
    known = sorted(_trait_values(answers))
    check_choice(runs, "part", part, known)
    check_choice(runs, "value", value, [*known, ANSWER])
    items = []
    for row in answers:
        traits = dict(row["traits"] or ())
        own = row["targets"][0] if value == ANSWER and row["targets"] else traits.get(value)
        if own is not None and traits.get(part) is not None:
            items.append((row["input"], str(own), str(traits[part])))
    if not items:
        raise StudyError(f"no example of {runs.path} has both '{part}' and '{value}'")
    inputs, values, parts = (list(column) for column in zip(*items[:MOST_INPUTS], strict=True))
    return inputs, values, parts


def mean_vectors(
    states: Floats, values: list[str], parts: list[str]
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return the mean state for each value and part."""
    sums: dict[str, dict[str, list[NDArray[np.float64]]]] = {}
    for state, value, part in zip(states, values, parts, strict=True):
        sums.setdefault(value, {}).setdefault(part, []).append(state)
    return {
        value: {part: np.mean(own, axis=0) for part, own in of.items()}
        for value, of in sorted(sums.items())
    }


def _rows(vectors: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> Iterator[dict[str, Any]]:
    every = cosines(np.stack([vector for of in vectors.values() for vector in of.values()]))
    owners = np.array([value for value, of in vectors.items() for _ in of])
    for value, of in vectors.items():
        if len(of) < FEWEST_PARTS:
            continue
        own = owners == value
        matrix = every[np.ix_(own, own)]
        result = evidence(matrix, range(len(of)))
        others = every[np.ix_(own, ~own)]
        yield {
            "value": value,
            "parts": len(of),
            "same value": result.mean,
            "other values": float(others.mean()) if others.size else float("nan"),
            "clusters of the cut": result.clusters,
            "silhouette": result.silhouette,
            "gap of clusters": result.gap,
            "codes": result.codes,
        }


def _points(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for cosine in ("same value", "other values"):
        yield {"value": row["value"], "cosines": cosine, "mean": row[cosine]}
