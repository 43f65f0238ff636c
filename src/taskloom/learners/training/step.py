"""One training step of a stack of seeds: gradients, and their update by AdamW, Adam or SGD.
Gradients are computed eagerly, in parts if memory is short, or as a captured CUDA graph. Each seed
has its own norm, clipping and loss scale.

All weights of all seeds are in one matrix [seeds, numbers], so an update takes only a dozen
operations on three matrices.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from taskloom.learners.interface import LearnerError
from taskloom.learners.scratch.nets.ops import DropoutKeys, Kernels, Net, Wrap, judge
from taskloom.learners.scratch.tokens import Encoded
from taskloom.learners.training.out_of_memory import in_halves, is_short
from taskloom.learners.training.settings import Training

_ALIGN = 8
"""Alignment of weights, in numbers, so that matrix products can read wide words."""

BETA1 = 0.9
GROWTH_STEPS = 2_000
"""Steps without an overflow after which an fp16 loss scale is doubled."""


class Flat:
    """Named weights, stored as views into one matrix [seeds, numbers]."""

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
        """Return weights by name, as leaves that share the matrix's memory."""
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
        """Tensors by name, for checkpoints."""
        return dict(vars(self))

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Restore a checkpoint in place, because captured graphs refer to the memory addresses."""
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
        # Double the scale after many steps without an overflow, halve it after an overflow. This is
        # arithmetic instead of branches, because each seed decides for itself on the device.
        state.scale.mul_((1 + grown) * (0.5 + 0.5 * fine))
        state.calm.mul_(1 - grown)
    else:
        # Without loss scaling, an overflow is an error, which the loop reports with its step.
        fine = torch.ones_like(fine)
    if how.clip:
        gradient = gradient * (how.clip / (norm + 1e-6)).clamp(max=1.0)
    # Compute `Training.rate_at` on the device, because a captured graph must read the step from
    # memory.
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
    rate = rate * fine  # a step whose gradient overflowed has no effect
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


R = TypeVar("R")

ROUNDING = {"fp32": 1e-3, "tf32": 0.02, "bf16": 0.04, "fp16": 0.04}
"""Maximum relative difference between a compiled and a plain gradient that counts as rounding.

Measured in bf16: NDR's gradients differ by 0.01 from those in fp32. SmolLM2's, compiled with
rounding, differ by at most 0.02 from plain ones (fine-tuning, LoRA and prompts, on a CPU).
"""

FEWEST_NUMBERS = 16
"""Weights with at most this many numbers are not compared, because their gradients are sums that
nearly cancel and are mostly rounding.
"""

PLAIN_ROWS = 64
"""Number of rows computed at once for the comparison, because plain layers take more memory than
compiled ones.
"""

WARM_UPS = 3
"""Number of eager runs before a capture, in which kernels are compiled and libraries choose
algorithms.
"""


def pick_device(name: str) -> torch.device:
    """Choose the device. `auto` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise LearnerError(f"device is '{name}'; use auto, cpu, cuda or cuda:0") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise LearnerError(f"device is '{name}' but torch sees no GPU here; use auto or cpu")
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, NotImplementedError, AssertionError):
        raise LearnerError(
            f"device is '{name}', which cannot compute here; use auto, cpu, cuda or cuda:0"
        ) from None
    return device


def pick_precision(name: str, device: torch.device) -> str:
    """Choose the precision; `auto` is fp32 on the CPU, tf32 elsewhere."""
    if name != "auto":
        return name
    return "tf32" if device.type == "cuda" else "fp32"


