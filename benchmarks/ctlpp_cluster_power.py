"""Power of the criterion for separate codes: how often does it find groups that are planted?

    python benchmarks/ctlpp_cluster_power.py [--trials 1000]

Each trial makes a vector for each of 32 functions in two groups of 16: a part that all functions
share, a part of the group (and of half of the group, for sub-clusters), and noise of its own. The
parts are sized so that the mean cosine within groups, and how much lower it is between them (the
gap), are those of the row. Functions differ in how noisy they are, as in trained networks.

The table has the share of trials in which the criterion says *separate*. For two clean groups the
silhouette is gap / (1 - cosine between), so groups at 0.6 within and 0.2 between are exactly at
its limit of 0.5.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from taskloom.analysis.similarity import GAP, SILHOUETTE, Floats, cosines, evidence, silhouette

FUNCTIONS, SIZE = 32, 256
"""Functions of a symbol's matrix, and entries of NDR's read-out state."""

GROUPS = np.repeat([0, 1], FUNCTIONS // 2)
HALVES = np.repeat([0, 1, 2, 3], FUNCTIONS // 4)

UNEVEN = 0.3
"""Standard deviation of log noise between functions: two thirds lie within 0.74 to 1.35."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A world of vectors.

    Attributes:
        name: For the table.
        within: Mean cosine of two functions of one group.
        gap: How much lower the mean cosine is between groups.
        halves: How much higher it is within half a group than between halves.
    """

    name: str
    within: float
    gap: float
    halves: float = 0.0


WORLDS = (
    Planted("no groups, mean cosine 0.4", 0.4, 0.0),
    Planted("no groups, mean cosine 0.8", 0.8, 0.0),
    Planted("two groups", 0.6, 0.4),
    Planted("two groups, each of two sub-clusters", 0.6, 0.4, 0.2),
    Planted("two groups", 0.8, 0.2),
    Planted("two groups", 0.8, 0.4),
    Planted("two groups, each of two sub-clusters", 0.8, 0.4, 0.1),
)


def planted_vectors(world: Planted, rng: np.random.Generator) -> Floats:
    """Vectors of all functions whose mean cosines are those of the world, up to chance."""
    common = rng.normal(size=SIZE)
    groups, halves = rng.normal(size=(2, SIZE)), rng.normal(size=(4, SIZE))
    noise = rng.normal(size=(FUNCTIONS, SIZE)) * np.exp(UNEVEN * rng.normal(size=(FUNCTIONS, 1)))
    between = world.within - world.gap
    # Half of the pairs within a group share their half, so that the mean within is kept.
    of_group = world.gap - world.halves / 2
    of_noise = 1 - world.within - world.halves / 2
    vectors: Floats = (
        np.sqrt(between) * common
        + np.sqrt(of_group) * groups[GROUPS]
        + np.sqrt(world.halves) * halves[HALVES]
        + np.sqrt(of_noise) * noise
    )
    return vectors


def detected(world: Planted, trials: int, seed: int = 0) -> dict[str, float]:
    """Share of trials with separate codes, and share in which the known groups pass the silhouette.

    The mean cosine within groups and the gap are returned as measured.
    """
    rng = np.random.default_rng(seed)
    found, of_groups, gaps, within = [], [], [], []
    for _ in range(trials):
        matrix = cosines(planted_vectors(world, rng))
        result = evidence(matrix, GROUPS)
        found.append(result.separate)
        of_groups.append(silhouette(matrix, GROUPS) >= SILHOUETTE)
        gaps.append(result.group_gap)
        same = (GROUPS[:, None] == GROUPS[None, :]) & ~np.eye(FUNCTIONS, dtype=bool)
        within.append(float(matrix[same].mean()))
    return {
        "separate": float(np.mean(found)),
        "groups": float(np.mean(of_groups)),
        "within": float(np.mean(within)),
        "gap": float(np.mean(gaps)),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    print(f"separate: silhouette >= {SILHOUETTE}, gap >= {GAP}; {trials} trials a row\n")
    print(
        "| planted | within (measured) | gap (measured) | *separate* | known groups pass the"
        " silhouette |"
    )
    print("| --- | --- | --- | --- | --- |")
    for world in WORLDS:
        shares = detected(world, trials)
        print(
            f"| {world.name} | {world.within:.1f} ({shares['within']:.2f}) | {world.gap:.1f}"
            f" ({shares['gap']:.2f}) | {shares['separate']:.1%} | {shares['groups']:.1%} |"
        )


if __name__ == "__main__":
    main()
