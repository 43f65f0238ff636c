"""Training loop for language models, shared by fine-tuning, LoRA and prompt tuning, for one task or
many at once.

The trained weights are a dictionary of named tensors. The prompts of many tasks are one tensor
[tasks, n, d], and the LoRA matrices of many tasks have a task axis as well. Since the model is
frozen, the gradients of different tasks are independent: for each task, a step over the batches of
all tasks equals the step that it would take alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from taskloom.core.seeding import Key
from taskloom.learners.accelerated.cuda_graphs import Captured, can_capture
from taskloom.learners.accelerated.llama import Shortcuts
from taskloom.learners.interface import (
    LearnerError,
    Paused,
    Point,
    Progress,
    Report,
    TrainingError,
    report_points,
    report_step,
)
from taskloom.learners.pretrained.encoding import EncodedRows, draw_targets
from taskloom.learners.pretrained.forward import IGNORED, Batch, collate, losses, send
from taskloom.learners.pretrained.models import Base
from taskloom.learners.training import checkpoint
from taskloom.learners.training.checkpoint import Watch, watching
from taskloom.learners.training.loop import Order
from taskloom.learners.training.out_of_memory import is_short
from taskloom.learners.training.settings import Training
from taskloom.learners.training.step import GROWTH_STEPS, computing, pick_precision, using_threads

Scores = Callable[[Sequence[int], Sequence[EncodedRows]], Sequence[tuple[float, float]]]
"""Maps the indices of tasks and their rows of a split to each task's score and loss."""

LOOK_EVERY = 25
"""Steps between reads of the loss from a GPU. After each read, the GPU is idle until the next step
is sent.
"""

WIDTHS = 8
"""Multiple to which the widths of batches are rounded up, because capturing each different shape
takes some seconds.
"""


@dataclass(slots=True)
class TaskRecord:
    """Learning curve and early stopping of one task."""

    curve: list[Point] = field(default_factory=list)
    best: tuple[float, float] = (-1.0, 0.0)
    best_step: int = 0
    since: int = 0

    def stopped(self, patience: int) -> bool:
        """True if none of the last `patience` points improved the score. With 0, training never
        stops early.
        """
        return bool(patience) and self.since >= patience


