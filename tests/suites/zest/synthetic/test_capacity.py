"""A ZEST request is met or refused while it is planned, never at some row."""

from __future__ import annotations

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError
from taskloom.recipe import read


def sized(tasks: int) -> list[str]:
    return [f"tasks={{train: {tasks}, dev: 0, test: 0}}", "passages=1", "domains=[dogs]"]


def possible(tasks: int) -> bool:
    try:
        read("zest/synthetic", sized(tasks)).plan(0)
    except RecipeError as error:
        assert "split 'train' needs" in str(error)  # noqa: PT017 - any other refusal is a bug
        return False
    return True


def test_the_largest_number_of_tasks_is_made_and_one_more_is_refused() -> None:
    low, high = 50, 5_000
    assert possible(low)
    assert not possible(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    data = tl.make("zest/synthetic", set=sized(low))
    assert len(data["train"]) == low
    with pytest.raises(RecipeError, match="split 'train' needs"):
        tl.make("zest/synthetic", set=sized(high))


def test_passages_that_say_too_much_say_less_instead_of_failing() -> None:
    amounts = ["facts=20..20", "distractors=20..20"]
    data = tl.make(
        "zest/synthetic", set=["tasks={train: 12, dev: 0, test: 0}", "passages=2", *amounts]
    )
    lengths = [e.traits["passage_words"] for e in data["train"]]
    assert len(lengths) == 24
    assert all(isinstance(n, int) and 60 <= n <= 180 for n in lengths)


def test_the_number_of_passages_is_bounded() -> None:
    with pytest.raises(RecipeError, match="passages: should be less than or equal to 10000"):
        read("zest/synthetic", ["passages=1000000000"])


def test_small_splits_are_made_whatever_forms_they_own() -> None:
    """One seed in twelve was refused before: in the one domain of such a split it owned too few
    forms with flips or tables.
    """
    small = ["tasks={train: 20, dev: 20, test: 20}", "passages=1"]
    for seed in (2, 3):
        assert [split.n for split in read("zest/synthetic", small).plan(seed).splits] == [
            20,
            20,
            20,
        ]
