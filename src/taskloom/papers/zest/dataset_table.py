"""Table 2 of ZEST: `zest/synthetic`, which takes the place of the crowd-sourced data, beside the
paper's statistics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import study
from taskloom.analysis.verdict import judge_number
from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.experiments.result_table import ResultTable
from taskloom.recipe import read
from taskloom.suites.zest.dataset_statistics import Statistics, statistics
from taskloom.suites.zest.layout import context
from taskloom.suites.zest.task_files import ZestTask, task_of

RECIPE = "zest/synthetic"

SEED = 0

ROWS = {
    "pairs": "(task, passage) pairs",
    "passage_words": "mean words of a passage",
    "tasks": "tasks",
    "task_words": "mean words of a task's description",
    "na": "share of n/a",
    "classification": "share of classification",
}
"""The rows of the table, by the names of `Statistics`."""

WORDED = ("passage_words", "task_words")
"""Rows that no field of the recipe sets; the others are set by the recipe."""

TOLERANCE = 0.05
"""Largest relative difference in words that counts as agreement: seeds move a description's by that
much (docs/suites/zest.md).
"""


def tasks_of(examples: Iterable[Example]) -> list[ZestTask]:
    """Tasks of consecutive examples, each with its passages alone."""
    tasks = [task_of(list(own)) for _, own in groupby(examples, key=attrgetter("task"))]
    return [
        replace(t, instances=tuple(replace(i, context=context(i.context)) for i in t.instances))
        for t in tasks
    ]


def split_statistics(plan: Plan) -> dict[str, Statistics]:
    """Statistics of each split of a plan."""
    return {split.name: statistics(tasks_of(split.rows(0, split.n))) for split in plan.splits}


@study(
    "zest/table2",
    describe="Statistics of zest/synthetic beside those of ZEST",
    place="ZEST, Table 2",
    from_recipes=True,
)
def table2(scale: str) -> Finding:
    """Count all of `zest/synthetic`, seconds at either scale."""
    return table2_finding(split_statistics(read(RECIPE).plan(SEED)))


def table2_finding(splits: dict[str, Statistics]) -> Finding:
    """Statistics of train, dev and test as a finding."""
    rows, judgements = [], []
    for name, label in ROWS.items():
        values = {split: getattr(row, name) for split, row in splits.items()}
        rows.append({"statistic": label, **values})
        for split, value in values.items():
            (number,) = published("zest", "Table 2", split=split, what=name)
            tolerance = TOLERANCE * number.value if name in WORDED else 0.0
            judgements.append(
                judge_number(value, number, claim=f"{split}: {label}", tolerance=tolerance)
            )
    return Finding(
        "ZEST Table 2",
        f"{RECIPE} (seed {SEED}) beside the crowd-sourced data of the paper.",
        ResultTable(("statistic", *splits), rows),
        judgements=tuple(judgements),
        notes=(
            (
                "Numbers of tasks, the share of n/a and the share of classification are set in the"
                " recipe by this table, so that they must agree; the words follow from the"
                " generator. Words agree within 5 %."
            ),
            (
                "The recipe has 20 passages for every task; the paper's training split has six"
                " pairs more than that."
            ),
        ),
    )
