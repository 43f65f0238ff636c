"""How outputs are judged while a network trains: loss and hit of each example.

Most networks choose a class. One that points at a span of its input has `judge`, which says what its outputs mean.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from taskloom.learners.interface import LearnerError
from taskloom.learners.scratch.nets.ops import Net


@runtime_checkable
class Judging(Protocol):
    """A network whose outputs are not classes."""

    def judge(self, logits: Tensor, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute loss and hit [seeds, batch] of each example; a label of -1 has no loss and is not a hit."""


def judge(
    net: Net, logits: Tensor, tokens: Tensor, labels: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute loss and hit [seeds, batch] of each example; `smoothing` spreads that share of a target over all classes.

    Labels are [batch], or [seeds, batch] where each seed has inputs of its own.
    An answer that was no class in training (-1) has no probability: it is wrong, and left out of the loss.
    """
    if isinstance(net, Judging):
        if smoothing:
            raise LearnerError(
                "label_smoothing spreads a target over classes, and this network points at spans; set it to 0"
            )
        return net.judge(logits, tokens, labels)
    targets = labels.expand(logits.shape[:2]).flatten()
    losses = F.cross_entropy(
        logits.flatten(0, 1), targets, reduction="none", ignore_index=-1, label_smoothing=smoothing
    )
    return losses.view(logits.shape[:2]), logits.detach().argmax(-1) == labels


SPAN = 1 << 16
"""A span is the label start * SPAN + end."""


def judge_spans(logits: Tensor, context: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the summed cross entropy of start and end; a hit points at the same words as the label, wherever they stand.

    Args:
        logits: [seeds, batch, 2, positions].
        context: [batch, positions] word ids.
        labels: [batch] spans.
    """
    known = labels.clamp(min=0)
    first, last = torch.div(known, SPAN, rounding_mode="floor"), known % SPAN
    logprobs = logits.log_softmax(-1)
    index = torch.stack([first, last], -1).expand(len(logprobs), -1, -1).unsqueeze(-1)
    losses = -logprobs.gather(-1, index).squeeze(-1).sum(-1) * (labels >= 0)
    start, end = best_spans(logprobs.detach())
    at = torch.arange(context.shape[1], device=context.device)
    most = context.shape[1] - 1
    wanted = context.gather(1, (first[:, None] + at).clamp(max=most))
    given = context.expand(len(logprobs), -1, -1).gather(
        2, (start.unsqueeze(-1) + at).clamp(max=most)
    )
    same = ((given == wanted) | (at > (last - first)[:, None])).all(-1)
    return losses, same & (end - start == last - first) & (labels >= 0)


def best_spans(logprobs: Tensor) -> tuple[Tensor, Tensor]:
    """Find the likeliest start <= end of log-probabilities [..., 2, positions]."""
    start, end = logprobs.unbind(-2)
    # For each end the best start up to it; -inf + -inf at padding stays -inf.
    until, where = start.cummax(-1)
    last = (until + end).argmax(-1, keepdim=True)
    return where.gather(-1, last).squeeze(-1), last.squeeze(-1)
