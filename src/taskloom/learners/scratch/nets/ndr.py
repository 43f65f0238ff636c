"""NDR, the neural data router of CTL++: one layer with geometric attention and a copy gate, applied
repeatedly and read at SOS.

    a  = LN( h + Drop(GeoAtt(h)) )
    u  = LN( W2 GELU(W1 a + b1) + b2 + a )
    g  = sigmoid( G2 GELU(G1 a + c1) + c2 )
    h' = (1 - g) h + g u

In training, the gate of a whole column is closed with a probability of 0.1.

Geometric attention visits the columns outwards from i and stops at a match. At equal distance, it
visits the right column first:

    p_ij = sigmoid( s q_i . k_j + t D_i(j) + b )
    A_ij = p_ij * product of (1 - p_ik) over the columns k that are visited before j

D_i(j) is the "front" score of i for j > i and its "back" score for j < i.
The weights are not normalised: they sum to at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from taskloom.learners.accelerated.kernels.launch import fit
from taskloom.learners.config import later_setting
from taskloom.learners.interface import LearnerError
from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Kernels,
    Weights,
    Wrap,
    default_linear,
    drop,
    embed,
    join_heads,
    keep,
    kind_of_products,
    layer_norm,
    linear,
    mixtures,
    read_at,
    row_products,
    split_heads,
    uniform,
    within,
    xavier,
)

_SITES = 3
"""Dropout masks per layer: keys, attention output, gate."""


_KINDS = ("weight", "bias")

LONGEST = 400
"""Maximum tokens of an input. The order of visits is a table whose size grows with the cube of the
length, to 256 MB at this length.
"""


@dataclass(frozen=True, slots=True)
class NDR:
    """See the module docstring. The layer is applied `layers` times in training and
    `layers_answering` times otherwise.
    """

    vocabulary: int
    classes: int
    state: int = 256
    heads: int = 4
    layers: int = 8
    layers_answering: int = 10
    feed_forward: int = 512
    dropout: float = 0.5
    attention_dropout: float = 0.1
    gate_dropout: float = 0.1
    begin: Literal["zero-biases", "reference"] = later_setting("zero-biases")

    frame: ClassVar[tuple[bool, bool]] = (True, True)  # SOS and EOS
    own_inputs: ClassVar[bool] = True
    kernels_in: ClassVar[frozenset[str]] = frozenset({"tf32", "bf16"})

    @property
    def sites(self) -> int:
        """Number of dropout masks, a separate set for every application of the layer."""
        return _SITES * self.layers

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight. The vocabulary has two more rows, for EOS and SOS."""
        d, f, h = self.state, self.feed_forward, self.heads
        maps = {
            "attention.kv": (2 * d, d),
            "attention.q": (d, d),
            "attention.direction": (2 * h, d),
            "data1": (f, d),
            "data2": (d, f),
            "gate1": (d, d),
            "gate2": (d, d),
            "classifier": (self.classes, d),
        }
        shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (self.vocabulary + 2, d)}
        for scalar in ("scale", "bias", "scale_direction"):
            shapes[f"attention.{scalar}"] = (1,)
        for name, shape in maps.items():
            shapes[f"{name}.weight"] = shape
            shapes[f"{name}.bias"] = shape[:1]
        shapes["attention.out.weight"] = (d, d)
        for norm in ("norm_merge", "norm_out"):
            shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (d,)
        return shapes

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw Xavier maps, an N(0, 1) embedding, and gates that start nearly closed (bias -3).

        The reference intends separate bounds for keys and values. Because its map is laid out head
        by head, it applies them to the two halves of the heads instead. Here, keys get the bound
        for keys, values get the one for values, and maps start without biases. With
        `begin: reference`, bounds and biases are as in the reference.
        """
        weights = self._start(random)
        if self.begin == "reference":
            weights |= self._as_reference(random)
        return weights

    def _as_reference(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw the weights that the public code initialises differently: torch's default biases,
        and separate bounds for the two halves of the heads.
        """
        d, size = self.state, self.state // self.heads
        shapes = self.shapes()
        weights = {}
        for name in ("attention.q", "attention.kv", "data1", "data2", "gate1"):
            _, fan_in = shapes[f"{name}.weight"]
            weights[f"{name}.bias"] = uniform(random, shapes[f"{name}.bias"], fan_in**-0.5)
        halves = [xavier(random, d, d, fan_out=size), xavier(random, d, d)]
        return {**weights, "attention.kv.weight": torch.cat(halves)}

    def _start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw the weights that start without biases."""
        d, f, size = self.state, self.feed_forward, self.state // self.heads
        relu = 2**0.5
        weights = {name: torch.zeros(shape) for name, shape in self.shapes().items()}
        weights["embedding.weight"] = torch.randn(self.vocabulary + 2, d, generator=random)
        weights["attention.scale"] = torch.full((1,), size**-0.5)
        weights["attention.scale_direction"] = torch.ones(1)
        key = xavier(random, d, d, fan_out=size).view(self.heads, size, d)
        value = xavier(random, d, d).view(self.heads, size, d)
        weights["attention.kv.weight"] = torch.cat([key, value], 1).reshape(2 * d, d)
        weights["attention.q.weight"] = xavier(random, d, d, fan_out=size)
        weights["attention.out.weight"] = xavier(random, d, d)
        weights["attention.direction.weight"], weights["attention.direction.bias"] = default_linear(
            random, 2 * self.heads, d
        )
        weights["data1.weight"] = xavier(random, f, d, gain=relu)
        weights["data2.weight"] = xavier(random, d, f)
        weights["gate1.weight"] = xavier(random, d, d, gain=relu)
        weights["gate2.weight"] = xavier(random, d, d)
        weights["gate2.bias"] = torch.full((d,), -3.0)
        for norm in ("norm_merge", "norm_out"):
            weights[f"{norm}.weight"] = torch.ones(d)
        weights["classifier.weight"], weights["classifier.bias"] = default_linear(
            random, self.classes, d
        )
        return weights

    def forward(
        self,
        weights: Weights,
        tokens: Tensor,
        lengths: Tensor,
        dropout: DropoutKeys | None = None,
        wrap: Wrap | None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Compute logits [seeds, batch, classes]."""
        length = tokens.shape[-1]
        if length > LONGEST:
            raise LearnerError(
                f"NDR compares every pair of tokens: {length} tokens are more than its maximum of"
                f" {LONGEST}"
            )
        states = (len(weights["embedding.weight"]), *tokens.shape[-2:], self.state)
        # Kernels support only training passes, and keep no states for a trace.
        sizes = (self.heads, self.feed_forward, self.layers)
        by_kernels = isinstance(wrap, Kernels) and trace is None and fit(states, *sizes)
        if by_kernels and dropout:
            return self._by_kernels(weights, tokens, lengths, dropout)
        h = embed(weights["embedding.weight"], tokens)
        run = wrap(_layer) if wrap else _layer
        real = within(lengths, length)
        before = asked_before(length, h)
        rates = (self.dropout, self.attention_dropout, self.gate_dropout)
        weights = {**weights, **_joined(weights)}
        layers = self.layers if dropout else self.layers_answering
        for i in range(layers):
            keys = dropout.keys[_SITES * i : _SITES * (i + 1)] if dropout else None
            first = dropout.first_row if dropout else 0
            # Only SOS is used by the classifier, so the last layer computes only that column.
            columns = 1 if i == layers - 1 and trace is None else length
            h = run(
                weights, h, columns, real, before, keys, first, self.heads, rates, wrap is not None
            )
            if trace is not None:
                trace[f"layer.{i + 1}"] = h[:, :, 0]
        if trace is not None:
            trace["readout"] = h[:, :, 0]
            trace["argument"] = read_at(h, lengths - 2)
        return linear(h[:, :, 0], weights["classifier.weight"], weights["classifier.bias"])

    def _by_kernels(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, dropout: DropoutKeys
    ) -> Tensor:
        """Compute the logits in training mode with the kernels in `accelerated/kernels`."""
        from taskloom.learners.accelerated.kernels.launch import Pass
        from taskloom.learners.accelerated.kernels.ndr_layers import NAMES, NDRLayers

        rates = (self.dropout, self.attention_dropout, self.gate_dropout)
        kind = kind_of_products(weights["embedding.weight"])
        run = Pass(lengths, dropout.keys, dropout.first_row, self.heads, rates, kind)
        column: Tensor = NDRLayers.apply(
            run, self.layers, tokens, *(weights[name] for name in NAMES)
        )  # type: ignore[no-untyped-call]
        return linear(column, weights["classifier.weight"], weights["classifier.bias"])


