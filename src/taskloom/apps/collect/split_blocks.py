"""Division of base tasks among splits by permuted blocks.

A block has the smallest whole numbers of places in the ratio of the splits (for 40, 10, 50: 4, 1 and 5), in random order.
A base task takes the first free place of its domain when it is approved, so that the shares are right at any time, and
neither its writer nor its reviewer knows the split beforehand.
"""

from __future__ import annotations

from collections.abc import Set
from math import gcd

from taskloom.apps.collect.project_file import SplitPercent
from taskloom.core.seeding import Key


def split_of(slot: int, domain: str, percent: SplitPercent, seed: int) -> str:
    """Return the split of a place in the blocks of a domain."""
    counts = {"train": percent.train, "dev": percent.dev, "test": percent.test}
    unit = gcd(*counts.values())
    block = [name for name, count in counts.items() for _ in range(count // unit)]
    number, place = divmod(slot, len(block))
    Key("collect", "splits", seed).random(domain, number).shuffle(block)
    return block[place]


def free_slot(taken: Set[int]) -> int:
    """Return the first place that no base task has."""
    slot = 0
    while slot in taken:
        slot += 1
    return slot
