"""A bidirectional LSTM layer that gives its state at every position, for a stack of seeds.

z = W x_t + b + U h        [i, f, g, o] = z        c' = sigma(f) c + sigma(i) tanh(g)        h' = sigma(o) tanh(c')
"""

from __future__ import annotations

import torch
from torch import Tensor

from taskloom.learners.scratch.nets.ops import Weights, linear, uniform, within


def lstm_shapes(name: str, into: int, units: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of both directions side by side; one bias, since two that are always added are one."""
    return {
        f"{name}.into": (8 * units, into),
        f"{name}.bias": (8 * units,),
        f"{name}.back": (2, 4 * units, units),
    }


def start_lstm(random: torch.Generator, name: str, into: int, units: int) -> dict[str, Tensor]:
    """Draw weights uniformly over +-1/sqrt(units), as torch starts an LSTM."""
    return {n: uniform(random, shape, units**-0.5) for n, shape in lstm_shapes(name, into, units).items()}


def step(z: Tensor, h: Tensor, c: Tensor, forward: Tensor, backward: Tensor) -> tuple[Tensor, Tensor]:
    """Take one step of both directions, side by side as 2 S seeds; a state stays as it is in examples that are over.

    Args:
        z: [2 S, B, 4 * units] all gates.
        h: [2 S, B, units].
        c: [2 S, B, units].
        forward: [1, B] or [S, B] which examples have the position that the forward direction reads.
        backward: Likewise.
    """
    i, f, g, o = z.chunk(4, -1)
    new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    new_h = o.sigmoid() * new_c.tanh()
    seeds, batch = len(z) // 2, forward.shape[-1]
    here = torch.stack([forward, backward]).unsqueeze(-1).expand(2, seeds, batch, 1).reshape(2 * seeds, batch, 1)
    return torch.where(here, new_h, h), torch.where(here, new_c, c)


def lstm(w: Weights, name: str, x: Tensor, lengths: Tensor) -> Tensor:
    """States [S, B, T, 2 * units] of x [S, B, T, into]; beyond an example's length a state stays as it is."""
    seeds, batch, length, _ = x.shape
    units = w[f"{name}.back"].shape[-1]
    back = w[f"{name}.back"].transpose(0, 1).flatten(0, 1)  # [2 S]: first all forward, then all backward
    # unbind, not indexing: the gradient of an index is a whole tensor of zeros each time.
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