def _joined(w: Weights) -> dict[str, Tensor]:
    """Join the two inner maps once per pass, because one product that reads its input once is
    faster than two products. Joining queries and keys gains nothing.
    """
    return {
        f"inner.{kind}": torch.cat([w[f"{name}.{kind}"] for name in ("data1", "gate1")], 1)
        for kind in _KINDS
    }


def asked_before(length: int, like: Tensor) -> Tensor:
    """Return before[i, j, k], which is 1 if column i visits column k before column j, that is if k
    is nearer, or equally near and to the right.
    """
    at = torch.arange(length, device=like.device)
    offset = at[None, :] - at[:, None]
    # The order of visits: distance 1 right, 1 left, 2 right, 2 left, ...
    turn = 2 * offset.abs() + (offset < 0)
    before = (turn[:, None, :] < turn[:, :, None]) & (offset != 0)[:, None, :]
    return before.to(like.dtype)


def geometric_attention(logits: Tensor, allowed: Tensor, before: Tensor) -> Tensor:
    """Compute A [..., T, T] from logits. Columns that are not `allowed` (itself, padding) are never
    visited.

    The computation is in log space, so that a product of many small numbers keeps its gradient.
    """
    miss = F.logsigmoid(-logits).masked_fill(~allowed, 0.0)
    missed = (miss.unsqueeze(-2) * before).sum(-1)
    return torch.exp(F.logsigmoid(logits) + missed) * allowed


