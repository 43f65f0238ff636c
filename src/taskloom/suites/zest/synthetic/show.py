"""A base task with its four derivatives side by side, as `taskloom show zest/synthetic` prints them
and the viewer draws them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskloom.core.errors import InputError
from taskloom.core.pictures import FamilyMember, FamilyPicture
from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.layout import context
from taskloom.suites.zest.synthetic.algebra import program_text
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.task_world import TaskWorld, answer_kinds, task_world
from taskloom.suites.zest.task_files import PAPER_NAMES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskloom.core.example import Example


def family(world: TaskWorld, task: DescribedTask) -> list[DescribedTask]:
    """Return the base task that a task derives from (or is), and one task of each kind that derives
    from it.
    """
    split = next(s for s in world.splits.values() if any(t.id == task.id for t in s))
    wanted = task.derives_from[0] if task.derives_from else task.id
    base = next(t for t in split if t.id == wanted)
    members = [base]
    for kind in list(PAPER_NAMES)[1:]:
        derived = [t for t in split if t.kind == kind and base.id in t.derives_from]
        members += [t for t in derived if t.id == task.id][:1] or derived[:1]
    return members


SAME = "(as the base task)"
"""Stands for a passage that the base task has, too."""

_WORLDS: dict[tuple[Key, str], TaskWorld] = {}
"""The world of the last recipe that was drawn: building one takes a second, and people look at one
dataset at a time.
"""


def members_of(world: TaskWorld, example: Example) -> list[tuple[DescribedTask, Example]]:
    """Return the family of an example's task, with an example of each: the same passage where they
    share one.
    """
    task = next((t for s in world.splits.values() for t in s if t.id == example.task), None)
    if task is None:
        raise InputError(f"there is no task {example.task} in this recipe and seed")
    number = int(example.traits["instance"])
    members = family(world, task)
    numbers = [number if t.source == task.source else _answered(world, t, number) for t in members]
    return [(t, world.example(t, n)) for t, n in zip(members, numbers, strict=True)]


def passages_of(members: list[tuple[DescribedTask, Example]]) -> list[str]:
    """Return the passages of a family; a remark in the place of one that is the base task's."""
    passages = [context(example.input) for _, example in members]
    return [
        SAME if passage == passages[0] and i > 0 else passage for i, passage in enumerate(passages)
    ]


def show(world: TaskWorld, example: Example) -> RenderableType:
    """Render an example's whole family: descriptions, programs, passages, and the answers."""
    from rich.markup import escape
    from rich.table import Table

    members = members_of(world, example)
    table = Table(show_lines=True, expand=True)
    table.add_column("", no_wrap=True)
    for t, _ in members:
        table.add_column(
            PAPER_NAMES[t.kind] + (" (this)" if t.id == example.task else ""),
            ratio=1,
            overflow="fold",
        )
    table.add_row("task", *(f"[bold]{escape(t.question)}[/bold]" for t, _ in members))
    table.add_row("program", *(escape(program_text(t.program)) for t, _ in members))
    table.add_row("passage", *(p if p == SAME else escape(p) for p in passages_of(members)))
    table.add_row("answer", *(f"[green]{escape(e.target)}[/green]" for _, e in members))
    return table


def family_picture(fields: ZestFields, key: Key, example: Example) -> FamilyPicture:
    """Return an example's whole family for drawing."""
    name = key, fields.model_dump_json()
    if name not in _WORLDS:
        _WORLDS.clear()
        _WORLDS[name] = task_world(fields, key)
    members = members_of(_WORLDS[name], example)
    columns = [
        FamilyMember(
            PAPER_NAMES[t.kind],
            (t.question, program_text(t.program), passage, e.target),
            t.id == example.task,
        )
        for (t, e), passage in zip(members, passages_of(members), strict=True)
    ]
    return FamilyPicture(("question", "program", "passage", "answer"), tuple(columns))


def _answered(world: TaskWorld, task: DescribedTask, number: int) -> int:
    """Find the first instance from a number on that has an answer, or return that number: a row of
    n/a would show little.
    """
    kinds = answer_kinds(
        world.key, task.source, task.program.yes_no, world.passages, world.mixes[task.source]
    )
    order = [(number + i) % world.passages for i in range(world.passages)]
    return next((n for n in order if kinds[n] != "na"), number)
