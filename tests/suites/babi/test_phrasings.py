"""Pairs of one question in two phrasings, and the recipes of the paper's probes."""

from __future__ import annotations

from taskloom.core.example import Example
from taskloom.recipe import read
from taskloom.suites.babi.plan import rephrase
from tests.suites.babi.generator.generated import events_of, plan_of

N = 60


def test_both_phrasings_are_row_by_row_of_the_same_stories() -> None:
    asked, where = (
        list(plan_of(name).split("pairs").rows(0, N))
        for name in ("phrasing-T12", "phrasing-T12-where")
    )
    for one, other in zip(asked, where, strict=True):
        assert one.targets == ("yes",)
        assert one.input.removesuffix(one.question) == other.input.removesuffix(other.question)
        assert other.question.startswith("Where is ")
        assert f"in the {other.targets[0]}?" in one.question
        assert other.key == one.key
        assert {k for k in one.traits if one.traits[k] != other.traits[k]} == {"question"}


def test_the_second_solver_gives_the_same_answers_to_the_other_phrasing() -> None:
    plan = plan_of("phrasing-T12-where")
    assert plan.check is not None
    for example in plan.split("pairs").rows(0, N):
        assert plan.check(example) == example.targets


def test_other_questions_and_other_answers_stay_as_they_are() -> None:
    for kind, answer in (("where-O", "park"), ("yes-no", "no"), ("yes-no", "maybe")):
        example = Example("Mary went to the park. Q?", answer, {"question": kind}, question="Q?")
        assert rephrase(example) is example


def test_the_phrasing_changes_no_digest_where_nothing_is_rephrased() -> None:
    assert "phrasing" not in read("babi/mix-T12").fields.model_dump(mode="json")
    assert read("babi/phrasing-T12-where").fields.model_dump(mode="json")["phrasing"] == "where-P"


def test_a_double_disjunction_has_two_indefinite_sentences_in_its_support_and_its_control_one() -> (
    None
):
    groups = set()
    for example in plan_of("double-disjunctions").split("probe").rows(0, N):
        events = events_of(example).events
        support = [int(line) - 1 for line in str(example.traits["support_lines"]).split()]
        indefinite = sum(events[i].kind == "either" for i in support)
        group = example.traits["group"]
        assert (indefinite, example.targets) == (
            (2, ("yes",)) if group == "double" else (1, ("maybe",))
        )
        groups.add(group)
    assert groups == {"double", "single"}
