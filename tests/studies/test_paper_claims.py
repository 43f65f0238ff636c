"""Claims of papers beside what we measured of them, on constructed data."""

from __future__ import annotations

from taskloom.studies.paper_claims import PaperClaim, claim_table


def test_differences_have_signs_and_levels_have_none() -> None:
    difference = PaperClaim("one is better", "section 6", "one - other", 0.15, 0.1, 0.2)
    alike = PaperClaim("they are alike", "section 6", "one - other", -0.0002, -0.01, 0.01, within=0.05)
    level = PaperClaim("over 90 %", "section 6", "accuracy", 0.713, 0.693, 0.732, limit=0.9)
    cells = [row["ours"] for row in claim_table([difference, alike, level])]
    assert cells == ["+0.150 [+0.100, +0.200]", "+0.000 [-0.010, +0.010]", "0.713 [0.693, 0.732]"]
