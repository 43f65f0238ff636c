"""Things that are made once while recipes are read together."""

import pytest

from taskloom.core.plan import shared, sharing
from taskloom.experiments.spec.cell_data import CellData
from taskloom.recipe import Recipe

SMALL = {"lexicon": "packaged", "catalog": None, "facts": "synthetic", "answers": False}


def test_a_thing_is_made_once_in_a_block_and_anew_after_it() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    with sharing():
        with sharing():
            assert shared("key", make) == 1
        assert shared("key", make) == 1
        assert shared("other", make) == 2
    assert shared("key", make) == 3
    assert shared("key", make) == 4


def test_nothing_is_kept_if_making_it_fails() -> None:
    def fail() -> int:
        raise ValueError("not today")

    with sharing():
        with pytest.raises(ValueError, match="not today"):
            shared("key", fail)
        assert shared("key", lambda: 1) == 1


def test_recipes_that_share_a_world_have_the_rows_that_they_have_alone() -> None:
    def rows() -> list[object]:
        tables: list[object] = []
        for separators in (False, True):
            sequences = {"separators": separators, "n": 200, "length": 3, "kept": 2}
            changes = {"functions": ["map(father)", "father"], "sequences": sequences}
            recipe = Recipe("taskbench/500", changes={**SMALL, **changes})
            plan = CellData(recipe, 0, {}).plan
            tables.append(plan.split("train").rows(0, 20))
        return tables

    alone = rows()
    with sharing():
        assert rows() == alone
