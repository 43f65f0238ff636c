"""Proofs of a requested size: their possible shapes, and the guard that keeps a story from breaking
one.

`ProofPlanner` lists the shapes and plans a proof of one of them (`proof_plan` has the sentences).
`ProofGuard` keeps the simulator from breaking the proof while it adds the rest of the story.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from types import MappingProxyType

from taskloom.core.seeding import Random, pick
from taskloom.suites.babi.generator.pronouns import NoProofPlan
from taskloom.suites.babi.generator.proof_plan import ProofBuilder, ProofPlan, Shape
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.story.events import PLACING, PLACING_TWO, Event, QuestionKind
from taskloom.suites.babi.story.vocabulary import Vocabulary

DENIALS = 3
"""Maximum sentences in a planned proof that deny something."""


class ProofPlanner:
    """Plans the proofs of one group.

    Attributes:
        can: Events, and constructs that may describe where a person is.
        coref: Events whose sentences may have a pronoun.
        things: Other constructs, with the events on objects that they may be applied to.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        events: Mapping[str, float],
        wording: Mapping[str, float],
        topics: Mapping[str, Mapping[str, float]],
        required: tuple[str, ...] = (),
        others: int = 0,
        cited: bool = False,
    ) -> None:
        self.others = others
        self.cited = cited
        self.vocabulary = vocabulary
        weighted: dict[str, set[str]] = {}
        for construct, weights in topics.items():
            weighted[construct] = set()
            if construct in wording:
                weighted[construct] = {event for event, weight in weights.items() if weight > 0}
        self.can = {*events}
        for construct in wording:
            of_places = construct not in weighted or "MOVE" in weighted[construct]
            if of_places or construct == "COREF":
                self.can.add(construct)
        self.coref = weighted["COREF"]
        self.things: set[tuple[str, str]] = set()
        for construct, of in weighted.items():
            if construct != "COREF":
                self.things |= {(construct, event) for event in of & {"GRAB", "DROP", "GIVE"}}
        self.denies = any(c == "NEGATE" for c, _ in self.things)
        self.required = set(required)
        self._shapes: dict[tuple[QuestionKind, int, str], list[Shape]] = {}

    def possible(self, kind: QuestionKind, size: int) -> bool:
        """True if some plan has that size. `limit` gives the reason if not."""
        objects = len(self.vocabulary.objects)
        if kind == "give-qs":
            if size == 2:
                return "GIVE" in self.coref
            return size == 1 and "COREF" not in self.required
        if kind in ("list", "counting") and self.cited:
            taken_again = bool(self.can & {"DROP", "GIVE"})
            return "GRAB" in self.can and (size <= objects or taken_again)
        if kind in ("list", "counting"):
            per_object = 2 if self.coref & {"GRAB", "DROP"} else 1
            denials = DENIALS if self.denies else 0
            return 1 <= size <= objects * per_object + denials
        return any(self.shapes(kind, size, answer) for answer in ("yes", "no", "maybe"))

    def limit(self, kind: str) -> str:
        """State what limits the size of a support, as the end of an error message."""
        if kind in ("list", "counting") and self.cited:
            return "what is never left or given away is taken once; add DROP or GIVE"
        if kind in ("list", "counting"):
            return (
                f"each of the {len(self.vocabulary.objects)} objects adds one sentence (two with"
                " COREF on GRAB or DROP, more with NEGATE on them); add objects or constructs, or"
                " ask for less"
            )
        if kind == "give-qs":
            return "a gift is one sentence, two with COREF on GIVE"
        return "allow other sizes, events or constructs"

    def shapes(self, kind: QuestionKind, size: int, wanted: str) -> list[Shape]:
        """List the shapes of a size that this group's world and requirements allow."""
        shapes = self._shapes.get((kind, size, wanted))
        if shapes is None:
            shapes = [s for s in self._all_shapes(kind, size, wanted) if self._fits(s)]
            self._shapes[kind, size, wanted] = shapes
        return shapes

    def _all_shapes(self, kind: QuestionKind, size: int, wanted: str) -> list[Shape]:
        """List all combinations of the group's events and constructs that add up to a size."""
        extras = {"where-O": (0, 1), "where-was-O": (1, 2)}.get(kind, (0,))
        may_double = "INDEF" in self.can and (kind != "yes-no" or wanted == "yes")
        certain = wanted != "maybe" or kind != "yes-no"
        if not certain and "INDEF" not in self.can:
            return []
        doubles = (False, True) if may_double else (False,)
        most_gives = size if "GIVE" in self.can else 0
        most_handovers = size // 2 if {"GRAB", "DROP"} <= self.can else 0
        most_denials = DENIALS if kind == "where-O" and self.denies else 0
        shapes: list[Shape] = []
        for extra, double, gives, handovers in product(
            extras, doubles, range(most_gives + 1), range(most_handovers + 1)
        ):
            # The rest are denials and antecedents. Below 0, the range is empty because the other
            # parts exceed the size.
            rest = size - gives - 2 * handovers - 1 - double - extra
            for denials in range(min(rest, most_denials) + 1):
                shapes.append(Shape(gives, handovers, rest - denials, double, extra, denials))
        return [s for s in shapes if self._sensible(kind, s)]

    def _sensible(self, kind: QuestionKind, shape: Shape) -> bool:
        links = shape.gives + shape.handovers
        if shape.double and not links:
            # Two uncertain anchors are about two persons, who must be connected by a link.
            return False
        if kind in ("where-O", "where-was-O"):
            # Without an extra sentence, the holder must have received the object by a link.
            own = shape.extra - (kind == "where-was-O")
            return "GRAB" in self.can and bool(own or links)
        return True

    def _fits(self, shape: Shape) -> bool:
        """True if there are enough persons, enough sentences for the pronouns, and everything the
        composition requires.
        """
        links = shape.gives + shape.handovers
        if links + 1 > len(self.vocabulary.persons):
            return False
        sentences = [
            ("GIVE", shape.gives),
            ("DROP", shape.handovers),
            ("GRAB", shape.handovers),
            ("MOVE", 1),
            ("GRAB", shape.extra),
        ]
        follow = self.coref | {event for construct, event in self.things if construct == "COMPOUND"}
        slots = sum(n for event, n in sentences if event in follow)
        if "COMPOUND" in self.can and "MOVE" not in self.coref:
            slots += 1  # the anchor, by "they"
        if shape.antecedents > slots:
            return False
        # Number of sentences that can have each concept, or 1 for concepts that any shape can have.
        only_denials = self.denies and "NEGATE" not in self.can
        sentences_with = {
            "GIVE": shape.gives,
            "DROP": shape.handovers + shape.extra,
            "GRAB": shape.handovers + shape.extra,
            "COREF": shape.antecedents,
            "COMPOUND": shape.antecedents,
            "NEGATE": shape.denials if only_denials else 1,
        }
        return all(sentences_with.get(concept, 1) for concept in self.required)

    def may_have(self, kind: QuestionKind, size: int, wanted: str, concept: str) -> bool:
        """True if a proof of that size can have a shape with room for a concept."""
        if kind in ("list", "counting", "give-qs") or concept != "GIVE":
            return True
        return any(shape.gives for shape in self.shapes(kind, size, wanted))

    def plan(
        self,
        kind: QuestionKind,
        size: int,
        rng: Random,
        wanted: str = "yes",
        concepts: Mapping[str, bool] = MappingProxyType({}),
    ) -> ProofPlan:
        """Plan a proof of that size, with the question.

        Args:
            kind: The question type.
            size: Sentences in the support.
            rng: The example's own stream.
            wanted: The answer to a yes-no question.
            concepts: True for concepts that the support must have, False for those that it must not
                have. Gifts are planned; other concepts are left to chance.

        Raises:
            NoProofPlan: If this draw leads to no proof.
        """
        if kind == "give-qs":
            return self._begin(rng).gift(size)
        if kind in ("list", "counting"):
            builder = self._begin(rng)
            return builder.hands_full(kind, size) if self.cited else builder.holding(kind, size)
        shapes = self.shapes(kind, size, wanted)
        if "GIVE" in concepts:
            shapes = [shape for shape in shapes if bool(shape.gives) == concepts["GIVE"]]
        if not shapes:
            raise NoProofPlan
        return self._begin(rng).place(kind, pick(rng, shapes), wanted)

    def _begin(self, rng: Random) -> ProofBuilder:
        return ProofBuilder(self.vocabulary, self.can, self.coref, self.things, self.others, rng)


