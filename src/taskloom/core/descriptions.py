"""Described inputs for any suite: every input begins with a description of its task, and some tasks
may be held out of training.

A described input is one line of instructions followed by the original input. The rows are the same
as without `described`, so that descriptions can be evaluated example by example. Content keys and
questions remain those of the original input. A keyed hash of the task decides which tasks are
withheld from training, and every training row is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core import shards
from taskloom.core.errors import DataError, InputError, RecipeError, nearest
from taskloom.core.example import Example
from taskloom.core.plan import Level, Plan, Split, Variant, Withheld
from taskloom.core.seeding import Key

BETWEEN = "\n"
"""Separator between a description, which has one line, and the input."""

ALONE = (
    "inputs are descriptions alone, so that all examples of a task have the same input: the "
    "audit counts them as overlaps"
)

UNSEEN = "unseen_task"
"""Trait that is true if a row's task was withheld from training."""


def describe(
    plan: Plan, level: Level, unseen: float | Sequence[str], key: Key, *, alone: bool = False
) -> Plan:
    """Return a plan whose inputs begin with a description of their task.

    Args:
        plan: The plan of the recipe without `described`.
        level: How detailed the description is.
        unseen: Tasks to withhold from training, as a share or by name. 0 or empty for none.
        key: Key of the recipe and seed.
        alone: Drop the original input, leaving only the description.

    Raises:
        RecipeError: If no task can be withheld, or a name is not a task.
    """
    is_withheld: Withheld | None = None
    if unseen:
        is_withheld = withheld(plan, unseen, key)
        assert plan.tasks.without is not None
        plan = plan.tasks.without(is_withheld)
    teller = Describer(plan, level, is_withheld, alone)
    answer = plan.answer if not alone else None
    return replace(
        plan,
        splits=tuple(
            replace(split, rows=partial(teller.rows, split), tasks=teller.tasks(split))
            for split in plan.splits
        ),
        traits={**plan.traits, UNSEEN: bool} if is_withheld else plan.traits,
        answer=(lambda text: answer(undescribed(text))) if answer else None,
        # Without the input, the second solver cannot run, so `verify` regenerates the rows instead.
        check=teller.check if plan.check and not alone else None,
        show=teller.show if plan.show and not alone else None,
        variants=teller.variants if plan.variants and not alone else None,
        warnings=(*plan.warnings, ALONE) if alone else plan.warnings,
    )


def withheld(plan: Plan, unseen: float | Sequence[str], key: Key) -> Withheld:
    """Choose the tasks to withhold from training: those named, or a share by a keyed hash."""
    tasks = plan.tasks
    if tasks.without is None or (tasks.names is not None and len(tasks.names) < 2):
        raise RecipeError(
            "described.unseen: this recipe has one task, or its tests have other tasks than "
            "training anyway, so none can be withheld; leave 'unseen' out"
        )
    if not any(split.role == "train" for split in plan.splits):
        raise RecipeError(
            "described.unseen: this recipe has no training split to withhold tasks from; leave"
            " it out"
        )
    if not isinstance(unseen, float | int):
        for name in unseen:
            if tasks.names is not None and name not in tasks.names:
                raise RecipeError(
                    f"described.unseen: no task is called '{name}'; {nearest(name, tasks.names)}"
                )
            if not tasks.possible(name):
                raise RecipeError(
                    f"described.unseen: no task is called '{name}'; the trait '{tasks.by}' of an "
                    "example shows how tasks are written"
                )
            if tasks.always(name):
                raise RecipeError(
                    f"described.unseen: training always contains '{name}'; name another task"
                )
        if tasks.names is not None and set(tasks.names) <= set(unseen):
            raise RecipeError(
                "described.unseen: this withholds all tasks, so training would be empty; leave "
                "one of them out"
            )
        return frozenset(unseen).__contains__
    place = key.child("unseen")
    if tasks.names is None:
        return lambda task: not tasks.always(task) and place.unit(task) < unseen
    order = sorted((name for name in tasks.names if not tasks.always(name)), key=place.unit)
    many = min(max(1, round(unseen * len(order))), len(order) - 1)
    return frozenset(order[:many]).__contains__


