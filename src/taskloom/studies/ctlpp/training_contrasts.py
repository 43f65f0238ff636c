"""Our questions about CTL++: does it matter how the training data are drawn, and what they always contain?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.runs import Runs
from taskloom.experiments.statistics import correct, welch
from taskloom.studies import figures
from taskloom.studies.ctlpp.accuracy_table import SUCCESS
from taskloom.studies.ctlpp.small_worlds import draw_experiments, process_experiments, single_experiments
from taskloom.studies.ctlpp.trainings import Trainings, trainings
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.seed_scores import count_of, mean_and_sd, seed_point
from taskloom.studies.study import StudyError, study

SPLITS = ("iid", "ood")

Condition = Callable[[Trainings], str]
"""The condition of trainings that is contrasted."""


@study(
    "ctlpp/draws",
    describe="Accuracy on CTL++ by how the training data are drawn: as published, chains with all symbols, independently",
    experiment=draw_experiments,
)
def draws(runs: Runs) -> Finding:
    """Compare trainings on data that differ in their draw."""
    text = (
        "published: chains nested across lengths and with nearly all start symbols, as the public code makes them by accident; "
        "chains: independent chains with all start symbols; independent: every expression on its own."
    )
    return contrast(runs, "draw", lambda group: group.draw, "CTL++ by the draw of the training data", text, "draws")


@study(
    "ctlpp/processes",
    describe="Accuracy on CTL++ by the number of processes that the public code would have drawn the training data with",
    experiment=process_experiments,
)
def processes(runs: Runs) -> Finding:
    """Compare trainings on published draws of different numbers of processes."""
    text = (
        "The public code gives a chain one start symbol per process, as far as they differ: with 1 process chains are nested "
        "across lengths but come with one symbol each, with 8 with about five of the eight, with 32 with nearly all."
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
    describe="Accuracy on CTL++ by what training always contains: all pairs of functions or all single functions",
    experiment=single_experiments,
)
def singles(runs: Runs) -> Finding:
    """Compare trainings that always have all pairs with those that always have all single functions."""
    text = (
        "singles: every single function with every symbol is in training, as the paper's text says; pairs: every two functions "
        "are, as in its public code."
    )
    return contrast(
        runs, "contains", lambda group: group.contents, "CTL++ with singles or pairs in training", text, "singles"
    )


def _rest_parts(group: Trainings, column: str) -> tuple[str, ...]:
    """Return what else tells trainings apart, so that only runs that are alike in it are compared."""
    steps = group.conditions.get("learner.steps")
    draw = () if column == "draw" else (f"{group.draw} draw",)
    contents = () if column == "contains" else (group.contents,)
    return (group.label, group.variant, *draw, *contents, f"{steps:,} steps" if steps else "")


def _rest(group: Trainings, column: str) -> str:
    return ", ".join(part for part in _rest_parts(group, column) if part)


def _short(groups: Sequence[Trainings], column: str) -> tuple[dict[str, str], str]:
    """Return a short name for the rest of each group, and what all of them have in common, which it leaves out."""
    parts = [_rest_parts(group, column) for group in groups]
    telling = [place for place, values in enumerate(zip(*parts, strict=True)) if place < 2 or len(set(values)) > 1]
    names = {
        _rest(group, column): ", ".join(own[place] for place in telling if own[place])
        for group, own in zip(groups, parts, strict=True)
    }
    return names, ", ".join(part for place, part in enumerate(parts[0]) if place not in telling and part)


def contrast(runs: Runs, column: str, condition: Condition, title: str, text: str, figure: str) -> Finding:
    """Compare trainings by a condition, all else being equal: means with intervals, and Welch's tests corrected by Holm.

    Args:
        runs: The runs.
        column: What the condition is called.
        condition: Gives the condition of trainings.
        title: Of the finding.
        text: What the conditions are.
        figure: The stem of the figure's files.
    """
    groups = trainings(runs)
    alike = [own for own in _by_rest(groups, column).values() if len({condition(g) for g in own}) > 1]
    tests = list(_tests(groups, column, condition))
    if not tests:
        raise StudyError(
            f"{runs.store.path} has no two groups of runs, with two seeds each, that differ in nothing but what "
            f"'{column}' says; make some, e.g. with 'taskloom reproduce ctlpp/{figure}'"
        )
    names, common = _short([group for own in alike for group in own], column)
    points = ResultTable(
        ("trainings", column, "split", "mean", "low", "high", "sd", "seeds", "over 95 %"),
        [
            {**point, "trainings": names[point["trainings"]]}
            for own in alike
            for g in own
            for point in _points(g, column, condition)
        ],
    )
    corrected = correct([test["p"] for test in tests], "holm")
    for test, p in zip(tests, corrected, strict=True):
        test["corrected_p"] = float(p)
        test["trainings"] = names[test["trainings"]]
    columns = ("trainings", "split", "a", "b", "mean a", "mean b", "b - a", "low", "high", "corrected_p", "seeds")
    different = [t for t in tests if t["corrected_p"] < 0.05]
    largest = max(tests, key=lambda t: abs(t["b - a"]))
    seeds = count_of((point["seeds"] for point in points), "seed")
    caption = f"Mean accuracy by {IN_WORDS.get(column, column)}, with 95 % intervals (t over seeds; {seeds})."
    shared = f"All trainings: {common}. " if common else ""
    draw = partial(
        figures.intervals, place=column, series="split", panel="trainings", ylabel=LABELS.get(column, column)
    )
    return Finding(
        title,
        f"{text} {shared}{len(different)} of {len(tests)} comparisons differ at the level of 5 %, corrected for all of them "
        f"(Holm). The largest difference: {largest['trainings']}, {largest['split']}: {largest['a']} {largest['mean a']:.3f}, "
        f"{largest['b']} {largest['mean b']:.3f}.",
        ResultTable(columns, tests),
        (StudyFigure(figure, caption, points, draw),),
        notes=(*_doubts(tests), *_alone(groups, column, condition)),
    )


IN_WORDS = {
    "draw": "the draw of the training data",
    "contains": "what training always contains",
    "processes": "the number of processes of the draw",
}
"""What captions call the conditions."""

LABELS = {"contains": "training contains"}
"""What axes call conditions whose column says too little alone."""

EQUAL = (
    "Where all seeds of both groups have one score, Welch's interval has no width; Wilson's, over as many seeds, stands in its "
    "place and is wide."
)


FEW = 5
"""Seeds of which Welch's test is doubted: two that agree by chance look certain."""


