"""Student's t by the names that statistics use: exact numbers where there is a formula."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.experiments.statistics import distributions


@given(p=st.floats(1e-6, 1 - 1e-6), df=st.floats(1, 10_000))
def test_a_quantile_has_its_share_on_either_side(p: float, df: float) -> None:
    t = distributions.t_quantile(p, df)
    assert distributions.t_two_sided(t, df) == pytest.approx(2 * min(p, 1 - p), rel=1e-7)


@pytest.mark.parametrize("p", [0.5, 0.51, 0.8, 0.975, 0.999999])
def test_one_and_two_degrees_of_freedom_have_formulas(p: float) -> None:
    assert distributions.t_quantile(p, 1) == pytest.approx(
        1 / math.tan(math.pi * (1 - p)), rel=1e-9, abs=1e-12
    )
    assert distributions.t_quantile(p, 2) == pytest.approx(
        (2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-9, abs=1e-12
    )


def test_without_end_of_freedom_it_is_the_normal_distribution() -> None:
    assert distributions.t_quantile(0.975, math.inf) == pytest.approx(1.959963984540054, rel=1e-15)


def test_few_and_many_quantiles_are_the_same_numbers() -> None:
    many = [1 + i / 7 for i in range(1_000)]
    assert distributions.t_quantiles(0.975, many) == [
        distributions.t_quantile(0.975, df) for df in many
    ]


def test_the_power_of_a_test_without_an_effect_is_its_level() -> None:
    assert distributions.t_power(0.0, 12.0, 0.05) == pytest.approx(0.05)
    assert distributions.t_power(200.0, 12.0, 0.05) == pytest.approx(1.0)
