"""What is refused: impossible recipes by the wish that blocks them, odd values of every field in
words.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from taskloom.core.errors import RecipeError
from taskloom.recipe import Fields, recipe
from taskloom.suites.babi.fields import BabiFields, QuestionSeries, StoryGroup, StoryWords, Style
from tests.suites.babi.generator.generated import custom, group, some


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {
                "splits": {
                    "t": [group(questions=["where-P"], support=2, events=["MOVE"], wording=[])]
                }
            },
            "no where-P question has a sup",
        ),
        ({"splits": {"t": [group(questions=["where-Q"])]}}, "did you mean 'where-"),
        ({"splits": {"t": [group(questions=["where-P"], support=5, length=3, n=1)]}}, "length: 3"),
        (
            {"splits": {"t": [group(questions=["where-P"], composition=["CONJ"])]}},
            "neither events nor wording",
        ),
        ({"splits": {"t": 5}}, "needs groups"),
        ({"splits": {}}, "add at least one"),
        ({"splits": {"t": []}}, "splits.t: a list of groups must not be empty"),
        (
            {"splits": {"train": [group()]}, "holdout": [["COREF", "GIVE"]]},
            "has COREF and GIVE together",
        ),
        ({"splits": {"train": [group()]}, "holdout": [["COREFF", "GIVE"]]}, "did you mean 'COREF'"),
        ({"splits": {"train": [group()]}, "vocabulary": {"persons": ["Ann", "ann"]}}, "collide"),
        ({"splits": {"train": [group()]}, "tested_by": "babi/mix-T12"}, "no training group has"),
        (
            {
                "splits": {"train": 99999},
                "number": 4,
                "vocabulary": {"places": ["hall", "loft", "yard"]},
            },
            "6 triples of",
        ),
        ({"splits": {"train": 10}, "number": 5}, "see the recipe babi/5"),
        ({"splits": {"t": [group(events={"MOVE": -1})]}}, "at least 0"),
        ({"splits": {"t": [group(events={"MOVE": float("nan")})]}}, "at least 0"),
        ({"splits": {"t": [group(events=[["MOVE"]])]}}, "a list of names or names with weights"),
        ({"splits": {"t": [group(length=10**30)]}}, "a story must have 1 to 1000 sentences"),
        ({"splits": {"t": [group(length=0)]}}, "a story must have 1 to 1000 sentences"),
        ({"splits": {"t": [group(story={"gap": 10**30})]}}, "story.gap"),
        ({"splits": {"t": [group(story={"questions": 10**30})]}}, "story.questions"),
        ({"splits": {"t": [group()]}, "style": {"move": []}}, "move: at least one word is needed"),
        (
            {"splits": {"t": [group()]}, "style": {"give": ["gave."]}},
            "give: 'gave.' is not a valid verb",
        ),
        ({"splits": {"t": [group()]}, "style": {"grab": ["left"]}}, "'left' is in both"),
        (
            {"splits": {"t": [group()]}, "vocabulary": {"objects": ["salt and the pepper"]}},
            "contains the word 'and'",
        ),
        (
            {"splits": {"t": [group()]}, "vocabulary": {"persons": ["Then", "Mary"]}},
            "contains the word 'then'",
        ),
        (
            {"splits": {"t": [group(questions=["list"], wording=[], support=9)]}},
            "each of the 3 objects adds one sentence",
        ),
        (
            {"splits": {"t": [group(questions=["where-P"], support=1, composition=["GIVE"])]}},
            "and GIVE in the support",
        ),
        (
            {
                "splits": {
                    name: [group(length=1, events=["MOVE"], wording=[])] for name in ("t", "train")
                }
            },
            "more events or names have more structures",
        ),
        (
            {
                "splits": {
                    "t": [group(questions=["give-qs"], composition=["COREF"], coref=["MOVE"])]
                }
            },
            "no give-qs question has a support of any size with .* and COREF in the support",
        ),
        (
            {"splits": {"t": [group(exhaustive=True, story={})]}},
            "^mine: splits.t.0: exhaustive: requires support[a-z_, ]*$",
        ),
        (
            {"splits": {"t": [group(questions=["yes-no"], unknown=0.5)]}},
            "unknown: only where-P",
        ),
        ({"splits": {"t": [group(answers=["maybe"])]}}, "answers: only yes-no"),
        (
            {"splits": {"t": [group()]}, "vocabulary": {"pronouns": {"Mray": "she"}}},
            "did you mean 'Mary'",
        ),
        (
            {"splits": {"t": [group(events=["MOVE"], wording=[], questions=["where-O"])]}},
            "where-O questions need GRAB; add it to events",
        ),
        (
            {"splits": {"t": [group(events=["GRAB"], wording=[])]}},
            "length: 20, after the events GRAB and the wording none nothing more can happen",
        ),
        (
            {
                "splits": {
                    "t": [
                        group(
                            wording=["NEGATE"], questions=["yes-no"], answers=["maybe"], support=1
                        )
                    ]
                }
            },
            "answers: no yes-no question with a support of 1, the events .* has the answer maybe",
        ),
        ({"splits": {"t": [group(conj=["CONJ"])]}}, "unknown 'CONJ'"),
        (
            {"splits": {"t": [group(events=["MOVE"], negate=["GRAB"])]}},
            "negate: GRAB is in neither events nor wording",
        ),
        (
            {"splits": {"t": [group(coref={"MOVE": 0})]}},
            "coref: at least one event needs a weight above 0",
        ),
        (
            {"splits": {"t": [group(events=[], wording=["COREF"])]}},
            "coref: at least one event needs a weight above 0",
        ),
    ],
)
def test_impossible_recipes_say_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        some(custom(**fields))


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    "x",
    "",
    [],
    ["x"],
    [[1]],
    {},
    {"x": 1},
    {"a": {"b": 1}},
    10**30,
    "5..2",
    float("nan"),
    "\0",
]


@pytest.mark.parametrize(
    ("place", "model"),
    [
        ("", BabiFields),
        ("groups", StoryGroup),
        ("vocabulary", StoryWords),
        ("style", Style),
        ("story", QuestionSeries),
    ],
)
def test_no_value_of_any_field_makes_a_traceback(place: str, model: type[Fields]) -> None:
    """A field is taken or refused in words; nothing else comes out."""
    for name in model.model_fields:
        for value in ODD:
            odd = {name: value}
            fields: dict[str, Any] = {"splits": {"t": 3}, "groups": [group()]}
            if place == "groups":
                fields["groups"] = [{**group(), **odd}]
            elif place == "story":
                fields["groups"] = [group(story=odd)]
            else:
                fields |= odd if place == "" else {place: odd}
            with contextlib.suppress(RecipeError):
                recipe.check({"suite": "babi", **fields}, "mine", "mine")
