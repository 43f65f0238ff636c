"""Accuracy: means with intervals, grouped by anything in which runs or examples differ.

If a model was sampled several times, `samples` adds the majority vote and pass@k. A sample is a
seed: `samples: 5` in an experiment asks every question five times, and each epoch of an Inspect log
is a sample. The interval of the mean is over samples and items, so the spread between samples is
part of it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import numbers, strings
from taskloom.core.errors import nearest
from taskloom.core.scoring import bare
from taskloom.experiments.groups import (
    ScoredRows,
    ScoreGroup,
    SortedScores,
    shown_traits,
    sort_scores,
)
from taskloom.experiments.record import SUITE_SCORE, TASK_FIELD, Run, RunsError
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import (
    Estimate,
    over_binary_items,
    over_items,
    over_seeds,
    over_tasks,
    two_way,
    two_way_tables,
)

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

OVER = ("seeds+items", "seeds", "items", "seeds+tasks", "tasks")
"""Populations that an interval may generalize to. The first is the default if runs have scores of
items.
"""


def accuracy(
    runs: Runs,
    by: Sequence[str],
    splits: Sequence[str],
    over: str | None,
    level: float,
    threshold: float | None = None,
) -> ResultTable:
    """Compute mean score, interval, spread over seeds, number of items and seeds for each group.

    Different recipes, learners, fields and splits are never averaged, only seeds are. With
    `over="tasks"`, recipes are the tasks and are averaged too.

    Args:
        runs: The runs.
        by: Columns of the runs, `task`, or traits of the examples.
        splits: Only these splits. Default: all.
        over: Population that the interval generalizes to: new `seeds`, `items`, `tasks`,
            `seeds+items`, `seeds+tasks`. With one seed it is over the items alone. Default:
            `seeds+items`, or `seeds` if no run has scores of items.
        level: The confidence level.
        threshold: Adds the column `success`: the share of seeds with a score above it.
    """
    over = over or _default_over(runs)
    if over not in OVER:
        raise RunsError(f"an interval cannot be over '{over}'; {nearest(over, OVER)}")
    check_splits(runs, splits)
    own, traits = columns_of(runs, by)
    varying = [c for c in _apart(runs, over, splits) if c not in own]
    if "task" in traits and TASK_FIELD in varying:
        varying.remove(TASK_FIELD)  # Equivalent to the examples' own task.
    apart = varying + own
    if over == "seeds" and not traits:
        return _of_scores(runs, apart, splits, level, threshold)
    data = ScoredRows(runs, apart, traits, splits, tasks=over.endswith("tasks"))
    # Suites score whole splits, so there are no numbers for single traits or tasks.
    suite = SuiteScores(runs, splits) if not traits and not over.endswith("tasks") else None
    forms = FormShares(runs, data) if traits else None
    rows = []
    sorted_scores = data.sorted_scores()
    groups = _measured_groups(data, sorted_scores, over, level, threshold)
    columns = [*apart, *traits]
    for number, (values, measured) in enumerate(zip(sorted_scores.values(), groups, strict=True)):
        row = _row(dict(zip(columns, values, strict=True)), measured)
        if suite is not None:
            names = [data.names[run] for run in sorted_scores.runs_of(number)]
            row |= suite.of(names, row.get("split"))
        if forms is not None and forms.columns:
            row |= forms.of(sorted_scores.group(number), split_of(row, splits))
        rows.append(row)
    further = [] if suite is None else suite.columns
    if forms is not None:
        further = forms.columns
    return ResultTable([*apart, *traits, *_measures(threshold), *further], rows)


def _measured_groups(
    data: ScoredRows,
    sorted_scores: SortedScores,
    over: str,
    level: float,
    threshold: float | None,
) -> Iterator[Measured]:
    """Yield mean, interval and spread of each group of rows."""
    # Groups in which all seeds answered the same items are estimated together, as arrays.
    known = _two_way_estimates(data, sorted_scores, level) if over == OVER[0] else {}
    for number in range(len(sorted_scores)):
        if number in known:
            yield Measured(*known[number], threshold)
            continue
        group = sorted_scores.group(number)
        means = _seed_means(data, group)
        estimate = _estimate(data, group, over, level)
        yield Measured(estimate, means, _spread(means), threshold)


def split_of(row: Mapping[str, Any], splits: Sequence[str]) -> str | None:
    """Split of a row; None if all runs have the same single split."""
    return row.get("split") or (splits[0] if len(splits) == 1 else None)


def _default_over(runs: Runs) -> str:
    """Default population of the interval: as general as the scores of the runs allow."""
    return "seeds+items" if any(map(runs.keeps_item_scores, runs.names)) else "seeds"


def _two_way_estimates(
    data: ScoredRows, scores: SortedScores, level: float
) -> dict[int, tuple[Estimate, Sequence[float], float]]:
    """Estimate the groups in which all seeds answered the same items, with the mean of each seed
    and the spread of the means. Groups are skipped if they have runs of several kinds, a repeated
    seed, only one item, or one seed with partial scores.
    """
    estimates: dict[int, tuple[Estimate, Sequence[float], float]] = {}
    seeds = np.array([about["seed"] for about in data.about])
    for places, runs, tables in scores.tables():
        if tables.shape[2] < 2:
            continue
        if tables.shape[1] == 1:
            fine = np.flatnonzero(((tables == 0) | (tables == 1)).all(axis=(1, 2)))
            parts = over_binary_items(tables[fine, 0], level)
        else:
            once = (np.diff(np.sort(seeds[runs], axis=1), axis=1) > 0).all(axis=1)
            fine = np.flatnonzero(
                once & np.array([data.alike(row) for row in runs.tolist()], dtype=np.bool_)
            )
            parts = two_way_tables(tables[fine], level) if len(fine) else []
        means = tables[fine].mean(axis=2)
        spreads = (
            means.std(axis=1, ddof=1).tolist() if tables.shape[1] > 1 else [math.nan] * len(fine)
        )
        measured = zip(parts, means.tolist(), spreads, strict=True)
        estimates |= dict(zip(places[fine].tolist(), measured, strict=True))
    return estimates


def _seed_means(data: ScoredRows, group: ScoreGroup) -> list[float]:
    """Mean score of each seed. If a seed has several runs (over tasks), each counts the same."""
    means: dict[int, list[float]] = {}
    for run, scores in zip(group.runs, group.scores, strict=True):
        means.setdefault(data.about[run]["seed"], []).append(float(scores.mean()))
    return [sum(values) / len(values) for values in means.values()]


def _spread(means: Sequence[float]) -> float:
    """Standard deviation over seeds; NaN for one seed."""
    return float(np.std(means, ddof=1)) if len(means) > 1 else math.nan


def _measures(threshold: float | None) -> list[str]:
    return [name for name in MEASURES if name != "success" or threshold is not None]


class SuiteScores:
    """Scores that suites compute for whole splits, and their means over runs.

    Attributes:
        columns: Their names in results: without `score.`, unless results already have that name
            (`score.mean`).
    """

    def __init__(self, runs: Runs, splits: Sequence[str]) -> None:
        own = runs.suite_scores
        table = runs.table.select(["run", "split", *own]).to_pylist() if own else []
        self._rows = {
            (row["run"], row["split"]): row for row in table if not splits or row["split"] in splits
        }
        self._own = [c for c in own if any(row[c] is not None for row in self._rows.values())]
        self._only = next(iter({split for _, split in self._rows}), "")
        short = [c.removeprefix(SUITE_SCORE) for c in self._own]
        self.columns = [
            c if name in MEASURES else name for c, name in zip(self._own, short, strict=True)
        ]

    def of(self, runs: Sequence[str], split: str | None) -> dict[str, float | None]:
        """Mean of each score over runs in a split (None: the only split)."""
        rows = [self._rows.get((run, split or self._only), {}) for run in runs]
        means = {}
        for name, column in zip(self.columns, self._own, strict=True):
            values = [row[column] for row in rows if row.get(column) is not None]
            means[name] = sum(values) / len(values) if values else None
        return means


class FormShares:
    """Share of a chat model's answers that are in form, for groups of examples such as those with a
    given value of a trait.

    Attributes:
        columns: `in_form`; empty if no run kept replies.
    """

    def __init__(self, runs: Runs, data: ScoredRows) -> None:
        self._data = data
        self._only = runs.splits[0] if len(runs.splits) == 1 else ""
        self._in_form: dict[str, dict[tuple[str, int], bool]] = {}
        for name in data.names:
            replies = runs.reply_columns(name, ["split", "index", "in_form"])
            if replies is not None:
                rows = replies.to_pylist()
                self._in_form[name] = {(r["split"], r["index"]): r["in_form"] for r in rows}
        self.columns = ["in_form"] if self._in_form else []

    def of(self, group: ScoreGroup, split: str | None) -> dict[str, float | None]:
        """Share for a group; None if its runs kept no replies.

        Args:
            group: The group.
            split: Its split; None for the only one.
        """
        if not self.columns:
            return {}
        found = []
        for run, items in zip(group.runs, group.items, strict=True):
            known = self._in_form.get(self._data.names[run], {})
            places = [(split or self._only, int(item)) for item in items]
            found += [known[place] for place in places if place in known]
        return {"in_form": sum(found) / len(found) if found else None}


@dataclass(frozen=True, slots=True)
class Measured:
    """A group's values from which its measures are computed.

    Attributes:
        estimate: Its mean with the interval.
        seed_means: The mean score of each seed.
        spread: Standard deviation of the seeds' means; NaN for one seed.
        threshold: Threshold of success.
    """

    estimate: Estimate
    seed_means: Sequence[float]
    spread: float
    threshold: float | None = None


MEASURES: dict[str, Callable[[Measured], Any]] = {
    "mean": lambda group: group.estimate.mean,
    "low": lambda group: group.estimate.low,
    "high": lambda group: group.estimate.high,
    "se": lambda group: group.estimate.se,
    "sd": lambda group: group.spread,
    "success": lambda group: _success(group),
    "n": lambda group: group.estimate.items,
    "seeds": lambda group: group.estimate.seeds,
    "method": lambda group: group.estimate.method,
}
"""Columns of every group (`success` if there is a threshold). se: standard error of the mean, over
the population of the interval. sd: standard deviation over seeds. A new statistic is a line here,
and a `Column` in `taskloom.analysis.report.run_numbers`.
"""


def _success(group: Measured) -> float:
    """Share of seeds over the threshold."""
    if group.threshold is None:
        return math.nan
    return sum(mean > group.threshold for mean in group.seed_means) / len(group.seed_means)


def _row(values: dict[str, Any], group: Measured) -> dict[str, Any]:
    return {**values, **{name: measure(group) for name, measure in MEASURES.items()}}


def _estimate(data: ScoredRows, group: ScoreGroup, over: str, level: float) -> Estimate:
    """Compute the requested interval, or the nearest one that the group's shape allows. Its
    `method` names it.
    """
    if over.endswith("tasks"):
        return _over_tasks(data, group, over, level)
    means = [float(s.mean()) for s in group.scores]
    items = len(group.scores[0])
    if len(means) == items == 1 and means[0] not in (0.0, 1.0):
        # Partial scores. Right or wrong answers get Wilson's interval.
        return _without_interval(means, "one example", level)
    if over == "seeds":
        return (
            over_seeds(means, level, items)
            if len(means) > 1
            else over_items(group.scores[0], level)
        )
    if not (group.crossed and data.alike(group.runs)):
        # If seeds answered different items, their variation is already in the spread of the seeds'
        # means.
        return (
            over_seeds(means, level, items)
            if len(means) > 1
            else over_items(group.scores[0], level)
        )
    table = np.stack(group.scores)
    if over == "items" and len(table) > 1 and items > 1:
        return replace(over_items(table.mean(axis=0), level), seeds=len(table), items=items)
    return two_way(table, level)


TaskMeans = dict[tuple[int, tuple[str, str]], list[float]]
"""Mean scores by seed and task. A task is identified by recipe and name."""


def task_means(data: ScoredRows, group: ScoreGroup) -> TaskMeans:
    """Compute the mean score of each task, seed by seed."""
    cells: TaskMeans = {}
    for run, scores, tasks in zip(group.runs, group.scores, group.tasks, strict=True):
        for task in np.unique(tasks):
            name = (str(data.about[run]["recipe"]), data.task_names[int(task)])
            cells.setdefault((data.about[run]["seed"], name), []).append(
                float(scores[tasks == task].mean())
            )
    return cells


def _over_tasks(data: ScoredRows, group: ScoreGroup, over: str, level: float) -> Estimate:
    """Interval over tasks. Every task counts the same, and its mean is taken seed by seed."""
    cells = task_means(data, group)
    seeds, names = sorted({s for s, _ in cells}), sorted({n for _, n in cells}, key=str)
    if len(names) < 2:
        return _without_interval([float(np.mean(v)) for v in cells.values()], "one task", level)
    means = {cell: np.mean(values) for cell, values in cells.items()}
    every_seed_has_all = len(cells) == len(seeds) * len(names)
    if every_seed_has_all:
        table = np.array([[means[s, n] for n in names] for s in seeds])
        return over_tasks(table, level) if over == "tasks" else two_way(table, level)
    by_task: dict[tuple[str, str], list[Any]] = {}
    for (_, name), mean in means.items():
        by_task.setdefault(name, []).append(mean)
    return over_tasks([np.mean(by_task[name]) for name in names], level)


def _without_interval(means: Sequence[float], method: str, level: float) -> Estimate:
    """Mean of a group of one task or example. It has no interval, because one item shows nothing
    about others.
    """
    mean = sum(means) / len(means)
    return Estimate(mean, math.nan, math.nan, math.nan, len(means), 1, math.nan, method, level)


def columns_of(runs: Runs, by: Sequence[str]) -> tuple[list[str], list[str]]:
    """Divide the grouping into columns of the runs and traits (or the task) of the examples."""
    own, traits = [], []
    for name in dict.fromkeys(by):
        # `task` means the task of the examples, also for runs on a single task.
        column = runs.find_column(name) if name != "task" else None
        if column is not None and column != name and name in shown_traits(runs):
            # `length` is a trait of the examples, if they have it. Otherwise it is short for
            # `recipe.length`.
            column = None
        if column in ("n", "score", *runs.suite_scores):
            raise RunsError(f"'{name}' is the measured value; group by another column or trait")
        own.append(column) if column else traits.append(name)
    return own, traits


def varying(runs: Runs) -> list[str]:
    """Columns of recipes, learners and fields that vary, without fields that only mirror the
    learner (its own steps).
    """
    table = runs.table
    columns = [c for c in ("recipe", "learner") if len(table[c].unique()) > 1]
    pair = list(zip(table["recipe"].to_pylist(), table["learner"].to_pylist(), strict=True))
    for name in runs.fields:
        if len(set(zip(pair, table[name].to_pylist(), strict=True))) > len(set(pair)):
            columns.append(name)
    return columns


def run_labels(runs: Runs) -> dict[str, str]:
    """Name of each run in tables and figures: learner, recipe, and the fields in which runs vary.

    Runs with the same label are repetitions: they differ in the seed alone.
    """
    columns = [column for column in varying(runs) if column not in ("recipe", "learner")]
    labels = {}
    for row in runs.table.to_pylist():
        fields = [
            f"{c.partition('.')[2]} {shown_setting(row[c])}" for c in columns if row[c] is not None
        ]
        labels[row["run"]] = ", ".join([str(row["learner"]), str(row["recipe"]), *fields])
    return labels


def shown_setting(value: Any) -> str:
    """Format the value of a setting for tables; whole numbers have separators."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return short_value(value)


