"""Runs that differ in the seed alone, and their scores as tables, figures and captions show
them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from taskloom.experiments.statistics import Estimate, over_seeds, over_tasks
from taskloom.experiments.table import Runs

SEEDLESS = ("bag-of-words", "majority", "nearest-neighbour", "solver")
"""Deterministic learners: they give the same answers with other seeds, which is no evidence of how
scores vary.
"""


def repeated_runs(runs: Runs) -> list[list[str]]:
    """Groups of runs that differ in the seed alone, in the order of their first runs. A group of a
    `SEEDLESS` learner has one run.
    """
    kinds: dict[str, list[str]] = {}
    for run in runs:
        group = kinds.setdefault(run.kind, [])
        if not group or run.learner not in SEEDLESS:
            group.append(run.name)
    return list(kinds.values())


def mean_and_sd(scores: Sequence[float]) -> str:
    """Mean ± standard deviation as text.

    >>> mean_and_sd([0.9, 0.8]), mean_and_sd([0.9]), mean_and_sd([])
    ('0.850 ± 0.071', '0.900', '–')
    """
    if not scores:
        return "–"
    mean = statistics.fmean(scores)
    return f"{mean:.3f} ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else f"{mean:.3f}"


def mean_and_se(scores: Sequence[float]) -> str:
    """Mean over tasks ± its standard error as text. Small means are written with an exponent, so
    that they do not read as 0.

    >>> mean_and_se([0.9, 0.8]), mean_and_se([0.9]), mean_and_se([2e-5, 4e-5]), mean_and_se([0.0])
    ('0.850 ± 0.050', '0.900', '3.0e-05 ± 1.0e-05', '0.000')
    """
    mean = statistics.fmean(scores)
    form = ".1e" if 0 < mean < 0.0005 else ".3f"
    return (
        f"{mean:{form}} ± {over_tasks(scores).se:{form}}" if len(scores) > 1 else f"{mean:{form}}"
    )


def seed_point(scores: Sequence[float]) -> dict[str, Any]:
    """Mean of scores with its interval over seeds, as columns of a figure's row. A single score, or
    equal ones, have no interval.
    """
    several = len(scores) > 1
    return {
        "mean": statistics.fmean(scores),
        **interval_columns(over_seeds(scores) if several else None),
        "sd": statistics.stdev(scores) if several else None,
        "seeds": len(scores),
    }


def interval_columns(estimate: Estimate | None) -> dict[str, float | None]:
    """Ends of an interval as columns of a figure's row; None if there is no estimate or no
    interval.
    """
    if estimate is None or math.isnan(estimate.low):
        return {"low": None, "high": None}
    return {"low": estimate.low, "high": estimate.high}


def count_range(counts: Iterable[int]) -> str:
    """Range of some numbers of seeds or questions for a caption; groups of 0 are left out.

    >>> count_range([25, 2, 0]), count_range([25, 25]), count_range([3, 1_500]), count_range([])
    ('2 to 25', '25', '3 to 1,500', '0')
    """
    known = sorted({count for count in counts if count}) or [0]
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def count_of(counts: Iterable[int], noun: str) -> str:
    """Numbers with what they count, in the singular for 1.

    >>> count_of([1, 3], "seed"), count_of([1, 1], "seed"), count_of([1_500], "question")
    ('1 to 3 seeds', '1 seed', '1,500 questions')
    """
    numbers = count_range(counts)
    return f"{numbers} {noun}" if numbers == "1" else f"{numbers} {noun}s"


def seeds_caption(counts: Iterable[int]) -> str:
    """Sentence of a caption on seeds and intervals.

    >>> seeds_caption([1, 1]), seeds_caption([1, 3])
    ('One training each, without intervals', 'Means over 1 to 3 seeds with 95 % intervals (t over seeds) where there are several')
    """
    known = [count for count in counts if count]
    if max(known, default=0) < 2:
        return "One training each, without intervals"
    several = " where there are several" if min(known) < 2 else ""
    return f"Means over {count_of(known, 'seed')} with 95 % intervals (t over seeds){several}"


def seeds_and_items_caption(
    seeds: Iterable[int], items: Iterable[int], noun: str = "question"
) -> str:
    """Sentence of a caption on seeds, items and intervals over both. Intervals of a single seed are
    over its items alone.

    >>> seeds_and_items_caption([2], [60, 90])
    'Means over 2 seeds and 60 to 90 questions with 95 % intervals over both'
    >>> seeds_and_items_caption([1], [60], "item")
    'Means over 60 items of one training each, with 95 % intervals over items'
    >>> seeds_and_items_caption([1, 5], [60])
    'Means over 1 to 5 seeds and 60 questions with 95 % intervals over both; of one seed over questions'
    """
    counts = sorted({count for count in seeds if count})
    if not counts or counts[-1] < 2:
        return (
            f"Means over {count_of(items, noun)} of one training each, with 95 % intervals over"
            f" {noun}s"
        )
    of_one = f"; of one seed over {noun}s" if counts[0] == 1 else ""
    both = f"{count_of(counts, 'seed')} and {count_of(items, noun)}"
    return f"Means over {both} with 95 % intervals over both{of_one}"
