"""What a story says: events, constructs, questions, and the names the paper gives them.

A sentence is one `Event`. Constructs are not events of their own, they are ways to tell any of the four:

- COREF: its subject is a pronoun.
- CONJ: it has two subjects ("Mary and John went") or, where one person handles things, two objects ("took the apple and
  the milk"). Two persons never take, leave or give one thing: nobody could say who of them holds it then.
- COMPOUND: both at once, a pronoun that stands for two ("they went", "she dropped them").
- NEGATE: "is not in the park" of a place; "did not take the milk" of a thing: it was not done, nothing else follows.
- INDEF: "is either in A or B" of a place; "took the milk in either A or B" of a thing: it was done in one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["move", "in", "not", "either", "grab", "drop", "give"]
"""move: went to. in: is in. not: is not (no longer) in. either: is either in A or B."""

POSITIONAL: frozenset[str] = frozenset(("move", "in", "not", "either"))
"""Kinds that say something of where their subjects are now."""

QuestionKind = Literal["where-P", "where-O", "where-was-O", "yes-no", "list", "counting", "give-qs"]
GiveForm = Literal["", "gave-to", "gave", "received", "given-to", "given"]

QUESTIONS: tuple[QuestionKind, ...] = (
    "where-P",
    "where-O",
    "where-was-O",
    "yes-no",
    "list",
    "counting",
    "give-qs",
)
GIVE_FORMS: tuple[GiveForm, ...] = ("gave-to", "gave", "received", "given-to", "given")
EVENTS = ("MOVE", "GRAB", "DROP", "GIVE")
CONSTRUCTS = ("COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF")

_CONCEPT: dict[str, str] = {
    "move": "MOVE",
    "in": "MOVE",  # the paper counts "Bill is in the bedroom" as MOVE (its mix(T12) example: {MOVE, POSS, COREF})
    "not": "NEGATE",
    "either": "INDEF",
    "grab": "GRAB",
    "drop": "DROP",
    "give": "GIVE",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One sentence.

    Attributes:
        kind: What it says.
        who: Its subjects: one, or two for CONJ.
        places: Where; two for "either", none for events that name no place; for objects that change hands, where that was.
        thing: The object that changes hands.
        to: Who receives it.
        pronoun: The subjects are said by a pronoun, so the sentence before is needed to know them.
        also: A second object that goes the same way.
        them: The two objects are said by a pronoun.
        denied: It did not happen ("did not take").
        text: The sentence as the reader sees it.
    """

    kind: Kind
    who: tuple[str, ...]
    places: tuple[str, ...] = ()
    thing: str = ""
    to: str = ""
    pronoun: bool = False
    text: str = ""
    also: str = ""
    them: bool = False
    denied: bool = False

    @property
    def things(self) -> tuple[str, ...]:
        """The objects it is about."""
        return (self.thing, self.also) if self.also else (self.thing,) if self.thing else ()

    @property
    def compound(self) -> bool:
        """Whether a pronoun stands for two."""
        return self.pronoun and (self.them or len(self.who) > 1)

    def concepts(self) -> tuple[str, ...]:
        """The paper's concepts in this sentence."""
        found = [_CONCEPT[self.kind]]
        if len(self.who) > 1 or self.also:
            found.append("CONJ")
        if self.pronoun:
            found.append("COREF")
        if self.thing:
            if self.denied:
                found.append("NEGATE")
            if self.places:
                found.append("INDEF" if len(self.places) > 1 else "MOVE")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        kind: The paper's question type.
        person: whom it is about; for the give forms, the giver.
        thing: The object it is about.
        place: The place it names.
        other: The receiver, for the give forms.
        form: Which of the five give forms.
        text: The question as the reader sees it.
    """

    kind: QuestionKind
    person: str = ""
    thing: str = ""
    place: str = ""
    other: str = ""
    form: GiveForm = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class PlacedQuestion:
    """A question at its place in a story.

    Attributes:
        question: What is asked.
        after: How many sentences come before it.
        line: Its line number within the story.
        answer: The answer the text gives, if any.
        support: The supporting line numbers the text gives.
        at: Its line in the file, for messages.
    """

    question: Question
    after: int
    line: int
    answer: str = ""
    support: tuple[int, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class Story:
    """Sentences with questions among them.

    Attributes:
        events: The sentences.
        lines: The line number of each sentence within the story.
        asked: The questions, in order.
        at: The line of each sentence in its file, for messages.
    """

    events: tuple[Event, ...]
    lines: tuple[int, ...]
    asked: tuple[PlacedQuestion, ...] = field(default=())
    at: tuple[int, ...] = ()


def composition(events: list[Event]) -> str:
    """The concepts of some sentences as one trait: names in alphabetical order, joined by plus signs.

    >>> composition([Event("move", ("Mary",), ("park",)), Event("grab", ("Mary",), thing="milk", pronoun=True)])
    'COREF+GRAB+MOVE'
    """
    return "+".join(sorted({concept for event in events for concept in event.concepts()}))
