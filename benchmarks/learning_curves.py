"""Compare how seeds learn in two precisions: training losses, the steps at which each first reaches an accuracy, and their spreads.

    python benchmarks/learning_curves.py docs/results/learners/ndr-A-fp32.json docs/results/learners/ndr-A-bf16.json [MORE]

Takes files of curves as `ctlpp_gpu.py` writes them, the exact one first; further files have further seeds of the other precision.
A seed that both have started from the same weights, took the same batches and the same masks of dropout: what differs is rounding.
Chances are exact: the share of all ways to divide the seeds between two groups of these sizes in which the groups' mean ranks
differ at least as much as they do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

THRESHOLDS = (0.5, 0.99)

Curve = Sequence[tuple[int, float]]
"""Steps and the accuracy there."""

SCORE, LOSS = 2, 3
"""Places in a row of a curve."""


def curves_of(paths: Sequence[Path], split: str = "iid", place: int = SCORE) -> dict[str, Curve]:
    """Return each seed's accuracy or loss on a split by steps."""
    files = [json.loads(path.read_text())["curves"] for path in paths]
    curves = {seed: rows for file in files for seed, rows in file.items()}
    return {seed: [(row[0], row[place]) for row in rows if row[1] == split] for seed, rows in curves.items()}


def first_step(curve: Curve, threshold: float) -> int | None:
    """Return the first step at which the accuracy is reached, if it is."""
    return next((step for step, score in curve if score >= threshold), None)


def last_common(curves: Sequence[Mapping[str, Curve]]) -> int:
    """Return the last step to which all curves go."""
    return min(curve[-1][0] for each in curves for curve in each.values())


def numbers(steps: Sequence[int | None]) -> list[float]:
    """Return first steps as numbers; never is the greatest."""
    return [float("inf") if step is None else step for step in steps]


def within_spread(some: Sequence[int | None], others: Sequence[int | None]) -> bool:
    """Return whether the first steps of some seeds lie between the least and the greatest of the others; never is the greatest."""
    least, greatest = min(numbers(others)), max(numbers(others))
    return all(least <= step <= greatest for step in numbers(some))


def chance(some: Sequence[float], others: Sequence[float]) -> float:
    """Return how often two groups drawn from all these values differ at least as much in their mean ranks."""
    values = [*some, *others]
    ranks = [sum(a < b for a in values) + sum(a == b for a in values) / 2 for b in values]
    middle = sum(ranks) / len(ranks)
    distance = abs(sum(ranks[: len(some)]) / len(some) - middle)
    ways = [abs(sum(group) / len(some) - middle) for group in combinations(ranks, len(some))]
    return sum(way >= distance - 1e-9 for way in ways) / len(ways)


def print_losses(exact: Mapping[str, Curve], other: Mapping[str, Curve], end: int) -> None:
    """Print training losses side by side, and the chance of a difference as large in their means up to the end."""
    by_step = [{seed: dict(curve) for seed, curve in each.items()} for each in (exact, other)]
    for step in sorted({step for curve in exact.values() for step, _ in curve if step <= end}):
        here, there = ({seed: curve[step] for seed, curve in each.items() if step in curve} for each in by_step)
        mine = ", ".join(f"{seed}: {loss:.4f}" for seed, loss in here.items())
        same = ", ".join(f"{seed}: {there[seed]:.4f}" for seed in here if seed in there)
        if there:
            spread = f"{min(there.values()):.4f} to {max(there.values()):.4f}"
            print(f"loss at {step:,}: exact {mine}; other {same}; all {len(there)} others {spread}")
    means = [
        [sum(loss for step, loss in curve if step <= end) / sum(step <= end for step, _ in curve) for curve in each]
        for each in (exact.values(), other.values())
    ]
    print(
        f"mean training loss to {end:,}: exact {shown(means[0])}; other {shown(means[1])}; chance {chance(*means):.2f}"
    )


def shown(values: Sequence[float]) -> str:
    """Return numbers as text."""
    return " ".join(f"{value:.3f}" for value in values)


def print_first_steps(exact: Mapping[str, Curve], other: Mapping[str, Curve], end: int, threshold: float) -> None:
    """Print when each seed reaches an accuracy, and whether the exact seeds lie within the spread of the others."""
    steps = [
        {seed: first_step([one for one in curve if one[0] <= end], threshold) for seed, curve in each.items()}
        for each in (exact, other)
    ]
    for seed, step in steps[1].items():
        texts = ["—" if one is None else f"{one:,}" for one in (steps[0].get(seed), step)]
        print(f"iid {threshold}, seed {seed}: exact {texts[0] if seed in exact else 'not trained'}, other {texts[1]}")
    firsts, others = list(steps[0].values()), list(steps[1].values())
    if {*firsts, *others} == {None}:
        print(f"iid {threshold}: no seed reaches it by then, so nothing can be told")
        return
    inside = "within" if within_spread(firsts, others) else "outside"
    rarity = chance(numbers(firsts), numbers(others))
    print(f"iid {threshold}: the exact seeds lie {inside} the spread of the others; chance {rarity:.2f}")


def main() -> None:
    """Compare the files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exact", type=Path)
    parser.add_argument("other", type=Path, nargs="+")
    args = parser.parse_args()
    exact, other = curves_of([args.exact]), curves_of(args.other)
    end = last_common([exact, other])
    print(f"to step {end:,}; never: —")
    losses = curves_of([args.exact], "train", LOSS), curves_of(args.other, "train", LOSS)
    if all(any(each.values()) for each in losses):
        print_losses(*losses, end)
    for threshold in THRESHOLDS:
        print_first_steps(exact, other, end, threshold)


if __name__ == "__main__":
    main()
