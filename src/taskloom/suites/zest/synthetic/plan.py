"""The plan of procedural ZEST: the task and passage of each index, and how an example is shown.

`taskloom show zest/synthetic` prints a base task next to its four derivatives, and the viewer draws
the same family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from taskloom.core.errors import InputError
from taskloom.core.example import Answer, Example
from taskloom.core.pictures import FamilyMember, FamilyPicture
from taskloom.core.plan import Plan, Source, Split, Tasks, proved, role_of
from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields, context, described_in_input, question
from taskloom.suites.zest.scorer import zest
from taskloom.suites.zest.synthetic import second_solver
from taskloom.suites.zest.synthetic.algebra import program_text
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.domain_files import find_domain, is_file_name, load_domain
from taskloom.suites.zest.synthetic.task_world import TaskWorld, answer_kinds, task_world
from taskloom.suites.zest.synthetic.variants import PassageVariants
from taskloom.suites.zest.task_files import PAPER_NAMES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskloom.core.example import Example

TRAITS: dict[str, type] = {
    "generalization_type": str,
    "domain": str,
    "format": str,
    "answer_type": str,
    "evidence": str,
    "derives_from": str,
    "program": str,
    "operation": str,
    "instance": int,
    "passage_words": int,
    "question_words": int,
}


def plan(fields: ZestFields, key: Key) -> Plan:
    """Plan procedural ZEST."""
    world = task_world(fields, key)
    return Plan(
        splits=tuple(_split(world, name) for name, tasks in world.splits.items() if tasks),
        traits=TRAITS,
        describe=(
            "Answer the question about the passage: yes, no, words of the passage (several "
            "joined by |), JSON where several things are asked of each item, or n/a where the "
            "passage does not say."
        ),
        scorer=zest,
        sources=tuple(
            Source(name, load_domain(fields.find_file(name))[0])
            for name in fields.domains
            if is_file_name(name)
        ),
        answer=_answerer(world) if fields.parts == "both" else None,
        check=(
            check if fields.parts != "question" else lambda example: _check_passage(world, example)
        ),
        warnings=(
            (
                "paraphrases have the same passages as their base tasks, by design: audit counts "
                "them as near duplicates"
            ),
        ),
        show=lambda example: show(world, example),
        tasks=Tasks(tell=described_in_input),
        variants=proved(PassageVariants(world), check) if fields.parts == "both" else None,
    )


def _split(world: TaskWorld, name: str) -> Split:
    tasks = world.splits[name]

    def rows(start: int, stop: int) -> Iterator[Example]:
        for index in range(start, stop):
            task, passage = divmod(index, world.passages)
            # Each round has further passages of the same tasks.
            number, task = divmod(task, len(tasks))
            yield world.example(tasks[task], number * world.passages + passage)

    ids = tuple(task.id for task in tasks)
    n = len(tasks) * world.passages
    return Split(name, n, rows, role_of(name), tasks=ids, rounds=math.inf)


def check(example: Example) -> tuple[str, ...]:
    """Answer an example from the text of its passage, using the independent reader."""
    try:
        name, program = str(example.traits["domain"]), str(example.traits["program"])
    except KeyError as error:
        raise InputError(
            f"the example has no trait {error}; only examples of zest/synthetic can be checked by "
            "the reader"
        ) from error
    return second_solver.solve(find_domain(name), program, context(example.input))


def _check_passage(world: TaskWorld, example: Example) -> tuple[str, ...]:
    """Answer an example whose input lacks its passage, using the passage from which it was made."""
    tasks = {t.id: t for members in world.splits.values() for t in members}
    text, _ = world.passage(tasks[example.task], int(example.traits["instance"]))
    return check(replace(example, input=f"context: {text}"))


def _answerer(world: TaskWorld) -> Callable[[str], Answer]:
    """Return a function that answers an input of the recipe. It runs the question's program on the
    facts found by the independent reader.
    """
    by_question = {t.question: t for members in world.splits.values() for t in members}

    def answer(text: str) -> Answer:
        wording = question(text)
        task = by_question.get(wording)
        if task is None:
            what = f"the question {wording[:80]!r}" if wording else "an input without a question"
            raise InputError(
                f"{what} is not a task of this recipe and seed; write 'zeroshot question: … "
                "zeroshot context: …' with a question that 'taskloom show' prints, such as "
                f"{next(iter(by_question), '')!r}"
            )
        return Answer(second_solver.solve(task.domain, program_text(task.program), context(text)))

    return answer


def family(world: TaskWorld, task: DescribedTask) -> list[DescribedTask]:
    """Return the base task of a task (or the task itself), and one task of each kind derived from
    it.
    """
    split = next(s for s in world.splits.values() if any(t.id == task.id for t in s))
    wanted = task.derives_from[0] if task.derives_from else task.id
    base = next(t for t in split if t.id == wanted)
    members = [base]
    for kind in list(PAPER_NAMES)[1:]:
        derived = [t for t in split if t.kind == kind and base.id in t.derives_from]
        # The task itself represents its kind. For other kinds, use the first task.
        derived.sort(key=lambda t: t.id != task.id)
        members += derived[:1]
    return members


SAME = "(as the base task)"
"""Shown instead of a passage that equals the base task's."""

_WORLDS: dict[tuple[Key, str], TaskWorld] = {}
"""Cache of the most recent recipe's world. Building one takes a second, and users usually look at
one dataset at a time.
"""


def members_of(world: TaskWorld, example: Example) -> list[tuple[DescribedTask, Example]]:
    """Return the family of an example's task, with one example per member. Members that share
    passages have the same passage.
    """
    tasks = {task.id: task for split in world.splits.values() for task in split}
    task = tasks.get(example.task)
    if task is None:
        raise InputError(f"there is no task {example.task} in this recipe and seed")
    number = int(example.traits["instance"])
    members = family(world, task)
    numbers = [number if t.source == task.source else _answered(world, t, number) for t in members]
    return [(t, world.example(t, n)) for t, n in zip(members, numbers, strict=True)]


def passages_of(members: list[tuple[DescribedTask, Example]]) -> list[str]:
    """Return the passages of a family, with `SAME` in place of passages equal to the base
    task's.
    """
    passages = [context(example.input) for _, example in members]
    return [
        SAME if passage == passages[0] and i > 0 else passage for i, passage in enumerate(passages)
    ]


def show(world: TaskWorld, example: Example) -> RenderableType:
    """Render an example's whole family: descriptions, programs, passages and answers."""
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
    """Return the first instance from `number` on that has an answer, because n/a would not be a
    helpful example. If there is none, return `number`.
    """
    kinds = answer_kinds(
        world.key, task.source, task.program.yes_no, world.passages, world.mixes[task.source]
    )
    order = [(number + i) % world.passages for i in range(world.passages)]
    return next((n for n in order if kinds[n] != "na"), number)
