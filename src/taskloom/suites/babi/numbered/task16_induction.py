"""Task 16, basic induction: if one swan is white, so is the next one.

World: everyone is of one kind and has one colour. Induction is a hypothesis added by the reader:
all members of a kind have the same colour. It is applied to the kind in question unless two members
with different colours refute it. In this case the answer is open, and the proof names the two
members. The published files ignore such conflicts, and answer with the member whose kind was told
last. This answer is available as `latest`, which is a convention rather than an inference.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from pydantic import field_validator, model_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.suites.babi.numbered.possible_worlds import WorldRule, entailed, worlds
from taskloom.suites.babi.numbered.task import (
    UNKNOWN,
    WORD,
    Names,
    NumberedTask,
    Proof,
    Share,
    Statement,
    TaskKnobs,
    article,
    distinct,
)

_KIND = re.compile(rf"({WORD}) is an? ({WORD})\.")
_COLOR = re.compile(rf"({WORD}) is (?!an?\.)({WORD})\.")
_WHAT = re.compile(rf"What color is ({WORD})\?")


@dataclass(frozen=True, slots=True)
class HasKind:
    """States the kind of a person."""

    who: str
    kind: str

    def __str__(self) -> str:
        return f"{self.who} is a {self.kind}"


@dataclass(frozen=True, slots=True)
class HasColor:
    """States the colour of a person."""

    who: str
    color: str

    def __str__(self) -> str:
        return f"{self.who} is {self.color}"


@dataclass(frozen=True, slots=True)
class WhatColor:
    """Asks for the colour of a person."""

    who: str


class InductionKnobs(TaskKnobs):
    """Settings of task 16.

    Attributes:
        people: Names. Everyone has a kind, and everyone except the person in the question has a
            colour.
        mixed: True if members of kinds other than the one in question may have different colours,
            as in a quarter of the published stories.
        unknown: Share of stories whose answer is open, because the person in the question is the
            only one of their kind, or because the kind has several colours.
    """

    people: Names = ("Bernhard", "Brian", "Greg", "Julius", "Lily")
    kinds: Names = ("frog", "lion", "rhino", "swan")
    colors: Names = ("gray", "green", "white", "yellow")
    mixed: bool = False
    unknown: Share = 0.0

    @field_validator("people", "colors")
    @classmethod
    def _two(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        distinct(names, least=2)
        return names

    @model_validator(mode="after")
    def _open(self) -> InductionKnobs:
        if self.unknown and len(self.kinds) < 2:
            raise ValueError("open questions need at least two kinds")
        return self


def sentence(text: str) -> HasKind | HasColor | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    if match := _KIND.fullmatch(text):
        return HasKind(match[1], match[2])
    if match := _COLOR.fullmatch(text):
        return HasColor(match[1], match[2])
    return None


def question(text: str) -> WhatColor | None:
    """Parse a question. None if it does not belong to this task."""
    match = _WHAT.fullmatch(text)
    return WhatColor(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class _Member:
    """A coloured member of the kind in question, with the sentences that state its kind and its
    colour.
    """

    who: str
    color: str
    kind_number: int
    color_number: int


def _members(
    statements: Sequence[Statement[HasKind | HasColor]], kind: str, without: str
) -> list[_Member]:
    kinds = [(t.number, t.fact) for t in statements if isinstance(t.fact, HasKind)]
    colors = [(t.number, t.fact) for t in statements if isinstance(t.fact, HasColor)]
    members = []
    for i, told in kinds:
        if told.kind == kind and told.who != without:
            members += [_Member(told.who, c.color, i, j) for j, c in colors if c.who == told.who]
    return members


def derive(statements: Sequence[Statement[HasKind | HasColor]], query: WhatColor) -> Proof:
    """Derive the colour as told, or from a coloured member of the same kind if no other member
    contradicts it.
    """
    direct = [
        (t.number, t.fact.color)
        for t in statements
        if isinstance(t.fact, HasColor) and t.fact.who == query.who
    ]
    kind, own, members = _same_kind(statements, query)
    colors = {m.color for m in members} | {color for _, color in direct}
    pairs = product(own, members)
    by_kind = sorted(((i, m.kind_number, m.color_number) for i, m in pairs), key=sorted)
    if direct:
        supports: list[tuple[int, ...]] = [(number,) for number, _ in direct]
        if len(colors) == 1:  # the kind is another proof
            supports += by_kind
        return Proof(direct[0][1], tuple(supports), (), f"{query.who} is {direct[0][1]}, as told")
    if not members:
        return Proof(UNKNOWN, why=_missing(query, kind))
    if len(colors) > 1:
        first = members[0]
        other = next(m for m in members if m.color != first.color)
        why = (
            f"not all {kind}s have one colour: {first.who} is {first.color} ({first.kind_number},"
            f" {first.color_number}) and {other.who} is {other.color} ({other.kind_number},"
            f" {other.color_number})"
        )
        return Proof(UNKNOWN, why=why)
    chosen = next(m for m in members if (m.kind_number, m.color_number) == by_kind[0][1:])
    return _proof(query, kind, chosen, tuple(by_kind))


def latest(statements: Sequence[Statement[HasKind | HasColor]], query: WhatColor) -> Proof:
    """Answer by the published convention: the colour of the member whose kind was told last,
    regardless of the others.
    """
    kind, own, members = _same_kind(statements, query)
    if not members:
        return Proof(UNKNOWN, why=_missing(query, kind))
    chosen = max(members, key=lambda m: (m.kind_number, m.color_number))
    return _proof(
        query, kind, chosen, tuple((i, chosen.kind_number, chosen.color_number) for i in own)
    )


def _same_kind(
    statements: Sequence[Statement[HasKind | HasColor]], query: WhatColor
) -> tuple[str, list[int], list[_Member]]:
    """Return the kind of the person in the question, the sentences that state it, and the other
    members of that kind with their colours.
    """
    own = [
        (t.number, t.fact.kind)
        for t in statements
        if isinstance(t.fact, HasKind) and t.fact.who == query.who
    ]
    if not own:
        return "", [], []
    return own[0][1], [number for number, _ in own], _members(statements, own[0][1], query.who)


def _missing(query: WhatColor, kind: str) -> str:
    return f"no other {kind} has a colour" if kind else f"nothing says what {query.who} is"


def _proof(
    query: WhatColor, kind: str, member: _Member, supports: tuple[tuple[int, ...], ...]
) -> Proof:
    law = f"{kind}s are {member.color}"
    steps = (Step("induce", law, (1, 2)), Step("apply to a member", member.color, (0, 3)))
    return Proof(
        member.color,
        supports,
        steps,
        f"{member.who} is a {kind} and {member.color}; {query.who} is a {kind} too",
    )


def second(
    statements: Sequence[Statement[HasKind | HasColor]], query: WhatColor
) -> tuple[str, ...]:
    """Answer by enumerating everyone's kind and colour, with the hypothesis applied to the kind in
    question.
    """
    facts = [t.fact for t in statements]
    people = sorted({f.who for f in facts})
    kinds = [*sorted({f.kind for f in facts if isinstance(f, HasKind)}), "another kind"]
    colors = [
        *sorted({f.color for f in facts if isinstance(f, HasColor)}),
        "another colour",
        "yet another",
    ]
    domains: dict[Hashable, list[str]] = {("kind", p): kinds for p in people}
    domains |= {("color", p): colors for p in people}
    rules = []
    for fact in facts:
        if isinstance(fact, HasKind):
            rules.append(
                WorldRule((("kind", fact.who),), lambda value, kind=fact.kind: value == kind)
            )
        else:
            rules.append(
                WorldRule((("color", fact.who),), lambda value, color=fact.color: value == color)
            )
    for one, other in combinations(people, 2):
        # Two members of the kind in question have the same colour.
        of = (("kind", query.who), ("kind", one), ("kind", other), ("color", one), ("color", other))
        rules.append(WorldRule(of, lambda kind, a, b, c, d: not (kind == a == b) or c == d))
    own_color = {f.color for f in facts if isinstance(f, HasColor) and f.who == query.who}
    if own_color:
        return tuple(own_color)
    return entailed(w["color", query.who] for w in worlds(domains, rules))


def clash(
    statements: Sequence[Statement[HasKind | HasColor]], new: Statement[HasKind | HasColor]
) -> tuple[int, ...] | None:
    """Return the sentence that a new one contradicts: a person has one kind and one colour."""
    for old in statements:
        same_topic = type(old.fact) is type(new.fact) and old.fact.who == new.fact.who
        if same_topic and old.fact != new.fact:
            return (old.number,)
    return None


def draw_story(rng: Random, knobs: InductionKnobs) -> list[str]:
    """Draw kinds and colours in random order, each kind before its colour. The question is about
    the member without a colour.
    """
    open_one = rng.random() < knobs.unknown
    order, subject = _order(rng, knobs)
    kinds = {who: rng.choice(knobs.kinds) for who in knobs.people}
    peers = [who for who in knobs.people if who != subject and kinds[who] == kinds[subject]]
    # A question can be open because other members have different colours, or because there are no
    # other members.
    mixed_peers = open_one and len(peers) > 1 and len(knobs.colors) > 1
    if open_one and not mixed_peers:
        other_kinds = [kind for kind in knobs.kinds if kind != kinds[subject]]
        for who in peers:
            kinds[who] = rng.choice(other_kinds)
    elif not peers:
        kinds[rng.choice([who for who in knobs.people if who != subject])] = kinds[subject]
    colors = _colors(rng, knobs, kinds, kinds[subject])
    if mixed_peers:
        law = colors[subject]
        colors[rng.choice(peers)] = rng.choice([color for color in knobs.colors if color != law])
    texts = [
        f"{who} is {colors[who]}." if later else f"{who} is {article(kinds[who])}."
        for who, later in order
    ]
    return [*texts, f"What color is {subject}?"]


def _colors(
    rng: Random, knobs: InductionKnobs, kinds: Mapping[str, str], asked: str
) -> dict[str, str]:
    """Draw one colour per kind. With `mixed`, only the kind in question has a single colour."""
    law = {kind: rng.choice(knobs.colors) for kind in knobs.kinds}
    colors = {who: law[kind] for who, kind in kinds.items()}
    if knobs.mixed:
        colors |= {who: rng.choice(knobs.colors) for who, kind in kinds.items() if kind != asked}
    return colors


def _order(rng: Random, knobs: InductionKnobs) -> tuple[list[tuple[str, bool]], str]:
    """Draw the subject of each sentence, with True for the subject's second sentence, which tells
    the colour. The last sentence is left out, and the question is about its subject.
    """
    left = dict.fromkeys(knobs.people, 2)
    order = []
    while sum(left.values()) > 1:
        who = rng.choice([p for p in knobs.people if left[p]])
        order.append((who, left[who] == 1))
        left[who] -= 1
    return order, next(who for who, n in left.items() if n)


def mentions(item: HasKind | HasColor | WhatColor) -> tuple[str, ...]:
    """Return the person in a fact or question."""
    return (item.who,)


TASK: NumberedTask[HasKind | HasColor, WhatColor] = NumberedTask(
    16,
    "basic induction",
    "Read the story and say what color the person is, taking all of a kind to have one color.",
    InductionKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: "what-color",
    ("Lily is a swan.", "What color is Greg?"),
    convention=latest,
)
