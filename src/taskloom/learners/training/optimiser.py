"""AdamW, Adam and SGD over a stack of seeds, each with its own norm, clipping and loss scale.

All weights of all seeds lie in one matrix [seeds, numbers]: an update is a dozen operations on
three matrices.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from taskloom.learners.training.settings import Training

_ALIGN = 8
"""Weights start at a multiple of this many numbers, so that matrix products may read wide words."""

BETA1 = 0.9
GROWTH_STEPS = 2_000
"""Steps without an overflow after which an fp16 loss scale is doubled."""


class Flat:
    """Named weights as views into one matrix [seeds, numbers]."""

    def __init__(
        self, shapes: Mapping[str, tuple[int, ...]], seeds: int, device: torch.device
    ) -> None:
        self.places: dict[str, tuple[int, int, tuple[int, ...]]] = {}
        end = 0
        for name, shape in shapes.items():
            size = torch.Size(shape).numel()
            self.places[name] = (end, end + size, shape)
            end += -(-size // _ALIGN) * _ALIGN
        self.matrix = torch.zeros(seeds, end, device=device)

    def views(self, matrix: Tensor | None = None) -> dict[str, Tensor]:
        """Return the weights by name, as leaves that share the matrix's memory."""
        source = (self.matrix if matrix is None else matrix).detach()
        return {n: source[:, a:b].view(-1, *shape) for n, (a, b, shape) in self.places.items()}

    def gather(self, pieces: Mapping[str, Tensor]) -> Tensor:
        """Join named tensors [seeds, ...] (gradients) into one matrix."""
        out = []
        for name, (a, b, _) in self.places.items():
            piece = pieces[name].flatten(1)
            out.append(piece)
            padding = -(b - a) % _ALIGN
            if padding:
                out.append(piece.new_zeros(piece.shape[0], padding))
        return torch.cat(out, 1)


class TrainingState:
    """Everything that changes during training, on the device."""

    def __init__(self, flat: Flat, fp16: bool) -> None:
        weights = flat.matrix
        seeds = weights.shape[0]
        self.weights = weights
        self.mean = torch.zeros_like(weights)
        self.square = torch.zeros_like(weights)
        self.step = torch.zeros((), dtype=torch.int32, device=weights.device)
        self.updates = torch.zeros(seeds, 1, device=weights.device)
        self.scale = torch.full((seeds, 1), 65536.0 if fp16 else 1.0, device=weights.device)
        self.calm = torch.zeros(seeds, 1, device=weights.device)
        self.loss = torch.zeros(seeds, device=weights.device)
        self.right = torch.zeros(seeds, device=weights.device)
        self.bad = torch.full((seeds,), -1, dtype=torch.int32, device=weights.device)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, for checkpoints."""
        return dict(vars(self))

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Take a checkpoint's values, in place, since captured graphs know the memory."""
        for name, tensor in self.tensors().items():
            tensor.copy_(saved[name])

    @contextlib.contextmanager
    def put_back(self) -> Iterator[None]:
        """Restore the state after the block, even if it runs out of memory."""
        saved = {name: tensor.clone() for name, tensor in self.tensors().items()}
        try:
            yield
        finally:
            self.restore(saved)


def update(state: TrainingState, gradient: Tensor, how: Training, fp16: bool) -> None:
    """Take one step of the optimiser for every seed, in place."""
    norm = gradient.norm(dim=1, keepdim=True)
    fine = torch.isfinite(norm).to(gradient.dtype)
    if fp16:
        gradient = torch.nan_to_num(gradient / state.scale, 0.0, 0.0, 0.0)
        norm = norm / state.scale
        state.calm.copy_((state.calm + 1) * fine)
        grown = (state.calm >= GROWTH_STEPS).to(gradient.dtype)
        # Twice the scale after many steps without an overflow, half of it after an overflow. In
        # arithmetic rather than branches, because each seed decides for itself on the device.
        state.scale.mul_((1 + grown) * (0.5 + 0.5 * fine))
        state.calm.mul_(1 - grown)
    else:
        # Without loss scaling an overflow is an error, which the loop reports with its step.
        fine = torch.ones_like(fine)
    if how.clip:
        gradient = gradient * (how.clip / (norm + 1e-6)).clamp(max=1.0)
    # `Training.rate_at`, on the device: a captured graph must read the step from memory.
    if how.warmup:
        rate = how.rate * ((state.step + 1) / how.warmup).clamp(max=1.0)
    else:
        rate = torch.full_like(norm, how.rate)
    if how.halve_every:
        rate = rate * 0.5 ** (state.step // how.halve_every)
    elif how.decay != "constant":
        past = ((state.step - how.warmup) / max(1, how.steps - how.warmup)).clamp(0.0, 1.0)
        linear = how.decay == "linear"
        rate = rate * (1 - past if linear else 0.5 * (1 + torch.cos(math.pi * past)))
    rate = rate * fine  # a step whose gradient overflowed changes nothing
    if how.weight_decay and how.optimiser != "adamw":
        gradient = gradient + how.weight_decay * state.weights
    state.updates.add_(fine)
    if how.optimiser == "sgd":
        state.weights.sub_(rate * gradient)
        return
    # Adam: m += (1 - b1) (g - m), v += (1 - b2) (g^2 - v), both divided by 1 - b^t for their bias.
    state.mean.add_((gradient - state.mean) * ((1 - BETA1) * fine))
    state.square.add_((gradient * gradient - state.square) * ((1 - how.beta2) * fine))
    first = 1 - BETA1 ** state.updates.clamp(min=1)
    second = 1 - how.beta2 ** state.updates.clamp(min=1)
    if how.weight_decay and how.optimiser == "adamw":
        state.weights.mul_(1 - rate * how.weight_decay)
    state.weights.sub_(rate / first * state.mean / ((state.square / second).sqrt() + how.epsilon))
