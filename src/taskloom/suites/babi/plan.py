"""From recipe fields to a plan: which group and which split each row belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from taskloom.example import Example
from taskloom.plan import Plan, Split, Tasks
from taskloom.recipe import Size
from taskloom.scoring import Scorer, any_of, set_of
from taskloom.seeding import Key
from taskloom.suites.babi.descriptions import numbered, tell_story, without_kinds
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import TRAITS
from taskloom.suites.babi.generator.many_questions import Setting, grow, share_out
from taskloom.suites.babi.generator.one_question import Aimer, Exhaustive
from taskloom.suites.babi.holdout import check_example, check_recipe
from taskloom.suites.babi.reasoner.second_solver import check
from taskloom.suites.babi.show import answer_passage, show
from taskloom.suites.babi.splits import SplitRule, homes, role_of

DESCRIBE = "Read the story and answer the question from it."


@dataclass(frozen=True, slots=True)
class Part:
    """A group within a split: its rows are start..start + n of the split."""

    group: StoryGroup
    start: int
    n: int


def groups_of(fields: BabiFields, split: str) -> list[StoryGroup]:
    """The groups of a split, with their numbers of examples."""
    value = fields.splits[split]
    if not isinstance(value, Size):
        return [g.model_copy(update={"name": g.name or f"{split}-{i}"}) for i, g in enumerate(value)]
    shares = share_out(value.n, [g.n for g in fields.groups])
    return [
        g.model_copy(update={"n": n, "name": g.name or (str(i) if len(fields.groups) > 1 else "")})
        for i, (g, n) in enumerate(zip(fields.groups, shares, strict=True))
    ]


def plan(fields: BabiFields, key: Key) -> Plan:
    """The plan of a story recipe."""
    if fields.number is not None:
        from taskloom.suites.babi.numbered.plan import plan_number

        return numbered(plan_number(fields, key), fields.number)
    if fields.concat:
        from taskloom.suites.babi.dyna_babi.concat import plan_concat

        return plan_concat(fields, key)
    check_recipe(fields)
    vocabulary, lexicon = fields.vocabulary.vocabulary(), fields.style.lexicon()
    setting = Setting(vocabulary, lexicon, fields.reading, "babi")
    parts = {name: _parts(groups_of(fields, name)) for name in fields.splits}
    sizes = {name: sum(p.n for p in found) for name, found in parts.items()}
    home = homes(sizes, key)
    splits = [
        Split(
            name,
            sizes[name],
            partial(_rows, fields, setting, key, name, parts[name], home[name]),
            role_of(name),
        )
        for name in fields.splits
    ]
    strict = fields.reading == "strict"

    def second(example: Example) -> tuple[str, ...]:
        return check(example, vocabulary, lexicon, strict)

    asked = tuple(
        dict.fromkeys(q for found in parts.values() for p in found for q, w in p.group.questions.items() if w)
    )
    return Plan(
        splits=tuple(splits),
        traits=TRAITS,
        describe=DESCRIBE,
        scorer=scorer_of([p.group for found in parts.values() for p in found]),
        check=second,
        answer=partial(answer_passage, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        show=partial(show, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        shard_rows=2_000,
        tasks=Tasks("question", tell_story, asked, without=lambda held: plan(without_kinds(fields, held), key)),
    )


def scorer_of(groups: Iterable[StoryGroup]) -> Scorer:
    """Lists, and what was given where that may be two things, are compared as sets; every other answer is one word."""
    for group in groups:
        gifts = group.questions.get("give-qs") and group.conj.get("GIVE") and {"CONJ", "COMPOUND"} & {*group.wording}
        if group.questions.get("list") or gifts:
            return set_of
    return any_of


def _parts(groups: list[StoryGroup]) -> list[Part]:
    parts, start = [], 0
    for group in groups:
        parts.append(Part(group, start, group.n))
        start += group.n
    return parts


def _rows(
    fields: BabiFields,
    setting: Setting,
    key: Key,
    split: str,
    parts: list[Part],
    home: SplitRule,
    start: int,
    stop: int,
) -> Iterator[Example]:
    train = role_of(split) == "train"
    total = sum(p.n for p in parts)
    # Groups are mixed in random order, unless stories with several questions are to stay together.
    mixed = len(parts) > 1 and not any(p.group.story or p.group.exhaustive for p in parts)
    order = key.permutation(total, "order", split) if mixed else None

    told: tuple[int, int, list[Example]] = (-1, -1, [])
    makers: dict[int, Callable[[int], Example]] = {}
    for row in range(start, stop):
        slot = order(row) if order is not None else row
        at = next(i for i, p in enumerate(parts) if slot < p.start + p.n)
        part = parts[at]
        index = slot - part.start
        several = part.group.story
        if several is None:
            if at not in makers:
                aimer, mine = Aimer(part.group, setting), key.child(split, at)
                if part.group.exhaustive:
                    makers[at] = Exhaustive(aimer, mine, home).example
                else:
                    makers[at] = partial(aimer.make, mine, home=home)
            example = makers[at](index)
        else:
            story = index // several.questions
            if told[:2] != (at, story):
                rng = key.random(split, at, story)
                told = (at, story, grow(part.group, setting, rng, home))
            example = told[2][index % several.questions]
        if train:
            check_example(fields.holdout, example, split)
        yield example
