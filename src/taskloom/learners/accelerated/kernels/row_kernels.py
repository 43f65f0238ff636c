"""Kernels that work row by row between two matrix products: dropout, residual, norms, GELU, gate,
and their gradients.

Tensors are [seeds, rows, channels], and a program takes some rows of one seed. Values are stored in
the data type of the products (bf16 or fp32) and computed in fp32. Kernels whose results are also
summed over rows (gradients of biases and norms) process many tiles of rows per program and write
one partial sum each, which the caller adds. There are no atomics, so results are bit-identical when
repeated.

They take 4.6 ms of a step of 25 NDRs in bf16 at nine tokens, at 75 to 90 % of the card's bandwidth
for gradients (one H200). The gain is measured for all layers together: see `ndr_layers.py`. Switch
them off with `kernels: never`.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
"""True in Triton's interpreter, which does not support machine instructions."""

VARYING = ("n", "first", "batch", "length", "columns", "length_stride", "token_stride", "words")
KEYS = ("keys",)
"""Arguments on which kernels are not specialised, so that all layers share one build. Building a
kernel takes a second.
"""

EPSILON = tl.constexpr(1e-5)
"""Constant added to the variance, as in torch's layer norm."""


@triton.jit
def kept(index, key, CUT: tl.constexpr):
    """The mask of `dropout.keep`: False for a share CUT / 2^32 of the indices. `key` points at two
    32-bit numbers.
    """
    first = tl.load(key).to(tl.uint32, bitcast=True)
    second = tl.load(key + 1).to(tl.uint32, bitcast=True)
    z = index.to(tl.uint32, bitcast=True) + first
    z = z ^ (z >> 16)
    z = z * 0x7FEB352D + second
    z = z ^ (z >> 15)
    z = z * 0x846CA68B
    z = z ^ (z >> 16)
    return (z ^ 0x80000000) >= CUT


@triton.jit
def normed(x, D: tl.constexpr):
    """Rows with mean 0 and variance 1, and the inverse of their standard deviation."""
    centred = x - (tl.sum(x, 1) / D)[:, None]
    rate = 1 / tl.sqrt(tl.sum(centred * centred, 1) / D + EPSILON)
    return centred * rate[:, None], rate


@triton.jit
def normed_change(change, x, rate, D: tl.constexpr):
    """Gradient of a norm's input. `x` and `rate` are the results of `normed`."""
    along = tl.sum(change * x, 1) / D
    return rate[:, None] * (change - (tl.sum(change, 1) / D)[:, None] - x * along[:, None])


@triton.jit
def power_of_two(x):
    """2^x to fp32 precision. It is 0 below 2^-126, which saves the steps that denormal numbers
    would need.
    """
    if INTERPRETED:
        return tl.exp2(x)
    return tl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def inverse(x):
    """1/x to fp32 precision, or 0 above 2^126."""
    if INTERPRETED:
        return 1 / x
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def normal(x):
    """Distribution function and density of the normal distribution, with an error of at most 1e-7
    (Abramowitz and Stegun 7.1.26).
    """
    e = power_of_two(-0.7213475204444817 * x * x)
    t = inverse(1 + 0.2316418882663604 * tl.abs(x))
    poly = 0.127414796 + t * (
        -0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))
    )
    tail = t * poly * e
    return tl.where(x >= 0, 1 - tail, tail), 0.3989422804014327 * e


