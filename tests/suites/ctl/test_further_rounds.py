"""Rounds of CTL's splits beyond their size."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from taskloom.recipe import read

SMALL = {"train": {"n": 5_000}, "iid": {"n": 200}, "ood": {"n": 100}, "all": {"n": 40}}
LARGE = {"train": {"n": 400_000}, "iid": {"n": 300}, "ood": {"n": 100}, "all": {"n": 1_500}}

RECIPES: dict[str, dict[str, Any]] = {
    "small": {"extends": "ctl/A-independent", "splits": SMALL},
    "training beyond its reserve": {"extends": "ctl/A-independent", "splits": LARGE},
    "stages": {"extends": "ctl/S"},
    "length": {"extends": "ctl/length"},
}

MOST = 8_000
"""Rows of a split that are compared."""


def lengths(inputs: list[str]) -> Counter[int]:
    return Counter(len(text.split()) for text in inputs)


@pytest.mark.parametrize("name", RECIPES)
def test_further_rounds_are_new_held_out_and_composed_alike(name: str) -> None:
    plan = read(RECIPES[name]).plan()
    of_split: dict[str, list[str]] = {}
    for split in plan.splits:
        if split.role != "probe":
            most = split.n if split.role == "train" else int(min(MOST, split.rounds * split.n))
            table: Any = split.rows(0, most)
            of_split[split.name] = table["input"].to_pylist()
    assert any(split.rounds > 1 for split in plan.splits)
    train = set(of_split.pop("train"))
    for split_name, inputs in of_split.items():
        n = plan.split(split_name).n
        assert len(set(inputs)) == len(inputs)
        assert train.isdisjoint(inputs)
        for start in range(0, len(inputs) - n + 1, n):
            assert lengths(inputs[start : start + n]) == lengths(inputs[:n])
        # A range across a border does not depend on what was drawn before.
        again: Any = read(RECIPES[name]).plan().split(split_name)
        first, end = n - 5, min(n + 5, len(inputs))
        assert again.rows(first, end)["input"].to_pylist() == inputs[first:end]
        for other, others in of_split.items():
            if other != split_name:
                assert set(others[: plan.split(other).n]).isdisjoint(inputs)


def test_a_split_with_all_expressions_of_a_length_has_one_round() -> None:
    plan = read("ctl/S").plan()
    assert (plan.split("ood").rounds, plan.split("unseen-pairs").rounds) == (1, 1)
    assert plan.split("all").rounds > 10
