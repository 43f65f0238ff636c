"""Confidence sequences: how often they miss the mean if one looks at every moment, and what stopping
early costs.

    python benchmarks/sequences.py [--streams 2000] [--items 100000] [--pairs 2000]

Prints two tables in Markdown. Coverage: the share of streams whose mean is never excluded at any of
1 to 100,000 items. Stopping: the number of items after which `run --until decided`, which looks after
every batch of 20, knows the better of two models, and how often it is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
from numpy.typing import NDArray

from taskloom.experiments.execute.until import BATCH
from taskloom.experiments.statistics.sequences import SHARES, ConfidenceSequence, log_returns

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]

NEEDED = np.log(20.0)
"""Log capital at which a mean is refuted at the level 0.95."""

BLOCK = 5_000
"""Observations of a stream that are followed at once, so that they stay in the cache."""

FEW = 10
"""Maximum different scores of a stream that are counted, which is faster than adding them up."""

MOST = 1_000
"""Items of the fixed sample that stopping early is compared with."""


def right(share: float) -> Draw:
    return lambda rng, n: (rng.random(n) < share).astype(float)


def graded(share: float) -> Draw:
    """Scores between 0 and 1, such as F1: a beta distribution of this mean."""
    return lambda rng, n: rng.beta(4 * share, 4 * (1 - share), n)


def difference(first: float, second: float) -> Draw:
    """Paired differences of two models whose errors are independent."""
    return lambda rng, n: right(first)(rng, n) - right(second)(rng, n)


def graded_difference(first: float, second: float) -> Draw:
    """Paired differences of graded scores of two models."""
    return lambda rng, n: graded(first)(rng, n) - graded(second)(rng, n)


def alike(share: float) -> Draw:
    """Paired differences of two models of equal accuracy that disagree on this share of items."""
    return lambda rng, n: (rng.random(n) < share) * rng.choice([-1.0, 1.0], n)


COVERAGE: dict[str, tuple[Draw, float, float]] = {
    **{
        f"right or wrong, mean {p}": (right(p), p, 0.0)
        for p in (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
    },
    **{f"graded, mean {p}": (graded(p), p, 0.0) for p in (0.05, 0.7, 0.98)},
    "difference, 0.8 and 0.8": (difference(0.8, 0.8), 0.0, -1.0),
    "difference, 0.8 and 0.6": (difference(0.8, 0.6), 0.2, -1.0),
    "difference, 0.999 and 0.001": (difference(0.999, 0.001), 0.998, -1.0),
    "difference, equal models that disagree on 1 %": (alike(0.01), 0.0, -1.0),
    "graded difference, 0.7 and 0.6": (graded_difference(0.7, 0.6), 0.1, -1.0),
}
"""Draws, their true mean, and their lowest value."""


def coverage(draw: Draw, mean: float, low: float, items: int, streams: int) -> float:
    """Share of streams in which the true mean is not refuted after any observation."""
    rng = np.random.default_rng(0)
    unit = np.array([(mean - low) / (1.0 - low)])
    refuted = sum(is_refuted((draw(rng, items) - low) / (1.0 - low), unit) for _ in range(streams))
    return 1.0 - refuted / streams


def is_refuted(stream: NDArray[np.float64], mean: NDArray[np.float64]) -> bool:
    """True if a candidate is refuted after any observation of a stream.

    `ConfidenceSequence` looks after every batch alone, and its interval is a step wider on each
    side, so it misses at most these means.
    """
    capital = np.zeros((2 * len(SHARES), 1))
    for start in range(0, len(stream), BLOCK):
        block = stream[start : start + BLOCK]
        values = np.unique(block)
        if len(values) <= FEW:
            counts = np.cumsum(block == values[:, None], axis=1, dtype=np.float64)
            capital = capital[:, -1:] + log_returns(values, mean)[:, :, 0].T @ counts
        else:
            capital = capital[:, -1:] + np.cumsum(log_returns(block, mean)[:, :, 0].T, axis=1)
        # All gamblers together have at most the mean capital of the richest.
        rich = capital[:, capital.max(axis=0) >= NEEDED]
        together = np.logaddexp.reduce(rich, axis=0) - np.log(len(capital))
        if (together >= NEEDED).any():
            return True
    return False


def decision(draw: Draw, most: int, rng: np.random.Generator) -> tuple[int, int]:
    """Items asked until a difference is decided, and its sign; 0 if it is not."""
    sequence = ConfidenceSequence(-1.0, 1.0)
    while sequence.n < most:
        sequence.add(draw(rng, BATCH))
        if sequence.excludes(0.0):
            return sequence.n, 1 if sequence.interval[0] > 0 else -1
    return sequence.n, 0


def print_coverage(streams: int, items: int) -> None:
    print(f"{streams:,} streams of 1 to {items:,} items\n")
    print("| scores | mean never refuted |\n| --- | --- |")
    for name, (draw, mean, low) in COVERAGE.items():
        share = coverage(draw, mean, low, items, streams)
        print(f"| {name} | {100 * share:.1f} % |", flush=True)


def print_decisions(pairs: int) -> None:
    heads = (
        "accuracies | items, mean | items, 95th percentile | fewer than 1,000 | undecided | wrong"
    )
    print(f"\n| {heads} |\n|{' --- |' * 6}")
    for better in (1.0, 0.9, 0.8, 0.7, 0.6):
        _print_pair(better, better - 0.2, pairs)
    _print_pair(0.8, 0.8, pairs)


def _print_pair(first: float, second: float, pairs: int) -> None:
    rng = np.random.default_rng(1)
    found = [decision(difference(first, second), MOST, rng) for _ in range(pairs)]
    items = np.array([n for n, _ in found])
    truth = 1 if first > second else 0
    undecided = sum(sign == 0 for _, sign in found)
    wrong = sum(sign not in (0, truth) for _, sign in found)
    cells = [
        f"{first:.1f} and {second:.1f}",
        f"{items.mean():.0f}",
        f"{np.quantile(items, 0.95):.0f}",
        f"{MOST / items.mean():.1f} times",
        f"{100 * undecided / pairs:.1f} %",
        f"{100 * wrong / pairs:.1f} %",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=2_000)
    given = parser.parse_args()
    print_coverage(given.streams, given.items)
    print_decisions(given.pairs)


if __name__ == "__main__":
    main()
