"""The hidden world behind a story: it makes events possible, and never answers a question.

Where somebody or something is at the start is decided when it first matters. Every sentence about a place is a real
change of place, as in the reference's simulator, so that the strict reading never contradicts a story of ours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from math import inf
from typing import ClassVar

from taskloom.seeding import Random
from taskloom.suites.babi.story.events import HANDLING, KINDS, Event, Kind
from taskloom.suites.babi.story.vocabulary import Vocabulary
from taskloom.suites.draws import pick, sample

FOLLOWS: dict[Kind, tuple[str, ...]] = {"grab": ("DROP", "GIVE"), "drop": ("GRAB",)}
"""What one person can do with the same two objects next: the second sentence of COMPOUND ("Then she dropped them")."""

TRIES = 12
"""Draws of an action before the simulator says that nothing can be done."""


class WeightTable:
    """Names to draw from, by weight; `StoryGroup` refuses a group in which one that is drawn from would be empty."""

    __slots__ = ("bounds", "names", "total")

    def __init__(self, weights: Mapping[str, float]) -> None:
        positive = {name: weight for name, weight in weights.items() if weight > 0}
        bounds = list(accumulate(positive.values()))
        self.names = tuple(positive)
        self.total = bounds[-1] if bounds else 0.0
        self.bounds = [*bounds[:-1], inf]  # rounding may bring a draw up to the total: that is the last name's

    def draw(self, rng: Random) -> str:
        """Draw one of the names."""
        return self.names[bisect_right(self.bounds, rng.random() * self.total)]


class ActionWeights:
    """What may happen, with weights: events and constructs, and the topics of each construct, what it may be said of."""

    __slots__ = ("_topics", "conj", "coref", "plain", "weights")

    def __init__(self, weights: Mapping[str, float], topics: Mapping[str, Mapping[str, float]]) -> None:
        self.weights = WeightTable(weights)
        self.coref = WeightTable(topics["COREF"])
        self.conj = WeightTable(topics["CONJ"])
        self._topics = {name: WeightTable(topics[name]) for name in ("NEGATE", "INDEF")}
        # What each name is if it is said of one subject in one way, which is most of a story.
        self.plain = [KINDS[n] if n in KINDS and n not in self._topics else None for n in self.weights.names]

    def draw_topic(self, name: str, rng: Random) -> str:
        """Draw what a NEGATE or INDEF sentence is about: where somebody is (MOVE), or what they do; MOVE for all else."""
        table = self._topics.get(name)
        return "MOVE" if table is None else table.names[0] if len(table.names) == 1 else table.draw(rng)


class Simulator:
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

    def settle(self) -> None:
        """Draw where everybody and everything is now, as the reference does; fewer people then are where a gift needs one."""
        for person in self.vocabulary.persons:
            self.place(person)
        for thing in self.vocabulary.objects:
            self.lies[thing] = pick(self.rng, self.vocabulary.places)

    def act(self, weights: ActionWeights, room: int = 2) -> list[Event]:
        """Draw and perform what can happen now: one or two sentences (COREF and COMPOUND take two); none if nothing can."""
        table, random = weights.weights, self.rng.random
        for _ in range(TRIES):
            at = bisect_right(table.bounds, random() * table.total)
            kind = weights.plain[at]
            if kind is not None:
                event = self._MAKERS[kind](self, None)
                if event is None:
                    continue
                self.perform(event)
                return [event]
            name = table.names[at]
            if name == "COREF":
                done = self._coref(weights) if room > 1 else []
            elif name == "CONJ":
                done = self._conj(weights.conj.draw(self.rng), weights)
            elif name == "COMPOUND":
                done = self._compound(weights) if room > 1 else []
            else:
                done = self._say(name, None, weights)
            if done:
                return done
        return []

    def perform(self, event: Event) -> None:
        """Apply an event that is known to be possible; `places[0]` is where an "either" is true."""
        if event.thing:
            if not event.denied:
                self._handle(event, event.thing)
                if event.also:
                    self._handle(event, event.also)
        elif event.kind != "not":
            for person in event.who:
                self.where[person] = event.places[0]

    def _handle(self, event: Event, thing: str) -> None:
        if event.kind == "grab":
            self.holder[thing] = event.who[0]
            if thing in self.lies:
                self.where[event.who[0]] = self.lies[thing]
        elif event.kind == "drop":
            self.holder.pop(thing)
            self.lies[thing] = self.place(event.who[0])
            (self.left.add if event.who[0] in self.guarded else self.left.discard)(thing)
        else:
            self.holder[thing] = event.to

    def place(self, person: str) -> str:
        """Return where somebody is; drawn now if it never mattered before."""
        place = self.where.get(person)
        if place is None:
            place = self.where[person] = pick(self.rng, self.vocabulary.places)
        return place

    def _say(self, name: str, who: str | None, weights: ActionWeights, pronoun: bool = False) -> list[Event]:
        """Draw a sentence with one subject: an event, or NEGATE, INDEF or AFFIRM."""
        of = weights.draw_topic(name, self.rng)
        if of == "MOVE":
            return self._one(KINDS[name], who, pronoun)
        if name == "NEGATE":
            return self._denied(KINDS[of], who, pronoun)
        event = self._MAKERS[KINDS[of]](self, who)
        return self._somewhere(event._replace(pronoun=pronoun)) if event else []

    def _denied(self, kind: Kind, who: str | None, pronoun: bool = False) -> list[Event]:
        """Draw a denial: somebody does not take what they do not hold, or does not leave or give away what they do."""
        others = [p for p in self.vocabulary.persons if p not in self.idle]
        if kind != "grab":
            able = self._in_hands(who)
        else:
            things = [o for o in self.vocabulary.objects if o not in self.kept]
            persons = others if who is None else [p for p in others if p == who]
            able = [(p, o) for p in persons for o in things if self.holder.get(o) != p]
        if not able:
            return []
        person, thing = pick(self.rng, able)
        receivers = [p for p in others if p != person] if kind == "give" else [""]
        if not receivers:
            return []
        return [Event(kind, (person,), thing=thing, to=pick(self.rng, receivers), pronoun=pronoun, denied=True)]

    def _somewhere(self, event: Event) -> list[Event]:
        """Apply an event with objects that is told to have happened in one of two places."""
        if event.who[0] in self.guarded:
            return []
        self.perform(event)
        here = self.place(event.who[0])
        places = [here, self._elsewhere(event.who[0])]
        self.rng.shuffle(places)
        return [event._replace(places=tuple(places))]

    def _one(self, kind: Kind, who: str | None, pronoun: bool = False) -> list[Event]:
        event = self._MAKERS[kind](self, who)
        if event is None:
            return []
        if pronoun:
            event = event._replace(pronoun=True)
        self.perform(event)
        if kind == "either" and self.rng.random() < 0.5:
            event = Event("either", event.who, (event.places[1], event.places[0]), pronoun=pronoun)
        return [event]

    def _coref(self, weights: ActionWeights) -> list[Event]:
        first = self._say(weights.coref.draw(self.rng), None, weights)
        if not first or not self.vocabulary.clear(first[0].who[0], first[0].to):
            return first
        for _ in range(TRIES):
            second = self._say(weights.coref.draw(self.rng), first[0].who[0], weights, pronoun=True)
            if second:
                return first + second
        return first

    def _conj(self, name: str, weights: ActionWeights) -> list[Event]:
        """Draw two at once: two persons go somewhere, or one person handles two objects."""
        of = weights.draw_topic(name, self.rng)
        if name in HANDLING or (name == "INDEF" and of != "MOVE"):
            event = self._two(KINDS[name if name in HANDLING else of], None)
            if event is None:
                return []
            if name == "INDEF":
                return self._somewhere(event)
            self.perform(event)
            return [event]
        if of != "MOVE":
            return self._neither() if of == "GRAB" else []
        return self._pair(KINDS[name], None)

    def _neither(self) -> list[Event]:
        """Draw two persons who do not take something; neither of them holds it."""
        things = [o for o in self.vocabulary.objects if o not in self.kept]
        persons = [p for p in self.vocabulary.persons if p not in self.idle]
        if not things:
            return []
        thing = pick(self.rng, things)
        persons = [p for p in persons if p != self.holder.get(thing)]
        if len(persons) < 2:
            return []
        return [Event("grab", tuple(sample(self.rng, persons, 2)), thing=thing, denied=True)]

    def _two(self, kind: Kind, who: str | None) -> Event | None:
        """Draw one person who handles two objects at once."""
        able = self._reach(who) if kind == "grab" else self._in_hands(who)
        if kind == "give":
            able = [(p, o) for p, o in able if p not in self.guarded]
        pairs = [(p, a, b) for i, (p, a) in enumerate(able) for q, b in able[i + 1 :] if p == q]
        if kind == "grab":
            # What nobody touched yet may be anywhere; what lies somewhere must lie where the other does.
            pairs = [
                (p, a, b)
                for p, a, b in pairs
                if not (a in self.lies and b in self.lies) or self.lies[a] == self.lies[b]
            ]
        if not pairs:
            return None
        person, one, other = pick(self.rng, pairs)
        to = self._receiver(person) if kind == "give" else ""
        if kind == "give" and not to:
            return None
        return Event(kind, (person,), thing=one, also=other, to=to)

    def _pair(self, kind: Kind, who: tuple[str, ...] | None) -> list[Event]:
        """Draw two persons at once: they go, are, may be, or are no longer somewhere."""
        if who is None:
            free = [p for p in self.vocabulary.persons if p not in self.still]
            if len(free) < 2:
                return []
            who = tuple(sample(self.rng, free, 2))
        taken = {self.where.get(p) for p in who}
        places = [x for x in self.vocabulary.places if x not in taken]
        if not places:
            return []
        if kind == "not":
            # "No longer there" is true of both only if they have been in one place.
            left = taken - {None} or {pick(self.rng, self.vocabulary.places)}
            if len(left) > 1:
                return []
            for person in who:
                self.where[person] = pick(self.rng, [x for x in self.vocabulary.places if x not in left])
            return [Event("not", who, tuple(left))]  # type: ignore[arg-type]
        if kind == "either":
            if len(places) < 2:
                return []
            either = tuple(sample(self.rng, places, 2))
            for person in who:
                self.where[person] = pick(self.rng, either)  # each for themselves
            return [Event(kind, who, either)]
        event = Event(kind, who, (pick(self.rng, places),))
        self.perform(event)
        return [event]

    def _compound(self, weights: ActionWeights) -> list[Event]:
        """Draw two at once, and then the same two again by a pronoun."""
        name = weights.conj.draw(self.rng)
        if name in HANDLING:
            return self._them(KINDS[name], weights)
        first = self._pair(KINDS[name], None)
        if not first:
            return []
        for _ in range(TRIES):
            name = weights.conj.draw(self.rng)
            second = [] if name in HANDLING else self._pair(KINDS[name], first[0].who)
            if second:
                return [first[0], second[0]._replace(pronoun=True)]
        return first

    def _them(self, kind: Kind, weights: ActionWeights) -> list[Event]:
        first = self._two(kind, None)
        if first is None:
            return []
        self.perform(first)
        person = first.who[0]
        for _ in range(TRIES):
            name = weights.conj.draw(self.rng)
            able = FOLLOWS.get(kind, ())
            to = self._receiver(person) if name == "GIVE" and person not in self.guarded else ""
            if name in able and (name != "GIVE" or to) and (name != "GRAB" or person not in self.guarded):
                second = first._replace(kind=KINDS[name], to=to, pronoun=True, them=True)
                self.perform(second)
                return [first, second]
        return [first]

    def _mover(self, who: str | None) -> str | None:
        if who is not None:
            return None if who in self.still else who
        persons = self.vocabulary.persons
        person = persons[int(self.rng.random() * len(persons))]
        if person not in self.still:
            return person
        free = [p for p in persons if p not in self.still]
        return pick(self.rng, free) if free else None

    def _elsewhere(self, person: str) -> str:
        here, places, random = self.where.get(person), self.vocabulary.places, self.rng.random
        while True:
            place = places[int(random() * len(places))]
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
        return Event("either", (person,), tuple(sample(self.rng, places, 2))) if len(places) > 1 else None

    def _reach(self, who: str | None) -> list[tuple[str, str]]:
        """List who could take what."""
        free = [o for o in self.vocabulary.objects if o not in self.holder and o not in self.kept]
        persons = self.vocabulary.persons if who is None and free else (who,) if who and free else ()
        # Where each may be taken: anywhere if nobody touched it yet, nowhere if a proof stands on where it lies.
        lies, left = self.lies, self.left
        things = [o for o in free if o not in left] if left else free
        lying = [o for o in things if o in lies]
        idle = self.idle
        if not lying:
            return [(person, thing) for person in persons if person not in idle for thing in things]
        untouched = [o for o in things if o not in lies]
        guarded, where = self.guarded, self.where
        within: dict[str | None, list[str]] = {
            None: things
        }  # what can be taken in each place, or by somebody who may be anywhere
        able = []
        for person in persons:
            if person in idle:
                continue
            if person in guarded:
                reach = untouched
            else:
                here = where.get(person)
                known = within.get(here)
                if known is None:
                    known = within[here] = [o for o in things if lies.get(o, here) == here]
                reach = known
            for thing in reach:
                able.append((person, thing))
        return able

    def _grab(self, who: str | None) -> Event | None:
        able = self._reach(who)
        if not able:
            return None
        person, thing = pick(self.rng, able)
        return Event("grab", (person,), thing=thing)

    def _in_hands(self, who: str | None) -> list[tuple[str, str]]:
        """List who holds what."""
        # The order of the vocabulary, not of the dict, whose order depends on what happened before.
        return [
            (self.holder[o], o)
            for o in self.vocabulary.objects
            if o in self.holder and o not in self.kept and self.holder[o] not in self.idle
            if who is None or self.holder[o] == who
        ]

    def _drop(self, who: str | None) -> Event | None:
        able = self._in_hands(who)
        if not able:
            return None
        person, thing = pick(self.rng, able)
        return Event("drop", (person,), thing=thing)

    def _give(self, who: str | None) -> Event | None:
        able = [(p, o) for p, o in self._in_hands(who) if p not in self.guarded]
        if not able:
            return None
        person, thing = pick(self.rng, able)
        to = self._receiver(person)
        return Event("give", (person,), thing=thing, to=to) if to else None

    def _receiver(self, person: str) -> str:
        """Draw somebody who is, or from now on has been, where a person is; nobody if there is none."""
        here = self.place(person)
        near = [
            q
            for q in self.vocabulary.persons
            if q != person and q not in self.guarded and q not in self.idle and self.where.get(q, here) == here
        ]
        if not near:
            return ""
        to = pick(self.rng, near)
        self.where[to] = here
        return to

    _MAKERS: ClassVar[dict[Kind, Callable[[Simulator, str | None], Event | None]]] = {
        "move": _move,
        "in": _in,
        "not": _not,
        "either": _either,
        "grab": _grab,
        "drop": _drop,
        "give": _give,
    }
