"""Kernels of NDR's attention in the last layer, where the first column alone asks: it asks the
columns to its right in turn.

Rows of `kv` hold for each head its keys and its values; those of `first_rows`, one for an example,
the queries of all heads and two scores of direction for each head (back, front). A program has a
head and a tile of rows, which are some whole examples.

Attending for one column takes 0.26 ms of a step of 25 NDRs in bf16; all columns took 0.45 (one
H200). To do without set `kernels: never`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.accelerated.kernels.ndr_attention import LOG2_E, SMALL, logarithm
from taskloom.learners.accelerated.kernels.row_kernels import (
    KEYS,
    VARYING,
    inverse,
    kept,
    power_of_two,
)


@triton.jit
def tile_examples(tile, s, batch, lengths, length_stride, LENGTH: tl.constexpr, R: tl.constexpr):
    """Return for each row of a tile its example's place in the tile, its column, whether it is
    there, and whether it is asked.
    """
    r = tl.arange(0, R)
    e = r // LENGTH
    t = r - e * LENGTH
    there = (e < R // LENGTH) & (tile * (R // LENGTH) + e < batch)
    length = tl.load(lengths + s * length_stride + tile * (R // LENGTH) + e, there, 0)
    return e, t, there, there & (t > 0) & (t < length)


@triton.jit
def asked_in_turn(product, front, scales, s, allowed, e, R: tl.constexpr):
    """Return the weights A of rows, which their example's first column asks in turn, and the
    probabilities of a match.
    """
    logits = (
        product * tl.load(scales + s * 3)
        + front * tl.load(scales + s * 3 + 1)
        + tl.load(scales + s * 3 + 2)
    )
    logits *= LOG2_E
    rest = power_of_two(-tl.abs(logits))
    miss = tl.where(allowed, tl.maximum(logits, 0.0) + logarithm(1 + rest), 0.0)
    r = tl.arange(0, R)
    before = (e[:, None] == e[None, :]) & (r[None, :] < r[:, None])
    missed = tl.sum(tl.where(before, miss[None, :], 0.0), 1)
    match = tl.where(logits >= 0, 1.0, rest) * inverse(1 + rest)
    return tl.where(allowed, power_of_two(-missed) * match, 0.0), match


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def first_forward(kv, first_rows, bias, keys, lengths, scales, out, batch, length_stride, first, H: tl.constexpr,
                  C: tl.constexpr, LENGTH: tl.constexpr, R: tl.constexpr, G: tl.constexpr, CUT: tl.constexpr,
                  RATE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the mixtures of values [S, batch, d]; keys are replaced by what bias and dropout make
    of them.
    """
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    Q: tl.constexpr = D + 2 * H
    W: tl.constexpr = 2 * D + Q
    kind = kv.dtype.element_ty
    c = tl.arange(0, C)
    e, t, there, allowed = tile_examples(tile, s, batch, lengths, length_stride, LENGTH, R)
    here = s * batch + tile * (R // LENGTH)
    at = kv + (here * LENGTH + tl.arange(0, R))[:, None] * (2 * D) + head * 2 * C + c[None, :]
    k = (
        tl.load(at, there[:, None], 0.0)
        + tl.load(bias + s * W + head * 2 * C + c).to(kind)[None, :]
    )
    v = (
        tl.load(at + C, there[:, None], 0.0)
        + tl.load(bias + s * W + head * 2 * C + C + c).to(kind)[None, :]
    )
    asking = first_rows + (here + e) * Q
    q = tl.load(asking[:, None] + head * C + c[None, :], there[:, None], 0.0)
    q += tl.load(bias + s * W + 2 * D + head * C + c).to(kind)[None, :]
    front = tl.load(asking + D + 2 * head + 1, there, 0.0).to(tl.float32) + tl.load(
        bias + s * W + 3 * D + 2 * head + 1
    )
    if CUT:
        index = ((first + tile * (R // LENGTH) + e) * H + head) * LENGTH + t
        keep = kept(index[:, None] * C + c[None, :], keys + 2 * s, CUT)
        k = tl.where(keep, tl.where(k == 0, SMALL, k.to(tl.float32) * RATE), 0.0).to(kind)
    tl.store(at, k, there[:, None])
    product = tl.sum(k.to(tl.float32) * q.to(tl.float32), 1)
    weights, _ = asked_in_turn(product, front, scales, s, allowed, e, R)
    g = tl.arange(0, G)
    shares = tl.where(g[:, None] == e[None, :], weights[None, :], 0.0).to(kind)
    mixed = tl.dot(shares, v, input_precision=PRECISION)
    inside = (g < R // LENGTH) & (tile * (R // LENGTH) + g < batch)
    tl.store(out + (here + g)[:, None] * D + head * C + c[None, :], mixed.to(kind), inside[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def first_backward(dout, kv, first_rows, bias, lengths, scales, dkv, dfirst, sums, scalars, batch, length_stride,
                   H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr, R: tl.constexpr, G: tl.constexpr,
                   CUT: tl.constexpr, RATE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of kv and of the rows that ask; sums of dkv over a tile's rows, and for
    the three scalars.
    """
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    Q: tl.constexpr = D + 2 * H
    W: tl.constexpr = 2 * D + Q
    kind = kv.dtype.element_ty
    c = tl.arange(0, C)
    e, _, there, allowed = tile_examples(tile, s, batch, lengths, length_stride, LENGTH, R)
    here = s * batch + tile * (R // LENGTH)
    at = (here * LENGTH + tl.arange(0, R))[:, None] * (2 * D) + head * 2 * C + c[None, :]
    k = tl.load(kv + at, there[:, None], 0.0)
    v = (
        tl.load(kv + at + C, there[:, None], 0.0)
        + tl.load(bias + s * W + head * 2 * C + C + c).to(kind)[None, :]
    )
    asking = first_rows + (here + e) * Q
    q = tl.load(asking[:, None] + head * C + c[None, :], there[:, None], 0.0)
    q = (q + tl.load(bias + s * W + 2 * D + head * C + c).to(kind)[None, :]).to(tl.float32)
    front = tl.load(asking + D + 2 * head + 1, there, 0.0).to(tl.float32) + tl.load(
        bias + s * W + 3 * D + 2 * head + 1
    )
    change = tl.load(
        dout + (here + e)[:, None] * D + head * C + c[None, :], there[:, None], 0.0
    ).to(tl.float32)
    product = tl.sum(k.to(tl.float32) * q, 1)
    weights, match = asked_in_turn(product, front, scales, s, allowed, e, R)
    dlog = weights * tl.sum(change * v.to(tl.float32), 1)
    r = tl.arange(0, R)
    after = (e[:, None] == e[None, :]) & (r[None, :] > r[:, None])
    later = tl.sum(tl.where(after, dlog[None, :], 0.0), 1)
    dlogits = tl.where(allowed, dlog - match * (dlog + later), 0.0)
    dproduct = dlogits * tl.load(scales + s * 3)
    dv = weights[:, None] * change
    dk = dproduct[:, None] * q
    if CUT:
        dk = tl.where(k != 0, dk * RATE, 0.0)
    tl.store(dkv + at, dk.to(kind), there[:, None])
    tl.store(dkv + at + C, dv.to(kind), there[:, None])
    total = sums + (s * tl.num_programs(0) + tile) * 2 * D + head * 2 * C + c
    tl.store(total, tl.sum(dk, 0))
    tl.store(total + C, tl.sum(dv, 0))
    g = tl.arange(0, G)
    own = g[:, None] == e[None, :]
    dq = tl.dot(tl.where(own, dproduct[None, :], 0.0).to(kind), k, input_precision=PRECISION)
    inside = (g < R // LENGTH) & (tile * (R // LENGTH) + g < batch)
    to = dfirst + (here + g) * Q
    tl.store(to[:, None] + head * C + c[None, :], dq.to(kind), inside[:, None])
    dfront = tl.sum(tl.where(own, dlogits[None, :], 0.0), 1) * tl.load(scales + s * 3 + 1)
    tl.store(to + D + 2 * head, tl.zeros([G], kind), inside)
    tl.store(to + D + 2 * head + 1, dfront.to(kind), inside)
    place = scalars + ((s * tl.num_programs(0) + tile) * H + head) * 3
    tl.store(place, tl.sum(dlogits * product, 0))
    tl.store(place + 1, tl.sum(dlogits * front, 0))
    tl.store(place + 2, tl.sum(dlogits, 0))
