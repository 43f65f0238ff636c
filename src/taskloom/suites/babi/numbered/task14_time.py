"""Task 14, time reasoning: visits to places are told out of chronological order.

World: time is divided into slots, which are yesterday and the three parts of today. In each slot a
person goes to at most one place, and stays there until the next slot with a visit. Sentences come
in any order, so there may have been a visit in a slot that was not told. The place before a visit
is therefore known only if the slot just before it was told. "Before the L" means before the latest
visit to L that was told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from pydantic import Field, field_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.suites.babi.numbered.possible_worlds import entailed, worlds
from taskloom.suites.babi.numbered.task import (
    UNKNOWN,
    WORD,
    Names,
    NumberedTask,
    Proof,
    Share,
    Statement,
    TaskKnobs,
    capital,
    distinct,
)

TIMES = (
    "last year",
    "last month",
    "last week",
    "yesterday",
    "this morning",
    "this afternoon",
    "this evening",
)
"""The slots in chronological order. Published stories begin with yesterday; longer stories may
begin earlier.
"""

VERBS = ("journeyed", "moved", "travelled", "went", "went back")

_TIME = "|".join(TIMES)
_WENT = rf"({WORD}) (?:{'|'.join(VERBS)}) to the ({WORD})"
_EARLY = re.compile(rf"(?i:({_TIME})) {_WENT}\.")
_LATE = re.compile(rf"{_WENT} (?i:({_TIME}))\.")
_WHERE = re.compile(rf"Where was ({WORD}) before the ({WORD})\?")


@dataclass(frozen=True, slots=True)
class Visit:
    """A person's visit to a place in a slot, given by its index in `TIMES`."""

    who: str
    place: str
    slot: int

    def __str__(self) -> str:
        return f"{self.who} {self.slot} {self.place}"


@dataclass(frozen=True, slots=True)
class WhereBefore:
    """Asks where a person was before they went to a place."""

    who: str
    place: str


