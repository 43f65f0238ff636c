"""The bi-LSTM of CTL++: one bidirectional layer over tokens and EOS, read by the final states of
both directions.

    z = W x_t + b + U h + b'        [i, f, g, o] = z
    c' = sigma(f) c + sigma(i) tanh(g)        h' = sigma(o) tanh(c')
    logits = V [h_forward at the last token; h_backward at the first token] + a

`lstm` is the same kind of layer, but returns its state at every position, as BiDAF needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Weights,
    Wrap,
    default_linear,
    drop,
    embed,
    linear,
    uniform,
    within,
)

_DIRECTIONS = ("", "_reverse")


@dataclass(frozen=True, slots=True)
class BiLSTM:
    """See the module. `state` is the size of the embedding and of both directions together."""

    vocabulary: int
    classes: int
    state: int = 256
    dropout: float = 0.5

    frame: ClassVar[tuple[bool, bool]] = (False, True)  # EOS only
    sites: ClassVar[int] = 1  # on the embedding
    own_inputs: ClassVar[bool] = True

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each weight. The vocabulary has one more row, for EOS."""
        d, half = self.state, self.state // 2
        shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (self.vocabulary + 1, d)}
        for way in _DIRECTIONS:
            shapes[f"lstm.weight_ih_l0{way}"] = (4 * half, d)
            shapes[f"lstm.weight_hh_l0{way}"] = (4 * half, half)
            shapes[f"lstm.bias_ih_l0{way}"] = (4 * half,)
            shapes[f"lstm.bias_hh_l0{way}"] = (4 * half,)
        return {
            **shapes,
            "classifier.weight": (self.classes, d),
            "classifier.bias": (self.classes,),
        }

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw weights as torch initialises these layers: rows from N(0, 1), uniform in
        +-1/sqrt(units) in the LSTM.
        """
        weights: dict[str, Tensor] = {}
        bound = (self.state // 2) ** -0.5
        for name, shape in self.shapes().items():
            if name == "embedding.weight":
                weights[name] = torch.randn(shape, generator=random)
            elif name.startswith("lstm."):
                weights[name] = uniform(random, shape, bound)
        weight, bias = default_linear(random, self.classes, self.state)
        return {**weights, "classifier.weight": weight, "classifier.bias": bias}

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
        run = wrap(_read) if wrap else _read
        key, first = (dropout.keys[0], dropout.first_row) if dropout else (None, 0)
        summary = run(weights, tokens, lengths, key, first, self.dropout)
        if trace is not None:
            trace["readout"] = summary
        return linear(summary, weights["classifier.weight"], weights["classifier.bias"])


def _read(
    w: Weights, tokens: Tensor, lengths: Tensor, key: Tensor | None, first: int, dropout: float
) -> Tensor:
    """Compute the final states [S, B, d]. Both directions are computed together, as one stack of 2
    S seeds.

    The backward direction reads the positions from the end. At positions beyond an example's
    length, the state does not change (it is zero at first), as with packed sequences.
    """
    x = drop(embed(w["embedding.weight"], tokens), dropout, key, first)
    seeds, batch, length, _ = x.shape
    into = torch.cat([w[f"lstm.weight_ih_l0{way}"] for way in _DIRECTIONS], 1)
    bias = torch.cat(
        [w[f"lstm.bias_ih_l0{way}"] + w[f"lstm.bias_hh_l0{way}"] for way in _DIRECTIONS], 1
    )
    back = torch.cat([w[f"lstm.weight_hh_l0{way}"] for way in _DIRECTIONS])
    # Use unbind instead of indexing, because the gradient of each index would be a whole tensor of
    # zeros.
    gates = [g.chunk(2, -1) for g in linear(x, into, bias).unbind(2)]
    real = within(lengths, length).unbind(-1)
    h = c = x.new_zeros(2 * seeds, batch, back.shape[-1])
    for t in range(length):
        last = length - 1 - t
        z = torch.cat([gates[t][0], gates[last][1]]) + linear(h, back)
        h, c = step(z, h, c, real[t], real[last])
    return torch.cat([h[:seeds], h[seeds:]], -1)


def lstm_shapes(name: str, into: int, units: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of both directions, stacked. There is one bias, because two biases that are
    always added are equivalent to one.
    """
    return {
        f"{name}.into": (8 * units, into),
        f"{name}.bias": (8 * units,),
        f"{name}.back": (2, 4 * units, units),
    }


def start_lstm(random: torch.Generator, name: str, into: int, units: int) -> dict[str, Tensor]:
    """Draw weights uniformly from +-1/sqrt(units), as torch initialises an LSTM."""
    return {
        n: uniform(random, shape, units**-0.5)
        for n, shape in lstm_shapes(name, into, units).items()
    }


def step(
    z: Tensor, h: Tensor, c: Tensor, forward: Tensor, backward: Tensor
) -> tuple[Tensor, Tensor]:
    """Take one step of both directions, stacked as 2 S seeds. The state of an example that has
    ended does not change.

    Args:
        z: [2 S, B, 4 * units], the inputs of all gates.
        h: [2 S, B, units].
        c: [2 S, B, units].
        forward: [1, B] or [S, B], True for examples that are long enough to have the position that
            the forward direction reads.
        backward: The same for the backward direction.
    """
    i, f, g, o = z.chunk(4, -1)
    new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    new_h = o.sigmoid() * new_c.tanh()
    seeds, batch = len(z) // 2, forward.shape[-1]
    here = (
        torch.stack([forward, backward])
        .unsqueeze(-1)
        .expand(2, seeds, batch, 1)
        .reshape(2 * seeds, batch, 1)
    )
    return torch.where(here, new_h, h), torch.where(here, new_c, c)


def lstm(w: Weights, name: str, x: Tensor, lengths: Tensor) -> Tensor:
    """Return the states [S, B, T, 2 * units] of x [S, B, T, into]. Beyond an example's length the
    state does not change.
    """
    seeds, batch, length, _ = x.shape
    units = w[f"{name}.back"].shape[-1]
    back = (
        w[f"{name}.back"].transpose(0, 1).flatten(0, 1)
    )  # [2 S]: first all forward, then all backward
    # Use unbind instead of indexing, because the gradient of each index would be a whole tensor of
    # zeros.
    gates = [g.chunk(2, -1) for g in linear(x, w[f"{name}.into"], w[f"{name}.bias"]).unbind(2)]
    real = within(lengths, length).unbind(-1)
    h = c = x.new_zeros(2 * seeds, batch, units)
    forward: list[Tensor] = []
    backward: list[Tensor] = []
    for t in range(length):
        last = length - 1 - t
        z = torch.cat([gates[t][0], gates[last][1]]) + linear(h, back)
        h, c = step(z, h, c, real[t], real[last])
        forward.append(h[:seeds])
        backward.append(h[seeds:])
    return torch.cat([torch.stack(forward, 2), torch.stack(backward[::-1], 2)], -1)
