"""bAbI task 4: which room lies north, south, east or west of which.

A fact and its inverse are the whole reasoning: "the office is north of the kitchen" answers both what is north of the
kitchen and what the kitchen is south of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

INVERSE = {"north": "south", "south": "north", "east": "west", "west": "east"}
_DIRECTION = "(north|south|east|west)"
_ROOM = r"([^\W\d_][\w'’ -]*?)"
_FACT = re.compile(rf"The {_ROOM} is {_DIRECTION} of the {_ROOM}\.")
_WHAT = re.compile(rf"What is {_DIRECTION} of the {_ROOM}\?")
_OF_WHAT = re.compile(rf"What is the {_ROOM} {_DIRECTION} of\?")


@dataclass(frozen=True, slots=True)
class RoomFact:
    """`room` lies in `direction` of `other`."""

    room: str
    direction: str
    other: str

    def inverted(self) -> RoomFact:
        """The same fact, seen from the other room."""
        return RoomFact(self.other, INVERSE[self.direction], self.room)

    def text(self) -> str:
        """The sentence."""
        return f"The {self.room} is {self.direction} of the {self.other}."


@dataclass(frozen=True, slots=True)
class Query:
    """Which room lies in `direction` of `other`; `turned` asks it as "what is the A north of?"."""

    direction: str
    other: str
    turned: bool = False

    def text(self) -> str:
        """The question."""
        if self.turned:
            return f"What is the {self.other} {INVERSE[self.direction]} of?"
        return f"What is {self.direction} of the {self.other}?"


def read_fact(text: str) -> RoomFact | None:
    """The fact of a sentence, or None."""
    match = _FACT.fullmatch(text)
    return RoomFact(match[1], match[2], match[3]) if match else None


def read_query(text: str) -> Query | None:
    """The query of a question, or None."""
    match = _WHAT.fullmatch(text)
    if match:
        return Query(match[1], match[2])
    match = _OF_WHAT.fullmatch(text)
    return Query(INVERSE[match[2]], match[1], turned=True) if match else None


def solve(facts: Sequence[RoomFact], query: Query) -> list[tuple[str, int]]:
    """Every room that a single fact puts there, with the fact's index; one room, or the question has no one answer."""
    found = []
    for i, fact in enumerate(facts):
        for side in (fact, fact.inverted()):
            if (side.direction, side.other) == (query.direction, query.other):
                found.append((side.room, i))
    return found