class TimeKnobs(TaskKnobs):
    """Settings of task 14.

    Attributes:
        since: First time slot of the story. Default: yesterday, as published. An earlier one allows
            longer stories.
        questions: Number of questions in a story.
        pause: Number of sentences before each question, or two or three times as many if no
            question is possible yet.
        unknown: Share of questions about a visit whose previous slot is not told.
    """

    people: Names = ("Bill", "Fred", "Julie", "Mary")
    places: Names = ("bedroom", "cinema", "kitchen", "office", "park", "school")
    since: Literal["last year", "last month", "last week", "yesterday"] = "yesterday"
    questions: int = Field(default=5, ge=1)
    pause: int = Field(default=2, ge=1)
    unknown: Share = 0.0

    @field_validator("places")
    @classmethod
    def _two(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        distinct(places, least=2)
        return places


def sentence(text: str) -> Visit | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    if match := _EARLY.fullmatch(text):
        return Visit(match[2], match[3], TIMES.index(match[1].lower()))
    if match := _LATE.fullmatch(text):
        return Visit(match[1], match[2], TIMES.index(match[3].lower()))
    return None


def question(text: str) -> WhereBefore | None:
    """Parse a question. None if it does not belong to this task."""
    match = _WHERE.fullmatch(text)
    return WhereBefore(match[1], match[2]) if match else None


def derive(statements: Sequence[Statement[Visit]], query: WhereBefore) -> Proof:
    """Derive the place told for the slot before the latest visit."""
    slots: dict[int, list[Statement[Visit]]] = {}
    for item in statements:
        if item.fact.who == query.who:
            slots.setdefault(item.fact.slot, []).append(item)
    visits = [slot for slot, items in slots.items() if items[0].fact.place == query.place]
    if not visits:
        return Proof(UNKNOWN, why=f"nothing says that {query.who} went to the {query.place}")
    slot = max(visits)
    if slot - 1 not in slots:
        return Proof(
            UNKNOWN,
            why=(
                f"{query.who} went to the {query.place} {TIMES[slot]}, and nothing is told of the"
                " time just before"
            ),
        )
    place = slots[slot - 1][0].fact.place
    # The same visit may be told several times, so any pair of sentences for the two slots is a
    # support.
    pairs = product(slots[slot], slots[slot - 1])
    supports = sorted(((visit.number, before.number) for visit, before in pairs), key=sorted)
    why = (
        f"{query.who} went to the {query.place} {TIMES[slot]} and to the {place} {TIMES[slot - 1]},"
        " just before"
    )
    return Proof(place, tuple(supports), (Step("just before", place, (0, 1)),), why)


def second(statements: Sequence[Statement[Visit]], query: WhereBefore) -> tuple[str, ...]:
    """Answer by enumerating all sequences of visits that agree with the text, up to the visit in
    question. Anything may happen in a slot that is not told.
    """
    visits = [t.fact for t in statements if t.fact.who == query.who]
    meant = max((v.slot for v in visits if v.place == query.place), default=None)
    if meant is None:
        return (UNKNOWN,)
    # Two unnamed places are enough to represent all consequences of an untold visit.
    choices: dict[int, list[str]] = {slot: ["", "somewhere", "elsewhere"] for slot in range(meant)}
    choices |= {v.slot: [v.place] for v in visits if v.slot < meant}
    answers = set()
    for world in worlds(choices, []):
        course = [world[slot] for slot in range(meant) if world[slot]]
        answers.add(course[-1] if course else "elsewhere")
    return entailed(answers) if answers != {"elsewhere"} else (UNKNOWN,)


def clash(statements: Sequence[Statement[Visit]], new: Statement[Visit]) -> tuple[int, ...] | None:
    """Return the sentence that a new one contradicts: a person goes to at most one place per
    slot.
    """
    for old in statements:
        same_visit = (old.fact.who, old.fact.slot) == (new.fact.who, new.fact.slot)
        if same_visit and old.fact.place != new.fact.place:
            return (old.number,)
    return None


def draw_story(rng: Random, knobs: TimeKnobs) -> list[str]:
    """Draw visits in chronological order, tell them in shuffled blocks, and ask a question after
    each block that allows one.
    """
    texts: list[str] = []
    start = TIMES.index(knobs.since)
    course: dict[str, list[str]] = {who: [] for who in knobs.people}
    covered: dict[str, set[int]] = {who: set() for who in knobs.people}
    block: list[Visit] = []
    count = 0
    while count < knobs.questions:
        free = [who for who in knobs.people if len(course[who]) < len(TIMES) - start]
        if free:
            who = rng.choice(free)
            last = course[who][-1] if course[who] else None
            course[who].append(rng.choice([p for p in knobs.places if p != last]))
            block.append(Visit(who, course[who][-1], start + len(course[who]) - 1))
        if free and len(block) % knobs.pause:
            continue
        open_ones, known = _askable(start, course, covered, block)
        wanted = open_ones if open_ones and rng.random() < knobs.unknown else known
        if not wanted and free:
            continue
        rng.shuffle(block)
        texts += [_say(rng, visit) for visit in block]
        for visit in block:
            covered[visit.who].add(visit.slot)
        block.clear()
        if wanted:
            texts.append(rng.choice(wanted))
        count += 1
    return texts


def _askable(
    start: int, course: dict[str, list[str]], covered: dict[str, set[int]], block: list[Visit]
) -> tuple[list[str], list[str]]:
    """Return the questions that the text will leave open, and those that it will answer, after the
    block is told.
    """
    open_ones: list[str] = []
    known: list[str] = []
    for who, places in course.items():
        slots = covered[who] | {v.slot for v in block if v.who == who}
        for place in sorted(set(places)):
            visits = [s for s in slots if places[s - start] == place]
            if not visits:
                continue
            told_before = max(visits) - 1 in slots
            questions = known if told_before else open_ones
            questions.append(f"Where was {who} before the {place}?")
    return open_ones, known


def _say(rng: Random, visit: Visit) -> str:
    went = f"{visit.who} {rng.choice(VERBS)} to the {visit.place}"
    if rng.random() < 0.5:
        return f"{capital(TIMES[visit.slot])} {went}."
    return f"{went} {TIMES[visit.slot]}."


def mentions(item: Visit | WhereBefore) -> tuple[str, ...]:
    """Return the person and the place."""
    return (item.who, item.place)


TASK: NumberedTask[Visit, WhereBefore] = NumberedTask(
    14,
    "time reasoning",
    "Read the story and say where the person was just before going to the place.",
    TimeKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: "where-before",
    ("Yesterday Julie went to the office.", "Where was Julie before the school?"),
    gap=" ",
)
