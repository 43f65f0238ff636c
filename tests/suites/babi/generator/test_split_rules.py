"""Splits: no structure and no text of a test is in training, and the paper's compositional rule."""

from __future__ import annotations

from typing import Any

import pytest

from taskloom.core.errors import RecipeError
from taskloom.core.plan import role_of
from taskloom.core.seeding import Key
from taskloom.recipe import recipe
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import signature
from taskloom.suites.babi.plan import parts_of
from taskloom.suites.babi.splits import BEGINNING, check_compositional, share_out, structures
from tests.suites.babi.generator.generated import events_of, plan_of, some


def test_no_structure_is_in_training_and_in_a_test() -> None:
    train = [
        e for n in ("diverse-T7", "diverse-T12") for e in plan_of(n).split("train").rows(0, 250)
    ]
    test = [
        e for n in ("mix-T2", "mix-T7", "mix-T12") for e in plan_of(n).split("mix").rows(0, 150)
    ]
    test += [e for s in ("dev", "test") for e in plan_of("diverse-T12").split(s).rows(0, 80)]
    assert not {signature(events_of(e).events) for e in train} & {
        signature(events_of(e).events) for e in test
    }
    assert all(e.key == signature(events_of(e).events) for e in test[:50])


def test_grown_stories_have_a_structure_of_their_side() -> None:
    """By the beginning, so a test story of ten sentences or more has a structure that no training
    story of any recipe has.
    """
    side = structures(["train", "mix"])
    side["test"] = side["mix"]
    for name in ("1", "3", "7", "11", "13"):
        for split in plan_of(name).splits:
            for example in split.rows(0, 60):
                events = events_of(example).events
                if len(events) >= BEGINNING:
                    assert side[role_of(split.name)](signature(events[:BEGINNING])), (
                        name,
                        split.name,
                        example.input,
                    )
    assert all(
        side["test"](signature(events_of(e).events[:BEGINNING]))
        for e in some(plan_of("mix-T12"), 100)
    )


def test_grown_splits_share_no_text() -> None:
    seen: dict[str, str] = {}
    for split in plan_of("1").splits:
        for example in split.rows(0, 1000):
            assert seen.setdefault(example.input, split.name) == split.name
            opening = ".".join(example.input.split(".")[:2])
            assert seen.setdefault(opening, split.name) == split.name


def test_the_compositional_rule() -> None:
    test = frozenset({"MOVE", "GRAB", "COREF", "where-O"})
    check_compositional([("a", test - {"COREF"}), ("b", frozenset({"MOVE", "COREF"}))], test, "mix")
    with pytest.raises(RecipeError, match="nothing is held out"):
        check_compositional([("a", test | {"DROP"})], test, "mix")
    with pytest.raises(RecipeError, match="no training group has COREF"):
        check_compositional([("a", test - {"COREF"})], test, "mix")


def test_every_training_recipe_of_the_paper_keeps_the_rule() -> None:
    for name in ("diverse-T7", "diverse-T12"):
        fields = recipe.read(f"babi/{name}").fields
        assert isinstance(fields, BabiFields)
        assert fields.tested_by
        for example in plan_of(name).split("train").rows(0, 300):
            concepts = {*str(example.traits["concepts"]).split("+"), example.traits["question"]}
            assert not any(concepts.issuperset(pair) for pair in fields.holdout)


def test_sharing_out() -> None:
    assert share_out(7, [1, 2]) == [2, 5]
    assert sum(share_out(1700, [1000, 5000, 333])) == 1700
    assert role_of("train-easy") == "train"
    assert role_of("ood") == "test"


def test_the_time_to_plan_equal_groups_grows_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = BabiFields.model_validate(
        {"groups": [{"events": {"MOVE": 1}}] * 200, "splits": {"train": 200}}
    )
    described = 0
    model_dump = StoryGroup.model_dump

    def counted(group: StoryGroup, **settings: Any) -> dict[str, Any]:
        nonlocal described
        described += 1
        return model_dump(group, **settings)

    monkeypatch.setattr(StoryGroup, "model_dump", counted)
    parts = parts_of(fields, "train", Key("test", 0))
    assert described <= 200
    assert len({part.key.hash64() for part in parts}) == 200