def _layer(
    w: Weights,
    h: Tensor,
    columns: int,
    real: Tensor,
    before: Tensor,
    keys: Tensor | None,
    first: int,
    heads: int,
    rates: tuple[float, float, float],
    packed: bool,
) -> Tensor:
    """Compute the next states of the first `columns` columns."""
    dropout, attention_dropout, gate_dropout = rates
    key = keys[0] if keys is not None else None
    mixed = _attention(w, h, columns, real, before, key, first, heads, attention_dropout, packed)
    h = h[:, :, :columns]
    mixed = drop(mixed, dropout, keys[1] if keys is not None else None, first)
    a = layer_norm(h + mixed, w["norm_merge.weight"], w["norm_merge.bias"])
    inner = F.gelu(linear(a, w["inner.weight"], w["inner.bias"]))
    data, opening = inner.tensor_split((inner.shape[-1] - h.shape[-1],), -1)
    new = linear(data, w["data2.weight"], w["data2.bias"]) + a
    new = layer_norm(new, w["norm_out.weight"], w["norm_out.bias"])
    gate = linear(opening, w["gate2.weight"], w["gate2.bias"]).sigmoid()
    if keys is not None and gate_dropout:
        # Gates of whole columns are closed without rescaling, because a closed gate is an ordinary
        # state in which the column is copied.
        open_columns = keep(gate.shape[:-1], gate_dropout, keys[2], first).unsqueeze(-1)
        gate = gate * open_columns.to(gate.dtype)
    return h + gate * (new - h)


def _attention(
    w: Weights,
    h: Tensor,
    columns: int,
    real: Tensor,
    before: Tensor,
    key: Tensor | None,
    first: int,
    heads: int,
    dropout: float,
    packed: bool,
) -> Tensor:
    seeds, _, length, _ = h.shape
    one = (seeds, 1, 1, 1, 1)
    asking = h[:, :, :columns]
    both = linear(h, w["attention.kv.weight"], w["attention.kv.bias"])
    query = linear(asking, w["attention.q.weight"], w["attention.q.bias"])
    score = linear(asking, w["attention.direction.weight"], w["attention.direction.bias"])
    q = split_heads(query, heads)
    # The fused map is laid out head by head, first the head's keys, then its values.
    k, v = split_heads(both, heads).chunk(2, -1)
    k = drop(k, dropout, key, first)
    scores = split_heads(score, heads)
    back, front = scores[..., :1], scores[..., 1:]
    at = torch.arange(length, device=h.device)
    row = at[:columns, None]
    direction = torch.where(at[None, :] > row, front, back)
    logits = row_products(q, k, packed) * w["attention.scale"].view(one)
    logits = (
        logits
        + direction * w["attention.scale_direction"].view(one)
        + w["attention.bias"].view(one)
    )
    allowed = real[:, :, None, None, :] & (at[None, :] != row)
    weights = geometric_attention(logits.to(h.dtype), allowed, before[:columns])
    return linear(join_heads(mixtures(weights, v, packed)), w["attention.out.weight"])