STORED = re.compile(r"^.*/[0-9a-f]{2}/([0-9a-f]{8})[0-9a-f]{24}(/.*)?$")
"""A path in a run store."""


def short_value(value: Any) -> str:
    """Format the value of a setting for labels. Paths in a run store are shortened to the first
    digits of the run's name.

    >>> short_value("/data/runs/36/36d76a7b23471100f4b75da084962b25/model"), short_value(0.5)
    ('36d76a7b', '0.5')
    """
    return STORED.sub(r"\1", str(value))


def without_tasks(columns: Sequence[str]) -> list[str]:
    """Columns that distinguish runs when tasks are averaged. Recipes and tasks are then averaged
    over.
    """
    return [c for c in columns if c not in ("recipe", TASK_FIELD)]


def _apart(runs: Runs, over: str, splits: Sequence[str]) -> list[str]:
    columns = without_tasks(varying(runs)) if over.endswith("tasks") else varying(runs)
    return [*columns, *(["split"] if len(splits or runs.splits) > 1 else [])]


def _of_scores(
    runs: Runs, apart: Sequence[str], splits: Sequence[str], level: float, threshold: float | None
) -> ResultTable:
    """Compute the groups from the table of runs alone, without opening any predictions."""
    table = runs.table
    if splits:
        table = table.filter(pc.is_in(table["split"], strings(list(splits))))
    number = pa.chunked_array([numbers(np.arange(table.num_rows))])
    rows = []
    suite = SuiteScores(runs, splits)
    names = table["run"].to_pylist()
    for group in sort_scores([table[c] for c in apart], number, table["n"], number, table["score"]):
        means = [float(s[0]) for s in group.scores]
        n = int(group.items[0][0])
        estimate = over_seeds(means, level, n) if len(means) > 1 else _alone(means[0], n, level)
        row = _row(
            dict(zip(apart, group.values, strict=True)),
            Measured(estimate, means, _spread(means), threshold),
        )
        rows.append(row | suite.of([names[run] for run in group.runs], row.get("split")))
    return ResultTable([*apart, *_measures(threshold), *suite.columns], rows)


