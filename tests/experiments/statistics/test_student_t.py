"""Student's t without SciPy: its numbers are SciPy's, or exact ones where there is a formula."""

from __future__ import annotations

import math

import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from taskloom.experiments.statistics import distributions, student_t

FREEDOM = st.floats(1, 50_000) | st.integers(1, 200).map(float)


@given(p=st.floats(1e-6, 1 - 1e-6), df=FREEDOM)
def test_quantiles_agree_with_scipy(p: float, df: float) -> None:
    theirs = float(scipy.special.stdtrit(df, p))
    # Near 0 SciPy itself has nine right digits.
    assert student_t.quantile(p, df) == pytest.approx(theirs, rel=1e-8, abs=1e-8)


@given(t=st.floats(-60, 60), df=st.floats(1, student_t.MOST_FREEDOM))
def test_shares_agree_with_scipy(t: float, df: float) -> None:
    assert student_t.two_sided(t, df) == pytest.approx(2 * scipy.stats.t.sf(abs(t), df), rel=1e-7, abs=1e-300)


@given(p=st.floats(1e-6, 1 - 1e-6), df=st.floats(1, student_t.MOST_FREEDOM))
def test_a_quantile_has_its_share_on_either_side(p: float, df: float) -> None:
    t = student_t.quantile(p, df)
    assert student_t.two_sided(t, df) == pytest.approx(2 * min(p, 1 - p), rel=1e-9)


@pytest.mark.parametrize("p", [0.5, 0.51, 0.8, 0.975, 0.999999])
def test_one_and_two_degrees_of_freedom_have_formulas(p: float) -> None:
    assert student_t.quantile(p, 1) == pytest.approx(1 / math.tan(math.pi * (1 - p)), rel=1e-11, abs=1e-15)
    assert student_t.quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-11)
    assert student_t.quantile(1 - p, 2) == pytest.approx(-student_t.quantile(p, 2), rel=1e-9)


def test_without_end_of_freedom_it_is_the_normal_distribution() -> None:
    assert distributions.t_quantile(0.975, math.inf) == pytest.approx(1.959963984540054, rel=1e-15)
    assert student_t.quantile(0.975, 1e9) == pytest.approx(1.959963984540054, rel=1e-8)


def test_few_and_many_quantiles_are_the_same_numbers() -> None:
    many = [1 + i / 7 for i in range(distributions.MANY + 1)]
    few = [distributions.t_quantile(0.975, df) for df in many[::50]]
    assert distributions.t_quantiles(0.975, many)[::50] == pytest.approx(few, rel=1e-11)


@pytest.mark.parametrize(("p", "df"), [(1e-9, 3.0), (0.975, 0.5), (0.0, 4.0), (0.975, math.nan)])
def test_what_is_out_of_range_is_left_to_scipy(p: float, df: float) -> None:
    assert not student_t.in_range(p, df)
    assert distributions.t_quantile(p, df) == pytest.approx(float(scipy.special.stdtrit(df, p)), nan_ok=True)
