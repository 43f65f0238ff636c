"""Sequences of a small share are drawn or refused while they are planned, never at some row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from taskloom.core.errors import RecipeError
from taskloom.core.plan import Plan
from taskloom.recipe import read
from taskloom.suites.taskbench import sampling
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
    with pytest.raises(
        RecipeError,
        match=r"shares\.test: 0\.0019 of all sequences is too small a share",
    ):
        planned(0.0019)


def test_a_row_is_the_same_alone_and_among_others() -> None:
    """Whether few or many rows are still open decides how their random words are read, not which
    these are.
    """
    split = planned(0.01, 40).split("test")
    together = split.rows(0, 40).column("input").to_pylist()  # type: ignore[union-attr]
    alone = [split.rows(i, i + 1).column("input").to_pylist()[0] for i in range(0, 40, 7)]  # type: ignore[union-attr]
    assert alone == together[::7]


FUNCTIONS = ["map(antonyms[eng])", "map(synonyms[eng], filter(is_pos_verb[eng]))"]
FEWER = "short of distinct sequences"


def of_sequences(function: str, n: int, pairs: str, length: int) -> Plan:
    changes = {
        "lexicon": "synthetic",
        "few_shot": None,
        "answers": False,
        "minimum": 1,
        "pairs": pairs,
        "shares": {"train": 0.99, "test": 0.01},
        "sequences": {"n": {"train": 5, "test": n}, "length": length, "kept": 1},
    }
    return read(f"taskbench/{function}", changes).plan(0)


def texts(plan: Plan) -> list[Any]:
    split = plan.split("test")
    rows = split.rows(0, split.n)
    assert isinstance(rows, pa.Table)
    return list(rows.column("key").to_pylist())


@pytest.mark.parametrize(("pairs", "length"), [("disjoint", 1), ("disjoint", 2), ("published", 1)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_sequences_that_there_are_can_be_had_and_one_more_is_said_to_be_missing(
    function: str, pairs: str, length: int
) -> None:
    capacity = of_sequences(function, sampling.LISTED, pairs, length).split("test").n
    assert 0 < capacity < sampling.LISTED
    for n in (capacity - 1, capacity):
        plan = of_sequences(function, n, pairs, length)
        assert len(set(texts(plan))) == plan.split("test").n == n
        assert not any(FEWER in text for text in plan.warnings)
    plan = of_sequences(function, capacity + 1, pairs, length)
    assert plan.split("test").n == capacity
    assert any(f"1 function is {FEWER}" in text for text in plan.warnings)


@pytest.mark.parametrize("pairs", ["disjoint", "published"])
@pytest.mark.parametrize("above", [0, 1])
def test_every_request_is_met_at_the_border_between_listing_and_drawing(
    pairs: str, above: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences are listed up to a number and drawn beyond it: at the number and one above it, as
    many as there are.
    """
    spaces: list[int] = []
    space = sampling.Sequences.space

    def noted(self: sampling.Sequences, split: str) -> int:
        spaces.append(space(self, split))
        return spaces[-1]

    monkeypatch.setattr(sampling.Sequences, "space", noted)
    capacity = of_sequences(FUNCTIONS[0], sampling.LISTED, pairs, 1).split("test").n
    monkeypatch.setattr(sampling, "LISTED", max(spaces) - above)
    plan = of_sequences(FUNCTIONS[0], capacity, pairs, 1)
    rows = texts(plan)
    assert len(rows) == plan.split("test").n
    assert (
        abs(len(rows) - capacity) <= capacity // 10
    )  # drawn ones are estimated where they are a share
    if not above:
        assert len(set(rows)) == capacity
