"""bAbI's tasks with their own worlds: 4 (two-argument relations), and 14 to 20: time, deduction,
induction, positions, sizes, paths and motivations.

`TASKS[n]` draws stories in the published wording (`make`, `one`, `story`), parses published text
(`parse`), answers it by exact inference with every minimal support (`solve`), and answers it again
by enumerating possible worlds (`check`). Task 4 is small enough for plain functions.

`plan_task` plans the splits of a recipe with `number`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, count, pairwise, product
from typing import Any

from taskloom.core.descriptions import withhold
from taskloom.core.errors import InputError, RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import Level, Plan, Split, Tasks, Variant, proved, role_of
from taskloom.core.scoring import AnyOf, Exact, any_of
from taskloom.core.seeding import Key
from taskloom.recipe import Size
from taskloom.recipe.fields import split_key
from taskloom.suites.babi.fields import BabiFields
from taskloom.suites.babi.numbered import (
    task04_relations,
    task14_time,
    task15_deduction,
    task16_induction,
    task17_positions,
    task18_sizes,
    task19_paths,
    task20_motivations,
)
from taskloom.suites.babi.numbered.task import UNKNOWN as UNKNOWN
from taskloom.suites.babi.numbered.task import NumberedTask as NumberedTask
from taskloom.suites.babi.numbered.task import Parsed as Parsed
from taskloom.suites.babi.numbered.task import Proof as Proof
from taskloom.suites.babi.numbered.task import Statement as Statement
from taskloom.suites.babi.numbered.task import TaskKnobs, as_story, pieces
from taskloom.suites.babi.show import show_derived
from taskloom.suites.babi.splits import DEV, Trial, structures
from taskloom.suites.babi.story.text_format import StoryText
from taskloom.suites.babi.variants import StoryEdit

TASKS: dict[int, NumberedTask[Any, Any]] = {
    module.TASK.number: module.TASK
    for module in (
        task14_time,
        task15_deduction,
        task16_induction,
        task17_positions,
        task18_sizes,
        task19_paths,
        task20_motivations,
    )
}
"""Tasks by their published number."""


def task_of(story: StoryText) -> NumberedTask[Any, Any] | None:
    """Return the task that has the wording of a story, or None."""
    for task in TASKS.values():
        words = all(task.sentence(s.text) is not None for s in story.sentences)
        if words and all(task.question(q.text) is not None for q in story.questions):
            return task
    return None


# Descriptions

_CURES = (
    "The hungry and the thirsty go to the kitchen, the bored to the garden, the tired to the"
    " bedroom."
)
_FROM = "Answer from the story alone: yes or no."
_DESCRIPTIONS: dict[tuple[int, str], tuple[str, str]] = {
    (4, "what"): (
        (
            "Name the room that lies in the direction asked for, seen from the room that the"
            " question names."
        ),
        "",
    ),
    (4, "of-what"): (
        (
            "Name the room from which the room that the question names lies in the direction asked"
            " for."
        ),
        "",
    ),
    (17, "above"): ("Say whether the first thing lies above the second.", _FROM),
    (17, "below"): ("Say whether the first thing lies below the second.", _FROM),
    (17, "to-the-left-of"): ("Say whether the first thing lies to the left of the second.", _FROM),
    (17, "to-the-right-of"): (
        "Say whether the first thing lies to the right of the second.",
        _FROM,
    ),
    (18, "fits"): (
        "Say whether the first thing fits into the second.",
        "Smaller things fit into bigger ones. " + _FROM,
    ),
    (18, "bigger"): (
        "Say whether the first thing is bigger than the second.",
        "What holds a thing is bigger. " + _FROM,
    ),
    (20, "where-will"): ("Say where the person will go.", _CURES),
    (20, "why-go"): (
        "Say why the person went to the place.",
        "Answer with how the person felt before, in one word.",
    ),
    (20, "why-get"): (
        "Say why the person took the object.",
        "Answer with how the person felt before, in one word.",
    ),
}
"""Instruction and answer format for each question type, for tasks with several types. The other
tasks have their own description.
"""


# Plans

TRIES = 10_000
"""Maximum stories drawn to find the first example of a split."""

ENDURANCE = 100 * TRIES
"""Maximum stories drawn per example, once a split is known to be possible."""

NUMBERED_TRAITS: dict[str, type] = {
    "number": int,
    "question": str,
    "support": int,
    "supports": int,
    "support_lines": str,
    "sentences": int,
}


def plan_task(fields: BabiFields, number: int, key: Key) -> Plan:
    """Plan the splits of a recipe with `number`. The plan's tasks are the question types."""
    sizes = {name: value.n for name, value in fields.splits.items() if isinstance(value, Size)}
    if len(sizes) < len(fields.splits):
        raise RecipeError(f"number: {number} does not support groups; give each split a plain size")
    if number == 4:
        plan = _rooms_plan(fields.vocabulary.places, sizes, key)
    else:
        knobs = TASKS[number].read_knobs(fields.knobs, f"task {number}, knobs")
        plan = plan_number(number, sizes, key, knobs)
    kinds = tuple(kind for task, kind in _DESCRIPTIONS if task == number)

    def describe(kind: str, level: Level) -> str:
        what, how = _DESCRIPTIONS.get((number, kind), (plan.describe, ""))
        return f"{what} {how}".strip() if level == "explicit" else what

    described = replace(plan, tasks=Tasks("question", describe, kinds))
    tasks = Tasks("question", describe, kinds, without=withhold(described))
    return replace(plan, tasks=tasks)


