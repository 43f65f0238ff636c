"""How many passages of each task have an answer, and how many of those say yes.

Tasks differ in that as the real ones do: of ten real tasks with answers that can be had, between 0 and 17 of 20 passages
answer, and some are always answered alike. The shares are spread evenly over the tasks of a split, so the split's own rate
is met whatever the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskloom.seeding import Key

SILENT = 0.01
"""The share of tasks that no passage answers: one of the paper's 114 dev tasks (section 6)."""

ALIKE = 0.2
"""The share of yes/no tasks that are always answered by yes, and of those always answered by no."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Of the passages of a task: how many answer it, and of those how many say yes (if it is a yes/no task)."""

    answered: int
    yes: int


def mixes(sources: Sequence[str], passages: int, na_rate: float, silent: int, key: Key) -> dict[str, Mix]:
    """The mix of each of some tasks, which come in any order."""
    ranked = sorted(sources, key=lambda source: key.hash64("answered", source))
    counts = answered(len(ranked), passages, na_rate, silent)
    shares = _yes_shares(len(ranked), key)
    return {source: Mix(n, round(n * yes)) for source, n, yes in zip(ranked, counts, shares, strict=True)}


def _yes_shares(tasks: int, key: Key) -> list[float]:
    """The share of yes among the answers of each task: none, all, or evenly spread between.

    Neighbours, which have about as many answers, get opposite shares, so that yes and no are equally many in all.
    """
    pairs = tasks // 2
    shares = [0.5] * tasks
    for j, pair in enumerate(sorted(range(pairs), key=lambda i: key.hash64("yes", i))):
        spread = min(1.0, (j + 0.5) / pairs / (1 - 2 * ALIKE))
        swing = spread / 2 if key.hash64("side", pair) % 2 else -spread / 2
        shares[2 * pair], shares[2 * pair + 1] = 0.5 + swing, 0.5 - swing
    return shares


def answered(tasks: int, passages: int, na_rate: float, silent: int = 0) -> list[int]:
    """Answered passages of each task, from few to many, that sum up to the rate.

    The shares are powers u**k of evenly spaced u in (0, 1), whose mean is 1 / (k + 1). Every task has an answer, but for the
    silent ones, and one that is n/a where there is room for both.
    """
    if na_rate in (0, 1) or not tasks:
        return [round(passages * (1 - na_rate))] * tasks
    share = min(na_rate, 1 - na_rate)
    power = 1 / share - 1
    spread = [((i + 0.5) / tasks) ** power * passages for i in range(tasks)]
    if na_rate < 0.5:
        spread = [passages - x for x in reversed(spread)]
    most = max(1, passages - 1)
    counts = [0 if i < silent else min(most, max(1, round(x))) for i, x in enumerate(spread)]
    return _summing(counts, round(tasks * passages * (1 - na_rate)), most)


def _summing(counts: list[int], total: int, most: int) -> list[int]:
    """The counts, changed by one here and there until they sum up to the total as nearly as they can."""
    step = 1 if total > sum(counts) else -1
    while (missing := abs(total - sum(counts))) > 0:
        free = [i for i, n in enumerate(counts) if n and 1 <= n + step <= most]
        if not free:
            return counts
        # Spread over the tasks, so that no group of them is changed alone.
        for j in range(min(missing, len(free))):
            counts[free[j * len(free) // min(missing, len(free))]] += step
    return counts
