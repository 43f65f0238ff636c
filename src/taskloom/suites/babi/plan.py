"""From recipe fields to a plan: which group and which split each row belongs to.

A recipe has groups of stories, or names one of bAbI's tasks with a world of its own (`number`: 4,
and 14 to 20), or puts bAbI's story tasks one after the other (`concat`, in `dyna_babi`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example, Step
from taskloom.core.plan import Plan, Split, Tasks, role_of
from taskloom.core.scoring import AnyOf, Exact, Scorer, any_of, set_of
from taskloom.core.seeding import Key
from taskloom.recipe import Size
from taskloom.recipe.fields import split_key
from taskloom.suites.babi.concat import plan_concat
from taskloom.suites.babi.descriptions import (
    STORY_TASK,
    describe_numbered,
    describe_question,
    without_kinds,
)
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import TRAITS
from taskloom.suites.babi.generator.split_examples import SplitExamples, Trial
from taskloom.suites.babi.generator.story_setting import Setting
from taskloom.suites.babi.numbered import TASKS, task04_relations
from taskloom.suites.babi.numbered.task import TaskKnobs
from taskloom.suites.babi.reasoner.second_solver import check
from taskloom.suites.babi.show import answer_passage, show, show_derived
from taskloom.suites.babi.splits import DEV, check_recipe, groups_of, split_rules, structures

TRIES = 10_000
"""Stories of a numbered task drawn for one example before a split counts as one that has none,
where it is tried out.
"""

ENDURANCE = 100 * TRIES
"""Stories drawn for one example of a split that has been tried out."""

NUMBERED_TRAITS: dict[str, type] = {
    "number": int,
    "question": str,
    "support": int,
    "supports": int,
    "support_lines": str,
    "sentences": int,
}


def plan(fields: BabiFields, key: Key) -> Plan:
    """Build the plan of a recipe."""
    if fields.number is not None:
        return describe_numbered(_numbered_plan(fields, fields.number, key), fields.number)
    drawn = plan_concat(fields, key) if fields.concat else _story_plan(fields, key)
    return rephrased(drawn) if fields.phrasing == WHERE else drawn


def _story_plan(fields: BabiFields, key: Key) -> Plan:
    check_recipe(fields)
    vocabulary, lexicon = fields.vocabulary.vocabulary(), fields.style.lexicon()
    setting = Setting(vocabulary, lexicon, fields.reading, "babi")
    rules = split_rules(fields.splits, key)
    examples = {
        name: SplitExamples(fields, setting, key, name, rules[name]) for name in fields.splits
    }
    trial = Trial(of_split.try_out for of_split in examples.values())
    splits = [
        Split(
            name,
            sum(group.n for group in groups_of(fields, name)),
            partial(trial.rows, of_split.rows),
            role_of(name),
            tasks=kinds_of(part.group for part in of_split.parts),
        )
        for name, of_split in examples.items()
    ]
    groups = [p.group for of_split in examples.values() for p in of_split.parts]
    return Plan(
        splits=tuple(splits),
        traits=TRAITS,
        describe=STORY_TASK,
        scorer=scorer_of(groups),
        check=partial(
            check, vocabulary=vocabulary, lexicon=lexicon, strict=fields.reading == "strict"
        ),
        answer=partial(
            answer_passage, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading
        ),
        show=partial(show, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        shard_rows=2_000,
        tasks=Tasks(
            "question",
            describe_question,
            kinds_of(groups),
            without=lambda withheld: plan(without_kinds(fields, withheld), key),
        ),
    )


def kinds_of(groups: Iterable[StoryGroup]) -> tuple[str, ...]:
    """Return the kinds of questions that some groups ask, in their order."""
    kinds: dict[str, None] = {}
    for group in groups:
        kinds |= dict.fromkeys(kind for kind, weight in group.questions.items() if weight)
    return tuple(kinds)


def scorer_of(groups: Iterable[StoryGroup]) -> Scorer:
    """Return the scorer: lists, and what was given where that may be two things, are compared as
    sets; all else is one word.
    """
    for group in groups:
        gifts = (
            group.questions.get("give-qs")
            and group.conj.get("GIVE")
            and {"CONJ", "COMPOUND"} & {*group.wording}
        )
        if group.questions.get("list") or gifts:
            return set_of
    return any_of


# bAbI's tasks with worlds of their own


def _numbered_plan(fields: BabiFields, number: int, key: Key) -> Plan:
    sizes = {name: value.n for name, value in fields.splits.items() if isinstance(value, Size)}
    if len(sizes) < len(fields.splits):
        raise RecipeError(f"number: {number} has no groups; give each split a plain size")
    if number == 4:
        return _rooms_plan(fields.vocabulary.places, sizes, key)
    return plan_number(
        number, sizes, key, TASKS[number].read_knobs(fields.knobs, f"task {number}, knobs")
    )


def plan_number(
    number: int, sizes: Mapping[str, int], key: Key, knobs: TaskKnobs | None = None
) -> Plan:
    """Build the plan of one of the tasks 14 to 20.

    An example is one question of one story; it belongs to a split by the keyed hash of what its
    story tells, so no two splits share a story, in whatever wording.

    Args:
        number: 14 to 20.
        sizes: Examples in each split; those called train are learned from, the others are tests.
        key: Holds recipe digest and seed.
        knobs: Defaults follow the published files.
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
            f"babi/{number}: {tries} stories gave nothing for the split '{split}' that is not in"
            " another one; widen a knob or ask for fewer splits"
        )

    def rows(split: str, start: int, stop: int) -> Iterator[Example]:
        return (draw(split, index) for index in range(start, stop))

    trial = Trial(partial(draw, name, 0, TRIES) for name, n in sizes.items() if n)
    return Plan(
        splits=tuple(
            Split(name, n, partial(trial.rows, partial(rows, name)), role_of(name))
            for name, n in sizes.items()
        ),
        traits=NUMBERED_TRAITS,
        describe=task.describe,
        scorer=AnyOf() if number == 19 else Exact(),
        answer=task.answer,
        check=task.check,
        show=show_derived,
    )