@contextlib.contextmanager
def computing(precision: str, device: torch.device) -> Iterator[None]:
    """Use that precision for matrix products inside the block."""
    before = torch.get_float32_matmul_precision()
    # On a CPU, tf32 would be emulated slowly, so fp32 is used instead.
    loose = precision != "fp32" and device.type == "cuda"
    torch.set_float32_matmul_precision("high" if loose else "highest")
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    try:
        # Without its cache, autocast converts weights again at every use, as a captured graph must,
        # too.
        with torch.autocast(
            device.type, dtype=kind or torch.bfloat16, enabled=kind is not None, cache_enabled=False
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Use `number` CPU threads inside the block; 0 keeps torch's own choice.

    Threads wait for each other at every product, and there are many small products. They become
    extremely slow if another process needs a core.
    """
    before = torch.get_num_threads()
    if number:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def compiled(function: Callable[..., Any], rounded: bool = False) -> Callable[..., Any]:
    """Return the function compiled for each shape. Layers are compiled once and used at every
    depth.

    Args:
        function: A layer, or the update of weights.
        rounded: Round intermediate values as plain torch does. Measured with torch 2.11 on an H200,
            in bf16: without it, the backward pass of stacked NDR gives different gradients at every
            call, 10 to 20 % off for the weights of attention, and a stack that should learn stays
            at chance. With it, gradients are bit-identical between calls.
    """
    for limit in ("recompile_limit", "cache_size_limit"):
        if hasattr(torch._dynamo.config, limit):  # the name depends on the version of torch
            setattr(torch._dynamo.config, limit, 64)
    options: Any = {"emulate_precision_casts": True} if rounded and _rounding_is_known() else None
    fast: Callable[..., Any] = torch.compile(function, dynamic=False, options=options)
    return fast


def _rounding_is_known() -> bool:
    from torch._inductor import config

    return hasattr(config, "emulate_precision_casts")


def record(
    step: Callable[[], R], pool: Any, warm_ups: int = WARM_UPS
) -> tuple[torch.cuda.CUDAGraph, R]:
    """Record a step as a CUDA graph, and return it with the tensors that contain its results. The
    warm-up takes real steps.
    """
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(warm_ups):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with without_collecting(), torch.cuda.graph(graph, pool=pool):
        results = step()
    return graph, results


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Disable garbage collection inside the block, because freeing an earlier run's graph while a
    step is recorded would spoil the recording.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def largest_difference(
    gradients: Mapping[str, Tensor],
    plain: Mapping[str, Tensor],
    exact: Mapping[str, Tensor] | None = None,
) -> tuple[float, str]:
    """Return the largest relative difference between the two gradients of any weight for any seed,
    and the weight's name.

    The reference is the plain gradient or, if given, the `exact` one. In the latter case a
    difference only counts if it is more than twice that of the plain gradient, because some
    gradients are sums that nearly cancel, and rounding alone changes them by a tenth. Weights with
    few numbers, and those whose gradient is less than a thousandth of the total, are skipped.
    """
    reference = plain if exact is None else exact
    total = torch.stack([one.flatten(1).norm(dim=1) for one in reference.values()]).norm(dim=0)
    worst = (0.0, "")
    for name, right in reference.items():
        right = right.flatten(1)
        size = right.norm(dim=1)
        if right.shape[1] > FEWEST_NUMBERS:
            off = (gradients[name].flatten(1) - right).norm(dim=1) / size
            off = torch.where(size > total / 1000, off.nan_to_num(nan=torch.inf), 0.0)
            noise = ((plain[name].flatten(1) - right).norm(dim=1) / size).nan_to_num(nan=0.0)
            off = torch.where(off > 2 * noise, off, 0.0)
            worst = max(worst, (float(off.max()), name))
    return worst


def compiled_right(
    gradients: Mapping[str, Tensor],
    plain: Mapping[str, Tensor],
    precision: str,
    device: torch.device,
    exact: Mapping[str, Tensor] | None = None,
    what: str = "compiled layers",
    then: str = "without compiling",
) -> bool:
    """True if compiled layers give the same gradients as plain ones, up to rounding. Otherwise
    issue a warning.
    """
    worst, name = largest_difference(gradients, plain, exact)
    if worst <= ROUNDING[precision]:
        return True
    warnings.warn(
        f"{what} give other gradients than plain ones on {device} ({name} differs by {worst:.0%}):"
        f" continuing {then}; another version of torch may do better than {torch.__version__}",
        stacklevel=5,
    )
    return False


def takes_kernels(net: Net, how: Training, precision: str) -> bool:
    """True if kernels should compute a network's layers. `kernels_in` names the precisions in which
    they were measured to be faster.
    """
    return how.kernels == "always" or (
        how.kernels == "auto" and precision in getattr(net, "kernels_in", ())
    )


class Resident:
    """Encoded data on the device, from which batches are gathered by row number."""

    def __init__(self, data: Encoded, device: torch.device) -> None:
        self.tokens = torch.from_numpy(data.tokens).to(device)
        self.lengths = torch.from_numpy(data.lengths).to(device)
        self.labels = torch.from_numpy(data.labels).to(device)
        self.lengths_here = data.lengths

    def width(self, rows: Sequence[int]) -> int:
        """Number of tokens in the longest of the given rows."""
        return int(self.lengths_here[rows].max())

    def batch(self, rows: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens, cut to a width, and the lengths and labels of rows [batch] or [seeds,
        batch].
        """
        return self.tokens[rows][..., :width], self.lengths[rows], self.labels[rows]


class Stepper:
    """Trains a stack of seeds step by step, on shared rows [batch] or on separate rows [seeds,
    batch].
    """

    def __init__(self, net: Net, data: Encoded, seeds: Sequence[int], how: Training) -> None:
        self.net = net
        self.how = how
        self.device = pick_device(how.device)
        self.precision = pick_precision(how.precision, self.device)
        self.fp16 = self.precision == "fp16"
        self.flat = Flat(net.shapes(), len(seeds), self.device)
        self._starts = list(seeds)
        self._draw_start()
        self.weights = {name: view.requires_grad_() for name, view in self.flat.views().items()}
        self.state = TrainingState(self.flat, self.fp16)
        self.seeds = torch.tensor(
            [s & 0x7FFFFFFF for s in seeds], dtype=torch.int32, device=self.device
        )
        self.data = Resident(data, self.device)
        self.parts = 1
        on_gpu = self.device.type == "cuda"
        self.wrap: Wrap | None = (
            functools.partial(compiled, rounded=True) if on_gpu and how.compile else None
        )
        if self.wrap and takes_kernels(net, how, self.precision):
            self.wrap = Kernels(self.wrap)
        self.graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] | None = (
            {} if on_gpu and how.graphs else None
        )
        self._checked: set[tuple[int, int]] = set()
        self._rows: Tensor | None = None
        self._pool: Any = None

    def _draw_start(self) -> None:
        """Draw the initial weights of every seed."""
        views = self.flat.views()
        for s, seed in enumerate(self._starts):
            for name, start in self.net.start(torch.Generator().manual_seed(seed)).items():
                views[name][s].copy_(start)

    @contextlib.contextmanager
    def _at_start(self) -> Iterator[None]:
        """Use the initial weights of the seeds inside the block."""
        matrix = self.flat.matrix.detach()
        now = matrix.clone()
        self._draw_start()
        try:
            yield
        finally:
            matrix.copy_(now)

    def advance(self, rows: Tensor, width: int) -> None:
        """Perform one update with these rows."""
        with computing(self.precision, self.device):
            while True:
                try:
                    self._check_compiler(rows, width)
                    return (
                        self._step(rows, width)
                        if self.graphs is None
                        else self._replay(rows, width)
                    )
                except RuntimeError as error:
                    if not is_short(error):
                        raise
                self._halve(rows.shape[-1])

    def _halve(self, batch: int) -> None:
        if 2 * self.parts > batch:
            raise LearnerError(
                f"a single example does not fit into the memory of {self.device}; use a smaller"
                " state, fewer seeds at once, or bf16"
            )
        self.parts *= 2
        self.graphs = None
        torch.cuda.empty_cache()
        warnings.warn(
            f"out of memory on {self.device}: continuing with batches in {self.parts} parts",
            stacklevel=3,
        )

    def _step(self, rows: Tensor, width: int) -> None:
        batch = rows.shape[-1]
        size = -(-batch // self.parts)
        loss, right, gradient = self._part(rows[..., :size], width, 0, batch)
        for first in range(size, batch, size):
            more = self._part(rows[..., first : first + size], width, first, batch)
            loss, right, gradient = loss + more[0], right + more[1], gradient + more[2]
        state = self.state
        state.loss.add_(loss)
        state.right.add_(right)
        state.bad.copy_(torch.where((state.bad < 0) & ~torch.isfinite(loss), state.step, state.bad))
        change = self.wrap(update) if self.wrap else update
        change(state, gradient, self.how, self.fp16)
        state.step.add_(1)

    def _part(
        self, rows: Tensor, width: int, first: int, batch: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens, lengths, labels = self.data.batch(rows, width)
        dropout = DropoutKeys(self.seeds, self.state.step, self.net.sites, first)
        logits = self.net.forward(self.weights, tokens, lengths, dropout, self.wrap).float()
        losses, hits = judge(self.net, logits, tokens, labels, self.how.label_smoothing)
        loss = losses.sum(1) / batch
        total = (loss * self.state.scale[:, 0]).sum()
        gradients = torch.autograd.grad(total, list(self.weights.values()), materialize_grads=True)
        right = hits.sum(1) / batch
        return (
            loss.detach(),
            right,
            self.flat.gather(dict(zip(self.weights, gradients, strict=True))),
        )

    def _check_compiler(self, rows: Tensor, width: int) -> None:
        """Compare the compiled gradient with the plain one at the first batch of each shape, and
        stop compiling if they differ.

        Both gradients are computed with the initial weights of the seeds, so that a resumed run
        decides like an uninterrupted one. Later in training, rounding alone changes gradients by
        more than this check allows (NDR's plain ones in bf16 by 3 to 12 % for three seeds after
        77,000 steps, and by 1 % at the start), and kernels and compiled layers round in different
        places.
        """
        batch = rows.shape[-1]
        if self.wrap is None or self.parts > 1 or (batch, width) in self._checked:
            return
        self._checked.add((batch, width))
        with self._at_start():
            self._compare_compiler(rows, width)

    def _compare_compiler(self, rows: Tensor, width: int) -> None:
        batch = rows.shape[-1]
        wrap, self.wrap = self.wrap, None
        plain = self.flat.views(self._plain_gradient(rows, width))
        with computing("fp32", self.device):
            exact = self.flat.views(self._plain_gradient(rows, width))
        right = functools.partial(
            compiled_right, plain=plain, precision=self.precision, device=self.device, exact=exact
        )
        if isinstance(wrap, Kernels):
            self.wrap = wrap
            gradient = self._gradient_by_kernels(rows, width)
            if gradient is not None and right(
                self.flat.views(gradient), what="kernels", then="with compiled layers"
            ):
                return
            wrap = wrap.compile
        self.wrap = wrap
        gradient = self._part(rows, width, 0, batch)[2]
        if not right(self.flat.views(gradient)):
            self.wrap = None

    def _gradient_by_kernels(self, rows: Tensor, width: int) -> Tensor | None:
        """Compute the gradient with kernels. Return None if this device cannot build or launch
        them.
        """
        try:
            return self._part(rows, width, 0, rows.shape[-1])[2]
        except Exception as error:  # Triton's exceptions have no common class
            if isinstance(error, RuntimeError) and is_short(error):
                raise
            what = (str(error).splitlines() or [""])[0]
            warnings.warn(
                f"kernels do not run on {self.device} ({type(error).__name__}: {what}): continuing"
                " with compiled layers",
                stacklevel=4,
            )
            return None

    def _plain_gradient(self, rows: Tensor, width: int) -> Tensor:
        gradient = torch.zeros_like(self.flat.matrix)
        for first in range(0, rows.shape[-1], PLAIN_ROWS):
            gradient += self._part(
                rows[..., first : first + PLAIN_ROWS], width, first, rows.shape[-1]
            )[2]
        return gradient

    def _replay(self, rows: Tensor, width: int) -> None:
        assert self.graphs is not None
        if self._rows is None or self._rows.shape != rows.shape:
            self._rows = rows.clone()
        self._rows.copy_(rows)
        shape = (rows.shape[-1], width)
        graph = self.graphs.get(shape)
        if graph is None:
            graph = self.graphs[shape] = self._capture(width)
        graph.replay()

    def _capture(self, width: int) -> torch.cuda.CUDAGraph:
        """Capture a step as a CUDA graph."""
        assert self._rows is not None
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        rows = self._rows
        with self.state.put_back():
            return record(lambda: self._step(rows, width), self._pool)[0]

    def measure(
        self, data: Resident, weights: dict[str, Tensor] | None = None
    ) -> tuple[list[float], list[float]]:
        """Return the score and mean loss of every seed on some data, in evaluation mode, with its
        current or the given weights.
        """
        weights = weights or self.weights
        seeds = len(next(iter(weights.values())))
        right = torch.zeros(seeds, device=self.device, dtype=torch.float64)
        loss = torch.zeros(seeds, device=self.device, dtype=torch.float64)

        def part(rows: list[int]) -> None:
            tokens, lengths, labels = data.batch(
                torch.tensor(rows, device=self.device), data.width(rows)
            )
            logits = self.net.forward(weights, tokens, lengths).float()
            losses, hits = judge(self.net, logits, tokens, labels)
            right.add_(hits.sum(1))
            loss.add_(losses.sum(1))

        with torch.no_grad(), computing(self.precision, self.device):
            for rows, _ in even_batches(data.lengths_here, max(32, 16_384 // seeds)):
                in_halves(rows.tolist(), part)
        n = len(data.lengths_here)
        return (right / n).tolist(), (loss / n).tolist()


def even_batches(
    lengths: np.ndarray[Any, np.dtype[np.int64]], size: int
) -> Iterator[tuple[Any, int]]:
    """Yield all rows in batches of nearly equal length, with the width of each."""
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        yield rows, int(lengths[rows].max())
