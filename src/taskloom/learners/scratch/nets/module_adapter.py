"""Adapts an ordinary torch module to the training loop, for any number of seeds.

The module is built once and called with the weights of a seed (`torch.func.functional_call`). A
stack of seeds is one call under `vmap` if the module's operations allow it. To decide this, a test
on two examples compares outputs and gradients with those of each seed alone. Other modules
(recurrent layers, packed sequences) compute their seeds one after another.

Dropout (`torch.nn.Dropout`, `F.dropout`) uses the masks of `nets.ops`, which are a function of
seed, step and index, so a seed learns the same in a stack, alone, and after resuming from a
checkpoint. Other random numbers that `forward` draws in training are seeded with the same key.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from taskloom.core.errors import raised_at
from taskloom.learners.interface import LearnerError
from taskloom.learners.scratch.nets.ops import (
    DropoutKeys,
    Weights,
    Wrap,
    call_key,
    drop,
    judge_span_table,
    judge_spans,
)
from taskloom.learners.scratch.tokens import Encoded

TOLERANCE = 1e-3
"""Maximum relative difference that counts as rounding. fp32 sums in another order differ by about
1e-5, tf32 by 1e-3.
"""


class ModuleNet:
    """A module with `forward(tokens, lengths)` as a pure function of its weights.

    Attributes:
        name: Name of the learner, for error messages.
        build: Builds the module.
        classes: Required number of logits.
        described: Identity of the network, for checkpoints: settings, sizes, and the digest of the
            code.
        file: File that defines the learner, for error messages.
    """

    frame: ClassVar[tuple[bool, bool]] = (False, True)  # with EOS no input is empty
    sites: ClassVar[int] = 1  # the keys of further dropout calls are derived from that of the first

    def __init__(
        self,
        name: str,
        build: Callable[[], nn.Module],
        classes: int,
        described: str,
        file: str = "",
    ) -> None:
        self.name = name
        self.build = build
        self.classes = classes
        self.described = described
        self.file = file
        self.module = self._built(0)
        self.trained = [n for n, p in self.module.named_parameters() if p.requires_grad]
        self.draws = False
        self.stacks: bool | None = None

    def __repr__(self) -> str:
        return f"ModuleNet({self.described})"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the trained parameters. Buffers and frozen parameters are constants that all
        seeds share.
        """
        parameters = dict(self.module.named_parameters())
        return {name: tuple(parameters[name].shape) for name in self.trained}

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        """Draw initial weights as the module's constructor does, with a seed."""
        parameters = dict(self._built(random.initial_seed()).named_parameters())
        return {name: parameters[name].detach() for name in self.trained}

    def forward(
        self,
        weights: Weights,
        tokens: Tensor,
        lengths: Tensor,
        dropout: DropoutKeys | None = None,
        wrap: Wrap | None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Compute logits [seeds, batch, classes]. `trace` gets the output of every submodule that
        returns one vector per example.
        """
        seeds = len(next(iter(weights.values())))
        self.module.to(tokens.device).train(dropout is not None)
        if trace is not None:
            return self._traced(weights, tokens, lengths, trace)
        if seeds > 1 and self._stacks(weights, tokens, lengths):
            return self.stacked(weights, tokens, lengths, dropout)
        return self.alone(weights, tokens, lengths, dropout)

    def stacked(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, dropout: DropoutKeys | None = None
    ) -> Tensor:
        """Compute all seeds in one call."""
        first = dropout.first_row if dropout else 0

        def one(mine: dict[str, Tensor], key: Tensor | None) -> Tensor:
            with Masks(key, first), plain_attention():
                logits: Tensor = functional_call(self.module, mine, (tokens, lengths))
            return logits

        run = vmap(one, in_dims=(0, None if dropout is None else 0), randomness="error")
        logits: Tensor = run(dict(weights), dropout.keys[0] if dropout else None)
        return logits

    def alone(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, dropout: DropoutKeys | None = None
    ) -> Tensor:
        """Compute the seeds one after another."""
        # Use unbind instead of indexing, because the gradient of an index is a whole tensor of
        # zeros each time.
        rows = zip(*(w.unbind() for w in weights.values()), strict=True)
        out = []
        for s, row in enumerate(rows):
            key = dropout.keys[0, s] if dropout else None
            first = dropout.first_row if dropout else 0
            with Masks(key, first), plain_attention(), self._seeded(key, first):
                out.append(
                    functional_call(
                        self.module, dict(zip(weights, row, strict=True)), (tokens, lengths)
                    )
                )
        return torch.stack(out)

    def check(self, data: Encoded) -> None:
        """Run the module on two examples, and raise an error if the training loop cannot train it.

        The logits must have one column per answer, must not depend on padding or on the rest of the
        batch, and must be the same every time an input is answered. Buffers must not change in
        training, as those of batch normalisation do.
        """
        rows = [int(data.lengths.argmin()), int(data.lengths.argmax())]
        tokens = F.pad(torch.from_numpy(data.tokens[rows]), (0, 1))
        lengths = torch.from_numpy(data.lengths[rows])
        weights = {
            n: w.unsqueeze(0) for n, w in self.start(torch.Generator().manual_seed(0)).items()
        }
        short = int(lengths[0])
        with torch.no_grad():
            both = self._logits(weights, tokens, lengths, None)
            one = self._logits(weights, tokens[:1, :short], lengths[:1], None)
            if not _close(both[:, :1], one):
                raise LearnerError(
                    f"{self.name}: the logits of an input change with padding, with the rest of the"
                    " batch or from call to call; forward must not look at tokens beyond lengths,"
                    " nor draw random numbers when answering"
                )
            before = {n: b.clone() for n, b in self.module.named_buffers()}
            state = torch.get_rng_state()
            dropout = DropoutKeys(
                torch.zeros(1, dtype=torch.int32), torch.zeros((), dtype=torch.int32), self.sites
            )
            self._logits(weights, tokens, lengths, dropout)
            self.draws = not torch.equal(state, torch.get_rng_state())
            torch.set_rng_state(state)
        for name, buffer in self.module.named_buffers():
            if not torch.equal(buffer, before[name]):
                raise LearnerError(
                    f"{self.name}: the buffer '{name}' changes while training, as in batch"
                    " normalisation, and would not be saved; use a layer without running"
                    " statistics, such as LayerNorm"
                )

    def _logits(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, dropout: DropoutKeys | None
    ) -> Tensor:
        try:
            logits = self.forward(weights, tokens, lengths, dropout)
        except LearnerError:
            raise
        except Exception as error:
            raise self._fault("forward(tokens, lengths)", error) from error
        if logits.shape != (1, len(tokens), self.classes):
            raise LearnerError(
                f"{self.name}: forward returned the shape {list(logits.shape[1:])}; it must be"
                f" [batch, answers] = {[len(tokens), self.classes]}"
            )
        return logits

    def _built(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            try:
                module = self.build()
            except LearnerError:
                raise
            except Exception as error:
                raise self._fault("the constructor", error) from error
        if not isinstance(module, nn.Module):
            raise LearnerError(
                f"{self.name} gave {type(module).__name__}, where a torch.nn.Module should be"
            )
        return module

    def _fault(self, what: str, error: Exception) -> LearnerError:
        return LearnerError(
            f"{self.name}: {what} raised {type(error).__name__}:"
            f" {error}{raised_at(error, self.file)}"
        )

    def _stacks(self, weights: Weights, tokens: Tensor, lengths: Tensor) -> bool:
        """True if stacked seeds have the same outputs and gradients as each seed alone. Checked
        once.
        """
        if self.stacks is None:
            training = self.module.training
            self.stacks = not self.draws and stacks(self, weights, tokens[:2], lengths[:2])
            self.module.train(training)
        return self.stacks

    @contextlib.contextmanager
    def _seeded(self, key: Tensor | None, first_row: int) -> Iterator[None]:
        """Seed random numbers other than dropout masks inside the block."""
        if key is None or not self.draws:
            yield
            return
        devices = [key.device] if key.device.type == "cuda" else []
        high, low = (int(part) & 0xFFFFFFFF for part in key)
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed((high << 31 | low) + first_row)
            yield

    def _traced(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, trace: dict[str, Tensor]
    ) -> Tensor:
        states: dict[str, list[Tensor]] = {}

        def note(name: str, state: Any) -> None:
            if isinstance(state, Tensor) and state.dim() == 2 and len(state) == len(tokens):
                states.setdefault(name, []).append(state)

        def hook(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def collect(module: nn.Module, args: Any, out: Any) -> None:
                if name != "readout":  # the classifier's input, in every network
                    note(name, out)
                if isinstance(module, nn.Linear) and module.out_features == self.classes:
                    note("readout", args[0])

            return collect

        handles = [m.register_forward_hook(hook(n)) for n, m in self.module.named_modules() if n]
        try:
            logits = self.alone(weights, tokens, lengths)
        finally:
            for handle in handles:
                handle.remove()
        # A submodule that is called more than once has several states, so it is left out.
        trace.update(
            {n: torch.stack(each) for n, each in states.items() if len(each) == len(logits)}
        )
        return logits


class Masks(TorchFunctionMode):
    """Gives every dropout call its own mask by hashing. It is a torch-function mode so that it
    applies to any module's dropout.
    """

    def __init__(self, key: Tensor | None, first_row: int) -> None:
        super().__init__()
        self.key, self.first_row, self.calls = key, first_row, 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace dropout in training. Everything else is unchanged."""
        if func is F.dropout and self.key is not None:
            return self._dropped(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _dropped(
        self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        assert self.key is not None
        if not training or p == 0:
            return x
        self.calls += 1
        if p >= 1:
            return x * 0
        key = call_key(self.key, self.calls).unsqueeze(0)
        return drop(x.reshape(1, *(x.shape or (1,))), p, key, self.first_row).reshape(x.shape)


@contextlib.contextmanager
def plain_attention() -> Iterator[None]:
    """Use plain attention inside the block, because fused attention does not support stacks of
    seeds.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def stacks(net: ModuleNet, weights: Weights, tokens: Tensor, lengths: Tensor) -> bool:
    """True if, on a few examples, stacked seeds have the same logits and gradients as each seed
    alone.
    """
    seeds = torch.arange(len(next(iter(weights.values()))), dtype=torch.int32, device=tokens.device)
    dropout = DropoutKeys(
        seeds, torch.zeros((), dtype=torch.int32, device=tokens.device), net.sites
    )

    def results(run: Callable[..., Tensor]) -> list[Tensor]:
        net.module.train()
        leaves = {n: w.detach().clone().requires_grad_() for n, w in weights.items()}
        with torch.enable_grad():
            logits = run(leaves, tokens, lengths, dropout)
            total = logits.float().log_softmax(-1)[..., 0].sum()
            gradients = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        net.module.eval()
        with torch.no_grad():
            return [logits.detach(), *gradients, run(leaves, tokens, lengths)]

    one_by_one = results(net.alone)
    try:
        with warnings.catch_warnings(action="ignore"):  # warns about operations that stack slowly
            together = results(net.stacked)
    except Exception:
        # An operation without a vmap rule may raise any error. Computing each seed alone is equally
        # correct.
        return False
    return all(_close(a, b) for a, b in zip(together, one_by_one, strict=True))


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a - b).abs() <= TOLERANCE * (1 + b.abs())).all())


class SpanNet(ModuleNet):
    """A module whose logits point at spans.

    Attributes:
        asked: Number of positions for the question, before the context.
        spans: True if the logits score whole spans, False if they score starts and ends.
    """

    frame: ClassVar[tuple[bool, bool]] = (False, False)  # no marks

    def __init__(
        self,
        name: str,
        build: Callable[[], nn.Module],
        described: str,
        asked: int,
        spans: bool = False,
    ) -> None:
        super().__init__(name, build, 0, described)
        self.asked, self.spans = asked, spans

    def judge(self, logits: Tensor, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute loss and hit of each span."""
        by = judge_span_table if self.spans else judge_spans
        return by(logits, tokens[:, self.asked :], labels)

    def _traced(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, trace: dict[str, Tensor]
    ) -> Tensor:
        """Compute logits, and add `readout` to the trace: the expected state at the start of the
        answer.
        """
        seen: list[Tensor] = []

        def collect(module: nn.Module, args: Any, out: Tensor) -> None:
            seen.append(out)

        states = self.module.get_submodule("states")
        handle = states.register_forward_hook(collect)
        try:
            logits = self.alone(weights, tokens, lengths)
        finally:
            handle.remove()
        start = logits.flatten(2).softmax(-1).view_as(logits).sum(2)
        if not self.spans:
            start = logits[:, :, 0].softmax(-1)
        trace["readout"] = torch.einsum("sbt,sbtd->sbd", start, torch.stack(seen))
        return logits
