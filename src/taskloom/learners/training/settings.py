"""Settings of a training run, as a plain dataclass. `taskloom.learners.config` checks settings that
users write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

from taskloom.learners.config import later_setting
from taskloom.learners.interface import LearnerError

MOST_THREADS = 1_024
"""Maximum number of threads, more than any machine has cores. With more, torch would crash."""

Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True, slots=True)
class Training:
    """Settings of a training run. The defaults are those that the CTL++ models share.

    Attributes:
        steps: Total number of updates, unless `epochs` is set.
        batch: Examples per update.
        rate: Learning rate after the warm-up, constant unless `halve_every` or `decay` is set.
        warmup: Number of warm-up steps; in step i < warmup the rate is rate * (i + 1) / warmup.
        halve_every: Steps between halvings of the rate; 0: never.
        optimiser: `adamw` (decoupled weight decay), `adam`, `sgd` (plain, only for networks from
            scratch) or `adafactor` (the rate times each weight's size, as T5 was trained; only for
            language models).
        beta2: Adam's decay rate for the squares of gradients.
        weight_decay: Weight decay of all weights.
        clip: Maximum global norm of a seed's gradient; 0: no limit.
        evaluate_every: Steps between points of the learning curve; 0: only at the end.
        evaluate_at: Further steps at which to add a point.
        patience: Stop after this many points without a better `dev` score, and keep the best
            weights. With 0, never stop early and keep the last weights.
        order_seed: Seed of the order of batches. All seeds of a network from scratch share it, as
            in the reference. Language models add the run's seed to it, because the order is the
            only use of the seed if a whole model is trained.
        checkpoint_every: Steps between checkpoints, if a folder is given.
        device: `auto` uses a GPU if there is one.
        precision: `auto` is fp32 on the CPU and tf32 on a GPU. bf16 and fp16 keep weights in fp32;
            fp16 scales the loss.
        threads: CPU threads. The default is one, so that results are bit-identical on any number of
            cores and other processes do not slow training down.
        shortest: Minimum width of batches in tokens. Padding to it avoids separate programs for
            rare short lengths.
        compile: True to compile layers on a GPU.
        kernels: Whether NDR and the Transformer compute their layers on a GPU with Taskloom's own
            Triton kernels: `always`, `never`, or `auto`, which uses the kernels where they were
            measured to be faster (NDR in tf32 and bf16, the Transformer in bf16). Needs `compile`.
        graphs: True to capture steps as CUDA graphs, one per length.
        epochs: Passes over the training split, instead of `steps`; 0: use `steps`.
        evaluate_epochs: Epochs between points of the learning curve, instead of `evaluate_every`;
            0: use `evaluate_every`.
        decay: Schedule of the rate after the warm-up: it stays the same (`constant`), or falls to 0
            at the last step (`linear`, `cosine`).
        epsilon: Adam's epsilon, added to the denominator.
        label_smoothing: Share of a target's probability that is spread evenly over all classes or
            tokens in training.
    """

    steps: int = 80_000
    batch: int = 512
    rate: float = 1.5e-4
    warmup: int = 500
    halve_every: int = 0
    optimiser: Literal["adamw", "adam", "sgd", "adafactor"] = "adamw"
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
    epochs: float = later_setting(0.0)
    evaluate_epochs: float = later_setting(0.0)
    decay: Literal["constant", "linear", "cosine"] = later_setting("constant")
    epsilon: float = later_setting(1e-8)
    label_smoothing: float = later_setting(0.0)
    kernels: Literal["auto", "always", "never"] = later_setting("auto")

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
            "epochs",
            "evaluate_epochs",
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
            raise LearnerError(f"beta2 is {self.beta2}; it must be between 0 and 1")
        if not self.epsilon > 0:
            raise LearnerError(f"epsilon is {self.epsilon}; it must be above 0")
        if not 0 <= self.label_smoothing < 1:
            raise LearnerError(
                f"label_smoothing is {self.label_smoothing}; it must be at least 0 and below 1"
            )
        if self.decay != "constant" and self.halve_every:
            raise LearnerError(
                f"decay is {self.decay} and halve_every is {self.halve_every}; set only one of them"
            )

    def for_rows(self, rows: int) -> Training:
        """Return the settings for a training split of this size, with epochs converted to steps.

        An epoch leaves out the rows that do not fill a batch. A split smaller than a batch is one
        batch.
        """
        if not self.epochs and not self.evaluate_epochs:
            return self
        per_epoch = max(1, rows // self.batch)
        steps, every = self.steps, self.evaluate_every
        if self.epochs:
            steps = max(1, round(self.epochs * per_epoch))
        if self.evaluate_epochs:
            every = max(1, round(self.evaluate_epochs * per_epoch))
        return replace(self, steps=steps, evaluate_every=every, epochs=0.0, evaluate_epochs=0.0)

    def rate_at(self, step: int) -> float:
        """Learning rate at a step, counted from 0."""
        rate = self.rate
        if self.warmup:
            rate *= min(1.0, (step + 1) / self.warmup)
        if self.halve_every:
            return rate * 0.5 ** (step // self.halve_every)
        past = self.share_past(step)
        if self.decay == "linear":
            return rate * (1 - past)
        if self.decay == "cosine":
            return rate * (0.5 * (1 + math.cos(math.pi * past)))
        return rate

    def share_past(self, step: int) -> float:
        """Share of the steps after the warm-up that come before this step, from 0 to 1."""
        return min(1.0, max(0, step - self.warmup) / max(1, self.steps - self.warmup))

    def points(self) -> set[int]:
        """Steps after which the splits are evaluated, always including the last one."""
        points = {self.steps}
        if self.evaluate_every:
            points.update(range(self.evaluate_every, self.steps + 1, self.evaluate_every))
        points.update(step for step in self.evaluate_at if 0 < step <= self.steps)
        return points
