"""Task 17, positional reasoning: shapes above, below, left and right of each other.

World: every shape has a position in the plane. "The A is above the B" states that A is higher and
exactly in line with B, at any distance. This is the weakest reading under which the published
answers follow. If "above" only meant "higher" (`loose`), the text would leave most answers open.
Shapes need not be in neighbouring cells of a grid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from pydantic import Field, field_validator, model_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.recipe import Span
from taskloom.suites.babi.numbered.order_inference import Edge, chains, conflict, lengths
from taskloom.suites.babi.numbered.possible_worlds import WorldRule, satisfiable
from taskloom.suites.babi.numbered.task import (
    PHRASE,
    UNKNOWN,
    Asking,
    NumberedTask,
    Phrases,
    Proof,
    Statement,
    distinct,
    pick_questions,
)

RELATIONS = {
    "to the right of": ("x", 1),
    "to the left of": ("x", -1),
    "above": ("y", 1),
    "below": ("y", -1),
}
"""Axis of each relation, and 1 if its subject has the larger coordinate, else -1."""

WORDS = {meaning: words for words, meaning in RELATIONS.items()}

_RELATION = "|".join(RELATIONS)
_TELLS = re.compile(rf"The {PHRASE} is ({_RELATION}) the {PHRASE}\.")
_ASKS = re.compile(rf"Is the {PHRASE} ({_RELATION}) the {PHRASE}\?")


@dataclass(frozen=True, slots=True)
class Beyond:
    """States that `high` has the larger coordinate on an axis and is in line with `low` on the
    other.
    """

    low: str
    high: str
    axis: str

    def __str__(self) -> str:
        # Omit the direction. A story and its mirror image share most of their words (left here,
        # right in the question), so they count as one story when splits are drawn.
        return f"{self.axis} " + " - ".join(sorted((self.low, self.high)))


@dataclass(frozen=True, slots=True)
class IsBeyond:
    """Asks whether `high` has a larger coordinate than `low`. `subject` is the shape that the
    question mentions first.
    """

    low: str
    high: str
    axis: str
    subject: str

    @property
    def relation(self) -> str:
        """The relation as worded in the question."""
        sign = 1 if self.subject == self.high else -1
        return WORDS[self.axis, sign]


class PositionKnobs(Asking):
    """Settings of task 17.

    Attributes:
        shapes: Names of shapes. A story with n sentences has n + 1 shapes.
        facts: Number of sentences in a story.
        hops: Number of sentences that an answer needs. Default: two of two, as published.
    """

    shapes: Phrases = (
        "blue square",
        "pink rectangle",
        "red sphere",
        "red square",
        "triangle",
        "yellow square",
    )
    facts: int = Field(default=2, ge=1)
    hops: Span = Span(2, 2)
    questions: int = Field(default=8, ge=1)

    @field_validator("shapes")
    @classmethod
    def _two(cls, shapes: tuple[str, ...]) -> tuple[str, ...]:
        distinct(shapes, least=2)
        return shapes

    @model_validator(mode="after")
    def _reachable(self) -> PositionKnobs:
        if self.facts + 1 > len(self.shapes):
            raise ValueError(
                f"{self.facts} facts need {self.facts + 1} shapes, but 'shapes' lists "
                f"{len(self.shapes)}"
            )
        if self.hops.low < 1 or self.hops.low > self.facts:
            raise ValueError(f"hops {self.hops} is outside 1..{self.facts}, the number of facts")
        if self.unknown and self.facts < 3:
            raise ValueError(
                "with fewer than 3 facts, every question about two shapes has an answer; set "
                "facts to 3 or more"
            )
        return self


def sentence(text: str) -> Beyond | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    match = _TELLS.fullmatch(text)
    if match is None:
        return None
    axis, sign = RELATIONS[match[2]]
    return Beyond(match[3], match[1], axis) if sign > 0 else Beyond(match[1], match[3], axis)


def question(text: str) -> IsBeyond | None:
    """Parse a question. None if it does not belong to this task."""
    match = _ASKS.fullmatch(text)
    if match is None:
        return None
    axis, sign = RELATIONS[match[2]]
    low, high = (match[3], match[1]) if sign > 0 else (match[1], match[3])
    return IsBeyond(low, high, axis, match[1])


def edges(statements: Sequence[Statement[Beyond]], axis: str) -> list[Edge]:
    """Return statements about one axis: "larger" if it is their own axis, "level" for the other."""
    return [Edge(t.fact.low, t.fact.high, t.fact.axis == axis, t.number) for t in statements]


def derive(statements: Sequence[Statement[Beyond]], query: IsBeyond) -> Proof:
    """Derive the answer by chains of sentences along the axis in question."""
    return _decide(edges(statements, query.axis), query)


def loose(statements: Sequence[Statement[Beyond]], query: IsBeyond) -> Proof:
    """Derive the answer assuming that "above" only means "higher" and states nothing about left and
    right.
    """
    return _decide([e for e in edges(statements, query.axis) if e.strict], query)


def _decide(known: list[Edge], query: IsBeyond) -> Proof:
    other = query.low if query.subject == query.high else query.high
    yes = chains(known, query.low, query.high, strict=True)
    if yes:
        answer, supports, value = "yes", yes, f"{query.low} < {query.high}"
    else:
        down = chains(known, query.high, query.low, strict=True)
        level = chains(known, query.low, query.high, strict=False)
        supports = [c[::-1] for c in down] or level
        answer, value = "no", f"{query.low} {'>' if down else '='} {query.high}"
    if not supports:
        why = (
            f"no chain of sentences compares the {query.subject} and the {other} in that direction"
        )
        return Proof(UNKNOWN, why=why)
    # Published supports begin at the shape that the question mentions first.
    if query.subject != query.low:
        supports = [c[::-1] for c in supports]
    count = tuple(range(len(supports[0])))
    why = f"along the {query.axis} axis {value}, by sentences {', '.join(map(str, supports[0]))}"
    return Proof(
        answer,
        tuple(supports),
        (Step("chain", f"{query.axis}: {value}", count), Step("compare", answer)),
        why,
    )


def second(statements: Sequence[Statement[Beyond]], query: IsBeyond) -> tuple[str, ...]:
    """Answer by enumerating coordinates on the axis in question. One coordinate per shape is
    enough, because only the order matters.
    """
    names = sorted({n for t in statements for n in (t.fact.low, t.fact.high)})
    domains = {name: range(len(names)) for name in names}
    rules = []
    for item in statements:
        holds = (lambda a, b: a < b) if item.fact.axis == query.axis else (lambda a, b: a == b)
        rules.append(WorldRule((item.fact.low, item.fact.high), holds))
    pair = (query.low, query.high)
    yes = satisfiable(domains, [*rules, WorldRule(pair, lambda a, b: a < b)])
    no = satisfiable(domains, [*rules, WorldRule(pair, lambda a, b: a >= b)])
    if yes == no:
        return (UNKNOWN,)
    return ("yes",) if yes else ("no",)


def clash(
    statements: Sequence[Statement[Beyond]], new: Statement[Beyond]
) -> tuple[int, ...] | None:
    """Return the sentences that a new one contradicts: no shape is above itself, or above a shape
    that is above it.
    """
    for axis in "xy":
        edge = Edge(new.fact.low, new.fact.high, new.fact.axis == axis, new.number)
        against = conflict(edges(statements, axis), edge)
        if against is not None:
            return against
    return None


def draw_story(rng: Random, knobs: PositionKnobs) -> list[str]:
    """Draw shapes in neighbouring cells of a grid, then questions about pairs that are separated by
    the requested number of sentences.
    """
    facts = _place(rng, knobs)
    statements = [Statement(i, fact) for i, fact in enumerate(facts, 1)]
    names = sorted({n for f in facts for n in (f.low, f.high)})
    pools: dict[str, list[str]] = {"yes": [], "no": [], UNKNOWN: []}
    for axis in "xy":
        known = edges(statements, axis)
        far = {name: lengths(known, name) for name in names}
        more, less = WORDS[axis, 1], WORDS[axis, -1]
        for high, low in permutations(names, 2):
            up = far[low].get((high, True))
            length = up or far[high].get((low, True)) or far[low].get((high, False))
            if length is None:
                reply = UNKNOWN
            elif length in knobs.hops:
                reply = "yes" if up else "no"
            else:
                continue
            pools[reply] += [f"Is the {high} {more} the {low}?", f"Is the {low} {less} the {high}?"]
    open_ones = pools[UNKNOWN] if knobs.unknown else []
    questions = pick_questions(rng, [pools["yes"], pools["no"]], open_ones, knobs)
    return [_say(rng, fact) for fact in facts] + questions


def _place(rng: Random, knobs: PositionKnobs) -> list[Beyond]:
    """Draw a chain that is monotone along one axis, so that its ends can be compared on it. Other
    shapes are placed anywhere.
    """
    shapes = rng.sample(knobs.shapes, knobs.facts + 1)
    hops = rng.choice([h for h in knobs.hops if h <= knobs.facts])
    back = rng.choice(list(RELATIONS.values()))
    cells = {(0, 0): shapes[0]}
    here = (0, 0)
    facts: list[Beyond] = []
    for i, shape in enumerate(shapes[1:], 1):
        if i > hops:
            here = rng.choice([c for c in cells if _free(cells, c)])
        ways = [way for way in _free(cells, here) if i > hops or way != back]
        way = rng.choice(ways)
        old, here = cells[here], _beside(here, way)
        cells[here] = shape
        facts.append(Beyond(old, shape, way[0]) if way[1] > 0 else Beyond(shape, old, way[0]))
    rng.shuffle(facts)
    return facts


def _beside(cell: tuple[int, int], way: tuple[str, int]) -> tuple[int, int]:
    x, y = cell
    return (x + way[1], y) if way[0] == "x" else (x, y + way[1])


def _free(cells: dict[tuple[int, int], str], cell: tuple[int, int]) -> list[tuple[str, int]]:
    return [way for way in RELATIONS.values() if _beside(cell, way) not in cells]


def _say(rng: Random, fact: Beyond) -> str:
    if rng.random() < 0.5:
        return f"The {fact.high} is {WORDS[fact.axis, 1]} the {fact.low}."
    return f"The {fact.low} is {WORDS[fact.axis, -1]} the {fact.high}."


def mentions(item: Beyond | IsBeyond) -> tuple[str, ...]:
    """Return the two shapes."""
    return (item.low, item.high)


TASK: NumberedTask[Beyond, IsBeyond] = NumberedTask(
    17,
    "positional reasoning",
    "Read the story and say yes or no.",
    PositionKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: query.relation.replace(" ", "-"),
    ("The triangle is above the red square.", "Is the red square to the left of the triangle?"),
)
