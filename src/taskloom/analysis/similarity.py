"""Similarity of vectors that represent the same thing: cosines, the clustering of the CTL++ paper,
and a criterion that can reject it.

The paper orders functions by clusters: Euclidean distances between the rows of the cosine matrix,
complete linkage, cut at half of the largest distance. The root of complete linkage lies at the
largest distance, so this cut finds at least two clusters unless all rows are equal, also in noise
around one vector. The number of clusters is therefore no evidence.

An absolute criterion is therefore used as well. The clusters of the cut are *separate* codes if

* their silhouette (Rousseeuw 1987) with the distance 1 - cosine is at least 0.5, which Kaufman and
  Rousseeuw (1990) read as a reasonable structure, and
* the mean cosine within clusters exceeds that between them by at least 0.2: clusters that differ by
  less are one code with noise, however sharp their border is.

Without separate codes there is *one* code if the mean cosine of all vectors is at least 0.8. Below
that, the vectors are *scattered*: they are dissimilar, and the criterion finds no clusters.

Its power is limited. It finds two planted groups of 16 functions in 28 % of trials at a mean cosine
of 0.6 within and 0.2 between groups, and in 97 % at 0.8 and 0.4
(`benchmarks/ctlpp_cluster_power.py`). So *scattered* does not mean that there are no clusters.

The study `runs/similarity` asks the paper's question of any runs that kept their models, pretrained
ones included: is a value represented by the same vector, whichever part of an input produced it?
CTL++ asks this about a symbol and the function that returns it. Here the value is the answer or a
trait, and the part is any trait. The vectors of all inputs with the same value and part are
averaged, and those of one value are compared across parts. All states of pretrained models point in
a similar direction, so a high cosine alone says little. Cosines between different values are shown
for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.analysis.any_runs import any_recipe_experiments
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.study import StudyError, check_choice, check_split, study
from taskloom.experiments.accuracy import run_labels
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.learners.saved import load

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

SMALLEST_NORM = 1e-6
"""Minimum norm. Shorter vectors count as having this norm, as in the public code."""

SILHOUETTE = 0.5
GAP = 0.2
ALIKE = 0.8
"""Minimum mean cosine of vectors that count as one code: an angle of 37 degrees."""


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """Measures of how separate the vectors of one symbol are.

    Attributes:
        clusters: Number of clusters of the paper's cut.
        silhouette: Mean silhouette of that cut.
        gap: Mean cosine within clusters - mean cosine between them.
        group_gap: Mean cosine within the given groups - mean cosine between them.
        mean: Mean cosine of any two different vectors.
    """

    clusters: int
    silhouette: float
    gap: float
    group_gap: float
    mean: float

    @property
    def codes(self) -> str:
        """`separate`, `one` or `scattered`."""
        if self.separate:
            return "separate"
        return "one" if self.mean >= ALIKE else "scattered"

    @property
    def separate(self) -> bool:
        """True if there are separate codes, by the absolute criterion."""
        return self.silhouette >= SILHOUETTE and self.gap >= GAP


def cosines(vectors: Floats) -> Floats:
    """Cosine of every two rows."""
    norms = np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), SMALLEST_NORM)
    unit = vectors / norms
    product: Floats = unit @ unit.T
    return product


def paper_clusters(matrix: Floats) -> Labels:
    """Cluster of each row of a cosine matrix by the paper's cut, numbered from 0 in order of first
    appearance.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(matrix, method="complete", metric="euclidean")
    raw = fcluster(tree, t=tree[-1, 2] / 2, criterion="distance")
    order = list(dict.fromkeys(int(label) for label in raw))
    return np.array([order.index(int(label)) for label in raw], dtype=np.int64)


def silhouette(matrix: Floats, labels: Labels) -> float:
    """Mean silhouette of clusters, with the distance 1 - cosine. It is 0 for clusters of one item
    and for a single cluster.
    """
    names = np.unique(labels)
    if len(names) < 2:
        return 0.0
    distance = 1 - matrix
    np.fill_diagonal(distance, 0.0)
    values = np.zeros(len(labels))
    for i, own in enumerate(labels):
        same = labels == own
        if same.sum() == 1:
            continue
        inside = distance[i, same].sum() / (same.sum() - 1)
        outside = min(float(distance[i, labels == other].mean()) for other in names if other != own)
        largest = max(inside, outside)
        values[i] = (outside - inside) / largest if largest > 0 else 0.0
    return float(values.mean())


def gap(
    matrix: Floats, labels: Sequence[int] | Labels, counted: NDArray[np.bool_] | None = None
) -> float:
    """Mean cosine of two items of one label minus that of two items of different labels; nan
    without such pairs.

    Args:
        matrix: Cosines of the items.
        labels: Label of each item.
        counted: True for pairs of items that count. Default: all.
    """
    ids = np.asarray(labels)
    same = ids[:, None] == ids[None, :]
    pairs = ~np.eye(len(ids), dtype=bool)
    if counted is not None:
        pairs &= counted
    inside, between = matrix[same & pairs], matrix[~same & pairs]
    return float(inside.mean() - between.mean()) if len(inside) and len(between) else float("nan")


def evidence(matrix: Floats, groups: Sequence[int] | Labels) -> ClusterEvidence:
    """Evidence of a cosine matrix for separate codes.

    Args:
        matrix: Cosines of one symbol's vectors.
        groups: The group of the function that made each vector.
    """
    labels = paper_clusters(matrix)
    between = gap(matrix, labels)
    return ClusterEvidence(
        len(np.unique(labels)),
        silhouette(matrix, labels),
        0.0 if np.isnan(between) else between,
        gap(matrix, groups),
        float(matrix[~np.eye(len(matrix), dtype=bool)].mean()),
    )


MOST_INPUTS = 2_000
"""Maximum inputs whose states are computed: seconds for a network from scratch, a minute for a
pretrained model on a CPU.
"""

FEWEST_PARTS = 3
"""Minimum number of parts of a value for clustering."""

MOST_PARTS = 30
"""Maximum values of a trait that counts as a part. A trait with more identifies inputs."""

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
    """Compare the states that represent one value across the parts of inputs that produced it.

    Args:
        runs: Runs that kept their models.
        part: A trait of the examples. Default: the trait with most values, up to `MOST_PARTS`.
        value: Another trait, or `answer`.
        where: A layer of the model, or `readout`.
        split: Only this split.
        run: First digits of the name of a run. Default: the first run that kept its model.
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
    """Values of each trait of the examples."""
    values: dict[str, set[str]] = {}
    for row in answers:
        for name, value in row["traits"] or ():
            values.setdefault(name, set()).add(value)
    return values


def _most_parts(runs: Runs, answers: Sequence[Mapping[str, Any]], value: str) -> str:
    """The trait with most values, each of which occurs in many inputs."""
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
    """Inputs that a run answered, with the value and part of each."""
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
    """Mean state for each value and part."""
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