def _rooms_plan(rooms: tuple[str, ...], sizes: Mapping[str, int], key: Key) -> Plan:
    """Build the plan of task 4, whose splits take stories without replacement, one split after the
    other.
    """
    triples, stories = task04_relations.count_stories(rooms)
    if sum(sizes.values()) > stories:
        raise RecipeError(
            f"number: 4 has {triples} triples of {len(rooms)} rooms x 2 axes x 64 ways to say and"
            f" ask = {stories} stories, fewer than the {sum(sizes.values())} asked for; add places"
            " or ask for fewer"
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
    """Return, for each split, its first place in the row of all stories and the step from each to
    the next.

    Training goes forwards from the front; dev and the other tests go backwards from the back, each
    on every other story, so that no size changes another split. Where that does not fit, tests take
    whatever follows each other from the back.
    """
    train = sum(n for name, n in sizes.items() if role_of(name) == "train")
    tests = {name: n for name, n in sizes.items() if role_of(name) != "train"}
    lanes = {True: sum(n for name, n in tests.items() if name in DEV), False: 0}
    lanes[False] = sum(tests.values()) - lanes[True]
    step = 2 if train + 2 * max(lanes.values()) <= stories else 1
    taken = {True: 0, False: 1 if step == 2 else 0}
    starts, front = {}, 0
    for name, n in sizes.items():
        if name not in tests:
            starts[name] = (front, 1)
            front += n
            continue
        lane = name in DEV and step == 2
        starts[name] = (stories - 1 - taken[lane], -step)
        taken[lane] += step * n
    return starts


# The same question in another phrasing (Dyna-bAbI, appendix A.6): "Is Mary in the park?", answered
# by yes, as "Where is Mary?". Either answer gives away the other. Stories, supports and proofs stay
# as they are, so row by row a recipe and the same recipe with `phrasing: where-P` are pairs.

YES_NO, WHERE = "yes-no", "where-P"

QUESTION = re.compile(r"Is (?P<person>.+) (?:in|at) the (?P<place>.+)\?")


def rephrase(example: Example) -> Example:
    """Return an example whose yes-no question is a where-P question, if its answer is yes; every
    other as it is.

    >>> question, traits = "Is Mary in the park?", {"question": "yes-no"}
    >>> asked = Example(f"Mary went to the park. {question}", "yes", traits, question=question)
    >>> rephrase(asked).input, rephrase(asked).targets
    ('Mary went to the park. Where is Mary?', ('park',))
    """
    if example.traits.get("question") != YES_NO or example.targets != ("yes",):
        return example
    match = QUESTION.fullmatch(example.question)
    if match is None:
        raise RecipeError(
            f"phrasing: '{example.question}' is not a question about a person in a place"
        )
    question, place = f"Where is {match['person']}?", match["place"]
    steps = example.derivation
    if steps:
        steps = (*steps[:-1], Step(WHERE, place, steps[-1].of))
    return Example(
        example.input.removesuffix(example.question) + question,
        place,
        {**example.traits, "question": WHERE},
        key=example.key,
        question=question,
        derivation=steps,
        task=example.task,
    )


def rephrased(plan: Plan) -> Plan:
    """Return a plan whose yes-no questions that are answered by yes are where-P questions."""

    def other(split: Split) -> Split:
        def rows(start: int, stop: int) -> Iterator[Example]:
            return (rephrase(example) for example in split.rows(start, stop))

        return replace(split, rows=rows, tasks=None if split.tasks is None else _kinds(split.tasks))

    tasks = replace(
        plan.tasks,
        names=None if plan.tasks.names is None else _kinds(plan.tasks.names),
        without=None,
    )
    return replace(plan, splits=tuple(other(split) for split in plan.splits), tasks=tasks)


def _kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds of questions with where-P beside yes-no, which may be left for no and maybe."""
    return tuple(dict.fromkeys((*names, WHERE))) if YES_NO in names else names
