"""Variants of items: proved by the second solver, true to their kind, functions of text and plan."""

import re
from collections import Counter

import pytest

from taskloom.core import shards
from taskloom.core.example import Example
from taskloom.core.plan import KINDS, Plan, Variant
from taskloom.recipe import read
from tests.slow import slow_except

RECIPES = {
    "ctl/A": 3,
    "ctl/S": 3,
    "ctl/length": 2,
    "babi/mix-T7": 2,
    "babi/diverse-T12": 1,
    "babi/8": 3,
    "babi/concat-T7": 2,
    "babi/phrasing-T12-where": 3,
    "babi/14": 3,
    "babi/15": 3,
    "babi/19": 3,
    "taskbench/english": 10,
    "taskbench/map{antonyms[eng]}": 3,
    "taskbench/filter{is_pos_noun[eng]}": 2,
    "taskbench/map{father}": 3,
    "zest/synthetic": 12,
}
"""Recipes with the number of items of each split that are varied."""


def items(plan: Plan, n: int) -> list[Example]:
    """The first items of each split."""
    found: list[Example] = []
    for split in plan.splits:
        rows = split.rows(0, min(n, split.n))
        found += shards.to_examples(shards.to_table(rows, 0, plan.traits))
    return found


def varied(plan: Plan, example: Example) -> list[Variant]:
    """The variants of an item."""
    assert plan.variants is not None
    return list(plan.variants(example))


# One recipe for each way to make variants. The others repeat it with other fields.
QUICK = (
    "ctl/A",
    "babi/mix-T7",
    "babi/14",
    "babi/15",
    "babi/19",
    "taskbench/map{antonyms[eng]}",
    "zest/synthetic",
)


@pytest.fixture(scope="module", params=slow_except(RECIPES, *QUICK))
def pairs(request: pytest.FixtureRequest) -> tuple[Plan, list[tuple[Example, Variant]]]:
    """A plan, and items of it with their variants."""
    plan = read(request.param).plan()
    examples = items(plan, RECIPES[request.param])
    return plan, [(example, v) for example in examples for v in varied(plan, example)]


Pairs = tuple[Plan, list[tuple[Example, Variant]]]


def test_the_second_solver_agrees_and_every_kind_does_what_it_says(pairs: Pairs) -> None:
    plan, found = pairs
    assert plan.check is not None
    assert len(found) > 50
    kinds = {variant.kind for _, variant in found}
    # A single word cannot be made simpler.
    words = all(example.traits.get("composition") == "atomic" for example, _ in found)
    assert kinds == ({"flip", "keep"} if words else set(KINDS))
    for example, variant in found:
        answers = set(variant.example.targets)
        assert set(plan.check(variant.example)) == answers
        if variant.kind == "flip":
            assert answers.isdisjoint(example.targets)
        if variant.kind == "keep":
            assert answers == set(example.targets)


def test_variants_have_the_form_of_generated_rows(pairs: Pairs) -> None:
    _, found = pairs
    for example, variant in found:
        other = variant.example
        assert other.input != example.input
        assert other.task == example.task
        assert other.question == example.question or not example.question
        assert bool(other.key) == bool(example.key)
        assert {name: type(value) for name, value in other.traits.items()} == {
            name: type(value) for name, value in example.traits.items()
        }
        assert other.derivation


def test_the_edit_is_recorded(pairs: Pairs) -> None:
    _, found = pairs
    for example, variant in found:
        assert variant.before or variant.after
        # A person who is removed leaves several sentences behind.
        for piece in re.findall(r"[^.]+\.?", variant.before):
            assert piece.strip() in example.input
        assert variant.after in variant.example.input


def test_variants_depend_on_the_text_and_the_plan_alone(
    pairs: Pairs, request: pytest.FixtureRequest
) -> None:
    plan, _ = pairs
    again = read(request.node.callspec.params["pairs"]).plan()
    for example in items(plan, 1):
        # The task of a word is not in its text, nor where names of several words end.
        bare = Example(example.input, example.targets, key=example.key, task=example.task)
        texts = [(v.kind, v.edit, v.example.input) for v in varied(plan, example)]
        assert texts == [(v.kind, v.edit, v.example.input) for v in varied(again, bare)]


def test_simpler_stories_come_shortest_first(pairs: Pairs) -> None:
    _, found = pairs
    lengths: dict[str, list[int]] = {}
    for example, variant in found:
        if variant.kind == "simpler" and "sentences" in variant.example.traits:
            sentences = int(variant.example.traits["sentences"])
            lengths.setdefault(example.input, []).append(sentences)
    for of_story in lengths.values():
        assert of_story == sorted(of_story)


