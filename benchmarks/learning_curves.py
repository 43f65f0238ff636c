"""Compare how seeds learn in several precisions: training losses, when each first reaches an
accuracy, and their spreads.

    python benchmarks/learning_curves.py fp32=ndr-A-fp32.json tf32=ndr-A-tf32.json
    bf16=ndr-A-bf16.json

Takes groups of seeds, each a name and its files of curves as `ctlpp_gpu.py` writes them (in
docs/results/learners), and compares every two of them up to the last step that all seeds of all
groups have reached. A seed that two groups have started from the same weights, took the same
batches and the same masks of dropout: what differs is rounding, and differences are given for these
pairs beside the spread of the group that is compared with. Chances are exact: the share of all ways
to divide the seeds between two groups of these sizes in which the groups' mean ranks differ at
least as much as they do. Two seeds beside two can be divided in six ways, so no chance is below a
third there. `--figure FILE.svg` draws the losses, and how far the same seeds are from the first
group's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from taskloom.analysis import figures

THRESHOLDS = (0.5, 0.99)

Curve = Mapping[int, float]
"""The accuracy or loss at each step."""

Group = Mapping[str, Curve]
"""The curve of each seed."""

SCORE, LOSS = 2, 3
"""Places in a row of a curve."""


def curves_of(
    paths: Sequence[Path], split: str = "iid", place: int = SCORE
) -> dict[str, dict[int, float]]:
    """Return each seed's accuracy or loss on a split by steps."""
    files = [json.loads(path.read_text())["curves"] for path in paths]
    curves = {seed: rows for file in files for seed, rows in file.items()}
    return {
        seed: {row[0]: row[place] for row in rows if row[1] == split}
        for seed, rows in curves.items()
    }


def last_common(groups: Sequence[Group]) -> int:
    """Return the last step to which all curves go."""
    return min(max(curve) for group in groups for curve in group.values())


def until(group: Group, end: int) -> dict[str, dict[int, float]]:
    """Return curves as far as a step."""
    return {
        seed: {step: value for step, value in curve.items() if step <= end}
        for seed, curve in group.items()
    }


def first_step(curve: Curve, threshold: float) -> float:
    """Return the first step at which the accuracy is reached; never is infinite."""
    return next((step for step, score in curve.items() if score >= threshold), math.inf)


