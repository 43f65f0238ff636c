"""Compare when seeds learn in two precisions: the steps at which each first reaches an accuracy, and whether the spreads meet.

    python benchmarks/learning_curves.py docs/results/learners/curves-fp32.json ndr-A.json

Takes two files of curves as `ctlpp_gpu.py` writes them, the exact one first. A seed that both have started from the same weights,
took the same batches and the same masks of dropout: what differs is rounding.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

THRESHOLDS = (0.5, 0.99)

Curve = Sequence[tuple[int, float]]
"""Steps and the accuracy there."""


def curves_of(path: Path, split: str = "iid") -> dict[str, Curve]:
    """Return each seed's accuracy on a split by steps."""
    curves = json.loads(path.read_text())["curves"]
    return {seed: [(step, score) for step, name, score, _ in rows if name == split] for seed, rows in curves.items()}


def first_step(curve: Curve, threshold: float) -> int | None:
    """Return the first step at which the accuracy is reached, if it is."""
    return next((step for step, score in curve if score >= threshold), None)


def last_common(curves: Sequence[Mapping[str, Curve]]) -> int:
    """Return the last step to which all curves go."""
    return min(curve[-1][0] for each in curves for curve in each.values())


def within_spread(some: Sequence[int | None], others: Sequence[int | None]) -> bool:
    """Return whether the first steps of some seeds lie between the least and the greatest of the others; never is the greatest."""
    numbers = [float("inf") if step is None else step for step in others]
    return all(min(numbers) <= (float("inf") if step is None else step) <= max(numbers) for step in some)


def main() -> None:
    """Print a line for each seed and threshold, and whether the exact seeds lie within the spread of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exact", type=Path)
    parser.add_argument("other", type=Path)
    args = parser.parse_args()
    exact, other = curves_of(args.exact), curves_of(args.other)
    end = last_common([exact, other])
    print(f"to step {end:,}; never: —")
    for threshold in THRESHOLDS:
        steps = [
            {seed: first_step([one for one in curve if one[0] <= end], threshold) for seed, curve in each.items()}
            for each in (exact, other)
        ]
        for seed, step in steps[1].items():
            shown = ["—" if one is None else f"{one:,}" for one in (steps[0].get(seed), step)]
            print(
                f"iid {threshold}, seed {seed}: exact {shown[0] if seed in exact else 'not trained'}, other {shown[1]}"
            )
        firsts, others = list(steps[0].values()), list(steps[1].values())
        if {*firsts, *others} == {None}:
            print(f"iid {threshold}: no seed reaches it by then, so nothing can be told")
            continue
        inside = within_spread(firsts, others)
        print(f"iid {threshold}: the exact seeds lie {'within' if inside else 'outside'} the spread of the others")


if __name__ == "__main__":
    main()
