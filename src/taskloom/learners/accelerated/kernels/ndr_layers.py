"""All layers of NDR in training, and their gradients, by kernels and batched products.

`scratch/nets/ndr.py` states what a layer computes. This module divides the same computation
differently. Buffers are [layers, seeds, rows, channels], where the rows are the tokens of all
examples, so that the gradients of a weight are one batch of products over all layers. The last
layer computes only the first column, with separate buffers and attention.

In bf16 the state between layers is the sum of two bf16 numbers, because a gate that is nearly
closed changes the state by less than the resolution of one bf16 number.

Gain: a step of 25 NDRs on `ctl/A` takes 13.3 ms (bf16) or at most 28.2 ms (tf32), and 24.5 and 55.7
ms with compiled layers (one H200). Switch it off with `kernels: never`: `scratch/nets/ndr.py` then
computes the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from taskloom.learners.accelerated.kernels import launch
from taskloom.learners.accelerated.kernels import ndr_attention as attention
from taskloom.learners.accelerated.kernels import row_kernels as kernels
from taskloom.learners.accelerated.kernels.launch import (
    EXAMPLE_ROWS,
    TILE_REGISTERS,
    Pass,
    attention_tile,
    block,
    cut,
    example_tiles,
    outer,
    precision_of,
    shares,
    start,
    tile_rows,
    tiles,
    turns,
    width_of,
)

NAMES = (
    "embedding.weight",
    "attention.kv.weight",
    "attention.kv.bias",
    "attention.q.weight",
    "attention.q.bias",
    "attention.direction.weight",
    "attention.direction.bias",
    "attention.scale",
    "attention.scale_direction",
    "attention.bias",
    "attention.out.weight",
    "data1.weight",
    "data1.bias",
    "gate1.weight",
    "gate1.bias",
    "data2.weight",
    "data2.bias",
    "gate2.weight",
    "gate2.bias",
    "norm_merge.weight",
    "norm_merge.bias",
    "norm_out.weight",
    "norm_out.bias",
)
"""Weights in the order in which `NDRLayers` takes them."""

SCALARS = ("scale", "scale_direction", "bias")
"""Scalars of attention, in the order in which kernels read them."""


class RouterMaps:
    """Weights in the data type of products, joined if they read the same input. Biases and norms
    are in fp32.
    """

    def __init__(self, w: dict[str, Tensor], kind: torch.dtype) -> None:
        three = ("attention.kv", "attention.q", "attention.direction")
        self.qkv = torch.cat([w[f"{name}.weight"] for name in three], 1).to(kind)
        self.qkv_bias = torch.cat([w[f"{name}.bias"] for name in three], 1)
        self.inner = torch.cat([w["data1.weight"], w["gate1.weight"]], 1).to(kind)
        self.inner_bias = torch.cat([w["data1.bias"], w["gate1.bias"]], 1)
        self.out = w["attention.out.weight"].to(kind)
        self.data = w["data2.weight"].to(kind)
        self.gate = w["gate2.weight"].to(kind)
        self.data_bias, self.gate_bias = w["data2.bias"].contiguous(), w["gate2.bias"].contiguous()
        self.merge = (w["norm_merge.weight"].contiguous(), w["norm_merge.bias"].contiguous())
        self.end = (w["norm_out.weight"].contiguous(), w["norm_out.bias"].contiguous())
        self.scales = torch.cat([w[f"attention.{name}"] for name in SCALARS], 1)


class RouterPart:
    """Buffers of layers with the same number of columns, and the forward and backward pass through
    them.
    """

    def __init__(
        self, maps: RouterMaps, run: Pass, layers: int, length: int, columns: int, batch: int
    ) -> None:
        self.maps, self.run = maps, run
        self.length, self.columns, self.batch = length, columns, batch
        self.seeds, self.state, inner = maps.out.shape[0], maps.out.shape[1], maps.inner.shape[1]
        self.data = inner - self.state
        self.rows = batch * columns

        def buffer(rows: int, channels: int) -> Tensor:
            return torch.empty(
                layers, self.seeds, rows, channels, dtype=run.kind, device=maps.out.device
            )

        d = self.state
        self.h = buffer(batch * length, d)
        self.mixture = buffer(self.rows, d)
        self.mixed = buffer(self.rows, d)
        self.a = buffer(self.rows, d)
        self.z, self.inner = buffer(self.rows, inner), buffer(self.rows, inner)
        self.y, self.g = buffer(self.rows, d), buffer(self.rows, d)
        self.asking = self.h if columns == length else buffer(self.rows, d)
        self._allocate(buffer)

    def _allocate(self, buffer: Callable[[int, int], Tensor]) -> None:
        """Allocate attention's buffers."""
        rows = self.batch * self.length
        self.qkv = buffer(rows, self.maps.qkv.shape[1])
        self.weights = buffer(rows * self.run.heads, turns(self.length))
        self.products = torch.empty_like(self.weights, dtype=torch.float32)

    def allocate_changes(self) -> None:
        """Allocate the gradients from which weights' gradients are computed."""
        self.dmixed = torch.empty_like(self.mixed)
        self.dz = torch.empty_like(self.z)
        self.dy = torch.empty_like(self.y)
        self.dg = torch.empty_like(self.g)
        layers, d = len(self.h), self.state
        self.parts, self.per = shares(self.rows, self.seeds, d, self.run.kind)
        wide = self.z.shape[-1]
        self.inner_parts, self.inner_per = shares(
            self.rows, self.seeds * wide // block(wide), block(wide), self.run.kind
        )

        def sums(*shape: int) -> Tensor:
            return torch.empty(
                layers, self.seeds, *shape, dtype=torch.float32, device=self.h.device
            )

        self.merge_sums, self.gate_sums = sums(self.parts, 3, d), sums(self.parts, 4, d)
        self.inner_sums = sums(self.inner_parts, wide)
        self._allocate_attention_changes(sums)

    def _allocate_attention_changes(self, sums: Callable[..., Tensor]) -> None:
        """Allocate attention's gradients."""
        self.dqkv = torch.empty_like(self.qkv)
        parts = self._tiles()[0][0]
        self.qkv_sums, self.order_sums = sums(parts, 3 * self.state), sums(parts, self.run.heads, 5)

    def _tiles(self) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """Return the programs and constants of attention."""
        run, rate = self.run, self.run.rates[1]
        rows, warps = attention_tile(self.length, run.kind)
        shape = {
            "H": run.heads,
            "C": self.state // run.heads,
            "LENGTH": self.length,
            "TURNS": turns(self.length),
            "R": rows,
        }
        constants = {"CUT": cut(rate), "RATE": 1 / (1 - rate), "PRECISION": precision_of(run.kind)}
        grid = (-(-self.batch // (rows // self.length)), run.heads, self.seeds)
        return grid, {**shape, **constants, "warps": warps, "maxnreg": TILE_REGISTERS}

    def _attend(self, i: int, layer: int) -> None:
        """Compute the weighted values, and replace keys by their values after dropout."""
        maps, run = self.maps, self.run
        torch.bmm(self.h[i], maps.qkv.transpose(1, 2), out=self.qkv[i])
        grid, constants = self._tiles()
        given = (self.qkv[i], maps.qkv_bias, run.keys[3 * layer], run.lengths, maps.scales)
        tables = (self.products[i], self.weights[i], self.mixture[i])
        start(
            attention.attend_forward,
            grid,
            *given,
            *tables,
            self.batch,
            self._stride(),
            run.first,
            **constants,
        )

    def _unattend(self, i: int, change: Tensor, dh: Tensor) -> Tensor:
        """Compute the gradients of queries, keys, values and direction scores. Return the gradient
        of the states, to which dh is added.
        """
        maps, run = self.maps, self.run
        grid, constants = self._tiles()
        given = (
            change,
            self.qkv[i],
            maps.qkv_bias,
            run.lengths,
            maps.scales,
            self.products[i],
            self.weights[i],
        )
        scratch = (torch.empty_like(self.products[i]), torch.empty_like(self.weights[i]))
        results = (self.dqkv[i], self.qkv_sums[i], self.order_sums[i])
        start(
            attention.attend_backward,
            grid,
            *given,
            *scratch,
            *results,
            self.batch,
            self._stride(),
            **constants,
        )
        return dh.baddbmm_(self.dqkv[i], maps.qkv)

    def _stride(self) -> int:
        """Stride between the lengths of two seeds: 0 if all seeds read the same inputs."""
        return self.batch if self.run.lengths.dim() == 2 else 0

    def _inner(self, i: int) -> None:
        """Compute the inner maps with their GELU, and the maps after it."""
        maps, wide = self.maps, self.z.shape[-1]
        torch.bmm(self.a[i], maps.inner.transpose(1, 2), out=self.z[i])
        start(
            kernels.gelu_forward,
            (tiles(self.rows, block(wide), self.run.kind), wide // block(wide), self.seeds),
            self.z[i],
            maps.inner_bias,
            self.inner[i],
            self.rows,
            W=wide,
            BLOCK=block(wide),
            ROWS=tile_rows(block(wide), self.run.kind),
        )
        torch.bmm(self.inner[i, ..., : self.data], maps.data.transpose(1, 2), out=self.y[i])
        torch.bmm(self.inner[i, ..., self.data :], maps.gate.transpose(1, 2), out=self.g[i])

    def _uninner(self, i: int) -> Tensor:
        """Compute the gradient of the inner maps' input."""
        maps, wide = self.maps, self.z.shape[-1]
        dinner = torch.empty_like(self.dz[i])
        torch.bmm(self.dy[i], maps.data, out=dinner[..., : self.data])
        torch.bmm(self.dg[i], maps.gate, out=dinner[..., self.data :])
        start(
            kernels.gelu_backward,
            (self.inner_parts, wide // block(wide), self.seeds),
            dinner,
            self.z[i],
            maps.inner_bias,
            self.dz[i],
            self.inner_sums[i],
            self.rows,
            PER=self.inner_per,
            STAGES=launch.STAGES,
            W=wide,
            BLOCK=block(wide),
            ROWS=tile_rows(block(wide), self.run.kind),
        )
        return torch.bmm(self.dz[i], maps.inner)

    def forward(self, i: int, layer: int, low: Tensor, out: Tensor, out_low: Tensor) -> None:
        """Compute layer number `layer`, which uses the i-th buffers. Its input is in h[i] (and
        low).
        """
        maps, run, d, none = self.maps, self.run, self.state, self.maps.scales
        if self.asking is not self.h:
            self.asking[i].copy_(self._first_columns(self.h[i]))
            low = self._first_columns(low).contiguous() if low.dim() else low
        self._attend(i, layer)
        torch.bmm(self.mixture[i], maps.out.transpose(1, 2), out=self.mixed[i])
        first = run.first * self.columns
        over_rows = {"D": d, "ROWS": tile_rows(d, self.run.kind)}
        start(
            kernels.merge_forward,
            (tiles(self.rows, d, self.run.kind), self.seeds),
            self.asking[i],
            self.mixed[i],
            none,
            *maps.merge,
            run.keys[3 * layer + 1],
            self.a[i],
            self.rows,
            first,
            CUT=cut(run.rates[0]),
            RATE=1 / (1 - run.rates[0]),
            BIAS=False,
            **over_rows,
        )
        self._inner(i)
        start(
            kernels.gate_forward,
            (tiles(self.rows, d, self.run.kind), self.seeds),
            self.y[i],
            self.g[i],
            self.a[i],
            self.asking[i],
            low,
            maps.data_bias,
            maps.gate_bias,
            *maps.end,
            run.keys[3 * layer + 2],
            out,
            out_low,
            self.rows,
            first,
            CUT=cut(run.rates[2]),
            SPLIT=run.kind != torch.float32,
            **over_rows,
        )

    def _first_columns(self, states: Tensor) -> Tensor:
        return states.view(self.seeds, self.batch, self.length, -1)[:, :, : self.columns].flatten(
            1, 2
        )

    def backward(self, i: int, layer: int, change: Tensor) -> Tensor:
        """Compute the gradient of the layer's input from that of its output, [S, rows, d]."""
        maps, run, d, none = self.maps, self.run, self.state, self.maps.scales
        first = run.first * self.columns
        through = torch.empty_like(change)
        programs = (self.parts, self.seeds)
        over_rows = {"D": d, "ROWS": tile_rows(d, self.run.kind)}
        start(
            kernels.gate_backward,
            programs,
            change,
            self.y[i],
            self.g[i],
            self.a[i],
            self.asking[i],
            maps.data_bias,
            maps.gate_bias,
            *maps.end,
            run.keys[3 * layer + 2],
            self.dy[i],
            self.dg[i],
            through,
            self.gate_sums[i],
            self.rows,
            first,
            PER=self.per,
            STAGES=launch.STAGES,
            CUT=cut(run.rates[2]),
            **over_rows,
        )
        da = self._uninner(i)
        dh = torch.empty_like(change)
        start(
            kernels.merge_backward,
            programs,
            da,
            self.dy[i],
            self.asking[i],
            self.mixed[i],
            through,
            none,
            maps.merge[0],
            run.keys[3 * layer + 1],
            self.dmixed[i],
            dh,
            self.merge_sums[i],
            self.rows,
            first,
            PER=self.per,
            STAGES=launch.STAGES,
            CUT=cut(run.rates[0]),
            RATE=1 / (1 - run.rates[0]),
            BIAS=False,
            MORE=True,
            ADD=True,
            **over_rows,
        )
        return self._unattend(i, torch.bmm(self.dmixed[i], maps.out), dh)

    def gradients(self) -> dict[str, Tensor]:
        """Compute the gradients of all weights from those of all layers of this part."""
        data = self.data
        inner, inner_bias = outer(self.dz, self.a), self.inner_sums.sum((0, 2))
        merge = self.merge_sums.sum((0, 2))
        gate = self.gate_sums.sum((0, 2))
        return self._attention_gradients() | {
            "attention.out.weight": outer(self.dmixed, self.mixture),
            "data1.weight": inner[:, :data],
            "data1.bias": inner_bias[:, :data],
            "gate1.weight": inner[:, data:],
            "gate1.bias": inner_bias[:, data:],
            "data2.weight": outer(self.dy, self.inner[..., :data]),
            "gate2.weight": outer(self.dg, self.inner[..., data:]),
            "norm_merge.weight": merge[:, 0],
            "norm_merge.bias": merge[:, 1],
            "norm_out.weight": gate[:, 0],
            "norm_out.bias": gate[:, 1],
            "data2.bias": gate[:, 2],
            "gate2.bias": gate[:, 3],
        }

    def _attention_gradients(self) -> dict[str, Tensor]:
        """Compute the gradients of attention's weights, except its last map."""
        order = self.order_sums.sum((0, 2))
        bias = torch.cat([self.qkv_sums.sum((0, 2)), order[..., 3:].flatten(1)], 1)
        return joined_gradients(outer(self.dqkv, self.h), bias, order[..., :3].sum(1))


def joined_gradients(weight: Tensor, bias: Tensor, scales: Tensor) -> dict[str, Tensor]:
    """Split the gradients of the joined maps, [S, 3 d + 2 heads, d] and [S, 3 d + 2 heads], and
    those of the scalars, into the gradients of each weight.
    """
    d = weight.shape[-1]
    parts = (slice(2 * d), slice(2 * d, 3 * d), slice(3 * d, None))
    names = ("attention.kv", "attention.q", "attention.direction")
    changes = {f"{name}.weight": weight[:, part] for name, part in zip(names, parts, strict=True)}
    changes |= {f"{name}.bias": bias[:, part] for name, part in zip(names, parts, strict=True)}
    return changes | {f"attention.{name}": scales[:, i : i + 1] for i, name in enumerate(SCALARS)}


class LastRouterPart(RouterPart):
    """The last layer, where only the first column attends."""

    def _allocate(self, buffer: Callable[[int, int], Tensor]) -> None:
        self.kv = buffer(self.batch * self.length, 2 * self.state)
        self.first = buffer(self.batch, self.state + 2 * self.run.heads)

    def _allocate_attention_changes(self, sums: Callable[..., Tensor]) -> None:
        self.dkv, self.dfirst = torch.empty_like(self.kv), torch.empty_like(self.first)
        parts = example_tiles(self.batch, self.length)
        self.kv_sums, self.order_sums = sums(parts, 2 * self.state), sums(parts, self.run.heads, 3)

    def _asking(self) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """Return the programs and constants of the kernels."""
        run, rate = self.run, self.run.rates[1]
        shape = {
            "H": run.heads,
            "C": self.state // run.heads,
            "LENGTH": self.length,
            "R": EXAMPLE_ROWS,
        }
        constants = {"CUT": cut(rate), "RATE": 1 / (1 - rate), "PRECISION": precision_of(run.kind)}
        grid = (example_tiles(self.batch, self.length), run.heads, self.seeds)
        return grid, {**shape, **constants, "G": width_of(EXAMPLE_ROWS // self.length)}

    def _attend(self, i: int, layer: int) -> None:
        maps, run, d = self.maps, self.run, self.state
        torch.bmm(self.h[i], maps.qkv[:, : 2 * d].transpose(1, 2), out=self.kv[i])
        torch.bmm(self.asking[i], maps.qkv[:, 2 * d :].transpose(1, 2), out=self.first[i])
        grid, constants = self._asking()
        given = (
            self.kv[i],
            self.first[i],
            maps.qkv_bias,
            run.keys[3 * layer],
            run.lengths,
            maps.scales,
        )
        start(
            attention.first_forward,
            grid,
            *given,
            self.mixture[i],
            self.batch,
            self._stride(),
            run.first,
            **constants,
        )

    def _unattend(self, i: int, change: Tensor, dh: Tensor) -> Tensor:
        maps, d = self.maps, self.state
        grid, constants = self._asking()
        given = (change, self.kv[i], self.first[i], maps.qkv_bias, self.run.lengths, maps.scales)
        results = (self.dkv[i], self.dfirst[i], self.kv_sums[i], self.order_sums[i])
        start(
            attention.first_backward,
            grid,
            *given,
            *results,
            self.batch,
            self._stride(),
            **constants,
        )
        whole = torch.bmm(self.dkv[i], maps.qkv[:, : 2 * d])
        whole.view(self.seeds, self.batch, self.length, d)[:, :, 0] += dh.baddbmm_(
            self.dfirst[i], maps.qkv[:, 2 * d :]
        )
        return whole

    def _attention_gradients(self) -> dict[str, Tensor]:
        weight = torch.cat([outer(self.dkv, self.h), outer(self.dfirst, self.asking)], 1)
        bias = torch.cat(
            [self.kv_sums.sum((0, 2)), self.dfirst.sum((0, 2), dtype=torch.float32)], 1
        )
        return joined_gradients(weight, bias, self.order_sums.sum((0, 2, 3)))


def _embed(table: Tensor, tokens: Tensor, out: Tensor, low: Tensor) -> None:
    """Look up the states of tokens [batch, length] or [S, batch, length]: out [S, rows, d], and
    low, its rounding error.
    """
    seeds, rows, d = out.shape
    stride = rows if tokens.dim() == 3 else 0
    grid = (tiles(rows, d, out.dtype), seeds)
    given = (table.contiguous(), tokens.contiguous(), out, low, rows, table.shape[1], stride)
    start(
        kernels.embed_forward,
        grid,
        *given,
        D=d,
        ROWS=tile_rows(d, out.dtype),
        SPLIT=out.dtype != torch.float32,
    )


def _unembed(change: Tensor, tokens: Tensor, words: int) -> Tensor:
    """Compute the gradient of the table [S, words, d] as a product with one-hot rows, because a
    scatter would add in any order.
    """
    hot = tokens.flatten(-2).unsqueeze(-2) == torch.arange(words, device=tokens.device).unsqueeze(1)
    return torch.bmm(hot.to(change.dtype).expand(len(change), -1, -1), change).float()


class NDRLayers(torch.autograd.Function):
    """The first column after all layers, [S, batch, d], from tokens [batch, length] or [S, batch,
    length].
    """

    @staticmethod
    def forward(
        ctx: Any, run: Pass, layers: int, tokens: Tensor, table: Tensor, *weights: Tensor
    ) -> Tensor:
        """Compute all layers."""
        seeds, words, d = table.shape
        batch, length = tokens.shape[-2:]
        split = run.kind != torch.float32
        with torch.autocast(table.device.type, enabled=False):
            maps = RouterMaps(dict(zip(NAMES[1:], weights, strict=True)), run.kind)
            whole = RouterPart(maps, run, layers - 1, length, length, batch)
            last = LastRouterPart(maps, run, 1, length, 1, batch)
            states = [*whole.h, last.h[0]]
            none = table.new_zeros(())
            low = torch.empty_like(states[0]) if split else none
            _embed(table, tokens, states[0], low)
            for i in range(layers - 1):
                more = torch.empty_like(low)
                whole.forward(i, i, low, states[i + 1], more)
                low = more
            out = torch.empty(seeds, batch, d, dtype=run.kind, device=table.device)
            more = torch.empty_like(out) if split else none
            last.forward(0, layers - 1, low, out, more)
        ctx.both, ctx.tokens, ctx.words = (whole, last), tokens, words
        return out.float() + more.float() if split else out

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Any, ...]:
        """Compute the gradients of every weight."""
        whole, last = ctx.both
        layers = len(whole.h) + 1
        with torch.autocast(change.device.type, enabled=False):
            whole.allocate_changes()
            last.allocate_changes()
            step = last.backward(0, layers - 1, change.to(last.run.kind).contiguous())
            for i in reversed(range(layers - 1)):
                step = whole.backward(i, i, step)
            most, rest = whole.gradients(), last.gradients()
            table = _unembed(step, ctx.tokens, ctx.words)
        ctx.both = None
        return None, None, None, table, *(most[name] + rest[name] for name in NAMES[1:])
