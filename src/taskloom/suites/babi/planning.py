"""From recipe fields to a plan: which group and which split each row belongs to.

A story belongs to training or to test by a hash of its signature (its sentences, with names and places numbered) that
is the same for every recipe, so no test story of one recipe has the structure of a training story of another. Within
a recipe the splits of one side share that side out. Stories with several questions, which begin too short for that,
are divided by their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from taskloom.example import Example
from taskloom.plan import Plan, Role, Split, Tasks
from taskloom.recipe import Size
from taskloom.scoring import Scorer, any_of, set_of
from taskloom.seeding import Key
from taskloom.suites.babi.aiming import Aimer, Exhaustive
from taskloom.suites.babi.checking import check
from taskloom.suites.babi.describing import numbered, tell_story, without_kinds
from taskloom.suites.babi.examples import TRAITS
from taskloom.suites.babi.fields import BabiFields, Group
from taskloom.suites.babi.growing import Belongs, Setting, grow, openings, share_out
from taskloom.suites.babi.holdout import check_example, check_recipe
from taskloom.suites.babi.telling import answer_passage, show

DESCRIBE = "Read the story and answer the question from it."
SIDES = Key("babi", "signatures")
"""The key of the division into training and test structures; a constant, so that it holds across recipes and seeds."""


@dataclass(frozen=True, slots=True)
class Part:
    """A group within a split: its rows are start..start + n of the split."""

    group: Group
    start: int
    n: int


def groups_of(fields: BabiFields, split: str) -> list[Group]:
    """The groups of a split, with their numbers of examples."""
    value = fields.splits[split]
    if not isinstance(value, Size):
        return [g.model_copy(update={"name": g.name or f"{split}-{i}"}) for i, g in enumerate(value)]
    shares = share_out(value.n, [g.n for g in fields.groups])
    return [
        g.model_copy(update={"n": n, "name": g.name or (str(i) if len(fields.groups) > 1 else "")})
        for i, (g, n) in enumerate(zip(fields.groups, shares, strict=True))
    ]


def role_of(split: str) -> Role:
    """Training splits are those called train; everything else is tested on."""
    return "train" if split.split("-")[0] == "train" else "test"


def intervals(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Which part of the hash space each split has: training the lower half, all others the upper, shared alike."""
    found: dict[str, tuple[float, float]] = {}
    for role, low in (("train", 0.0), ("test", 0.5)):
        mine = [name for name in names if role_of(name) == role]
        for i, name in enumerate(mine):
            found[name] = (low + 0.5 * i / len(mine), low + 0.5 * (i + 1) / len(mine))
    return found


def plan(fields: BabiFields, key: Key) -> Plan:
    """The plan of a story recipe."""
    if fields.number is not None:
        from taskloom.suites.babi.numbered import plan_number

        return numbered(plan_number(fields, key), fields.number)
    if fields.concat:
        from taskloom.suites.babi.concatenating import plan_concat

        return plan_concat(fields, key)
    check_recipe(fields)
    vocabulary, lexicon = fields.vocabulary.vocabulary(), fields.style.lexicon()
    setting = Setting(vocabulary, lexicon, fields.reading, "babi")
    parts = {name: _parts(groups_of(fields, name)) for name in fields.splits}
    sizes = {name: sum(p.n for p in found) for name, found in parts.items()}
    structure, opening = intervals(list(sizes)), openings(sizes, key)
    splits = [
        Split(
            name,
            sizes[name],
            partial(_rows, fields, setting, key, name, parts[name], structure[name], opening[name]),
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
        scorer=scorer_of(asked),
        check=second,
        answer=partial(answer_passage, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        show=partial(show, vocabulary=vocabulary, lexicon=lexicon, reading=fields.reading),
        shard_rows=2_000,
        tasks=Tasks("question", tell_story, asked, without=lambda held: plan(without_kinds(fields, held), key)),
    )


def scorer_of(questions: Iterable[str]) -> Scorer:
    """Lists are compared as sets; every other answer is one word."""
    return set_of if "list" in set(questions) else any_of


def _parts(groups: list[Group]) -> list[Part]:
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
    structure: tuple[float, float],
    opening: Belongs,
    start: int,
    stop: int,
) -> Iterator[Example]:
    train = role_of(split) == "train"
    total = sum(p.n for p in parts)
    # Groups are mixed in random order, unless stories with several questions are to stay together.
    mixed = len(parts) > 1 and not any(p.group.story or p.group.exhaustive for p in parts)
    order = key.permutation(total, "order", split) if mixed else None

    def of_structure(content: str) -> bool:
        return structure[0] <= SIDES.unit(content) < structure[1]

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
                    makers[at] = Exhaustive(aimer, mine, of_structure).example
                else:
                    makers[at] = partial(aimer.make, mine, belongs=of_structure)
            example = makers[at](index)
        else:
            story = index // several.questions
            if told[:2] != (at, story):
                rng = key.random(split, at, story)
                told = (at, story, grow(part.group, setting, rng, opening))
            example = told[2][index % several.questions]
        if train:
            check_example(fields.holdout, example, split)
        yield example
