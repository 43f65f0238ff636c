"""All layers of NDR in training, and their gradients, by kernels and batched products
(`router_layers.py`).

The last layer computes the first column alone and has buffers and an attention of its own.

Buys a step of 25 NDRs on `ctl/A` in 13.3 ms (bf16) or at most 28.2 (tf32) where compiled layers
take 24.5 and 55.7 (one H200). To do without set `kernels: never`: `scratch/nets/ndr.py` then
computes the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from taskloom.learners.accelerated.kernels import first_column
from taskloom.learners.accelerated.kernels import row_kernels as kernels
from taskloom.learners.accelerated.kernels.launch import (
    EXAMPLE_ROWS,
    Pass,
    cut,
    example_tiles,
    outer,
    precision_of,
    start,
    tile_rows,
    tiles,
    width_of,
)
from taskloom.learners.accelerated.kernels.router_layers import (
    RouterMaps,
    RouterPart,
    joined_gradients,
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


class LastRouterPart(RouterPart):
    """The last layer, whose first column alone asks."""

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
            first_column.first_forward,
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
            first_column.first_backward,
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
    low, what it rounds away.
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
    """Compute the gradient of the table [S, words, d], a product with one-hot rows: a scatter would
    add in any order.
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
