"""Krippendorff's alpha against the published example, and against a formula written another way."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.apps.collect.quality import alpha, span_difference

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C: four observers, twelve
# units, missing values.
OBSERVERS = ["123321412...", "1233224125.3", ".333234225 1.".replace(" ", ""), "12332441251."]
UNITS = [[int(row[u]) for row in OBSERVERS if row[u] != "."] for u in range(12)]


def test_the_published_example() -> None:
    assert alpha(UNITS) == pytest.approx(0.743, abs=5e-4)
    assert alpha(UNITS, lambda a, b: float((a - b) ** 2)) == pytest.approx(0.849, abs=5e-4)


def by_pairs(units: list[list[str]]) -> float | None:
    """Compute nominal alpha from its definition, over all ordered pairs of single values."""
    units = [u for u in units if len(u) > 1]
    values = [v for u in units for v in u]
    n = len(values)
    if n < 2 or len(set(values)) < 2:
        return None
    observed = sum(sum(a != b for a, b in permutations(u, 2)) / (len(u) - 1) for u in units) / n
    expected = sum(a != b for a, b in permutations(values, 2)) / (n * (n - 1))
    return 1 - observed / expected


@given(st.lists(st.lists(st.sampled_from(["yes", "no", "n/a"]), max_size=4), max_size=8))
def test_it_equals_the_definition(units: list[list[str]]) -> None:
    expected = by_pairs(units)
    assert alpha(units) == (None if expected is None else pytest.approx(expected))


def test_nothing_can_be_said_without_two_values_or_without_difference() -> None:
    assert alpha([["yes"], []]) is None
    assert alpha([["yes", "yes"], ["yes", "yes"]]) is None


def test_spans_that_overlap_differ_less() -> None:
    assert span_difference("Blue Lake", "the blue lake") == 0.0
    assert span_difference("Blue Lake", "lake") == pytest.approx(1 / 3)
    assert span_difference("Blue Lake", "n/a") == 1.0
    assert span_difference("a lake|a hill", "lake") == span_difference("lake", "a lake|a hill")
