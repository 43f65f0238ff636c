"""Content of a story: events, constructs and questions, with the paper's names for them.

A sentence is one `Event` of a kind that `EVENT_TYPES` describes. Constructs are not events of their
own, they are ways to tell any of them:

- COREF: its subject is a pronoun.
- CONJ: it has two subjects ("Mary and John went") or, where one person handles things, two objects
  ("took the apple and the milk"). Two persons never take, leave or give the same object, because it
  would be unclear who holds it afterwards.
- COMPOUND: both at once, a pronoun for two persons or objects ("they went", "she dropped them").
- NEGATE: "is not in the park" of a place; "did not take the milk" of a thing: it was not done,
  nothing else follows.
- INDEF: "is either in A or B" of a place; "took the milk in either A or B" of a thing: it was done
  in one of the two.

An event type is data, above all a sentence with slots. The writer, the grammar, the proofs and the
recipe fields all read it and call back into this module, so that a new event is described here and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeVar, get_args

Kind = Literal["move", "in", "not", "either", "grab", "drop", "give"]
"""Kind of a sentence: a person went to a place, is in it, is not (or no longer) in it, or is in one
of two places; a person takes, leaves or gives away an object.
"""


@dataclass(frozen=True, slots=True)
class EventType:
    """Definition of one kind of event, from which sentences, the grammar and proofs are derived.

    A form is the sentence with slots: `{who}` (names or a pronoun), `{verb}`, `{be}` (is, are),
    `{negation}`, `{at}` (in, at), `{or_at}` (read, never written), `{place}`, `{second}` (the other
    of two places), `{things}` (one or two objects, or "them"), `{thing}`, `{also}`, `{to}`, and
    `{there}` (where it happened, if that is told).

    Attributes:
        name: Name in recipes.
        concept: The paper's concept, counted in supports.
        form: The sentence.
        proof: Statement of the event in a proof. `{where}` is the place if one is told.
        verbs: Verbs in the past tense, as Dyna-bAbI has them.
        also_read: Further verbs that are read, never written: those of bAbI 1.0 and small
            variations.
        denied: Verbs after "did not", for events that can be denied so.
        denied_also_read: Further ones that are read.
        denied_proof: Text after "does not" in a proof.
        double_object: The other order of the paper's Table 5, "gave Mary the milk".
        there: True if a sentence may end in "there", as in bAbI 1.0.
        later: True if it was added after the papers' recipes. Its words are then part of a recipe's
            digest only if they differ from the defaults, so that a new event does not change
            datasets without it.
    """

    name: str
    concept: str
    form: str
    proof: str
    verbs: tuple[str, ...] = ()
    also_read: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    denied_also_read: tuple[str, ...] = ()
    denied_proof: str = ""
    double_object: str = ""
    there: bool = False
    later: bool = False

    @property
    def handles(self) -> bool:
        """True if it is about objects. All other kinds place a person."""
        return "{thing" in self.form

    @property
    def takes_two(self) -> bool:
        """True if it can be said of two objects at once, the CONJ of things."""
        return "{things}" in self.form


EVENT_TYPES: dict[Kind, EventType] = {
    "move": EventType(
        "MOVE",
        "MOVE",
        "{who} {verb} to the {place}.",
        "{who} {be} in the {place}",
        verbs=("journeyed", "moved", "travelled", "went", "went back"),
        also_read=("traveled", "walked", "ran", "returned"),
    ),
    # The paper counts "Bill is in the bedroom" as MOVE (its mix(T12) example: {MOVE, POSS, COREF}).
    "in": EventType("AFFIRM", "MOVE", "{who} {be} {at} the {place}.", "{who} {be} in the {place}"),
    "not": EventType(
        "NEGATE",
        "NEGATE",
        "{who} {be} {negation} {at} the {place}.",
        "{who} {be} not in the {place}",
    ),
    "either": EventType(
        "INDEF",
        "INDEF",
        "{who} {be} either {at} the {place} or {or_at}the {second}.",
        "{who} {be} in the {place} or the {second}",
    ),
    "grab": EventType(
        "GRAB",
        "GRAB",
        "{who} {verb} {things}{there}.",
        "{who} takes {things}{where}",
        verbs=("grabbed", "picked up", "took", "got"),
        denied=("grab", "pick up", "take", "get"),
        denied_proof="take {things}",
        there=True,
    ),
    "drop": EventType(
        "DROP",
        "DROP",
        "{who} {verb} {things}{there}.",
        "{who} leaves {things}{where_or_there}",
        verbs=("discarded", "dropped", "left", "put down"),
        also_read=("let go of",),
        denied=("discard", "drop", "leave", "put down"),
        denied_also_read=("let go of",),
        denied_proof="leave {things}",
        there=True,
    ),
    "give": EventType(
        "GIVE",
        "GIVE",
        "{who} {verb} {things} to {to}{there}.",
        "{who} gives {things} to {to}{where}, so they are in one place",
        verbs=("gave", "handed", "passed"),
        denied=("give", "hand", "pass"),
        denied_proof="give {things} to {to}",
        double_object="{who} {verb} {to} {things}{there}.",
    ),
}
"""All event types, defined only here. Their effects are in `generator/simulator.py` (the hidden
world), `reasoner/knowledge.py` (what a reader knows) and, independently,
`reasoner/second_solver.py`.
"""

POSITIONAL: frozenset[str] = frozenset(
    kind for kind, event_type in EVENT_TYPES.items() if not event_type.handles
)
"""Kinds that state something about where their subjects are now."""

KINDS: dict[str, Kind] = {event_type.name: kind for kind, event_type in EVENT_TYPES.items()}
"""Recipes' names of the kinds."""

