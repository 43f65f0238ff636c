"""Which questions can be asked of a state of knowledge: exactly those whose answer is entailed, or "maybe" where wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from taskloom.core.seeding import Random
from taskloom.suites.babi.reasoner.answers import MAYBE, answer, arrival, latest_gift, whereabouts
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.events import GIVE_FORMS, Question, QuestionKind, give_question

T = TypeVar("T")


def askable(
    knowledge: Knowledge,
    kind: QuestionKind,
    rng: Random,
    answers: Mapping[str, float] | None = None,
) -> Iterator[Question]:
    """Yield the questions of a kind that can be asked now, in random order.

    Args:
        knowledge: What the story has said so far.
        kind: The question type.
        rng: Decides the order.
        answers: For yes-no questions, the wanted answers with weights; yes and no alike by default. Nothing wanted gives every
            question that is decided.
    """
    if kind == "where-P":
        return _persons(knowledge, rng, settled=True)
    if kind == "where-O":
        return _things(knowledge, rng, settled=True)
    if kind == "where-was-O":
        return _arrivals(knowledge, rng)
    if kind == "yes-no":
        return _yes_no(knowledge, rng, {"yes": 1.0, "no": 1.0} if answers is None else answers)
    if kind == "give-qs":
        return _gifts(knowledge, rng)
    return _hands(knowledge, kind, rng)


def unsettled(knowledge: Knowledge, kind: QuestionKind, rng: Random) -> Iterator[Question]:
    """Yield the where-P or where-O questions that the story does not settle, about those it tells of, in random order."""
    if kind == "where-P":
        return _persons(knowledge, rng, settled=False)
    if kind == "where-O":
        return _things(knowledge, rng, settled=False)
    return iter(())


def _persons(knowledge: Knowledge, rng: Random, settled: bool) -> Iterator[Question]:
    for person in _shuffled(rng, list(knowledge.stay)):
        if _single(knowledge, knowledge.stay[person]) == settled:
            yield Question("where-P", person)


def _things(knowledge: Knowledge, rng: Random, settled: bool) -> Iterator[Question]:
    for thing in _shuffled(rng, list(knowledge.things)):
        variable = whereabouts(knowledge, thing)
        if variable is not None and _single(knowledge, variable) == settled:
            yield Question("where-O", thing=thing)


def _arrivals(knowledge: Knowledge, rng: Random) -> Iterator[Question]:
    pairs = [(thing, place) for thing in knowledge.things for place in _visited(knowledge, thing)]
    for thing, place in _shuffled(rng, pairs):
        if arrival(knowledge, thing, place):
            yield Question("where-was-O", thing=thing, place=place)


def _hands(knowledge: Knowledge, kind: QuestionKind, rng: Random) -> Iterator[Question]:
    """Yield the questions about what somebody holds, for everybody who ever handled a thing."""
    handled: dict[
        str, None
    ] = {}  # a set in the order of the story, so that the shuffle is the same in every process
    for thing in knowledge.things.values():
        for handling in thing.handlings:
            handled.update(dict.fromkeys(handling.event.who))
            if handling.event.to:
                handled[handling.event.to] = None
    for person in _shuffled(rng, list(handled)):
        yield Question(kind, person)


def _single(knowledge: Knowledge, variable: int) -> bool:
    domain = knowledge.domain(variable)
    return domain & (domain - 1) == 0


def _visited(knowledge: Knowledge, thing: str) -> list[str]:
    seen: dict[str, None] = {}
    for carry in knowledge.things[thing].carries:
        if _single(knowledge, carry.after):
            seen.update(dict.fromkeys(knowledge.names(knowledge.domain(carry.after))))
    return list(seen)


def _yes_no(knowledge: Knowledge, rng: Random, answers: Mapping[str, float]) -> Iterator[Question]:
    wanted = rng.choices(list(answers), weights=list(answers.values()))[0] if answers else ""
    persons = [
        p for p in knowledge.stay if knowledge.domain(knowledge.stay[p]) != knowledge.everywhere
    ]
    for person in _shuffled(rng, persons):
        for place in _shuffled(rng, list(knowledge.places)):
            question = Question("yes-no", person, place=place)
            entailed = answer(knowledge, question).answer
            if not wanted and entailed != MAYBE:
                yield question
            elif entailed == wanted:
                yield question
                break


def _gifts(knowledge: Knowledge, rng: Random) -> Iterator[Question]:
    # Two gifts may lead to one question ("Who gave the milk?"), which is asked once.
    questions = dict.fromkeys(
        give_question(form, gift.event.who[0], gift.thing, gift.event.to)
        for gift in knowledge.gifts
        for form in GIVE_FORMS
    )
    yield from (q for q in _shuffled(rng, list(questions)) if latest_gift(knowledge, q))


def _shuffled(rng: Random, items: list[T]) -> list[T]:
    if len(items) > 1:
        rng.shuffle(items)
    return items
