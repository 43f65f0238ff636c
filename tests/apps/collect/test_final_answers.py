"""Final answers: the paper's rules, and what they leave open goes to an adjudicator."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.apps.collect.annotation import resolve, span_words


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        (["yes", "no", "yes"], "yes"),
        (["n/a", "n/a", "yes"], "n/a"),
        (["yes", "no", "n/a"], None),
        (["yes", "no"], None),
        ([], None),
    ],
)
def test_yes_and_no_by_majority(values: list[str], answer: str | None) -> None:
    assert resolve(values, "yes/no") == answer


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        (["the Blue Lake", "Blue Lake", "Lake"], "Lake"),  # the subset of the others, the shortest
        (
            ["Blue Lake", "Blue Lake in the north", "Red Rock"],
            "Blue Lake",
        ),  # contained in two of three
        (["Blue Lake", "Red Rock", "Green Hill"], None),
        (["n/a", "n/a", "Lake"], "n/a"),
        (["n/a", "the Lake", "Lake"], "Lake"),
        (["n/a", "Rock", "Lake"], None),
        (["ferns|mosses", "ferns|mosses|reeds", "ferns"], "ferns"),
        (["A|B", "B|A"], "A|B"),
        (["The", "The", "Museum"], "The"),
        (["The", "Museum", "Garden"], None),
    ],
)
def test_spans_by_the_shortest_subset(values: list[str], answer: str | None) -> None:
    assert resolve(values, "span") == answer


@given(st.lists(st.sampled_from(["a b", "b", "b c", "a b c", "n/a", "d"]), min_size=1, max_size=5))
def test_a_settled_span_is_somebodys_and_most_contain_it(values: list[str]) -> None:
    answer = resolve(values, "span")
    if answer is None:
        return
    assert answer in values
    assert resolve(list(reversed(values)), "span") == answer
    if answer != "n/a":
        assert 2 * sum(v != "n/a" and span_words(answer) <= span_words(v) for v in values) > len(
            values
        )


def objects(*rows: tuple[str, str]) -> str:
    return json.dumps([{"animal": a, "nests": n} for a, n in rows])


def test_structures_by_object_and_attribute() -> None:
    one = objects(("the otter", "yes"), ("swan", "no"))
    two = objects(("swan", "no"), ("otter", "yes"))
    three = objects(("otter", "no"), ("swan", "no"))
    assert resolve([one, two, three], "structure") == json.dumps(
        [{"animal": "otter", "nests": "yes"}, {"animal": "swan", "nests": "no"}]
    )
    assert resolve([one, objects(("seal", "yes")), "n/a"], "structure") is None
    assert resolve([one, "n/a", "n/a"], "structure") == "n/a"
