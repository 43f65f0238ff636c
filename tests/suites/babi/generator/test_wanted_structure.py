"""Stories have the structure that a group asks for: supports, proofs beside them, position,
signatures, answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from taskloom.recipe import Span
from taskloom.suites.babi.reasoner.answers import answer, supports
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.events import Question
from taskloom.suites.babi.story.vocabulary import Vocabulary
from tests.suites.babi.generator.generated import custom, events_of, group, some


def test_composition_of_the_support_can_be_required() -> None:
    for example in some(
        custom(
            splits={
                "mix": [group(questions=["where-P"], support="3..5", composition=["COREF", "GIVE"])]
            }
        )
    ):
        assert {"COREF", "GIVE"} <= set(str(example.traits["composition"]).split("+"))


@pytest.mark.parametrize(
    ("kind", "alternatives"), [("where-P", 1), ("where-O", "4..6"), ("yes-no", 2)]
)
def test_structure_is_planned_without_a_size_too(kind: str, alternatives: Any) -> None:
    required = ["COREF", "GIVE"] if alternatives == 1 else []
    shape = group(questions=[kind], composition=required, alternatives=alternatives, n=12)
    made = some(custom(splits={"mix": [shape]}))
    assert {int(e.traits["supports"]) for e in made} <= set(range(7)) & {*Span.read(alternatives)}
    assert all({*required} <= {*str(e.traits["composition"]).split("+")} for e in made)
    assert len({e.traits["support"] for e in made}) > 2


def test_number_of_proofs_can_be_required() -> None:
    made = custom(
        splits={"mix": [group(questions=["where-O"], support="2..4", alternatives="2..3", n=20)]}
    )
    assert all(example.traits["supports"] in (2, 3) for example in some(made))


@pytest.mark.parametrize(
    ("kind", "support", "alternatives"),
    [
        ("where-P", "1..3", 2),
        ("where-O", "2..4", "4..6"),
        ("yes-no", "2..3", "2..3"),
        ("where-was-O", "3..4", 2),
        ("list", "2..3", "2..4"),
    ],
)
def test_other_proofs_are_planned(kind: str, support: str, alternatives: Any) -> None:
    shape = group(
        questions=[kind],
        wording=["COREF", "CONJ"],
        support=support,
        alternatives=alternatives,
        n=12,
    )
    plan = custom(splits={"mix": [shape]})
    assert plan.check is not None
    for example in some(plan, 12):
        assert int(example.traits["supports"]) in Span.read(alternatives)
        assert plan.check(example) == example.targets


def test_distractors_can_be_left_out() -> None:
    few = some(custom(splits={"mix": [group(questions=["where-P"], support=3, distractors=0)]}))
    assert max(int(e.traits["sentences"]) for e in few) <= 8
    half = some(custom(splits={"mix": [group(questions=["where-P"], support=3, distractors=0.5)]}))
    assert max(int(e.traits["sentences"]) for e in half) < 20


@pytest.mark.parametrize(("position", "low", "high"), [("early", 1, 12), ("late", 9, 20)])
def test_position_of_the_support(position: str, low: int, high: int) -> None:
    for example in some(
        custom(splits={"mix": [group(questions=["where-O"], support=2, position=position)]})
    ):
        lines = [int(n) for n in str(example.traits["support_lines"]).split()]
        assert low <= min(lines)
        assert max(lines) <= high


def test_position_and_distractors_go_without_a_size() -> None:
    for position in ("early", "late"):
        examples = some(
            custom(
                splits={"mix": [group(questions=["where-O"], position=position, length=30, n=20)]}
            )
        )
        lines = [int(n) for e in examples for n in str(e.traits["support_lines"]).split()]
        assert sum(lines) / len(lines) < 13 if position == "early" else sum(lines) / len(lines) > 18
    bare = some(custom(splits={"mix": [group(questions=["where-P"], distractors=0, n=20)]}))
    # On the whole: where a shorter proof comes about by chance, the planned one is more than what
    # is needed.
    assert sum(int(e.traits["sentences"]) for e in bare) <= 2.5 * sum(
        int(e.traits["support"]) for e in bare
    )


def test_examples_per_signature_can_be_capped() -> None:
    from taskloom.suites.babi.generator.examples import AnsweredQuestion, support_signature

    made = some(
        custom(
            splits={"mix": [group(questions=["where-O"], support="3..5", per_signature=3, n=30)]}
        )
    )
    seen: Counter[str] = Counter()
    for example in made:
        story = events_of(example)
        knowledge = Knowledge(Vocabulary().places).tell_all(story.events)
        asked = story.questions[0].question
        posed = AnsweredQuestion(asked, answer(knowledge, asked), supports(knowledge, asked))
        seen[support_signature(story.events, posed)] += 1
    assert len(made) == 30
    assert max(seen.values()) <= 3


@pytest.mark.parametrize("story", [None, {"questions": 4, "gap": 5}])
def test_unknown_can_be_asked_for(story: dict[str, int] | None) -> None:
    plan = custom(
        splits={"mix": [group(questions=["where-P", "where-O"], unknown=0.5, n=80, story=story)]}
    )
    made = some(plan, 80)
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in made)
    assert 20 < sum(e.target == "unknown" for e in made) < 60
    assert all(e.traits["support"] == 0 for e in made if e.target == "unknown")


def test_exhaustive_questions() -> None:
    kinds = ["where-P", "where-O", "yes-no", "list", "give-qs"]
    plan = custom(splits={"mix": [group(questions=kinds, exhaustive=True, n=150)]})
    made = some(plan, 150)
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in made)
    assert list(plan.splits[0].rows(100, 110)) == made[100:110]
    assert len({e.input for e in made}) == 150
    first = [e for e in made if e.key == made[0].key]
    story = events_of(first[0])
    knowledge = Knowledge(Vocabulary().places).tell_all(story.events)
    known = [p for p in knowledge.stay if answer(knowledge, Question("where-P", p)).known]
    assert sum(e.traits["question"] == "where-P" for e in first) == len(known)


@pytest.mark.parametrize("kind", ["where-P", "where-O", "where-was-O", "yes-no"])
def test_long_proofs_are_planned_too(kind: str) -> None:
    made = some(
        custom(splits={"mix": [group(questions=[kind], support="7..15", length=40, n=27)]}), 27
    )
    assert len({e.traits["support"] for e in made}) >= 6
    assert all(7 <= int(e.traits["support"]) <= 15 for e in made)


def test_sizes_of_a_range_that_do_not_fit_the_story_are_left_out() -> None:
    made = some(
        custom(splits={"mix": [group(questions=["where-P"], support="2..15", length=8, n=40)]}), 40
    )
    assert {2, 3, 4} <= {e.traits["support"] for e in made}


def test_answers_can_be_weighted() -> None:
    made = some(
        custom(splits={"mix": [group(questions=["yes-no"], support="1..3", answers=["maybe"])]})
    )
    assert {e.target for e in made} == {"maybe"}
