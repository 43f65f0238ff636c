"""Requests: a group has only what it lists, or is refused with what it needs; what can be met does
not fail late.
"""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from taskloom.core.errors import RecipeError
from taskloom.recipe import recipe
from taskloom.suites.babi import export
from taskloom.suites.babi.fields import PARTS, BabiFields, StoryGroup
from taskloom.suites.babi.generator import many_questions
from taskloom.suites.babi.story.events import EVENTS, QUESTIONS
from taskloom.suites.babi.story.grammar import parse_passage

CONSTRUCTS = ("COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF", "AFFIRM")


def examples_of(fields: dict[str, Any], n: int) -> list[Any]:
    plan = recipe.check(
        {"suite": "babi", "splits": {"mix": [{"n": n, **fields}]}}, "mine", "mine"
    ).plan(0)
    return list(plan.splits[0].rows(0, n))


def unlisted(fields: dict[str, Any], examples: list[Any]) -> set[str]:
    group = StoryGroup(**fields)
    names = set()
    for example in examples:
        story = parse_passage(example.input[: -len(example.question)], example.question)
        names |= {group.unlisted(event) for event in story.events}
    return names - {""}


def check_requests(seed: int) -> tuple[int, int]:
    """Try all sets of events with all question types, and a sample of the wordings; count what is
    made and what is refused.
    """
    rng = random.Random(seed)
    made = refused = 0
    for many in range(1, 5):
        for events in combinations(EVENTS, many):
            for question in QUESTIONS:
                wording = rng.sample(CONSTRUCTS, rng.randint(0, 3))
                fields = {
                    "events": list(events),
                    "wording": wording,
                    "questions": [question],
                    "length": 12,
                }
                if rng.random() < 0.6:
                    fields["support"] = f"1..{rng.randint(1, 4)}"
                try:
                    examples = examples_of(fields, 3)
                except RecipeError:
                    refused += 1
                    continue
                made += 1
                assert unlisted(fields, examples) == set(), fields
    return made, refused


def test_a_group_has_only_the_events_that_it_lists() -> None:
    made, refused = check_requests(0)
    assert made > 30
    assert refused > 20


