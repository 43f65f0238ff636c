"""The hidden world behind a story: it makes events possible, and never answers a question.

Where somebody or something is at the start is decided when it first matters. Every sentence about a place is a real
change of place, as in the reference's simulator, so that the strict reading never contradicts a story of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import ClassVar

from taskloom.seeding import Random
from taskloom.suites.babi.events import Event, Kind
from taskloom.suites.babi.vocabulary import Vocabulary

ACTION: dict[str, Kind] = {
    "MOVE": "move",
    "AFFIRM": "in",
    "NEGATE": "not",
    "INDEF": "either",
    "GRAB": "grab",
    "DROP": "drop",
    "GIVE": "give",
}
TRIES = 12
"""Draws of an action before the stage says that nothing can be done."""


class Palette:
    """What may happen, with weights: events and constructs, what a pronoun may say, and what two may do together."""

    __slots__ = ("conj", "coref", "weights")

    def __init__(self, weights: Mapping[str, float], coref: Mapping[str, float], conj: Mapping[str, float]) -> None:
        self.weights = _cumulative(weights)
        self.coref = _cumulative(coref)
        self.conj = _cumulative(conj)

    def draw(self, rng: Random, among: tuple[tuple[str, float], ...] | None = None) -> str:
        """One of them, by weight."""
        table = self.weights if among is None else among
        at = rng.random() * table[-1][1]
        for name, upto in table:
            if at < upto:
                return name
        return table[-1][0]


def _cumulative(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    kept = [(name, weight) for name, weight in weights.items() if weight > 0]
    return tuple(zip((n for n, _ in kept), accumulate(w for _, w in kept), strict=True))


class Stage:
    """Who is where and holds what, and what must be left alone because a proof stands on it.

    Attributes:
        still: Persons who may not change place.
        guarded: Persons whose present stay carries a proof: nothing may tie it to another stay.
        kept: Objects that nobody may touch.
        idle: Persons who may not touch anything.
    """

    __slots__ = ("guarded", "holder", "idle", "kept", "left", "lies", "rng", "still", "vocabulary", "where")

    def __init__(self, vocabulary: Vocabulary, rng: Random) -> None:
        self.vocabulary = vocabulary
        self.rng = rng
        self.where: dict[str, str] = {}
        self.holder: dict[str, str] = {}
        self.lies: dict[str, str] = {}
        self.left: set[str] = set()  # objects that lie where a guarded stay left them
        self.still: set[str] = set()
        self.guarded: set[str] = set()
        self.kept: set[str] = set()
        self.idle: set[str] = set()

    def act(self, palette: Palette, room: int = 2) -> list[Event]:
        """One or two sentences (COREF and COMPOUND take two) that can happen now, already performed; none if nothing can."""
        for _ in range(TRIES):
            name = palette.draw(self.rng)
            if name == "COREF":
                done = self._coref(palette) if room > 1 else []
            elif name == "CONJ":
                done = self._pair(palette, None)
            elif name == "COMPOUND":
                done = self._compound(palette) if room > 1 else []
            else:
                done = self._one(ACTION[name], None)
            if done:
                return done
        return []

    def perform(self, event: Event) -> None:
        """Let an event happen that is known to be possible; `places[0]` is where an "either" is true."""
        if event.kind == "grab":
            self.holder[event.thing] = event.who[0]
            if event.thing in self.lies:
                self.where[event.who[0]] = self.lies[event.thing]
        elif event.kind == "drop":
            self.holder.pop(event.thing)
            self.lies[event.thing] = self.place(event.who[0])
            (self.left.add if event.who[0] in self.guarded else self.left.discard)(event.thing)
        elif event.kind == "give":
            self.holder[event.thing] = event.to
        elif event.kind != "not":
            for person in event.who:
                self.where[person] = event.places[0]

    def place(self, person: str) -> str:
        """Where somebody is; decided now if it never mattered before."""
        found = self.where.get(person)
        if found is None:
            found = self.where[person] = self._any(self.vocabulary.places)
        return found

    def _any(self, things: tuple[str, ...] | list[str]) -> str:
        return things[int(self.rng.random() * len(things))]

    def _one(self, kind: Kind, who: str | None, pronoun: bool = False) -> list[Event]:
        made = self._MAKERS[kind](self, who)
        if made is None:
            return []
        event = Event(made.kind, made.who, made.places, made.thing, made.to, True) if pronoun else made
        self.perform(event)
        if kind == "either" and self.rng.random() < 0.5:
            event = Event("either", event.who, (event.places[1], event.places[0]), pronoun=pronoun)
        return [event]

    def _coref(self, palette: Palette) -> list[Event]:
        first = self._one(ACTION[palette.draw(self.rng, palette.coref)], None)
        if not first:
            return []
        for _ in range(TRIES):
            second = self._one(ACTION[palette.draw(self.rng, palette.coref)], first[0].who[0], pronoun=True)
            if second:
                return first + second
        return first

    def _pair(self, palette: Palette, who: tuple[str, ...] | None) -> list[Event]:
        """Two persons at once: they go, are, or are no longer somewhere."""
        kind = ACTION[palette.draw(self.rng, palette.conj)]
        if who is None:
            free = [p for p in self.vocabulary.persons if p not in self.still]
            if len(free) < 2:
                return []
            who = tuple(self.rng.sample(free, 2))
        taken = {self.where.get(p) for p in who}
        places = [x for x in self.vocabulary.places if x not in taken]
        if not places:
            return []
        if kind == "not":
            # "No longer there" is true of both only if they have been in one place.
            left = taken - {None} or {self._any(self.vocabulary.places)}
            if len(left) > 1:
                return []
            for person in who:
                self.where[person] = self._any([x for x in self.vocabulary.places if x not in left])
            return [Event("not", who, tuple(left))]  # type: ignore[arg-type]
        event = Event(kind, who, (self._any(places),))
        self.perform(event)
        return [event]

    def _compound(self, palette: Palette) -> list[Event]:
        first = self._pair(palette, None)
        if not first:
            return []
        second = self._pair(palette, first[0].who)
        if not second:
            return first
        return [first[0], Event(second[0].kind, second[0].who, second[0].places, pronoun=True)]

    def _mover(self, who: str | None) -> str | None:
        if who is not None:
            return None if who in self.still else who
        person = self._any(self.vocabulary.persons)
        if person not in self.still:
            return person
        free = [p for p in self.vocabulary.persons if p not in self.still]
        return self._any(free) if free else None

    def _elsewhere(self, person: str) -> str:
        here = self.where.get(person)
        while True:
            place = self._any(self.vocabulary.places)
            if place != here:
                return place

    def _move(self, who: str | None) -> Event | None:
        person = self._mover(who)
        return None if person is None else Event("move", (person,), (self._elsewhere(person),))

    def _in(self, who: str | None) -> Event | None:
        person = self._mover(who)
        return None if person is None else Event("in", (person,), (self._elsewhere(person),))

    def _not(self, who: str | None) -> Event | None:
        person = self._mover(who)
        if person is None:
            return None
        old = self.place(person)
        self.where[person] = self._elsewhere(person)
        return Event("not", (person,), (old,))

    def _either(self, who: str | None) -> Event | None:
        person = self._mover(who)
        if person is None:
            return None
        here = self.where.get(person)
        places = [x for x in self.vocabulary.places if x != here]
        return Event("either", (person,), tuple(self.rng.sample(places, 2))) if len(places) > 1 else None

    def _grab(self, who: str | None) -> Event | None:
        free = [o for o in self.vocabulary.objects if o not in self.holder and o not in self.kept]
        if not free:
            return None
        persons = self.vocabulary.persons if who is None else (who,)
        able = []
        for person in persons:
            if person in self.idle:
                continue
            for thing in free:
                if thing not in self.lies:
                    able.append((person, thing))
                elif person not in self.guarded and thing not in self.left:
                    here = self.lies[thing]
                    if self.where.get(person, here) == here:
                        able.append((person, thing))
        if not able:
            return None
        person, thing = able[int(self.rng.random() * len(able))]
        return Event("grab", (person,), thing=thing)

    def _held(self, who: str | None) -> list[tuple[str, str]]:
        # The order of the vocabulary, not of the dict, whose order depends on what happened before.
        return [
            (self.holder[o], o)
            for o in self.vocabulary.objects
            if o in self.holder and o not in self.kept and self.holder[o] not in self.idle
            if who is None or self.holder[o] == who
        ]

    def _drop(self, who: str | None) -> Event | None:
        held = self._held(who)
        if not held:
            return None
        person, thing = held[int(self.rng.random() * len(held))]
        return Event("drop", (person,), thing=thing)

    def _give(self, who: str | None) -> Event | None:
        held = [(p, o) for p, o in self._held(who) if p not in self.guarded]
        if not held:
            return None
        person, thing = held[int(self.rng.random() * len(held))]
        here = self.place(person)
        near = [
            q
            for q in self.vocabulary.persons
            if q != person and q not in self.guarded and q not in self.idle and self.where.get(q, here) == here
        ]
        if not near:
            return None
        to = self._any(near)
        self.where[to] = here
        return Event("give", (person,), thing=thing, to=to)

    _MAKERS: ClassVar[dict[Kind, Callable[[Stage, str | None], Event | None]]] = {
        "move": _move,
        "in": _in,
        "not": _not,
        "either": _either,
        "grab": _grab,
        "drop": _drop,
        "give": _give,
    }
