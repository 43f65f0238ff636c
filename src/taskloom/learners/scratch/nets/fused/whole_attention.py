"""Kernels of NDR's attention, whole: a head of an example at a time, in one warp, so that only maps and mixtures touch memory.

A row of the input `qkv` holds, after the product with the joined weights, for each head its keys and its values, then the queries
of all heads, then two scores of direction for each head (back, front).

The sum over the columns that are asked before column j is a difference of two prefix sums of a line: for j right of i, over
2i-j+1 .. j-1; for j left of it, over j+1 .. 2i-j. So the order of asking needs one prefix sum and a look-up of mirrored columns.
Logits and sums are in units of log(2), which the exponential function of the machine takes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.scratch.nets.fused.row_kernels import INTERPRETED, KEYS, VARYING, inverse, kept, power_of_two

SMALL = tl.constexpr(1e-30)
"""What a key that is 0 becomes where it is kept, so that 0 means dropped; fp16 has no such number and forgets that key."""

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def logarithm(x):
    """Return the logarithm to base 2 of x between 1 and 2, to 2^-22."""
    if INTERPRETED:
        return tl.log2(x)
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def mirrored(sums, i, j, T: tl.constexpr):
    """Return sums[., 2i-j] of prefix sums [T, T]: 0 left of the first column, the whole sum right of the last."""
    other = 2 * i - j
    return tl.where(other < 0, 0.0, tl.gather(sums, tl.minimum(tl.maximum(other, 0), T - 1), 1))


@triton.jit
def asked(logits, allowed, i, j, T: tl.constexpr):
    """Return the weights A of logits [T, T], and the probabilities of a match; a column that is not allowed is not asked."""
    e = power_of_two(-tl.abs(logits))
    positive = tl.maximum(logits, 0.0) + logarithm(1 + e)
    miss = tl.where(allowed, positive, 0.0)
    sums = tl.cumsum(miss, 1)
    mirror = mirrored(sums, i, j, T)
    missed = tl.where(j > i, sums - miss - mirror, mirror - sums)
    match = tl.where(logits >= 0, 1.0, e) * inverse(1 + e)
    return tl.where(allowed, power_of_two(-missed) * match, 0.0), match


@triton.jit
def asked_change(change, match, i, j, T: tl.constexpr):
    """Return the gradient of the logits from that of the logarithms of the weights."""
    sums = tl.cumsum(change, 1)
    mirror = mirrored(sums, i, j, T)
    until = tl.where(j > i, sums - mirror, mirror - sums + change)
    later = tl.sum(change, 1)[:, None] - until
    return change - match * (change + later)


@triton.jit
def columns_of(x, R: tl.constexpr, C: tl.constexpr):
    """Return sums over every eighth row [8, C] of x [R, C], which a thread has by itself."""
    return tl.sum(tl.reshape(x, [R // 8, 8, C]), 0)


@triton.jit
def tile_lines(tile, s, batch, lengths, length_stride, LENGTH: tl.constexpr, T: tl.constexpr):
    """Return for each row of a tile its example, its column and the tokens of its example, and whether there is such a row."""
    t = tl.arange(0, T)
    e = t // LENGTH
    example = tile * (T // LENGTH) + e
    there = (e < T // LENGTH) & (example < batch)
    return example, t - e * LENGTH, tl.load(lengths + s * length_stride + example, there, 0), there


@triton.jit
def asking(column, length, columns, i, j, LENGTH: tl.constexpr, T: tl.constexpr):
    """Return which columns [T, T] of a tile a row asks: the others of its own example."""
    first = i - column[:, None]
    return (j >= first) & (j < first + length[:, None]) & (j != i) & (column < columns)[:, None]


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def geometric_forward(qkv, bias, keys, lengths, scales, out, batch, columns, length_stride, first, H: tl.constexpr,
                      C: tl.constexpr, LENGTH: tl.constexpr, T: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                      PRECISION: tl.constexpr):  # fmt: skip
    """Compute the mixture of values for every column that asks; keys are replaced by what bias and dropout make of them."""
    head, tile, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D + 2 * H
    kind = qkv.dtype.element_ty
    t, c = tl.arange(0, T), tl.arange(0, C)
    i, j = t[:, None], t[None, :]
    example, column, length, there = tile_lines(tile, s, batch, lengths, length_stride, LENGTH, T)
    row = (s * batch + tile * (T // LENGTH)) * LENGTH + t
    at = qkv + row[:, None] * W + c[None, :]
    k = tl.load(at + head * 2 * C, there[:, None], 0.0)
    v = tl.load(at + head * 2 * C + C, there[:, None], 0.0)
    q = tl.load(at + 2 * D + head * C, there[:, None], 0.0)
    score = 3 * D + 2 * head
    back = tl.load(qkv + row * W + score, there, 0.0).to(tl.float32) + tl.load(bias + s * W + score)
    front = tl.load(qkv + row * W + score + 1, there, 0.0).to(tl.float32) + tl.load(bias + s * W + score + 1)
    offset = bias + s * W + c
    k += tl.load(offset + head * 2 * C).to(kind)[None, :]
    v += tl.load(offset + head * 2 * C + C).to(kind)[None, :]
    q += tl.load(offset + 2 * D + head * C).to(kind)[None, :]
    if CUT:
        index = ((first + example) * H + head) * LENGTH + column
        keep = kept(index[:, None] * C + c[None, :], keys + 2 * s, CUT)
        k = tl.where(keep, tl.where(k == 0, SMALL, k.to(tl.float32) * RATE), 0.0).to(kind)
    tl.store(at + head * 2 * C, k, there[:, None])
    product = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    direction = tl.where(j > i, front[:, None], back[:, None])
    logits = product * tl.load(scales + s * 3) + direction * tl.load(scales + s * 3 + 1) + tl.load(scales + s * 3 + 2)
    weights, _ = asked(logits * LOG2_E, asking(column, length, columns, i, j, LENGTH, T), i, j, T)
    mixed = tl.dot(weights.to(kind), v, input_precision=PRECISION)
    to = ((s * batch + example) * columns + column)[:, None] * D + head * C + c[None, :]
    tl.store(out + to, mixed.to(kind), (there & (column < columns))[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def geometric_backward(dout, qkv, bias, lengths, scales, dqkv, sums, scalars, batch, columns, length_stride,
                       PER: tl.constexpr, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr, T: tl.constexpr,
                       CUT: tl.constexpr, RATE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradient of qkv for some tiles of examples; sums of it over their rows, and for the three scalars."""
    head, p, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D + 2 * H
    kind = qkv.dtype.element_ty
    t, c = tl.arange(0, T), tl.arange(0, C)
    i, j = t[:, None], t[None, :]
    score = 3 * D + 2 * head
    offset = bias + s * W + c
    value_bias = tl.load(offset + head * 2 * C + C).to(kind)[None, :]
    query_bias = tl.load(offset + 2 * D + head * C).to(kind)[None, :]
    back_bias = tl.load(bias + s * W + score)
    front_bias = tl.load(bias + s * W + score + 1)
    scale = tl.load(scales + s * 3)
    scale_direction = tl.load(scales + s * 3 + 1)
    shift = tl.load(scales + s * 3 + 2)
    total_q = tl.zeros([8, C], tl.float32)
    total_k = tl.zeros([8, C], tl.float32)
    total_v = tl.zeros([8, C], tl.float32)
    total_back = tl.zeros([T], tl.float32)
    total_front = tl.zeros([T], tl.float32)
    total_scale = tl.zeros([T], tl.float32)
    total_direction = tl.zeros([T], tl.float32)
    for one in range(PER):
        tile = p * PER + one
        example, column, length, there = tile_lines(tile, s, batch, lengths, length_stride, LENGTH, T)
        row = (s * batch + tile * (T // LENGTH)) * LENGTH + t
        at = row[:, None] * W + c[None, :]
        k = tl.load(qkv + at + head * 2 * C, there[:, None], 0.0)
        v = tl.load(qkv + at + head * 2 * C + C, there[:, None], 0.0) + value_bias
        q = tl.load(qkv + at + 2 * D + head * C, there[:, None], 0.0) + query_bias
        come = ((s * batch + example) * columns + column)[:, None] * D + head * C + c[None, :]
        change = tl.load(dout + come, (there & (column < columns))[:, None], 0.0)
        back = tl.load(qkv + row * W + score, there, 0.0).to(tl.float32) + back_bias
        front = tl.load(qkv + row * W + score + 1, there, 0.0).to(tl.float32) + front_bias
        product = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        dweights = tl.dot(change, tl.trans(v), input_precision=PRECISION)
        direction = tl.where(j > i, front[:, None], back[:, None])
        allowed = asking(column, length, columns, i, j, LENGTH, T)
        logits = product * scale + direction * scale_direction + shift
        weights, match = asked(logits * LOG2_E, allowed, i, j, T)
        dv = tl.dot(tl.trans(weights.to(kind)), change, input_precision=PRECISION)
        total_v += columns_of(dv, T, C)
        tl.store(dqkv + at + head * 2 * C + C, dv.to(kind), there[:, None])
        dlogits = tl.where(allowed, asked_change(dweights * weights, match, i, j, T), 0.0)
        pairs = (dlogits * scale).to(kind)
        dq = tl.dot(pairs, k, input_precision=PRECISION)
        total_q += columns_of(dq, T, C)
        tl.store(dqkv + at + 2 * D + head * C, dq.to(kind), there[:, None])
        dk = tl.dot(tl.trans(pairs), q, input_precision=PRECISION)
        if CUT:
            dk = tl.where(k != 0, dk * RATE, 0.0)
        total_k += columns_of(dk, T, C)
        tl.store(dqkv + at + head * 2 * C, dk.to(kind), there[:, None])
        dback = tl.sum(tl.where(j < i, dlogits, 0.0), 1)
        dfront = tl.sum(tl.where(j > i, dlogits, 0.0), 1)
        tl.store(dqkv + row * W + score, (dback * scale_direction).to(kind), there)
        tl.store(dqkv + row * W + score + 1, (dfront * scale_direction).to(kind), there)
        total_back += dback
        total_front += dfront
        total_scale += tl.sum(dlogits * product, 1)
        total_direction += dback * back + dfront * front
    part = s * tl.num_programs(1) + p
    total = sums + part * 3 * D + c
    tl.store(total + head * 2 * C, tl.sum(total_k, 0))
    tl.store(total + head * 2 * C + C, tl.sum(total_v, 0))
    tl.store(total + 2 * D + head * C, tl.sum(total_q, 0))
    to = scalars + (part * H + head) * 5
    sum_back, sum_front = tl.sum(total_back, 0), tl.sum(total_front, 0)
    tl.store(to, tl.sum(total_scale, 0))
    tl.store(to + 1, tl.sum(total_direction, 0))
    tl.store(to + 2, sum_back + sum_front)
    tl.store(to + 3, sum_back * scale_direction)
    tl.store(to + 4, sum_front * scale_direction)
