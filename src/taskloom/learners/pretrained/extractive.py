"""Fine-tuning an encoder to point at the answer in its input: RoBERTa for the extractive splits of
Dyna-bAbI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from taskloom.core.example import Example
from taskloom.learners.config import register_learner
from taskloom.learners.interface import LearnerError, Point
from taskloom.learners.pretrained.language_models import Pretrained, load_language
from taskloom.learners.scratch.answer_spans import Missing, with_spans
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from torch import Tensor

    from taskloom.learners.pretrained.encoding import EncodedRows
    from taskloom.learners.pretrained.fitted import FittedLanguageModel
    from taskloom.learners.pretrained.models import Base


@register_learner(
    "extractive",
    describe="an encoder (RoBERTa, BERT) that points at the answer, fine-tuned",
    load=load_language,
)
@dataclass(frozen=True)
class Extractive(Pretrained):
    """Fine-tunes all weights of an encoder with an output map for start and end, which is randomly
    initialised if the model has none.

    The defaults are the usual ones for SQuAD: AdamW, a rate of 3e-5 and batches of 16. 8,000 steps
    are two epochs of concat(T7). `longest_input` and `cut` cut the text before the question.

    Attributes:
        model: `minilm` (licence: Apache-2.0), a hub id or a local folder; it must be an encoder
            with a fast tokeniser.
        longest_answer: Maximum tokens of an answer.
        without_span: Training examples whose answer is not part of the text: `refuse` or `skip`.
    """

    training: Training = field(
        default_factory=lambda: Training(
            steps=8_000, batch=16, rate=3e-5, warmup=800, clip=1.0, evaluate_every=1_000, threads=0
        )
    )
    model: str = "roberta-base"
    longest_answer: int = 30
    without_span: Missing = "refuse"

    name: ClassVar[str] = "extractive"

    def __post_init__(self) -> None:
        """Raise an error for settings of text generation, which do not apply to spans."""
        Pretrained.__post_init__(self)
        for setting, default in (
            ("targets", "redrawn"),
            ("beams", 1),
        ):
            if getattr(self, setting) != default:
                raise LearnerError(
                    f"{setting} is for learners that generate text; extractive points at spans, so"
                    " leave it out"
                )

    def base(self, texts: Sequence[str], seed: int) -> Base:
        """Load the encoder, or the same architecture with random weights."""
        from taskloom.learners.pretrained.models import open_base

        return open_base(self.model, self.pretrained, seed, pointer=True)

    def prepare(self, base: Base, tasks: int, seed: int) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return every weight."""
        return {n: p.requires_grad_() for n, p in base.model.named_parameters()}, None

    def usable(self, items: list[Example]) -> list[Example]:
        """Return the examples whose answer is part of the text."""
        return with_spans(items, self.name, self.without_span)

    def check(self, base: Base, items: Sequence[Example]) -> None:
        """Check that the tokeniser gives character offsets. Nothing else is checked, because
        answers are cut out of the text.
        """
        from taskloom.learners.pretrained.span_head import check_tokeniser

        check_tokeniser(base)

    def rows(self, base: Base, items: Sequence[Example], prompt: int) -> EncodedRows:
        """Encode question and context, and the position of the answer."""
        from taskloom.learners.pretrained.span_head import read_passages

        return read_passages(base, items, self.longest_input, self.cut)

    def fitted(
        self,
        base: Base,
        prompt: Tensor | None,
        curve: Sequence[Point] = (),
        batch: int = 64,
        task: int = 0,
    ) -> FittedLanguageModel:
        """Build the adapted encoder."""
        from taskloom.learners.pretrained.span_head import Pointing

        return Pointing(self, base, prompt, curve, batch, task)

    def restore(self, folder: Path) -> tuple[Base, Tensor | None]:
        """Load what `save` wrote."""
        from taskloom.learners.pretrained.models import open_base

        return open_base(str(Path(folder).resolve() / "model"), pointer=True), None
