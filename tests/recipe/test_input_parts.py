"""Ablation: the question or the only the question or the context, of the very same examples, in every suite whose
inputs have two parts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError
from taskloom.core.example import Example
from taskloom.recipe import read

CTL = {
    "symbols": 4,
    "functions": 8,
    "max_length": 4,
    "splits": {"train": {"n": 60}, "ood": {"n": 20}},
}
STORIES = {"splits": {"train": {"n": 12}, "test": {"n": 6}}}

TASK = """import taskloom as tl

@tl.task("sums/asked", describe="Say the number.")
def asked(rng: tl.Random) -> tl.Example:
    a, b = rng.randint(0, 999), rng.randint(0, 999)
    return tl.Example(f"a is {a}. b is {b}. What is a?", str(a), question="What is a?")

@tl.task("sums/bare", describe="Say the number.")
def bare(rng: tl.Random) -> tl.Example:
    a = rng.randint(0, 999)
    return tl.Example(f"{a}", f"{a}")
"""


def parts(recipe: str, changes: dict[str, object]) -> list[list[Example]]:
    """Return the examples of all splits with both parts, with the question alone and with the
    only the question or the context.
    """
    made = []
    for part in ("both", "question", "context"):
        data = tl.make(recipe, set={**changes, "parts": part})
        made.append([example for split in data.splits for example in data[split]])
    return made


def same_items(whole: list[Example], part: list[Example]) -> bool:
    """Return whether two lists have the same items, whatever their inputs are."""
    return [(e.content, e.targets, e.traits, e.derivation) for e in whole] == [
        (e.content, e.targets, e.traits, e.derivation) for e in part
    ]


@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_a_chain_is_asked_of_a_start_symbol(order: str) -> None:
    whole, chain, symbol = parts("ctl/A-independent", {**CTL, "order": order})
    assert same_items(whole, chain)
    assert same_items(whole, symbol)
    for e, c, s in zip(whole, chain, symbol, strict=True):
        assert e.input == (
            f"{c.input} {s.input}" if order == "right-to-left" else f"{s.input} {c.input}"
        )
        assert s.input.isdecimal()


@pytest.mark.parametrize("recipe", ["babi/2", "babi/15"])
def test_a_question_is_asked_of_a_story(recipe: str) -> None:
    whole, question, story = parts(recipe, dict(STORIES))
    assert same_items(whole, question)
    assert same_items(whole, story)
    for e, q, s in zip(whole, question, story, strict=True):
        assert e.input == f"{s.input} {q.input}"
        assert q.input == e.question


def test_a_task_whose_examples_have_a_question_has_parts(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(TASK)
    sizes: dict[str, object] = {"splits": {"train": {"n": 10}, "test": {"n": 5}}}
    whole, question, facts = parts(f"{file}::sums/asked", sizes)
    assert {e.input for e in question} == {"What is a?"}
    assert same_items(whole, facts)
    assert [f"{e.input} What is a?" for e in facts] == [e.input for e in whole]
    with pytest.raises(
        RecipeError, match=r"parts: the input '.*' has only one part; write parts: both"
    ):
        tl.make(f"{file}::sums/bare", set={**sizes, "parts": "question"})


def test_ablated_data_verify_and_have_no_answerer(tmp_path: Path) -> None:
    tl.make("ctl/A-independent", tmp_path, set={**CTL, "parts": "context"})
    result = tl.verify(tmp_path, every=True)
    assert (result.method, result.wrong) == ("regeneration", ())
    assert any("context alone" in note for note in tl.audit(tmp_path).notes)
    assert read("ctl/A-independent", {"parts": "context"}).plan(0).answer is None


def test_the_default_changes_no_digest() -> None:
    assert read("ctl/A", {"parts": "both"}).digest == read("ctl/A").digest
    assert "parts" not in read("babi/2").to_dict()
    assert read("ctl/A", {"parts": "question"}).digest != read("ctl/A").digest
    assert (
        read("ctl/A", {"described": {"alone": False}}).digest
        == read("ctl/A", {"described": True}).digest
    )


def test_descriptions_alone(tmp_path: Path) -> None:
    changes = {
        "functions": ["antonyms[eng]", "synonyms[eng]"],
        "lexicon": "packaged",
        "few_shot": None,
        "minimum": 5,
    }
    whole = tl.make("taskbench/english", set={**changes, "described": True})
    alone = tl.make("taskbench/english", tmp_path, set={**changes, "described": {"alone": True}})
    assert len({e.input for e in alone["test"]}) == 2
    for e, a in zip(whole["test"], alone["test"], strict=True):
        assert e.input.startswith(f"{a.input}\n")
        assert (e.content, e.targets) == (a.content, a.targets)
    assert tl.verify(tmp_path, sample=50).wrong == ()