def undescribed(text: str) -> str:
    """Remove the description line from an input. A single-line text has no description and is
    returned unchanged.
    """
    head, line, rest = text.partition(BETWEEN)
    return rest if line else head


def undescribed_table(table: pa.Table) -> pa.Table:
    """Return the rows of a described dataset without their descriptions.

    If the content key equals the input, the input itself states the task.
    """
    input, key = table.column("input"), table.column("key")
    bare = pc.replace_substring_regex(input, r"\A[^\n]*\n", "", max_replacements=1)
    kept = pc.fill_null(pc.equal(input, key), False)
    return table.set_column(
        table.column_names.index("input"), "input", pc.if_else(kept, input, bare)
    )


@dataclass(frozen=True, slots=True)
class Describer:
    """Adds descriptions to inputs, and removes them where the bare input is needed."""

    plan: Plan
    level: Level
    withheld: Withheld | None = None
    alone: bool = False

    def tell(self, task: str) -> str:
        """Return the description of a task."""
        tell = self.plan.tasks.tell
        text = self.plan.describe if tell is None else tell(task, self.level)
        return " ".join(text.split())

    def tasks(self, split: Split) -> tuple[str, ...] | None:
        """Return the tasks of a split if they are listed. Withheld tasks are not in training."""
        names = self.plan.tasks.names if split.tasks is None else split.tasks
        if names is None or self.withheld is None or split.role != "train":
            return split.tasks
        return tuple(name for name in names if not self.withheld(name))

    def descriptions(self, table: pa.Table) -> pa.Array:
        """Return the description of every row's task; empty if the input states it."""
        names = task_column(table, self.plan.tasks.by).fill_null("").dictionary_encode()
        told = [self.tell(name) for name in names.dictionary.to_pylist()]
        return pa.array(told, pa.string()).take(names.indices)

    def rows(self, split: Split, start: int, stop: int) -> pa.Table:
        """Return rows start..stop of a split, with descriptions."""
        table = shards.to_table(split.rows(start, stop), start, self.plan.traits)
        descriptions = self.descriptions(table)
        bare = table.column("input")
        if self.alone and pc.any(pc.equal(descriptions, "")).as_py():
            raise RecipeError(
                "described.alone: the inputs of this recipe already state their task; leave it out"
            )
        input = (
            descriptions if self.alone else pc.binary_join_element_wise(descriptions, bare, BETWEEN)
        )
        columns = {
            "input": pc.if_else(pc.equal(descriptions, ""), bare, input),
            "question": (
                pa.nulls(len(bare), pa.string())
                if self.alone
                else pc.coalesce(table.column("question"), bare)
            ),
            "key": pc.coalesce(table.column("key"), bare),
        }
        for name, column in columns.items():
            table = table.set_column(table.column_names.index(name), name, column)
        if self.withheld is None:
            return table
        names = task_column(table, self.plan.tasks.by).fill_null("").dictionary_encode()
        different = names.dictionary.to_pylist()
        marks = pa.array([self.withheld(name) for name in different], pa.bool_()).take(
            names.indices
        )
        if split.role == "train" and pc.any(marks).as_py():
            where = next(name for name in different if self.withheld(name))
            raise DataError(
                f"split '{split.name}' contains the withheld task '{where}', which is a bug in "
                "the suite"
            )
        return with_trait(table, UNSEEN, marks)

    def described(self, example: Example) -> Example:
        """Return the example with the description of its task in front of the input."""
        description = self.tell(self._task(example))
        text = f"{description}{BETWEEN}{example.input}" if description else example.input
        return replace(example, input=text)

    def bare(self, example: Example) -> Example:
        """Return the example without its description. Raises an error if the description does not
        belong to its task.
        """
        description = self.tell(self._task(example))
        if not description:
            return example
        if not example.input.startswith(description + BETWEEN):
            raise InputError(
                f"the input does not begin with the description of its task: {description!r}"
            )
        return Example(
            example.input.removeprefix(description + BETWEEN),
            example.targets,
            {name: value for name, value in example.traits.items() if name != UNSEEN},
            key=example.key,
            question=example.question,
            derivation=example.derivation,
            task=example.task,
        )

    def _task(self, example: Example) -> str:
        by = self.plan.tasks.by
        return example.task if by == "task" else str(example.traits.get(by, ""))

    def check(self, example: Example) -> tuple[str, ...]:
        """Run the second solver on the original input, and check the description and the
        `unseen_task` trait.
        """
        if self.withheld is not None and bool(example.traits.get(UNSEEN)) != self.withheld(
            self._task(example)
        ):
            raise InputError(f"the trait '{UNSEEN}' is wrong")
        assert self.plan.check is not None
        return self.plan.check(self.bare(example))

    def variants(self, example: Example) -> Iterator[Variant]:
        """Yield the variants of the original example, with descriptions."""
        assert self.plan.variants is not None
        for variant in self.plan.variants(self.bare(example)):
            yield replace(variant, example=self._described(variant.example))

    def _described(self, bare: Example) -> Example:
        """Return an example with the description of its task, identical to what `rows` returns."""
        task = self._task(bare)
        description = self.tell(task)
        traits = dict(bare.traits)
        if self.withheld is not None:
            traits[UNSEEN] = self.withheld(task)
        return replace(
            bare,
            input=f"{description}{BETWEEN}{bare.input}" if description else bare.input,
            traits=traits,
            key=bare.key or bare.input,
            question=bare.question or bare.input,
        )

    def show(self, example: Example) -> Any:
        """Show the description, followed by the example as shown by its suite."""
        assert self.plan.show is not None
        shown = self.plan.show(self.bare(example))
        description = self.tell(self._task(example))
        if not description:
            return shown
        from rich.console import Group

        return Group("  " + description.replace("[", r"\["), shown)


