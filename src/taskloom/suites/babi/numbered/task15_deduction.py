"""Task 15, basic deduction: what a person fears follows from their kind.

World: every person is one kind of animal, and each kind is afraid of one other. "Wolves are afraid
of mice" is taken to hold for every wolf.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product

from pydantic import Field, field_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.suites.babi.numbered.possible_worlds import WorldRule, entailed, worlds
from taskloom.suites.babi.numbered.task import (
    UNKNOWN,
    WORD,
    Asking,
    Names,
    NumberedTask,
    Proof,
    Statement,
    capital,
    distinct,
    pick_questions,
)

PLURALS = {
    "mouse": "mice",
    "sheep": "sheep",
    "wolf": "wolves",
    "cat": "cats",
    "dog": "dogs",
    "fox": "foxes",
    "goose": "geese",
    "horse": "horses",
    "lion": "lions",
}
"""Animals that stories may contain. The first four are the published ones."""

SINGULARS = {plural: singular for singular, plural in PLURALS.items()}

_IS = re.compile(rf"({WORD}) is an? ({WORD})\.")
_FEARS = re.compile(rf"({WORD}) are afraid of ({WORD})\.")
_WHAT = re.compile(rf"What is ({WORD}) afraid of\?")


@dataclass(frozen=True, slots=True)
class IsA:
    """States the kind of a person. Names are in lower case, as in published questions."""

    who: str
    kind: str

    def __str__(self) -> str:
        return f"{self.who} is {self.kind}"


@dataclass(frozen=True, slots=True)
class Fears:
    """States that one kind is afraid of another."""

    kind: str
    of: str

    def __str__(self) -> str:
        return f"{self.kind} fears {self.of}"


@dataclass(frozen=True, slots=True)
class WhatFeared:
    """Asks what a person is afraid of."""

    who: str


class DeductionKnobs(Asking):
    """Settings of task 15. By default, a story has four people, four kinds, eight sentences and
    four questions.
    """

    people: Names = ("Emily", "Gertrude", "Jessica", "Winona")
    animals: Names = ("mouse", "sheep", "wolf", "cat")
    questions: int = Field(default=4, ge=1)

    @field_validator("animals")
    @classmethod
    def _known(cls, animals: tuple[str, ...]) -> tuple[str, ...]:
        distinct(animals, least=2)
        strange = [a for a in animals if a not in PLURALS]
        if strange:
            raise ValueError(
                f"the plural of '{strange[0]}' is unknown; known animals: {', '.join(PLURALS)}"
            )
        return animals


def sentence(text: str) -> IsA | Fears | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    if match := _FEARS.fullmatch(text):
        kind, of = SINGULARS.get(match[1].lower()), SINGULARS.get(match[2].lower())
        return Fears(kind, of) if kind and of else None
    if match := _IS.fullmatch(text):
        return IsA(match[1].lower(), match[2]) if match[2] in PLURALS else None
    return None


def question(text: str) -> WhatFeared | None:
    """Parse a question. None if it does not belong to this task."""
    match = _WHAT.fullmatch(text)
    return WhatFeared(match[1].lower()) if match else None


def derive(statements: Sequence[Statement[IsA | Fears]], query: WhatFeared) -> Proof:
    """Derive the answer from a person's kind and what that kind fears."""
    kinds = [
        (t.number, t.fact)
        for t in statements
        if isinstance(t.fact, IsA) and t.fact.who == query.who
    ]
    if not kinds:
        return Proof(UNKNOWN, why=f"nothing says what kind of animal {capital(query.who)} is")
    kind = kinds[0][1].kind
    fears = [
        (t.number, t.fact) for t in statements if isinstance(t.fact, Fears) and t.fact.kind == kind
    ]
    if not fears:
        return Proof(UNKNOWN, why=f"nothing says what {PLURALS[kind]} are afraid of")
    of = fears[0][1].of
    pairs = product([number for number, _ in kinds], [number for number, _ in fears])
    supports = sorted(pairs, key=sorted)
    why = f"{capital(query.who)} is a {kind} and {PLURALS[kind]} are afraid of {PLURALS[of]}"
    return Proof(of, tuple(supports), (Step("apply to a member", of, (0, 1)),), why)


def second(statements: Sequence[Statement[IsA | Fears]], query: WhatFeared) -> tuple[str, ...]:
    """Answer by enumerating everyone's kind and what each kind fears, with one extra kind that the
    story does not mention.
    """
    facts = [t.fact for t in statements]
    named = {f.kind for f in facts} | {f.of for f in facts if isinstance(f, Fears)}
    kinds = [*sorted(named), "another"]
    domains: dict[Hashable, list[str]] = {query.who: kinds, **{("fear", k): kinds for k in kinds}}
    rules = []
    for fact in facts:
        if isinstance(fact, IsA) and fact.who == query.who:
            rules.append(WorldRule((fact.who,), lambda value, kind=fact.kind: value == kind))
        elif isinstance(fact, Fears):
            rules.append(WorldRule((("fear", fact.kind),), lambda value, of=fact.of: value == of))
    return entailed(w["fear", w[query.who]] for w in worlds(domains, rules))


def clash(
    statements: Sequence[Statement[IsA | Fears]], new: Statement[IsA | Fears]
) -> tuple[int, ...] | None:
    """Return the sentence that a new one contradicts: each person has one kind, and each kind fears
    at most one.
    """
    fact = new.fact
    for old in statements:
        told = old.fact
        same_topic = False
        if isinstance(fact, IsA) and isinstance(told, IsA):
            same_topic = told.who == fact.who
        if isinstance(fact, Fears) and isinstance(told, Fears):
            same_topic = told.kind == fact.kind
        if same_topic and told != fact:
            return (old.number,)
    return None


def draw_story(rng: Random, knobs: DeductionKnobs) -> list[str]:
    """Draw everybody's kind and every kind's fear in random order, then questions."""
    kinds = {who: rng.choice(knobs.animals) for who in knobs.people}
    fears = {kind: rng.choice([a for a in knobs.animals if a != kind]) for kind in knobs.animals}
    silent = None
    if knobs.unknown:
        # A question is open if the fear of the person's kind is not told. If all people are of the
        # same kind, any kind may be left out, because otherwise no question would have an answer.
        used = sorted(set(kinds.values()))
        silent = rng.choice(used if len(used) > 1 else knobs.animals)
    sentences = [f"{who} is a {kind}." for who, kind in kinds.items()]
    sentences += [
        f"{capital(PLURALS[k])} are afraid of {PLURALS[of]}."
        for k, of in fears.items()
        if k != silent
    ]
    rng.shuffle(sentences)
    ask = {who: f"What is {who.lower()} afraid of?" for who in kinds}
    known = [ask[who] for who, kind in kinds.items() if kind != silent]
    open_ones = [ask[who] for who, kind in kinds.items() if kind == silent]
    return sentences + pick_questions(rng, [known], open_ones, knobs)


def mentions(item: IsA | Fears | WhatFeared) -> tuple[str, ...]:
    """Return the person in a fact or question."""
    return () if isinstance(item, Fears) else (item.who,)


TASK: NumberedTask[IsA | Fears, WhatFeared] = NumberedTask(
    15,
    "basic deduction",
    "Read the story and say what kind of animal the person is afraid of.",
    DeductionKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: "what-feared",
    ("Wolves are afraid of mice.", "What is emily afraid of?"),
)
