"""Task 4, two-argument relations: rooms that are north, south, east or west of each other.

The only reasoning step is to invert a fact: "the office is north of the kitchen" answers what is
north of the kitchen, and also what the kitchen is south of. All possible stories can be counted, so
a story is drawn by its rank among them, and no two rows are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example, Step
from taskloom.core.seeding import Key
from taskloom.suites.babi.story.text_format import split_passage

INVERSE = {"north": "south", "south": "north", "east": "west", "west": "east"}
_DIRECTION = "(north|south|east|west)"
_ROOM = r"([^\W\d_][\w'’ -]*?)"
_FACT = re.compile(rf"The {_ROOM} is {_DIRECTION} of the {_ROOM}\.")
_WHAT = re.compile(rf"What is {_DIRECTION} of the {_ROOM}\?")
_OF_WHAT = re.compile(rf"What is the {_ROOM} {_DIRECTION} of\?")

FLIPS = 6
"""Number of binary choices in a story: whether each fact is inverted, their order, which fact is
asked about, from which side, and in which form.
"""

TRAITS: dict[str, type] = {
    "number": int,
    "question": str,
    "support": int,
    "support_lines": str,
    "sentences": int,
}


@dataclass(frozen=True, slots=True)
class RoomFact:
    """`room` is in `direction` of `other`."""

    room: str
    direction: str
    other: str

    def inverted(self) -> RoomFact:
        """Return the same fact, seen from the other room."""
        return RoomFact(self.other, INVERSE[self.direction], self.room)

    def text(self) -> str:
        """Return the sentence."""
        return f"The {self.room} is {self.direction} of the {self.other}."


@dataclass(frozen=True, slots=True)
class Query:
    """Asks which room is in `direction` of `other`. If `turned`, the wording is "what is the A
    north of?".
    """

    direction: str
    other: str
    turned: bool = False

    def text(self) -> str:
        """Return the question."""
        if self.turned:
            return f"What is the {self.other} {INVERSE[self.direction]} of?"
        return f"What is {self.direction} of the {self.other}?"


def read_fact(text: str) -> RoomFact | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    match = _FACT.fullmatch(text)
    return RoomFact(match[1], match[2], match[3]) if match else None


def read_query(text: str) -> Query | None:
    """Parse a question. None if it does not belong to this task."""
    match = _WHAT.fullmatch(text)
    if match:
        return Query(match[1], match[2])
    match = _OF_WHAT.fullmatch(text)
    return Query(INVERSE[match[2]], match[1], turned=True) if match else None


def solve(facts: Sequence[RoomFact], query: Query) -> list[tuple[str, int]]:
    """Return the rooms that a single fact places there, each with the fact's index. With more than
    one room, the question has no unique answer.
    """
    rooms = []
    for i, fact in enumerate(facts):
        for side in (fact, fact.inverted()):
            if (side.direction, side.other) == (query.direction, query.other):
                rooms.append((side.room, i))
    return rooms


def count_stories(rooms: Sequence[str]) -> tuple[int, int]:
    """Return the number of ordered triples of rooms, and the number of stories."""
    triples = len(rooms) * (len(rooms) - 1) * (len(rooms) - 2)
    return triples, triples * 2 * 2**FLIPS


def draw_examples(
    rooms: tuple[str, ...], key: Key, first: int, step: int, start: int, stop: int
) -> Iterator[Example]:
    """Yield examples start..stop of a split whose stories begin at position `first` of a keyed
    permutation of all stories.

    Args:
        rooms: Names of the rooms.
        key: Key of the permutation.
        first: Position of the split's first story.
        step: 1 to go forwards from there, -1 to go backwards.
        start: Index of the first example.
        stop: Index after the last example.
    """
    triples = list(permutations(rooms, 3))
    order = key.permutation(count_stories(rooms)[1], "rooms")
    for index in range(start, stop):
        yield _example(triples, int(order(first + step * index)))


def _example(triples: Sequence[tuple[str, ...]], rank: int) -> Example:
    """Build the story with this rank among all possible ones: three rooms in a row, two facts, one
    question.
    """
    rank, which = divmod(rank, len(triples))
    rank, axis = divmod(rank, 2)
    flips = [rank >> i & 1 for i in range(FLIPS)]
    a, b, c = triples[which]
    direction = "north" if axis else "east"
    facts = [RoomFact(a, direction, b), RoomFact(b, direction, c)]
    facts = [f.inverted() if flips[i] else f for i, f in enumerate(facts)]
    if flips[2]:
        facts.reverse()
    goal = facts[flips[3]]
    if flips[4]:
        goal = goal.inverted()
    query = Query(goal.direction, goal.other, turned=bool(flips[5]))
    text = " ".join(f.text() for f in facts)
    steps = [
        Step("told", facts[flips[3]].text(), ()),
        Step("inverse" if goal not in facts else "same", goal.room),
    ]
    traits = {
        "number": 4,
        "question": "of-what" if query.turned else "what",
        "support": 1,
        "support_lines": str(flips[3] + 1),
        "sentences": 2,
    }
    question = query.text()
    return Example(
        f"{text} {question}", goal.room, traits, question=question, derivation=steps, task="babi/4"
    )


def check(example: Example) -> tuple[str, ...]:
    """Answer using the second solver, which uses coordinates on a grid instead of inverse facts."""
    sentences, question = split_passage(example.input)
    query = read_query(question)
    facts = [f for f in map(read_fact, sentences) if f]
    if query is None or len(facts) < len(sentences):
        raise RecipeError(f"cannot read {example.input!r}")
    step = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
    at = {facts[0].other: (0, 0)}
    for _ in facts:
        for fact in facts:
            dx, dy = step[fact.direction]
            if fact.other in at:
                x, y = at[fact.other]
                at.setdefault(fact.room, (x + dx, y + dy))
            elif fact.room in at:
                x, y = at[fact.room]
                at.setdefault(fact.other, (x - dx, y - dy))
    x, y = at[query.other]
    dx, dy = step[query.direction]
    return tuple(room for room, place in at.items() if place == (x + dx, y + dy))
