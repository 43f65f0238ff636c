"""From a recipe to the plan of procedural ZEST: which task and passage stand at which index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from taskloom.core.errors import InputError
from taskloom.core.example import Answer, Example
from taskloom.core.plan import Plan, Source, Split, Tasks, role_of
from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.layout import context, described_in_input, question
from taskloom.suites.zest.scorer import zest
from taskloom.suites.zest.synthetic import second_solver
from taskloom.suites.zest.synthetic.algebra import program_text
from taskloom.suites.zest.synthetic.domain_files import find_domain, is_file_name, load_domain
from taskloom.suites.zest.synthetic.show import show
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world

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
            "Answer the question about the passage: yes, no, words of the passage (several joined"
            " by |), JSON where several things are asked of each item, or n/a where the passage"
            " does not say."
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
                "paraphrases have the passages of their base tasks, by design: audit counts them as"
                " near duplicates"
            ),
        ),
        show=lambda example: show(world, example),
        tasks=Tasks(tell=described_in_input),
    )


def _split(world: TaskWorld, name: str) -> Split:
    tasks = world.splits[name]

    def rows(start: int, stop: int) -> Iterator[Example]:
        for index in range(start, stop):
            yield world.example(tasks[index // world.passages], index % world.passages)

    ids = tuple(task.id for task in tasks)
    return Split(name, len(tasks) * world.passages, rows, role_of(name), tasks=ids)


def check(example: Example) -> tuple[str, ...]:
    """Answer an example again, from the text of its passage, by the independent reader."""
    try:
        name, program = str(example.traits["domain"]), str(example.traits["program"])
    except KeyError as error:
        raise InputError(
            f"the example has no trait {error}; only examples of zest/synthetic can be read again"
        ) from error
    return second_solver.solve(find_domain(name), program, context(example.input))


def _check_passage(world: TaskWorld, example: Example) -> tuple[str, ...]:
    """Answer an example whose input lacks its passage from the passage that it was made with."""
    tasks = {t.id: t for members in world.splits.values() for t in members}
    text, _ = world.passage(tasks[example.task], int(example.traits["instance"]))
    return check(replace(example, input=f"context: {text}"))


def _answerer(world: TaskWorld) -> Callable[[str], Answer]:
    """Return what answers an input of the recipe: the program of its question, on what the
    independent reader reads.
    """
    by_question = {t.question: t for members in world.splits.values() for t in members}

    def answer(text: str) -> Answer:
        wording = question(text)
        task = by_question.get(wording)
        if task is None:
            what = f"the question {wording[:80]!r}" if wording else "an input without a question"
            raise InputError(
                f"{what} is not a task of this recipe under this seed; write 'zeroshot question: …"
                " zeroshot context: …' with a question that 'taskloom show' prints, such as"
                f" {next(iter(by_question), '')!r}"
            )
        return Answer(second_solver.solve(task.domain, program_text(task.program), context(text)))

    return answer
