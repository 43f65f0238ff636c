"""LoRA: a frozen language model with trained low-rank updates, of one task or of many at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from taskloom.core.errors import MissingExtra
from taskloom.learners.interface import LearnerError, register_learner
from taskloom.learners.pretrained.language_models import Frozen, load_language
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from torch import Tensor

    from taskloom.learners.pretrained.fitted import FittedLanguageModel
    from taskloom.learners.pretrained.models import Base


@register_learner(
    "lora", describe="a frozen language model with trained low-rank updates", load=load_language
)
@dataclass(frozen=True)
class Lora(Frozen):
    """LoRA by peft: updates of rank `rank` on all linear maps but the output map.

    Attributes:
        rank: Of the updates.
        alpha: Updates count alpha / rank times.
        lora_dropout: Before the updates, in training.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=1000, batch=64, rate=1e-3, warmup=0, evaluate_every=100, threads=0
        )
    )
    rank: int = 8
    alpha: float = 16.0
    lora_dropout: float = 0.0

    name: ClassVar[str] = "lora"

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return the low-rank matrices; everything else is frozen. Of many tasks they have an axis
        of tasks.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if not any(p.requires_grad and "lora_" in n for n, p in base.model.named_parameters()):
                self._inject(base)  # a model that is started from has its matrices already
        if tasks == 1:
            return {n: p for n, p in base.model.named_parameters() if p.requires_grad}, None
        from taskloom.learners.accelerated.multi_lora import stack_adapters

        return stack_adapters(base.model, tasks, base.choice), None

    def _inject(self, base: Base) -> None:
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError:
            raise MissingExtra("LoRA", "peft", "train") from None
        import torch
        from transformers.pytorch_utils import Conv1D  # GPT-2's way to write a linear map

        base.model.requires_grad_(False)
        output = base.model.get_output_embeddings()
        maps = {
            n: m
            for n, m in base.model.named_modules()
            if isinstance(m, (torch.nn.Linear, Conv1D)) and m is not output
        }
        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.lora_dropout,
            target_modules=list(maps),
            fan_in_fan_out=any(isinstance(m, Conv1D) for m in maps.values()),
        )
        inject_adapter_in_model(config, base.model)

    def save(self, fitted: FittedLanguageModel, folder: Path) -> None:
        """Write the card and the low-rank matrices of this task."""
        from taskloom.learners.accelerated.multi_lora import unstacked

        model = fitted.base.model
        trained = unstacked(model, fitted.task) or {
            n: p for n, p in model.named_parameters() if p.requires_grad
        }
        self.save_beside(fitted, folder, trained)

    def restore(self, folder: Path) -> tuple[Base, Tensor | None]:
        """Load the base with the matrices put in."""
        import torch

        base, saved = self.restore_beside(folder)
        self._inject(base)
        parameters = dict(base.model.named_parameters())
        if not set(saved) <= set(parameters):
            raise LearnerError(
                f"{folder} was not made with the model '{self.model}' that is here; fit and save"
                " again"
            )
        if any(parameters[name].shape != value.shape for name, value in saved.items()):
            raise LearnerError(
                f"{folder} was made with another rank than {self.rank}; set rank to that one"
            )
        with torch.no_grad():
            for name, value in saved.items():
                parameters[name].copy_(value)
        return base, None