def plan_number(
    number: int, sizes: Mapping[str, int], key: Key, knobs: TaskKnobs | None = None
) -> Plan:
    """Build the plan of one of the tasks 14 to 20.

    An example is one question about one story. Its split is decided by a keyed hash of the story's
    content, so no two splits share a story, regardless of wording.

    Args:
        number: 14 to 20.
        sizes: Number of examples in each split, by name. The name determines the role.
        key: The key of the recipe and seed.
        knobs: Settings of the task. Default: those of the published files.
    """
    task = TASKS[number]
    chosen = knobs or task.knobs()
    shares = structures(sizes, key.child("contents"))

    def draw(split: str, index: int, tries: int = ENDURANCE) -> Example:
        rng = split_key(key, split).random(index)
        for _ in range(tries):
            example = task.one(rng, chosen, shares[split])
            if example is not None:
                return example
        raise RecipeError(
            f"babi/{number}: {tries} stories gave nothing for the split '{split}' that is not in "
            "another split; widen a knob or request fewer splits"
        )

    def rows(split: str, start: int, stop: int) -> Iterator[Example]:
        return (draw(split, index) for index in range(start, stop))

    trial = Trial(partial(draw, name, 0, TRIES) for name, n in sizes.items() if n)
    return Plan(
        splits=tuple(
            Split(name, n, partial(trial.rows, partial(rows, name)), role_of(name), rounds=math.inf)
            for name, n in sizes.items()
        ),
        traits=NUMBERED_TRAITS,
        describe=task.describe,
        scorer=AnyOf() if number == 19 else Exact(),
        answer=task.answer,
        check=task.check,
        show=show_derived,
        variants=proved(NumberedVariants(task), task.check),
    )


def _rooms_plan(rooms: tuple[str, ...], sizes: Mapping[str, int], key: Key) -> Plan:
    """Build the plan of task 4, whose splits draw stories without replacement."""
    triples, stories = task04_relations.count_stories(rooms)
    if sum(sizes.values()) > stories:
        raise RecipeError(
            f"number: 4 has {triples} triples of {len(rooms)} rooms x 2 axes x 64 ways to tell "
            f"and ask = {stories} stories, fewer than the {sum(sizes.values())} requested; add "
            "places or request fewer"
        )
    starts = _room_starts(sizes, stories)
    splits = [
        Split(
            name,
            n,
            partial(task04_relations.draw_examples, rooms, key, *starts[name]),
            role_of(name),
        )
        for name, n in sizes.items()
    ]
    return Plan(
        splits=tuple(splits),
        traits=task04_relations.TRAITS,
        describe="Read which room lies where and answer the question.",
        scorer=any_of,
        check=task04_relations.check,
        show=show_derived,
    )


