"""Requests: a group has only what it lists, or is refused with what it needs; what can be met does not fail late."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from taskloom.errors import RecipeError
from taskloom.recipe import recipe
from taskloom.suites.babi import export
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.story.events import EVENTS, QUESTIONS
from taskloom.suites.babi.story.grammar import parse_passage

CONSTRUCTS = ("COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF", "AFFIRM")


def examples_of(fields: dict[str, Any], n: int) -> list[Any]:
    plan = recipe.check({"suite": "babi", "splits": {"mix": [{"n": n, **fields}]}}, "mine", "mine").plan(0)
    return list(plan.splits[0].rows(0, n))


def unlisted(fields: dict[str, Any], examples: list[Any]) -> set[str]:
    group = StoryGroup(**fields)
    names = set()
    for example in examples:
        story = parse_passage(example.input[: -len(example.question)], example.question)
        names |= {group.unlisted(event) for event in story.events}
    return names - {""}


def test_a_group_has_only_the_events_that_it_lists() -> None:
    """All sets of events with all question types, and a sample of the wordings."""
    rng = random.Random(0)
    made = refused = 0
    for many in range(1, 5):
        for events in combinations(EVENTS, many):
            for question in QUESTIONS:
                wording = rng.sample(CONSTRUCTS, rng.randint(0, 3))
                fields = {"events": list(events), "wording": wording, "questions": [question], "length": 12}
                if rng.random() < 0.6:
                    fields["support"] = f"1..{rng.randint(1, 4)}"
                try:
                    examples = examples_of(fields, 3)
                except RecipeError:
                    refused += 1
                    continue
                made += 1
                assert unlisted(fields, examples) == set(), fields
    assert made > 30
    assert refused > 20


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"events": ["MOVE", "GIVE"], "questions": ["give-qs"]}, "give-qs questions need GRAB"),
        ({"events": ["MOVE", "GRAB"], "questions": ["give-qs"], "support": 1}, "give-qs questions need GIVE"),
        ({"events": ["MOVE"], "questions": ["list"]}, "list questions need GRAB"),
        ({"events": ["MOVE"], "questions": ["where-O"], "story": {"questions": 2}}, "where-O questions need GRAB"),
        (
            {"events": ["GRAB"], "wording": ["CONJ"], "questions": ["list"]},
            "conj: MOVE is in neither events nor wording",
        ),
        ({"events": ["GRAB", "DROP"], "questions": ["where-P"], "support": 1}, "need (MOVE|AFFIRM)"),
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
        assert inputs(name, [f"splits={{train: {{n: 400}}, {split}: {{n: 200}}}}"], split, n) == before


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
        *["number", "knobs", "reading", "vocabulary", "style", "concat", "source"]
    }


def test_weights_in_scientific_notation_are_numbers() -> None:
    assert StoryGroup(events={"MOVE": "1e-1", "GRAB": "2E0"}).events == {"MOVE": 0.1, "GRAB": 2.0}
    with pytest.raises(ValueError, match="the weight of MOVE is a number"):
        StoryGroup(events={"MOVE": "much"})


def test_names_may_share_letters() -> None:
    fields = {
        "suite": "babi",
        "vocabulary": {"persons": ["Al", "Alma", "Jo"], "pronouns": {"Al": "he", "Alma": "she"}},
        "groups": [
            {"events": ["MOVE", "GRAB", "DROP", "GIVE"], "wording": ["COREF"], "questions": ["give-qs", "where-O"]}
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
