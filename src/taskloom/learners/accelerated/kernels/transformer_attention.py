"""Kernels of the Transformer's attention: keys with dropout, relative positions, softmax, weighted
values. Each program computes one head of a tile.

A row of the input holds, after the product with the joined weights, for each head its keys and its
values, then the queries of all heads. A tile has T rows, which are whole examples, and is computed
by one warp. Positional keys [seeds, 2 * length - 1, heads, size] already include their dropout.

Attention takes 2.07 ms of a step of 25 Transformers in bf16 at nine tokens (one H200). The gain is
measured for all layers together: see `transformer_layers.py`. Switch it off with `kernels: never`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.accelerated.kernels.row_kernels import KEYS, VARYING, kept


@triton.jit
def softmaxed(logits, allowed):
    """Weights [T, T] over the allowed columns. Rows without any are 0."""
    logits = tl.where(allowed, logits, -1e30)
    e = tl.where(allowed, tl.exp(logits - tl.max(logits, 1)[:, None]), 0.0)
    return e / tl.maximum(tl.sum(e, 1), 1e-30)[:, None]


@triton.jit
def tile_lines(tile, s, batch, length, columns, lengths, length_stride, T: tl.constexpr):
    """For each row of a tile: its example and column, whether it exists, and the columns [T, T] to
    which it attends.
    """
    t = tl.arange(0, T)
    e = t // length
    example = tile * (T // length) + e
    there = (e < T // length) & (example < batch)
    most = tl.load(lengths + s * length_stride + example, there, 0)
    begin = (e * length)[:, None]
    asks = (
        (t[None, :] >= begin)
        & (t[None, :] < begin + most[:, None])
        & (t - e * length < columns)[:, None]
    )
    return example, t - e * length, there, asks


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def relative_forward(qkv, far, content, position, lengths, scale, keys, out, batch, length, columns, length_stride,
                     first, H: tl.constexpr, C: tl.constexpr, T: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                     PRECISION: tl.constexpr):  # fmt: skip
    """Compute the weighted values for every column that attends, [S, batch * columns, d]."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D
    kind = qkv.dtype.element_ty
    t = tl.arange(0, T)
    c = tl.arange(0, C)
    m = tl.arange(0, 2 * T)
    i, j = t[:, None], t[None, :]
    example, column, there, allowed = tile_lines(
        tile, s, batch, length, columns, lengths, length_stride, T
    )
    at = ((s * batch + tile * (T // length)) * length + t)[:, None] * W + c[None, :]
    k = tl.load(qkv + at + head * 2 * C, there[:, None], 0.0)
    v = tl.load(qkv + at + head * 2 * C + C, there[:, None], 0.0)
    q = tl.load(qkv + at + 2 * D + head * C, there[:, None], 0.0).to(tl.float32)
    if CUT:
        index = (((first + example) * H + head) * length + column)[:, None] * C + c[None, :]
        k = tl.where(kept(index, keys + 2 * s, CUT), k.to(tl.float32) * RATE, 0.0).to(kind)
    place = (s * (2 * length - 1) + m)[:, None] * D + head * C + c[None, :]
    distant = tl.load(far + place, (m < 2 * length - 1)[:, None], 0.0)
    own = s * D + head * C + c
    asking = (q + tl.load(content + own)[None, :]).to(kind)
    placed = (q + tl.load(position + own)[None, :]).to(kind)
    logits = tl.dot(asking, tl.trans(k), input_precision=PRECISION)
    steps = tl.dot(placed, tl.trans(distant), input_precision=PRECISION)
    logits += tl.gather(steps, tl.minimum(tl.maximum(j - i + length - 1, 0), 2 * T - 1), 1)
    weights = softmaxed(logits * tl.load(scale + s), allowed)
    mixed = tl.dot(weights.to(kind), v, input_precision=PRECISION)
    to = ((s * batch + example) * columns + column)[:, None] * D + head * C + c[None, :]
    tl.store(out + to, mixed.to(kind), (there & (column < columns))[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def relative_backward(
    dout,
    qkv,
    far,
    content,
    position,
    lengths,
    scale,
    keys,
    dqkv,
    dfar,
    sums,
    scalars,
    batch,
    length,
    columns,
    length_stride,
    first,
    PER: tl.constexpr,
    H: tl.constexpr,
    C: tl.constexpr,
    T: tl.constexpr,
    CUT: tl.constexpr,
    RATE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Compute the gradients of `relative_forward` for some tiles: of qkv, and sums for far, the two
    biases and the scale.
    """
    p, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D
    kind = qkv.dtype.element_ty
    t = tl.arange(0, T)
    c = tl.arange(0, C)
    m = tl.arange(0, 2 * T)
    i, j = t[:, None], t[None, :]
    place = (s * (2 * length - 1) + m)[:, None] * D + head * C + c[None, :]
    distant = tl.load(far + place, (m < 2 * length - 1)[:, None], 0.0)
    own = s * D + head * C + c
    content_bias = tl.load(content + own)[None, :]
    position_bias = tl.load(position + own)[None, :]
    factor = tl.load(scale + s)
    total_far = tl.zeros([2 * T, C], tl.float32)
    total_content = tl.zeros([C], tl.float32)
    total_position = tl.zeros([C], tl.float32)
    total_scale = tl.zeros([T], tl.float32)
    # steps[i, m] is for the distance m - (length - 1) from row i; rows of other examples have no
    # weight.
    row = m[None, :] + i - length + 1
    for step in range(PER):
        tile = p * PER + step
        example, column, there, allowed = tile_lines(
            tile, s, batch, length, columns, lengths, length_stride, T
        )
        at = ((s * batch + tile * (T // length)) * length + t)[:, None] * W + c[None, :]
        k = tl.load(qkv + at + head * 2 * C, there[:, None], 0.0)
        v = tl.load(qkv + at + head * 2 * C + C, there[:, None], 0.0)
        q = tl.load(qkv + at + 2 * D + head * C, there[:, None], 0.0).to(tl.float32)
        if CUT:
            index = (((first + example) * H + head) * length + column)[:, None] * C + c[None, :]
            keep = kept(index, keys + 2 * s, CUT)
            k = tl.where(keep, k.to(tl.float32) * RATE, 0.0).to(kind)
        come = ((s * batch + example) * columns + column)[:, None] * D + head * C + c[None, :]
        change = tl.load(dout + come, (there & (column < columns))[:, None], 0.0)
        asking = (q + content_bias).to(kind)
        placed = (q + position_bias).to(kind)
        logits = tl.dot(asking, tl.trans(k), input_precision=PRECISION)
        steps = tl.dot(placed, tl.trans(distant), input_precision=PRECISION)
        logits += tl.gather(steps, tl.minimum(tl.maximum(j - i + length - 1, 0), 2 * T - 1), 1)
        weights = softmaxed(logits * factor, allowed)
        dweights = tl.dot(change, tl.trans(v), input_precision=PRECISION)
        dlogits = weights * (dweights - tl.sum(dweights * weights, 1)[:, None])
        total_scale += tl.sum(tl.where(allowed, dlogits * logits, 0.0), 1)
        dlogits = dlogits * factor
        dsteps = tl.gather(dlogits, tl.minimum(tl.maximum(row, 0), T - 1), 1)
        dsteps = tl.where((row >= 0) & (row < T), dsteps, 0.0).to(kind)
        dlogits = dlogits.to(kind)
        dcontent = tl.dot(dlogits, k, input_precision=PRECISION)
        dposition = tl.dot(dsteps, distant, input_precision=PRECISION)
        total_far += tl.dot(tl.trans(dsteps), placed, input_precision=PRECISION)
        dk = tl.dot(tl.trans(dlogits), asking, input_precision=PRECISION)
        dv = tl.dot(tl.trans(weights.to(kind)), change, input_precision=PRECISION)
        if CUT:
            dk = tl.where(keep, dk * RATE, 0.0)
        total_content += tl.sum(dcontent, 0)
        total_position += tl.sum(dposition, 0)
        tl.store(dqkv + at + head * 2 * C, dk.to(kind), there[:, None])
        tl.store(dqkv + at + head * 2 * C + C, dv.to(kind), there[:, None])
        tl.store(dqkv + at + 2 * D + head * C, (dcontent + dposition).to(kind), there[:, None])
    part = s * tl.num_programs(0) + p
    to = (part * (2 * length - 1) + m)[:, None] * D + head * C + c[None, :]
    tl.store(dfar + to, total_far, (m < 2 * length - 1)[:, None])
    tl.store(sums + part * 2 * D + head * C + c, total_content)
    tl.store(sums + part * 2 * D + D + head * C + c, total_position)
    tl.store(scalars + part * H + head, tl.sum(total_scale, 0))
