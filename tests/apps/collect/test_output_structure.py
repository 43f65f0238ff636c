"""The editor of output structures compiles to the JSON form, and answers in it are checked."""

from __future__ import annotations

import json

import pytest

from taskloom.apps.collect.errors import CollectError
from taskloom.apps.collect.output_structure import compile_answer, compile_structure, from_form

PASSAGE = "Otters nest along the stream in May.\nSwans nest on the island."


def test_a_structure_compiles_to_its_json_form_and_back() -> None:
    structure = compile_structure(
        "animal", [("month", "", False), ("nests", "yes, no", True), ("", "", False)], "this garden"
    )
    assert from_form(json.loads(json.dumps(structure.to_json()))) == structure
    assert structure.preview() == '[{"animal": "…", "month": "…", "nests": "yes or no"}]'


@pytest.mark.parametrize(
    ("main", "rows", "problem"),
    [
        ("garden", [("a", "", False)], "not this garden itself"),
        ("", [("a", "", False)], "1 to 4 words"),
        ("one two three four five", [("a", "", False)], "1 to 4 words"),
        ("animal", [], "1 to 3 attributes"),
        ("animal", [("a", "", False)] * 4, "1 to 3 attributes"),
        ("animal", [("animal", "", False)], "different names"),
        ("animal", [("a", "yes", True)], "at least two"),
        ("ani{mal", [("a", "", False)], "must not contain"),
    ],
)
def test_what_is_wrong_is_said(main: str, rows: list[tuple[str, str, bool]], problem: str) -> None:
    with pytest.raises(CollectError, match=problem):
        compile_structure(main, rows, "this garden")


def test_answers_quote_the_passage_or_the_listed_values() -> None:
    structure = compile_structure(
        "animal", [("month", "", False), ("nests", "yes, no", True)], "this garden"
    )
    rows = [
        {"animal": "Otters", "month": "May", "nests": "yes"},
        {"animal": "", "month": "", "nests": ""},
    ]
    assert json.loads(compile_answer(structure, rows, PASSAGE)) == [
        {"animal": "Otters", "month": "May", "nests": "yes"}
    ]
    assert compile_answer(structure, [{"animal": ""}], PASSAGE) == "n/a"
    assert (
        json.loads(compile_answer(structure, [{"animal": "in May. Swans"}], PASSAGE))[0]["month"]
        == "n/a"
    )
    for row, problem in [
        ({"animal": "Seals"}, "does not stand in the passage"),
        ({"animal": "Otters", "nests": "maybe"}, "choose one of yes, no"),
        ({"month": "May"}, "without 'animal'"),
    ]:
        with pytest.raises(CollectError, match=problem):
            compile_answer(structure, [row], PASSAGE)
    with pytest.raises(CollectError, match="twice"):
        compile_answer(structure, [{"animal": "Otters"}, {"animal": "Otters"}], PASSAGE)
