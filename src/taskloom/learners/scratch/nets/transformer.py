"""The Transformer of CTL++: one post-norm layer with relative positions, applied repeatedly and
read at SOS.

    logit_ij = c [ (q_i + u) . k_j + (q_i + v) . (P r_{j-i}) ]
    x1 = LN( x + Drop(MHA(x)) )        y = LN( x1 + Drop( W2 Drop(ReLU(W1 x1 + b1)) + b2 ) )

r_m is the sinusoid of the signed distance m. Attention dropout is applied to the keys (content and
positional), not to the weights, as in the reference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taskloom.learners.accelerated.kernels.launch import fit
from taskloom.learners.config import later_setting
from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Kernels,
    Weights,
    Wrap,
    default_linear,
    drop,
    embed,
    join_heads,
    kind_of_products,
    layer_norm,
    linear,
    mixtures,
    read_at,
    row_products,
    split_heads,
    within,
    xavier,
)

_SITES = 5
"""Dropout masks per layer: content keys, positional keys, attention output, feed-forward hidden,
feed-forward output.
"""


@dataclass(frozen=True, slots=True)
class Transformer:
    """See the module. The defaults are the reference's. In the paper's text, the feed-forward size
    is 4 times the state.
    """

    vocabulary: int
    classes: int
    state: int = 128
    heads: int = 4
    layers: int = 8
    feed_forward: int = 256
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layers_answering: int = later_setting(0)

    frame: ClassVar[tuple[bool, bool]] = (True, True)  # SOS and EOS
    own_inputs: ClassVar[bool] = True
    kernels_in: ClassVar[frozenset[str]] = frozenset({"bf16"})

    @property
    def sites(self) -> int:
        """Number of dropout masks, a separate set for every application of the layer."""
        return _SITES * self.layers

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight. The vocabulary has two more rows, for EOS and SOS. `attention.bias`
        is unused, as in the reference.
        """
        d, f, h = self.state, self.feed_forward, self.heads
        return {
            "embedding.weight": (self.vocabulary + 2, d),
            "attention.scale": (1,),
            "attention.bias": (1,),
            "attention.content_bias": (h, d // h),
            "attention.position_bias": (h, d // h),
            "attention.position.weight": (d, d),
            "attention.kv.weight": (2 * d, d),
            "attention.q.weight": (d, d),
            "attention.out.weight": (d, d),
            "linear1.weight": (f, d),
            "linear1.bias": (f,),
            "linear2.weight": (d, f),
            "linear2.bias": (d,),
            "norm1.weight": (d,),
            "norm1.bias": (d,),
            "norm2.weight": (d,),
            "norm2.bias": (d,),
            "classifier.weight": (self.classes, d),
            "classifier.bias": (self.classes,),
        }

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw Xavier weights for the maps, Kaiming weights for the embedding, and torch's default
        for the two output maps.
        """
        d, f = self.state, self.feed_forward
        weights = {name: torch.zeros(shape) for name, shape in self.shapes().items()}
        weights["embedding.weight"] = torch.randn(
            self.vocabulary + 2, d, generator=random
        ) * math.sqrt(2 / d)
        weights["attention.scale"] = torch.full((1,), (d // self.heads) ** -0.5)
        weights["attention.position.weight"] = xavier(random, d, d)
        weights["attention.kv.weight"] = xavier(random, 2 * d, d)
        weights["attention.q.weight"] = xavier(random, d, d)
        weights["attention.out.weight"], _ = default_linear(random, d, d)
        # Xavier normal with the gain of a ReLU, sqrt(2).
        weights["linear1.weight"] = (
            torch.randn(f, d, generator=random) * math.sqrt(2) * math.sqrt(2 / (d + f))
        )
        weights["linear2.weight"] = xavier(random, d, f)
        # Biases of the feed-forward maps keep torch's default, uniform over +-1/sqrt(fan in).
        weights["linear1.bias"] = default_linear(random, f, d)[1]
        weights["linear2.bias"] = default_linear(random, d, f)[1]
        for norm in ("norm1", "norm2"):
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
        x = embed(weights["embedding.weight"], tokens)
        # Kernels support only training passes, and keep no states for a trace.
        sizes = (self.heads, self.feed_forward, self.layers)
        by_kernels = isinstance(wrap, Kernels) and trace is None and fit(x.shape, *sizes)
        if by_kernels and dropout:
            return self._by_kernels(weights, x, lengths, dropout)
        run = wrap(_layer) if wrap else _layer
        length = tokens.shape[-1]
        real = within(lengths, length)
        waves = sinusoids(length, self.state, x)
        layers = self.layers if dropout else self.layers_answering or self.layers
        for i in range(layers):
            keys = dropout.keys[_SITES * i : _SITES * (i + 1)] if dropout else None
            first = dropout.first_row if dropout else 0
            rates = (self.dropout, self.attention_dropout)
            # Only SOS is used by the classifier, so the last layer computes only that column.
            columns = 1 if i == layers - 1 and trace is None else length
            x = run(
                weights, x, columns, real, waves, keys, first, self.heads, rates, wrap is not None
            )
            if trace is not None:
                trace[f"layer.{i + 1}"] = x[:, :, 0]
        if trace is not None:
            trace["readout"] = x[:, :, 0]
            trace["argument"] = read_at(x, lengths - 2)
        return linear(x[:, :, 0], weights["classifier.weight"], weights["classifier.bias"])

    def _by_kernels(
        self, weights: Weights, x: Tensor, lengths: Tensor, dropout: DropoutKeys
    ) -> Tensor:
        """Compute the logits in training mode with the kernels in `accelerated/kernels`."""
        from taskloom.learners.accelerated.kernels.launch import Pass
        from taskloom.learners.accelerated.kernels.transformer_layers import (
            NAMES,
            TransformerLayers,
        )

        seeds, _, length, size = x.shape
        waves = sinusoids(length, size, x).expand(seeds, -1, -1)
        far = linear(waves, weights["attention.position.weight"]).expand(self.layers, -1, -1, -1)
        far = drop(
            far.flatten(0, 1), self.attention_dropout, dropout.keys[1::_SITES].flatten(0, 1)
        ).view(far.shape)
        rates = (self.dropout, self.attention_dropout)
        run = Pass(lengths, dropout.keys, dropout.first_row, self.heads, rates, kind_of_products(x))
        column: Tensor = TransformerLayers.apply(run, x, far, *(weights[name] for name in NAMES))  # type: ignore[no-untyped-call]
        return linear(column, weights["classifier.weight"], weights["classifier.bias"])


def sinusoids(length: int, size: int, like: Tensor) -> Tensor:
    """Compute r_m for m from -(length-1) to length-1: even channels sin, odd channels cos, base
    10000.
    """
    m = torch.arange(1 - length, length, device=like.device, dtype=like.dtype)
    rate = torch.exp(
        torch.arange(0, size, 2, device=like.device, dtype=like.dtype) * (-math.log(10000.0) / size)
    )
    angle = m[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def _layer(
    w: Weights,
    x: Tensor,
    columns: int,
    real: Tensor,
    waves: Tensor,
    keys: Tensor | None,
    first: int,
    heads: int,
    rates: tuple[float, float],
    packed: bool,
) -> Tensor:
    """Compute the next states of the first `columns` columns."""
    dropout, attention_dropout = rates
    at = (lambda site: keys[site]) if keys is not None else (lambda site: None)
    mixed = _attention(w, x, columns, real, waves, keys, first, heads, attention_dropout, packed)
    x = layer_norm(
        x[:, :, :columns] + drop(mixed, dropout, at(2), first), w["norm1.weight"], w["norm1.bias"]
    )
    hidden = drop(linear(x, w["linear1.weight"], w["linear1.bias"]).relu(), dropout, at(3), first)
    out = drop(linear(hidden, w["linear2.weight"], w["linear2.bias"]), dropout, at(4), first)
    return layer_norm(x + out, w["norm2.weight"], w["norm2.bias"])


def _attention(
    w: Weights,
    x: Tensor,
    columns: int,
    real: Tensor,
    waves: Tensor,
    keys: Tensor | None,
    first: int,
    heads: int,
    dropout: float,
    packed: bool,
) -> Tensor:
    seeds, _, length, size = x.shape
    q = split_heads(linear(x[:, :, :columns], w["attention.q.weight"]), heads)
    # The fused map is laid out head by head, first the head's keys, then its values.
    k, v = split_heads(linear(x, w["attention.kv.weight"]), heads).chunk(2, -1)
    k = drop(k, dropout, keys[0] if keys is not None else None, first)
    far = linear(waves.expand(seeds, -1, -1), w["attention.position.weight"])
    # Positional keys belong to the batch, not to an example, so their mask does not depend on
    # `first`.
    far = drop(far, dropout, keys[1] if keys is not None else None).view(
        seeds, 2 * length - 1, heads, -1
    )
    bias_shape = (seeds, 1, heads, 1, size // heads)
    content = row_products(q + w["attention.content_bias"].view(bias_shape), k, packed)
    position = torch.einsum(
        "sbhtd,smhd->sbhtm", q + w["attention.position_bias"].view(bias_shape), far
    )
    # position[..., i, m] is for the distance m - (length - 1). Row i needs the distance j - i in
    # column j.
    at = torch.arange(length, device=x.device)
    index = (at[None, :] - at[:columns, None] + length - 1).expand_as(content)
    logits = (content + position.gather(-1, index)) * w["attention.scale"].view(seeds, 1, 1, 1, 1)
    logits = logits.masked_fill(~real[:, :, None, None, :], -math.inf)
    return linear(join_heads(mixtures(logits.softmax(-1), v, packed)), w["attention.out.weight"])
