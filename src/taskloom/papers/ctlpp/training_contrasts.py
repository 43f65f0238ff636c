"""Our questions about CTL++: do the draw of the training data and the expressions that it always
contains matter?

Comparing two groups of seeds trained on two datasets only compares these two datasets: a test over
seeds generalises to new seeds on the same data, not to new draws. If the same contrast exists for
several function tables, a second finding uses the table as its unit.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import hypot, inf, isnan, sqrt
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding
from taskloom.analysis.paper_table import PaperTable, TableCell, mean_and_sd
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import correct, over_task_differences, welch, wilson
from taskloom.experiments.statistics.distributions import t_two_sided
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.accuracy_table import SUCCESS, with_chance
from taskloom.papers.ctlpp.experiments import (
    draw_experiments,
    process_experiments,
    single_experiments,
)
from taskloom.papers.ctlpp.runs import Trainings, trainings

SPLITS = ("iid", "ood")

Condition = Callable[[Trainings], str]
"""Function that returns the condition of trainings to contrast."""


@study(
    "ctlpp/draws",
    describe=(
        "Accuracy on CTL++ by how the training data are drawn: as published, chains with all"
        " symbols, independently"
    ),
    experiment=draw_experiments,
)
def draws(runs: Runs) -> list[Finding]:
    """Compare trainings on data that differ in their draw."""
    text = (
        "published: chains nested across lengths and with nearly all start symbols, as the public"
        " code makes them by accident; chains: independent chains with all start symbols;"
        " independent: every expression on its own."
    )
    return contrast(
        runs,
        "draw",
        lambda group: group.draw,
        "CTL++ by the draw of the training data",
        text,
        "draws",
    )


@study(
    "ctlpp/processes",
    describe=(
        "Accuracy on CTL++ by the number of processes that the public code would have drawn the"
        " training data with"
    ),
    experiment=process_experiments,
)
def processes(runs: Runs) -> list[Finding]:
    """Compare trainings on published draws with different numbers of processes."""
    text = (
        "The public code gives a chain one start symbol per process, as far as they differ: with 1"
        " process chains are nested across lengths but come with one symbol each, with 8 with about"
        " five of the paper's eight, with 32 with nearly all."
    )
    return contrast(
        runs,
        "processes",
        lambda group: str(group.conditions.get("recipe.processes", "")),
        "CTL++ by the number of processes of the published draw",
        text,
        "processes",
    )


@study(
    "ctlpp/singles",
    describe=(
        "Accuracy on CTL++ by what training always contains: all pairs of functions or all single"
        " functions"
    ),
    experiment=single_experiments,
)
def singles(runs: Runs) -> list[Finding]:
    """Compare trainings that contain all pairs with those that contain all single functions."""
    text = (
        "singles: every single function with every symbol is in training, as the paper's text says;"
        " pairs: every two functions are, as in its public code."
    )
    return contrast(
        runs,
        "contains",
        lambda group: group.contents,
        "CTL++ with singles or pairs in training",
        text,
        "singles",
    )


WORLD = 2
"""Number of components at the end of `_rest_parts` that name the function table and the seed of the
data.
"""


def _rest_parts(group: Trainings, column: str) -> tuple[str, ...]:
    """All other settings that distinguish trainings. Only runs that share them are compared."""
    steps = group.conditions.get("learner.steps")
    draw = () if column == "draw" else (f"{group.draw} draw",)
    contents = () if column == "contains" else (group.contents,)
    world = (f"table {group.table_seed}", f"data seed {group.data_seed}")
    return (
        group.label,
        group.variant,
        *draw,
        *contents,
        f"{steps:,} steps" if steps else "",
        *world,
    )


def _rest(group: Trainings, column: str) -> str:
    return ", ".join(part for part in _rest_parts(group, column) if part)


def _short(groups: Sequence[Trainings], column: str) -> tuple[dict[str, str], str]:
    """Return a short name for the remaining settings of each group, and the part that all groups
    share, which the names omit.
    """
    parts = [_rest_parts(group, column) for group in groups]
    telling = [
        place
        for place, values in enumerate(zip(*parts, strict=True))
        if place < 2 or len(set(values)) > 1
    ]
    names = {
        _rest(group, column): ", ".join(own[place] for place in telling if own[place])
        for group, own in zip(groups, parts, strict=True)
    }
    return names, ", ".join(
        part for place, part in enumerate(parts[0]) if place not in telling and part
    )


CONTRAST = PaperTable(
    caption=(
        "Mean accuracy by {column}, with 95 % intervals. The unit is the seed (t over {units} on"
        " one dataset each); the dotted line is chance."
    ),
    columns=("split", "mean", "low", "high", "sd", "seeds", "over 95 %"),
    axes={"series": "split", "panel": "trainings"},
)
"""The figure of all contrasts."""


def contrast(
    runs: Runs, column: str, condition: Condition, title: str, text: str, figure: str
) -> list[Finding]:
    """Compare trainings by a condition, all else being equal: over seeds, and over function tables
    if there are several.

    Args:
        runs: The runs.
        column: Name of the condition.
        condition: Function that returns the condition of trainings.
        title: Title of the finding.
        text: Explanation of the conditions.
        figure: Stem of the figure's files.
    """
    groups = trainings(runs)
    alike = [
        own for own in _by_rest(groups, column).values() if len({condition(g) for g in own}) > 1
    ]
    tests = list(_tests(groups, column, condition))
    if not tests:
        raise StudyError(
            f"{runs.path} has no two groups of runs, with two seeds each, that differ in nothing"
            f" but what '{column}' says; make some, e.g. with 'taskloom reproduce ctlpp/{figure}'"
        )
    compared = [group for own in alike for group in own]
    names, common = _short(compared, column)
    cells = [cell for group in compared for cell in _cells(group, column, condition, names)]
    family = _correct(tests)
    for test in tests:
        test["trainings"] = names[test["trainings"]]
    columns = (
        "trainings",
        "split",
        "a",
        "b",
        "mean a",
        "mean b",
        "b - a",
        "low",
        "high",
        "corrected_p",
        "seeds",
    )
    different = [t for t in tests if t["corrected_p"] is not None and t["corrected_p"] < 0.05]
    largest = max(tests, key=lambda t: abs(t["b - a"]))
    shared = f"All trainings: {common}. " if common else ""
    by_seed = CONTRAST.finding(
        cells,
        table=ResultTable(columns, tests),
        name=figure,
        title=title,
        text=(
            f"{text} {shared}Unit: the seed. {len(different)} of {family} comparisons differ at the"
            " level of 5 %, corrected for all of them (Holm). The largest difference:"
            f" {largest['trainings']}, {largest['split']}: {largest['a']} {largest['mean a']:.3f},"
            f" {largest['b']} {largest['mean b']:.3f}."
        ),
        caption=CONTRAST.caption.replace("{column}", IN_WORDS.get(column, column)),
        columns=("trainings", column, *CONTRAST.columns),
        draw=with_chance(groups[0].chance),
        axes={**CONTRAST.axes, "place": column, "ylabel": LABELS.get(column, column)},
        notes=(ONE_DATASET, *_doubts(tests), *_alone(groups, column, condition)),
    )
    over_tables = list(_over_tables(groups, column, condition))
    return [by_seed, _tables_finding(title, over_tables)] if over_tables else [by_seed]


def _correct(tests: list[dict[str, Any]]) -> int:
    """Add p-values corrected by Holm's method, and return the number of tests, excluding tests in
    which all scores are equal.
    """
    family = [test for test in tests if test["p"] is not None]
    for test in tests:
        test["corrected_p"] = None
    if family:
        for test, p in zip(family, correct([test["p"] for test in family], "holm"), strict=True):
            test["corrected_p"] = float(p)
    return len(family)


def _over_tables(
    groups: Sequence[Trainings], column: str, condition: Condition
) -> Iterator[dict[str, Any]]:
    """Yield contrasts of two conditions on the same function tables and data seeds, if there are at
    least two tables.
    """
    alike: dict[tuple[str, ...], list[Trainings]] = {}
    for group in groups:
        alike.setdefault(_rest_parts(group, column)[:-WORLD], []).append(group)
    for rest, own in alike.items():
        conditions = sorted({condition(group) for group in own}, key=figures.natural_order)
        for (a, b), split in itertools.product(itertools.combinations(conditions, 2), SPLITS):
            pairs = _pairs_by_table(own, condition, a, b, split)
            if len(pairs) > 1:
                yield _paired_row(
                    {"trainings": ", ".join(rest[:2]), "split": split, "a": a, "b": b}, pairs
                )


Pair = tuple[float, float]


def _pairs_by_table(
    own: Sequence[Trainings], condition: Condition, a: str, b: str, split: str
) -> list[Pair]:
    """Pair the mean scores under both conditions for each table, using only data seeds that occur
    in both.
    """
    means: dict[tuple[int, int], dict[str, float]] = {}
    for group in own:
        if group.of(split):
            world = (group.table_seed, group.data_seed)
            means.setdefault(world, {})[condition(group)] = statistics.fmean(group.of(split))
    by_table: dict[int, list[Pair]] = {}
    for (table, _), scores in sorted(means.items()):
        if a in scores and b in scores:
            by_table.setdefault(table, []).append((scores[a], scores[b]))
    return [_mean_pair(pairs) for pairs in by_table.values()]


def _mean_pair(pairs: Sequence[Pair]) -> Pair:
    first, second = zip(*pairs, strict=True)
    return statistics.fmean(first), statistics.fmean(second)


def _paired_row(about: dict[str, Any], pairs: Sequence[Pair]) -> dict[str, Any]:
    gaps = [second - first for first, second in pairs]
    estimate = over_task_differences(gaps)
    mean_a, mean_b = _mean_pair(pairs)
    equal = isnan(estimate.low)
    return {
        **about,
        "mean a": mean_a,
        "mean b": mean_b,
        "b - a": estimate.mean,
        "low": None if equal else estimate.low,
        "high": None if equal else estimate.high,
        "by table": ", ".join(f"{round(gap, 3) + 0.0:.3f}" for gap in gaps),
        "tables": len(pairs),
        "p": None if equal else t_two_sided(estimate.mean / estimate.se, estimate.df),
    }


def _tables_finding(title: str, rows: list[dict[str, Any]]) -> Finding:
    family = _correct(rows)
    different = sum(row["corrected_p"] is not None and row["corrected_p"] < 0.05 for row in rows)
    columns = (
        "trainings",
        "split",
        "a",
        "b",
        "mean a",
        "mean b",
        "b - a",
        "low",
        "high",
        "by table",
        "tables",
        "corrected_p",
    )
    return Finding(
        f"{title}: over function tables",
        "Unit: the function table. Differences between data that have the table and the data seed"
        " in common, one a table (by table: in the order of their seeds), with t intervals over"
        f" tables. {different} of {family} comparisons differ at the level of 5 %, corrected for"
        " all of them (Holm).",
        ResultTable(columns, rows),
    )


IN_WORDS = {
    "draw": "the draw of the training data",
    "contains": "what training always contains",
    "processes": "the number of processes of the draw",
}
"""Names of conditions in captions."""

LABELS = {"contains": "training contains"}
"""Axis labels for conditions whose column names are too short to be understood."""

ONE_DATASET = (
    "Each side of a comparison is one dataset. The tests are about new seeds on these datasets;"
    " they cannot tell an effect of the condition from the luck of a draw."
)

ALMOST_NONE = 0.01
"""Minimum standard deviation over seeds for using Welch's interval unchanged. It corresponds to ten
of 1,000 items.
"""

WIDENED = (
    f"If the scores of seeds have a standard deviation below {ALMOST_NONE:g}, the interval is at"
    " least Newcombe's for as many successes and failures, shrunk in proportion as the spread"
    " grows: seeds that agree do not show that every further seed will. Comparisons without p have"
    " equal scores throughout and are not in the family of tests."
)


def difference_interval(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the difference between two means over seeds, second - first, with a positive
    width even if all seeds agree.

    Welch's interval has no width if all seeds agree, and almost none if they differ in one item. As
    the standard deviation approaches 0, the interval approaches Newcombe's for two shares, with
    seeds as trials, which is ± 0.13 for 25 successful seeds against 25. From `ALMOST_NONE` on it is
    Welch's. The weight in between is linear, so a single item moves the ends by hundredths at most.
    """
    result = welch(first, second)
    spread = sqrt((statistics.variance(first) + statistics.variance(second)) / 2)
    weight = max(0.0, 1 - spread / ALMOST_NONE)
    if weight == 0:
        return result.low, result.high
    low, high = _newcombe(result.a, len(first), result.b, len(second))
    below, above = weight * (result.difference - low), weight * (high - result.difference)
    if result.df != inf:  # Welch's interval is undefined if neither group varies
        below = max(below, result.difference - result.low)
        above = max(above, result.high - result.difference)
    return result.difference - below, result.difference + above


