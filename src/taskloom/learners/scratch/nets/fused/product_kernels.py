"""NDR's two inner maps with their GELU and the maps after them, in one kernel each way: what lies between is not read again.

A program has some rows of a seed and goes over the channels between the two maps in blocks: a block is multiplied out, passed
through the GELU, stored for the gradients of the weights, and multiplied on.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.scratch.nets.fused.row_kernels import VARYING, normal


@triton.jit
def through(total, x, left, right, bias, z, hidden, rows, there, first, D: tl.constexpr, INTO: tl.constexpr, W: tl.constexpr,
            N: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Return total + right GELU(left x + bias) for INTO channels; z and hidden get what is before and after the GELU."""
    d, c = tl.arange(0, D), tl.arange(0, N)
    for step in tl.range(0, INTO, N, num_stages=STAGES):
        inside = first + step + c
        one = tl.load(left + inside[None, :] * D + d[:, None])
        other = tl.load(right + d[None, :] * INTO + (step + c)[:, None])
        value = tl.dot(x, one, input_precision=PRECISION) + tl.load(bias + inside)[None, :]
        cdf, _ = normal(value)
        at = rows[:, None] * W + inside[None, :]
        tl.store(z + at, value.to(z.dtype.element_ty), there)
        value = (value * cdf).to(hidden.dtype.element_ty)
        tl.store(hidden + at, value, there)
        total = tl.dot(value, other, total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize=VARYING)
def inner_forward(a, inner, inner_bias, data, data_bias, gate, z, hidden, y, g, n, D: tl.constexpr, F: tl.constexpr,
                  M: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute y = a + data GELU(inner a + bias) + bias and g = gate GELU(inner a + bias), each from its own channels."""
    W: tl.constexpr = F + D
    s = tl.program_id(1)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    there = (rows < n)[:, None]
    rows += s * n
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    x = tl.load(a + at, there, 0.0)
    left, bias = inner + s * W * D, inner_bias + s * W
    total = x.to(tl.float32) + tl.load(data_bias + s * D + tl.arange(0, D))[None, :]
    total = through(total, x, left, data + s * D * F, bias, z, hidden, rows, there, 0, D, F, W, N, STAGES, PRECISION)
    tl.store(y + at, total.to(y.dtype.element_ty), there)
    total = tl.zeros([M, D], tl.float32)
    total = through(total, x, left, gate + s * D * D, bias, z, hidden, rows, there, F, D, D, W, N, STAGES, PRECISION)
    tl.store(g + at, total.to(g.dtype.element_ty), there)


@triton.jit
def back(total, change, left, right, z, dz, sums, rows, there, first, D: tl.constexpr, INTO: tl.constexpr,
         W: tl.constexpr, N: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Return total + the gradient of x in `through` for the gradient of its result; dz gets that before the GELU."""
    d, c = tl.arange(0, D), tl.arange(0, N)
    for step in tl.range(0, INTO, N, num_stages=STAGES):
        inside = first + step + c
        one = tl.load(right + d[:, None] * INTO + (step + c)[None, :])
        other = tl.load(left + inside[:, None] * D + d[None, :])
        at = rows[:, None] * W + inside[None, :]
        value = tl.load(z + at, there, 0.0).to(tl.float32)
        cdf, density = normal(value)
        value = tl.dot(change, one, input_precision=PRECISION) * (cdf + value * density)
        tl.store(sums + inside, tl.sum(value, 0))
        value = value.to(dz.dtype.element_ty)
        tl.store(dz + at, value, there)
        total = tl.dot(value, other, total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize=VARYING)
def inner_backward(dy, dg, inner, data, gate, z, dz, da, sums, n, D: tl.constexpr, F: tl.constexpr, M: tl.constexpr,
                   N: tl.constexpr, STAGES: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of `inner_forward`: of a, and dz, of which the gradients of the weights are products; sums of dz."""
    W: tl.constexpr = F + D
    s, tile = tl.program_id(1), tl.program_id(0)
    rows = tile * M + tl.arange(0, M)
    there = (rows < n)[:, None]
    rows += s * n
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    left = inner + s * W * D
    part = sums + (s * tl.num_programs(0) + tile) * W
    change = tl.load(dy + at, there, 0.0)
    total = change.to(tl.float32)
    total = back(total, change, left, data + s * D * F, z, dz, part, rows, there, 0, D, F, W, N, STAGES, PRECISION)
    change = tl.load(dg + at, there, 0.0)
    total = back(total, change, left, gate + s * D * D, z, dz, part, rows, there, F, D, D, W, N, STAGES, PRECISION)
    tl.store(da + at, total.to(da.dtype.element_ty), there)
