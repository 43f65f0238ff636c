"""Pronouns in planned proofs: a sentence with a pronoun needs the one before it, which makes the proof longer by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskloom.suites.babi.story.events import Event
from taskloom.suites.draws import shuffle

if TYPE_CHECKING:
    from taskloom.suites.babi.generator.proof_plan import ProofBuilder


class NoProofPlan(Exception):  # noqa: N818 - an outcome, tried again with another draw
    """A draw that leads nowhere: too few objects or persons, or no way to add an antecedent."""


def add_antecedents(builder: ProofBuilder, count: int) -> None:
    """Give `count` of the proof's sentences a pronoun, each with an antecedent that the proof does not count otherwise."""
    if not count and not builder.coref and "COMPOUND" not in builder.can and not builder.things:
        return
    candidates = [e for e in builder.lines if len(e.who) == 1 and not e.denied and _may_follow(builder, e)]
    shuffle(builder.rng, candidates)
    done = 0
    for event in candidates:
        if done == count:
            break
        done += _precede(builder, event)
    if done < count:
        raise NoProofPlan


def _may_follow(builder: ProofBuilder, event: Event) -> bool:
    if event.kind in ("move", "in"):
        return "MOVE" in builder.coref or ("COMPOUND" in builder.can and event is not builder.departure)
    return event.kind.upper() in builder.coref or _may_be_them(builder, event)


def _may_be_them(builder: ProofBuilder, event: Event) -> bool:
    return event.kind != "grab" and {("COMPOUND", "GRAB"), ("COMPOUND", event.kind.upper())} <= builder.things


def _precede(builder: ProofBuilder, event: Event) -> bool:
    """Put a sentence with the same subject before an event, which then has a pronoun; return False if none fits."""
    at = next((i for i, unit in enumerate(builder.units) if unit == [event]), None)
    if at is None:
        return False
    person = event.who[0]
    after = event._replace(pronoun=True)
    plain = event.kind in ("move", "in") or event.kind.upper() in builder.coref
    if event.kind in ("move", "in") and event is not builder.departure:
        start = builder.places[-1]
        if start in event.places:
            return False
        if (
            "COMPOUND" in builder.can
            and builder.persons
            and ("MOVE" not in builder.coref or builder.rng.random() < 0.4)
        ):
            pair = (person, builder.persons.pop())
            builder.units[at] = [Event("move", pair, (start,)), Event("move", pair, event.places, pronoun=True)]
            return True
        if "MOVE" not in builder.coref:
            return False
        builder.units[at] = [Event("move", (person,), (start,)), after]
        return True
    if event.kind in ("drop", "give"):
        prop = [Event("grab", (person,), thing=event.thing)]
        if (
            prop in builder.units[:at]
            and prop[0] not in builder.lines
            and _quiet(builder, person, builder.units.index(prop), at)
        ):
            them = bool(builder.objects) and _may_be_them(builder, event) and (not plain or builder.rng.random() < 0.5)
            if them:
                also = builder.objects.pop()
                builder.units[at] = [prop[0]._replace(also=also), after._replace(also=also, them=True)]
            elif plain:
                builder.units[at] = [*prop, after]
            else:
                return False
            builder.units.remove(prop)
            return True
    if not plain:
        return False
    if builder.objects:
        builder.units[at] = [Event("grab", (person,), thing=builder.objects.pop()), after]
        return True
    if "NEGATE" in builder.can and not any(person in (*e.who, e.to) for unit in builder.units[:at] for e in unit):
        builder.units[at] = [Event("not", (person,), (builder.places[-1],)), after]
        return True
    return False


def free_pronouns(builder: ProofBuilder) -> None:
    """Give a pronoun, now and then, to a sentence that follows one of the proof's own: that costs the proof nothing."""
    i = 0
    while builder.coref and i + 1 < len(builder.units):
        before, after = builder.units[i][-1], builder.units[i + 1][0]
        if (
            len(before.who) == 1
            and before.who == after.who
            and not before.pronoun
            and not after.pronoun
            and not after.denied
            and before in builder.lines
            and builder.words.clear(before.who[0], before.to)
            and ("MOVE" if after.kind in ("move", "in") else after.kind.upper()) in builder.coref
            and builder.rng.random() < 0.5
        ):
            builder.units[i : i + 2] = [[*builder.units[i], after._replace(pronoun=True), *builder.units[i + 1][1:]]]
        i += 1


def _quiet(builder: ProofBuilder, person: str, start: int, stop: int) -> bool:
    """Return whether nothing between two units needs that person to hold the object already."""
    return not any(person in (*e.who, e.to) and e.thing for unit in builder.units[start + 1 : stop] for e in unit)
