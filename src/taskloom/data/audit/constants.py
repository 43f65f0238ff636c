"""Tests of tasks that training lacks, but of which it has one that differs in a constant alone.

What is a constant only the suite can tell: it offers `task_form` (a method of the suite), a task's name without its
constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.plan import Role

if TYPE_CHECKING:
    from taskloom.core.offers import TaskForm


@dataclass(frozen=True, slots=True)
class ConstantTask:
    """A task of a test split that is a training task but for a constant.

    Attributes:
        split: The test split.
        task: The task, which training lacks.
        like: A training task that is the same but for a constant.
        n: Rows of it.
    """

    split: str
    task: str
    like: str
    n: int


def find_constant_tasks(
    tables: Mapping[str, pa.Table], roles: Mapping[str, Role], form: TaskForm | None
) -> list[ConstantTask]:
    """Find tasks of test splits that training lacks but for a constant; none where the suite does not tell constants."""
    if form is None:
        return []
    forms: dict[str, str] = {}
    known: set[str] = set()
    for name, table in tables.items():
        if roles[name] == "train":
            for task, (_, traits) in _tasks(table).items():
                known.add(task)
                forms.setdefault(form(task, traits), task)
    constant_tasks = []
    for name, table in tables.items():
        if roles[name] != "test":
            continue
        for task, (n, traits) in _tasks(table).items():
            like = forms.get(form(task, traits)) if task not in known else None
            if like is not None:
                constant_tasks.append(ConstantTask(name, task, like, n))
    return constant_tasks


def _tasks(table: pa.Table) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the tasks of a split, how many rows each has, and the traits of its first row."""
    if "task" not in table.column_names or not table.num_rows:
        return {}
    counted = pc.value_counts(table.column("task")).to_pylist()
    names = [row["values"] for row in counted]
    places = pc.index_in(table.column("task"), pa.array(names, table.column("task").type))
    _, first = np.unique(places.to_numpy(), return_index=True)
    has_traits = "traits" in table.column_names
    traits = table.column("traits").take(pa.array(first)).to_pylist() if has_traits else [{}] * len(first)
    return {
        str(name): (int(row["counts"]), one or {})
        for name, row, one in zip(names, counted, traits, strict=True)
        if name is not None
    }