class Adapter:
    """Trains named tensors of a base on the rows of one or more tasks."""

    def __init__(
        self,
        base: Base,
        trained: Mapping[str, Tensor],
        tasks: Mapping[str, EncodedRows],
        how: Training,
        seed: int,
        *,
        prompts: Tensor | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        # Tasks of different sizes take the same number of steps. Epochs refer to the largest task.
        how = how.for_rows(max(len(rows) for rows in tasks.values()))
        self.base, self.how, self.seed, self.prompts = base, how, seed, prompts
        self.trained = dict(trained)
        self.tasks = dict(tasks)
        # True if trained tensors have a task axis. A model that is trained as a whole has one task.
        self.stacked = prompts is not None or len(self.tasks) > 1
        self.device = next(iter(self.trained.values())).device
        self.precision = pick_precision(how.precision, self.device)
        _check_how(base, how, len(self.tasks))
        self.optimiser = _optimiser(list(self.trained.values()), how, self.device)
        # If the whole model is trained, only this order depends on the seed.
        self.orders = {
            name: Order(np.array(rows.lengths(), dtype=np.int64), how.batch, how.order_seed + seed)
            for name, rows in tasks.items()
        }
        self.fast = Captured(self) if can_capture(base, how, self.device) else None
        self.key = Key("adapting", seed)
        self.records = {name: TaskRecord() for name in tasks}
        self.best: dict[str, Tensor] | None = None
        self._ahead: tuple[Batch, Tensor] | None = None
        self.done = 0
        self.parts = 1
        self.loss = 0.0
        # Losses and hits of the training batches since the last point. A hit means that every
        # target token is the likeliest, given those before it.
        self.sums = torch.zeros(len(self.tasks), device=self.device)
        self.hits = torch.zeros(len(self.tasks), device=self.device)
        self.last = torch.zeros(len(self.tasks), device=self.device)
        self.bad = torch.full((), -1, device=self.device)
        self.measured = 0
        self.folder: Path | None = None
        # Scale of an fp16 loss, whose gradients would otherwise vanish, and the number of steps
        # since the last overflow.
        self.scale, self.calm = (65536.0 if self.precision == "fp16" else 1.0), 0
        described = {
            "settings": checkpoint.lasting(how),
            "seed": seed,
            "tasks": {n: len(r) for n, r in tasks.items()},
        }
        self.identity: dict[str, Any] = json.loads(json.dumps({**described, **(identity or {})}))

    def go(
        self,
        splits: Mapping[str, Sequence[EncodedRows]],
        score: Scores,
        folder: Path | None = None,
        progress: Report | None = None,
        seconds: float | None = None,
    ) -> None:
        """Train to the end, or until the time limit. Afterwards the trained tensors hold the
        selected weights.

        Args:
            splits: Rows of every task by split, in the tasks' order.
            score: Scores a task on some rows.
            folder: Folder of checkpoints.
            progress: Called after every step.
            seconds: Time limit.
        """
        if self.how.patience and "dev" not in splits:
            raise LearnerError(
                "patience stops a run by its score on the split 'dev', and there is none; set"
                " patience to 0"
            )
        if seconds is not None and folder is None:
            raise LearnerError("a run with limited time needs a folder to be resumed from")
        self.folder = None if folder is None else Path(folder)
        with using_threads(self.how.threads), watching(self.folder) as watch:
            self._run(watch, splits, score, progress, seconds)

    def _run(
        self,
        watch: Watch,
        splits: Mapping[str, Sequence[EncodedRows]],
        score: Scores,
        progress: Report | None,
        seconds: float | None,
    ) -> None:
        folder = self.folder
        if folder is not None:
            self._resume(folder)
        began, points = time.monotonic(), self.how.points()
        while self.done < self.how.steps and not self._stopped():
            self._step()
            self.done += 1
            if self.done in points:
                self._measure(splits, score)
            now_at = Progress(self.done, self.how.steps, self.loss, time.monotonic() - began)
            report_step(now_at)
            if progress:
                progress(now_at)
            regular = self.done % self.how.checkpoint_every == 0
            if folder and self.done < self.how.steps and (regular or watch.due()):
                with watch.saving():
                    self._save(folder)
                watch.end(self.done, self.how.steps)
            out_of_time = seconds is not None and time.monotonic() - began > seconds
            if out_of_time and self.done < self.how.steps:
                assert folder is not None
                self._save(folder)
                raise Paused(
                    f"the run is saved after step {self.done} of {self.how.steps}; repeat the call"
                    " to resume it"
                )
        self._look()
        if folder:
            self._save(folder)
        self.base.model.eval()
        if self.best is not None:
            with torch.no_grad():
                for name, tensor in self.trained.items():
                    tensor.copy_(self.best[name])

    def _stopped(self) -> bool:
        return all(record.stopped(self.how.patience) for record in self.records.values())

    def _batch(self, step: int) -> tuple[Batch, Tensor]:
        """Join the batches of all tasks for a step into one batch, and return it with the task
        index of each row.
        """
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        which: list[int] = []
        for number, (name, rows) in enumerate(self.tasks.items()):
            epoch, index = self.orders[name].position(step)
            chosen = self.orders[name].epoch(epoch)[0][index]
            sources += [rows.sources[row] for row in chosen]
            targets += draw_targets(rows, chosen, self.key, step)
            which += [number] * len(chosen)
        batch = collate(self.base, sources, targets, WIDTHS if self.device.type == "cuda" else 1)
        return batch.to(self.device), send(torch.tensor(which), self.device)

    def _step(self) -> None:
        how = self.how
        self.base.model.train()
        batch, which = self._ahead if self._ahead is not None else self._batch(self.done)
        self._ahead = None
        rate = how.rate_at(self.done)
        while True:
            try:
                sums, hits = self._update(batch, which, rate)
                break
            except RuntimeError as error:
                if not is_short(error):
                    raise
            self._halve(len(which))
        self.last.copy_(sums)
        self.sums += sums
        self.hits += hits
        self.bad.copy_(
            torch.where((self.bad < 0) & ~torch.isfinite(sums).all(), self.done, self.bad)
        )
        if self.device.type == "cuda" and self.done + 1 < how.steps:
            self._ahead = self._batch(self.done + 1)  # while the device works
        if self.device.type == "cpu" or self.done % LOOK_EVERY == 0:
            self._look()

    def _look(self) -> None:
        """Wait for the device and read the loss. Raise an error if it is not a number."""
        self.loss = float(self.last.mean())
        bad = int(self.bad)
        if bad >= 0:
            self._fault("the loss is not a number", bad)

    def _fault(self, what: str, step: int) -> NoReturn:
        raise TrainingError(f"{what} after step {step}; {checkpoint.note_fault(self.folder, step)}")

    def _update(self, batch: Batch, which: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """Take one step of the optimiser; return each task's loss and share of hits."""
        if self.fast is not None:
            return self.fast.step(batch, which, rate)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        sums, hits = self._backward(batch, which)
        if self.precision == "fp16" and not self._unscale():
            return sums, hits
        if self.how.clip:
            self.clip()
        self.optimiser.step()
        return sums, hits

    def _unscale(self) -> bool:
        """Divide gradients by the scale of fp16. If they overflowed, skip the step and halve the
        scale.
        """
        gradients = [t.grad for t in self.trained.values() if t.grad is not None]
        fine = bool(torch.stack([g.isfinite().all() for g in gradients]).all())
        if not fine:
            self.scale, self.calm = self.scale / 2, 0
            return False
        for gradient in gradients:
            gradient.div_(self.scale)
        self.calm += 1
        if self.calm >= GROWTH_STEPS:
            self.scale, self.calm = self.scale * 2, 0
        return True

    def _halve(self, rows: int) -> None:
        if 2 * self.parts > rows:
            raise LearnerError(
                f"one example of '{self.base.name}' does not fit into the memory of {self.device}; "
                "take bf16, LoRA or a prompt instead of full fine-tuning, or a smaller model"
            )
        self.parts *= 2
        self.fast = None  # captured steps use memory of their own
        torch.cuda.empty_cache()
        warnings.warn(
            f"out of memory on {self.device}: continuing with batches in {self.parts} parts",
            stacklevel=2,
        )

    def _backward(self, batch: Batch, which: Tensor) -> tuple[Tensor, Tensor]:
        """Compute gradients, split into the number of parts that memory requires."""
        counts = self.counts(batch, which)
        sums, hits = torch.zeros_like(counts), torch.zeros_like(counts)
        for rows in torch.arange(len(which), device=self.device).chunk(self.parts):
            # Dropout follows the seed and the step, not the history, so that a resumed run draws
            # the same masks.
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(self.key.hash64("dropout", self.done, int(rows[0])) >> 1)
                more = self.gradients(batch.rows(rows), which[rows], counts)
            sums, hits = sums + more[0], hits + more[1]
        return sums, hits / torch.bincount(which, minlength=len(self.tasks))

    def counts(self, batch: Batch, which: Tensor) -> Tensor:
        """Number of target tokens of each task."""
        zero = torch.zeros(len(self.tasks), device=self.device)
        return zero.index_add(0, which, (batch.labels != IGNORED).sum(1).float())

    def gradients(
        self,
        batch: Batch,
        which: Tensor,
        counts: Tensor,
        fast: Shortcuts = Shortcuts(),  # noqa: B008 - immutable
        precision: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Add the gradients of the mean loss per target token, summed over tasks. Return losses and
        hits by task.
        """
        adapters: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self.stacked:
            adapters = self.base.choice.of(which, self.even(len(which)))
        with computing(precision or self.precision, self.device), adapters:
            tasks = which if self.prompts is not None else None
            each, _, right = losses(
                self.base, batch, self.prompts, tasks, fast, self.how.label_smoothing
            )
        shares = each / counts[which]
        torch.autograd.backward(shares.sum() * self.scale)
        if fast.rounded:
            fast.rounded.hand_over()
        zero = torch.zeros_like(counts)
        return zero.index_add(0, which, shares.detach()), zero.index_add(0, which, right.float())

    def even(self, rows: int) -> bool:
        """True if the rows are a whole batch with the same number of rows for every task."""
        sizes = [order.batch for order in self.orders.values()]
        return rows == sum(sizes) and len(set(sizes)) == 1

    def clip(self) -> None:
        """Clip the gradient to the maximum norm. Each task of a stack has its own norm."""
        if not self.stacked:
            torch.nn.utils.clip_grad_norm_(list(self.trained.values()), self.how.clip)
            return
        gradients = [t.grad for t in self.trained.values() if t.grad is not None]
        norm = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
        for gradient in gradients:
            gradient.mul_((self.how.clip / (norm + 1e-6)).clamp(max=1.0).view(-1, 1, 1))

    def _measure(self, splits: Mapping[str, Sequence[EncodedRows]], score: Scores) -> None:
        self.base.model.eval()
        self._look()
        n = self.done - self.measured
        records = list(self.records.values())
        going = [i for i, one in enumerate(records) if not one.stopped(self.how.patience)]
        # the training loss would otherwise be measured with the current weights
        if "train" not in splits:
            for number in going:
                seen = float(self.hits[number]) / n, float(self.sums[number]) / n
                records[number].curve.append(Point(self.done, "train", *seen))
        for split, rows in splits.items():
            scores = score(going, [rows[number] for number in going])
            for number, (right, loss) in zip(going, scores, strict=True):
                record = records[number]
                record.curve.append(Point(self.done, split, right, loss))
                if split == "dev" and self.how.patience:
                    record.since += 1
                    if (right, -loss) > record.best:
                        record.best, record.best_step, record.since = (right, -loss), self.done, 0
                        self._keep(number)
        for number in going:
            curve = records[number].curve
            report_points(number, [point for point in curve if point.step == self.done])
        self.sums.zero_()
        self.hits.zero_()
        self.measured = self.done

    def _keep(self, number: int) -> None:
        """Keep the current weights as the best ones. For a stack, keep those of one task."""
        if self.best is None:
            self.best = {name: tensor.detach().clone() for name, tensor in self.trained.items()}
        for name, tensor in self.trained.items():
            if not self.stacked:
                self.best[name].copy_(tensor.detach())
            else:
                self.best[name][number].copy_(tensor.detach()[number])

    def _save(self, folder: Path) -> None:
        # raises an error for a broken state, which must never replace a good checkpoint
        self._look()
        if not checkpoint.sound(self.trained.values()):
            self._fault("a weight is not a number", self.done - 1)
        tensors = {f"trained.{n}": t for n, t in self.trained.items()}
        for name, tensor in self.trained.items():
            for moment, value in self.optimiser.state[tensor].items():
                # Adafactor counts its steps in Python.
                tensors[f"optimiser.{moment}.{name}"] = torch.as_tensor(value)
        if self.best is not None:
            tensors |= {f"best.{n}": t for n, t in self.best.items()}
        records = {name: dataclasses.asdict(r) for name, r in self.records.items()}
        tensors |= {"sums": self.sums, "hits": self.hits}
        about = {
            "identity": self.identity,
            "done": self.done,
            "measured": self.measured,
            "records": records,
        }
        about |= {"scale": self.scale, "calm": self.calm}
        checkpoint.save(folder, tensors, about)

    def _resume(self, folder: Path) -> None:
        saved = checkpoint.read(folder)
        if saved is None:
            return
        with checkpoint.restoring(folder):
            checkpoint.same_run(folder, saved[1]["identity"], self.identity)
            self._restore(*saved)

    def _restore(self, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        with torch.no_grad():
            for name, tensor in self.trained.items():
                tensor.copy_(tensors[f"trained.{name}"])
                state = {}
                for key, value in tensors.items():
                    group, *rest = key.split(".", 2)
                    if group == "optimiser" and rest[1] == name:
                        state[rest[0]] = value.to(self.device)
                self.optimiser.state[tensor] = state
            if any(k.startswith("best.") for k in tensors):
                self.best = {n: tensors[f"best.{n}"].to(self.device) for n in self.trained}
        self.sums, self.hits = tensors["sums"].to(self.device), tensors["hits"].to(self.device)
        self.done, self.measured = about["done"], about["measured"]
        if self.precision == "fp16":
            self.scale, self.calm = about["scale"], about["calm"]
        for name, saved in about["records"].items():
            self.records[name] = TaskRecord(
                [Point(**p) for p in saved["curve"]],
                tuple(saved["best"]),
                saved["best_step"],
                saved["since"],
            )


def _check_how(base: Base, how: Training, tasks: int) -> None:
    """Raise an error for settings that do not work with this model."""
    if how.label_smoothing and base.kind == "pointer":
        raise LearnerError(
            "label_smoothing spreads a target over a vocabulary, and this learner points at spans;"
            " set it to 0"
        )
    if how.optimiser == "adafactor" and tasks > 1:
        raise LearnerError(
            "optimiser is adafactor, which scales each step by the norm of the weights of all"
            " tasks at once; train one task at a time, or use adamw"
        )


def _optimiser(tensors: list[Tensor], how: Training, device: torch.device) -> torch.optim.Optimizer:
    """Build one of torch's own optimisers. On a GPU it is fused and reads its rate from a tensor,
    for captured steps.
    """
    if how.optimiser == "sgd":
        raise LearnerError(
            "optimiser is sgd, which is only for networks from scratch; use adamw or adam"
        )
    if how.optimiser == "adafactor":
        from transformers.optimization import Adafactor

        # As T5 was trained: a given rate times the size of each weight, no momentum, updates
        # clipped at 1.
        return Adafactor(  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
            tensors,
            lr=how.rate,
            scale_parameter=True,
            relative_step=False,
            weight_decay=how.weight_decay,
        )
    kind = torch.optim.AdamW if how.optimiser == "adamw" else torch.optim.Adam
    on_gpu = device.type == "cuda"
    rate = torch.tensor(how.rate, device=device) if on_gpu else how.rate
    betas = (0.9, how.beta2)
    return kind(
        tensors,
        lr=rate,
        betas=betas,
        eps=how.epsilon,
        weight_decay=how.weight_decay,
        fused=on_gpu,
        capturable=on_gpu,
    )
