"""The reasoner against possible worlds: answers, sufficiency, minimality, and every alternative
support.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from taskloom.core.seeding import Random
from taskloom.suites.babi.reasoner.answers import UNKNOWN, answer, arrival, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.reasoner.second_solver import solve
from taskloom.suites.babi.story.events import Event, Question
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.sentences import SentenceWriter
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary
from tests.slow import slow_except

from . import brute_force as oracle
from .small_stories import OBJECTS, PERSONS, PLACES, all_questions, small_story


@dataclass(frozen=True)
class Known:
    """All that some worlds have in common, looked up once for every subset of a story."""

    people: dict[str, set[int]]
    things: dict[str, set[int]]
    hands: dict[str, set[tuple[str, ...]]]


def summary(universe: oracle.Universe, worlds: oracle.Worlds) -> Known:
    return Known(
        {p: universe.places_of(worlds, p) for p in PERSONS},
        {o: universe.places_of_thing(worlds, o) for o in OBJECTS},
        {p: universe.held_by(worlds, p) for p in PERSONS},
    )


def holds(question: Question, said: str, known: Known, full: Known) -> bool:
    """Whether an answer is true in all of some worlds; "maybe" when exactly the same places remain
    as after the whole story.
    """
    if question.kind == "where-P":
        return known.people[question.person] == {PLACES.index(said)}
    if question.kind == "where-O":
        return known.things[question.thing] == {PLACES.index(said)}
    if question.kind == "yes-no":
        found, place = known.people[question.person], PLACES.index(question.place)
        if said == "maybe":
            return found == full.people[question.person]
        return place not in found if said == "no" else found == {place}
    held = known.hands[question.person]
    if question.kind == "counting":
        return {len(h) for h in held} == {["none", "one", "two"].index(said)}
    return held == {tuple(x for x in said.split(",") if x != "nothing")}


def minimal(sufficient: list[bool], n: int) -> set[frozenset[int]]:
    """The minimal ones of all subsets, and a check that more sentences never take an answer
    away.
    """
    found = set()
    for mask in range(1 << n):
        if sufficient[mask]:
            assert all(sufficient[mask | (1 << i)] for i in range(n))
            if not any(mask >> i & 1 and sufficient[mask & ~(1 << i)] for i in range(n)):
                found.add(frozenset(i for i in range(n) if mask >> i & 1))
    return found


def states(universe: oracle.Universe, events: list[Event]) -> list[oracle.Worlds]:
    """The final worlds for every subset of the sentences, by its bit mask."""
    level: list[tuple[set[int], int, oracle.Worlds]] = [(set(), 0, universe.start())]
    for i, event in enumerate(events):
        after = []
        for chosen, mask, worlds in level:
            skipped = universe.skip(worlds, event)
            taken = chosen | {i}
            after.append((chosen, mask, skipped))
            read = universe.read(worlds, event) if oracle.understood(events, i, taken) else skipped
            after.append((taken, mask | 1 << i, read))
        level = after
    final = {mask: worlds for _, mask, worlds in level}
    return [final[mask] for mask in range(1 << len(events))]


def arrival_sets(
    universe: oracle.Universe, events: list[Event], question: Question
) -> set[frozenset[int]]:
    """Minimal sets that show an object's last coming into a place and where from."""
    ((key, _),) = universe.arrivals(events, question.thing, question.place).items()
    assert key is not None
    at, source = key
    target = universe.places.index(question.place)
    level = [(set[int](), 0, np.zeros_like(universe.start()), universe.start())]
    for i, event in enumerate(events):
        after = []
        for chosen, mask, good, bad in level:
            taken = chosen | {i}
            for kept, bit in ((chosen, 0), (taken, 1 << i)):
                step = (
                    universe.read if bit and oracle.understood(events, i, taken) else universe.skip
                )
                if i == at:
                    here = universe.at(bad, question.thing, source)
                    came = step(here, event)
                    arrived = universe.at(came, question.thing, target)
                    after.append(
                        (kept, mask | bit, arrived, step(bad & ~here, event) | (came & ~arrived))
                    )
                else:
                    after.append(
                        (
                            kept,
                            mask | bit,
                            step(good, event) if good.any() else good,
                            step(bad, event),
                        )
                    )
        level = after
    sufficient = {mask: bool(good.any()) and not bad.any() for _, mask, good, bad in level}
    return minimal([sufficient[mask] for mask in range(1 << len(events))], len(events))


def check_story(events: list[Event], strict: bool) -> int:
    """Compare everything; the number of supports compared."""
    reading: Reading = "strict" if strict else "natural"
    universe = oracle.Universe(PERSONS, OBJECTS, PLACES, strict)
    knowledge = Knowledge(PLACES, reading).tell_all(events)
    final = states(universe, events)
    known = [summary(universe, worlds) for worlds in final]
    compared = 0
    for question in all_questions():
        got = answer(knowledge, question)
        assert got.answer == oracle.answer(universe, events, question, final[-1]), (
            events,
            question,
        )
        if got.answer == UNKNOWN:
            assert supports(knowledge, question) == []
            continue
        sets = supports(knowledge, question)
        if question.kind == "where-was-O":
            wanted = arrival_sets(universe, events, question)
        else:
            wanted = minimal(
                [holds(question, got.answer, k, known[-1]) for k in known], len(events)
            )
        assert {frozenset(s) for s in sets} == wanted, (events, question)
        assert sets == sorted(sets, key=lambda s: (len(s), s))
        compared += len(sets)
    return compared


