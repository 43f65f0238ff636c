"""Pairs of an input and an answer that a test split shares with training, as they are or the other way round.

Where `hot` is tested with the answer `cold`, training must have neither `hot` with `cold` nor `cold` with `hot`: relations are
symmetric more often than not. Texts are compared as they stand, over all tasks and all acceptable answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import array_of, numbers
from taskloom.core.plan import Role
from taskloom.data.audit.leaks import SHOWN, one_array

if TYPE_CHECKING:
    from taskloom.core.offers import TaskForm


I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PairLeak:
    """Rows of a test split with a pair that training has.

    Attributes:
        split: The test split.
        same: Rows whose input training has with one of the same answers.
        reversed: Rows of which training has an answer as its input, with the row's input as its answer.
        share: Rows of either kind, as a share of the split.
        examples: Some of them, `input → answer`.
    """

    split: str
    same: int
    reversed: int
    share: float
    examples: list[str]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The inputs of rows, and all their acceptable answers behind one another."""

    inputs: pa.Array
    answers: pa.Array
    rows: I64

    @classmethod
    def of(cls, table: pa.Table) -> _Pairs:
        targets = one_array(table.column("targets"))
        rows = array_of(pc.list_parent_indices(targets)).astype(np.int64)
        return cls(one_array(table.column("input")), pc.list_flatten(targets), rows)

    def where(self, chosen: Mask) -> _Pairs:
        """Return the pairs of some rows alone."""
        kept = chosen[self.rows]
        return _Pairs(self.inputs, self.answers.filter(numbers(kept)), self.rows[kept])


def find_pair_leaks(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[PairLeak]:
    """Find the pairs that test splits share with training; splits that share none are left out."""
    train = [
        t.select(["input", "targets"])
        for name, t in tables.items()
        if roles[name] == "train" and t.num_rows
    ]
    if not train:
        return []
    tests = {
        name: _Pairs.of(t) for name, t in tables.items() if roles[name] == "test" and t.num_rows
    }
    trained = _Pairs.of(_concerned(pa.concat_tables(train), tests.values()))
    known = pc.unique(trained.inputs)
    leaks = []
    for name, tested in tests.items():
        same, turned = _same(tested, trained, known), _reversed(tested, trained, known)
        at = np.concatenate((same, turned))
        if not len(at):
            continue
        rows = tested.rows[at]
        shown = [
            f"{tested.inputs[int(tested.rows[i])]} → {tested.answers[int(i)]}"[:200]
            for i in at[:SHOWN]
        ]
        share = len(np.unique(rows)) / len(tested.inputs)
        as_they_are, other_way = (len(np.unique(tested.rows[places])) for places in (same, turned))
        leaks.append(PairLeak(name, as_they_are, other_way, share, shown))
    return leaks


def _concerned(train: pa.Table, tests: Iterable[_Pairs]) -> pa.Table:
    """Return the training rows whose input is a tested input or answer: no other can share a pair with a test."""
    texts = [text for tested in tests for text in (tested.inputs, tested.answers)]
    return train.filter(
        pc.is_in(train.column("input"), pc.unique(pa.chunked_array(texts, pa.string())))
    )


def _same(tested: _Pairs, trained: _Pairs, known: pa.Array) -> I64:
    """Return the places of the tested pairs that training has."""
    shared = _places(tested.inputs, known)
    if not (shared >= 0).any():
        return np.zeros(0, dtype=np.int64)
    mine = np.flatnonzero(shared[tested.rows] >= 0)
    inputs = pc.unique(tested.inputs.filter(numbers(shared >= 0)))
    theirs = trained.where(_places(trained.inputs, inputs) >= 0)
    answers = pc.unique(theirs.answers)
    here = tested.answers.take(numbers(mine))
    codes = _codes(
        _places(tested.inputs, inputs)[tested.rows[mine]], _places(here, answers), len(answers)
    )
    there = _codes(
        _places(theirs.inputs, inputs)[theirs.rows], _places(theirs.answers, answers), len(answers)
    )
    return mine[np.isin(codes, there[there >= 0]) & (codes >= 0)]


def _reversed(tested: _Pairs, trained: _Pairs, known: pa.Array) -> I64:
    """Return the places of the tested pairs that training has the other way round; a text with itself is no pair to turn."""
    inputs = pc.unique(tested.inputs)
    theirs = _places(trained.answers, inputs)
    if not (theirs >= 0).any():
        return np.zeros(0, dtype=np.int64)
    own = _places(tested.inputs, inputs)[tested.rows]
    codes = _codes(_places(tested.answers, known), own, len(inputs))
    there = _codes(_places(trained.inputs, known)[trained.rows], theirs, len(inputs))
    with_itself = _places(tested.answers, inputs) == own
    return np.flatnonzero(
        np.isin(codes, np.unique(there[there >= 0])) & (codes >= 0) & ~with_itself
    )


def _places(texts: pa.Array, among: pa.Array) -> I64:
    """Return the place of each text among different texts, -1 where it is not one of them."""
    nowhere = numbers(np.array([-1], dtype=np.int32))[0]
    return array_of(pc.coalesce(pc.index_in(texts, among), nowhere)).astype(np.int64)


def _codes(first: I64, second: I64, size: int) -> I64:
    """Return one number for each pair of places, -1 where one of them is missing."""
    return np.where((first >= 0) & (second >= 0), first * size + second, -1)


@dataclass(frozen=True, slots=True)
class ConstantTask:
    """A task of a test split that is a training task but for a constant.

    What is a constant only the suite can tell: it offers `task_form`, a task's name without its constants.

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
    traits = (
        table.column("traits").take(pa.array(first)).to_pylist()
        if has_traits
        else [{}] * len(first)
    )
    return {
        str(name): (int(row["counts"]), one or {})
        for name, row, one in zip(names, counted, traits, strict=True)
        if name is not None
    }
