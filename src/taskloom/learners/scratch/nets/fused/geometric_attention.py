"""Kernels of NDR's attention: keys with dropout and their products with queries, the order of asking, the mixture of values.

A row of the input `qkv` holds, after the product with the joined weights, for each head its keys and its values, then the queries
of all heads, then two scores of direction for each head (back, front).

Products take tiles of 64 rows, which are some whole examples: of the products of all rows with all rows those within an example
are kept, in tables [seeds, rows, heads, length]. The order of asking goes along a line of such a table, one thread for each row and
head.
"""

from __future__ import annotations

import triton
import triton.language as tl

from taskloom.learners.scratch.nets.fused.row_kernels import KEYS, VARYING, kept, sigmoid


@triton.jit
def queries(qkv, bias, row, s, head, valid, D: tl.constexpr, H: tl.constexpr, C: tl.constexpr):
    """Return the queries of a head for some rows, with their bias."""
    at = row[:, None] * (3 * D + 2 * H) + 2 * D + head * C + tl.arange(0, C)[None, :]
    offset = tl.load(bias + s * (3 * D + 2 * H) + 2 * D + head * C + tl.arange(0, C))[None, :]
    return (tl.load(qkv + at, valid[:, None], 0.0).to(tl.float32) + offset).to(qkv.dtype.element_ty)


@triton.jit
def values(qkv, bias, row, s, head, valid, D: tl.constexpr, H: tl.constexpr, C: tl.constexpr):
    """Return the values of a head for some rows, with their bias."""
    at = row[:, None] * (3 * D + 2 * H) + head * 2 * C + C + tl.arange(0, C)[None, :]
    offset = tl.load(bias + s * (3 * D + 2 * H) + head * 2 * C + C + tl.arange(0, C))[None, :]
    return (tl.load(qkv + at, valid[:, None], 0.0).to(tl.float32) + offset).to(qkv.dtype.element_ty)