def _newcombe(a: float, n_a: int, b: float, n_b: int) -> tuple[float, float]:
    """Newcombe's hybrid score interval for the difference of shares b - a (Newcombe 1998, method
    10).
    """
    low_a, high_a = wilson(a * n_a, n_a)
    low_b, high_b = wilson(b * n_b, n_b)
    gap = b - a
    return gap - hypot(b - low_b, high_a - a), gap + hypot(high_b - b, a - low_a)


FEW = 5
"""Minimum number of seeds for Welch's test without a caveat. With only two seeds, agreement by chance
would look like certainty.
"""


def _doubts(tests: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield notes on tests whose evidence is weaker than their numbers suggest."""
    if any(test["widened"] for test in tests):
        yield WIDENED
    few = sum(test["fewer"] < FEW for test in tests)
    if few:
        yield (
            f"In {few} comparison{'s' * (few > 1)} one side has fewer than {FEW} seeds. Welch's"
            " test takes the spread of so few scores for that of all seeds, and two that happen to"
            " agree for certain: these p may be too small."
        )


def _cells(
    group: Trainings, column: str, condition: Condition, names: Mapping[str, str]
) -> Iterator[TableCell]:
    for split in SPLITS:
        scores, trained = group.of(split), names[_rest(group, column)]
        labels = {"trainings": trained, column: condition(group), "split": split}
        successes = sum(score > SUCCESS for score in scores)
        yield TableCell(labels, scores, group.conditions, further={"over 95 %": successes})


def _by_rest(groups: Sequence[Trainings], column: str) -> dict[str, list[Trainings]]:
    alike: dict[str, list[Trainings]] = {}
    for group in groups:
        alike.setdefault(_rest(group, column), []).append(group)
    return alike


def _tests(
    groups: Sequence[Trainings], column: str, condition: Condition
) -> Iterator[dict[str, Any]]:
    for rest, alike in _by_rest(groups, column).items():
        for (a, b), split in itertools.product(itertools.combinations(alike, 2), SPLITS):
            first, second = a.of(split), b.of(split)
            if condition(a) == condition(b) or min(len(first), len(second)) < 2:
                continue
            result = welch(first, second)
            low, high = difference_interval(first, second)
            equal = len({*first, *second}) == 1
            yield {
                "trainings": rest,
                "split": split,
                "a": condition(a),
                "b": condition(b),
                "mean a": result.a,
                "mean b": result.b,
                "b - a": result.difference,
                "low": low,
                "high": high,
                "widened": (low, high) != (result.low, result.high),
                "p": None if equal else result.p,
                "seeds": f"{len(first)} and {len(second)}",
                "fewer": min(len(first), len(second)),
            }


def _alone(groups: Sequence[Trainings], column: str, condition: Condition) -> Iterator[str]:
    """Yield a note for each group of runs without a comparable group."""
    for rest, alike in _by_rest(groups, column).items():
        conditions = {condition(group) for group in alike if len(group.seeds) > 1}
        for group in alike:
            if len(conditions) < 2 or len(group.seeds) < 2:
                numbers = ", ".join(
                    f"{split} {mean_and_sd(group.of(split))}" for split in SPLITS if group.of(split)
                )
                yield (
                    f"Not compared: {rest}, {condition(group)}, n = {len(group.seeds)}: {numbers}."
                )