def within_spread(some: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether some values lie between the least and the greatest of others."""
    return all(min(others) <= value <= max(others) for value in some)


def chance(some: Sequence[float], others: Sequence[float]) -> float:
    """Return how often two groups drawn from all these values differ at least as much in their mean
    ranks.
    """
    values = [*some, *others]
    ranks = [sum(a < b for a in values) + sum(a == b for a in values) / 2 for b in values]
    middle = sum(ranks) / len(ranks)
    distance = abs(sum(ranks[: len(some)]) / len(some) - middle)
    ways = [abs(sum(group) / len(some) - middle) for group in combinations(ranks, len(some))]
    return sum(way >= distance - 1e-9 for way in ways) / len(ways)


def points_within(some: Group, others: Group) -> tuple[int, int]:
    """Return at how many steps all of some seeds lie within the spread of others, and how many
    steps both have.
    """
    steps = set.intersection(*({*curve} for group in (some, others) for curve in group.values()))
    at = [
        within_spread([one[step] for one in some.values()], [one[step] for one in others.values()])
        for step in steps
    ]
    return sum(at), len(at)


def pairs(some: Group, others: Group) -> dict[str, dict[int, float]]:
    """Return by how much the second of two runs of the same seed lies above the first, at each step
    that both have.
    """
    return {
        seed: {
            step: others[seed][step] - value
            for step, value in curve.items()
            if step in others[seed]
        }
        for seed, curve in some.items()
        if seed in others
    }


def shown(values: Sequence[float]) -> str:
    """Return numbers as text."""
    return " ".join(f"{value:.3f}" for value in values)


def print_losses(groups: Mapping[str, Group]) -> None:
    """Print training losses side by side: those of the first group's seeds, and the least and
    greatest of a group with more.
    """
    seeds = next(iter(groups.values()))
    for step in sorted(
        {step for group in groups.values() for curve in group.values() for step in curve}
    ):
        texts = []
        for name, group in groups.items():
            here = {seed: curve[step] for seed, curve in group.items() if step in curve}
            text = ", ".join(f"{seed}: {here[seed]:.4f}" for seed in seeds if seed in here)
            if {*here} - {*seeds}:
                text += f", all {len(here)} {min(here.values()):.4f} to {max(here.values()):.4f}"
            texts.append(f"{name} {text}")
        print(f"loss at {step:,}: {'; '.join(texts)}")


def print_loss_pairs(names: Sequence[str], exact: Group, other: Group) -> None:
    """Print how far apart the losses of the same seeds are, and whether one group lies within the
    spread of the other.
    """
    for seed, differences in pairs(exact, other).items():
        step = max(differences, key=lambda one: abs(differences[one]))
        mean = sum(differences.values()) / len(differences)
        print(
            f"  loss, seed {seed}: {mean:+.4f} in the mean, at most {differences[step]:+.4f}, at"
            f" {step:,}"
        )
    for mine, some, theirs, others in (
        (names[1], other, names[0], exact),
        (names[0], exact, names[1], other),
    ):
        inside, points = points_within(some, others)
        print(
            f"  loss: {mine} within the spread of {theirs}'s seeds at {inside} of {points} points"
        )
    means = [
        [sum(curve.values()) / len(curve) for curve in group.values()] for group in (exact, other)
    ]
    print(
        f"  mean training loss: {shown(means[0])} and {shown(means[1])}; chance"
        f" {chance(*means):.2f}"
    )


def print_first_steps(exact: Group, other: Group, threshold: float) -> None:
    """Print when each seed reaches an accuracy, and whether seeds of the second group lie within
    the spread of the first.
    """
    steps = [
        {seed: first_step(curve, threshold) for seed, curve in group.items()}
        for group in (exact, other)
    ]
    for seed in sorted({*exact, *other}, key=int):
        texts = [
            f"{one[seed]:,}".replace("inf", "—") if seed in one else "not trained" for one in steps
        ]
        print(f"  iid {threshold}, seed {seed}: {texts[0]} and {texts[1]}")
    firsts, others = ([*one.values()] for one in steps)
    if {*firsts, *others} == {math.inf}:
        print(f"  iid {threshold}: no seed reaches it by then, so nothing can be told")
        return
    inside = [
        "within" if within_spread(*both) else "outside"
        for both in ((others, firsts), (firsts, others))
    ]
    print(
        f"  iid {threshold}: the second {inside[0]} the spread of the first, the first {inside[1]}"
        f" that of the second; chance {chance(firsts, others):.2f}"
    )


def drawn(groups: Mapping[str, Group]) -> Any:
    """Return a figure: training losses by step, and how far those of the same seeds are from the
    first group's.
    """
    first, *others = groups
    with figures.style():
        figure, (left, right) = figures.canvas(2, (3.9, 3.1))
        for number, (name, group) in enumerate(groups.items()):
            look = {"color": figures.SHADES[number], "linestyle": figures.DASHES[number]}
            for seed, curve in group.items():
                shared = seed in groups[first]
                own = (
                    {**look, "linewidth": 1.5}
                    if shared
                    else {"color": "#c4c4c4", "linewidth": 0.8, "zorder": 1}
                )
                left.plot(*zip(*curve.items(), strict=True), **own)
            left.plot([], [], **look, label=f"{name}, seeds {' and '.join(groups[first])}")
        if any({*groups[name]} - {*groups[first]} for name in others):
            left.plot([], [], color="#c4c4c4", linewidth=0.8, label=f"{others[-1]}, other seeds")
        for number, name in enumerate(others, 1):
            for place, (seed, apart) in enumerate(pairs(groups[first], groups[name]).items()):
                right.plot(
                    [*apart],
                    [abs(value) or math.nan for value in apart.values()],
                    color=figures.SHADES[number],
                    linestyle=figures.DASHES[number],
                    marker=figures.MARKERS[place],
                    markersize=3.5,
                    linewidth=1.2,
                    label=f"{name}, seed {seed}",
                )
        left.set(title="training loss", xlabel="step")
        right.set(title=f"distance from {first}, same seed", xlabel="step", yscale="log")
        right.yaxis.set_major_formatter(
            lambda value, _: f"{value:.0e}".replace("e-0", "e-").replace("1e+00", "1")
        )
        for axis in (left, right):
            axis.grid(color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
            axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
            axis.locator_params(axis="x", nbins=5)
            axis.legend(fontsize=7.5, frameon=False)
        return figure


def named_files(text: str) -> tuple[str, list[Path]]:
    """Return the name and the files of a group on the command line."""
    name, equals, files = text.partition("=")
    if not equals or not name or not files:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=FILE or NAME=FILE,FILE")
    return name, [Path(file) for file in files.split(",")]


def main() -> None:
    """Compare the groups of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", type=named_files, nargs="+", metavar="NAME=FILE[,FILE]")
    parser.add_argument("--figure", type=Path, help="an SVG file to draw the losses in")
    args = parser.parse_args()
    files = dict(args.groups)
    scores = {name: curves_of(paths) for name, paths in files.items()}
    end = last_common([*scores.values()])
    print(f"to step {end:,}; never: —")
    scores = {name: until(group, end) for name, group in scores.items()}
    losses = {name: until(curves_of(paths, "train", LOSS), end) for name, paths in files.items()}
    trained = all(all(group.values()) for group in losses.values())
    if trained:
        print_losses(losses)
    if trained and args.figure:
        args.figure.write_text(figures.svg(drawn(losses)) + "\n")
    for first, second in combinations(files, 2):
        print(f"{first} and {second}")
        if trained:
            print_loss_pairs((first, second), losses[first], losses[second])
        for threshold in THRESHOLDS:
            print_first_steps(scores[first], scores[second], threshold)


if __name__ == "__main__":
    main()
