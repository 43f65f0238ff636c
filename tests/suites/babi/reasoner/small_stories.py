"""Random small stories that are true in some hidden world; made without any of the package's
generators.
"""

from __future__ import annotations

import random

from taskloom.suites.babi.story.events import Event, Question

PERSONS = ("Mary", "John", "Anna")
OBJECTS = ("milk", "apple")
PLACES = ("park", "school", "office")


def small_story(rng: random.Random, length: int, strict: bool) -> list[Event]:
    """A story of so many sentences; handling of objects is favoured, since that is where reasoning
    happens.
    """
    where = {p: rng.choice(PLACES) for p in PERSONS}
    lies: dict[str, str] = {o: rng.choice(PLACES) for o in OBJECTS}
    held: dict[str, str] = {}
    events: list[Event] = []
    while len(events) < length:
        kind = rng.choice(
            ["move", "in", "not", "either", "grab", "grab", "drop", "drop", "give", "give"]
        )
        person = rng.choice(PERSONS)
        pronoun = bool(events) and rng.random() < 0.25
        who = events[-1].who if pronoun else (person,)
        if kind in ("move", "in", "not", "either"):
            if not pronoun and rng.random() < 0.3:
                who = tuple(rng.sample(PERSONS, 2))
            event = _placed(rng, kind, who, where, strict)
        elif rng.random() < 0.15:
            event = _denied(
                rng, kind, who if pronoun or rng.random() < 0.7 else tuple(rng.sample(PERSONS, 2))
            )
        else:
            event = _handled(rng, kind, who, where, lies, held) if len(who) == 1 else None
        if event is not None:
            them = pronoun and bool(event.also) and event.things == events[-1].things
            events.append(event._replace(pronoun=pronoun, them=them))
    return events


def _denied(rng: random.Random, kind: str, who: tuple[str, ...]) -> Event | None:
    """What was not done is always true, whoever holds what."""
    to = rng.choice([p for p in PERSONS if p not in who]) if kind == "give" else ""
    return Event(kind, who, thing=rng.choice(OBJECTS), to=to, denied=True)  # type: ignore[arg-type]


def _placed(
    rng: random.Random, kind: str, who: tuple[str, ...], where: dict[str, str], strict: bool
) -> Event | None:
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
    for p in who:
        where[p] = rng.choice(
            names
        )  # of two persons in either of two places, each may be in another
    return Event(kind, who, tuple(names))  # type: ignore[arg-type]


def _handled(
    rng: random.Random,
    kind: str,
    who: tuple[str, ...],
    where: dict[str, str],
    lies: dict[str, str],
    held: dict[str, str],
) -> Event | None:
    person = who[0]
    things = rng.sample(OBJECTS, 2) if rng.random() < 0.3 else [rng.choice(OBJECTS)]
    near = [p for p in PERSONS if p != person and where[p] == where[person]]
    to = rng.choice(near) if near and kind == "give" else ""
    if kind == "grab":
        able = all(not held.get(o) and lies[o] == where[person] for o in things)
    else:
        able = all(held.get(o) == person for o in things) and (kind == "drop" or bool(near))
    if not able:
        return None
    for thing in things:
        if kind == "drop":
            held.pop(thing)
            lies[thing] = where[person]
        else:
            held[thing] = to or person
    places: tuple[str, ...] = ()
    if rng.random() < 0.2:
        other = rng.choice([x for x in PLACES if x != where[person]])
        places = tuple(rng.sample([where[person], other], rng.choice([2, 2, 1])))
        if where[person] not in places:
            places = (where[person],)
    also = things[1] if len(things) > 1 else ""
    return Event(kind, who, places, things[0], to, also=also)  # type: ignore[arg-type]


def all_questions() -> list[Question]:
    """Every question but the give forms, over this little world."""
    found = [Question("where-P", p) for p in PERSONS]
    found += [Question("yes-no", p, place=x) for p in PERSONS for x in PLACES]
    found += [Question("list", p) for p in PERSONS] + [Question("counting", p) for p in PERSONS]
    found += [Question("where-O", thing=o) for o in OBJECTS]
    return found + [Question("where-was-O", thing=o, place=x) for o in OBJECTS for x in PLACES]