def task_column(table: pa.Table, by: str) -> pa.Array:
    """Return the task of every row, from the column `task` or from a trait."""
    column = table.column("task") if by == "task" else pc.struct_field(table.column("traits"), by)
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def with_trait(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """Return the table with a trait added or replaced."""
    names, arrays = [], []
    if "traits" in table.column_names:
        traits = table.column("traits").combine_chunks()
        traits = pa.concat_arrays(traits.chunks) if isinstance(traits, pa.ChunkedArray) else traits
        names = [field.name for field in traits.type]
        arrays = [pc.struct_field(traits, n) for n in names]
        table = table.drop_columns(["traits"])
    if name in names:
        arrays[names.index(name)] = values
    else:
        names, arrays = [*names, name], [*arrays, values]
    return table.append_column("traits", pa.StructArray.from_arrays(arrays, names=names))


def thinned(split: Split, plan: Plan, is_withheld: Withheld) -> Split:
    """Return a split without the rows of withheld tasks. All rows are generated in order to count
    them, so this is only suitable for fast suites.
    """
    table = shards.to_table(split.rows(0, split.n), 0, plan.traits)
    names = task_column(table, plan.tasks.by).fill_null("").dictionary_encode()
    marks = np.array([is_withheld(name) for name in names.dictionary.to_pylist()], dtype=bool)
    kept = np.flatnonzero(~marks[names.indices.to_numpy(zero_copy_only=False)])
    empty = table.schema.empty_table()

    def rows(start: int, stop: int) -> pa.Table:
        places = kept[start:stop]
        if not len(places):
            return empty
        low, high = int(places[0]), int(places[-1]) + 1
        table = shards.to_table(split.rows(low, high), low, plan.traits).take(
            pa.array(places - low)
        )
        return table.set_column(0, "index", pa.array(np.arange(start, start + len(places))))

    return replace(split, n=len(kept), rows=rows, rounds=1)


def withhold(
    plan: Plan, change: Callable[[Split, Withheld], Split] | None = None
) -> Callable[[Withheld], Plan]:
    """Build a suite's `Tasks.without`: drop rows from training splits, and adjust other splits that
    depend on training.
    """

    def without(is_withheld: Withheld) -> Plan:
        splits = [
            thinned(split, plan, is_withheld) if split.role == "train" else split
            for split in plan.splits
        ]
        changed = [change(split, is_withheld) for split in splits] if change else splits
        return replace(plan, splits=tuple(changed))

    return without