class Blocked(Exception):  # noqa: N818 - an outcome, counted by its reason
    """A draw that does not meet the request. The text names the requirement that failed."""


class ProofGuard:
    """Restrictions on the simulator that keep the planned proof valid.

    A gap is the part of the story before a unit, or after the last one.

    Attributes:
        still: Persons who must not move in each gap.
        kept: Objects that must not be touched in each gap.
    """

    def __init__(self, plan: ProofPlan | None, simulator: Simulator) -> None:
        self.simulator = simulator
        self.plan = plan
        if plan is not None:
            gaps = len(plan.units) + 1
            self.still: list[set[str]] = [set() for _ in range(gaps)]
            self.kept: list[set[str]] = [set() for _ in range(gaps)]
            self._stays(plan)
            self._things(plan)
            simulator.idle |= plan.idle

    def _stays(self, plan: ProofPlan) -> None:
        """Find the gaps within which each planned person must not move."""
        start: dict[str, int] = {}  # gap in which a person's current stay begins
        used: dict[str, int] = {}  # index of the last unit that depends on it
        dropped: set[str] = set()
        departs = self._departure(plan) if plan.carrier else -1
        for i, unit in enumerate(plan.units):
            for kind, who, places, thing, to, _, _, also, _, denied in unit:
                if not thing:
                    for person in who:
                        if i == departs and person == plan.carrier:
                            used[person] = i
                        if person in used:
                            self._close(person, start, used.pop(person))
                        start[person] = i + 1
                        if kind == "not" and places:
                            # They must have been in the place that the sentence denies.
                            self._hold(person, 0, i)
                    continue
                if denied:
                    continue
                # An object that was not dropped may be anywhere, so taking it proves nothing about
                # the place.
                if kind != "grab" or thing in dropped or also in dropped:
                    used[who[0]] = i
                    if to:
                        used[to] = i
                if kind == "drop":
                    dropped |= {thing, also} if also else {thing}
        used.update(dict.fromkeys(plan.final, len(plan.units)))
        for person, gap in used.items():
            self._close(person, start, gap)

    def _things(self, plan: ProofPlan) -> None:
        """Find the gaps within which each planned object must not be touched. They end at the last
        sentence about the object.
        """
        until: dict[str, int] = {}
        for i, unit in enumerate(plan.units):
            for event in unit:
                for thing in event.things:
                    until[thing] = i
        for thing, last in until.items():
            gaps = self.kept if thing in plan.keep else self.kept[: last + 1]
            for kept in gaps:
                kept.add(thing)

    @staticmethod
    def _departure(plan: ProofPlan) -> int:
        """Index of the unit where the object is carried away. Its carrier must not move earlier."""
        last = -1
        for i, unit in enumerate(plan.units):
            if any(not e.thing and plan.carrier in e.who for e in unit):
                last = i
        return last

    def _close(self, person: str, start: dict[str, int], last: int) -> None:
        """End a stay that a planned sentence depends on. If no sentence began the stay, it has
        lasted from the start, in the common meeting place.
        """
        if person not in start:
            assert self.plan is not None
            self.simulator.where[person] = self.plan.here
        self._hold(person, start.get(person, 0), last)

    def _hold(self, person: str, first: int, last: int) -> None:
        for still in self.still[first : last + 1]:
            still.add(person)

    def enter(self, gap: int) -> None:
        """Set the simulator's restrictions for the gap before unit `gap`."""
        if self.plan is not None:
            self.simulator.still = self.simulator.guarded = self.still[gap]
            self.simulator.kept = self.kept[gap]

    def perform(self, unit: list[Event]) -> list[Event]:
        """Apply the planned events and return their sentences.

        Raises:
            Blocked: If a move would not change the place, or if the giver and receiver of a gift
                would be in different places.
        """
        simulator = self.simulator
        sentences = []
        for event in unit:
            if event.kind == "not" and not event.places:
                event = PLACING["not", event.who[0], simulator.place(event.who[0]), event.pronoun]
            if not event.thing:
                self._must_change(event)
            elif event.kind == "give" and not event.denied:
                self._must_meet(event)
            simulator.perform(event)
            if event.kind == "either" and simulator.rng.random() < 0.5:
                # The simulator treats the first place as the true one. The text must not reveal
                # which one it is.
                event = PLACING_TWO[
                    "either", event.who, (event.places[1], event.places[0]), event.pronoun
                ]
            sentences.append(event)
        return sentences

    def _must_meet(self, gift: Event) -> None:
        if self.simulator.place(gift.who[0]) != self.simulator.place(gift.to):
            raise Blocked("a planned gift: giver and receiver are not in one place")

    def _must_change(self, event: Event) -> None:
        where = self.simulator.where
        for person in event.who:
            before = where.get(person)
            if event.kind == "not":
                assert self.plan is not None
                if before not in (None, event.places[0]) or event.places[0] == self.plan.here:
                    raise Blocked("a planned sentence: it would not be a change of place")
                where[person] = self.plan.here
            elif before in event.places:
                raise Blocked("a planned sentence: it would not be a change of place")
