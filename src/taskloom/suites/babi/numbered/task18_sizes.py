"""Task 18, size reasoning: which things are bigger, and which fit inside others.

World: every thing has a size, and fits inside everything that is bigger. Only the story counts:
that chocolates are small in real life is irrelevant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pydantic import Field, field_validator, model_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.recipe import Span
from taskloom.suites.babi.numbered.order_inference import Edge, chains, conflict
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

_TELLS = re.compile(rf"The {PHRASE} (is bigger than|fits inside) the {PHRASE}\.")
_BIGGER = re.compile(rf"Is the {PHRASE} bigger than the {PHRASE}\?")
_FITS = re.compile(rf"Does the {PHRASE} fit in the {PHRASE}\?")


@dataclass(frozen=True, slots=True)
class Bigger:
    """States that one thing is bigger than another, which therefore fits inside it."""

    big: str
    small: str

    def __str__(self) -> str:
        return f"{self.big} > {self.small}"


@dataclass(frozen=True, slots=True)
class IsBigger:
    """Asks whether one thing is bigger than another. `fits` selects the wording."""

    big: str
    small: str
    fits: bool


class SizeKnobs(Asking):
    """Settings of task 18.

    Attributes:
        things: Things to compare.
        fixed: Number of things at the beginning of the list that are the smallest ones in every
            story, in this order. The sizes of the others are random.
        facts: Number of sentences in a story.
        hops: Number of sentences in the shortest proof of an answer.
    """

    things: Phrases = ("chocolate", "box of chocolates", "box", "chest", "container", "suitcase")
    fixed: int = Field(default=2, ge=0)
    facts: int = Field(default=5, ge=1)
    hops: Span = Span(2, 2)

    @field_validator("things")
    @classmethod
    def _two(cls, things: tuple[str, ...]) -> tuple[str, ...]:
        distinct(things, least=2)
        return things

    @model_validator(mode="after")
    def _reachable(self) -> SizeKnobs:
        if self.hops.low < 1 or self.hops.low > len(self.things) - 1:
            raise ValueError(
                f"hops {self.hops} is outside 1..{len(self.things) - 1}: 'things' lists "
                f"{len(self.things)}"
            )
        if self.hops.low > self.facts:
            raise ValueError(
                f"{self.hops.low} hops need at least {self.hops.low} facts, not {self.facts}"
            )
        if self.fixed > len(self.things):
            raise ValueError(
                f"fixed {self.fixed} is more than the number of things, {len(self.things)}"
            )
        return self


def sentence(text: str) -> Bigger | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    match = _TELLS.fullmatch(text)
    if match is None:
        return None
    first, relation, second_thing = match.groups()
    if relation == "is bigger than":
        return Bigger(first, second_thing)
    return Bigger(second_thing, first)


def question(text: str) -> IsBigger | None:
    """Parse a question. None if it does not belong to this task."""
    if match := _BIGGER.fullmatch(text):
        return IsBigger(match[1], match[2], fits=False)
    if match := _FITS.fullmatch(text):
        return IsBigger(match[2], match[1], fits=True)
    return None


def edges(statements: Sequence[Statement[Bigger]]) -> list[Edge]:
    """Return the comparisons as edges from the smaller to the bigger thing."""
    return [Edge(t.fact.small, t.fact.big, True, t.number) for t in statements]


def derive(statements: Sequence[Statement[Bigger]], query: IsBigger) -> Proof:
    """Derive the answer by chains of comparisons. Published supports begin at the thing that the
    question supposes to be bigger.
    """
    known = edges(statements)
    up = [c[::-1] for c in chains(known, query.small, query.big, strict=True)]
    if up:
        return _proof("yes", up, query.big, query.small)
    down = chains(known, query.big, query.small, strict=True)
    if down:
        return _proof("no", down, query.small, query.big)
    if query.big == query.small:
        return Proof("no", ((),), (), "nothing is bigger than itself")
    return Proof(
        UNKNOWN, why=f"no chain of sentences compares the {query.big} and the {query.small}"
    )


def _proof(answer: str, supports: list[tuple[int, ...]], big: str, small: str) -> Proof:
    count = tuple(range(len(supports[0])))
    value = f"{big} > {small}"
    why = f"the {big} is bigger than the {small} by sentences {', '.join(map(str, supports[0]))}"
    return Proof(
        answer, tuple(supports), (Step("chain", value, count), Step("compare", answer)), why
    )


def second(statements: Sequence[Statement[Bigger]], query: IsBigger) -> tuple[str, ...]:
    """Answer by enumerating sizes. One size per thing is enough, because only the order matters."""
    names = sorted({n for t in statements for n in (t.fact.big, t.fact.small)})
    domains = {name: range(len(names)) for name in names}
    rules = [WorldRule((t.fact.small, t.fact.big), lambda a, b: a < b) for t in statements]
    yes = satisfiable(domains, [*rules, WorldRule((query.small, query.big), lambda a, b: a < b)])
    no = satisfiable(domains, [*rules, WorldRule((query.small, query.big), lambda a, b: a >= b)])
    if yes == no:
        return (UNKNOWN,)
    return ("yes",) if yes else ("no",)


def clash(
    statements: Sequence[Statement[Bigger]], new: Statement[Bigger]
) -> tuple[int, ...] | None:
    """Return the sentences that a new one contradicts: nothing is bigger than itself, or than a
    thing that is bigger than it.
    """
    return conflict(edges(statements), Edge(new.fact.small, new.fact.big, True, new.number))


def draw_story(rng: Random, knobs: SizeKnobs) -> list[str]:
    """Draw a chain of the requested length, then comparisons of random pairs that do not shorten
    it. Pairs may repeat.
    """
    movable = knobs.things[knobs.fixed :]
    ranks = [*knobs.things[: knobs.fixed], *rng.sample(movable, len(movable))]
    hops = rng.choice([h for h in knobs.hops if h <= min(knobs.facts, len(ranks) - 1)])
    chain = sorted(rng.sample(range(len(ranks)), hops + 1))
    pairs = list(pairwise(chain))
    while len(pairs) < knobs.facts:
        low, high = sorted(rng.sample(range(len(ranks)), 2))
        shorter = _lengths([*pairs, (low, high)], chain[0])[chain[-1]] < hops
        pairs.append(rng.choice(pairs) if shorter else (low, high))
    rng.shuffle(pairs)
    texts = [_say(rng, Bigger(ranks[high], ranks[low])) for low, high in pairs]
    return texts + _ask(rng, pairs, ranks, knobs)


def _lengths(pairs: list[tuple[int, int]], low: int) -> dict[int, int]:
    """Compute the lengths of the shortest chains up from one thing. Ranks grow along them, so one
    pass is enough.
    """
    far = {low: 0}
    for a, b in sorted(pairs):
        if a in far:
            far[b] = min(far.get(b, far[a] + 1), far[a] + 1)
    return far


def _ask(
    rng: Random, pairs: list[tuple[int, int]], ranks: list[str], knobs: SizeKnobs
) -> list[str]:
    pools: dict[str, list[str]] = {"yes": [], "no": [], UNKNOWN: []}
    ranked = sorted({rank for pair in pairs for rank in pair})
    for i, low in enumerate(ranked):
        far = _lengths(pairs, low)
        for high in ranked[i + 1 :]:
            if high not in far:
                pools[UNKNOWN] += _questions(ranks[high], ranks[low])
                pools[UNKNOWN] += _questions(ranks[low], ranks[high])
            elif far[high] in knobs.hops:
                pools["yes"] += _questions(ranks[high], ranks[low])
                pools["no"] += _questions(ranks[low], ranks[high])
    open_ones = pools[UNKNOWN] if knobs.unknown else []
    return pick_questions(rng, [pools["yes"], pools["no"]], open_ones, knobs)


def _questions(big: str, small: str) -> list[str]:
    return [f"Is the {big} bigger than the {small}?", f"Does the {small} fit in the {big}?"]


def _say(rng: Random, fact: Bigger) -> str:
    if rng.random() < 0.5:
        return f"The {fact.big} is bigger than the {fact.small}."
    return f"The {fact.small} fits inside the {fact.big}."


def mentions(item: Bigger | IsBigger) -> tuple[str, ...]:
    """Return the two things."""
    return (item.big, item.small)


TASK: NumberedTask[Bigger, IsBigger] = NumberedTask(
    18,
    "size reasoning",
    "Read the story and say yes or no.",
    SizeKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: "fits" if query.fits else "bigger",
    ("The box is bigger than the chocolate.", "Does the chocolate fit in the box?"),
)
