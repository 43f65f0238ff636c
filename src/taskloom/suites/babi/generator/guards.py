"""The planned sentences of a proof among the others: when they happen, and what the stage must leave alone until then."""

from __future__ import annotations

from taskloom.suites.babi.generator.proof_plan import ProofPlan
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.story.events import POSITIONAL, Event


class Blocked(Exception):  # noqa: N818 - an outcome, counted by its reason
    """A draw that does not give what was asked for, and which wish it failed."""


class Guard:
    """Keeps the stage away from what a blueprint stands on, unit by unit."""

    def __init__(self, blueprint: ProofPlan | None, stage: Simulator) -> None:
        self.stage = stage
        self.blueprint = blueprint
        self.still: dict[str, list[tuple[int, int]]] = {}
        self.until: dict[str, int] = {}
        if blueprint is not None:
            self._stays(blueprint)
            stage.idle |= blueprint.idle

    def _stays(self, blueprint: ProofPlan) -> None:
        """The gaps within which each planned person must not move, and each planned object must not be touched."""
        end = len(blueprint.units)
        start: dict[str, int] = {}
        used: dict[str, int] = {}
        dropped: set[str] = set()
        departs = self._departure(blueprint)
        for i, unit in enumerate(blueprint.units):
            for event in unit:
                if event.kind in POSITIONAL:
                    for person in event.who:
                        if (person, i) == departs:
                            used[person] = i
                        self._close(person, start, used)
                        start[person] = i + 1
                        if event.kind == "not" and event.places:
                            self.still.setdefault(person, []).append(
                                (0, i)
                            )  # so that they can have been where it denies
                    continue
                for thing in event.things:
                    self.until[thing] = end if thing in blueprint.keep else i
                if event.denied:
                    continue
                if event.kind != "grab" or dropped.intersection(event.things):
                    for person in (*event.who, event.to):
                        if person:
                            used[person] = i
                if event.kind == "drop":
                    dropped.update(event.things)
        used.update(dict.fromkeys(blueprint.final, end))
        for person in list(used):
            if person not in start:
                self.stage.where[person] = blueprint.here  # there from the start, without a word
            self._close(person, start, used)

    @staticmethod
    def _departure(blueprint: ProofPlan) -> tuple[str, int]:
        """Who carries the object away, and in which unit: up to then they must not have moved."""
        last = -1
        for i, unit in enumerate(blueprint.units):
            if any(e.kind in POSITIONAL and blueprint.carrier in e.who for e in unit):
                last = i
        return blueprint.carrier, last

    def _close(self, person: str, start: dict[str, int], used: dict[str, int]) -> None:
        if person in used:
            if person not in start:
                self.stage.where[person] = self.blueprint.here if self.blueprint else ""
            self.still.setdefault(person, []).append((start.get(person, 0), used.pop(person)))

    def enter(self, gap: int) -> None:
        """The stage before unit `gap`."""
        if self.blueprint is None:
            return
        stage = self.stage
        stage.still = {p for p, spans in self.still.items() if any(low <= gap <= high for low, high in spans)}
        stage.guarded = stage.still
        stage.kept = {thing for thing, until in self.until.items() if gap <= until}

    def perform(self, unit: list[Event]) -> list[Event]:
        """The planned sentences happen; a move that would be none blocks the draw."""
        stage = self.stage
        told = []
        for event in unit:
            if event.kind == "not" and not event.places:
                event = Event("not", event.who, (stage.place(event.who[0]),), pronoun=event.pronoun)
            if event.kind in POSITIONAL:
                self._must_change(event)
            elif event.kind == "give" and not event.denied and stage.place(event.who[0]) != stage.place(event.to):
                raise Blocked("a planned gift: giver and receiver are not in one place")
            stage.perform(event)
            if event.kind == "either" and stage.rng.random() < 0.5:
                # The stage takes the first place for the true one; the text must not give that away.
                event = Event("either", event.who, (event.places[1], event.places[0]), pronoun=event.pronoun)
            told.append(event)
        return told

    def _must_change(self, event: Event) -> None:
        where = self.stage.where
        for person in event.who:
            before = where.get(person)
            if event.kind == "not":
                assert self.blueprint is not None
                if before not in (None, event.places[0]) or event.places[0] == self.blueprint.here:
                    raise Blocked("a planned sentence: it would not be a change of place")
                where[person] = self.blueprint.here
            elif before in event.places:
                raise Blocked("a planned sentence: it would not be a change of place")
