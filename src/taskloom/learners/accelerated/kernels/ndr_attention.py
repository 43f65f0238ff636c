"""Kernels of NDR's attention: forward and backward in one kernel each, for all columns and, in the
last layer, for the first column alone.

A program handles one head and one tile of rows. A tile consists of whole examples.

**All columns** (`attend_forward`, `attend_backward`). A row of the input `qkv` holds, after the
product with the joined weights, for each head its keys and its values, then the queries of all
heads, then two scores of direction for each head (back, front).

Products of two rows of the same example go to tables [seeds, rows, heads, turns]. A line of a table
has the columns in the order in which a row visits them: 1 to the right, 1 to the left, 2 to the
right, and so on. The columns visited earlier are then a prefix of the line. A program writes its
lines and reads them back in the other shape. Cells for columns that an example does not have are
never used.

One kernel each way takes 2.6 ms of a step of 25 NDRs in bf16 at nine tokens. Separate kernels for
the products and for the order of visits took 4.6 ms (one H200).

**The first column** (`first_forward`, `first_backward`) visits the columns to its right in turn.
Rows of `kv` hold for each head its keys and its values. Rows of `first_rows`, one per example, hold
the queries of all heads and the two scores of direction of each.

Attending for one column takes 0.26 ms of the same step; all columns took 0.45.

Switch it off with `kernels: never`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.accelerated.kernels.row_kernels import (
    INTERPRETED,
    KEYS,
    VARYING,
    inverse,
    kept,
    power_of_two,
    sigmoid,
)

SMALL = tl.constexpr(1e-30)
"""Value that replaces a key that is 0 but was kept, because 0 means dropped. fp16 cannot represent
this number, so such a key counts as dropped there.
"""

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def logarithm(x):
    """Logarithm to base 2 of x between 1 and 2, with an error of at most 2^-22."""
    if INTERPRETED:
        return tl.log2(x)
    return tl.inline_asm_elementwise(
        "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def tile_rows(tile, s, batch, lengths, length_stride, LENGTH: tl.constexpr, R: tl.constexpr):
    """For each row of a tile: its index, its example and column, its example's tokens, and whether
    it exists.
    """
    r = tl.arange(0, R)
    e = r // LENGTH
    example = tile * (R // LENGTH) + e
    there = (e < R // LENGTH) & (example < batch)
    length = tl.load(lengths + s * length_stride + example, there, 0)
    return (s * batch + tile * (R // LENGTH)) * LENGTH + r, example, r - e * LENGTH, length, there


@triton.jit
def pairs_within(
    row, there, head, H: tl.constexpr, LENGTH: tl.constexpr, TURNS: tl.constexpr, R: tl.constexpr
):
    """Offsets in a table [seeds, rows, heads, TURNS] of each pair [R, R] of a tile's rows, and a
    mask of the pairs that exist.
    """
    one, other = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    same = (one // LENGTH == other // LENGTH) & there[:, None] & (one != other)
    turn = tl.where(other > one, 2 * (other - one) - 2, 2 * (one - other) - 1)
    return (row * H + head)[:, None] * TURNS + turn, same


@triton.jit
def turns_of(row, column, length, there, head, H: tl.constexpr, TURNS: tl.constexpr):
    """Offsets in a table of the lines [R, TURNS] of a tile's rows, and masks of the columns that
    are visited and of those to the right.
    """
    turn = tl.arange(0, TURNS)[None, :]
    right = turn % 2 == 0
    other = tl.where(right, column[:, None] + turn // 2 + 1, column[:, None] - turn // 2 - 1)
    allowed = (other >= 0) & (other < length[:, None]) & there[:, None]
    return (row * H + head)[:, None] * TURNS + turn, allowed, right


@triton.jit
def directions(qkv, bias, row, there, s, head, D: tl.constexpr, W: tl.constexpr):
    """Direction scores of a tile's rows, back and front."""
    at = qkv + row * W + 3 * D + 2 * head
    side = bias + s * W + 3 * D + 2 * head
    back = tl.load(at, there, 0.0).to(tl.float32) + tl.load(side)
    return back, tl.load(at + 1, there, 0.0).to(tl.float32) + tl.load(side + 1)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def attend_forward(qkv, bias, keys, lengths, scales, products, weights, out, batch, length_stride, first,
                   H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr, TURNS: tl.constexpr, R: tl.constexpr,
                   CUT: tl.constexpr, RATE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the mixtures of values, and replace keys by their values after bias and dropout."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D + 2 * H
    kind = qkv.dtype.element_ty
    c = tl.arange(0, C)
    row, example, column, length, there = tile_rows(
        tile, s, batch, lengths, length_stride, LENGTH, R
    )
    at = qkv + row[:, None] * W + c[None, :]
    k = tl.load(at + head * 2 * C, there[:, None], 0.0)
    q = tl.load(at + 2 * D + head * C, there[:, None], 0.0)
    v = tl.load(at + head * 2 * C + C, there[:, None], 0.0)
    line, allowed, right = turns_of(row, column, length, there, head, H, TURNS)
    # Buffers that are partly written are prefetched.
    tl.store(products + line, tl.zeros([R, TURNS], tl.float32), there[:, None])
    back, front = directions(qkv, bias, row, there, s, head, D, W)
    offset = bias + s * W + c
    k += tl.load(offset + head * 2 * C).to(kind)[None, :]
    q += tl.load(offset + 2 * D + head * C).to(kind)[None, :]
    v += tl.load(offset + head * 2 * C + C).to(kind)[None, :]
    if CUT:
        index = ((first + example) * H + head) * LENGTH + column
        keep = kept(index[:, None] * C + c[None, :], keys + 2 * s, CUT)
        k = tl.where(keep, tl.where(k == 0, SMALL, k.to(tl.float32) * RATE), 0.0).to(kind)
    tl.store(at + head * 2 * C, k, there[:, None])
    place, same = pairs_within(row, there, head, H, LENGTH, TURNS, R)
    tl.debug_barrier()
    tl.store(products + place, tl.dot(q, tl.trans(k), input_precision=PRECISION), same)
    tl.debug_barrier()
    logits = tl.load(products + line, there[:, None], 0.0) * tl.load(scales + s * 3)
    logits += tl.where(right, front[:, None], back[:, None]) * tl.load(
        scales + s * 3 + 1
    ) + tl.load(scales + s * 3 + 2)
    logits *= LOG2_E
    e = power_of_two(-tl.abs(logits))
    miss = tl.where(allowed, tl.maximum(logits, 0.0) + logarithm(1 + e), 0.0)
    missed = tl.cumsum(miss, 1) - miss
    match = tl.where(logits >= 0, 1.0, e) * inverse(1 + e)
    weight = tl.where(allowed, power_of_two(-missed) * match, 0.0)
    tl.store(weights + line, weight.to(kind), there[:, None])
    tl.debug_barrier()
    mixed = tl.dot(tl.load(weights + place, same, 0.0), v, input_precision=PRECISION)
    tl.store(out + row[:, None] * D + head * C + c[None, :], mixed.to(kind), there[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def attend_backward(dout, qkv, bias, lengths, scales, products, weights, dweights, dproducts, dqkv, sums, scalars,
                    batch, length_stride, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr, TURNS: tl.constexpr,
                    R: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                    PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradient of qkv, its sums over a tile's rows, and sums for the three scalars."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D + 2 * H
    kind = qkv.dtype.element_ty
    c = tl.arange(0, C)
    row, _, column, length, there = tile_rows(tile, s, batch, lengths, length_stride, LENGTH, R)
    at = row[:, None] * W + c[None, :]
    offset = bias + s * W + c
    total = sums + (s * tl.num_programs(0) + tile) * 3 * D + c
    line, allowed, right = turns_of(row, column, length, there, head, H, TURNS)
    tl.store(dweights + line, tl.zeros([R, TURNS], tl.float32), there[:, None])
    change = tl.load(dout + row[:, None] * D + head * C + c[None, :], there[:, None], 0.0)
    v = tl.load(qkv + at + head * 2 * C + C, there[:, None], 0.0)
    v += tl.load(offset + head * 2 * C + C).to(kind)[None, :]
    place, same = pairs_within(row, there, head, H, LENGTH, TURNS, R)
    tl.debug_barrier()
    tl.store(dweights + place, tl.dot(change, tl.trans(v), input_precision=PRECISION), same)
    tl.debug_barrier()
    dv = tl.dot(tl.trans(tl.load(weights + place, same, 0.0)), change, input_precision=PRECISION)
    tl.store(dqkv + at + head * 2 * C + C, dv.to(kind), there[:, None])
    tl.store(total + head * 2 * C + C, tl.sum(dv, 0))
    k = tl.load(qkv + at + head * 2 * C, there[:, None], 0.0)
    q = tl.load(qkv + at + 2 * D + head * C, there[:, None], 0.0)
    q += tl.load(offset + 2 * D + head * C).to(kind)[None, :]
    back, front = directions(qkv, bias, row, there, s, head, D, W)
    direction = tl.where(right, front[:, None], back[:, None])
    scale = tl.load(scales + s * 3)
    scale_direction = tl.load(scales + s * 3 + 1)
    product = tl.where(allowed, tl.load(products + line, there[:, None], 0.0), 0.0)
    weight = tl.load(weights + line, there[:, None], 0.0).to(tl.float32)
    dlog = tl.where(allowed, tl.load(dweights + line, there[:, None], 0.0) * weight, 0.0)
    match = sigmoid(product * scale + direction * scale_direction + tl.load(scales + s * 3 + 2))
    later = tl.sum(dlog, 1)[:, None] - tl.cumsum(dlog, 1)
    dlogits = tl.where(allowed, dlog - match * (dlog + later), 0.0)
    tl.store(dproducts + line, (dlogits * scale).to(kind), there[:, None])
    dback = tl.sum(tl.where(right, 0.0, dlogits), 1)
    dfront = tl.sum(tl.where(right, dlogits, 0.0), 1)
    score = dqkv + row * W + 3 * D + 2 * head
    tl.store(score, (dback * scale_direction).to(kind), there)
    tl.store(score + 1, (dfront * scale_direction).to(kind), there)
    to = scalars + ((s * tl.num_programs(0) + tile) * H + head) * 5
    sum_back, sum_front = tl.sum(dback, 0), tl.sum(dfront, 0)
    tl.store(to, tl.sum(tl.sum(dlogits * product, 1), 0))
    tl.store(to + 1, tl.sum(dback * back + dfront * front, 0))
    tl.store(to + 2, sum_back + sum_front)
    tl.store(to + 3, sum_back * scale_direction)
    tl.store(to + 4, sum_front * scale_direction)
    tl.debug_barrier()
    pairs = tl.load(dproducts + place, same, 0.0)
    dq = tl.dot(pairs, k, input_precision=PRECISION)
    tl.store(dqkv + at + 2 * D + head * C, dq.to(kind), there[:, None])
    tl.store(total + 2 * D + head * C, tl.sum(dq, 0))
    dk = tl.dot(tl.trans(pairs), q, input_precision=PRECISION)
    if CUT:
        dk = tl.where(k != 0, dk * RATE, 0.0)
    tl.store(dqkv + at + head * 2 * C, dk.to(kind), there[:, None])
    tl.store(total + head * 2 * C, tl.sum(dk, 0))


@triton.jit
def tile_examples(tile, s, batch, lengths, length_stride, LENGTH: tl.constexpr, R: tl.constexpr):
    """For each row of a tile: its example's index in the tile, its column, whether the row exists,
    and whether it is attended to.
    """
    r = tl.arange(0, R)
    e = r // LENGTH
    t = r - e * LENGTH
    there = (e < R // LENGTH) & (tile * (R // LENGTH) + e < batch)
    length = tl.load(lengths + s * length_stride + tile * (R // LENGTH) + e, there, 0)
    return e, t, there, there & (t > 0) & (t < length)


@triton.jit
def asked_in_turn(product, front, scales, s, allowed, e, R: tl.constexpr):
    """Attention weights A of the rows that their example's first column visits in turn, and the
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
    """Compute the mixtures of values [S, batch, d], and replace keys by their values after bias and
    dropout.
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
    """Compute the gradients of kv and of the query rows, sums of dkv over a tile's rows, and sums
    for the three scalars.
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
