"""Draws from a random stream that the generators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from taskloom.recipe import Span
from taskloom.seeding import Random

T = TypeVar("T")

POOL = 21
"""Up to so many items the standard library draws from a list of them, beyond with a set of places already drawn."""


def pick(rng: Random, items: Sequence[T]) -> T:
    """Draw one item, each with the same chance; three times as fast as `rng.choice`."""
    return items[int(rng.random() * len(items))]


def sample(rng: Random, items: Sequence[T], count: int) -> list[T]:
    """Draw `count` different items in random order: what `rng.sample` draws of few items, without its checks.

    >>> sample(Random(1), "abcdefgh", 8) == Random(1).sample("abcdefgh", 8)
    True
    """
    if len(items) > POOL:
        return rng.sample(items, count)
    pool, bits, drawn = list(items), rng.getrandbits, []
    for left in range(len(pool), len(pool) - count, -1):
        width = left.bit_length()
        at = bits(width)
        while at >= left:
            at = bits(width)
        drawn.append(pool[at])
        pool[at] = pool[left - 1]
    return drawn


def pick_number(rng: Random, span: Span) -> int:
    """Draw a whole number of a span, each with the same chance."""
    return span.low + int(rng.random() * (span.high - span.low + 1))
