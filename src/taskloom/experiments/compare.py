"""Paired comparisons on the same items: of two groups of runs, with correction for multiple tests,
and of items with their twins.

Twins show whether the answer changes with an edit that should change it, and stays the same with
one that should not.
A pair is an item and its twin. Among pairs with a flip, *both right* is the share with two right
answers, and *right for the wrong reason* is the share in which the original is right and the flip
is wrong: the model did not follow the edit. Among pairs with a keep, *swayed* is the share in which
the original is right and the keep is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskloom.core.errors import nearest
from taskloom.core.twins import TRAITS, TWIN_KINDS, TwinKind, companion
from taskloom.experiments.accuracy import (
    FormShares,
    SuiteScores,
    TaskMeans,
    check_splits,
    columns_of,
    split_of,
    task_means,
    varying,
    without_tasks,
)
from taskloom.experiments.groups import ScoredRows, ScoreGroup
from taskloom.experiments.record import RunsError
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import (
    Comparison,
    Estimate,
    cohens_h,
    correct,
    mcnemar,
    over_items,
    over_seeds,
    paired_bootstrap,
    paired_two_way,
    sign_flip,
    two_way,
    welch,
)
from taskloom.experiments.statistics.intervals import is_binary

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

Selection = str | Mapping[str, Any]
"""Selection of runs: name of a learner or recipe, an inequality such as `iid > 0.5`, or columns
with their values.
"""

OVER = ("items", "tasks")
"""Units that are paired."""

TESTS = ("auto", "two-way", "mcnemar", "bootstrap", "sign-flip", "welch")

MEASURES = (
    "a",
    "b",
    "difference",
    "low",
    "high",
    "p",
    "corrected_p",
    "effect_h",
    "test",
    "seeds",
    "items",
)


class ComparedSide:
    """Runs of one side of a comparison, read once even if they are compared with several others.

    Args:
        runs: All runs.
        selection: Selection of runs.
    """

    def __init__(self, runs: Runs, selection: Selection) -> None:
        self.selection = selection
        self.runs = runs.where(selection)
        self.names = frozenset(self.runs.names)
        self._values: dict[str, set[Any]] = {}
        self._read: dict[tuple[Any, ...], tuple[ScoredRows, dict[tuple[Any, ...], ScoreGroup]]] = {}

    def values(self, column: str) -> set[Any]:
        """Values of a column of the runs."""
        if column not in self._values:
            self._values[column] = set(self.runs.table[column].to_pylist())
        return self._values[column]

    def scored(
        self, apart: Sequence[str], traits: Sequence[str], splits: Sequence[str], tasks: bool
    ) -> tuple[ScoredRows, dict[tuple[Any, ...], ScoreGroup]]:
        """Scores by row, and groups of them by their shared values."""
        key = (tuple(apart), tuple(traits), tuple(splits), tasks)
        if key not in self._read:
            rows = ScoredRows(self.runs, apart, traits, splits, tasks=tasks)
            self._read[key] = rows, {group.values: group for group in rows.groups()}
        return self._read[key]


def compare(
    runs: Runs,
    a: Selection,
    b: Selection,
    splits: Sequence[str],
    by: Sequence[str],
    test: str,
    correction: str,
    level: float,
    over: str = "items",
) -> ResultTable:
    """Compare b with a in each split and group: difference with its interval, p-value, and p-value
    corrected for all rows together.

    Args:
        runs: The runs.
        a: The runs of one side.
        b: The runs of the other.
        splits: Only these splits. Default: all that both sides answered.
        by: Columns of the runs, `task`, or traits to group by.
        test: Name of a test. `auto` takes the test over seeds × items if both sides have several
            seeds, McNemar's (for partial scores: the paired bootstrap) if they have one, and
            Welch's over seeds if their items differ.
        correction: `holm`, `benjamini-hochberg`, `bonferroni` or `none`.
        level: Confidence level of the intervals.
        over: `items` pairs the examples; `tasks` pairs the means of tasks, which all count the
            same.
    """
    if over not in OVER:
        raise RunsError(f"a comparison cannot be over '{over}'; {nearest(over, OVER)}")
    if test not in TESTS:
        raise RunsError(f"there is no test '{test}'; {nearest(test, TESTS)}")
    correct([], correction)
    check_splits(runs, splits)
    sides = ComparedSide(runs, a), ComparedSide(runs, b)
    return compare_sides(
        runs, *sides, splits, by, test=test, correction=correction, level=level, over=over
    )


def compare_sides(
    runs: Runs,
    a: ComparedSide,
    b: ComparedSide,
    splits: Sequence[str] = (),
    by: Sequence[str] = (),
    *,
    test: str = "auto",
    correction: str = "holm",
    level: float = 0.95,
    over: str = "items",
) -> ResultTable:
    """Compare two sides, which may already have been read; see `compare`."""
    if a.names & b.names:
        raise RunsError(
            f"{a.selection!r} and {b.selection!r} share runs; a comparison needs two different"
            " groups"
        )
    apart, traits = _grouped_by(runs, (a, b), splits, by, over)
    rows_a, groups_a = a.scored(apart, traits, splits, over == "tasks")
    rows_b, groups_b = b.scored(apart, traits, splits, over == "tasks")
    shared = [values for values in groups_a if values in groups_b]
    if not shared:
        raise RunsError(
            f"{a.selection!r} and {b.selection!r} have nothing in common to compare: no split, or"
            f" no value of {', '.join(apart)}"
        )
    # Suites score whole splits, so there are no numbers for single traits or tasks.
    beside = _BesideScores((a, b), splits) if not traits and over == "items" else None
    forms = [FormShares(a.runs, rows_a), FormShares(b.runs, rows_b)] if traits else []
    if not all(form.columns for form in forms):
        forms = []
    compared = _over_tasks if over == "tasks" else _test
    rows = []
    for values in shared:
        groups = (groups_a[values], groups_b[values])
        comparison = compared((rows_a, rows_b), groups, test, level)
        row = {**dict(zip([*apart, *traits], values, strict=True)), **_measures(comparison)}
        if beside is not None:
            row |= beside.of((rows_a, rows_b), groups, row.get("split"))
        for side, form, group in zip("ab", forms, groups, strict=False):
            row[f"{side} in_form"] = form.of(group, split_of(row, splits))["in_form"]
        rows.append(row)
    corrected = correct([row["p"] for row in rows], correction)  # all rows are one family of tests
    for row, p in zip(rows, corrected, strict=True):
        row["corrected_p"] = float(p)
    further = [] if beside is None else beside.columns
    if forms:
        further = [f"{side} in_form" for side in "ab"]
    return ResultTable([*apart, *traits, *MEASURES, *further], rows)


def _grouped_by(
    runs: Runs, sides: Sequence[ComparedSide], splits: Sequence[str], by: Sequence[str], over: str
) -> tuple[list[str], list[str]]:
    """Columns of the runs and traits of the examples that distinguish rows."""
    own, traits = columns_of(runs, by)
    varying = [c for c in _apart(sides, over) if c not in own]
    apart = [*varying, *own]
    if "split" not in apart and len(splits or runs.splits) > 1:
        apart.append("split")
    return apart, traits


class _BesideScores:
    """Scores that the suites compute, for both sides of a comparison: `a C@90`, `b C@90`."""

    def __init__(self, sides: Sequence[ComparedSide], splits: Sequence[str]) -> None:
        self._scores = [SuiteScores(side.runs, splits) for side in sides]
        first, second = self._scores
        self._names = [c for c in first.columns if c in second.columns]
        self.columns = [f"{side} {name}" for name in self._names for side in "ab"]

    def of(
        self, data: Sequence[ScoredRows], groups: Sequence[ScoreGroup], split: str | None
    ) -> dict[str, Any]:
        """Scores of one row of the comparison, by column."""
        found = {}
        for side, scores, rows, group in zip("ab", self._scores, data, groups, strict=True):
            means = scores.of([rows.names[run] for run in group.runs], split)
            for name in self._names:
                found[f"{side} {name}"] = means[name]
        return found


def _measures(comparison: Comparison) -> dict[str, Any]:
    a, b = comparison.a, comparison.b
    names = ("a", "b", "difference", "low", "high", "p", "test", "seeds", "items")
    values = {name: getattr(comparison, name) for name in names}
    if not (min(a, b) >= 0 and max(a, b) <= 1):
        return {**values, "corrected_p": comparison.p, "effect_h": float("nan")}
    # Differences of shares lie between -1 and 1, even if the t interval of two seeds or tasks is
    # wider.
    ends = {
        name: min(1.0, max(-1.0, values[name]))
        for name in ("low", "high")
        if not math.isnan(values[name])
    }
    return {**values, **ends, "corrected_p": comparison.p, "effect_h": cohens_h(a, b)}


def _over_tasks(
    data: Sequence[ScoredRows], sides: Sequence[ScoreGroup], test: str, level: float
) -> Comparison:
    """Compare the means of tasks that both sides have: over seeds × tasks if they share several
    seeds, otherwise by sign flips.
    """
    if test not in ("auto", "two-way", "sign-flip"):
        raise RunsError(
            f"the test '{test}' is over examples; over tasks use 'two-way', 'sign-flip' or 'auto'"
        )
    means = [task_means(one, side) for one, side in zip(data, sides, strict=True)]
    seeds = [sorted({seed for seed, _ in side}) for side in means]
    tasks = sorted({name for _, name in means[0]} & {name for _, name in means[1]})
    if len(tasks) < 2:
        raise RunsError(
            "a comparison over tasks needs at least two tasks that both sides have; they share"
            f" {len(tasks)}"
        )
    shared = sorted(set(seeds[0]) & set(seeds[1]))
    whole = all((seed, task) in side for side in means for seed in shared for task in tasks)
    if test != "sign-flip" and len(shared) > 1 and whole:
        tables = [
            np.array([[np.mean(side[s, t]) for t in tasks] for s in shared]) for side in means
        ]
        return replace(paired_two_way(tables[0], tables[1], level), test="t over seeds × tasks")
    if test == "two-way":
        raise RunsError(
            "the test 'two-way' needs at least two seeds that both sides have; they share"
            f" {len(shared)}"
        )
    first, second = (_mean_by_task(side, tasks) for side in means)
    result = sign_flip(first, second, level=level)
    return replace(
        result, test="sign flips over tasks", seeds=min(map(len, seeds)), items=len(tasks)
    )


def _mean_by_task(means: TaskMeans, tasks: Sequence[tuple[str, str]]) -> list[float]:
    """Mean of each task over the seeds of one side, with equal weights."""
    by_task: dict[tuple[str, str], list[Any]] = {task: [] for task in tasks}
    for (_, task), scores in means.items():
        if task in by_task:
            by_task[task].append(np.mean(scores))
    return [float(np.mean(by_task[task])) for task in tasks]


def _apart(sides: Sequence[ComparedSide], over: str) -> list[str]:
    """Columns that vary within both sides. Raise an error if one varies within one side only."""
    columns = []
    every = ["recipe", "learner", *sides[0].runs.fields]
    for column in without_tasks(every) if over == "tasks" else every:
        values = [side.values(column) for side in sides]
        if max(map(len, values)) < 2:
            continue
        if len(values[0] & values[1]) < 2:
            which = 0 if len(values[0]) > 1 else 1
            shown = ", ".join(sorted(map(str, values[which]))[:4])
            raise RunsError(
                f"{sides[which].selection!r} means runs with different {column} ({shown}); choose"
                f" one, e.g. {{'{column}': {sorted(values[which], key=str)[0]!r}}} with the rest"
            )
        columns.append(column)
    return columns


def _test(
    data: Sequence[ScoredRows], sides: Sequence[ScoreGroup], test: str, level: float
) -> Comparison:
    if not _same_items(data, sides):
        means = _means(sides)
        if test not in ("auto", "welch", "sign-flip"):
            raise RunsError(
                f"the test '{test}' needs the same items on both sides; these answered different"
                " ones"
            )
        if min(map(len, means)) < 2:
            raise RunsError(
                "the two sides answered different items, with one seed: at least two seeds each are"
                " needed"
            )
        return (
            welch(means[0], means[1], level)
            if test != "sign-flip"
            else sign_flip(*_common(data, sides, means), level=level)
        )
    tables = [np.stack(side.scores) for side in sides]
    chosen = _automatic(data, sides, tables) if test == "auto" else test
    tests: dict[str, Callable[[], Comparison]] = {
        "two-way": lambda: paired_two_way(*_common(data, sides, tables), level),
        "mcnemar": lambda: mcnemar(_single(tables[0]), _single(tables[1]), level=level),
        "bootstrap": lambda: paired_bootstrap(tables[0], tables[1], level=level),
        "sign-flip": lambda: sign_flip(*_common(data, sides, _means(sides)), level=level),
        "welch": lambda: welch(*_means(sides), level),
    }
    return tests[chosen]()


def _means(sides: Sequence[ScoreGroup]) -> tuple[list[float], list[float]]:
    """Mean score of each run of both sides."""
    first, second = ([float(scores.mean()) for scores in side.scores] for side in sides)
    return first, second


def _automatic(
    data: Sequence[ScoredRows], sides: Sequence[ScoreGroup], tables: Sequence[NDArray[Any]]
) -> str:
    if len(_shared_seeds(data, sides)) >= 2 and tables[0].shape[1] > 1:
        return "two-way"
    if len(tables[0]) == len(tables[1]) == 1 and is_binary(tables[0]) and is_binary(tables[1]):
        return "mcnemar"
    # Several seeds without a common one, or one against several: the trained models are treated as
    # fixed.
    return "bootstrap"


def _single(table: NDArray[Any]) -> NDArray[Any]:
    if len(table) > 1:
        raise RunsError(
            "McNemar's test compares two models, and here are several seeds of each, whose answers"
            " to one item are not independent; choose one with where(seed=0), or take the test"
            " 'two-way'"
        )
    row: NDArray[Any] = table[0]
    return row


def _seeds(data: ScoredRows, side: ScoreGroup) -> dict[int, int]:
    return {data.about[run]["seed"]: place for place, run in enumerate(side.runs)}


def _shared_seeds(data: Sequence[ScoredRows], sides: Sequence[ScoreGroup]) -> list[int]:
    first, second = (_seeds(d, s) for d, s in zip(data, sides, strict=True))
    return sorted(first.keys() & second.keys())


def _common(
    data: Sequence[ScoredRows], sides: Sequence[ScoreGroup], values: Sequence[Any]
) -> tuple[Any, Any]:
    """Values of both sides for the seeds that they share, in the same order."""
    common = _shared_seeds(data, sides)
    if len(common) < 2:
        raise RunsError(
            "a test over seeds needs at least two seeds that both sides have; they share"
            f" {len(common)}"
        )
    shared = []
    for one, side, value in zip(data, sides, values, strict=True):
        place = _seeds(one, side)
        shared.append(np.asarray(value)[[place[seed] for seed in common]])
    return shared[0], shared[1]


def _same_items(data: Sequence[ScoredRows], sides: Sequence[ScoreGroup]) -> bool:
    """True if both sides answered the same items: equal indices with equal inputs."""
    if not (
        sides[0].crossed
        and sides[1].crossed
        and np.array_equal(sides[0].items[0], sides[1].items[0])
    ):
        return False
    if not all(one.alike(side.runs) for one, side in zip(data, sides, strict=True)):
        return False
    # Recipes with different names may be tested on the same split, and equal names may hide
    # different data. So the texts are compared or, if they are written differently (layout,
    # separators), the digests of items that the runs recorded.
    first, second = (one.inputs(side) for one, side in zip(data, sides, strict=True))
    if first.equals(second):
        return True
    noted = [one.items_noted(side) for one, side in zip(data, sides, strict=True)]
    return noted[0] == noted[1] and None not in noted[0]


FAULTS: dict[TwinKind, str] = {"flip": "right for the wrong reason", "keep": "swayed"}
"""Name of the measure for pairs whose original is right and whose twin is wrong, by kind of
twin.
"""

BOTH = "both right"

RIGHT = 1.0 - 1e-9
"""Minimum score of a right answer. Partial scores count as wrong."""


@dataclass(slots=True)
class TwinPairs:
    """The pairs of one group.

    Attributes:
        runs: For each run, by the index of the item: whether original and twin are right.
    """

    runs: dict[str, dict[int, tuple[bool, bool]]] = field(default_factory=dict)

    def share(self, measure: str, level: float) -> Estimate:
        """Share of pairs, over new items and, with several runs, new seeds."""
        tables = []
        for pairs in self.runs.values():
            indices = sorted(pairs)
            wanted = [pairs[i] == (True, measure == BOTH) for i in indices]
            tables.append(np.array(wanted, dtype=np.float64))
        if len(tables) == 1:
            return over_items(tables[0], level)
        same_items = len({tuple(sorted(pairs)) for pairs in self.runs.values()}) == 1
        if same_items:
            return two_way(np.stack(tables), level)
        return over_seeds([float(table.mean()) for table in tables], level)


def twins(runs: Runs, by: Sequence[str], splits: Sequence[str], level: float) -> ResultTable:
    """Compute the shares of pairs for each group, split and kind of twin.

    Args:
        runs: The runs.
        by: Columns of the runs, `task`, or traits. `edit` is the twin's; other traits are the
            original's.
        splits: Only twins of these splits. Default: all.
        level: The confidence level.
    """
    check_splits(runs, splits)
    asked = splits or runs.splits
    pairs = [pair for pair in product(asked, TWIN_KINDS) if companion(*pair) in runs.splits]
    if not pairs:
        raise RunsError(
            "no run here answered twins; write 'twins: [flip, keep]' in the recipe and run it again"
        )
    own, traits = columns_of(runs, by)
    apart = [*(c for c in varying(runs) if c not in own), *own]
    about = {row["run"]: tuple(row[c] for c in apart) for row in runs.table.to_pylist()}
    rows: list[dict[str, Any]] = []
    for split, kind in pairs:
        for values, group in _groups(runs, split, kind, traits, about).items():
            named = dict(zip([*apart, *traits], values, strict=True))
            rows += [
                {**named, "split": split, "twin": kind, **_row(group, measure, level)}
                for measure in (BOTH, FAULTS[kind])
            ]
    if not rows:
        raise RunsError("no item of these splits has a twin, so there is nothing to score")
    columns = [
        *apart,
        *traits,
        "split",
        "twin",
        "measure",
        "share",
        "low",
        "high",
        "pairs",
        "seeds",
    ]
    return ResultTable(columns, rows)


def _row(group: TwinPairs, measure: str, level: float) -> dict[str, Any]:
    estimate = group.share(measure, level)
    return {
        "measure": measure,
        "share": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "pairs": max(len(pairs) for pairs in group.runs.values()),
        "seeds": len(group.runs),
    }


def _groups(
    runs: Runs,
    split: str,
    kind: TwinKind,
    traits: Sequence[str],
    about: Mapping[str, tuple[Any, ...]],
) -> dict[tuple[Any, ...], TwinPairs]:
    """Pairs of a split, grouped by the requested columns and traits."""
    originals = {(run, index): row for run, index, row in _scored(runs, split)}
    groups: dict[tuple[Any, ...], TwinPairs] = {}
    for run, index, (right, found) in _scored(runs, companion(split, kind)):
        original = originals.get((run, index))
        if original is None or not found.get("edit"):  # the item has no such twin
            continue
        known = {**original[1], **{name: found.get(name) for name in TRAITS}}
        values = (*about[run], *(known.get(name) for name in traits))
        group = groups.setdefault(values, TwinPairs())
        group.runs.setdefault(run, {})[index] = (original[0], right)
    return dict(sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))))


def _scored(runs: Runs, split: str) -> Iterator[tuple[str, int, tuple[bool, dict[str, Any]]]]:
    """Run, index, correctness and traits (with the task) of each answer."""
    wanted = ["index", "score", "task", "traits"]
    for row in runs.predictions(split, wanted).to_pylist():
        traits = {**dict(row["traits"] or ()), "task": row["task"]}
        right = row["score"] is not None and row["score"] >= RIGHT
        yield row["run"], row["index"], (right, traits)
