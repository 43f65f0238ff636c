"""Sequences of a small share are drawn or refused while they are planned, never at some row."""

from __future__ import annotations

import pytest

from taskloom.errors import RecipeError
from taskloom.plan import Plan
from taskloom.recipe import read
from taskloom.suites.taskbench.sampling import SMALLEST


def planned(share: float, n: int = 5) -> Plan:
    changes = {
        "lexicon": "synthetic",
        "few_shot": None,
        "answers": False,
        "pairs": "published",
        "shares": {"train": 0.9, "test": share},
        "sequences": {"n": {"train": 5, "test": n}, "length": 4, "kept": 2},
    }
    return read("taskbench/map(synonyms[eng])", changes).plan(0)


def test_the_smallest_share_is_drawn_and_a_smaller_one_is_refused() -> None:
    rows = planned(SMALLEST).split("test").rows(0, 2)
    assert len({str(text) for text in rows.column("input").to_pylist()}) == 2  # type: ignore[union-attr]
    with pytest.raises(RecipeError, match=r"shares\.test: 0\.0019 of all sequences is too small a share to be drawn"):
        planned(0.0019)


def test_a_row_is_the_same_alone_and_among_others() -> None:
    """Whether few or many rows are still open decides how their random words are read, not which these are."""
    split = planned(0.01, 40).split("test")
    together = split.rows(0, 40).column("input").to_pylist()  # type: ignore[union-attr]
    alone = [split.rows(i, i + 1).column("input").to_pylist()[0] for i in range(0, 40, 7)]  # type: ignore[union-attr]
    assert alone == together[::7]
