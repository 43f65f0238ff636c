"""State of knowledge: exactly what a reader knows after some sentences.

Each stay of a person, from one sentence about where they are to the next, is a variable whose value
is a place. A sentence can only narrow the domain of one variable (MOVE: one place, NEGATE: all but
one, INDEF: two) or equate two variables (GIVE: giver and receiver; DROP, then GRAB of the same
object: the person who left it and the one who took it). A place named with GRAB, DROP or GIVE
narrows the stay in which the event happened. Denied events change nothing. So the possible worlds
are exactly the product, over classes of equal variables, of their intersected domains. Nothing is
approximated, and later sentences also add knowledge about earlier moments.

There are two readings. With `natural`, a sentence about where a person is replaces what was known
about them before, and there may be places that the story never names. `strict` adds the rules of
the reference code's simulator. Every such sentence is a real change of place: a person who "went to
the park" was not in the park before, one who "is no longer in the park" was there until now, and
one who "is either in A or B" was in neither. There are no places besides those named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn

from taskloom.core.errors import InputError
from taskloom.suites.babi.story.events import Event, Kind

Reading = Literal["natural", "strict"]

NOWHERE = "no place is left where this could be, after what was said before"


class Contradiction(InputError):  # noqa: N818 - the word for it
    """A contradiction in a story.

    Attributes:
        sentence: Index of the sentence that cannot be true.
        reason: The reason, as a clause.
    """

    def __init__(self, sentence: int, reason: str) -> None:
        super().__init__(f"sentence {sentence + 1}: {reason}")
        self.sentence = sentence
        self.reason = reason


class Handling(NamedTuple):
    """A sentence about an object that changes hands, or does not (`event.denied`)."""

    sentence: int
    event: Event
    thing: str

    def names(self, person: str) -> bool:
        """True if the sentence names that person."""
        return person in self.event.who or person == self.event.to

    def leaves(self, person: str) -> bool:
        """True if that person certainly does not have the object afterwards."""
        event = self.event
        return not event.denied and person != {"grab": event.who[0], "give": event.to}.get(
            event.kind, ""
        )


@dataclass(slots=True)
class Carry:
    """An object carried from one stay of its holder into the next.

    Attributes:
        before: The holder's stay before.
        after: The holder's stay after.
        sentence: The sentence that ended the first stay and began the second.
        handling: Index, among the object's handlings, of the one in which the holder got it.
        handlings: Number of handlings up to that point.
    """

    before: int
    after: int
    sentence: int
    handling: int
    handlings: int


@dataclass(slots=True)
class Thing:
    """State of knowledge about one object.

    Attributes:
        handlings: Sentences in which the object changes hands, or is said not to.
        last: Index of the last handling that was not denied, or -1.
        carries: Its changes of place.
        holder: Person who holds the object, if any.
        ground: Stay in which the object was left, or -1 for its initial place, which is never told.
    """

    handlings: list[Handling]
    carries: list[Carry]
    holder: str
    ground: int
    last: int = -1

    def since(self) -> tuple[int, ...]:
        """Return the sentences that show who has it or where it is: its last change of hands, and
        the denials since.
        """
        return tuple([h.sentence for h in self.handlings[max(self.last, 0) :]])


class Knowledge:
    """A reader's state of knowledge, updated by `tell` for each sentence.

    Attributes:
        places: Every place a sentence or question may name.
        reading: `natural` or `strict`.
        narrowings: For each variable, the domains (as bit masks over places) with the sentences
            that state them.
        links: For each variable, the variables it is equal to, with the sentences that together
            imply this.
        stay: Variable of each person's current stay.
        things: State of knowledge about each object.
        gifts: Every GIVE, in order.
        events: All sentences so far.
    """

    __slots__ = (
        "_domain",
        "_holds",
        "_parent",
        "bits",
        "events",
        "everywhere",
        "gifts",
        "links",
        "narrowings",
        "places",
        "reading",
        "stay",
        "things",
    )

    def __init__(self, places: Sequence[str], reading: Reading = "natural") -> None:
        self.places = tuple(places)
        self.reading: Reading = reading
        self.bits = {place: 1 << i for i, place in enumerate(self.places)}
        # The natural reading has one additional bit, for places that no sentence names.
        self.everywhere = (1 << (len(self.places) + (reading == "natural"))) - 1
        self.narrowings: list[list[tuple[int, int]]] = []
        self.links: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        self._parent: dict[int, int] = {}
        self._domain: list[int] = []
        self.stay: dict[str, int] = {}
        self.things: dict[str, Thing] = {}
        self.gifts: list[Handling] = []
        self.events: list[Event] = []
        self._holds: dict[str, list[str]] = {}

    def domain(self, variable: int) -> int:
        """Return the possible places of a variable as a bit mask."""
        return self._domain[self._root(variable)]

    def same(self, one: int, other: int) -> bool:
        """True if two variables are known to be equal."""
        return self._root(one) == self._root(other)

    def names(self, mask: int) -> list[str]:
        """Return the names of the places in a mask."""
        return [place for place, bit in self.bits.items() if mask & bit]

    def holding(self, person: str) -> list[str]:
        """Return the objects that a person holds, in the order in which they got them."""
        return list(self._holds.get(person, ()))

    def tell(self, event: Event) -> None:
        """Update with the next sentence.

        Raises:
            Contradiction: If the sentence contradicts earlier ones.
        """
        self.tell_all((event,))

    def tell_all(self, events: Iterable[Event]) -> Knowledge:
        """Update with several sentences.

        Raises:
            Contradiction: If a sentence contradicts earlier ones.
        """
        for sentence, event in enumerate(events, len(self.events)):
            self.events.append(event)
            kind, who, places, thing, to, _, _, also, _, denied = event
            if not thing:
                self._place(kind, who, places, sentence)
            elif denied:
                for person in (*who, to):
                    if person:
                        self._present(person)
                self._thing(thing).handlings.append(Handling(sentence, event, thing))
            else:
                if places or to:
                    self._meet(who[0], places, to, sentence)
                self._handle(event, thing, sentence)
                if also:
                    self._handle(event, also, sentence)
        return self

    def _place(
        self, kind: Kind, who: tuple[str, ...], places: tuple[str, ...], sentence: int
    ) -> None:
        named = 0
        for place in places:
            named |= self.bits[place]
        now = self.everywhere & ~named if kind == "not" else named
        for person in who:
            if self.reading == "strict":
                then = named if kind == "not" else self.everywhere & ~named
                self._narrow(self._present(person), then, sentence)
            if not now:
                raise Contradiction(sentence, NOWHERE)
            after = len(self._domain)
            self._domain.append(now)
            self.narrowings.append([(now, sentence)])
            holds = self._holds.get(person)
            if holds:
                for name in holds:
                    thing = self.things[name]
                    thing.carries.append(
                        Carry(self.stay[person], after, sentence, thing.last, len(thing.handlings))
                    )
            self.stay[person] = after

    def _meet(self, person: str, places: tuple[str, ...], to: str, sentence: int) -> None:
        """Record where objects change hands, and that giver and receiver are in the same place."""
        if places:
            named = 0
            for place in places:
                named |= self.bits[place]
            self._narrow(self._present(person), named, sentence)
        if to:
            self._equate(self._present(person), self._present(to), (sentence,))

    def _handle(self, event: Event, name: str, sentence: int) -> None:
        """Record that one object changes hands."""
        kind, person, thing = event.kind, event.who[0], self.things.get(name) or self._thing(name)
        if kind == "grab":
            self._grab(person, name, thing, sentence)
        elif kind == "drop":
            self._drop(person, name, thing, sentence)
        else:
            self._give(person, name, thing, sentence, event.to)
        handling = Handling(sentence, event, name)
        thing.last = len(thing.handlings)
        thing.handlings.append(handling)
        if kind == "give":
            self.gifts.append(handling)

    def _grab(self, person: str, name: str, thing: Thing, sentence: int) -> None:
        if thing.holder:
            since = thing.since()[0] + 1
            raise Contradiction(
                sentence,
                f"{person} cannot take the {name}, which {thing.holder} holds since sentence"
                f" {since}",
            )
        here = self._present(person)
        if thing.ground >= 0:
            self._equate(thing.ground, here, (*thing.since(), sentence))
        thing.holder = person
        self._holds.setdefault(person, []).append(name)

    def _drop(self, person: str, name: str, thing: Thing, sentence: int) -> None:
        if thing.holder != person:
            self._does_not_hold(person, name, thing, sentence, "leave")
        thing.ground = self._present(person)
        thing.holder = ""
        self._holds[person].remove(name)

    def _give(self, person: str, name: str, thing: Thing, sentence: int, to: str) -> None:
        if thing.holder != person:
            self._does_not_hold(person, name, thing, sentence, "give")
        thing.holder = to
        self._holds[person].remove(name)
        self._holds.setdefault(to, []).append(name)

    def _does_not_hold(
        self, person: str, name: str, thing: Thing, sentence: int, verb: str
    ) -> NoReturn:
        whose = f"{thing.holder} holds" if thing.holder else "nobody holds"
        raise Contradiction(sentence, f"{person} cannot {verb} the {name}, which {whose}")

    def _present(self, person: str) -> int:
        stay = self.stay.get(person)
        if stay is None:
            stay = self.stay[person] = self._variable()
        return stay

    def _thing(self, name: str) -> Thing:
        thing = self.things.get(name)
        if thing is None:
            thing = self.things[name] = Thing([], [], "", -1)
        return thing

    def _variable(self) -> int:
        new = len(self._domain)
        self._domain.append(self.everywhere)
        self.narrowings.append([])
        return new

    def _root(self, variable: int) -> int:
        while variable in self._parent:
            variable = self._parent[variable]
        return variable

    def _narrow(self, variable: int, mask: int, sentence: int) -> None:
        self.narrowings[variable].append((mask, sentence))
        root = self._root(variable)
        self._settle(root, self._domain[root] & mask, sentence)

    def _equate(self, one: int, other: int, sentences: tuple[int, ...]) -> None:
        self.links.setdefault(one, []).append((other, sentences))
        self.links.setdefault(other, []).append((one, sentences))
        a, b = self._root(one), self._root(other)
        if a != b:
            both = self._domain[a] & self._domain[b]
            self._parent[b] = a
            self._settle(a, both, sentences[-1])

    def _settle(self, root: int, mask: int, sentence: int) -> None:
        if not mask:
            raise Contradiction(sentence, NOWHERE)
        self._domain[root] = mask
