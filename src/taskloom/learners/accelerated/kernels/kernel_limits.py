"""When layers can be computed by kernels."""

from __future__ import annotations

import importlib.util

SMALLEST_HEAD = 16
"""Channels of a head, and its columns, that matrix units take at least."""

LONGEST = 32
"""Tokens. A program holds the whole attention matrix of a head in registers."""

MOST_NUMBERS = 1 << 31
"""Kernels count places in a buffer with 32 bits."""


def fit(states: tuple[int, ...], heads: int, feed_forward: int, layers: int) -> bool:
    """Return whether kernels can compute layers of this size on states [S, batch, length, d], and Triton is there."""
    seeds, batch, length, d = states
    size = d // heads
    sizes = (d, size, heads)
    return (
        importlib.util.find_spec("triton") is not None
        and all(one & (one - 1) == 0 for one in sizes)
        and size >= SMALLEST_HEAD
        and feed_forward % SMALLEST_HEAD == 0
        and length <= LONGEST
        and layers > 1
        and seeds * batch * length * (3 * d + max(feed_forward, 2 * heads)) < MOST_NUMBERS
    )
