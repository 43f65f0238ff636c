"""The world of CTL: how differently its groups act, and the dial that sets it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError
from taskloom.recipe import read
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.world import compared_groups, functions_of, group_distance

SMALL: dict[str, Any] = {
    "symbols": 4,
    "functions": 12,
    "splits": {"train": {"n": 500}, "ood": {"n": 20}},
}


def fields(name: str = "ctl/R-independent", **changes: object) -> CtlFields:
    found = read(name, changes).fields
    assert isinstance(found, CtlFields)
    return found


def distance(given: CtlFields) -> float:
    """The definition, counted by hand: outputs of each group on each symbol."""
    _, images = functions_of(given)
    one, other = compared_groups(given, len(images))
    total = 0.0
    for symbol in range(images.shape[1]):
        p = Counter(int(images[f, symbol]) for f in one)
        q = Counter(int(images[f, symbol]) for f in other)
        outputs = p.keys() | q.keys()
        total += sum(abs(p[o] / len(one) - q[o] / len(other)) for o in outputs) / 2
    return float(total / images.shape[1])


@pytest.mark.parametrize("table_seed", range(4))
def test_the_smallest_and_largest_distance_are_those_of_all_divisions(table_seed: int) -> None:
    _, images = functions_of(fields(table_seed=table_seed, **SMALL))
    every = range(len(images))
    divisions = [
        group_distance(images, [half, [f for f in every if f not in half]])
        for half in combinations(every, 6)
    ]
    smallest = fields(table_seed=table_seed, group_distance="smallest", **SMALL)
    largest = fields(table_seed=table_seed, group_distance="largest", **SMALL)
    assert distance(smallest) == pytest.approx(min(divisions))
    assert distance(largest) == pytest.approx(max(divisions))


def test_the_functions_stay_the_same_whatever_their_groups() -> None:
    _, given = functions_of(fields(**SMALL))
    for goal in ("smallest", 0.3, "largest"):
        _, images = functions_of(fields(group_distance=goal, **SMALL))
        assert sorted(map(tuple, images)) == sorted(map(tuple, given))


def test_a_number_is_reached_as_nearly_as_one_exchange_allows() -> None:
    for goal in (0.2, 0.35, 0.5):
        assert distance(fields(group_distance=goal)) == pytest.approx(goal, abs=0.01)


def test_the_first_stages_of_s_are_set_apart_and_nothing_else_moves() -> None:
    given, apart = fields("ctl/S"), fields("ctl/S", group_distance="largest")
    assert distance(apart) > distance(given)
    moved = {f for group in compared_groups(given, 32) for f in group}
    before, after = functions_of(given)[1], functions_of(apart)[1]
    same = [f for f in range(len(before)) if f not in moved]
    assert (before[same] == after[same]).all()


def test_the_distance_is_in_the_manifest_and_the_data_prove_true(tmp_path: Path) -> None:
    found = {}
    for goal in ("given", "largest"):
        changes = {**SMALL, "group_distance": goal}
        data = tl.make("ctl/R-independent", tmp_path / goal, changes=changes)
        found[goal] = data.manifest["facts"]["group_distance"]
        assert tl.verify(tmp_path / goal, every=True).ok
    expected = {g: round(distance(fields(group_distance=g, **SMALL)), 6) for g in found}
    assert found == expected
    assert found["largest"] > found["given"]


def test_the_default_keeps_todays_digest() -> None:
    assert read("ctl/A").digest == read("ctl/A", {"group_distance": "given"}).digest
    assert read("ctl/A").digest != read("ctl/A", {"group_distance": "largest"}).digest


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("ctl/A", {"groups": 1, "group_distance": "largest"}, "at least 2 groups"),
        ("ctl/A", {"functions": 65, "group_distance": 0.2}, "use fewer"),
        ("ctl/A", {"group_distance": 1.5}, "group_distance"),
        ("ctl/A", {"group_distance": "far"}, "group_distance"),
        ("ctl/length", {"group_distance": "largest"}, "only for variant A or R or S"),
    ],
)
def test_what_cannot_be_set_is_refused(
    name: str, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(RecipeError, match=sentence):
        functions_of(fields(name, **changes))