@triton.jit
def sigmoid(x):
    """Return 1 / (1 + exp(-x))."""
    return inverse(1 + power_of_two(-1.4426950408889634 * x))


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def embed_forward(table, tokens, out, low, n, words, token_stride, D: tl.constexpr, ROWS: tl.constexpr,
                  SPLIT: tl.constexpr):  # fmt: skip
    """Look up the rows of table [S, words, D] for tokens [n] or [S, n]. With SPLIT, low is the
    rounding error of `out`.
    """
    s = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, D)
    there = rows < n
    token = tl.load(tokens + s * token_stride + rows, there, 0).to(tl.int32)
    x = tl.load(table + (s * words + token)[:, None] * D + c[None, :], there[:, None], 0.0)
    at = (s * n + rows)[:, None] * D + c[None, :]
    high = x.to(out.dtype.element_ty)
    tl.store(out + at, high, there[:, None])
    if SPLIT:
        tl.store(low + at, (x - high.to(tl.float32)).to(out.dtype.element_ty), there[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def merge_forward(h, mixed, bias, gain, shift, keys, out, n, first, D: tl.constexpr, ROWS: tl.constexpr,
                  CUT: tl.constexpr, RATE: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """Compute out = LN(h + Drop(mixed + bias))."""
    s = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, D)
    there = (rows < n)[:, None]
    at = (s * n + rows)[:, None] * D + c[None, :]
    x = tl.load(mixed + at, there, 0.0).to(tl.float32)
    if BIAS:
        x += tl.load(bias + s * D + c)[None, :]
    if CUT:
        index = (first * D + rows[:, None] * D) + c[None, :]
        x = tl.where(kept(index, keys + 2 * s, CUT), x * RATE, 0.0)
    x += tl.load(h + at, there, 0.0).to(tl.float32)
    x, _ = normed(x, D)
    x = x * tl.load(gain + s * D + c)[None, :] + tl.load(shift + s * D + c)[None, :]
    tl.store(out + at, x.to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def merge_backward(da, more, h, mixed, dh_in, bias, gain, keys, dmixed, dh, sums, n, first, PER: tl.constexpr,
                   STAGES: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                   BIAS: tl.constexpr, MORE: tl.constexpr, ADD: tl.constexpr):  # fmt: skip
    """Compute the gradients of `merge_forward` for da (with MORE: + more): of mixed, of h (with
    ADD: + dh_in), and sums for norm and bias.
    """
    s, p = tl.program_id(1), tl.program_id(0)
    c = tl.arange(0, D)
    weight = tl.load(gain + s * D + c)[None, :]
    dgain = tl.zeros([ROWS, D], tl.float32)
    dshift = tl.zeros([ROWS, D], tl.float32)
    total = tl.zeros([ROWS, D], tl.float32)
    if BIAS:
        offset = tl.load(bias + s * D + c)[None, :]
    for step in tl.range(0, PER, ROWS, num_stages=STAGES):
        rows = p * PER + step + tl.arange(0, ROWS)
        there = (rows < n)[:, None]
        at = (s * n + rows)[:, None] * D + c[None, :]
        x = tl.load(mixed + at, there, 0.0).to(tl.float32)
        state = tl.load(h + at, there, 0.0).to(tl.float32)
        change = tl.load(da + at, there, 0.0).to(tl.float32)
        if MORE:
            change += tl.load(more + at, there, 0.0).to(tl.float32)
        if BIAS:
            x += offset
        if CUT:
            keep = kept((first * D + rows[:, None] * D) + c[None, :], keys + 2 * s, CUT)
            x = tl.where(keep, x * RATE, 0.0)
        x, rate = normed(x + state, D)
        dgain += change * x
        dshift += change
        dx = normed_change(change * weight, x, rate, D)
        through = dx
        if ADD:
            through += tl.load(dh_in + at, there, 0.0).to(tl.float32)
        tl.store(dh + at, through.to(dh.dtype.element_ty), there)
        if CUT:
            dx = tl.where(keep, dx * RATE, 0.0)
        if BIAS:
            total += dx
        tl.store(dmixed + at, dx.to(dmixed.dtype.element_ty), there)
    place = sums + (s * tl.num_programs(0) + p) * 3 * D + c
    tl.store(place, tl.sum(dgain, 0))
    tl.store(place + D, tl.sum(dshift, 0))
    tl.store(place + 2 * D, tl.sum(total, 0))


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def relu_forward(z, bias, keys, out, n, first, W: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
                 CUT: tl.constexpr, RATE: tl.constexpr):  # fmt: skip
    """Compute out = Drop(ReLU(z + bias)), W channels in blocks."""
    s = tl.program_id(2)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = (rows < n)[:, None]
    at = (s * n + rows)[:, None] * W + c[None, :]
    x = tl.load(z + at, there, 0.0).to(tl.float32) + tl.load(bias + s * W + c)[None, :]
    x = tl.maximum(x, 0.0)
    if CUT:
        x = tl.where(
            kept((first * W + rows[:, None] * W) + c[None, :], keys + 2 * s, CUT), x * RATE, 0.0
        )
    tl.store(out + at, x.to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def relu_backward(dout, out, dz, sums, n, PER: tl.constexpr, STAGES: tl.constexpr, W: tl.constexpr,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr, RATE: tl.constexpr):  # fmt: skip
    """Compute the gradient of `relu_forward`, and its sum over rows. Outputs of 0 were dropped or
    not positive.
    """
    s, p = tl.program_id(2), tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for step in tl.range(0, PER, ROWS, num_stages=STAGES):
        rows = p * PER + step + tl.arange(0, ROWS)
        there = (rows < n)[:, None]
        at = (s * n + rows)[:, None] * W + c[None, :]
        change = tl.load(dout + at, there, 0.0).to(tl.float32)
        change = tl.where(tl.load(out + at, there, 0.0) > 0, change * RATE, 0.0)
        total += change
        tl.store(dz + at, change.to(dz.dtype.element_ty), there)
    tl.store(sums + (s * tl.num_programs(0) + p) * W + c, tl.sum(total, 0))


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def gelu_forward(z, bias, out, n, W: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Compute out = GELU(z + bias), W channels in blocks."""
    s = tl.program_id(2)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = (rows < n)[:, None]
    at = (s * n + rows)[:, None] * W + c[None, :]
    x = tl.load(z + at, there, 0.0).to(tl.float32) + tl.load(bias + s * W + c)[None, :]
    cdf, _ = normal(x)
    tl.store(out + at, (x * cdf).to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def gelu_backward(dout, z, bias, dz, sums, n, PER: tl.constexpr, STAGES: tl.constexpr, W: tl.constexpr,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip
    """Compute the gradient of `gelu_forward`, and its sum over rows."""
    s, p = tl.program_id(2), tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    shift = tl.load(bias + s * W + c)[None, :]
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for step in tl.range(0, PER, ROWS, num_stages=STAGES):
        rows = p * PER + step + tl.arange(0, ROWS)
        there = (rows < n)[:, None]
        at = (s * n + rows)[:, None] * W + c[None, :]
        x = tl.load(z + at, there, 0.0).to(tl.float32) + shift
        change = tl.load(dout + at, there, 0.0).to(tl.float32)
        cdf, density = normal(x)
        change *= cdf + x * density
        total += change
        tl.store(dz + at, change.to(dz.dtype.element_ty), there)
    tl.store(sums + (s * tl.num_programs(0) + p) * W + c, tl.sum(total, 0))


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def gate_forward(y, g, a, h, low, y_bias, g_bias, gain, shift, keys, out, out_low, n, first, D: tl.constexpr,
                 ROWS: tl.constexpr, CUT: tl.constexpr, SPLIT: tl.constexpr):  # fmt: skip
    """Compute out = h + gate (LN(y + a) - h). The state is h + low, so that steps below bf16's
    resolution are not lost.
    """
    s = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, D)
    there = (rows < n)[:, None]
    at = (s * n + rows)[:, None] * D + c[None, :]
    here = s * D + c
    x = tl.load(y + at, there, 0.0).to(tl.float32) + tl.load(a + at, there, 0.0).to(tl.float32)
    new, _ = normed(x + tl.load(y_bias + here)[None, :], D)
    new = new * tl.load(gain + here)[None, :] + tl.load(shift + here)[None, :]
    gate = sigmoid(tl.load(g + at, there, 0.0).to(tl.float32) + tl.load(g_bias + here)[None, :])
    if CUT:
        gate = tl.where(kept(first + rows, keys + 2 * s, CUT)[:, None], gate, 0.0)
    state = tl.load(h + at, there, 0.0).to(tl.float32)
    if SPLIT:
        state += tl.load(low + at, there, 0.0).to(tl.float32)
    state += gate * (new - state)
    high = state.to(out.dtype.element_ty)
    tl.store(out + at, high, there)
    if SPLIT:
        tl.store(out_low + at, (state - high.to(tl.float32)).to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def gate_backward(
    dout,
    y,
    g,
    a,
    h,
    y_bias,
    g_bias,
    gain,
    shift,
    keys,
    dy,
    dg,
    dh,
    sums,
    n,
    first,
    PER: tl.constexpr,
    STAGES: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    CUT: tl.constexpr,
):
    """Compute the gradients of `gate_forward`: of y (and a), g, h, and sums for gain, shift and the
    two biases.
    """
    s, p = tl.program_id(1), tl.program_id(0)
    c = tl.arange(0, D)
    here = s * D + c
    weight = tl.load(gain + here)[None, :]
    offset = tl.load(shift + here)[None, :]
    bias = tl.load(y_bias + here)[None, :]
    opening = tl.load(g_bias + here)[None, :]
    dgain = tl.zeros([ROWS, D], tl.float32)
    dshift = tl.zeros([ROWS, D], tl.float32)
    total_y = tl.zeros([ROWS, D], tl.float32)
    total_g = tl.zeros([ROWS, D], tl.float32)
    for step in tl.range(0, PER, ROWS, num_stages=STAGES):
        rows = p * PER + step + tl.arange(0, ROWS)
        there = (rows < n)[:, None]
        at = (s * n + rows)[:, None] * D + c[None, :]
        change = tl.load(dout + at, there, 0.0).to(tl.float32)
        x = tl.load(y + at, there, 0.0).to(tl.float32) + tl.load(a + at, there, 0.0).to(tl.float32)
        state = tl.load(h + at, there, 0.0).to(tl.float32)
        gate = sigmoid(tl.load(g + at, there, 0.0).to(tl.float32) + opening)
        slope = gate * (1 - gate)
        if CUT:
            keep = kept(first + rows, keys + 2 * s, CUT)[:, None]
            gate = tl.where(keep, gate, 0.0)
            slope = tl.where(keep, slope, 0.0)
        x, rate = normed(x + bias, D)
        dgate = change * (x * weight + offset - state) * slope
        dnew = change * gate
        dgain += dnew * x
        dshift += dnew
        dx = normed_change(dnew * weight, x, rate, D)
        total_y += dx
        total_g += dgate
        tl.store(dy + at, dx.to(dy.dtype.element_ty), there)
        tl.store(dg + at, dgate.to(dg.dtype.element_ty), there)
        tl.store(dh + at, (change - dnew).to(dh.dtype.element_ty), there)
    place = sums + (s * tl.num_programs(0) + p) * 4 * D + c
    tl.store(place, tl.sum(dgain, 0))
    tl.store(place + D, tl.sum(dshift, 0))
    tl.store(place + 2 * D, tl.sum(total_y, 0))
    tl.store(place + 3 * D, tl.sum(total_g, 0))
