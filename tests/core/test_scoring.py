from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import InputError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.registry import find_scorer
from taskloom.core.scoring import (
    SCORERS,
    SetOf,
    any_of,
    exact,
    forget,
    items,
    number,
    number_words,
    per_position,
    scorer,
    set_of,
)
from taskloom.data.audit.scorer_audit import audit_scorers


def test_exact_wants_every_character() -> None:
    example = Example("q", "The Park")
    assert exact.score(" The Park ", example) == 1
    assert exact.score("the park", example) == 0
    assert "is not" in exact.explain("park", example)


def test_any_of_takes_any_target_in_any_spelling() -> None:
    example = Example("q", ("Zürich", "zurich"))
    assert any_of.score("ZÜRICH.", example) == 1
    assert any_of.score("Zürich", example) == 1, "a decomposed letter is the same letter"
    assert any_of.score("bern", example) == 0
    assert "2 acceptable" in any_of.explain("bern", example)


def test_sets_have_no_order() -> None:
    example = Example("q", "apple, milk and football")
    assert set_of.score("football, apple, milk", example) == 1
    assert set_of.score("football, apple", example) == 0
    assert SetOf(partial=True).score("football, apple", example) == pytest.approx(0.8)
    assert "missing: milk" in set_of.explain("football, apple, pear", example)
    assert "superfluous: pear" in set_of.explain("football, apple, pear", example)


@given(st.permutations(["ab", "cd", "ef", "gh"]))
def test_permuting_items_changes_nothing(order: list[str]) -> None:
    assert set_of.score(", ".join(order), Example("q", "ab, cd, ef, gh")) == 1
    assert set(items(" ; ".join(order))) == {"ab", "cd", "ef", "gh"}


def test_positions() -> None:
    example = Example("q", "a b c d")
    assert per_position.score("a x c d", example) == 0.75
    assert per_position.score("a b c d e", example) == 0.8
    assert per_position.score("", example) == 0
    assert "position 2" in per_position.explain("a x c d", example)


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_position_scores_are_fair(said: list[str], wanted: list[str]) -> None:
    score = per_position.score(" ".join(said), Example("q", " ".join(wanted)))
    assert (score == 1) == (said == wanted)
    assert 0 <= score <= 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("two", 2),
        ("2", 2),
        ("None", 0),
        ("zero", 0),
        ("no", 0),
        ("twenty-one", 21),
        ("ninety", 90),
        ("Nineteen.", 19),
        ("-3", -3),
    ],
)
def test_numbers(text: str, value: int) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "twenty-twelve", "some", "2.5", "one hundred", "thirty-zero"])
def test_no_numbers(text: str) -> None:
    assert number(text) is None


def test_number_words_count_as_digits() -> None:
    assert number_words.score("Three", Example("q", "3")) == 1
    assert number_words.score("none", Example("q", "0")) == 1
    assert number_words.score("4", Example("q", "three")) == 0
    assert number_words.score("maybe", Example("q", "Maybe.")) == 1
    assert "no number" in number_words.explain("some", Example("q", "3"))


def test_a_perfect_answer_scores_one_everywhere() -> None:
    example = Example("q", "a, b")
    for one in SCORERS.values():
        if getattr(one, "needs", ()):
            continue
        assert one.score("a, b", example) == 1
        assert one.explain("a, b", example)


def test_a_scorer_that_needs_a_trait_refuses_examples_without_it() -> None:
    @scorer("by-key", needs=("key",))
    def by_key(prediction: str, example: Example) -> float:
        return float(prediction == example.traits["key"])

    try:
        assert by_key.score("k", Example("q", "a", {"key": "k"})) == 1
        with pytest.raises(InputError, match="by-key needs the trait 'key'"):
            by_key.score("k", Example("q", "a"))
        assert "by-key" not in {audit.scorer for audit in audit_scorers(n=2)}
    finally:
        forget(__name__)


def test_unknown_scorer_names_the_nearest() -> None:
    with pytest.raises(TaskloomError, match="did you mean 'exact'"):
        find_scorer("exakt")
