"""Proofs in words, and as derivations for analyses."""

from __future__ import annotations

from collections.abc import Sequence

from taskloom.core.example import Step
from taskloom.suites.babi.reasoner.answers import UNKNOWN, Verdict, fitting_gifts
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.events import EVENT_TYPES, Event, Question, Remembered


def says(event: Event) -> str:
    """Return what a sentence tells, with its pronoun resolved, in the wording of its type."""
    event_type = EVENT_TYPES[event.kind]
    who, plural = " and ".join(event.who), len(event.who) > 1
    words = {
        "who": who,
        "be": "are" if plural else "is",
        "things": " and ".join([f"the {thing}" for thing in event.things]),
        "thing": event.thing,
        "also": event.also,
        "to": event.to,
    }
    if event.denied:
        return f"{who} {'do' if plural else 'does'} not {event_type.denied_proof.format(**words)}"
    if event_type.handles:
        where = (
            f" in {' or '.join(f'the {place}' for place in event.places)}" if event.places else ""
        )
        return event_type.proof.format(**words, where=where, where_or_there=where or " there")
    return event_type.proof.format(**words, place=event.places[0], second=event.places[-1])


def in_words(
    knowledge: Knowledge,
    question: Question,
    verdict: Verdict,
    support: Sequence[int],
    lines: Sequence[int],
) -> str:
    """Write the proof of an answer from its support, with line numbers; for an open question, what
    remains possible.
    """
    if verdict.answer == UNKNOWN:
        if verdict.possible and len(verdict.possible) < len(knowledge.places):
            return f"the story leaves open: {', '.join(verdict.possible)}"
        return "the story does not say"
    left: dict[str, tuple[int, str]] = {}
    parts: list[str] = []
    for i in support:
        event = knowledge.events[i]
        text = f"[{lines[i]}] {says(event)}"
        for thing in () if event.denied else event.things:
            if event.kind == "drop":
                left[thing] = (lines[i], event.who[0])
                continue
            before = left.pop(thing, None)
            if event.kind == "grab" and before is not None and before[1] != event.who[0]:
                text += f", so {event.who[0]} is where {before[1]} left the {thing}"
        parts.append(text)
    fits = (
        len({g.sentence for g in fitting_gifts(knowledge, question)})
        if question.kind == "give-qs"
        else 1
    )
    latest = f" (the latest of {fits} gifts that fit the question)" if fits > 1 else ""
    parts.append(f"so the answer is {verdict.answer}{latest}")
    return "; ".join(parts)


_STEPS: Remembered[Event, Step] = Remembered(
    lambda event: Step("+".join(event.concepts()), says(event), ())
)
"""A sentence as a step of a proof."""


def derivation(
    events: Sequence[Event], support: Sequence[int], question: Question, answer: str
) -> list[Step]:
    """Return the official support as a derivation: each sentence by its concepts, then the question
    that combines them.
    """
    steps = [_STEPS[events[i]] for i in support]
    rule = question.kind if question.kind != "give-qs" else f"give-qs/{question.form}"
    return [*steps, Step(rule, answer, tuple(range(len(steps))))]
