"""Table 9 of Dyna-bAbI: how many questions of mix(T7) have GIVE in their support."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import study
from taskloom.analysis.verdict import judge_number
from taskloom.core.example import Example
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.dyna_babi.story_samples import examples_of, support_has

DRAW = 3.0
"""Standard deviations of a draw that count as no difference."""


def gift_counts(examples: Iterable[Example]) -> Counter[tuple[int, bool]]:
    """Count questions by the size of their support and whether GIVE is in it."""
    return Counter((int(e.traits["support"]), support_has(e, "GIVE")) for e in examples)


@study(
    "dyna-babi/table9",
    describe="Questions of mix(T7) with and without GIVE in the support: the counts",
    place="Dyna-bAbI, Table 9",
    from_recipes=True,
)
def table9(scale: str) -> Finding:
    """Count the questions of mix(T7), all 3,000 at either scale."""
    return gift_finding(gift_counts(examples_of("mix-T7")))


def gift_finding(counts: Counter[tuple[int, bool]]) -> Finding:
    """Return the counts of mix(T7) beside the paper's."""
    rows, judgements = [], []
    for number in published("dyna-babi", "Table 9", what="samples"):
        size, give = number.of["support"], number.of["give"] == "with"
        count, total = counts[size, give], counts[size, give] + counts[size, not give]
        rows.append({"support": size, "GIVE": number.of["give"], "questions": count})
        tolerance = DRAW * math.sqrt(count * (total - count) / total) if total else 0.0
        claim = f"{size} supporting fact{'s' if size > 1 else ''}, {number.of['give']} GIVE"
        judgements.append(judge_number(count, number, claim=claim, tolerance=tolerance))
    return Finding(
        "Dyna-bAbI Table 9: counts",
        f"All {counts.total():,} questions of babi/mix-T7 (seed 0) by the number of supporting facts and whether one of them is "
        "a gift.",
        ResultTable(("support", "GIVE", "questions"), rows),
        judgements=tuple(judgements),
        notes=(
            "A count agrees where it is within three standard deviations of a draw.",
            "How often GIVE is in a support is set in the recipe by this table (frequencies): that the counts agree shows that "
            "the generator keeps to its recipe, not that simulation leads to them. Simulated stories have 105 and 507 to 517 with "
            "two and three facts (python benchmarks/babi_paper.py --simulate 40000).",
            "The accuracies of the paper's Table 9 need trained models: the study dyna-babi/table9-accuracy has them.",
        ),
    )
