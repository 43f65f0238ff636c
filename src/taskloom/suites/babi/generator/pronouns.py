"""Pronouns in planned proofs: a sentence with a pronoun needs the one before it, which makes the proof longer by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from taskloom.suites.babi.story.events import Event

if TYPE_CHECKING:
    from taskloom.suites.babi.generator.proof_plan import ProofBuilder


class NoBlueprint(Exception):  # noqa: N818 - an outcome, tried again with another draw
    """This draw leads nowhere: too few objects or persons, or no way to add an antecedent."""


def add_antecedents(draft: ProofBuilder, count: int) -> None:
    """Give so many of the proof's sentences a pronoun, each with an antecedent that the proof does not count otherwise."""
    candidates = [e for e in draft.lines if len(e.who) == 1 and not e.denied and _may_follow(draft, e)]
    draft.rng.shuffle(candidates)
    done = 0
    for event in candidates:
        if done == count:
            break
        done += _precede(draft, event)
    if done < count:
        raise NoBlueprint


def _may_follow(draft: ProofBuilder, event: Event) -> bool:
    if event.kind in ("move", "in"):
        return "MOVE" in draft.coref or ("COMPOUND" in draft.can and event is not draft.departure)
    return event.kind.upper() in draft.coref or _may_be_them(draft, event)


def _may_be_them(draft: ProofBuilder, event: Event) -> bool:
    return event.kind != "grab" and {("COMPOUND", "GRAB"), ("COMPOUND", event.kind.upper())} <= draft.things


def _precede(draft: ProofBuilder, event: Event) -> bool:
    """Put a sentence with the same subject before an event, which then has a pronoun."""
    at = next((i for i, unit in enumerate(draft.units) if unit == [event]), None)
    if at is None:
        return False
    person = event.who[0]
    after = replace(event, pronoun=True)
    plain = event.kind in ("move", "in") or event.kind.upper() in draft.coref
    if event.kind in ("move", "in") and event is not draft.departure:
        start = draft.places[-1]
        if start in event.places:
            return False
        if "COMPOUND" in draft.can and draft.persons and ("MOVE" not in draft.coref or draft.rng.random() < 0.4):
            pair = (person, draft.persons.pop())
            draft.units[at] = [Event("move", pair, (start,)), Event("move", pair, event.places, pronoun=True)]
            return True
        if "MOVE" not in draft.coref:
            return False
        draft.units[at] = [Event("move", (person,), (start,)), after]
        return True
    if event.kind in ("drop", "give"):
        prop = [Event("grab", (person,), thing=event.thing)]
        if (
            prop in draft.units[:at]
            and prop[0] not in draft.lines
            and _quiet(draft, person, draft.units.index(prop), at)
        ):
            them = bool(draft.objects) and _may_be_them(draft, event) and (not plain or draft.rng.random() < 0.5)
            if them:
                also = draft.objects.pop()
                draft.units[at] = [replace(prop[0], also=also), replace(after, also=also, them=True)]
            elif plain:
                draft.units[at] = [*prop, after]
            else:
                return False
            draft.units.remove(prop)
            return True
    if not plain:
        return False
    if draft.objects:
        draft.units[at] = [Event("grab", (person,), thing=draft.objects.pop()), after]
        return True
    if "NEGATE" in draft.can and not any(person in (*e.who, e.to) for unit in draft.units[:at] for e in unit):
        draft.units[at] = [Event("not", (person,), (draft.places[-1],)), after]
        return True
    return False


def free_pronouns(draft: ProofBuilder) -> None:
    """Now and then let a sentence follow one of the proof's own with a pronoun: that costs the proof nothing."""
    i = 0
    while i + 1 < len(draft.units):
        before, after = draft.units[i][-1], draft.units[i + 1][0]
        if (
            len(before.who) == 1
            and before.who == after.who
            and not before.pronoun
            and not after.pronoun
            and not after.denied
            and before in draft.lines
            and draft.words.clear(before.who[0], before.to)
            and ("MOVE" if after.kind in ("move", "in") else after.kind.upper()) in draft.coref
            and draft.rng.random() < 0.5
        ):
            draft.units[i : i + 2] = [[*draft.units[i], replace(after, pronoun=True), *draft.units[i + 1][1:]]]
        i += 1


def _quiet(draft: ProofBuilder, person: str, start: int, stop: int) -> bool:
    """Whether nothing between two units needs that person to hold the object already."""
    return not any(person in (*e.who, e.to) and e.thing for unit in draft.units[start + 1 : stop] for e in unit)
