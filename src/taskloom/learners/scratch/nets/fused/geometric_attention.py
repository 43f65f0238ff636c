"""Kernels of NDR's attention: keys with dropout and their products with queries, the order of asking, the mixture of values.

A row of the input `qkv` holds, after the product with the joined weights, for each head its keys and its values, then the queries
of all heads, then two scores of direction for each head (back, front).

Products take tiles of 64 rows, which are some whole examples: of the products of all rows with all rows those within an example
are kept, in tables [seeds, rows, heads, turns]. A line of a table has the columns in the order in which a row asks them: 1 to the
right, 1 to the left, 2 to the right, and so on; what was asked before is then a prefix of the line. Places of columns that an
example does not have are never written and never used.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.scratch.nets.fused.row_kernels import (
    INTERPRETED,
    KEYS,
    VARYING,
    inverse,
    kept,
    power_of_two,
    sigmoid,
)


@triton.jit
def queries(qkv, bias, row, s, head, valid, D: tl.constexpr, H: tl.constexpr, C: tl.constexpr):
    """Return the queries of a head for some rows, with their bias."""
    at = row[:, None] * (3 * D + 2 * H) + 2 * D + head * C + tl.arange(0, C)[None, :]
    offset = tl.load(bias + s * (3 * D + 2 * H) + 2 * D + head * C + tl.arange(0, C))[None, :]
    return tl.load(qkv + at, valid[:, None], 0.0) + offset.to(qkv.dtype.element_ty)


@triton.jit
def values(qkv, bias, row, s, head, valid, D: tl.constexpr, H: tl.constexpr, C: tl.constexpr):
    """Return the values of a head for some rows, with their bias."""
    at = row[:, None] * (3 * D + 2 * H) + head * 2 * C + C + tl.arange(0, C)[None, :]
    offset = tl.load(bias + s * (3 * D + 2 * H) + head * 2 * C + C + tl.arange(0, C))[None, :]
    return tl.load(qkv + at, valid[:, None], 0.0) + offset.to(qkv.dtype.element_ty)


@triton.jit
def tile_rows(tile, batch, LENGTH: tl.constexpr, R: tl.constexpr):
    """Return the example in the tile and the column of each row, and whether there is such a row."""
    r = tl.arange(0, R)
    e = r // LENGTH
    return e, r - e * LENGTH, (e < R // LENGTH) & (tile * (R // LENGTH) + e < batch)


@triton.jit
def within(tile, s, head, batch, H: tl.constexpr, LENGTH: tl.constexpr, TURNS: tl.constexpr, R: tl.constexpr):
    """Return where a table [seeds, rows, heads, TURNS] has each pair [R, R] of a tile's rows, and whether it has it."""
    one, other = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    e = one // LENGTH
    same = (e == other // LENGTH) & (e < R // LENGTH) & (tile * (R // LENGTH) + e < batch) & (one != other)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + one
    turn = tl.where(other > one, 2 * (other - one) - 2, 2 * (one - other) - 1)
    return (row * H + head) * TURNS + turn, same


SMALL = tl.constexpr(1e-30)
"""What a key that is 0 becomes where it is kept, so that 0 means dropped; fp16 has no such number and forgets that key."""


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def products_forward(qkv, bias, keys, products, batch, first, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr,
                     TURNS: tl.constexpr, R: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                     PRECISION: tl.constexpr):  # fmt: skip
    """Compute the products of queries and keys; keys are replaced by what bias and dropout make of them."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D + 2 * H
    c = tl.arange(0, C)
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    at = row[:, None] * W + head * 2 * C + c[None, :]
    k = tl.load(qkv + at, valid[:, None], 0.0).to(tl.float32) + tl.load(bias + s * W + head * 2 * C + c)[None, :]
    if CUT:
        example = first + tile * (R // LENGTH) + e
        index = ((example * H + head) * LENGTH + t)[:, None] * C + c[None, :]
        k = tl.where(kept(index, keys + 2 * s, CUT), tl.where(k == 0, SMALL, k * RATE), 0.0)
    k = k.to(qkv.dtype.element_ty)
    tl.store(qkv + at, k, valid[:, None])
    q = queries(qkv, bias, row, s, head, valid, D, H, C)
    place, same = within(tile, s, head, batch, H, LENGTH, TURNS, R)
    tl.store(products + place, tl.dot(q, tl.trans(k), input_precision=PRECISION), same)


@triton.jit
def logarithm(x):
    """Return the logarithm to base 2 of x between 1 and 2, to 2^-22."""
    if INTERPRETED:
        return tl.log2(x)
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def order_lines(qkv, bias, lengths, s, line, n, columns, length_stride, H: tl.constexpr, D: tl.constexpr,
                LENGTH: tl.constexpr, TURNS: tl.constexpr):  # fmt: skip
    """Return for lines of a table: which turns there are, their places, the scores of direction and where those are."""
    W: tl.constexpr = 3 * D + 2 * H
    row, head = line // H, line % H
    there = row < n
    turn = tl.arange(0, TURNS)[None, :]
    i = (row % LENGTH)[:, None]
    j = tl.where(turn % 2 == 0, i + turn // 2 + 1, i - turn // 2 - 1)
    length = tl.load(lengths + s * length_stride + row // LENGTH, there, 0)
    allowed = (j >= 0) & (j < length[:, None]) & (i < columns) & there[:, None]
    score = (s * n + row) * W + 3 * D + head * 2
    side = bias + s * W + 3 * D + head * 2
    back = tl.load(qkv + score, there, 0.0).to(tl.float32) + tl.load(side)
    front = tl.load(qkv + score + 1, there, 0.0).to(tl.float32) + tl.load(side + 1)
    direction = tl.where(turn % 2 == 0, front[:, None], back[:, None])
    return allowed, (s * n * H + line)[:, None] * TURNS + turn, there, direction, score


LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def order_forward(products, qkv, bias, lengths, scales, weights, n, columns, length_stride, H: tl.constexpr,
                  D: tl.constexpr, LENGTH: tl.constexpr, TURNS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Compute the weights A: ask outwards, at equal distance the right column first, until there is a match."""
    s = tl.program_id(1)
    line = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    allowed, place, there, direction, _ = order_lines(
        qkv, bias, lengths, s, line, n, columns, length_stride, H, D, LENGTH, TURNS
    )
    logits = tl.load(products + place, there[:, None], 0.0) * tl.load(scales + s * 3)
    logits += direction * tl.load(scales + s * 3 + 1) + tl.load(scales + s * 3 + 2)
    logits *= LOG2_E
    e = power_of_two(-tl.abs(logits))
    miss = tl.where(allowed, tl.maximum(logits, 0.0) + logarithm(1 + e), 0.0)
    missed = tl.cumsum(miss, 1) - miss
    match = tl.where(logits >= 0, 1.0, e) * inverse(1 + e)
    weight = tl.where(allowed, power_of_two(-missed) * match, 0.0)
    tl.store(weights + place, weight.to(weights.dtype.element_ty), there[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def mixture_forward(weights, qkv, bias, out, batch, columns, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr,
                    TURNS: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the mixture of values for every column that asks, [S, batch * columns, d]."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    v = values(qkv, bias, row, s, head, valid, D, H, C)
    place, same = within(tile, s, head, batch, H, LENGTH, TURNS, R)
    mixed = tl.dot(tl.load(weights + place, same, 0.0), v, input_precision=PRECISION)
    to = ((s * batch + tile * (R // LENGTH) + e) * columns + t)[:, None] * D + head * C + tl.arange(0, C)[None, :]
    tl.store(out + to, mixed.to(out.dtype.element_ty), (valid & (t < columns))[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def mixture_backward(dout, weights, qkv, bias, dweights, dqkv, sums, batch, columns, H: tl.constexpr, C: tl.constexpr,
                     LENGTH: tl.constexpr, TURNS: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of the weights and of the values, and the latter's sum over a tile's rows."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    c = tl.arange(0, C)
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    come = ((s * batch + tile * (R // LENGTH) + e) * columns + t)[:, None] * D + head * C + c[None, :]
    change = tl.load(dout + come, (valid & (t < columns))[:, None], 0.0)
    place, same = within(tile, s, head, batch, H, LENGTH, TURNS, R)
    pairs = tl.load(weights + place, same, 0.0)
    v = values(qkv, bias, row, s, head, valid, D, H, C)
    tl.store(dweights + place, tl.dot(change, tl.trans(v), input_precision=PRECISION), same)
    dv = tl.dot(tl.trans(pairs), change, input_precision=PRECISION)
    to = row[:, None] * (3 * D + 2 * H) + head * 2 * C + C + c[None, :]
    tl.store(dqkv + to, dv.to(dqkv.dtype.element_ty), valid[:, None])
    total = sums + (s * tl.num_programs(0) + tile) * 3 * D + head * 2 * C + C + c
    tl.store(total, tl.sum(dv, 0))


@triton.jit
def of_heads(x, BLOCK: tl.constexpr, H: tl.constexpr):
    """Return the sums [H] over the lines [BLOCK] of each head."""
    return tl.sum(tl.reshape(x, [BLOCK // H, H]), 0)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def order_backward(dweights, weights, products, qkv, bias, lengths, scales, dproducts, dqkv, sums, n, columns,
                   length_stride, H: tl.constexpr, D: tl.constexpr, LENGTH: tl.constexpr, TURNS: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """Compute the gradients of the products and of the scores of direction; sums for those and for the three scalars."""
    p, s = tl.program_id(0), tl.program_id(1)
    line = p * BLOCK + tl.arange(0, BLOCK)
    allowed, place, there, direction, score = order_lines(
        qkv, bias, lengths, s, line, n, columns, length_stride, H, D, LENGTH, TURNS
    )
    scale = tl.load(scales + s * 3)
    scale_direction = tl.load(scales + s * 3 + 1)
    product = tl.where(allowed, tl.load(products + place, there[:, None], 0.0), 0.0)
    weight = tl.load(weights + place, there[:, None], 0.0).to(tl.float32)
    change = tl.where(allowed, tl.load(dweights + place, there[:, None], 0.0) * weight, 0.0)
    match = sigmoid(product * scale + direction * scale_direction + tl.load(scales + s * 3 + 2))
    later = tl.sum(change, 1)[:, None] - tl.cumsum(change, 1)
    dlogits = tl.where(allowed, change - match * (change + later), 0.0)
    tl.store(dproducts + place, (dlogits * scale).to(dproducts.dtype.element_ty), there[:, None])
    right = (tl.arange(0, TURNS) % 2 == 0)[None, :]
    dback = tl.sum(tl.where(right, 0.0, dlogits), 1)
    dfront = tl.sum(tl.where(right, dlogits, 0.0), 1)
    kind = dqkv.dtype.element_ty
    tl.store(dqkv + score, (dback * scale_direction).to(kind), there)
    tl.store(dqkv + score + 1, (dfront * scale_direction).to(kind), there)
    to = sums + ((s * tl.num_programs(0) + p) * H + tl.arange(0, H)) * 5
    sum_back, sum_front = of_heads(dback, BLOCK, H), of_heads(dfront, BLOCK, H)
    tl.store(to, of_heads(tl.sum(dlogits * product, 1), BLOCK, H))
    tl.store(to + 1, of_heads(tl.sum(dlogits * direction, 1), BLOCK, H))
    tl.store(to + 2, sum_back + sum_front)
    tl.store(to + 3, sum_back * scale_direction)
    tl.store(to + 4, sum_front * scale_direction)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def products_backward(dproducts, qkv, bias, dqkv, sums, batch, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr,
                      TURNS: tl.constexpr, R: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                      PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of queries and keys, and their sums over a tile's rows."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    kind = dqkv.dtype.element_ty
    c = tl.arange(0, C)
    _, _, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    at = row[:, None] * (3 * D + 2 * H) + c[None, :]
    total = sums + (s * tl.num_programs(0) + tile) * 3 * D + c
    k = tl.load(qkv + at + head * 2 * C, valid[:, None], 0.0)
    q = queries(qkv, bias, row, s, head, valid, D, H, C)
    place, same = within(tile, s, head, batch, H, LENGTH, TURNS, R)
    pairs = tl.load(dproducts + place, same, 0.0)
    dq = tl.dot(pairs, k, input_precision=PRECISION)
    tl.store(dqkv + at + 2 * D + head * C, dq.to(kind), valid[:, None])
    tl.store(total + 2 * D + head * C, tl.sum(dq, 0))
    dk = tl.dot(tl.trans(pairs), q, input_precision=PRECISION)
    if CUT:
        dk = tl.where(k != 0, dk * RATE, 0.0)
    tl.store(dqkv + at + head * 2 * C, dk.to(kind), valid[:, None])
    tl.store(total + head * 2 * C, tl.sum(dk, 0))