EVENTS = tuple(event_type.name for event_type in EVENT_TYPES.values() if event_type.verbs)
"""The paper's events, which are actions of persons. The other kinds are constructs, or another
wording of MOVE.
"""

HANDLING = tuple(event_type.name for event_type in EVENT_TYPES.values() if event_type.handles)
"""The events that are about objects."""

AFFIRM = EVENT_TYPES["in"].name
"""The wording "Mary is in the park". The paper counts such sentences as MOVE, so AFFIRM is not a
separate concept.
"""

CONSTRUCTS = ("COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF")

QuestionKind = Literal["where-P", "where-O", "where-was-O", "yes-no", "list", "counting", "give-qs"]
GiveForm = Literal["", "gave-to", "gave", "received", "given-to", "given"]

QUESTIONS: tuple[QuestionKind, ...] = get_args(QuestionKind)
GIVE_FORMS: tuple[GiveForm, ...] = ("gave-to", "gave", "received", "given-to", "given")


class Event(NamedTuple):
    """A sentence. It is a named tuple because creating one is five times as fast as a frozen
    dataclass, and stories consist mainly of events.

    Attributes:
        kind: Kind of the sentence.
        who: Its subjects: one, or two for CONJ.
        places: Where; two for "either", none for events that name no place; for objects that change
            hands, where that was.
        thing: The object that changes hands.
        to: Who receives it.
        pronoun: The subjects are a pronoun, so the sentence before is needed to know them.
        also: A second object to which the same happens.
        them: The two objects are a pronoun.
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
        """Objects that it is about."""
        if self.also:
            return (self.thing, self.also)
        return (self.thing,) if self.thing else ()

    @property
    def compound(self) -> bool:
        """True if a pronoun refers to two persons or objects."""
        return self.pronoun and (self.them or len(self.who) > 1)

    def concepts(self) -> tuple[str, ...]:
        """The paper's concepts in this sentence."""
        return _CONCEPTS[self]


K = TypeVar("K")
V = TypeVar("V")

DIFFERENT = 1 << 14
"""Maximum number of different sentences cached with everything derived from them. Stories use a few
thousand.
"""


