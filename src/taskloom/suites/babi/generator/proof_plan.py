"""Proofs planned before their stories: the sentences of a proof of a given size.

To locate a person, the plan places another one by a sentence (the anchor) and connects the two by
links. A link is a GIVE (one sentence), or a handover, which is a DROP and a GRAB of one object (two
sentences). A pronoun costs one more sentence, its antecedent. Two uncertain anchors ("either") may
replace a certain one. So

    size = anchors + gives + 2 x handovers + antecedents + denials + what the question itself adds

and a plan of any size is built directly. The size does not count sentences that only the world
needs (a person who drops the milk must have taken it). The reasoner checks every story; plans only
make it likely to agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from taskloom.core.seeding import Random, pick, sample
from taskloom.suites.babi.generator.pronouns import NoProofPlan, add_antecedents, free_pronouns
from taskloom.suites.babi.story.events import (
    GIVE_FORMS,
    HANDLED,
    PLACING_TWO,
    Event,
    Kind,
    Question,
    QuestionKind,
    give_question,
)
from taskloom.suites.babi.story.vocabulary import Vocabulary

PRONOUNS = 0.85
"""Probability that a person who handles two objects in a row is referred to by a pronoun. With it,
63 to 64 % of the lists and counts with four or more cited sentences contain COREF
(benchmarks/babi_paper.py). If all of them did, the effect of COREF could not be measured.
"""

Unit = list[Event]
"""Consecutive sentences that must not be separated."""

HandChange = tuple[Kind, bool, list[tuple[str, str, str]]]
"""One way in which an object can change hands: the event, True if the person in question performs
it, and the possible (giver, object, receiver).
"""


@dataclass(slots=True)
class ProofPlan:
    """The planned sentences of a story.

    Attributes:
        units: The sentences, in order.
        question: The question.
        here: Place where all planned persons meet.
        final: Persons whose last stay determines the answer.
        keep: Objects that no other person may touch until the end.
        idle: Persons who may only touch objects as planned.
        carrier: For a where-was-O question, the person who carries the object away, with their last
            planned sentence about a place.
    """

    units: list[Unit]
    question: Question
    here: str
    final: set[str] = field(default_factory=set)
    keep: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)
    carrier: str = ""

    @property
    def size(self) -> int:
        """Number of planned sentences."""
        return sum(map(len, self.units))


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a proof, whose sentences add up to its size.

    Attributes:
        gives: Links by a gift, one sentence each.
        handovers: Links by a drop and a grab, two sentences each.
        antecedents: Sentences that are needed only for a pronoun.
        double: Two uncertain anchors instead of one certain anchor.
        extra: Sentences that the question adds, such as how the object was taken.
        denials: Sentences such as "did not take the milk".
    """

    gives: int
    handovers: int
    antecedents: int
    double: bool
    extra: int
    denials: int = 0


