"""Pictures of examples: what suites draw, from whole examples and from damaged ones."""

from __future__ import annotations

import pytest

import taskloom as tl
from taskloom.core.example import Example, Step
from taskloom.core.pictures import (
    DEEPEST,
    LARGEST,
    ChainPicture,
    FamilyPicture,
    StoryPicture,
    TreePicture,
    derivation_tree,
    to_dict,
)
from taskloom.core.registry import SUITES
from taskloom.recipe import read


def drawn(example: Example, recipe: str, **fields: object) -> object:
    """Return what the suite of a recipe draws of an example."""
    checked = read(recipe, fields)
    draw = checked.suite.picture
    assert draw is not None
    return draw(example, checked.fields, checked.key(0))


def size(tree: TreePicture) -> int:
    return 1 + sum(map(size, tree.parts))


def depth(tree: TreePicture) -> int:
    return 1 + max(map(depth, tree.parts), default=0)


def test_every_suite_of_ours_draws_its_examples() -> None:
    assert [suite.name for suite in SUITES if suite.picture is None] == []


def test_a_chain_starts_at_the_symbol_wherever_it_is_written() -> None:
    steps = [Step("a", "3"), Step("b", "5")]
    for text, order in (("b a 1", "right-to-left"), ("1 a b", "left-to-right")):
        picture = drawn(
            Example(text, "5", {"groups": "x y"}, derivation=steps), "ctl/A", order=order
        )
        assert isinstance(picture, ChainPicture)
        assert picture.start == "1"
        assert [(link.function, link.value, link.group) for link in picture.links] == [
            ("a", "3", "x"),
            ("b", "5", "y"),
        ]
    assert drawn(Example("b a", "5", derivation=steps), "ctl/A") is None  # without its symbol


def test_a_story_has_the_sentences_lit_that_each_step_rests_on() -> None:
    [example] = list(tl.make("babi/15", set={"splits": {"train": 1}})["train"])
    picture = drawn(example, "babi/15")
    assert isinstance(picture, StoryPicture)
    support = [int(n) - 1 for n in str(example.traits["support_lines"]).split()]
    assert [step.sentences for step in picture.proof[: len(support)]] == [
        (place,) for place in support
    ]
    assert set(picture.proof[-1].sentences) == set(support)
    assert picture.proof[-1].text == picture.answer == example.target
    assert " ".join([*picture.sentences, picture.question]) == example.input


@pytest.mark.parametrize("lines", ["", "99 100", "1 99"])
def test_a_story_whose_support_was_edited_is_still_drawn(lines: str) -> None:
    steps = [Step("MOVE", "Mary is in the park", ()), Step("where-P", "park", (0, 7))]
    example = Example(
        "Mary went to the park. Where is Mary?", "park", {"support_lines": lines}, derivation=steps
    )
    picture = drawn(example, "babi/1")
    assert isinstance(picture, StoryPicture)
    assert all(place < len(picture.sentences) for step in picture.proof for place in step.sentences)


def test_a_composed_function_is_a_tree_with_values_down_to_the_input() -> None:
    steps = [
        Step("antonyms[eng]", "", ()),
        Step("synonyms[eng]", "b | c", ()),
        Step("union", "b | c", (0, 1)),
    ]
    tree = drawn(
        Example("a", "b", derivation=steps), "taskbench/union(antonyms[eng], synonyms[eng])"
    )
    assert isinstance(tree, TreePicture)
    assert (tree.label, tree.value) == ("union", "b | c")
    assert [part.label for part in tree.parts] == ["antonyms[eng]", "synonyms[eng]"]
    assert [part.parts[0].value for part in tree.parts] == ["a", "a"]


def test_a_derivation_that_would_be_an_endless_tree_is_cut() -> None:
    wide = [Step("f", str(i), tuple(range(i))) for i in range(60)]
    tree = derivation_tree(wide, "x")
    assert tree is not None
    assert size(tree) <= 2 * (LARGEST + 60)
    long = derivation_tree([Step("f", str(i)) for i in range(5_000)], "x")
    assert long is not None
    assert depth(long) <= DEEPEST + 2
    strange = derivation_tree([Step("f", "1", (5, -3, 0))], "x")
    assert strange is not None
    assert strange.parts[0].value == "x"
    assert derivation_tree([], "x") is None


def test_a_family_has_the_examples_that_show_prints() -> None:
    fields = {"tasks": {"train": 12, "dev": 0, "test": 0}, "passages": 2, "domains": ["parks"]}
    recipe = read("zest/synthetic", fields)
    plan = recipe.plan(0)
    [example] = list(plan.splits[0].rows(0, 1))
    picture = drawn(example, "zest/synthetic", **fields)
    assert isinstance(picture, FamilyPicture)
    [own] = [member for member in picture.members if member.this]
    assert own.cells[0] == example.question
    assert own.cells[-1] == example.target
    assert to_dict(picture)["kind"] == "family"
