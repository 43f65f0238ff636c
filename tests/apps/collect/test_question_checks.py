"""Form checks of questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.apps.collect.project_file import DomainEntry
from taskloom.apps.collect.question_checks import check_question, edit_distance
from taskloom.apps.collect.records import AnswerFormat, CollectedTask
from taskloom.suites.zest.task_files import Kind

DOMAIN = DomainEntry(name="gardens", entity="this garden", documents="x")
DOGS = CollectedTask("d", "Are dogs allowed in this garden?", "normal", "gardens", "yes/no", "w")


def levels(
    question: str,
    format: AnswerFormat = "yes/no",
    variant: Kind = "normal",
    bases: tuple[CollectedTask, ...] = (),
) -> str:
    findings = check_question(
        question, format, variant, DOMAIN, [DOGS], ["Alder Hollow Garden", "Garden"], bases
    )
    return "; ".join(f"{f.level}: {f.text}" for f in findings)


def test_a_good_question_passes() -> None:
    assert levels("Is there a playground for children in this garden?") == ""
    assert levels("What birds nest in this garden?", "span") == ""


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ("In this garden?", "error: A question has 4 to 40 words; this one has 3."),
        ("Is there a playground in this garden", "error: End it with a question mark."),
        ("Is there a playground in the park?", "error: Ask about “this garden”"),
        ("Tell me whether this garden is old?", "error: Begin with a question word"),
        ("Is Alder Hollow Garden older than this garden?", "error: It names “Alder Hollow Garden”"),
        ("are DOGS allowed in this garden??", "error: The same question is there already"),
        ("Are big dogs allowed in this garden?", "warning: A question that is nearly the same"),
        ("What is grown in this garden?", "warning: A question that begins with “what” is rarely"),
        ("Is {this} allowed in this garden?", "error: Leave out | and braces."),
    ],
)
def test_what_is_wrong_is_said(question: str, problem: str) -> None:
    assert problem in levels(question)


def test_variants_are_compared_with_their_base_task() -> None:
    assert "same words as the question that it paraphrases" in levels(
        DOGS.question, variant="paraphrase", bases=(DOGS,)
    )
    assert "reword it as far" in levels(
        "Are dogs permitted in this garden?", variant="paraphrase", bases=(DOGS,)
    )
    assert (
        levels(
            "May one bring a dog to this garden?".replace("May", "Can"),
            variant="paraphrase",
            bases=(DOGS,),
        )
        == ""
    )
    assert (
        levels("Are cats allowed in this garden?", variant="target_semantics", bases=(DOGS,)) == ""
    )
    assert "changes 7 words" in levels(
        "Is there a playground for children near this garden?",
        variant="target_semantics",
        bases=(DOGS,),
    )


@given(st.text("abc", max_size=6), st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_the_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