class ProofBuilder:
    """A proof plan under construction.

    Args:
        words: Persons, objects and places.
        can: Events, and constructs that may describe where a person is.
        coref: Events that may have a pronoun: MOVE, GRAB, DROP, GIVE.
        things: Pairs of a construct and an event with an object that may have it.
        others: Maximum number of further proofs for the same answer.
        rng: Random stream for the draws.
    """

    def __init__(
        self,
        words: Vocabulary,
        can: set[str],
        coref: set[str],
        things: set[tuple[str, str]],
        others: int,
        rng: Random,
    ) -> None:
        self.words = words
        self.can = can
        self.coref = coref
        self.things = things
        self.others = others
        self.rng = rng
        # Shuffled, so that taking the last one is a random draw without replacement.
        self.persons = sample(rng, words.persons, len(words.persons))
        self.objects = sample(rng, words.objects, len(words.objects))
        self.places = sample(rng, words.places, len(words.places))
        self.here = self.places.pop()
        self.units: list[Unit] = []
        self.lines: list[Event] = []  # the sentences that the proof counts
        self.linked: list[Event] = []  # those in which two planned persons meet
        self.hands: dict[str, str] = {}  # object in each planned person's hands
        # The last move of a where-was-O question, whose antecedent must not be a move.
        self.departure: Event | None = None

    # Questions about places

    def place(self, kind: QuestionKind, shape: Shape, wanted: str) -> ProofPlan:
        """Plan a proof for a question about where a person or object is, is not, or may be."""
        if len(self.places) < 3 and (shape.double or wanted == "maybe"):
            raise NoProofPlan
        certain = kind != "yes-no" or wanted == "yes"
        anchor, asked_place = self._anchor(kind, shape, wanted)
        person = self._chain(anchor, shape, certain)
        plan = self._finish(kind, shape, person, asked_place)
        if self.others and certain and kind != "where-was-O":
            size = 1 + shape.double + shape.gives + 2 * shape.handovers + shape.antecedents
            # The number varies, because there may be too few objects and the story often contains a
            # proof by chance.
            for _ in range(int(self.rng.random() * (self.others + 1))):
                self._another(person, size)
        if self.things:
            self._two_things()
            if certain and self.lines[0].kind in ("move", "in"):
                self._in_either()
        add_antecedents(self, shape.antecedents)
        free_pronouns(self)
        return plan

    def _anchor(self, kind: QuestionKind, shape: Shape, wanted: str) -> tuple[str, str]:
        """Place the first person. Return the person, and the place that a yes-no question names."""
        person = self.persons.pop()
        other = self.places[0]
        if shape.double:
            self._add(Event("either", (person,), (self.here, self.places.pop())))
            return person, self.here
        if kind == "yes-no" and wanted == "maybe":
            self._add(Event("either", (person,), (self.here, other)))
            return person, other if self.rng.random() < 0.5 else self.here
        if kind == "yes-no" and wanted == "no":
            ways: list[tuple[Kind, tuple[str, ...]]] = [("move", (self.here,))]
            if "NEGATE" in self.can:
                ways.append(("not", (other,)))
            if "INDEF" in self.can and len(self.places) > 1:
                ways.append(("either", (self.here, self.places[1])))
            way, places = pick(self.rng, ways)
            self._add(self._placing(way, person, places))
            return person, other
        self._add(self._placing("move", person, (self.here,)))
        return person, self.here

    def _placing(self, kind: Kind, person: str, places: tuple[str, ...]) -> Event:
        if kind != "move":
            return Event(kind, (person,), places)
        if "CONJ" in self.can and self.persons and self.rng.random() < 0.4:
            other = self.persons.pop(0)
            who = (person, other) if self.rng.random() < 0.5 else (other, person)
            return Event("move", who, places)
        if "MOVE" not in self.can or ("AFFIRM" in self.can and self.rng.random() < 0.4):
            kind = "in"
        return PLACING_TWO[kind, (person,), places, False]

    def _chain(self, anchor: str, shape: Shape, certain: bool) -> str:
        """Link further persons to the anchor, one by one, and return the last."""
        links = ["give"] * shape.gives + ["handover"] * shape.handovers
        self.rng.shuffle(links)
        person = anchor
        for i, link in enumerate(links):
            if not self.persons:
                raise NoProofPlan
            new = self.persons.pop()
            if shape.double and i == len(links) - 1:
                # The second uncertain anchor. Together with the first one, it leaves only their
                # common place.
                denied = "NEGATE" in self.can and self.rng.random() < 0.3
                if denied:
                    not_there = self.lines[0].places[1]
                    self._add(Event("not", (new,), (not_there,)))
                else:
                    self._add(Event("either", (new,), (self.here, self.places.pop())))
            else:
                self._cover(new, certain)
            self._link(link, person, new)
            person = new
        return person

    def _cover(self, person: str, certain: bool) -> None:
        """Sometimes add that a person goes to an unknown place, so that some of the persons who
        must be located by reasoning have been mentioned before.
        """
        ways: list[Kind] = ["not"] if "NEGATE" in self.can else []
        if "INDEF" in self.can and certain and len(self.places) > 2:
            ways.append("either")
        if ways and self.rng.random() < 0.5:
            way = pick(self.rng, ways)
            # A "not" without a place denies the last known place of the person.
            places = (self.here, self.places[1]) if way == "either" else ()
            self.units.append([Event(way, (person,), places)])

    def _link(self, link: str, one: str, other: str) -> None:
        first, second = (one, other) if self.rng.random() < 0.5 else (other, one)
        if first not in self.hands and second in self.hands:
            first, second = second, first
        thing = self._in_hand(first)
        if link == "give":
            events = [HANDLED["give", first, thing, second, False]]
        else:
            events = [
                HANDLED["drop", first, thing, "", False],
                HANDLED["grab", second, thing, "", False],
            ]
        self._add(*events)
        self.linked += events
        del self.hands[first]
        self.hands[second] = thing

    def _another(self, person: str, size: int) -> None:
        """Add another proof, at least as long, of where a person is: place another person, who
        hands an object to them.
        """
        official = list(self.lines)
        other = self._somebody()
        self._add(self._placing("move", other, (self.here,)))
        for left in range(max(1, size - 1), 0, -1):
            new = self._somebody() if left > 1 else person
            thing = self._in_hand(other)
            if "GIVE" in self.can:
                self._add(HANDLED["give", other, thing, new, False])
            else:
                self._add(
                    HANDLED["drop", other, thing, "", False], HANDLED["grab", new, thing, "", False]
                )
            del self.hands[other]
            if new != person:
                self.hands[new] = thing
            other = new
        self.lines = official  # the new sentences do not count

    def _somebody(self) -> str:
        if not self.persons:
            raise NoProofPlan
        return self.persons.pop()

    def _in_hand(self, person: str) -> str:
        """Return an object that a person holds. If they hold none, make them take one at an earlier
        time.
        """
        if person not in self.hands:
            thing = self._fresh()
            self.units.insert(
                int(self.rng.random() * (len(self.units) + 1)),
                [HANDLED["grab", person, thing, "", False]],
            )
            self.hands[person] = thing
        return self.hands[person]

    def _fresh(self) -> str:
        if not self.objects:
            raise NoProofPlan
        return self.objects.pop()

    def _add(self, *events: Event) -> None:
        for event in events:
            self.units.append([event])
            self.lines.append(event)

    def _finish(self, kind: QuestionKind, shape: Shape, person: str, place: str) -> ProofPlan:
        if kind == "where-P":
            return ProofPlan(self.units, Question("where-P", person), self.here, {person})
        if kind == "yes-no":
            return ProofPlan(
                self.units, Question("yes-no", person, place=place), self.here, {person}
            )
        # A where-was-O question always adds the last move. Another extra sentence is a grab or
        # drop.
        own = shape.extra - (kind == "where-was-O")
        if not own and person not in self.hands:
            raise NoProofPlan
        if kind == "where-O" and own and "DROP" in self.can and self.rng.random() < 0.5:
            thing = self._in_hand(person)
            self._add(HANDLED["drop", person, thing, "", False])
            self._denials(shape.denials, thing, "")
            return ProofPlan(self.units, Question("where-O", thing=thing), self.here, keep={thing})
        thing = self._taken(person) if own else self.hands[person]
        if kind == "where-O":
            self._denials(shape.denials, thing, person)
            return ProofPlan(
                self.units, Question("where-O", thing=thing), self.here, {person}, keep={thing}
            )
        place = self.places[0]
        self.departure = self._placing("move", person, (place,))
        self._add(self.departure)
        # Let the holder move on afterwards in half of the stories, so that the place in question is
        # not always the last one.
        final = {person} if self.rng.random() < 0.5 else set()
        question = Question("where-was-O", thing=thing, place=place)
        return ProofPlan(self.units, question, self.here, final, keep={thing}, carrier=person)

    def _taken(self, person: str) -> str:
        """Add a sentence in which the person takes an untouched object, at a random point so far.
        It counts towards the size of the proof.
        """
        thing = self._fresh()
        event = HANDLED["grab", person, thing, "", False]
        self.units.insert(int(self.rng.random() * (len(self.units) + 1)), [event])
        self.lines.append(event)
        return thing

    # Constructs on events with objects

    def _denials(self, count: int, thing: str, holder: str, about: str = "") -> None:
        """Add sentences that deny a change of hands, all of which the proof needs.

        Args:
            count: Number of sentences.
            thing: The object.
            holder: The person who holds it, or "".
            about: A person whom they must name, unless it is the holder.
        """
        for _ in range(count):
            kinds = ["grab", "drop", "give"]
            if not holder or about not in ("", holder):
                kinds = ["grab"]  # nobody leaves or gives what they do not hold
            ways = [kind for kind in kinds if ("NEGATE", kind.upper()) in self.things]
            other = about
            if about in ("", holder):
                other = self.persons[0] if self.persons else ""
            if not ways or not other:
                raise NoProofPlan
            way = pick(self.rng, ways)
            who = other if way == "grab" else holder
            to = other if way == "give" else ""
            self._add(Event(way, (who,), thing=thing, to=to, denied=True))  # type: ignore[arg-type]

    def _two_things(self) -> None:
        """Sometimes add a second object to a sentence of the proof, which does not change its
        size.
        """
        for event in list(self.lines):
            if not event.thing or event.denied or not self.objects or self.rng.random() < 0.6:
                continue
            taken = Event("grab", event.who, thing=event.thing)
            if ("CONJ", event.kind.upper()) not in self.things:
                continue
            if event.kind == "grab":
                self._change(event, also=self.objects.pop())
            elif (
                [taken] in self.units
                and taken not in self.lines
                and ("CONJ", "GRAB") in self.things
            ):
                also = self.objects.pop()
                self._change(taken, also=also)
                self._change(event, also=also)

    def _in_either(self) -> None:
        """Sometimes state that a meeting was in either of two places. The anchor settles which, so
        the proof does not change.
        """
        for event in list(self.linked):
            may_say = event in self.lines and ("INDEF", event.kind.upper()) in self.things
            if may_say and self.rng.random() < 0.3:
                places = [self.here, pick(self.rng, self.places)]
                self.rng.shuffle(places)
                self._change(event, places=tuple(places))

    def _change(self, event: Event, **fields: Any) -> None:
        """Replace a planned sentence with another wording of it."""
        new = event._replace(**fields)
        self.units[self.units.index([event])] = [new]
        for sentences in (self.lines, self.linked):
            sentences[:] = [new if e is event else e for e in sentences]

    # Questions about gifts and hands

    def gift(self, size: int) -> ProofPlan:
        """Plan a gift to ask about, with a pronoun if two sentences are requested."""
        if "GIVE" not in self.can or len(self.persons) < 2 or size > 2:
            raise NoProofPlan
        giver, to = self.persons.pop(), self.persons.pop()
        thing = self._in_hand(giver)
        self._add(HANDLED["give", giver, thing, to, False])
        add_antecedents(self, size - 1)
        form = pick(self.rng, GIVE_FORMS)
        return ProofPlan(self.units, give_question(form, giver, thing, to), self.here)

    def holding(self, kind: QuestionKind, size: int) -> ProofPlan:
        """Plan objects that pass through a person's hands, using pronouns where needed to reach
        `size` sentences.
        """
        person = self.persons.pop()
        # With a pronoun, an object takes two sentences: the event and the antecedent.
        per_thing = 2 if self.coref & {"GRAB", "DROP"} else 1
        # The planner allows up to three denials (`planned_proofs.DENIALS`).
        denials = range(4 if any(c == "NEGATE" for c, _ in self.things) else 1)
        counts = []  # pairs of numbers of objects and denials that add up to `size`
        for things_wanted, denials_wanted in product(range(1, len(self.objects) + 1), denials):
            if things_wanted <= size - denials_wanted <= per_thing * things_wanted:
                counts.append((things_wanted, denials_wanted))
        if not counts:
            raise NoProofPlan
        count, denied = pick(self.rng, counts)
        antecedents = size - count - denied
        things = [self._fresh() for _ in range(count)]
        for i, thing in enumerate(things):
            self._handled(person, thing, plain=i >= antecedents, gifts=not antecedents)
        for _ in range(denied):
            last = pick(self.rng, self.units)[-1]
            events = chain.from_iterable(self.units)
            change = [e for e in events if e.thing == last.thing and not e.denied][-1]
            holder = {"grab": change.who[0], "give": change.to}.get(change.kind, "")
            self._denials(1, change.thing, holder, about=person)
        # Units on different objects are independent, so any order is valid that keeps the order for
        # each object.
        self._shuffle()
        return ProofPlan(
            self.units, Question(kind, person), self.here, keep=set(things), idle={person}
        )

    def hands_full(self, kind: QuestionKind, size: int) -> ProofPlan:
        """Plan `size` sentences in which objects come into a person's hands or leave them. bAbI
        cites all of them, even if the answer does not need them.
        """
        person = self.persons.pop()
        objects = self.objects[: 1 + int(self.rng.random() * len(self.objects))]
        others = self.persons[:2]
        holder: dict[str, str] = {}
        touched: set[str] = set()
        last: Event | None = None
        for _ in range(size):
            ways = self._hand_changes(person, others, objects, holder, touched)
            if not ways:
                raise NoProofPlan
            act, own, names = pick(self.rng, ways)
            giver, thing, to = pick(self.rng, names)
            if not own and thing not in holder:
                self.units.append([HANDLED["grab", giver, thing, "", False]])
            last = self._said_again(HANDLED[act, giver, thing, to, False], last)
            touched.add(thing)
            if act == "drop":
                del holder[thing]
            else:
                holder[thing] = to or person
        return ProofPlan(self.units, Question(kind, person), self.here, idle={person})

    def _hand_changes(
        self,
        person: str,
        others: list[str],
        objects: list[str],
        holder: Mapping[str, str],
        touched: set[str],
    ) -> list[HandChange]:
        """List how an object can come into a person's hands now, or leave them.

        The kind of change is drawn before the names, so that drops are as frequent as gifts
        regardless of the number of possible receivers.
        """
        mine = [thing for thing in objects if holder.get(thing) == person]
        ways: list[HandChange] = []
        if mine and "DROP" in self.can:
            ways.append(("drop", True, [(person, thing, "") for thing in mine]))
        if others and "GIVE" in self.can:
            gets = []
            for thing, other in product(objects, others):
                if holder.get(thing) == other or thing not in touched:
                    gets.append((other, thing, person))
            if gets:
                ways.append(("give", False, gets))
            if mine:
                gifts = [(person, thing, other) for thing, other in product(mine, others)]
                ways.append(("give", True, gifts))
        loose = [thing for thing in objects if thing not in holder]
        if loose:
            ways.append(("grab", True, [(person, thing, "") for thing in loose]))
        return ways

    def _said_again(self, event: Event, last: Event | None) -> Event:
        """Add an event to the units. If the person was the last subject, refer to them by a pronoun
        with the probability `PRONOUNS`.
        """
        follows = last is not None and last.who == event.who and self.units[-1][-1] is last
        if (
            last is not None
            and follows
            and not last.pronoun
            and event.kind.upper() in self.coref
            and self.words.clear(event.who[0], last.to)
            and self.rng.random() < PRONOUNS
        ):
            event = event._replace(pronoun=True)
            self.units[-1].append(event)
        else:
            self.units.append([event])
        return event

    def _handled(self, person: str, thing: str, plain: bool, gifts: bool) -> None:
        """Add sentences in which one object comes into a person's hands and perhaps leaves them.
        The last sentence counts.

        Gifts need both persons in one place, so they are not combined with moves as antecedents.
        """
        grab = HANDLED["grab", person, thing, "", False]
        drop = HANDLED["drop", person, thing, "", False]
        if not plain:
            leave = "DROP" in self.coref and ("GRAB" not in self.coref or self.rng.random() < 0.5)
            if leave:
                self.units.append([grab, drop._replace(pronoun=True)])
                return
            start = Event("move", (person,), (pick(self.rng, self.places),))
            self.units.append([start, grab._replace(pronoun=True)])
            return
        ways = ["grab"]
        if "DROP" in self.can:
            ways.append("drop")
        if "GIVE" in self.can and gifts:
            ways += ["get", "give"]
        way = pick(self.rng, ways)
        other = self.persons[-1] if self.persons else ""
        if way == "get" and other:
            self.units += [
                [Event("grab", (other,), thing=thing)],
                [Event("give", (other,), thing=thing, to=person)],
            ]
        elif way == "give" and other:
            self.units += [[grab], [Event("give", (person,), thing=thing, to=other)]]
            if self.others and "DROP" in self.can:
                # Another sentence which shows that the person no longer holds it.
                self.units.append([Event("drop", (other,), thing=thing)])
        elif way == "drop":
            self.units += [[grab], [drop]]
        else:
            self.units.append([grab])

    def _shuffle(self) -> None:
        """Shuffle the units, keeping the order of those about the same object."""
        order = [unit[-1].thing for unit in self.units]
        self.rng.shuffle(order)
        queues: dict[str, list[Unit]] = {}
        for unit in self.units:
            queues.setdefault(unit[-1].thing, []).append(unit)
        self.units = [queues[thing].pop(0) for thing in order]