class Remembered(dict[K, V]):
    """Memoised function of one argument, whose cache is cleared when it has too many values.

    A subclass of dict, which takes half the time of `functools.lru_cache` to look up one of a
    thousand sentences.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[K], V]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: K) -> V:
        if len(self) >= DIFFERENT:
            self.clear()
        value = self[key] = self._function(key)
        return value


def _concepts(event: Event) -> tuple[str, ...]:
    event_type = EVENT_TYPES[event.kind]
    concepts = [event_type.concept]
    if len(event.who) > 1 or (event.also and event_type.takes_two):
        concepts.append("CONJ")
    if event.pronoun:
        concepts.append("COREF")
    if event.thing:
        if event.denied:
            concepts.append("NEGATE")
        if event.places:
            concepts.append("INDEF" if len(event.places) > 1 else "MOVE")
    return tuple(concepts)


_CONCEPTS = Remembered(_concepts)


_SHARED: Remembered[tuple[str, ...], tuple[str, ...]] = Remembered(lambda names: names)
"""Interned tuples of names, which saves memory."""


def _placing(names: tuple[Kind, str, str, bool]) -> Event:
    kind, person, place, pronoun = names
    return Event(kind, _SHARED[person,], _SHARED[place,], pronoun=pronoun)


def _placing_two(names: tuple[Kind, tuple[str, ...], tuple[str, ...], bool]) -> Event:
    kind, who, places, pronoun = names
    return Event(kind, _SHARED[who], _SHARED[places], pronoun=pronoun)


def _handling(names: tuple[Kind, str, str, str, bool]) -> Event:
    kind, person, thing, to, pronoun = names
    return Event(kind, _SHARED[person,], thing=thing, to=to, pronoun=pronoun)


PLACING = Remembered(_placing)
"""Sentence that says where a person is, by its kind, the person, the place, and whether it has a
pronoun.
"""

PLACING_TWO = Remembered(_placing_two)
"""The sentence that says where two persons are, or in which of two places, by its kind, persons,
places and pronoun.
"""

HANDLED = Remembered(_handling)
"""Sentence about a person and an object, by its kind, the person, the object, the receiver and
whether it has a pronoun.
"""


class Question(NamedTuple):
    """A question.

    Attributes:
        kind: The paper's question type.
        person: Person that it is about. For give questions, the giver.
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


def give_question(form: GiveForm, giver: str, thing: str, to: str) -> Question:
    """Build the question of one of the five forms about a gift."""
    if form == "gave-to":
        return Question("give-qs", thing=thing, other=to, form=form)
    if form == "given-to":
        return Question("give-qs", giver, thing, form=form)
    if form == "given":
        return Question("give-qs", giver, other=to, form=form)
    return Question("give-qs", thing=thing, form=form)


@dataclass(frozen=True, slots=True)
class PlacedQuestion:
    """A question at its position in a story.

    Attributes:
        question: The question.
        after: Number of sentences before it.
        line: Its line number within the story.
        answer: Answer in the text, if any.
        support: Supporting line numbers in the text.
        at: Line in the file, for messages.
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
        questions: The questions, in order.
        at: The line of each sentence in its file, for messages.
    """

    events: tuple[Event, ...]
    lines: tuple[int, ...]
    questions: tuple[PlacedQuestion, ...] = field(default=())
    at: tuple[int, ...] = ()


@cache
def listed(concepts: frozenset[str]) -> str:
    """Join concepts into one trait, in alphabetical order, with plus signs between them."""
    return "+".join(sorted(concepts))


def composition(events: Iterable[Event]) -> str:
    """Join the concepts of some sentences into one trait.

    >>> composition([Event("move", ("Mary",), ("park",)), Event("grab", ("Mary",), thing="milk", pronoun=True)])
    'COREF+GRAB+MOVE'
    """
    return listed(frozenset().union(*map(_CONCEPTS.__getitem__, events)))
