"""The hidden world behind a story. It decides which events are possible and never answers a
question.

The initial place of a person or an object is drawn when it first matters. Every sentence about a
place is a real change of place, as in the reference's simulator, so that the strict reading never
contradicts a generated story.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, combinations, product, repeat
from typing import ClassVar

from taskloom.core.seeding import Random, pick, pick_two
from taskloom.suites.babi.generator.story_setting import ActionWeights
from taskloom.suites.babi.story.events import (
    HANDLED,
    HANDLING,
    KINDS,
    PLACING,
    PLACING_TWO,
    Event,
    Kind,
)
from taskloom.suites.babi.story.vocabulary import Vocabulary

FOLLOWS: dict[Kind, tuple[str, ...]] = {"grab": ("DROP", "GIVE"), "drop": ("GRAB",)}
"""Events that a person can perform next with the same two objects: the second sentence of COMPOUND
("Then she dropped them").
"""

NOWHERE = ""
"""Place without any persons or objects."""

TRIES = 12
"""Maximum draws of an action before the simulator reports that nothing can happen."""


class Simulator:
    """State of the simulated world, with restrictions that keep a planned proof valid.

    Attributes:
        where: Place of each person for whom it has been decided.
        holder: Person who holds each object that is held.
        lies: Place of each object that has been put down.
        left: Objects left behind by a guarded person, which stay where they are.
        still: Persons who may not change place.
        guarded: Persons whose current stay a proof depends on. Nothing may link it to another stay.
        kept: Objects that must not be touched.
        idle: Persons who may not touch anything.
    """

    __slots__ = (
        "guarded",
        "holder",
        "idle",
        "kept",
        "left",
        "lies",
        "rng",
        "still",
        "vocabulary",
        "where",
    )

    def __init__(self, vocabulary: Vocabulary, rng: Random) -> None:
        self.vocabulary = vocabulary
        self.rng = rng
        self.where: dict[str, str] = {}
        self.holder: dict[str, str] = {}
        self.lies: dict[str, str] = {}
        self.left: set[str] = set()
        self.still: set[str] = set()
        self.guarded: set[str] = set()
        self.kept: set[str] = set()
        self.idle: set[str] = set()

    def settle(self) -> None:
        """Draw the initial places of all persons and objects, as the reference does.

        This makes gifts rarer, because fewer persons happen to be in the same place as a giver.
        """
        for person in self.vocabulary.persons:
            self.place(person)
        for thing in self.vocabulary.objects:
            self.lies[thing] = pick(self.rng, self.vocabulary.places)

    def act(self, weights: ActionWeights, room: int = 2) -> list[Event]:
        """Draw and perform the next event: one sentence, two with COREF and COMPOUND, or none if
        nothing can happen.
        """
        events: list[Event] = []
        self.extend(events, 1, room, weights)
        return events

    def extend(self, events: list[Event], enough: int, most: int, weights: ActionWeights) -> bool:
        """Append events until there are `enough` sentences, and never more than `most`. Return
        False if nothing can happen.
        """
        # This is the inner loop of generation, so attributes are looked up once, and plain events
        # are drawn and performed without a further call.
        table, random = weights.weights, self.rng.random
        bounds, total, plain, actions = table.bounds, table.total, weights.plain, self._ACTIONS
        left = TRIES
        while len(events) < enough:
            at = bisect_right(bounds, random() * total)
            kind = plain[at]
            if kind is None:
                done = self._construct(table.names[at], weights, most - len(events))
                if done:
                    events += done
                    left = TRIES
                    continue
            else:
                event = actions[kind](self, None)
                if event is not None:
                    events.append(event)
                    left = TRIES
                    continue
            left -= 1
            if not left:
                return False
        return True

    def _construct(self, name: str, weights: ActionWeights, room: int) -> list[Event]:
        """Draw and perform an event with a construct. Return an empty list if none is possible, or
        if it needs more sentences than `room`.
        """
        if name == "COREF":
            return self._coref(weights) if room > 1 else []
        if name == "COMPOUND":
            return self._compound(weights) if room > 1 else []
        if name == "CONJ":
            event = self._conj(weights.conj.draw(self.rng), weights)
        else:
            event = self._say(name, None, weights)
        return [] if event is None else [event]

    def perform(self, event: Event) -> None:
        """Apply an event that is known to be possible. `places[0]` is the true place of an
        "either".
        """
        kind, who, places, thing, to, _, _, also, _, denied = event
        if not thing:
            if kind != "not":
                for person in who:
                    self.where[person] = places[0]
        elif not denied:
            for each in (thing, also) if also else (thing,):
                if kind == "grab":
                    self._take(who[0], each)
                elif kind == "drop":
                    self._leave(who[0], each)
                else:
                    self.holder[each] = to

    def _take(self, person: str, thing: str) -> None:
        self.holder[thing] = person
        place = self.lies.get(thing)
        if place is not None:
            self.where[person] = place

    def _leave(self, person: str, thing: str) -> None:
        del self.holder[thing]
        self.lies[thing] = self.where.get(person) or self.place(person)
        # Taking it there would link the taker's stay to the guarded one.
        if person in self.guarded:
            self.left.add(thing)
        else:
            self.left.discard(thing)

    def place(self, person: str) -> str:
        """Place of a person. It is drawn now if it has not been decided yet."""
        place = self.where.get(person)
        if place is None:
            place = self.where[person] = pick(self.rng, self.vocabulary.places)
        return place

    # Constructs

    def _say(
        self, name: str, who: str | None, weights: ActionWeights, pronoun: bool = False
    ) -> Event | None:
        """Draw a sentence with one subject: an event, or NEGATE, INDEF or AFFIRM."""
        kind = weights.kinds.get(name)
        if kind is not None:
            return self._ACTIONS[kind](self, who, pronoun)
        of = weights.draw_topic(name, self.rng)
        if of == "MOVE":
            return self._ACTIONS[KINDS[name]](self, who, pronoun)
        if name == "NEGATE":
            return self._denied(KINDS[of], who, pronoun)
        names = self._DRAWS[KINDS[of]](self, who)
        if names is None:
            return None
        person, thing, *to = names
        return self._somewhere(HANDLED[KINDS[of], person, thing, "".join(to), pronoun])

    def _denied(self, kind: Kind, who: str | None, pronoun: bool = False) -> Event | None:
        """Draw a denial: a person does not take an object that they do not hold, or does not leave
        or give away one that they hold.
        """
        others = [p for p in self.vocabulary.persons if p not in self.idle]
        if kind != "grab":
            able = self._in_hands(who)
        else:
            things = [o for o in self.vocabulary.objects if o not in self.kept]
            persons = others if who is None else [p for p in others if p == who]
            pairs = product(persons, things)
            able = [(person, thing) for person, thing in pairs if self.holder.get(thing) != person]
        if not able:
            return None
        person, thing = pick(self.rng, able)
        receivers = [p for p in others if p != person] if kind == "give" else [""]
        if not receivers:
            return None
        return Event(
            kind, (person,), thing=thing, to=pick(self.rng, receivers), pronoun=pronoun, denied=True
        )

    def _somewhere(self, event: Event) -> Event | None:
        """Apply an event with objects that is said to have happened in one of two places."""
        if event.who[0] in self.guarded:
            return None
        self.perform(event)
        here = self.place(event.who[0])
        places = [here, self._elsewhere(event.who[0])]
        self.rng.shuffle(places)
        return event._replace(places=tuple(places))

    def _coref(self, weights: ActionWeights) -> list[Event]:
        first = self._say(weights.coref.draw(self.rng), None, weights)
        if first is None:
            return []
        if not self.vocabulary.clear(first.who[0], first.to):
            return [first]
        for _ in range(TRIES):
            second = self._say(weights.coref.draw(self.rng), first.who[0], weights, pronoun=True)
            if second is not None:
                return [first, second]
        return [first]

    def _conj(self, name: str, weights: ActionWeights) -> Event | None:
        """Draw an event with two persons who go somewhere, or with one person who handles two
        objects.
        """
        topic = weights.draw_topic(name, self.rng)
        if name in HANDLING:
            event = self._two(KINDS[name], None)
            if event is not None:
                self.perform(event)
            return event
        if topic == "MOVE":
            return self._pair(KINDS[name], None)
        if name == "INDEF":
            event = self._two(KINDS[topic], None)
            return None if event is None else self._somewhere(event)
        # A grab can be denied of two persons, but a drop or gift needs a person who holds the
        # object.
        return self._neither() if topic == "GRAB" else None

    def _neither(self) -> Event | None:
        """Draw two persons who do not take an object that neither of them holds."""
        things = [o for o in self.vocabulary.objects if o not in self.kept]
        persons = [p for p in self.vocabulary.persons if p not in self.idle]
        if not things:
            return None
        thing = pick(self.rng, things)
        persons = [p for p in persons if p != self.holder.get(thing)]
        if len(persons) < 2:
            return None
        return Event("grab", pick_two(self.rng, persons), thing=thing, denied=True)

    def _two(self, kind: Kind, who: str | None) -> Event | None:
        """Draw a person who handles two objects at once."""
        able = self._reach(who) if kind == "grab" else self._in_hands(who)
        if kind == "give":
            able = [(p, o) for p, o in able if p not in self.guarded]
        pairs = [(p, a, b) for (p, a), (q, b) in combinations(able, 2) if p == q]
        if kind == "grab":
            pairs = [(p, a, b) for p, a, b in pairs if self._in_one_place(a, b)]
        if not pairs:
            return None
        person, one, other = pick(self.rng, pairs)
        if kind != "give":
            return Event(kind, (person,), thing=one, also=other)
        to = self._receiver(person)
        return Event(kind, (person,), thing=one, also=other, to=to) if to else None

    def _in_one_place(self, one: str, other: str) -> bool:
        """True if two objects may be in the same place. Untouched objects may be anywhere."""
        untouched = one not in self.lies or other not in self.lies
        return untouched or self.lies[one] == self.lies[other]

    def _pair(self, kind: Kind, who: tuple[str, ...] | None, pronoun: bool = False) -> Event | None:
        """Draw two persons who together go, are, may be, or are no longer somewhere."""
        rng, where, everywhere = self.rng, self.where, self.vocabulary.places
        if who is None:
            free: Sequence[str] = self.vocabulary.persons
            if self.still:
                free = [p for p in free if p not in self.still]
            if len(free) < 2:
                return None
            who = pick_two(rng, free)
        one, other = who
        places: Sequence[str] = everywhere
        if one in where or other in where:
            taken = (where.get(one), where.get(other))
            places = [x for x in everywhere if x not in taken]
        if not places:
            return None
        if kind == "not":
            return self._pair_leaves(who, pronoun)
        if kind == "either":
            if len(places) < 2:
                return None
            either = pick_two(rng, places)
            # drawn separately for each person
            where[one], where[other] = pick(rng, either), pick(rng, either)
            return PLACING_TWO[kind, who, either, pronoun]
        place = where[one] = where[other] = pick(rng, places)
        return PLACING_TWO[kind, who, (place,), pronoun]

    def _pair_leaves(self, who: tuple[str, ...], pronoun: bool) -> Event | None:
        """State that two persons are no longer in a place. This is true of both only if they were
        in the same place.
        """
        everywhere = self.vocabulary.places
        left = {self.where[person] for person in who if person in self.where}
        if not left:
            left = {pick(self.rng, everywhere)}
        if len(left) > 1:
            return None
        elsewhere = [place for place in everywhere if place not in left]
        for person in who:
            self.where[person] = pick(self.rng, elsewhere)
        return PLACING_TWO["not", who, tuple(left), pronoun]

    def _compound(self, weights: ActionWeights) -> list[Event]:
        """Draw an event with two persons or objects, and then one that refers to them by a
        pronoun.
        """
        name = weights.conj.draw(self.rng)
        if name in HANDLING:
            return self._them(KINDS[name], weights)
        first = self._pair(KINDS[name], None)
        if first is None:
            return []
        for _ in range(TRIES):
            name = weights.conj.draw(self.rng)
            second = None if name in HANDLING else self._pair(KINDS[name], first.who, pronoun=True)
            if second is not None:
                return [first, second]
        return [first]

    def _them(self, kind: Kind, weights: ActionWeights) -> list[Event]:
        first = self._two(kind, None)
        if first is None:
            return []
        self.perform(first)
        person = first.who[0]
        for _ in range(TRIES):
            name = weights.conj.draw(self.rng)
            guarded = person in self.guarded
            # Draw the receiver even if GIVE cannot follow, because leaving it out would change the
            # random stream.
            to = self._receiver(person) if name == "GIVE" and not guarded else ""
            if name not in FOLLOWS.get(kind, ()):
                continue
            if (name == "GIVE" and not to) or (name == "GRAB" and guarded):
                continue
            second = first._replace(kind=KINDS[name], to=to, pronoun=True, them=True)
            self.perform(second)
            return [first, second]
        return [first]

    # Where one person is

    def _mover(self, who: str | None) -> str | None:
        persons = self.vocabulary.persons
        person = persons[int(self.rng.random() * len(persons))] if who is None else who
        return person if person not in self.still else self._another_mover(who)

    def _another_mover(self, who: str | None) -> str | None:
        """Draw another mover if `who` is None and the drawn person may not move. Return None if
        nobody can replace them.
        """
        free = [p for p in self.vocabulary.persons if p not in self.still] if who is None else []
        return pick(self.rng, free) if free else None

    def _elsewhere(self, person: str) -> str:
        here, places, random = self.where.get(person), self.vocabulary.places, self.rng.random
        while True:
            place = places[int(random() * len(places))]
            if place != here:
                return place

    def _move(self, who: str | None, pronoun: bool = False, kind: Kind = "move") -> Event | None:
        where, places, persons, random = (
            self.where,
            self.vocabulary.places,
            self.vocabulary.persons,
            self.rng.random,
        )
        person = persons[int(random() * len(persons))] if who is None else who
        if person in self.still:
            other = self._another_mover(who)
            if other is None:
                return None
            person = other
        here = where.get(person)
        place = places[int(random() * len(places))]
        while place == here:
            place = places[int(random() * len(places))]
        where[person] = place
        return PLACING[kind, person, place, pronoun]

    def _in(self, who: str | None, pronoun: bool = False) -> Event | None:
        return self._move(who, pronoun, "in")

    def _not(self, who: str | None, pronoun: bool = False) -> Event | None:
        person = self._mover(who)
        if person is None:
            return None
        old = self.place(person)
        self.where[person] = self._elsewhere(person)
        return PLACING["not", person, old, pronoun]

    def _either(self, who: str | None, pronoun: bool = False) -> Event | None:
        person = self._mover(who)
        if person is None:
            return None
        here, places = self.where.get(person), self.vocabulary.places
        if here is not None:
            at = places.index(here)
            places = places[:at] + places[at + 1 :]
        if len(places) < 2:
            return None
        place, other = pick_two(self.rng, places)
        self.where[person] = place
        # The text must not reveal which place is true.
        either = (other, place) if self.rng.random() < 0.5 else (place, other)
        return PLACING_TWO["either", (person,), either, pronoun]

    # What one person does with one object

    def _loose(self) -> list[str]:
        """Objects that may be taken, because nobody holds them and no proof depends on where they
        are.
        """
        holder, kept, left = self.holder, self.kept, self.left
        return [
            o
            for o in self.vocabulary.objects
            if o not in holder and o not in kept and o not in left
        ]

    def _reach(self, who: str | None) -> list[tuple[str, str]]:
        """Possible pairs of a person and an object that they may take. Untouched objects may be
        anywhere.
        """
        things, lies = self._loose(), self.lies
        persons = self.vocabulary.persons if who is None else (who,)
        able: list[tuple[str, str]] = []
        for person in persons:
            if things and person not in self.idle:
                here = NOWHERE if person in self.guarded else self.where.get(person)
                able += [(person, o) for o in things if here is None or lies.get(o, here) == here]
        return able

    def _draw_grab(self, who: str | None) -> tuple[str, str] | None:
        """Draw who takes what.

        The draw is the one that `pick` makes from the pairs of `_reach`. Pairs are counted per
        person instead of listed, because this is one of the most frequent draws.
        """
        if who is not None:
            able = self._reach(who)
            return able[int(self.rng.random() * len(able))] if able else None
        things, persons, lies = self._loose(), self.vocabulary.persons, self.lies
        if self.idle:
            persons = tuple([p for p in persons if p not in self.idle])
        if not things or not persons:
            return None
        lying = [lies[thing] for thing in things if thing in lies] if lies else []
        if not lying:
            at = int(self.rng.random() * (len(persons) * len(things)))
            return persons[at // len(things)], things[at % len(things)]
        untouched = len(things) - len(lying)
        # Number of objects within reach in each place. In unlisted places only untouched objects
        # are within reach.
        counts: dict[str | None, int] = {None: len(things)}
        for place in lying:
            counts[place] = counts.get(place, untouched) + 1
        # The place where each person can take objects left behind. None means anywhere, and
        # `NOWHERE` is used if a proof depends on their stay.
        places = list(map(self.where.get, persons))
        if self.guarded:
            for i, person in enumerate(persons):
                if person in self.guarded:
                    places[i] = NOWHERE
        bounds = list(accumulate(map(counts.get, places, repeat(untouched))))
        if not bounds[-1]:
            return None
        at = int(self.rng.random() * bounds[-1])
        i = bisect_right(bounds, at)
        here = places[i]
        within = things if here is None else [o for o in things if lies.get(o, here) == here]
        # `at - bounds[i]` is negative, so it counts from the end of the person's own pairs.
        return persons[i], within[at - bounds[i]]

    def _grab(self, who: str | None, pronoun: bool = False) -> Event | None:
        names = self._draw_grab(who)
        if names is None:
            return None
        person, thing = names
        self._take(person, thing)
        return HANDLED["grab", person, thing, "", pronoun]

    def _in_hands(self, who: str | None) -> list[tuple[str, str]]:
        """Pairs of persons and the objects they hold."""
        holder, kept, idle = self.holder, self.kept, self.idle
        if len(holder) == 1:
            ((thing, person),) = holder.items()
            able = thing not in kept and person not in idle and who in (None, person)
            return [(person, thing)] if able else []
        able_pairs = []
        # Use the order of the vocabulary, because the dict's order depends on earlier events.
        for thing in self.vocabulary.objects:
            if thing in holder and thing not in kept:
                person = holder[thing]
                if person not in idle and who in (None, person):
                    able_pairs.append((person, thing))
        return able_pairs

    def _draw_drop(self, who: str | None) -> tuple[str, str] | None:
        able = self._in_hands(who) if self.holder else None
        return able[int(self.rng.random() * len(able))] if able else None

    def _drop(self, who: str | None, pronoun: bool = False) -> Event | None:
        names = self._draw_drop(who)
        if names is None:
            return None
        person, thing = names
        self._leave(person, thing)
        return HANDLED["drop", person, thing, "", pronoun]

    def _draw_give(self, who: str | None) -> tuple[str, str, str] | None:
        able = self._in_hands(who) if self.holder else None
        if able and self.guarded:
            able = [(p, o) for p, o in able if p not in self.guarded]
        if not able:
            return None
        person, thing = able[int(self.rng.random() * len(able))]
        to = self._receiver(person)
        return (person, thing, to) if to else None

    def _give(self, who: str | None, pronoun: bool = False) -> Event | None:
        names = self._draw_give(who)
        if names is None:
            return None
        person, thing, to = names
        self.holder[thing] = to
        return HANDLED["give", person, thing, to, pronoun]

    def _receiver(self, person: str) -> str:
        """Draw a receiver who is in the person's place, or whose place has not been decided yet.
        Return "" if nobody qualifies.
        """
        here, where, guarded, idle = self.place(person), self.where, self.guarded, self.idle
        near = [
            q
            for q in self.vocabulary.persons
            if where.get(q, here) == here and q != person and q not in guarded and q not in idle
        ]
        if not near:
            return ""
        to = near[int(self.rng.random() * len(near))]
        where[to] = here
        return to

    _ACTIONS: ClassVar[dict[Kind, Callable[..., Event | None]]] = {
        "move": _move,
        "in": _in,
        "not": _not,
        "either": _either,
        "grab": _grab,
        "drop": _drop,
        "give": _give,
    }
    """Methods that draw and apply one event of each kind. `None` as the person means any person."""

    _DRAWS: ClassVar[dict[Kind, Callable[[Simulator, str | None], tuple[str, ...] | None]]] = {
        "grab": _draw_grab,
        "drop": _draw_drop,
        "give": _draw_give,
    }
    """Methods that draw the person, object and receiver of an event without performing it."""