def _doubts(tests: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield notes on tests that say less than their numbers seem to."""
    if any(test["df"] == inf for test in tests):
        yield EQUAL
    few = sum(test["fewer"] < FEW for test in tests)
    if few:
        yield (
            f"In {few} comparison{'s' * (few > 1)} one side has fewer than {FEW} seeds. Welch's test takes the spread of so few "
            "scores for that of all seeds, and two that happen to agree for certain: these p may be too small."
        )


def _points(group: Trainings, column: str, condition: Condition) -> Iterator[dict[str, Any]]:
    for split in SPLITS:
        scores = group.of(split)
        if scores:
            what = {"trainings": _rest(group, column), column: condition(group), "split": split}
            yield {**what, **seed_point(scores), "over 95 %": sum(score > SUCCESS for score in scores)}


def _by_rest(groups: Sequence[Trainings], column: str) -> dict[str, list[Trainings]]:
    alike: dict[str, list[Trainings]] = {}
    for group in groups:
        alike.setdefault(_rest(group, column), []).append(group)
    return alike


def _tests(groups: Sequence[Trainings], column: str, condition: Condition) -> Iterator[dict[str, Any]]:
    for rest, alike in _by_rest(groups, column).items():
        for (a, b), split in itertools.product(itertools.combinations(alike, 2), SPLITS):
            first, second = a.of(split), b.of(split)
            if condition(a) == condition(b) or min(len(first), len(second)) < 2:
                continue
            result = welch(first, second)
            yield {
                "trainings": rest,
                "split": split,
                "a": condition(a),
                "b": condition(b),
                "mean a": result.a,
                "mean b": result.b,
                "b - a": result.difference,
                "low": result.low,
                "high": result.high,
                "p": result.p,
                "df": result.df,
                "seeds": f"{len(first)} and {len(second)}",
                "fewer": min(len(first), len(second)),
            }


def _alone(groups: Sequence[Trainings], column: str, condition: Condition) -> Iterator[str]:
    """Return a note for each group of runs that nothing can be compared with."""
    for rest, alike in _by_rest(groups, column).items():
        conditions = {condition(group) for group in alike if len(group.seeds) > 1}
        for group in alike:
            if len(conditions) < 2 or len(group.seeds) < 2:
                numbers = ", ".join(f"{split} {mean_and_sd(group.of(split))}" for split in SPLITS if group.of(split))
                yield f"Not compared: {rest}, {condition(group)}, n = {len(group.seeds)}: {numbers}."
