"""Claims of papers beside what we measured of them, on constructed data."""

from __future__ import annotations

import math

import pytest
import scipy.stats

from taskloom.analysis.finding import PaperClaim, claim_table


def test_differences_have_signs_and_levels_have_none() -> None:
    difference = PaperClaim("one is better", "section 6", "one - other", 0.15, 0.1, 0.2)
    alike = PaperClaim(
        "they are alike", "section 6", "one - other", -0.0002, -0.01, 0.01, within=0.05
    )
    level = PaperClaim("over 90 %", "section 6", "accuracy", 0.713, 0.693, 0.732, limit=0.9)
    cells = [row["ours"] for row in claim_table([difference, alike, level])]
    assert cells == ["+0.150 [+0.100, +0.200]", "+0.000 [-0.010, +0.010]", "0.713 [0.693, 0.732]"]


def test_claims_of_one_table_are_corrected_together() -> None:
    """Alone, an interval that just excludes 0 holds; among twenty others that show nothing it may
    be chance.
    """
    barely = PaperClaim("a > b", "", "", 0.10, 0.005, 0.195)
    nothing = [PaperClaim(f"c{i} > d", "", "", 0.01, -0.1, 0.12) for i in range(20)]
    certain = PaperClaim("e > f", "", "", 0.50, 0.45, 0.55)
    assert [row["outcome"] for row in claim_table([barely])] == ["holds"]
    outcomes = [row["outcome"] for row in claim_table([barely, certain, *nothing])]
    assert outcomes[:2] == ["inconclusive", "holds"]
    assert set(outcomes[2:]) == {"inconclusive"}


def test_a_claim_without_an_interval_is_no_member_of_the_family() -> None:
    barely = PaperClaim("a > b", "", "", 0.10, 0.005, 0.195)
    unmeasured = [PaperClaim(f"c{i} > d", "", "", math.nan, math.nan, math.nan) for i in range(20)]
    rows = list(claim_table([barely, *unmeasured]))
    assert rows[0]["outcome"] == "holds"
    assert rows[1]["corrected p"] == ""


@pytest.mark.parametrize("df", [2.0, 7.0, math.inf])
def test_p_values_are_those_of_the_interval(df: float) -> None:
    """p is 0.05 where the interval ends at the limit, and SciPy's elsewhere."""
    se, t = 0.02, scipy.stats.t.ppf(0.975, df)
    at_limit = PaperClaim("", "", "", t * se, 0.0, 2 * t * se, df=df)
    assert at_limit.p == pytest.approx(0.05)
    further = PaperClaim("", "", "", 0.09, 0.09 - t * se, 0.09 + t * se, df=df)
    assert further.p == pytest.approx(2 * scipy.stats.t.sf(0.09 / se, df))


def test_two_things_are_alike_only_if_both_sides_are_excluded() -> None:
    alike = PaperClaim("", "", "", 0.01, -0.02, 0.04, within=0.05)
    wide = PaperClaim("", "", "", 0.01, -0.06, 0.08, within=0.05)
    apart = PaperClaim("", "", "", 0.20, 0.15, 0.25, within=0.05)
    assert (alike.side, alike.p < 0.05) == ("holds", True)
    assert (wide.side, wide.p > 0.05) == ("inconclusive", True)
    assert (apart.side, apart.p < 0.05) == ("does not hold", True)