@triton.jit
def tile_rows(tile, batch, LENGTH: tl.constexpr, R: tl.constexpr):
    """Return the example in the tile and the column of each row, and whether there is such a row."""
    r = tl.arange(0, R)
    e = r // LENGTH
    return e, r - e * LENGTH, (e < R // LENGTH) & (tile * (R // LENGTH) + e < batch)


@triton.jit
def within(tile, s, head, batch, H: tl.constexpr, LENGTH: tl.constexpr, R: tl.constexpr):
    """Return where a table [seeds, rows, heads, LENGTH] has each pair [R, R] of a tile's rows, and whether it has it."""
    one, other = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    e = one // LENGTH
    same = (e == other // LENGTH) & (e < R // LENGTH) & (tile * (R // LENGTH) + e < batch)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + one
    return (row * H + head) * LENGTH + other - e * LENGTH, same


SMALL = tl.constexpr(1e-30)
"""What a key that is 0 becomes where it is kept, so that 0 means dropped; fp16 has no such number and forgets that key."""


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def products_forward(qkv, bias, keys, products, batch, first, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr,
                     R: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
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
    place, same = within(tile, s, head, batch, H, LENGTH, R)
    tl.store(products + place, tl.dot(q, tl.trans(k), input_precision=PRECISION), same)


@triton.jit
def softplus(x):
    """Return log(1 + exp(x))."""
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def order_forward(products, qkv, bias, lengths, scales, weights, n, columns, length_stride, H: tl.constexpr,
                  D: tl.constexpr, LENGTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Compute the weights A: ask outwards, at equal distance the right column first, until there is a match."""
    head, s = tl.program_id(1), tl.program_id(2)
    W: tl.constexpr = 3 * D + 2 * H
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = row < n
    i = row % LENGTH
    length = tl.load(lengths + s * length_stride + row // LENGTH, there, 0)
    length = tl.where(i < columns, length, 0)
    side = s * W + 3 * D + head * 2
    score = (s * n + row) * W + 3 * D + head * 2
    back = tl.load(qkv + score, there, 0.0).to(tl.float32) + tl.load(bias + side)
    front = tl.load(qkv + score + 1, there, 0.0).to(tl.float32) + tl.load(bias + side + 1)
    scale = tl.load(scales + s * 3)
    offset = tl.load(scales + s * 3 + 2)
    back = back * tl.load(scales + s * 3 + 1) + offset
    front = front * tl.load(scales + s * 3 + 1) + offset
    line = ((s * n + row) * H + head) * LENGTH
    lost = tl.zeros([BLOCK], tl.float32)
    tl.store(weights + line + i, lost.to(weights.dtype.element_ty), there)
    for distance in tl.static_range(1, LENGTH):
        for left in tl.static_range(2):
            j = i - distance if left else i + distance
            inside = there & (j >= 0) & (j < LENGTH)
            logit = tl.load(products + line + j, inside, 0.0) * scale + (back if left else front)
            asked = inside & (j < length)
            miss = softplus(logit)
            weight = tl.where(asked, tl.exp(logit - miss - lost), 0.0)
            lost += tl.where(asked, miss, 0.0)
            tl.store(weights + line + j, weight.to(weights.dtype.element_ty), inside)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def mixture_forward(weights, qkv, bias, out, batch, columns, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr,
                    R: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the mixture of values for every column that asks, [S, batch * columns, d]."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    v = values(qkv, bias, row, s, head, valid, D, H, C)
    place, same = within(tile, s, head, batch, H, LENGTH, R)
    mixed = tl.dot(tl.load(weights + place, same, 0.0), v, input_precision=PRECISION)
    to = ((s * batch + tile * (R // LENGTH) + e) * columns + t)[:, None] * D + head * C + tl.arange(0, C)[None, :]
    tl.store(out + to, mixed.to(out.dtype.element_ty), (valid & (t < columns))[:, None])


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def mixture_backward(dout, qkv, bias, dweights, batch, columns, H: tl.constexpr, C: tl.constexpr,
                     LENGTH: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradient of the weights."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    v = values(qkv, bias, row, s, head, valid, D, H, C)
    come = ((s * batch + tile * (R // LENGTH) + e) * columns + t)[:, None] * D + head * C + tl.arange(0, C)[None, :]
    change = tl.load(dout + come, (valid & (t < columns))[:, None], 0.0)
    place, same = within(tile, s, head, batch, H, LENGTH, R)
    tl.store(dweights + place, tl.dot(change, tl.trans(v), input_precision=PRECISION), same)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def order_backward(dweights, weights, products, qkv, bias, lengths, scales, dproducts, dqkv, sums, n, columns,
                   length_stride, H: tl.constexpr, D: tl.constexpr, LENGTH: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """Compute the gradients of the products and of the scores of direction; sums for those and for the three scalars."""
    p, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    W: tl.constexpr = 3 * D + 2 * H
    row = p * BLOCK + tl.arange(0, BLOCK)
    there = row < n
    i = row % LENGTH
    length = tl.load(lengths + s * length_stride + row // LENGTH, there, 0)
    length = tl.where(i < columns, length, 0)
    side = s * W + 3 * D + head * 2
    score = (s * n + row) * W + 3 * D + head * 2
    back = tl.load(qkv + score, there, 0.0).to(tl.float32) + tl.load(bias + side)
    front = tl.load(qkv + score + 1, there, 0.0).to(tl.float32) + tl.load(bias + side + 1)
    scale = tl.load(scales + s * 3)
    scale_direction = tl.load(scales + s * 3 + 1)
    offset = tl.load(scales + s * 3 + 2)
    line = ((s * n + row) * H + head) * LENGTH
    later = tl.zeros([BLOCK], tl.float32)
    dscale = tl.zeros([BLOCK], tl.float32)
    dback = tl.zeros([BLOCK], tl.float32)
    dfront = tl.zeros([BLOCK], tl.float32)
    tl.store(dproducts + line + i, later.to(dproducts.dtype.element_ty), there)
    for nearer in tl.static_range(1, LENGTH):
        for right in tl.static_range(2):
            j = i + (LENGTH - nearer) if right else i - (LENGTH - nearer)
            inside = there & (j >= 0) & (j < LENGTH)
            product = tl.load(products + line + j, inside, 0.0)
            logit = product * scale + (front if right else back) * scale_direction + offset
            weight = tl.load(weights + line + j, inside, 0.0).to(tl.float32)
            change = tl.load(dweights + line + j, inside, 0.0) * weight
            match = sigmoid(logit)
            dlogit = tl.where(inside & (j < length), change - match * (change + later), 0.0)
            later += change
            dscale += dlogit * product
            if right:
                dfront += dlogit
            else:
                dback += dlogit
            tl.store(dproducts + line + j, (dlogit * scale).to(dproducts.dtype.element_ty), inside)
    kind = dqkv.dtype.element_ty
    tl.store(dqkv + score, (dback * scale_direction).to(kind), there)
    tl.store(dqkv + score + 1, (dfront * scale_direction).to(kind), there)
    place = sums + ((s * tl.num_programs(0) + p) * H + head) * 5
    sum_back, sum_front = tl.sum(dback, 0), tl.sum(dfront, 0)
    tl.store(place, tl.sum(dscale, 0))
    tl.store(place + 1, tl.sum(dback * back + dfront * front, 0))
    tl.store(place + 2, sum_back + sum_front)
    tl.store(place + 3, sum_back * scale_direction)
    tl.store(place + 4, sum_front * scale_direction)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def products_backward(dout, dproducts, weights, qkv, bias, dqkv, sums, batch, columns, H: tl.constexpr, C: tl.constexpr,
                      LENGTH: tl.constexpr, R: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr,
                      PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of queries, keys and values, and their sums over a tile's rows."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    W: tl.constexpr = 3 * D + 2 * H
    kind = dqkv.dtype.element_ty
    c = tl.arange(0, C)
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    to = dqkv + row[:, None] * W + c[None, :]
    total = sums + (s * tl.num_programs(0) + tile) * 3 * D + c
    place, same = within(tile, s, head, batch, H, LENGTH, R)
    come = ((s * batch + tile * (R // LENGTH) + e) * columns + t)[:, None] * D + head * C + c[None, :]
    change = tl.load(dout + come, (valid & (t < columns))[:, None], 0.0)
    dv = tl.dot(tl.trans(tl.load(weights + place, same, 0.0)), change, input_precision=PRECISION)
    tl.store(to + head * 2 * C + C, dv.to(kind), valid[:, None])
    tl.store(total + head * 2 * C + C, tl.sum(dv, 0))
    pairs = tl.load(dproducts + place, same, 0.0)
    k = tl.load(qkv + row[:, None] * W + head * 2 * C + c[None, :], valid[:, None], 0.0)
    dq = tl.dot(pairs, k, input_precision=PRECISION)
    tl.store(to + 2 * D + head * C, dq.to(kind), valid[:, None])
    tl.store(total + 2 * D + head * C, tl.sum(dq, 0))
    q = queries(qkv, bias, row, s, head, valid, D, H, C)
    dk = tl.dot(tl.trans(pairs), q, input_precision=PRECISION)
    if CUT:
        dk = tl.where(k != 0, dk * RATE, 0.0)
    tl.store(to + head * 2 * C, dk.to(kind), valid[:, None])
    tl.store(total + head * 2 * C, tl.sum(dk, 0))
