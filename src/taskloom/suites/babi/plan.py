"""From recipe fields to a plan: which group and which split each row belongs to.

A recipe has groups of stories, or names one of bAbI's tasks with a world of its own (`number`: 4, and 14 to 20), or puts
bAbI's story tasks one after the other (`concat`, in `dyna_babi`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.plan import Plan, Split, Tasks, role_of
from taskloom.recipe import Size
from taskloom.recipe.fields import split_key
from taskloom.scoring import AnyOf, Exact, Scorer, any_of, set_of
from taskloom.seeding import Key
from taskloom.suites.babi.descriptions import STORY_TASK, describe_numbered, describe_question, without_kinds
from taskloom.suites.babi.dyna_babi.concat import plan_concat
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import TRAITS
from taskloom.suites.babi.generator.exhaustive import ExhaustiveExamples
from taskloom.suites.babi.generator.many_questions import Setting, grow
from taskloom.suites.babi.generator.one_question import GroupExamples, check_needs
from taskloom.suites.babi.numbered import TASKS, task04_relations
from taskloom.suites.babi.numbered.knobs import TaskKnobs
from taskloom.suites.babi.reasoner.second_solver import check
from taskloom.suites.babi.show import answer_passage, show, show_derived
from taskloom.suites.babi.splits import (
    DEV,
    SplitRule,
    check_example,
    check_recipe,
    groups_of,
    split_rules,
    structures,
)

TRIES = 10_000
"""Stories of a numbered task drawn for one example before a split counts as exhausted."""

NUMBERED_TRAITS: dict[str, type] = {
    "number": int,
    "question": str,
    "support": int,
    "supports": int,
    "support_lines": str,
    "sentences": int,
}


@dataclass(frozen=True, slots=True)
class Part:
    """A group within a split.

    Attributes:
        group: What its examples are.
        start: Its first row in a round of the split's groups.
        n: Its rows in a round.
        key: Of its examples: it depends on the group's own fields but its size, and not on other groups.
    """

    group: StoryGroup
    start: int
    n: int
    key: Key


def plan(fields: BabiFields, key: Key) -> Plan:
    """Build the plan of a recipe."""
    if fields.number is not None:
        return describe_numbered(_numbered_plan(fields, fields.number, key), fields.number)
    if fields.concat:
        return plan_concat(fields, key)
    return _story_plan(fields, key)


def _story_plan(fields: BabiFields, key: Key) -> Plan:
    check_recipe(fields)
    vocabulary, lexicon = fields.vocabulary.vocabulary(), fields.style.lexicon()
    setting = Setting(vocabulary, lexicon, fields.reading, "babi")
    parts = {name: _parts(fields, name, key) for name in fields.splits}
    rules = split_rules(fields.splits, key)
    splits = [
        Split(
            name,
            sum(group.n for group in groups_of(fields, name)),
            partial(_rows, fields, setting, key, name, parts[name], rules[name]),
            role_of(name),
        )
        for name in fields.splits
    ]
    groups = [p.group for of_split in parts.values() for p in of_split]
    kinds = tuple(dict.fromkeys(q for group in groups for q, w in group.questions.items() if w))
    return Plan(
        splits=tuple(splits),
        traits=TRAITS,
        describe=STORY_TASK,
        scorer=scorer_of(groups),
        check=partial(check, vocabulary=vocabulary, lexicon=lexicon, strict=fields.reading == "strict"),
        answer=partial(answer_passage, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        show=partial(show, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        shard_rows=2_000,
        tasks=Tasks(
            "question", describe_question, kinds, without=lambda withheld: plan(without_kinds(fields, withheld), key)
        ),
    )


def scorer_of(groups: Iterable[StoryGroup]) -> Scorer:
    """Return the scorer: lists, and what was given where that may be two things, are compared as sets; all else is one word."""
    for group in groups:
        gifts = group.questions.get("give-qs") and group.conj.get("GIVE") and {"CONJ", "COMPOUND"} & {*group.wording}
        if group.questions.get("list") or gifts:
            return set_of
    return any_of


def _parts(fields: BabiFields, split: str, key: Key) -> list[Part]:
    """Return the groups of a split with their rows in a round.

    Where groups are mixed, a round has as many rows of each as its `n` says, whatever the size of the split, so that a smaller
    split is the beginning of a larger one.
    """
    groups = groups_of(fields, split)
    plain = isinstance(fields.splits[split], Size)
    sizes = [g.n for g in (fields.groups if plain and _mixed(groups) else groups)]
    parts: list[Part] = []
    start = 0
    for group, n in zip(groups, sizes, strict=True):
        own = group.model_dump(mode="json", exclude={"n", "name"})
        again = sum(own == p.group.model_dump(mode="json", exclude={"n", "name"}) for p in parts)
        parts.append(Part(group, start, n, split_key(key, split, {"group": own, "again": again})))
        start += n
    return parts


def _mixed(groups: list[StoryGroup]) -> bool:
    """Return whether the examples of several groups come in random order; stories with several questions stay together."""
    return len(groups) > 1 and not any(g.story or g.exhaustive for g in groups)


def _rows(
    fields: BabiFields,
    setting: Setting,
    key: Key,
    split: str,
    parts: list[Part],
    rule: SplitRule,
    start: int,
    stop: int,
) -> Iterator[Example]:
    train = role_of(split) == "train"
    total = sum(p.n for p in parts)
    mixed = _mixed([p.group for p in parts])
    order = key.permutation(total, "order", split) if mixed else None

    makers: dict[int, Callable[[int], Example]] = {}
    for row in range(start, stop):
        done, slot = divmod(row, total) if order is not None else (0, row)
        slot = order(slot) if order is not None else slot
        at = next((i for i, p in enumerate(parts) if slot < p.start + p.n), len(parts) - 1)
        part = parts[at]
        if at not in makers:
            makers[at] = _maker(part, setting, rule)
        example = makers[at](done * part.n + slot - part.start)
        if train:
            check_example(fields.holdout, example, split)
        yield example


def _maker(part: Part, setting: Setting, rule: SplitRule) -> Callable[[int], Example]:
    """Return the function from the index of an example within a group to the example."""
    group = part.group
    if group.story is not None:
        check_needs(group)
        return _GrownExamples(partial(_grow, part, setting, rule), group.story.questions).example
    if group.exhaustive:
        return ExhaustiveExamples(group, setting, part.key, rule).example
    return partial(GroupExamples(group, setting).make, part.key, rule=rule)


def _grow(part: Part, setting: Setting, rule: SplitRule, story: int) -> list[Example]:
    return grow(part.group, setting, part.key.random(story), rule)


class _GrownExamples:
    """The examples of a group whose stories have several questions; the last story is kept, so each is grown once."""

    def __init__(self, grow_story: Callable[[int], list[Example]], questions: int) -> None:
        self._grow = grow_story
        self._questions = questions
        self._last: tuple[int, list[Example]] = (-1, [])

    def example(self, index: int) -> Example:
        """Return example number `index`."""
        story, question = divmod(index, self._questions)
        if self._last[0] != story:
            self._last = (story, self._grow(story))
        return self._last[1][question]


# bAbI's tasks with worlds of their own


def _numbered_plan(fields: BabiFields, number: int, key: Key) -> Plan:
    sizes = {name: value.n for name, value in fields.splits.items() if isinstance(value, Size)}
    if len(sizes) < len(fields.splits):
        raise RecipeError(f"number: {number} has no groups; give each split a plain size")
    if number == 4:
        return _rooms_plan(fields.vocabulary.places, sizes, key)
    return plan_number(number, sizes, key, TASKS[number].read_knobs(fields.knobs, f"task {number}, knobs"))


def plan_number(number: int, sizes: Mapping[str, int], key: Key, knobs: TaskKnobs | None = None) -> Plan:
    """Build the plan of one of the tasks 14 to 20.

    An example is one question of one story; it belongs to a split by the keyed hash of what its story tells, so no two splits share
    a story, in whatever wording.

    Args:
        number: 14 to 20.
        sizes: Examples in each split; those called train are learned from, the others are tests.
        key: Holds recipe digest and seed.
        knobs: Defaults follow the published files.
    """
    task = TASKS[number]
    chosen = knobs or task.knobs()
    shares = structures(sizes, key.child("contents"))

    def rows(split: str, start: int, stop: int) -> Iterator[Example]:
        belongs, own = shares[split], split_key(key, split)
        for index in range(start, stop):
            rng = own.random(index)
            for _ in range(TRIES):
                example = task.one(rng, chosen)
                if belongs(example.content):
                    break
            else:
                raise RecipeError(
                    f"babi/{number}: {TRIES} stories gave nothing for the split '{split}' that is not in another one; "
                    "widen a knob or ask for fewer splits"
                )
            yield example

    return Plan(
        splits=tuple(Split(name, n, partial(rows, name), role_of(name)) for name, n in sizes.items()),
        traits=NUMBERED_TRAITS,
        describe=task.describe,
        scorer=AnyOf() if number == 19 else Exact(),
        answer=task.answer,
        check=task.check,
        show=show_derived,
    )


def _rooms_plan(rooms: tuple[str, ...], sizes: Mapping[str, int], key: Key) -> Plan:
    """Build the plan of task 4, whose splits take stories without replacement, one split after the other."""
    triples, stories = task04_relations.count_stories(rooms)
    if sum(sizes.values()) > stories:
        raise RecipeError(
            f"number: 4 has {triples} triples of {len(rooms)} rooms x 2 axes x 64 ways to say and ask = {stories} stories, "
            f"fewer than the {sum(sizes.values())} asked for; add places or ask for fewer"
        )
    starts = _room_starts(sizes, stories)
    splits = [
        Split(name, n, partial(task04_relations.draw_examples, rooms, key, *starts[name]), role_of(name))
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
    """Return, for each split, its first place in the row of all stories and the step from each to the next.

    Training goes forwards from the front; dev and the other tests go backwards from the back, each on every other story, so that no
    size changes another split. Where that does not fit, tests take whatever follows each other from the back.
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