def _alone(mean: float, n: int, level: float) -> Estimate:
    """Mean of one seed without an interval, because without items partial scores cannot be
    distinguished from right-or-wrong ones.
    """
    return Estimate(
        mean, float("nan"), float("nan"), float("nan"), 1, n, float("nan"), "one seed", level
    )


def check_splits(runs: Runs, splits: Sequence[str]) -> None:
    """Raise an error for a split that no run answered."""
    for split in splits:
        if split not in runs.splits:
            raise RunsError(f"no run answered a split '{split}'; {nearest(split, runs.splits)}")


SHOWN_K = (1, 2, 3, 5, 10, 20, 50, 100)
"""Values of k for which pass@k is shown, up to the number of samples."""

Scores = NDArray[np.float64]


def pass_at(right: int, samples: int, k: int) -> float:
    """Probability that at least one of k samples is right, estimated without bias from more of
    them (Chen et al. 2021): one minus the share of all choices of k that have no right one.

    >>> pass_at(1, 4, 1), pass_at(1, 4, 2), pass_at(3, 4, 2)
    (0.25, 0.5, 1.0)
    """
    return 1 - math.comb(samples - right, k) / math.comb(samples, k)


def majority_score(predictions: Sequence[str], scores: Sequence[float]) -> float:
    """Score of the most frequent answer among the samples, or the first of equally frequent ones.
    Answers that differ only in case, an article or a full stop are counted as one.

    >>> majority_score(["garden", "Kitchen.", "kitchen"], [0, 1, 1])
    1
    """
    votes = Counter(map(bare, predictions))
    winner = votes.most_common(1)[0][0]
    place = [bare(prediction) for prediction in predictions].index(winner)
    return scores[place]


