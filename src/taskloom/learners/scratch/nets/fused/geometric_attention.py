"""Kernels of NDR's attention: keys with dropout and their products with queries, the order of asking, the mixture of values.

A row of the input `qkv` holds, after the product with the joined weights, for each head its keys and its values, then the queries
of all heads, then two scores of direction for each head (back, front).

Products take tiles of 64 rows, which are some whole examples: of the products of all rows with all rows those within an example
are kept, in tables [seeds, rows, heads, length].

The sum over the columns that are asked before column j is a difference of two prefix sums of a table's line: for j right of i, over
2i-j+1 .. j-1; for j left of it, over j+1 .. 2i-j. So the order of asking needs one prefix sum and a look-up of mirrored columns.
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
def mirrored(sums, i, j, T: tl.constexpr):
    """Return sums[., 2i-j] of prefix sums [rows, T]: 0 left of the first column, the whole sum right of the last."""
    other = 2 * i - j
    return tl.where(other < 0, 0.0, tl.gather(sums, tl.minimum(tl.maximum(other, 0), T - 1), 1))


@triton.jit
def asked(logits, allowed, i, j, T: tl.constexpr):
    """Return the weights A of lines of logits [rows, T]; a column that is not allowed is not asked."""
    positive = tl.maximum(logits, 0.0) + tl.log(1 + tl.exp(-tl.abs(logits)))
    miss = tl.where(allowed, positive, 0.0)
    sums = tl.cumsum(miss, 1)
    mirror = mirrored(sums, i, j, T)
    missed = tl.where(j > i, sums - miss - mirror, mirror - sums)
    return tl.where(allowed, tl.exp(logits - positive - missed), 0.0)


@triton.jit
def asked_change(change, match, i, j, T: tl.constexpr):
    """Return the gradient of the logits from that of the logarithms of the weights, and the probabilities of a match."""
    sums = tl.cumsum(change, 1)
    mirror = mirrored(sums, i, j, T)
    until = tl.where(j > i, sums - mirror, mirror - sums + change)
    later = tl.sum(change, 1)[:, None] - until
    return change - match * (change + later)


@triton.jit
def order_lines(qkv, bias, lengths, s, head, row, n, columns, length_stride, H: tl.constexpr, D: tl.constexpr,
                LENGTH: tl.constexpr, T: tl.constexpr):  # fmt: skip
    """Return for some rows: their column, those asked, which are allowed, scores of direction, and where the tables have them."""
    W: tl.constexpr = 3 * D + 2 * H
    there = row < n
    i, j = (row % LENGTH)[:, None], tl.arange(0, T)[None, :]
    length = tl.load(lengths + s * length_stride + row // LENGTH, there, 0)
    allowed = (j < tl.where(row % LENGTH < columns, length, 0)[:, None]) & (j != i)
    side = 3 * D + head * 2
    score = (s * n + row) * W + side
    back = tl.load(qkv + score, there, 0.0).to(tl.float32) + tl.load(bias + s * W + side)
    front = tl.load(qkv + score + 1, there, 0.0).to(tl.float32) + tl.load(bias + s * W + side + 1)
    direction = tl.where(j > i, front[:, None], back[:, None])
    place = (((s * n + row) * H + head) * LENGTH)[:, None] + j
    return i, j, allowed, direction, place, there[:, None] & (j < LENGTH), score


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def order_forward(products, qkv, bias, lengths, scales, weights, n, columns, length_stride, H: tl.constexpr,
                  D: tl.constexpr, LENGTH: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Compute the weights A: ask outwards, at equal distance the right column first, until there is a match."""
    head, s = tl.program_id(1), tl.program_id(2)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i, j, allowed, direction, place, inside, _ = order_lines(
        qkv, bias, lengths, s, head, row, n, columns, length_stride, H, D, LENGTH, T
    )
    logits = tl.load(products + place, inside, 0.0) * tl.load(scales + s * 3)
    logits += direction * tl.load(scales + s * 3 + 1) + tl.load(scales + s * 3 + 2)
    tl.store(weights + place, asked(logits, allowed, i, j, T).to(weights.dtype.element_ty), inside)


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
def mixture_backward(dout, weights, qkv, bias, dweights, dqkv, sums, batch, columns, H: tl.constexpr, C: tl.constexpr,
                     LENGTH: tl.constexpr, R: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of the weights and of the values, and the latter's sum over a tile's rows."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    c = tl.arange(0, C)
    e, t, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    come = ((s * batch + tile * (R // LENGTH) + e) * columns + t)[:, None] * D + head * C + c[None, :]
    change = tl.load(dout + come, (valid & (t < columns))[:, None], 0.0)
    place, same = within(tile, s, head, batch, H, LENGTH, R)
    pairs = tl.load(weights + place, same, 0.0)
    v = values(qkv, bias, row, s, head, valid, D, H, C)
    tl.store(dweights + place, tl.dot(change, tl.trans(v), input_precision=PRECISION), same)
    dv = tl.dot(tl.trans(pairs), change, input_precision=PRECISION)
    to = row[:, None] * (3 * D + 2 * H) + head * 2 * C + C + c[None, :]
    tl.store(dqkv + to, dv.to(dqkv.dtype.element_ty), valid[:, None])
    total = sums + (s * tl.num_programs(0) + tile) * 3 * D + head * 2 * C + C + c
    tl.store(total, tl.sum(dv, 0))


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def order_backward(dweights, weights, products, qkv, bias, lengths, scales, dproducts, dqkv, sums, n, columns,
                   length_stride, H: tl.constexpr, D: tl.constexpr, LENGTH: tl.constexpr, T: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """Compute the gradients of the products and of the scores of direction; sums for those and for the three scalars."""
    p, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = p * BLOCK + tl.arange(0, BLOCK)
    i, j, allowed, direction, place, inside, score = order_lines(
        qkv, bias, lengths, s, head, row, n, columns, length_stride, H, D, LENGTH, T
    )
    scale = tl.load(scales + s * 3)
    scale_direction = tl.load(scales + s * 3 + 1)
    product = tl.load(products + place, inside, 0.0)
    match = sigmoid(product * scale + direction * scale_direction + tl.load(scales + s * 3 + 2))
    change = tl.load(dweights + place, inside, 0.0) * tl.load(weights + place, inside, 0.0).to(tl.float32)
    dlogits = tl.where(allowed, asked_change(change, match, i, j, T), 0.0)
    tl.store(dproducts + place, (dlogits * scale).to(dproducts.dtype.element_ty), inside)
    dback = tl.sum(tl.where(j < i, dlogits, 0.0), 1)
    dfront = tl.sum(tl.where(j > i, dlogits, 0.0), 1)
    kind = dqkv.dtype.element_ty
    tl.store(dqkv + score, (dback * scale_direction).to(kind), row < n)
    tl.store(dqkv + score + 1, (dfront * scale_direction).to(kind), row < n)
    to = sums + ((s * tl.num_programs(0) + p) * H + head) * 5
    sum_back, sum_front = tl.sum(dback, 0), tl.sum(dfront, 0)
    tl.store(to, tl.sum(tl.sum(dlogits * product, 1), 0))
    tl.store(to + 1, tl.sum(tl.sum(dlogits * direction, 1), 0))
    tl.store(to + 2, sum_back + sum_front)
    tl.store(to + 3, sum_back * scale_direction)
    tl.store(to + 4, sum_front * scale_direction)


@triton.jit(do_not_specialize=VARYING, do_not_specialize_on_alignment=KEYS)
def products_backward(dproducts, qkv, bias, dqkv, sums, batch, H: tl.constexpr, C: tl.constexpr, LENGTH: tl.constexpr,
                      R: tl.constexpr, CUT: tl.constexpr, RATE: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Compute the gradients of queries and keys, and their sums over a tile's rows."""
    tile, head, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    D: tl.constexpr = H * C
    kind = dqkv.dtype.element_ty
    c = tl.arange(0, C)
    _, _, valid = tile_rows(tile, batch, LENGTH, R)
    row = (s * batch + tile * (R // LENGTH)) * LENGTH + tl.arange(0, R)
    at = row[:, None] * (3 * D + 2 * H) + c[None, :]
    total = sums + (s * tl.num_programs(0) + tile) * 3 * D + c
    place, same = within(tile, s, head, batch, H, LENGTH, R)
    pairs = tl.load(dproducts + place, same, 0.0)
    k = tl.load(qkv + at + head * 2 * C, valid[:, None], 0.0)
    dq = tl.dot(pairs, k, input_precision=PRECISION)
    tl.store(dqkv + at + 2 * D + head * C, dq.to(kind), valid[:, None])
    tl.store(total + 2 * D + head * C, tl.sum(dq, 0))
    q = queries(qkv, bias, row, s, head, valid, D, H, C)
    dk = tl.dot(tl.trans(pairs), q, input_precision=PRECISION)
    if CUT:
        dk = tl.where(k != 0, dk * RATE, 0.0)
    tl.store(dqkv + at + head * 2 * C, dk.to(kind), valid[:, None])
    tl.store(total + head * 2 * C, tl.sum(dk, 0))
