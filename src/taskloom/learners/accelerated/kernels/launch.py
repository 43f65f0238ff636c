"""Decides whether kernels can compute a network's layers, and chooses how to launch them: tile
shapes, rows per program, dropout keys and rates.

The gain of kernels is stated at the head of the package. Switch them off with `kernels: never`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SMALLEST_HEAD = 16
"""Minimum channels of a head, because matrix units need at least as many columns."""

LONGEST = 32
"""Maximum tokens of an input, because a program holds the attention matrix of a head in
registers.
"""

MOST_NUMBERS = 1 << 31
"""Maximum numbers in a buffer, because kernels index it with 32 bits."""

TILE_BYTES = 2_048
"""Bytes of a tile of rows: 16 per thread, which are 8 numbers in bf16 and 4 in fp32."""

WARPS = 4

STAGES = 4
"""Tiles of rows that a summing program loads ahead. With one instead of four the gate's gradients
take 1.31 ms of a step instead of 1.02.
"""

ATTENTION_ROWS = 32
"""Rows of whole examples of up to 16 tokens in a tile of NDR's attention."""

TILE_REGISTERS = 128
"""Maximum registers of a thread in NDR's attention, so that 16 warps fit on a multiprocessor."""

PROGRAMS = 528
"""Number of programs that sum over rows, across all seeds: four per multiprocessor of an H200."""

EXAMPLE_ROWS = 64
"""Rows of whole examples in a program of NDR's last layer."""

ATTENDING = 3_168
"""Minimum number of one-warp programs for the gradients of the Transformer's attention: 24 per
multiprocessor of an H200.
"""


def fit(states: tuple[int, ...], heads: int, feed_forward: int, layers: int) -> bool:
    """True if kernels can compute layers of this size on states [S, batch, length, d], and Triton
    is installed.
    """
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


@dataclass(frozen=True, slots=True)
class Pass:
    """Inputs of a pass through the layers besides states and weights.

    Attributes:
        lengths: [batch], or [seeds, batch].
        keys: [sites, seeds, 2] of dropout.
        first: Position of the first example in its batch.
        heads: Number of attention heads.
        rates: Dropout rates of states, of keys, and of NDR's gates.
        kind: Data type of products.
    """

    lengths: Tensor
    keys: Tensor
    first: int
    heads: int
    rates: tuple[float, ...]
    kind: torch.dtype


def cut(p: float) -> int:
    """The dropout rate in units of 2^-32, which `kept` compares with hashes."""
    return round(p * (1 << 32))


def tile_rows(channels: int, kind: torch.dtype) -> int:
    """Number of rows of a tile."""
    return max(1, TILE_BYTES // kind.itemsize // channels)


def shares(rows: int, seeds: int, channels: int, kind: torch.dtype) -> tuple[int, int]:
    """Number of programs for the rows of a seed and rows per program, chosen so that all programs
    run at once.
    """
    step = max(16, tile_rows(channels, kind))
    per = -(-rows * seeds // (PROGRAMS * step)) * step
    return -(-rows // per), per


def tiles(rows: int, channels: int, kind: torch.dtype) -> int:
    """Number of tiles of rows."""
    return -(-rows // tile_rows(channels, kind))


def block(channels: int) -> int:
    """The largest power of two, up to 256, that divides the number of channels."""
    return min(256, channels & -channels)


def width_of(length: int) -> int:
    """Side of attention's tile: a power of two, and at least 16, the minimum for matrix units."""
    return max(16, 1 << (length - 1).bit_length())


def attention_tile(length: int, kind: torch.dtype) -> tuple[int, int]:
    """Return the rows of a tile of NDR's attention and its warps.

    Tiles have few rows, because only pairs of rows within an example count. With fewer warps, a
    thread would need more fp32 registers than exist (compiled for an H200: the backward pass spills
    1,200 bytes with two warps, none with four).
    """
    rows = ATTENTION_ROWS if length <= 16 else 64
    return rows, rows * kind.itemsize // 32


def turns(length: int) -> int:
    """Number of cells in a row's visiting order: two per distance, rounded up to a power of two."""
    return max(16, 1 << (2 * length - 3).bit_length())


def example_tiles(batch: int, length: int) -> int:
    """Number of tiles of `EXAMPLE_ROWS` rows that hold all examples."""
    return -(-batch // (EXAMPLE_ROWS // length))


def precision_of(kind: torch.dtype) -> str:
    """Precision of a kernel's fp32 matrix products, as torch is set."""
    loose = kind == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if loose else "ieee"


def start(
    kernel: Any, grid: Sequence[int], *given: Any, warps: int = WARPS, **constants: Any
) -> None:
    """Launch a kernel."""
    kernel[tuple(grid)](*given, num_warps=warps, **constants)


def outer(changes: Tensor, inputs: Tensor) -> Tensor:
    """Compute the gradient of a map's weights, [S, out, in], from gradients [layers, S, rows, out]
    and inputs [layers, S, rows, in].
    """
    layers, seeds = changes.shape[:2]
    each = torch.bmm(changes.flatten(0, 1).transpose(1, 2), inputs.flatten(0, 1))
    return each.view(layers, seeds, *each.shape[1:]).sum(0, dtype=torch.float32)