def check_many(count: int, seed: int) -> int:
    rng = random.Random(seed)
    compared = 0
    for i in range(count):
        strict = bool(i % 2)
        compared += check_story(small_story(rng, rng.choice([3, 4, 4, 5, 5, 6]), strict), strict)
    return compared


@pytest.mark.parametrize("part", slow_except(range(4), 0))
def test_answers_and_supports_equal_possible_worlds(part: int) -> None:
    assert check_many(63, part) > 600


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100, 120))
def test_answers_and_supports_equal_possible_worlds_in_many_more_stories(part: int) -> None:
    assert check_many(2_500, part) > 25_000


def test_small_stories_have_every_construct_on_every_event() -> None:
    rng = random.Random(3)
    events = [e for i in range(1_500) for e in small_story(rng, 6, bool(i % 2))]
    seen = {(e.kind, concept) for e in events for concept in e.concepts()}
    seen |= {(e.kind, "COMPOUND") for e in events if e.compound}
    constructs = ("COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF")
    wanted = {(kind, c) for kind in ("grab", "drop", "give") for c in constructs}
    wanted |= {(kind, c) for kind in ("move", "in", "not", "either") for c in constructs[:3]}
    assert wanted <= seen


def test_every_sentence_is_read_as_it_was_meant() -> None:
    rng = random.Random(11)
    vocabulary = Vocabulary(PERSONS, OBJECTS, PLACES, {"Mary": "she", "John": "he", "Anna": "she"})
    for i in range(400):
        lexicon = StoryLexicon(
            preposition=("in", "at")[i % 2], double_object=bool(i % 3), there={"drop": 0.3}
        )
        events = small_story(rng, 8, strict=False)
        passage = " ".join(SentenceWriter(vocabulary, lexicon).write(events, Random(i)))
        for known in (vocabulary, None):
            story = parse_passage(passage, "Where is Mary?", known, lexicon)
            assert [e._replace(text="") for e in story.events] == events, passage


@pytest.mark.parametrize("stories", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_the_second_solver_equals_possible_worlds(stories: int) -> None:
    rng = random.Random(5)
    for i in range(stories):
        strict = bool(i % 2)
        events = small_story(rng, 7, strict)
        universe = oracle.Universe(PERSONS, OBJECTS, PLACES, strict)
        final = universe.run(events)
        for question in all_questions():
            said = oracle.answer(universe, events, question, final)
            assert solve(events, question, PLACES, strict) == said, (events, question)


@pytest.mark.parametrize("stories", [30, pytest.param(1_000, marks=pytest.mark.slow)])
def test_longer_stories_have_the_same_answers(stories: int) -> None:
    rng = random.Random(7)
    for i in range(stories):
        strict = bool(i % 2)
        events = small_story(rng, 12, strict)
        universe = oracle.Universe(PERSONS, OBJECTS, PLACES, strict)
        knowledge = Knowledge(PLACES, "strict" if strict else "natural").tell_all(events)
        final = universe.run(events)
        for question in all_questions():
            got = answer(knowledge, question).answer
            assert got == oracle.answer(universe, events, question, final), (events, question)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([Event("drop", ("Mary",), thing="milk")], "nobody holds"),
        (
            [Event("grab", ("Mary",), thing="milk"), Event("grab", ("John",), thing="milk")],
            "Mary holds since sentence 1",
        ),
        (
            [
                Event("grab", ("Mary",), thing="milk"),
                Event("give", ("John",), thing="milk", to="Anna"),
            ],
            "Mary holds",
        ),
        (
            [
                Event("move", ("Mary",), ("park",)),
                Event("move", ("John",), ("school",)),
                Event("grab", ("Mary",), thing="milk"),
                Event("give", ("Mary",), thing="milk", to="John"),
            ],
            "no place is left",
        ),
    ],
)
def test_contradictions_are_refused_with_their_sentence(events: list[Event], reason: str) -> None:
    with pytest.raises(Contradiction, match=reason) as caught:
        Knowledge(PLACES).tell_all(events)
    assert caught.value.sentence == len(events) - 1


def test_the_last_arrival_must_be_certain() -> None:
    carried = [
        Event("move", ("Mary",), ("park",)),
        Event("grab", ("Mary",), thing="milk"),
        Event("move", ("Mary",), ("school",)),
    ]
    assert arrival(Knowledge(PLACES).tell_all(carried), "milk", "school") is not None
    # After an unknown stay the milk may have come to the school once more, from wherever that stay
    # was.
    lost = [
        *carried,
        Event("not", ("Mary",), ("school",)),
        Event("either", ("Mary",), ("school", "office")),
    ]
    assert arrival(Knowledge(PLACES).tell_all(lost), "milk", "school") is None