def _room_starts(sizes: Mapping[str, int], stories: int) -> dict[str, tuple[int, int]]:
    """For each split, return the position of its first story among all stories, and the step to the
    next one.

    Training goes forwards from the first story. Dev and the other tests go backwards from the last,
    each taking every other story, so that the size of one does not change another. If they do not
    fit, all tests share one sequence.
    """
    tests = {name: n for name, n in sizes.items() if role_of(name) != "train"}
    train = sum(sizes.values()) - sum(tests.values())
    dev = sum(n for name, n in tests.items() if name in DEV)
    longest_lane = max(dev, sum(tests.values()) - dev)
    two_lanes = train + 2 * longest_lane <= stories
    step = 2 if two_lanes else 1
    # Number of stories, counted from the end, that each sequence has used.
    passed = {"dev": 0, "test": 1 if two_lanes else 0}
    starts, front = {}, 0
    for name, n in sizes.items():
        if name not in tests:
            starts[name] = (front, 1)
            front += n
            continue
        lane = "dev" if name in DEV and two_lanes else "test"
        starts[name] = (stories - 1 - passed[lane], -step)
        passed[lane] += step * n
    return starts


class NumberedVariants:
    """Generates the candidates of `Plan.variants` for one of the tasks 14 to 20, by editing whole
    sentences and names.
    """

    def __init__(self, task: NumberedTask[Any, Any]) -> None:
        self._task = task

    def __call__(self, example: Example) -> Iterator[Variant]:
        """Yield candidates: first simpler ones, then flips, then keeps."""
        *sentences, question = pieces(example.input)
        parsed = self._task.understand(as_story([*sentences, question]), "the example")
        proof = self._task.solve(parsed)[-1]
        support = [number - 1 for number in proof.support]
        for edit in self._edits(sentences, support, parsed):
            varied = self._example([text for text, _ in edit.sentences], question)
            if varied is None:
                continue
            if varied.target == UNKNOWN and proof.answer != UNKNOWN:
                continue
            yield Variant(edit.kind, edit.edit, varied, edit.before, edit.after)

    def _edits(
        self, sentences: list[str], support: list[int], parsed: Parsed[Any, Any]
    ) -> Iterator[StoryEdit]:
        numbered: list[tuple[str, int | None]] = list(zip(sentences, count()))
        removals = [(text, numbered[:i] + numbered[i + 1 :]) for i, text in enumerate(sentences)]
        for text, rest in removals:
            yield StoryEdit("simpler", "sentence removed", rest, text, "")
        names = [self._task.mentions(statement.fact) for statement in parsed.facts]
        every = dict.fromkeys(chain.from_iterable(names))
        for i in support:
            others = [(name, other) for name, other in product(names[i], every) if name != other]
            for word, other in dict.fromkeys([*others, *_other_words(sentences, i)]):
                text = re.sub(rf"\b{re.escape(word)}\b", other, sentences[i])
                changed = [*numbered[:i], (text, None), *numbered[i + 1 :]]
                yield StoryEdit("flip", "another word", changed, word, other)
        for i, (text, rest) in enumerate(removals):
            if i not in support:
                yield StoryEdit("keep", "irrelevant sentence removed", rest, text, "")
        for i, (one, two) in enumerate(pairwise(sentences)):
            swapped = [*numbered[:i], (two, None), (one, None), *numbered[i + 2 :]]
            yield StoryEdit("keep", "another order", swapped, f"{one} {two}", f"{two} {one}")

    def _example(self, sentences: list[str], question: str) -> Example | None:
        """Build the edited story, or return None if it cannot be parsed or contradicts itself."""
        if not sentences:
            return None
        try:
            parsed = self._task.understand(as_story([*sentences, question]), "the variant")
        except InputError:
            return None
        return self._task.example(parsed, 0)


def _other_words(sentences: list[str], i: int) -> Iterator[tuple[str, str]]:
    """Yield the words of sentence i, each with the words at the same position in other sentences of
    the same length.

    Names may be inflected ("mice"), so not all of them are found in the text by name.
    """
    words = _WORD.findall(sentences[i])
    for sentence in sentences:
        others = _WORD.findall(sentence)
        if len(others) == len(words):
            yield from ((a, b) for a, b in zip(words, others, strict=True) if a != b)


_WORD = re.compile(r"\w+")
