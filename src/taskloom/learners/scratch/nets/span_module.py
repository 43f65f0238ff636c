"""A reader module (`nets.reading`) as a network of the training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from taskloom.learners.scratch.nets.module_adapter import ModuleNet
from taskloom.learners.scratch.nets.ops import Weights, judge_span_table, judge_spans


class SpanNet(ModuleNet):
    """A module whose logits point at spans.

    Attributes:
        asked: Places of a question, before the context.
        spans: The logits are a score for each span; otherwise for each start and each end.
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
        """Compute loss and hit by spans."""
        by = judge_span_table if self.spans else judge_spans
        return by(logits, tokens[:, self.asked :], labels)

    def _traced(
        self, weights: Weights, tokens: Tensor, lengths: Tensor, trace: dict[str, Tensor]
    ) -> Tensor:
        """Add `readout`: the state that is expected where the answer begins."""
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