def one(name: str, text: str, target: str, question: str = "") -> dict[tuple[str, str], list[str]]:
    """The inputs of an item's variants, by kind and edit."""
    inputs: dict[tuple[str, str], list[str]] = {}
    for variant in varied(read(name).plan(), Example(text, target, question=question)):
        inputs.setdefault((variant.kind, variant.edit), []).append(variant.example.input)
    return inputs


def test_a_story_is_varied_in_one_thing() -> None:
    question = "Where is the milk?"
    text = f"Mary went to the park. John went to the office. Mary took the milk. {question}"
    inputs = one("babi/diverse-T12", text, "park", question)
    assert inputs["simpler", "person removed"] == [
        f"Mary went to the park. Mary took the milk. {question}"
    ]
    assert (
        f"Mary went to the kitchen. John went to the office. Mary took the milk. {question}"
        in inputs["flip", "another place"]
    )
    assert inputs["flip", "another person"][-1].count("John took the milk.") == 1
    assert inputs["keep", "another order"] == [
        f"John went to the office. Mary went to the park. Mary took the milk. {question}",
        f"Mary went to the park. Mary took the milk. John went to the office. {question}",
    ]
    # The sentences that the answer rests on cannot be spared.
    assert inputs["keep", "irrelevant sentence removed"] == [
        f"Mary went to the park. Mary took the milk. {question}"
    ]


def test_no_variant_gives_a_pronoun_another_antecedent() -> None:
    question = "Where is Mary?"
    text = (
        "John went to the office. Mary went to the hallway. Then she went to the park."
        f" Sandra went to the school. {question}"
    )
    for texts in one("babi/diverse-T12", text, "park", question).values():
        for varied_text in texts:
            before, found, _ = varied_text.partition("Then she")
            if found:
                assert before.split(". ")[-2].startswith("Mary")


def test_a_chain_keeps_the_pattern_of_its_groups() -> None:
    plan = read("ctl/A").plan()
    (example,) = shards.to_examples(shards.to_table(plan.split("ood").rows(0, 1), 0, plan.traits))
    for variant in varied(plan, example):
        if variant.edit in ("another function", "function that agrees", "another symbol"):
            assert variant.example.traits["groups"] == example.traits["groups"]


def test_a_plan_whose_inputs_are_parts_has_no_variants() -> None:
    assert read("babi/mix-T7", {"parts": "question"}).plan().variants is None


def test_variants_of_described_items_are_described() -> None:
    described = {"level": "explicit", "unseen": 0.3}
    sizes = {"train": {"n": 2000}, "ood": {"n": 50}}
    recipe = {"extends": "ctl/A", "described": described, "splits": sizes}
    plan = read(recipe).plan()
    assert plan.check is not None
    for example in items(plan, 2):
        for variant in varied(plan, example):
            other = variant.example
            assert set(plan.check(other)) == set(other.targets)
            assert "\n" in other.input
            assert set(other.traits) == set(example.traits)
            if other.traits["unseen_task"]:
                assert not other.traits["seen"]


MANY = {
    "ctl": ["ctl/A", "ctl/S", "ctl/length"],
    "babi": ["babi/mix-T7", "babi/diverse-T12", "babi/concat-T12", "babi/14", "babi/15", "babi/19"],
    "taskbench": ["taskbench/map{antonyms[eng]}", "taskbench/map{father}", "taskbench/english"],
    "zest": ["zest/synthetic"],
}
"""Recipes of each suite from which many variants are drawn."""

PER_SUITE = 100_000
BATCH = 50


@pytest.mark.slow
@pytest.mark.parametrize("suite", MANY)
def test_no_exception_in_many_variants(suite: str) -> None:
    """100,000 variants of each suite: the solvers agree, flips flip, keeps keep."""
    plans = [read(name).plan() for name in MANY[suite]]
    counts: Counter[str] = Counter()
    batch = 0
    while counts.total() < PER_SUITE:
        before = counts.total()
        for plan in plans:
            assert plan.check is not None
            for split in plan.splits:
                start, stop = batch * BATCH, min((batch + 1) * BATCH, split.n)
                if start >= stop:
                    continue
                table = shards.to_table(split.rows(start, stop), start, plan.traits)
                for example in shards.to_examples(table):
                    for variant in varied(plan, example):
                        answers = set(variant.example.targets)
                        assert set(plan.check(variant.example)) == answers
                        if variant.kind == "flip":
                            assert answers.isdisjoint(example.targets)
                        if variant.kind == "keep":
                            assert answers == set(example.targets)
                        counts[variant.kind] += 1
        assert counts.total() > before, f"{suite} has only {before:,} variants"
        batch += 1
    print(suite, dict(counts))
