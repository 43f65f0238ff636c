"""A base task with its four derivatives side by side, as `taskloom show zest/synthetic` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskloom.errors import InputError
from taskloom.suites.zest.layout import context
from taskloom.suites.zest.synthetic.algebra import program_text
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.task_world import TaskWorld, answer_kinds
from taskloom.suites.zest.task_files import PAPER_NAMES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskloom.example import Example


def family(world: TaskWorld, task: DescribedTask) -> list[DescribedTask]:
    """Return the base task that a task derives from (or is), and one task of each kind that derives from it."""
    split = next(s for s in world.splits.values() if any(t.id == task.id for t in s))
    wanted = task.derives_from[0] if task.derives_from else task.id
    base = next(t for t in split if t.id == wanted)
    members = [base]
    for kind in list(PAPER_NAMES)[1:]:
        derived = [t for t in split if t.kind == kind and base.id in t.derives_from]
        members += [t for t in derived if t.id == task.id][:1] or derived[:1]
    return members


def show(world: TaskWorld, example: Example) -> RenderableType:
    """Render an example's whole family: descriptions, programs, passages, and the answers."""
    from rich.markup import escape
    from rich.table import Table

    task = next((t for s in world.splits.values() for t in s if t.id == example.task), None)
    if task is None:
        raise InputError(f"there is no task {example.task} in this recipe and seed")
    number = int(example.traits["instance"])
    members = family(world, task)
    table = Table(show_lines=True, expand=True)
    table.add_column("", no_wrap=True)
    for t in members:
        table.add_column(PAPER_NAMES[t.kind] + (" (this)" if t.id == task.id else ""), ratio=1, overflow="fold")
    numbers = [number if t.source == task.source else _answered(world, t, number) for t in members]
    examples = [world.example(t, n) for t, n in zip(members, numbers, strict=True)]
    table.add_row("task", *(f"[bold]{escape(t.question)}[/bold]" for t in members))
    table.add_row("program", *(escape(program_text(t.program)) for t in members))
    passages = [context(e.input) for e in examples]
    same = [p == passages[0] and i > 0 for i, p in enumerate(passages)]
    table.add_row("passage", *("(as the base task)" if s else escape(p) for s, p in zip(same, passages, strict=True)))
    table.add_row("answer", *(f"[green]{escape(e.target)}[/green]" for e in examples))
    return table


def _answered(world: TaskWorld, task: DescribedTask, number: int) -> int:
    """Find the first instance from a number on that has an answer, or return that number: a row of n/a would show little."""
    kinds = answer_kinds(world.key, task.source, task.program.yes_no, world.passages, world.mixes[task.source])
    order = [(number + i) % world.passages for i in range(world.passages)]
    return next((n for n in order if kinds[n] != "na"), number)
