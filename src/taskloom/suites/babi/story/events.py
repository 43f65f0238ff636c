"""The content of a story: events, constructs and questions, with the paper's names for them.

Each sentence is an `Event` of a kind described in `EVENT_TYPES`. Constructs are not separate events
but ways to state any event:

- COREF: the subject is a pronoun.
- CONJ: there are two subjects ("Mary and John went") or, if one person handles things, two objects
  ("took the apple and the milk"). Two persons never take, leave or give the same object, because it
  would be unclear who holds it afterwards.
- COMPOUND: COREF and CONJ combined, a pronoun for two persons or objects ("they went", "she dropped
  them").
- NEGATE: "is not in the park" for a place. For an object, "did not take the milk": the event did
  not happen, and nothing else follows.
- INDEF: "is either in A or B" for a place. For an object, "took the milk in either A or B": the
  event happened in one of the two places.

An event type is data, above all a sentence with slots. The writer, the grammar, the proofs and the
recipe fields all read it and call functions of this module, so that a new event is described only
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeVar, get_args

Kind = Literal["move", "in", "not", "either", "grab", "drop", "give"]
"""Kind of a sentence: a person went to a place, is in it, is not (or no longer) in it, or is in one
of two places; or a person takes, leaves or gives away an object.
"""


@dataclass(frozen=True, slots=True)
class EventType:
    """A kind of event. Sentences, the grammar and proofs are derived from it.

    A form is a sentence with slots: `{who}` (names or a pronoun), `{verb}`, `{be}` (is, are),
    `{negation}`, `{at}` (in, at), `{or_at}` (only when parsing), `{place}`, `{second}` (the other
    of two places), `{things}` (one or two objects, or "them"), `{thing}`, `{also}`, `{to}`, and
    `{there}` (the place of the event, if it is told).

    Attributes:
        name: Name in recipes.
        concept: The paper's concept, which is counted in supports.
        form: The sentence.
        proof: Statement of the event in a proof. `{where}` is the place, if it is told.
        verbs: Verbs in the past tense, as in Dyna-bAbI.
        also_read: Verbs that are parsed but never written: those of bAbI 1.0 and small variations.
        denied: Verbs after "did not", for events that can be denied this way.
        denied_also_read: Verbs after "did not" that are parsed but never written.
        denied_proof: Text after "does not" in a proof.
        double_object: The word order of the paper's Table 5, "gave Mary the milk".
        there: True if a sentence may end in "there", as in bAbI 1.0.
        later: True if the event was added after the papers' recipes. Its words are part of a
            recipe's digest only if they differ from the defaults, so that adding an event does not
            change datasets without it.
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
        """True if the event is about objects. All other kinds place a person."""
        return "{thing" in self.form

    @property
    def takes_two(self) -> bool:
        """True if the event may have two objects, as in CONJ."""
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
"""All event types. Their effects are defined in `generator/simulator.py` (the hidden world),
`reasoner/knowledge.py` (what a reader knows) and, independently, `reasoner/second_solver.py`.
"""

POSITIONAL: frozenset[str] = frozenset(
    kind for kind, event_type in EVENT_TYPES.items() if not event_type.handles
)
"""Kinds that state where their subjects are now."""

KINDS: dict[str, Kind] = {event_type.name: kind for kind, event_type in EVENT_TYPES.items()}
"""Maps the names in recipes to kinds."""

EVENTS = tuple(event_type.name for event_type in EVENT_TYPES.values() if event_type.verbs)
"""The paper's events, which are actions of persons. The other kinds are constructs, or another
wording of MOVE.
"""

HANDLING = tuple(event_type.name for event_type in EVENT_TYPES.values() if event_type.handles)
"""The events about objects."""

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
    """A sentence. This is a named tuple because stories consist mainly of events, and creating one
    is five times as fast as creating a frozen dataclass.

    Attributes:
        kind: Kind of the sentence.
        who: Its subjects: one, or two for CONJ.
        places: Places in the sentence: two for "either", none for events that name no place. For
            objects that change hands, the place where this happens.
        thing: The object that changes hands.
        to: Person who receives the object.
        pronoun: True if the subjects are a pronoun, so that the previous sentence is needed to
            resolve it.
        also: A second object to which the same happens.
        them: True if the two objects are a pronoun.
        denied: True if the event did not happen ("did not take").
        text: The sentence as shown to the reader.
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
        """The objects in the sentence."""
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
"""Maximum number of distinct sentences cached with everything derived from them. Stories use a few
thousand.
"""


class Remembered(dict[K, V]):
    """Memoised function of one argument. Its cache is cleared when it exceeds a size.

    As a subclass of dict, it looks up one of a thousand sentences in half the time of
    `functools.lru_cache`.
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
"""Interned tuples of names, to save memory."""


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
"""Cached sentences that state where a person is. Keys are the kind, the person, the place, and
whether the subject is a pronoun.
"""

PLACING_TWO = Remembered(_placing_two)
"""Cached sentences that state where two persons are, or in which of two places. Keys are the kind,
persons, places, and whether the subject is a pronoun.
"""

HANDLED = Remembered(_handling)
"""Cached sentences about a person and an object. Keys are the kind, the person, the object, the
receiver, and whether the subject is a pronoun.
"""


class Question(NamedTuple):
    """A question.

    Attributes:
        kind: The paper's name for the question type.
        person: Person that it is about. In give questions, the giver.
        thing: Object that it is about.
        place: Place that it names.
        other: The receiver, in give questions.
        form: Which of the five give forms.
        text: The question as shown to the reader.
    """

    kind: QuestionKind
    person: str = ""
    thing: str = ""
    place: str = ""
    other: str = ""
    form: GiveForm = ""
    text: str = ""


def give_question(form: GiveForm, giver: str, thing: str, to: str) -> Question:
    """Build a question about a gift, in one of the five forms."""
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
        line: Line number within the story.
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
    """Sentences with questions between them.

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
    """Join concepts to a trait, in alphabetical order, separated by plus signs."""
    return "+".join(sorted(concepts))


def composition(events: Iterable[Event]) -> str:
    """Join the concepts of sentences to a trait.

    >>> composition([Event("move", ("Mary",), ("park",)), Event("grab", ("Mary",), thing="milk", pronoun=True)])
    'COREF+GRAB+MOVE'
    """
    return listed(frozenset().union(*map(_CONCEPTS.__getitem__, events)))
