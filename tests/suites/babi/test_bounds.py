"""Limits of what a recipe of stories may ask for."""

from __future__ import annotations

import pytest

from taskloom.core.errors import RecipeError
from taskloom.recipe import read


@pytest.mark.parametrize("words", ["persons", "places", "objects"])
def test_vocabularies_have_a_limit(words: str) -> None:
    names = [f"Name{number}" for number in range(1_001)]
    with pytest.raises(RecipeError, match=rf"vocabulary\.{words}.*1,001.*1,000"):
        read("babi/mix-T7", changes={f"vocabulary.{words}": names})


@pytest.mark.parametrize("field", ["groups", "splits.train"])
def test_lists_of_groups_have_a_limit(field: str) -> None:
    # Not even groups: the number is tested before they are read.
    with pytest.raises(RecipeError, match=rf"{field}.*60,000.*5,000"):
        read("babi/mix-T7", changes={field: [7] * 60_000})
