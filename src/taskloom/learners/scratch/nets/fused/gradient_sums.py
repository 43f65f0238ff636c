"""Gradients of weights from what all layers and programs left: products, and sums over both."""

from __future__ import annotations

import torch
from torch import Tensor

from taskloom.learners.scratch.nets.fused import row_kernels as kernels
from taskloom.learners.scratch.nets.fused.launch import start

WIDE = 256
"""Numbers from which on a kernel of our own sums over programs; torch's sums of few long rows are as fast."""


def summed(parts: Tensor) -> Tensor:
    """Compute the sums [S, ...] over layers and programs of parts [layers, S, programs, ...]."""
    layers, seeds, programs, *shape = parts.shape
    n = torch.Size(shape).numel()
    if n < WIDE:
        return parts.sum((0, 2))
    out = torch.empty(layers, seeds, *shape, dtype=torch.float32, device=parts.device)
    most = max(32, 1 << (programs - 1).bit_length())
    grid, sizes = (-(-n // 64), layers * seeds), (n, programs, 1, programs)
    start(kernels.sum_rows, grid, parts, out, *sizes, MOST=most, ROWS=32, BLOCK=64)
    return out.sum(0)


def outer(changes: Tensor, inputs: Tensor) -> Tensor:
    """Compute the gradient of a map's weights, [S, out, in], from [layers, S, rows, out] and [layers, S, rows, in]."""
    layers, seeds = changes.shape[:2]
    each = torch.bmm(changes.flatten(0, 1).transpose(1, 2), inputs.flatten(0, 1))
    if layers == 1:
        return each.float()
    out = torch.empty(seeds, *each.shape[1:], dtype=torch.float32, device=each.device)
    n = out[0].numel()
    most = max(8, 1 << (layers - 1).bit_length())
    start(kernels.sum_rows, (-(-n // 256), seeds), each, out, n, layers, seeds, 1, MOST=most, ROWS=8, BLOCK=256)
    return out
