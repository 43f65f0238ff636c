"""The guard of a planned proof: what the simulator must leave alone so that the story still proves
what it was planned for.
"""

from __future__ import annotations

from taskloom.suites.babi.generator.proof_plan import ProofPlan
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.story.events import PLACING, PLACING_TWO, Event


class Blocked(Exception):  # noqa: N818 - an outcome, counted by its reason
    """A draw that does not give what was asked for, and which wish it failed."""


class ProofGuard:
    """What the simulator must leave alone for the sake of a planned proof, unit by unit.

    A gap is what comes before a unit, or after the last one.

    Attributes:
        still: Who must not move in each gap.
        kept: What must not be touched in each gap.
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
        start: dict[str, int] = {}  # gap in which a person's present stay begins
        used: dict[str, int] = {}  # last unit that depends on it
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
                            self._hold(person, 0, i)  # so that they can have been where it denies
                    continue
                if denied:
                    continue
                # What nobody has dropped may be taken anywhere, so that the stay of who takes it is
                # of no use.
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
        """Find the gaps within which each planned object must not be touched: up to the last
        sentence about it.
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
        """Return in which unit the object is carried away: up to then its carrier must not have
        moved.
        """
        last = -1
        for i, unit in enumerate(plan.units):
            if any(not e.thing and plan.carrier in e.who for e in unit):
                last = i
        return last

    def _close(self, person: str, start: dict[str, int], last: int) -> None:
        """End a stay that a planned sentence depends on; one that no sentence began was there from
        the start.
        """
        if person not in start:
            assert self.plan is not None
            self.simulator.where[person] = self.plan.here
        self._hold(person, start.get(person, 0), last)

    def _hold(self, person: str, first: int, last: int) -> None:
        for still in self.still[first : last + 1]:
            still.add(person)

    def enter(self, gap: int) -> None:
        """Set what the simulator must leave alone before unit `gap`."""
        if self.plan is not None:
            self.simulator.still = self.simulator.guarded = self.still[gap]
            self.simulator.kept = self.kept[gap]

    def perform(self, unit: list[Event]) -> list[Event]:
        """Apply the planned events and return their sentences.

        Raises:
            Blocked: A move would not change the place, or a gift would not be handed over in one
                place.
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
                # The simulator takes the first place for the true one; the text must not give that
                # away.
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
