"""A request that can be met is met, one that cannot is refused before the first row: at the border,
in small worlds.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taskloom.core.errors import CapacityError, RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import Plan, Split
from taskloom.recipe import read
from taskloom.suites.ctl.fields import SPLITS

PLENTY = 10**7


@st.composite
def small_recipes(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    variant = draw(st.sampled_from(["A", "R", "S", "length"]))
    changes: dict[str, Any] = {
        "symbols": draw(st.integers(3, 4)),
        "functions": draw(st.integers(4, 6)),
        "max_length": draw(st.integers(2, 3)),
        "include_singles": draw(st.booleans()),
        "include_pairs": draw(st.sampled_from([False, True, "added"])),
        "fill": draw(st.sampled_from([0.3, 0.5, 1.0])),
    }
    if variant != "length":
        changes["draw"] = draw(st.sampled_from(["independent", "chains", "published"]))
    if variant == "S":
        changes |= {"functions": 8, "overlap": 2, "shared_symbols": changes["symbols"] // 2 + 1}
    names = draw(
        st.lists(st.sampled_from(SPLITS[variant][1:]), min_size=1, max_size=3, unique=True)
    )
    sizes = {name: {"n": draw(st.integers(0, 12))} for name in names}
    changes["splits"] = {"train": {"n": draw(st.integers(0, 60))}, **sizes}
    return f"ctl/{variant}-independent" if variant != "length" else "ctl/length", changes


def plan_of(name: str, changes: dict[str, Any], split: str, n: int) -> Plan:
    sizes = {**changes["splits"], split: {"n": n}}
    return read(name, {**changes, "splits": sizes}).plan(0)


def outcome(name: str, changes: dict[str, Any], split: str, n: int) -> Plan | RecipeError:
    try:
        return plan_of(name, changes, split, n)
    except RecipeError as error:
        return error


def inputs(split: Split) -> list[str]:
    rows = split.rows(0, split.n)
    assert not isinstance(rows, list | Example)
    return list(rows.column("input").to_pylist())  # type: ignore[union-attr]


@given(small_recipes(), st.data())
@settings(max_examples=12)
def test_the_capacity_that_a_refusal_names_is_the_border(
    drawn: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    name, changes = drawn
    split = data.draw(st.sampled_from(list(changes["splits"])))
    refusal = outcome(name, changes, split, PLENTY)
    # A request that another split makes impossible is another example's.
    assume(isinstance(refusal, CapacityError) and refusal.split == split)
    assert isinstance(refusal, CapacityError)
    capacity = refusal.capacity
    plan = outcome(name, changes, split, capacity)
    if isinstance(plan, RecipeError):
        # All that one split could have may be what another one needs, or less than what training
        # always has.
        assert "always in training" in str(plan) or (
            isinstance(plan, CapacityError) and plan.split != split
        )
        return
    sets = {s.name: inputs(s) for s in plan.splits}
    assert {s: len(rows) for s, rows in sets.items()} == {s.name: s.n for s in plan.splits}
    tests = [set(sets[s.name]) for s in plan.splits if s.role == "test"]
    assert (
        sum(map(len, tests))
        == len(set().union(*tests))
        == sum(s.n for s in plan.splits if s.role == "test")
    )
    assert not set(sets["train"]) & set().union(*tests)
    refusal = outcome(name, changes, split, capacity + 1)
    assert isinstance(refusal, CapacityError)
    assert (refusal.split, refusal.wanted, refusal.capacity) == (split, capacity + 1, capacity)


def test_small_test_splits_fit_beside_each_other() -> None:
    """Room for the paper's 1,000 of the first would leave none for the second."""
    changes = [
        "symbols=3",
        "functions=4",
        "max_length=3",
        "splits={train: {n: 20}, ood: {n: 5}, all: {n: 5}}",
    ]
    plan = read("ctl/A-independent", changes).plan(0)
    assert [(s.name, len(set(inputs(s)))) for s in plan.splits] == [
        ("train", 20),
        ("ood", 5),
        ("all", 5),
    ]


def test_more_iid_rows_than_the_papers_training_has() -> None:
    plan = read("ctl/A", ["splits={train: {n: 1000}, iid: {n: 400000}}"]).plan(0)
    assert plan.split("iid").n == 400_000


def test_a_published_draw_of_everything_ends() -> None:
    changes = ["symbols=4", "functions=4", "max_length=3", "fill=1.0", "splits={train: {n: 999}}"]
    with pytest.raises(CapacityError) as caught:
        read("ctl/A", [*changes, "splits.train.n=99999"]).plan(0)
    plan = read("ctl/A", [*changes, f"splits.train.n={caught.value.capacity}"]).plan(0)
    rows = inputs(plan.split("train"))
    assert len(set(rows)) == caught.value.capacity


def test_test_splits_that_would_take_minutes_to_choose_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"splits\.all\.n is 1,000,000,000.*at most 20,000,000"):
        read("ctl/A-independent", changes={"splits.all.n": 10**9}).plan(0)
