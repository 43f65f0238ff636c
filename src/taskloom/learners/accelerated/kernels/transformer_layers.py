"""All layers of the Transformer in training, and their gradients, by kernels and batched products.

`transformer.py` states what a layer computes. Buffers have the same layout as in `ndr_layers.py`.

Gain: a step of 25 Transformers on `ctl/A` in bf16 takes 6.6 ms, and 19.1 ms with compiled layers
(one H200). Switch it off with `kernels: never`: `scratch/nets/transformer.py` then computes the
layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from taskloom.learners.accelerated.kernels import launch
from taskloom.learners.accelerated.kernels import row_kernels as kernels
from taskloom.learners.accelerated.kernels import transformer_attention as attention
from taskloom.learners.accelerated.kernels.launch import (
    Pass,
    block,
    cut,
    outer,
    precision_of,
    shares,
    start,
    tile_rows,
    tiles,
    width_of,
)

NAMES = (
    "attention.kv.weight",
    "attention.q.weight",
    "attention.scale",
    "attention.content_bias",
    "attention.position_bias",
    "attention.out.weight",
    "linear1.weight",
    "linear1.bias",
    "linear2.weight",
    "linear2.bias",
    "norm1.weight",
    "norm1.bias",
    "norm2.weight",
    "norm2.bias",
)
_SITES = 5


class _TransformerMaps:
    """Weights in the data type of products. Biases and norms are in fp32."""

    def __init__(self, w: dict[str, Tensor], kind: torch.dtype) -> None:
        self.qkv = torch.cat([w["attention.kv.weight"], w["attention.q.weight"]], 1).to(kind)
        self.out = w["attention.out.weight"].to(kind)
        self.one, self.two = w["linear1.weight"].to(kind), w["linear2.weight"].to(kind)
        self.biases = [
            w[f"attention.{name}_bias"].flatten(1).contiguous() for name in ("content", "position")
        ]
        self.scale = w["attention.scale"].contiguous()
        self.one_bias, self.two_bias = (
            w["linear1.bias"].contiguous(),
            w["linear2.bias"].contiguous(),
        )
        self.norms = [
            [w[f"norm{i}.{part}"].contiguous() for part in ("weight", "bias")] for i in (1, 2)
        ]


class _TransformerPart:
    """Buffers of layers with the same number of columns, and the forward and backward pass through
    them.
    """

    def __init__(
        self,
        maps: _TransformerMaps,
        run: Pass,
        far: Tensor,
        layers: int,
        length: int,
        columns: int,
        batch: int,
    ) -> None:
        self.maps, self.run, self.far = maps, run, far
        self.length, self.columns, self.batch = length, columns, batch
        self.seeds, self.state, hidden = maps.out.shape[0], maps.out.shape[1], maps.one.shape[1]
        self.rows = batch * columns

        def buffer(rows: int, channels: int) -> Tensor:
            return torch.empty(
                layers, self.seeds, rows, channels, dtype=run.kind, device=maps.out.device
            )

        d = self.state
        self.x, self.qkv = buffer(batch * length, d), buffer(batch * length, 3 * d)
        self.mixture, self.mixed, self.middle = (
            buffer(self.rows, d),
            buffer(self.rows, d),
            buffer(self.rows, d),
        )
        self.hidden, self.out = buffer(self.rows, hidden), buffer(self.rows, d)
        self.asking = self.x if columns == length else buffer(self.rows, d)

    def allocate_changes(self) -> None:
        """Allocate the gradients from which weights' gradients are computed."""
        self.dqkv, self.dmixed = torch.empty_like(self.qkv), torch.empty_like(self.mixed)
        self.dz, self.dout = torch.empty_like(self.hidden), torch.empty_like(self.out)
        layers, d, wide = len(self.x), self.state, self.hidden.shape[-1]
        self.parts, self.per = shares(self.rows, self.seeds, d, self.run.kind)
        self.hidden_parts, self.hidden_per = shares(
            self.rows, self.seeds * wide // block(wide), block(wide), self.run.kind
        )
        self.attending = -(-self._tiles() // self._per())

        def sums(*shape: int) -> Tensor:
            return torch.empty(
                layers, self.seeds, *shape, dtype=torch.float32, device=self.x.device
            )

        self.norm_sums = [sums(self.parts, 3, d), sums(self.parts, 3, d)]
        self.hidden_sums = sums(self.hidden_parts, wide)
        self.far_sums = sums(self.attending, 2 * self.length - 1, d)
        self.bias_sums, self.scale_sums = (
            sums(self.attending, 2, d),
            sums(self.attending * self.run.heads),
        )

    def _tiles(self) -> int:
        """Number of tiles of whole examples in attention."""
        return -(-self.batch // (width_of(self.length) // self.length))

    def _per(self) -> int:
        """Number of tiles per program in attention's gradients: the largest power of two that
        leaves enough programs.
        """
        most = self._tiles() * self.run.heads * self.seeds // launch.ATTENDING
        return 1 << max(0, most.bit_length() - 1)

    def _attention(self, layer: int) -> tuple[dict[str, Any], tuple[Any, ...], tuple[int, ...]]:
        """Constants, weights and sizes for the attention kernels."""
        run, maps, rate = self.run, self.maps, self.run.rates[1]
        constants = {
            "H": run.heads,
            "C": self.state // run.heads,
            "T": width_of(self.length),
            "CUT": cut(rate),
            "RATE": 1 / (1 - rate),
            "PRECISION": precision_of(run.kind),
        }
        given = (self.far[layer], *maps.biases, run.lengths, maps.scale, run.keys[_SITES * layer])
        stride = self.batch if run.lengths.dim() == 2 else 0
        return constants, given, (self.batch, self.length, self.columns, stride, run.first)

    def _merging(self, layer: int, norm: int) -> tuple[Tensor, dict[str, Any]]:
        """Key and constants of one of the two norms."""
        d, rate = self.state, self.run.rates[0]
        constants = {
            "D": d,
            "ROWS": tile_rows(d, self.run.kind),
            "CUT": cut(rate),
            "RATE": 1 / (1 - rate),
            "BIAS": norm == 1,
        }
        return self.run.keys[_SITES * layer + (2, 4)[norm]], constants

    def _merge(self, layer: int, norm: int, h: Tensor, mixed: Tensor, out: Tensor) -> None:
        key, constants = self._merging(layer, norm)
        grid = (tiles(self.rows, self.state, self.run.kind), self.seeds)
        given = (
            h,
            mixed,
            self.maps.two_bias,
            *self.maps.norms[norm],
            key,
            out,
            self.rows,
            self.run.first * self.columns,
        )
        start(kernels.merge_forward, grid, *given, **constants)

    def forward(self, i: int, layer: int, out: Tensor) -> None:
        """Compute layer number `layer`, which uses the i-th buffers. Its input is in x[i]."""
        maps, run, wide = self.maps, self.run, self.hidden.shape[-1]
        torch.bmm(self.x[i], maps.qkv.transpose(1, 2), out=self.qkv[i])
        constants, given, sizes = self._attention(layer)
        grid: tuple[int, ...] = (self._tiles(), run.heads, self.seeds)
        start(
            attention.relative_forward,
            grid,
            self.qkv[i],
            *given,
            self.mixture[i],
            *sizes,
            warps=1,
            **constants,
        )
        torch.bmm(self.mixture[i], maps.out.transpose(1, 2), out=self.mixed[i])
        if self.asking is not self.x:
            columns = self.x[i].view(self.seeds, self.batch, self.length, -1)[:, :, : self.columns]
            self.asking[i].copy_(columns.flatten(1, 2))
        self._merge(layer, 0, self.asking[i], self.mixed[i], self.middle[i])
        z = torch.bmm(self.middle[i], maps.one.transpose(1, 2))
        grid = (tiles(self.rows, block(wide), self.run.kind), wide // block(wide), self.seeds)
        key = run.keys[_SITES * layer + 3]
        sizes = (self.rows, run.first * self.columns)
        start(
            kernels.relu_forward,
            grid,
            z,
            maps.one_bias,
            key,
            self.hidden[i],
            *sizes,
            **self._hidden(),
        )
        torch.bmm(self.hidden[i], maps.two.transpose(1, 2), out=self.out[i])
        self._merge(layer, 1, self.middle[i], self.out[i], out)

    def _hidden(self) -> dict[str, Any]:
        wide, rate = self.hidden.shape[-1], self.run.rates[0]
        tile = {"W": wide, "BLOCK": block(wide), "ROWS": tile_rows(block(wide), self.run.kind)}
        return {**tile, "CUT": cut(rate), "RATE": 1 / (1 - rate)}

    def _unmerge(
        self,
        layer: int,
        i: int,
        norm: int,
        change: Tensor,
        more: Tensor | None,
        h: Tensor,
        mixed: Tensor,
        dmixed: Tensor,
    ) -> Tensor:
        """Compute the gradients of a norm's two inputs, and return the gradient of the states."""
        key, constants = self._merging(layer, norm)
        dh = torch.empty_like(change)
        none = self.maps.scale
        given = (
            h,
            mixed,
            none,
            self.maps.two_bias,
            self.maps.norms[norm][0],
            key,
            dmixed,
            dh,
            self.norm_sums[norm][i],
        )
        start(
            kernels.merge_backward,
            (self.parts, self.seeds),
            change,
            none if more is None else more,
            *given,
            self.rows,
            self.run.first * self.columns,
            PER=self.per,
            STAGES=launch.STAGES,
            MORE=more is not None,
            ADD=False,
            **constants,
        )
        return dh

    def backward(self, i: int, layer: int, change: Tensor) -> Tensor:
        """Compute the gradient of the layer's input from that of its output, [S, rows, d]."""
        maps, run, wide = self.maps, self.run, self.hidden.shape[-1]
        through = self._unmerge(
            layer, i, 1, change, None, self.middle[i], self.out[i], self.dout[i]
        )
        dhidden = torch.bmm(self.dout[i], maps.two)
        constants = self._hidden()
        del constants["CUT"]
        start(
            kernels.relu_backward,
            (self.hidden_parts, wide // block(wide), self.seeds),
            dhidden,
            self.hidden[i],
            self.dz[i],
            self.hidden_sums[i],
            self.rows,
            PER=self.hidden_per,
            STAGES=launch.STAGES,
            **constants,
        )
        dmiddle = torch.bmm(self.dz[i], maps.one)
        dx = self._unmerge(
            layer, i, 0, dmiddle, through, self.asking[i], self.mixed[i], self.dmixed[i]
        )
        dmixture = torch.bmm(self.dmixed[i], maps.out)
        constants, given, sizes = self._attention(layer)
        start(
            attention.relative_backward,
            (self.attending, run.heads, self.seeds),
            dmixture,
            self.qkv[i],
            *given,
            self.dqkv[i],
            self.far_sums[i],
            self.bias_sums[i],
            self.scale_sums[i],
            *sizes,
            PER=self._per(),
            warps=1,
            **constants,
        )
        if self.asking is self.x:
            return dx.baddbmm_(self.dqkv[i], maps.qkv)
        whole = torch.bmm(self.dqkv[i], maps.qkv)
        columns = whole.view(self.seeds, self.batch, self.length, -1)[:, :, : self.columns]
        columns += dx.view(columns.shape)
        return whole

    def gradients(self) -> dict[str, Tensor]:
        """Compute the gradients of all weights from those of all layers of this part."""
        qkv = outer(self.dqkv, self.x)
        norms = [one.sum((0, 2)) for one in self.norm_sums]
        content, position = self.bias_sums.sum((0, 2)).unbind(1)
        heads = (self.seeds, self.run.heads, -1)
        return {
            "attention.kv.weight": qkv[:, : 2 * self.state],
            "attention.q.weight": qkv[:, 2 * self.state :],
            "attention.scale": self.scale_sums.sum((0, 2)).unsqueeze(1),
            "attention.content_bias": content.view(heads),
            "attention.position_bias": position.view(heads),
            "attention.out.weight": outer(self.dmixed, self.mixture),
            "linear1.weight": outer(self.dz, self.middle),
            "linear1.bias": self.hidden_sums.sum((0, 2)),
            "linear2.weight": outer(self.dout, self.hidden),
            "linear2.bias": norms[1][:, 2],
            "norm1.weight": norms[0][:, 0],
            "norm1.bias": norms[0][:, 1],
            "norm2.weight": norms[1][:, 0],
            "norm2.bias": norms[1][:, 1],
        }


class TransformerLayers(torch.autograd.Function):
    """The first column after all layers, [S, batch, d], from the states before them, [S, batch,
    length, d].

    `far` holds the positional keys of each layer after dropout, [layers, S, 2 * length - 1, d].
    """

    @staticmethod
    def forward(ctx: Any, run: Pass, x: Tensor, far: Tensor, *weights: Tensor) -> Tensor:
        """Compute all layers."""
        seeds, batch, length, d = x.shape
        layers = len(far)
        with torch.autocast(x.device.type, enabled=False):
            maps = _TransformerMaps(dict(zip(NAMES, weights, strict=True)), run.kind)
            far = far.to(run.kind).contiguous()
            whole = _TransformerPart(maps, run, far, layers - 1, length, length, batch)
            last = _TransformerPart(maps, run, far, 1, length, 1, batch)
            states = [*whole.x, last.x[0]]
            states[0].copy_(x.view(seeds, batch * length, d))
            for i in range(layers - 1):
                whole.forward(i, i, states[i + 1])
            out = torch.empty(seeds, batch, d, dtype=run.kind, device=x.device)
            last.forward(0, layers - 1, out)
        ctx.both = (whole, last)
        return out.float()

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Any, ...]:
        """Compute the gradients of the states, the positional keys and every weight."""
        whole, last = ctx.both
        layers = len(whole.x) + 1
        with torch.autocast(change.device.type, enabled=False):
            whole.allocate_changes()
            last.allocate_changes()
            step = last.backward(0, layers - 1, change.to(last.run.kind).contiguous())
            for i in reversed(range(layers - 1)):
                step = whole.backward(i, i, step)
            most, rest = whole.gradients(), last.gradients()
            far = torch.cat([whole.far_sums.sum(2), last.far_sums.sum(2)])
        ctx.both = None
        shape = (whole.seeds, whole.batch, whole.length, whole.state)
        return None, step.float().view(shape), far, *(most[name] + rest[name] for name in NAMES)
