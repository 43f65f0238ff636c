"""The settings of a training run. Plain dataclass; `taskloom.learners.config` checks what a person writes."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from taskloom.learners.interface import LearnerError

MOST_THREADS = 1_024
"""More threads than any machine has cores; torch would start them all the same, and crash."""

Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained. The defaults are those that the CTL++ models share.

    Attributes:
        steps: Updates in all.
        batch: Examples in an update.
        rate: Learning rate after the warm-up, constant unless `halve_every` is set.
        warmup: The rate is rate * (i + 1) / warmup in step i < warmup.
        halve_every: Steps after which the rate is halved each time; 0: never.
        optimiser: `adamw` (decoupled weight decay), `adam`, or `sgd` (plain, without momentum).
        beta2: How slowly Adam forgets the squares of gradients.
        weight_decay: Of all weights.
        clip: The largest global norm of a seed's gradient; 0 is no limit.
        evaluate_every: Steps between points of the learning curve; 0: only at the end.
        evaluate_at: Further steps at which a point is wanted.
        patience: Stop after this many points without a better `dev` score and keep the best weights; 0: never, keep the last.
        order_seed: Of the order of batches, which all seeds share, as in the reference.
        checkpoint_every: Steps between checkpoints, when a folder is given.
        device: `auto` takes a GPU where there is one.
        precision: `auto` is fp32 on the CPU and tf32 on a GPU. bf16 and fp16 keep weights in fp32; fp16 scales the loss.
        threads: CPU threads. One by default: results are then the same bits on any number of cores, and neighbours do no harm.
        shortest: Batches are padded to at least this many tokens, so that rare short lengths need no program of their own.
        compile: Whether layers are compiled on a GPU.
        graphs: Whether steps are captured as CUDA graphs, one per length.
    """

    steps: int = 80_000
    batch: int = 512
    rate: float = 1.5e-4
    warmup: int = 500
    halve_every: int = 0
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    beta2: float = 0.999
    weight_decay: float = 0.0
    clip: float = 5.0
    evaluate_every: int = 1_000
    evaluate_at: tuple[int, ...] = ()
    patience: int = 0
    order_seed: int = 0
    checkpoint_every: int = 5_000
    device: str = "auto"
    precision: Precision = "auto"
    threads: int = 1
    shortest: int = 0
    compile: bool = True
    graphs: bool = True

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise LearnerError(f"{one.name} is {value}; it must be a number")
        for name in ("steps", "batch", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in (
            "warmup",
            "halve_every",
            "weight_decay",
            "clip",
            "evaluate_every",
            "patience",
            "shortest",
            "threads",
        ):
            if getattr(self, name) < 0:
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be at least 0")
        if self.threads > MOST_THREADS:
            raise LearnerError(f"threads is {self.threads}; it must be at most {MOST_THREADS}")
        if any(step < 1 for step in self.evaluate_at):
            raise LearnerError(f"evaluate_at has {min(self.evaluate_at)}; steps are counted from 1")
        if not self.rate > 0:
            raise LearnerError(f"rate is {self.rate}; a learning rate must be above 0")
        if not 0 < self.beta2 < 1:
            raise LearnerError(f"beta2 is {self.beta2}; it must lie between 0 and 1")

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rate = self.rate * min(1.0, (step + 1) / self.warmup) if self.warmup else self.rate
        return rate * 0.5 ** (step // self.halve_every) if self.halve_every else rate

    def points(self) -> set[int]:
        """Return the steps after which the splits are evaluated; the last one always."""
        every = set(range(self.evaluate_every, self.steps + 1, self.evaluate_every)) if self.evaluate_every else set()
        return every | {s for s in self.evaluate_at if 0 < s <= self.steps} | {self.steps}
