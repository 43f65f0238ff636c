"""Dropout as a pure function of seed, step, site and index. A site is one use of dropout in a
network.

A mask is a hash, not a draw: nothing has to be saved to resume a run, a seed gets the same masks
whether it is trained alone or in a stack, with whole batches or in parts, on the CPU or on a GPU,
and a captured CUDA graph needs no generator.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The multipliers of C. Wellons' 32-bit integer hash with low bias; the key's second half enters
# between its rounds, so that two keys are not two orders of one sequence.
_FIRST = 0x7FEB352D
_SECOND = 0x846CA68B - (1 << 32)
_GOLDEN = 0x9E3779B9 - (1 << 32)


def _mix(z: Tensor) -> Tensor:
    z = z ^ ((z >> 16) & 0xFFFF)
    z = z * _FIRST
    z = z ^ ((z >> 15) & 0x1FFFF)
    z = z * _SECOND
    return z ^ ((z >> 16) & 0xFFFF)


class DropoutKeys:
    """Keys from which the dropout masks of one training step are hashed.

    Attributes:
        keys: [sites, seeds, 2] 32-bit keys.
        first_row: The place of the first example in its batch, when a batch is computed in parts.
    """

    def __init__(self, seeds: Tensor, step: Tensor, sites: int, first_row: int = 0) -> None:
        site = torch.arange(2 * sites, dtype=torch.int32, device=seeds.device).view(sites, 1, 2)
        mixed = _mix(
            _mix(seeds.to(torch.int32).view(1, -1, 1) * _GOLDEN + 1) + step.to(torch.int32)
        )
        self.keys = _mix(_mix(mixed + site * _GOLDEN) + site)
        self.first_row = first_row


def keep(shape: torch.Size, p: float, key: Tensor, first_row: int = 0) -> Tensor:
    """Return a mask of the shape [seeds, rows, ...] that is True with probability 1 - p; key
    [seeds, 2].
    """
    inner = shape[1:].numel()
    row = inner // shape[1]
    z = torch.arange(first_row * row, first_row * row + inner, dtype=torch.int32, device=key.device)
    z = z.unsqueeze(0) + key[:, :1]
    z = z ^ ((z >> 16) & 0xFFFF)
    z = z * _FIRST + key[:, 1:]
    z = z ^ ((z >> 15) & 0x1FFFF)
    z = z * _SECOND
    z = z ^ ((z >> 16) & 0xFFFF)
    return (z >= round(p * (1 << 32)) - (1 << 31)).view(shape)


def drop(x: Tensor, p: float, key: Tensor | None, first_row: int = 0) -> Tensor:
    """Apply dropout to x [seeds, rows, ...]; the identity without a key."""
    if key is None or p == 0:
        return x
    return x * (keep(x.shape, p, key, first_row) * (1 / (1 - p))).to(x.dtype)


def call_key(key: Tensor, call: int) -> Tensor:
    """Return the key of the n-th call of a pass, from the key [..., 2] of the pass."""
    step = (call * _GOLDEN + (1 << 31)) % (1 << 32) - (1 << 31)  # a whole number that 32 bits hold
    return _mix(key + step)
