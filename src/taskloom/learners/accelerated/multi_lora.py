"""LoRA adapters of many tasks in one batch: each example goes through its own task's low-rank
matrices.

    y = W x + scale B_k A_k x        k: the task of the example

The model is frozen, so the gradients of different tasks are independent. For each task, a step over
the batches of all tasks equals the step that the task would take alone.

Gain: eight tasks train in 4.4 CPU-seconds, and one after the other in 9.2 (four layers of 256,
    batches of 8, one core). On a GPU only prompts were measured: 16 tasks in one batch train 28
    times as many sequences per second as one task with plain `peft` (one H200). To avoid it, fit
    each task by itself: a single task uses `peft`'s own layers.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from taskloom.learners.pretrained.models import AdapterChoice


class ManyLora(torch.nn.Module):
    """A frozen linear map with the low-rank updates of many tasks.

    Attributes:
        a: [tasks, rank, into].
        b: [tasks, out, rank].
    """

    def __init__(
        self, inner: Any, a: Tensor, b: Tensor, scale: float, dropout: float, choice: AdapterChoice
    ) -> None:
        super().__init__()
        self.inner, self.scale, self.choice = inner, scale, choice
        self.dropout = torch.nn.Dropout(dropout)
        self.a, self.b = torch.nn.Parameter(a), torch.nn.Parameter(b)

    @property
    def weight(self) -> Tensor:
        """Weight of the frozen map. Some models inspect its data type."""
        weight: Tensor = self.inner.weight
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map to x [batch, ..., into], with the adapters that `choice` gives for the
        rows.
        """
        out: Tensor = self.inner(x)
        rows, read = self.choice.rows, self.dropout(x)
        if rows is None:
            low = F.linear(F.linear(read, self.a[self.choice.task]), self.b[self.choice.task])
        elif self.choice.even:
            # If every task has the same number of rows, in order, the matrices need not be copied
            # for every row.
            low = _products(read.reshape(len(self.a), -1, x.shape[-1]), self.a, self.b)
        else:
            low = _products(read.reshape(len(x), -1, x.shape[-1]), self.a[rows], self.b[rows])
        return out + self.scale * low.reshape(out.shape)


def _products(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(torch.bmm(x, a.transpose(1, 2)), b.transpose(1, 2))


def stack_adapters(model: Any, tasks: int, choice: AdapterChoice) -> dict[str, Tensor]:
    """Replace each of peft's LoRA layers by one for many tasks, and return the matrices by name.
    Every task starts from the same values as it would alone.
    """
    from peft.tuners.lora import Linear

    trained: dict[str, Tensor] = {}
    for name, one in [(n, m) for n, m in model.named_modules() if isinstance(m, Linear)]:
        (adapter,) = one.lora_A
        a, b = one.lora_A[adapter].weight.detach(), one.lora_B[adapter].weight.detach()
        drop = one.lora_dropout[adapter]
        rate = drop.p if isinstance(drop, torch.nn.Dropout) else 0.0
        a, b = a.repeat(tasks, 1, 1), b.repeat(tasks, 1, 1)
        many = ManyLora(one.base_layer, a, b, float(one.scaling[adapter]), rate, choice)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, many)
        trained |= {f"{name}.a": many.a, f"{name}.b": many.b}
    return trained


def unstacked(model: Any, task: int) -> dict[str, Tensor]:
    """Return the matrices of one task under the names that peft gives them."""
    matrices: dict[str, Tensor] = {}
    for name, many in model.named_modules():
        if isinstance(many, ManyLora):
            matrices[f"{name}.lora_A.default.weight"] = many.a.detach()[task]
            matrices[f"{name}.lora_B.default.weight"] = many.b.detach()[task]
    return matrices