@pytest.mark.slow
def test_no_group_of_630_has_an_event_that_it_does_not_list() -> None:
    made = refused = 0
    for seed in range(1, 7):
        some, others = check_requests(seed)
        made, refused = made + some, refused + others
    assert made + refused == 630
    assert made > 200


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"events": ["MOVE", "GIVE"], "questions": ["give-qs"]}, "give-qs questions need GRAB"),
        (
            {"events": ["MOVE", "GRAB"], "questions": ["give-qs"], "support": 1},
            "give-qs questions need GIVE",
        ),
        ({"events": ["MOVE"], "questions": ["list"]}, "list questions need GRAB"),
        (
            {"events": ["MOVE"], "questions": ["where-O"], "story": {"questions": 2}},
            "where-O questions need GRAB",
        ),
        (
            {"events": ["GRAB"], "wording": ["CONJ"], "questions": ["list"]},
            "conj: MOVE is in neither events nor wording",
        ),
        (
            {"events": ["GRAB", "DROP"], "questions": ["where-P"], "support": 1},
            "need (MOVE|AFFIRM)",
        ),
    ],
)
def test_what_is_needed_is_said(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        examples_of(fields, 1)


def test_a_small_test_beside_a_large_training_set() -> None:
    plan = recipe.read("babi/1", ["splits={train: {n: 100000}, test: {n: 1000}}"]).plan(0)
    test = plan.split("test")
    assert len(list(test.rows(0, 1_000))) == 1_000
    assert len(list(plan.split("train").rows(99_000, 99_100))) == 100


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"questions": ["where-P"], "support": 5, "length": 3}, "length: 3"),
        ({"events": ["GRAB"], "questions": ["list"], "length": 20}, "nothing more can happen"),
        (
            {
                "events": ["MOVE", "GRAB"],
                "questions": ["where-O"],
                "support": 3,
                "story": {"questions": 2},
            },
            "200 tries",
        ),
        (
            {"length": 12, "per_signature": 1, "support": 1, "n": 100},
            "per_signature: 4000 stories have too few",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_before_the_first_row(
    groups: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only the last group of another split is impossible."""
    monkeypatch.setattr(many_questions, "TRIES", 200)
    first = {"n": 5, "questions": ["where-P"]}
    splits = {"train": [first], "test": [first, {"n": 5, **groups}]}
    plan = recipe.check({"suite": "babi", "splits": splits}, "mine", "mine").plan(0)
    with pytest.raises(RecipeError, match=message):
        next(iter(plan.split("train").rows(0, 1)))


def test_a_request_that_can_just_be_met_never_fails() -> None:
    """A world of two persons and three places: much of what a story may open with leads nowhere."""
    words = {"persons": ["Ann", "Bob"], "places": ["attic", "barn", "cellar"], "objects": ["coin"]}
    for seed in range(4):
        splits = {
            "train": [{"n": 60, "story": {"questions": 6}}],
            "test": [{"n": 30, "story": {"questions": 6}}],
        }
        plan = recipe.check(
            {"suite": "babi", "vocabulary": words, "splits": splits}, "mine", "mine"
        ).plan(seed)
        assert [len(list(s.rows(0, s.n))) for s in plan.splits] == [60, 30]


ROWS = {"2": 20, "4": 20, "16": 10, "mix-T7": 12, "diverse-T7": 12, "concat-T2": 20}


def inputs(name: str, changes: list[str], split: str, n: int) -> list[str]:
    return [e.input for e in recipe.read(f"babi/{name}", changes).plan(0).split(split).rows(0, n)]


@pytest.mark.parametrize("name", ["2", "4", "16", "diverse-T7", "concat-T2"])
def test_sizes_and_new_splits_change_no_other_split(name: str) -> None:
    n = ROWS[name]
    for split in ("dev", "test"):
        before = inputs(name, [], split, n)
        other = {"dev": "test", "test": "dev"}[split]
        assert inputs(name, ["splits.train.n=400", f"splits.{other}.n=24"], split, n) == before
        assert (
            inputs(name, [f"splits={{train: {{n: 400}}, {split}: {{n: 200}}}}"], split, n) == before
        )


@pytest.mark.parametrize("name", ["2", "16", "mix-T7", "diverse-T7", "concat-T2"])
def test_a_second_split_of_a_role_changes_none(name: str) -> None:
    split = "mix" if name.startswith("mix") else "test"
    before = inputs(name, [], split, 12)
    assert (
        inputs(name, ["splits.ood.n=8", "splits.dev.n=8", "splits.train-more.n=8"], split, 12)
        == before
    )
    assert not {*inputs(name, ["splits.ood.n=8"], "ood", 8)} & {*before}


STYLE = [
    "style.move=[wandered]",
    "style.grab=[seized, lifted, stole]",
    "style.preposition=at",
    "style.there_drop=0.5",
]


@pytest.mark.parametrize("name", ["2", "9", "mix-T7"])
def test_a_style_changes_words_and_nothing_else(name: str) -> None:
    plain, styled = (
        [*recipe.read(f"babi/{name}", s).plan(0).splits[0].rows(0, 30)] for s in ([], STYLE)
    )
    assert [(e.targets, e.key, e.traits) for e in plain] == [
        (e.targets, e.key, e.traits) for e in styled
    ]
    assert "wandered" in styled[0].input
    words = [{w for e in of for w in e.input.split() if w[0].isupper()} for of in (plain, styled)]
    assert words[0] == words[1]


@pytest.mark.parametrize("name", ["concat-T2", "4"])
def test_words_that_would_be_ignored_are_refused(name: str) -> None:
    with pytest.raises(RecipeError, match="style: concat and number"):
        recipe.read(f"babi/{name}", STYLE)
    with pytest.raises(RecipeError, match="vocabulary: concat"):
        recipe.read("babi/concat-T2", ["vocabulary.objects=[coin]"])


def test_each_task_of_a_smaller_concat_is_the_beginning_of_the_same_task_in_a_larger_one() -> None:
    small, large = (
        [*recipe.read("babi/concat-T7", [f"splits.train.n={n}"]).plan(0).splits[0].rows(0, n)]
        for n in (70, 140)
    )
    assert small != large[:70]
    for task in PARTS["T7"]:
        few, many = ([e for e in of if e.traits["group"] == f"qa{task}"] for of in (small, large))
        assert len(few) == 10
        assert few == many[:10]


@pytest.mark.parametrize("name", ["2", "4", "16", "mix-T7", "diverse-T7"])
def test_a_smaller_split_is_the_beginning_of_a_larger_one(name: str) -> None:
    split = "mix" if name.startswith("mix") else "train"
    n = ROWS[name]
    assert inputs(name, [f"splits.{split}.n={n}"], split, n) == inputs(name, [], split, n)


def test_a_group_changes_no_other_group() -> None:
    one = {"name": "a", "n": 10, "events": ["MOVE"], "questions": ["where-P"]}
    other = {"name": "b", "n": 10, "events": ["MOVE", "GRAB"], "questions": ["where-O"]}
    fields = {"suite": "babi", "splits": {"train": [one, other]}}
    changed = {"suite": "babi", "splits": {"train": [one, {**other, "length": 15}]}}
    texts = []
    for recipe_fields in (fields, changed):
        plan = recipe.check(recipe_fields, "mine", "mine").plan(0)
        texts.append([e.input for e in plan.splits[0].rows(0, 20) if e.traits["group"] == "a"])
    assert texts[0] == texts[1]


def test_every_field_has_a_kind() -> None:
    kinds = BabiFields.field_kinds()
    assert {*BabiFields.model_fields} <= {*kinds}
    assert {name for name, kind in kinds.items() if kind == "world" and "." not in name} == {
        *["number", "knobs", "reading", "vocabulary", "concat", "source"]
    }


def test_weights_in_scientific_notation_are_numbers() -> None:
    assert StoryGroup(events={"MOVE": "1e-1", "GRAB": "2E0"}).events == {"MOVE": 0.1, "GRAB": 2.0}
    with pytest.raises(ValueError, match="the weight of MOVE must be a number"):
        StoryGroup(events={"MOVE": "much"})


def test_names_may_share_letters() -> None:
    fields = {
        "suite": "babi",
        "vocabulary": {"persons": ["Al", "Alma", "Jo"], "pronouns": {"Al": "he", "Alma": "she"}},
        "groups": [
            {
                "events": ["MOVE", "GRAB", "DROP", "GIVE"],
                "wording": ["COREF"],
                "questions": ["give-qs", "where-O"],
            }
        ],
        "splits": {"train": 40},
    }
    plan = recipe.check(fields, "mine", "mine").plan(0)
    examples = list(plan.splits[0].rows(0, 40))
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in examples)
    for paragraph in export.squad(examples, "x")[0]["data"][0]["paragraphs"]:
        answer = paragraph["qas"][0]["answers"][0]
        end = answer["answer_start"] + len(answer["text"])
        assert not paragraph["context"][end].isalpha()
        assert not paragraph["context"][answer["answer_start"] - 1].isalpha()
