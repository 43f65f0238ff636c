"""Agreement of annotators: Krippendorff's alpha.

    alpha = 1 - D_observed / D_expected

`D_observed` is the mean difference of two values of the same unit, each unit weighted by its number of values; `D_expected` that of
any two values of all units with at least two (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from taskloom.apps.collect.records import NA
from taskloom.core.seeding import Key
from taskloom.suites.zest.evaluation.spans import list_f1

V = TypeVar("V", bound=Hashable)

MOST_DIFFERENT = 300
"""Different values beyond which the expected difference is estimated from so many of them: its cost grows with their square."""


def alpha(units: Iterable[Sequence[V]], difference: Callable[[V, V], float] | None = None) -> float | None:
    """Compute Krippendorff's alpha.

    Args:
        units: The values that each unit got; units with fewer than two say nothing and are left out.
        difference: The squared difference of two values; by default 0 for equal ones and 1 for others (nominal data).

    Returns:
        1 for full agreement, 0 for what chance gives, negative below; None where nothing can be said, because no unit has two
        values or all values are the same.
    """
    differ = difference or (lambda a, b: float(a != b))
    pairable = [list(unit) for unit in units if len(unit) >= 2]
    totals: Counter[V] = Counter(value for unit in pairable for value in unit)
    n = sum(totals.values())
    if n < 2:
        return None
    observed = sum(_pair_sum(Counter(unit), differ) / (len(unit) - 1) for unit in pairable) / n
    sample = _sample(totals)
    size = sum(sample.values())
    expected = _pair_sum(sample, differ) / (size * (size - 1))
    return 1.0 - observed / expected if expected else None


def _pair_sum(counts: Counter[V], differ: Callable[[V, V], float]) -> float:
    """Sum the differences over all ordered pairs of values."""
    values = list(counts)
    return sum(2 * counts[a] * counts[b] * differ(a, b) for i, a in enumerate(values) for b in values[i + 1 :])


def _sample(totals: Counter[V]) -> Counter[V]:
    if len(totals) <= MOST_DIFFERENT:
        return totals
    values = Key("collect", "alpha").random(len(totals)).sample(list(totals), MOST_DIFFERENT)
    return Counter({value: totals[value] for value in values})


def span_difference(first: str, second: str) -> float:
    """Return 1 minus the word overlap F1 of two answers; n/a differs from every span altogether."""
    if first == second:
        return 0.0
    if NA in (first, second):
        return 1.0
    one, other = first.split("|"), second.split("|")
    # The evaluation's F1 is not symmetric: it demands the numbers of its first argument.
    return 1.0 - (list_f1(one, other) + list_f1(other, one)) / 2