def samples(runs: Runs, splits: Sequence[str] = (), level: float = 0.95) -> ResultTable:
    """Statistics of runs that differ in the seed alone: mean with its interval, mean number of
    distinct answers per item, score of the majority vote, and pass@k.

    Args:
        runs: The runs; they must have kept their predictions.
        splits: Only these splits. Default: all.
        level: The confidence level.
    """
    kinds: dict[str, list[Run]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    rows = []
    for own in kinds.values():
        for split in splits or own[0].splits:
            row = _sampled_row(runs, own, split, level) if len(own) > 1 else None
            if row is not None:
                rows.append(row)
    if not rows:
        raise RunsError(
            "no model has several samples; ask for them by 'samples: 5' in the experiment"
        )
    most = max(row["samples"] for row in rows)
    passes = [f"pass@{k}" for k in SHOWN_K if k <= most]
    columns = ["recipe", "learner", "split", "samples", "n", "mean", "low", "high"]
    columns += ["distinct", "majority"]
    empty = dict.fromkeys(passes)
    return ResultTable([*columns, *passes], [{**empty, **row} for row in rows])


def _answers_by_item(runs: Runs, own: Sequence[Run], split: str) -> list[dict[int, dict[str, Any]]]:
    """Prediction and score of each item of a split, for each run; empty if a run kept none."""
    tables = []
    for run in own:
        answers = runs.answers(run.name, ["split", "index", "prediction", "score"])
        rows = [] if answers is None else answers.to_pylist()
        tables.append({row["index"]: row for row in rows if row["split"] == split})
    return tables


def _sampled_row(runs: Runs, own: Sequence[Run], split: str, level: float) -> dict[str, Any] | None:
    """Measures of the samples of one model on a split; None unless all runs kept their answers."""
    tables = _answers_by_item(runs, own, split)
    items = [index for index in tables[0] if all(index in table for table in tables)]
    if not items:
        return None
    scores: Scores = np.array([[table[i]["score"] for i in items] for table in tables])
    right = (scores >= 1).sum(axis=0).tolist()
    votes = [
        majority_score([t[i]["prediction"] or "" for t in tables], [t[i]["score"] for t in tables])
        for i in items
    ]
    # A single distinct answer to every item shows that the model does not sample.
    distinct = [len({bare(table[i]["prediction"] or "") for table in tables}) for i in items]
    estimate = two_way(scores, level)
    count = len(tables)
    passes = {
        f"pass@{k}": sum(pass_at(one, count, k) for one in right) / len(items)
        for k in SHOWN_K
        if k <= count
    }
    return {
        "recipe": own[0].recipe,
        "learner": own[0].learner,
        "split": split,
        "samples": count,
        "n": len(items),
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "distinct": sum(distinct) / len(distinct),
        "majority": sum(votes) / len(votes),
        **passes,
    }
