"""Pronouns in planned proofs: a sentence with a pronoun needs the one before it, which makes the
proof longer by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskloom.suites.babi.story.events import Event

if TYPE_CHECKING:
    from taskloom.suites.babi.generator.proof_plan import ProofBuilder


class NoProofPlan(Exception):  # noqa: N818 - an outcome, tried again with another draw
    """A draw that leads nowhere: too few objects or persons, or no way to add an antecedent."""


def add_antecedents(builder: ProofBuilder, count: int) -> None:
    """Give `count` of the proof's sentences a pronoun, each with an antecedent that the proof does
    not count otherwise.
    """
    if not count and not builder.coref and "COMPOUND" not in builder.can and not builder.things:
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
    if event.kind in ("move", "in"):
        return "MOVE" in builder.coref or (
            "COMPOUND" in builder.can and event is not builder.departure
        )
    return event.kind.upper() in builder.coref or _may_be_them(builder, event)


def _may_be_them(builder: ProofBuilder, event: Event) -> bool:
    return (
        event.kind != "grab"
        and {("COMPOUND", "GRAB"), ("COMPOUND", event.kind.upper())} <= builder.things
    )


def _precede(builder: ProofBuilder, event: Event) -> bool:
    """Put a sentence with the same subject before an event, which then has a pronoun; return False
    if none fits.
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
    """Return a move with one before it, of the person alone or with somebody else."""
    start = builder.places[-1]
    if start in event.places:
        return None
    if (
        "COMPOUND" in builder.can
        and builder.persons
        and ("MOVE" not in builder.coref or builder.rng.random() < 0.4)
    ):
        pair = (event.who[0], builder.persons.pop())
        return [Event("move", pair, (start,)), Event("move", pair, event.places, pronoun=True)]
    if "MOVE" not in builder.coref:
        return None
    return [Event("move", event.who, (start,)), event._replace(pronoun=True)]


def _after_its_grab(builder: ProofBuilder, event: Event) -> list[Event] | None:
    """Return a drop or gift right after the grab that makes it possible, which moves here from
    where the story has it.
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
    if (
        builder.objects
        and _may_be_them(builder, event)
        and (not plain or builder.rng.random() < 0.5)
    ):
        also = builder.objects.pop()
        unit = [grab._replace(also=also), after._replace(also=also, them=True)]
    elif plain:
        unit = [grab, after]
    else:
        return None
    builder.units.remove([grab])
    return unit


def _after_another(builder: ProofBuilder, event: Event) -> list[Event] | None:
    """Return an event after something else that the person does, and that proves nothing."""
    if not _may_be_plain(builder, event):
        return None
    after = event._replace(pronoun=True)
    if builder.objects:
        return [Event("grab", event.who, thing=builder.objects.pop()), after]
    before = builder.units[: builder.units.index([event])]
    if "NEGATE" in builder.can and not any(
        event.who[0] in (*e.who, e.to) for unit in before for e in unit
    ):
        return [Event("not", event.who, (builder.places[-1],)), after]
    return None


def _may_be_plain(builder: ProofBuilder, event: Event) -> bool:
    return event.kind in ("move", "in") or event.kind.upper() in builder.coref


def free_pronouns(builder: ProofBuilder) -> None:
    """Give a pronoun, now and then, to a sentence that follows one of the proof's own: that costs
    the proof nothing.
    """
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
            builder.units[i : i + 2] = [
                [*builder.units[i], after._replace(pronoun=True), *builder.units[i + 1][1:]]
            ]
        i += 1


def _quiet(builder: ProofBuilder, person: str, start: int, stop: int) -> bool:
    """Return whether nothing between two units needs that person to hold the object already."""
    return not any(
        person in (*e.who, e.to) and e.thing
        for unit in builder.units[start + 1 : stop]
        for e in unit
    )
