"""Steps of a language model as CUDA graphs, one per shape of batch.

A model of 135 million weights on short inputs is bound by the starting of kernels (over a thousand a step), not by arithmetic; a
captured step starts them all at once. Layers are compiled as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from taskloom.learners.language.bases import Base
from taskloom.learners.language.llama import Rounded, Shortcuts, can_follow
from taskloom.learners.language.passes import Batch, plain
from taskloom.learners.training.settings import Training
from taskloom.learners.training.stepper import compiled

if TYPE_CHECKING:
    from taskloom.learners.language.adapting import Adapter

WARM_UPS = 3


def can_capture(base: Base, how: Training, device: torch.device) -> bool:
    """Whether a step may be captured: on a GPU, a causal model, and no dropout, whose masks must follow the step.

    Nor in fp16, where a step whose gradients overflow has to be left out.
    """
    if (
        device.type != "cuda"
        or not how.graphs
        or how.precision == "fp16"
        or base.kind != "decoder"
        or not plain(base.model)
    ):
        return False
    drops = any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in base.model.modules())
    config = base.model.config
    return not drops and not getattr(config, "attention_dropout", 0.0)


class Captured:
    """The captured steps of one adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, Tensor]]] = {}
        self.pool: Any = None
        # Layers with adapters inside are the library's own; a prompt's keys would reach those through a cache object, which a
        # compiled layer would have to guard, and so it would the choice of a task's adapter.
        known = can_follow(adapter.base.model)
        use = adapter.how.compile and not adapter.stacked and not known
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(adapter.precision)
        rounded = Rounded(adapter.base.model, kind) if known and kind else None
        self.fast = Shortcuts(compiled if adapter.how.compile and known else None, rounded)
        self.layers = {layer: compiled(layer._call_impl) for layer in adapter.base.model.model.layers} if use else {}

    def step(self, batch: Batch, which: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """One step on a batch, by the graph of its shape."""
        given = [t for t in batch.tensors() if t is not None] + [which]
        shape = tuple(n for t in given for n in t.shape)
        if shape not in self.graphs:
            self.graphs[shape] = self._capture(given)
        graph, places, (sums, hits) = self.graphs[shape]
        for place, tensor in zip(places, given, strict=True):
            place.copy_(tensor)
        for group in self.adapter.optimiser.param_groups:
            group["lr"].fill_(rate)
        graph.replay()
        return sums, hits

    def _one(self, places: list[Tensor]) -> tuple[Tensor, Tensor]:
        adapter = self.adapter
        batch, which = Batch(*places[:-1]), places[-1]
        adapter.optimiser.zero_grad(set_to_none=True)
        if self.fast.rounded:
            self.fast.rounded.refresh()
        sums, hits = adapter.gradients(batch, which, adapter.counts(batch, which), self.fast)
        if adapter.how.clip:
            adapter.clip()
        adapter.optimiser.step()
        rows = torch.zeros_like(hits).index_add(0, which, torch.ones_like(which, dtype=hits.dtype))
        return sums, hits / rows

    def _capture(self, given: list[Tensor]) -> tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, Tensor]]:
        """Warm up, which really trains, put everything back, and record."""
        adapter = self.adapter
        places = [t.clone() for t in given]
        weights = {n: t.detach().clone() for n, t in adapter.trained.items()}
        moments = {n: {k: v.clone() for k, v in adapter.optimiser.state[t].items()} for n, t in adapter.trained.items()}
        # Only while a step is recorded: answering has other shapes each time, and would compile for each of them.
        for layer, quick in self.layers.items():
            layer._compiled_call_impl = quick
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                self._one(places)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self._one(places)
        for layer in self.layers:
            layer._compiled_call_impl = None
        with torch.no_grad():
            for name, tensor in adapter.trained.items():
                tensor.copy_(weights[name])
                for part, value in adapter.optimiser.state[tensor].items():
                    # Before the first step there are no moments: they start at zero.
                    value.copy_(moments[name][part]) if part in moments[name] else value.zero_()
        return graph, places, out
