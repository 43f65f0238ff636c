"""Draws from a random stream that the suites share: what the standard library draws, in less time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from taskloom.recipe import Span
from taskloom.seeding import Random

T = TypeVar("T")

POOL = 21
"""Up to so many items the standard library draws from a list of them, beyond with a set of places already drawn."""

WIDTHS = tuple([count.bit_length() for count in range(POOL + 1)])
"""How many random bits one of so many items takes."""

STEPS = tuple([(count - 1, count.bit_length()) for count in range(POOL, 0, -1)])
"""Of so many items, from most to least: the last one's place, and the bits that one of them takes."""


def pick(rng: Random, items: Sequence[T]) -> T:
    """Draw one item, each with the same chance; three times as fast as `rng.choice`."""
    return items[int(rng.random() * len(items))]


def below(rng: Random, count: int) -> int:
    """Draw one of the numbers 0 to `count` - 1: what `rng.randrange(count)` draws."""
    if count < 1:
        raise IndexError("there is nothing to draw from")
    width = count.bit_length()
    at = rng.getrandbits(width)
    while at >= count:
        at = rng.getrandbits(width)
    return at


def choice(rng: Random, items: Sequence[T]) -> T:
    """Draw one item, each with the same chance: what `rng.choice` draws; `pick` is faster where nothing has to stay as it was."""
    return items[below(rng, len(items))]


def randint(rng: Random, low: int, high: int) -> int:
    """Draw a whole number from low to high: what `rng.randint` draws."""
    return low + below(rng, high - low + 1)


def shuffle(rng: Random, items: list[T]) -> None:
    """Put a list into random order: that of `rng.shuffle`."""
    for i in range(len(items) - 1, 0, -1):
        at = below(rng, i + 1)
        items[i], items[at] = items[at], items[i]


def sample(rng: Random, items: Sequence[T], count: int) -> list[T]:
    """Draw `count` different items in random order: what `rng.sample` draws of few items, without its checks.

    >>> sample(Random(1), "abcdefgh", 8) == Random(1).sample("abcdefgh", 8)
    True
    """
    if not 0 <= count <= len(items) <= POOL:
        return rng.sample(items, count)
    pool, bits, start = list(items), rng.getrandbits, POOL - len(items)
    for last, width in STEPS[start : start + count]:
        at = bits(width)
        while at > last:
            at = bits(width)
        pool[at], pool[last] = pool[last], pool[at]  # what is drawn gathers at the end
    pool.reverse()
    return pool if count == len(pool) else pool[:count]


def pick_two(rng: Random, items: Sequence[T]) -> tuple[T, T]:
    """Draw two different items: what `sample(rng, items, 2)` draws, in half of the time.

    >>> pick_two(Random(1), "abcdefgh") == tuple(sample(Random(1), "abcdefgh", 2))
    True
    """
    last = len(items) - 1
    if not 1 <= last < POOL:
        one, other = rng.sample(items, 2)
        return one, other
    bits, width = rng.getrandbits, WIDTHS[last + 1]
    at = bits(width)
    while at > last:
        at = bits(width)
    width = WIDTHS[last]
    then = bits(width)
    while then >= last:
        then = bits(width)
    return items[at], items[last if then == at else then]  # the last one stands where the first was taken from


def pick_number(rng: Random, span: Span) -> int:
    """Draw a whole number of a span, each with the same chance."""
    return span.low + int(rng.random() * (span.high - span.low + 1))
