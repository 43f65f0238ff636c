"""Pronouns in planned proofs.

A sentence with a pronoun needs the sentence before it, so the proof becomes one sentence longer.

A `ProofBuilder` has `lines`, the sentences that the proof counts, and `units`, all its sentences so
far in groups that must stay together. `persons`, `objects` and `places` are names that the proof
does not use. What the group allows is in `coref` (events that may have a pronoun), in `can`
(events, and constructs of sentences about places) and in `things` (pairs of a construct and an
event with an object).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from taskloom.suites.babi.story.events import Event

if TYPE_CHECKING:
    from taskloom.suites.babi.generator.proof_plan import ProofBuilder


class NoProofPlan(Exception):  # noqa: N818 - an outcome, tried again with another draw
    """A draw that cannot be completed: too few objects or persons, or no possible antecedent."""


def add_antecedents(builder: ProofBuilder, count: int) -> None:
    """Give `count` of the proof's sentences a pronoun, each with an antecedent that only the
    pronoun needs.
    """
    if not count and not builder.coref and "COMPOUND" not in builder.can and not builder.things:
        # Callers pass every count, even 0, because the shuffle below is part of the random stream
        # that golden digests fix.
        return
    candidates = [
        e for e in builder.lines if len(e.who) == 1 and not e.denied and _may_follow(builder, e)
    ]
    builder.rng.shuffle(candidates)
    done = 0
    for event in candidates:
        if done == count:
            break
        done += _precede(builder, event)
    if done < count:
        raise NoProofPlan


def _may_follow(builder: ProofBuilder, event: Event) -> bool:
    """True if the group allows the sentence to have a pronoun."""
    if event.kind in ("move", "in"):
        together = "COMPOUND" in builder.can and event is not builder.departure
        return "MOVE" in builder.coref or together
    return event.kind.upper() in builder.coref or _may_be_them(builder, event)


def _may_be_them(builder: ProofBuilder, event: Event) -> bool:
    """True if the sentence may refer to two objects as "them", after a grab of both."""
    return (
        event.kind != "grab"
        and {("COMPOUND", "GRAB"), ("COMPOUND", event.kind.upper())} <= builder.things
    )


def _precede(builder: ProofBuilder, event: Event) -> bool:
    """Put a sentence with the same subject before an event, which then gets a pronoun. Return False
    if no sentence fits.
    """
    if [event] not in builder.units:
        return False
    if event.kind in ("move", "in") and event is not builder.departure:
        unit = _after_a_move(builder, event)
    else:
        unit = _after_its_grab(builder, event) or _after_another(builder, event)
    if unit is None:
        return False
    builder.units[builder.units.index([event])] = unit
    return True


def _after_a_move(builder: ProofBuilder, event: Event) -> list[Event] | None:
    """Return a move preceded by another one, of the same person alone or together with another
    person.
    """
    start = builder.places[-1]
    if start in event.places:
        return None
    can_pair = "COMPOUND" in builder.can and bool(builder.persons)
    if can_pair and ("MOVE" not in builder.coref or builder.rng.random() < 0.4):
        pair = (event.who[0], builder.persons.pop())
        return [Event("move", pair, (start,)), Event("move", pair, event.places, pronoun=True)]
    if "MOVE" not in builder.coref:
        return None
    return [Event("move", event.who, (start,)), event._replace(pronoun=True)]


def _after_its_grab(builder: ProofBuilder, event: Event) -> list[Event] | None:
    """Move a grab so that it comes right before the drop or gift that it makes possible. Returns
    that drop or gift.
    """
    grab = Event("grab", event.who, thing=event.thing)
    at = builder.units.index([event])
    if (
        event.kind not in ("drop", "give")
        or grab in builder.lines
        or [grab] not in builder.units[:at]
    ):
        return None
    if not _quiet(builder, event.who[0], builder.units.index([grab]), at):
        return None
    after, plain = event._replace(pronoun=True), _may_be_plain(builder, event)
    two_things = bool(builder.objects) and _may_be_them(builder, event)
    if two_things and (not plain or builder.rng.random() < 0.5):
        also = builder.objects.pop()
        unit = [grab._replace(also=also), after._replace(also=also, them=True)]
    elif plain:
        unit = [grab, after]
    else:
        return None
    builder.units.remove([grab])
    return unit


def _after_another(builder: ProofBuilder, event: Event) -> list[Event] | None:
    """Return an event, preceded by another action of the same person that proves nothing."""
    if not _may_be_plain(builder, event):
        return None
    after = event._replace(pronoun=True)
    if builder.objects:
        return [Event("grab", event.who, thing=builder.objects.pop()), after]
    before = chain.from_iterable(builder.units[: builder.units.index([event])])
    mentioned = any(event.who[0] in (*earlier.who, earlier.to) for earlier in before)
    if "NEGATE" in builder.can and not mentioned:
        return [Event("not", event.who, (builder.places[-1],)), after]
    return None


def _may_be_plain(builder: ProofBuilder, event: Event) -> bool:
    """True if the pronoun may refer to the subject alone."""
    return event.kind in ("move", "in") or event.kind.upper() in builder.coref


def free_pronouns(builder: ProofBuilder) -> None:
    """Sometimes give a pronoun to a sentence that follows another sentence of the proof, so that
    the size stays the same.
    """
    if not builder.coref:
        return
    i = 0
    while i + 1 < len(builder.units):
        first, second = builder.units[i], builder.units[i + 1]
        if _can_refer(builder, first[-1], second[0]) and builder.rng.random() < 0.5:
            # Make them one unit, so that nothing comes between the two sentences.
            joined = [*first, second[0]._replace(pronoun=True), *second[1:]]
            builder.units[i : i + 2] = [joined]
        i += 1


def _can_refer(builder: ProofBuilder, before: Event, after: Event) -> bool:
    """True if a pronoun in sentence `after` can refer to the one person of sentence `before`."""
    if len(before.who) != 1 or before.who != after.who:
        return False
    if before.pronoun or after.pronoun or after.denied:
        return False
    topic = "MOVE" if after.kind in ("move", "in") else after.kind.upper()
    return (
        topic in builder.coref
        and before in builder.lines
        and builder.words.clear(before.who[0], before.to)
    )


def _quiet(builder: ProofBuilder, person: str, start: int, stop: int) -> bool:
    """True if nothing between two units requires that the person already holds the object."""
    between = chain.from_iterable(builder.units[start + 1 : stop])
    return not any(event.thing and person in (*event.who, event.to) for event in between)
