"""Random small stories that are true in some hidden world; made without any of the package's generators."""

from __future__ import annotations

import random
from dataclasses import replace

from taskloom.suites.babi.events import Event, Question

PERSONS = ("Mary", "John", "Anna")
OBJECTS = ("milk", "apple")
PLACES = ("park", "school", "office")


def small_story(rng: random.Random, length: int, strict: bool) -> list[Event]:
    """A story of so many sentences; handling of objects is favoured, since that is where reasoning happens."""
    where = {p: rng.choice(PLACES) for p in PERSONS}
    lies: dict[str, str] = {o: rng.choice(PLACES) for o in OBJECTS}
    held: dict[str, str] = {}
    events: list[Event] = []
    while len(events) < length:
        kind = rng.choice(["move", "in", "not", "either", "grab", "grab", "drop", "drop", "give", "give"])
        person = rng.choice(PERSONS)
        pronoun = bool(events) and rng.random() < 0.25
        who = events[-1].who if pronoun else (person,)
        if kind in ("move", "in", "not", "either"):
            if not pronoun and rng.random() < 0.3 and kind != "either":
                who = tuple(rng.sample(PERSONS, 2))
            event = _placed(rng, kind, who, where, strict)
        else:
            event = _handled(rng, kind, who, where, lies, held) if len(who) == 1 else None
        if event is not None:
            events.append(replace(event, pronoun=pronoun))
    return events


def _placed(rng: random.Random, kind: str, who: tuple[str, ...], where: dict[str, str], strict: bool) -> Event | None:
    if kind == "not":
        denied = rng.choice(PLACES)
        if strict and any(where[p] != denied for p in who):
            return None
        for p in who:
            where[p] = rng.choice([x for x in PLACES if x != denied])
        return Event("not", who, (denied,))
    names = rng.sample(PLACES, 2) if kind == "either" else [rng.choice(PLACES)]
    if strict and any(where[p] in names for p in who):
        return None
    target = rng.choice(names)
    for p in who:
        where[p] = target
    return Event(kind, who, tuple(names))  # type: ignore[arg-type]


def _handled(
    rng: random.Random,
    kind: str,
    who: tuple[str, ...],
    where: dict[str, str],
    lies: dict[str, str],
    held: dict[str, str],
) -> Event | None:
    person, thing = who[0], rng.choice(OBJECTS)
    if kind == "grab":
        if held.get(thing) or lies[thing] != where[person]:
            return None
        held[thing] = person
        return Event("grab", who, thing=thing)
    if held.get(thing) != person:
        return None
    if kind == "drop":
        held.pop(thing)
        lies[thing] = where[person]
        return Event("drop", who, thing=thing)
    near = [p for p in PERSONS if p != person and where[p] == where[person]]
    if not near:
        return None
    held[thing] = rng.choice(near)
    return Event("give", who, thing=thing, to=held[thing])


def all_questions() -> list[Question]:
    """Every question but the give forms, over this little world."""
    found = [Question("where-P", p) for p in PERSONS]
    found += [Question("yes-no", p, place=x) for p in PERSONS for x in PLACES]
    found += [Question("list", p) for p in PERSONS] + [Question("counting", p) for p in PERSONS]
    found += [Question("where-O", thing=o) for o in OBJECTS]
    return found + [Question("where-was-O", thing=o, place=x) for o in OBJECTS for x in PLACES]
