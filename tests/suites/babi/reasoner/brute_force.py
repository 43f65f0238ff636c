"""Possible worlds, enumerated: the oracle that the reasoner must equal.

A world is where every person is and where every object is (in somebody's hands, or on the ground
somewhere). All worlds are held at once as one array of booleans with an axis per person and per
object; reading a sentence keeps and moves the worlds in which it can be true; of a sentence that is
not read only the persons and objects it is about are known. Nothing is shared with the reasoner but
the event type.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from taskloom.suites.babi.story.events import Event, Question

Worlds = NDArray[np.bool_]


@dataclass(frozen=True)
class Universe:
    persons: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    strict: bool = False
    size: int = field(init=False)

    def __post_init__(self) -> None:
        # The natural reading allows for a place that nobody names.
        object.__setattr__(self, "size", len(self.places) + (not self.strict))

    def start(self) -> Worlds:
        """Everybody anywhere, every object on the ground anywhere."""
        hands, n = len(self.persons), self.size
        worlds = np.ones((n,) * hands + (hands + n,) * len(self.objects), dtype=bool)
        for axis in range(hands, worlds.ndim):
            self._at(worlds, {axis: slice(0, hands)})[...] = False
        return worlds

    @staticmethod
    def _at(worlds: Worlds, where: dict[int, int | slice]) -> Worlds:
        view: Worlds = worlds[tuple(where.get(axis, slice(None)) for axis in range(worlds.ndim))]
        return view

    def _person(self, name: str) -> int:
        return self.persons.index(name)

    def _object(self, name: str) -> int:
        return len(self.persons) + self.objects.index(name)

    def _forget(self, worlds: Worlds, axis: int, allowed: list[int]) -> Worlds:
        mask = np.zeros(worlds.shape[axis], dtype=bool)
        mask[allowed] = True
        shape = [1] * worlds.ndim
        shape[axis] = -1
        out: Worlds = worlds.any(axis=axis, keepdims=True) & mask.reshape(shape)
        return out

    def read(self, worlds: Worlds, event: Event) -> Worlds:
        """The worlds after a sentence that was read."""
        if event.kind in ("move", "in", "not", "either"):
            return self._read_place(worlds, event)
        if event.denied:
            return worlds
        if event.places:
            kept = np.zeros_like(worlds)
            for name in event.places:
                here: dict[int, int | slice] = {self._person(event.who[0]): self.places.index(name)}
                self._at(kept, here)[...] = self._at(worlds, here)
            worlds = kept
        for name in event.things:
            worlds = self._read_handling(worlds, event, name)
        return worlds

    def _read_handling(self, worlds: Worlds, event: Event, name: str) -> Worlds:
        person, thing, hands = self._person(event.who[0]), self._object(name), len(self.persons)
        after = np.zeros_like(worlds)
        for place in range(self.size):
            ground = hands + place
            here: dict[int, int | slice] = {person: place}
            if event.kind == "grab":
                self._at(after, {**here, thing: person})[...] = self._at(
                    worlds, {**here, thing: ground}
                )
            elif event.kind == "drop":
                self._at(after, {**here, thing: ground})[...] = self._at(
                    worlds, {**here, thing: person}
                )
            else:
                to = self._person(event.to)
                both: dict[int, int | slice] = {person: place, to: place}
                self._at(after, {**both, thing: to})[...] = self._at(
                    worlds, {**both, thing: person}
                )
        return after

    def _read_place(self, worlds: Worlds, event: Event) -> Worlds:
        named = [self.places.index(p) for p in event.places]
        others = [p for p in range(self.size) if p not in named]
        now, before = (others, named) if event.kind == "not" else (named, others)
        for name in event.who:
            axis = self._person(name)
            if self.strict:
                worlds = np.take(worlds, before, axis=axis)
            worlds = np.broadcast_to(worlds.any(axis=axis, keepdims=True), self.start().shape)
            worlds = self._forget(worlds, axis, now)
        return worlds

    def skip(self, worlds: Worlds, event: Event) -> Worlds:
        """The worlds after a sentence of which only the topic is known."""
        if event.kind in ("move", "in", "not", "either"):
            for name in event.who:
                worlds = self._forget(worlds, self._person(name), list(range(self.size)))
            return worlds
        hands = len(self.persons)
        may_hold = [self._person(p) for p in {*event.who, event.to} if p]
        for name in event.things:
            # It may also change nothing: who held the object and is not named may hold it still.
            worlds = worlds | self._forget(
                worlds, self._object(name), may_hold + [hands + p for p in range(self.size)]
            )
        return worlds

    def places_of(self, worlds: Worlds, person: str) -> set[int]:
        axis = self._person(person)
        return set(
            np.flatnonzero(
                worlds.any(axis=tuple(a for a in range(worlds.ndim) if a != axis))
            ).tolist()
        )

    def places_of_thing(self, worlds: Worlds, name: str) -> set[int]:
        hands, thing = len(self.persons), self._object(name)
        keep = set(range(hands)) | {thing}
        joint = np.asarray(worlds.any(axis=tuple(a for a in range(worlds.ndim) if a not in keep)))
        found = {
            state - hands for state in range(hands, hands + self.size) if joint[..., state].any()
        }
        for person in range(hands):
            held = joint[..., person]
            found |= set(
                np.flatnonzero(
                    held.any(axis=tuple(a for a in range(hands) if a != person))
                ).tolist()
            )
        return found

    def at(self, worlds: Worlds, name: str, place: int) -> Worlds:
        """Of these worlds, those in which an object is in a place."""
        hands, thing = len(self.persons), self._object(name)
        kept = np.zeros_like(worlds)
        ground: dict[int, int | slice] = {thing: hands + place}
        self._at(kept, ground)[...] = self._at(worlds, ground)
        for person in range(hands):
            held: dict[int, int | slice] = {thing: person, person: place}
            self._at(kept, held)[...] = self._at(worlds, held)
        return kept

    def held_by(self, worlds: Worlds, person: str) -> set[tuple[str, ...]]:
        """Every collection of objects that somebody may hold."""
        hands, who = len(self.persons), self._person(person)
        joint = worlds.any(axis=tuple(range(hands)))
        return {
            tuple(sorted(o for o, state in zip(self.objects, states, strict=True) if state == who))
            for states in np.argwhere(joint)
        }

    def run(self, events: list[Event], chosen: set[int] | None = None) -> Worlds:
        worlds = self.start()
        for i, event in enumerate(events):
            worlds = (
                self.read(worlds, event)
                if chosen is None or understood(events, i, chosen)
                else self.skip(worlds, event)
            )
        return worlds

    def arrivals(
        self, events: list[Event], thing: str, place: str
    ) -> dict[tuple[int, int] | None, Worlds]:
        """For every world, the last sentence at which the object came into the place, and from
        where.
        """
        target = self.places.index(place)
        branches: dict[tuple[int, int] | None, Worlds] = {None: self.start()}
        for i, event in enumerate(events):
            after: dict[tuple[int, int] | None, Worlds] = {}

            def add(
                key: tuple[int, int] | None,
                worlds: Worlds,
                into: dict[tuple[int, int] | None, Worlds],
            ) -> None:
                if worlds.any():
                    into[key] = into[key] | worlds if key in into else worlds

            for key, worlds in branches.items():
                if event.thing:  # handing something over does not change where it is
                    add(key, self.read(worlds, event), after)
                    continue
                for source in range(self.size):
                    here = self.at(worlds, thing, source)
                    if not here.any():
                        continue
                    result = self.read(here, event)
                    came = self.at(result, thing, target)
                    if source == target:
                        add(key, result, after)
                    else:
                        add((i, source), came, after)
                        add(key, result & ~came, after)
            branches = after
        return branches


def understood(events: list[Event], i: int, chosen: set[int]) -> bool:
    """Whether a sentence is read, and so are those before it that its pronoun needs."""
    while i in chosen:
        if not events[i].pronoun:
            return True
        i -= 1
    return False


def answer(universe: Universe, events: list[Event], question: Question, worlds: Worlds) -> str:
    """The answer in all of the worlds that remain after the whole story, or 'unknown'."""

    def one(found: set[int]) -> str:
        return (
            universe.places[min(found)]
            if len(found) == 1 and min(found) < len(universe.places)
            else "unknown"
        )

    if question.kind == "where-P":
        return one(universe.places_of(worlds, question.person))
    if question.kind == "where-O":
        return one(universe.places_of_thing(worlds, question.thing))
    if question.kind == "yes-no":
        found, place = (
            universe.places_of(worlds, question.person),
            universe.places.index(question.place),
        )
        return "no" if place not in found else "yes" if len(found) == 1 else "maybe"
    if question.kind == "where-was-O":
        keys = list(universe.arrivals(events, question.thing, question.place))
        return one({keys[0][1]}) if len(keys) == 1 and keys[0] is not None else "unknown"
    held = universe.held_by(worlds, question.person)
    if question.kind == "counting":
        counts = {len(h) for h in held}
        return ["none", "one", "two", "three"][min(counts)] if len(counts) == 1 else "unknown"
    return (",".join(min(held)) or "nothing") if len(held) == 1 else "unknown"
