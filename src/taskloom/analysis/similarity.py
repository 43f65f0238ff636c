"""Are vectors that stand for the same thing alike? Cosines, the cut of the CTL++ paper, and a
criterion that can say no.

The paper orders functions by clusters: Euclidean distances between the rows of the cosine matrix,
complete linkage, cut at half of the largest distance. The root of complete linkage lies at the
largest distance, so this cut finds at least two clusters unless all rows are equal, also in noise
around one vector. The number of clusters is therefore no evidence.

The absolute criterion beside it: the clusters of the cut are *separate* codes if

* their silhouette (Rousseeuw 1987) with the distance 1 - cosine is at least 0.5, which Kaufman and
  Rousseeuw (1990) read as a reasonable structure, and
* the mean cosine within clusters exceeds that between them by at least 0.2: clusters that differ by
  less are one code with noise, however sharp their border is.

Without separate codes there is *one* code if the mean cosine of all vectors is at least 0.8; below
that the vectors are *scattered*: they are not alike, and the criterion finds no clusters.

Its power is limited. It finds two planted groups of 16 functions in 28 % of trials at a mean cosine
of 0.6 within and 0.2 between groups, and in 97 % at 0.8 and 0.4
(`benchmarks/ctlpp_cluster_power.py`). So *scattered* does not mean that there are no clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

SMALLEST_NORM = 1e-6
"""Vectors shorter than this count as having this norm, as in the public code."""

SILHOUETTE = 0.5
GAP = 0.2
ALIKE = 0.8
"""The mean cosine from which on vectors are one code: an angle of 37 degrees."""


@dataclass(frozen=True, slots=True)
class ClusterEvidence:
    """How separate the vectors of one symbol are.

    Attributes:
        clusters: How many the paper's cut finds.
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
        """Return `separate`, `one` or `scattered`."""
        if self.separate:
            return "separate"
        return "one" if self.mean >= ALIKE else "scattered"

    @property
    def separate(self) -> bool:
        """Return whether there are separate codes, by the absolute criterion."""
        return self.silhouette >= SILHOUETTE and self.gap >= GAP


def cosines(vectors: Floats) -> Floats:
    """Return the cosine of every two rows."""
    norms = np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), SMALLEST_NORM)
    unit = vectors / norms
    product: Floats = unit @ unit.T
    return product


def paper_clusters(matrix: Floats) -> Labels:
    """Return the cluster of each row of a cosine matrix by the paper's cut, numbered from 0 in the
    order of their first rows.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(matrix, method="complete", metric="euclidean")
    raw = fcluster(tree, t=tree[-1, 2] / 2, criterion="distance")
    order = list(dict.fromkeys(int(label) for label in raw))
    return np.array([order.index(int(label)) for label in raw], dtype=np.int64)


def silhouette(matrix: Floats, labels: Labels) -> float:
    """Return the mean silhouette of clusters, with the distance 1 - cosine; 0 for items that are
    alone, and for one cluster.
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


def gap(matrix: Floats, labels: Sequence[int] | Labels) -> float:
    """Return the mean cosine of two items of one label minus that of two items of different labels;
    nan without such pairs.
    """
    ids = np.asarray(labels)
    same = ids[:, None] == ids[None, :]
    off_diagonal = ~np.eye(len(ids), dtype=bool)
    inside, between = matrix[same & off_diagonal], matrix[~same]
    return float(inside.mean() - between.mean()) if len(inside) and len(between) else float("nan")


def evidence(matrix: Floats, groups: Sequence[int] | Labels) -> ClusterEvidence:
    """Return what a cosine matrix says about separate codes.

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
