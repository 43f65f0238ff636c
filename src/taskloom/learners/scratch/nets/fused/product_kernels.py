"""Matrix products whose results are used up before they reach memory: NDR's inner maps with their GELU, and their gradients.

The library's products are as fast, but GELU after them would read and write three times the states once more in either direction.
Forward, the slope of the GELU is kept in place of its input, so that the gradient is a product and a multiplication.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.scratch.nets.fused.row_kernels import VARYING, normal


@triton.jit(do_not_specialize=VARYING)
def inner_forward(a, weight, bias, slope, out, n, D: tl.constexpr, W: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                  K: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute out = GELU(z) and its slope for z = a [S, n, D] times weight [S, W, D], transposed, plus bias [S, W]."""
    s = tl.program_id(2)
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    k = tl.arange(0, K)
    there = (rows < n)[:, None]
    left = a + (s * n + rows)[:, None] * D + k[None, :]
    right = weight + (s * W + columns)[:, None] * D + k[None, :]
    z = tl.zeros([M, N], tl.float32)
    for step in range(0, D, K):
        z = tl.dot(tl.load(left + step, there, 0.0), tl.trans(tl.load(right + step)), z, input_precision=PRECISION)
    z += tl.load(bias + s * W + columns)[None, :]
    cdf, density = normal(z)
    at = (s * n + rows)[:, None] * W + columns[None, :]
    tl.store(out + at, (z * cdf).to(out.dtype.element_ty), there)
    tl.store(slope + at, (cdf + z * density).to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=VARYING)
def inner_backward(dy, dg, data, gate, slope, dz, sums, n, D: tl.constexpr, F: tl.constexpr, M: tl.constexpr,
                   N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute dz = slope (dy times data [S, D, F] | dg times gate [S, D, D]), and its sum over each tile of rows."""
    W: tl.constexpr = F + D
    s, tile = tl.program_id(2), tl.program_id(1)
    rows = tile * M + tl.arange(0, M)
    first = tl.program_id(0) * N
    c = tl.arange(0, N)
    k = tl.arange(0, K)
    there = (rows < n)[:, None]
    if first < F:
        left, right, wide = dy, data + s * D * F + first, F
    else:
        left, right, wide = dg, gate + s * D * D + first - F, D
    left += (s * n + rows)[:, None] * D + k[None, :]
    right += k[:, None] * wide + c[None, :]
    change = tl.zeros([M, N], tl.float32)
    for step in range(0, D, K):
        one = tl.load(left + step, there, 0.0)
        change = tl.dot(one, tl.load(right + step * wide), change, input_precision=PRECISION)
    at = (s * n + rows)[:, None] * W + first + c[None, :]
    change *= tl.load(slope + at, there, 0.0).to(tl.float32)
    tl.store(dz + at, change.to(dz.dtype.element_ty), there)
    tl.store(sums + (s * tl.num_programs(1) + tile) * W + first + c, tl.sum(change, 0))
