"""Encoders that point at the answer in their input: encoding of passages, and the adapted model.

This is separate from `extractive.py`, which registers the learner and must not import torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from taskloom.core.errors import nearest
from taskloom.core.example import Example
from taskloom.core.scoring import AnyOf
from taskloom.learners.interface import LearnerError, texts
from taskloom.learners.pretrained.encoding import Cut, EncodedRows
from taskloom.learners.pretrained.fitted import FittedLanguageModel
from taskloom.learners.pretrained.forward import IGNORED, collate, point
from taskloom.learners.pretrained.models import Base
from taskloom.learners.scratch.answer_spans import Pointed, ask, split_question, weigh_all
from taskloom.learners.training.out_of_memory import in_halves
from taskloom.learners.training.step import computing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def check_tokeniser(base: Base) -> None:
    """Raise an error unless a tokeniser gives the positions of its tokens and puts a separator
    between question and context.
    """
    if not base.tokeniser.is_fast or base.tokeniser.sep_token_id is None:
        raise LearnerError(
            f"the tokeniser of '{base.name}' cannot mark spans: take a fast one with a separator,"
            " as RoBERTa and BERT have"
        )


def read_passage(
    base: Base, context: str, question: str, longest: int = 0, cut: Cut = "end"
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return the ids of question and context, the positions of the context's tokens among them, and
    the positions of these tokens in the text.

    Args:
        base: The model.
        context: The text with the answer.
        question: The question.
        longest: Maximum tokens of question and context together. The context of longer inputs is
            cut. With 0, no input is cut.
        cut: Which end of a longer context is cut off.
    """
    encoded = base.tokeniser(question, context, return_offsets_mapping=True, verbose=False)
    ids = list(encoded["input_ids"])
    offsets = encoded["offset_mapping"]
    positions = []
    for i, sequence in enumerate(encoded.sequence_ids()):
        first, last = offsets[i]
        if sequence == 1 and last > first:  # a non-empty token of the context
            positions.append(i)
    spans = [_trimmed(context, *offsets[i]) for i in positions]
    excess = len(ids) - longest if longest else 0
    if excess >= len(positions):
        raise LearnerError(
            f"longest_input is {longest}, which leaves no room for the text of a question; raise it"
        )
    if excess > 0:
        dropped = positions[:excess] if cut == "start" else positions[-excess:]
        ids = [token for i, token in enumerate(ids) if not dropped[0] <= i <= dropped[-1]]
        spans = spans[excess:] if cut == "start" else spans[:-excess]
        # if the start is cut, the remaining tokens move to the front
        positions = positions[:-excess]
    if len(ids) > base.longest:
        raise LearnerError(
            f"an example needs {len(ids)} tokens and '{base.name}' reads at most {base.longest}:"
            f" {context[:60]!r}…; shorten the inputs, set longest_input to {base.longest}, or take"
            " a model with a longer context"
        )
    return ids, positions, spans


def _trimmed(text: str, first: int, last: int) -> tuple[int, int]:
    """Remove the space that some tokenisers include in the following word."""
    while first < last and text[first].isspace():
        first += 1
    return first, last


def read_passages(
    base: Base, examples: Sequence[Example], longest: int = 0, cut: Cut = "end"
) -> EncodedRows:
    """Encode examples. The target is the first and last position of the answer, or empty if the
    answer is not in the text that the model reads.
    """
    check_tokeniser(base)
    sources, targets = [], []
    full = 0
    for item in ask(examples):
        ids, positions, offsets = read_passage(base, item.context, item.question, longest, cut)
        full += len(ids) == longest
        sources.append(ids)
        target = [IGNORED, IGNORED]
        if item.span is not None:
            first, last = item.span
            inside = [
                p for p, (a, b) in zip(positions, offsets, strict=True) if b > first and a < last
            ]
            if inside:
                target = [inside[0], inside[-1]]
        targets.append([target])
    if full:
        warnings.warn(
            f"{full:,} of {len(examples):,} inputs fill the {longest} tokens of longest_input;"
            f" longer texts are cut at their {cut}",
            stacklevel=3,
        )
    return EncodedRows(sources, targets, list(examples))


class Pointing(FittedLanguageModel):
    """An adapted encoder; answers are spans of the input."""

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the likeliest span of each input."""
        return [pointed.best(self.learner.longest_answer) for pointed in self._point(texts(inputs))]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each candidate; see `weigh_all`."""
        return weigh_all(self._point, inputs, candidates)

    def score(self, rows: EncodedRows) -> tuple[float, float]:
        """Return the share of acceptable answers, and the mean loss of start and end for answers
        that are in the text.
        """
        judge = AnyOf()
        answers = self.answer([e.input for e in rows.examples])
        right = [judge.score(s, e) for s, e in zip(answers, rows.examples, strict=True)]
        # Answers that are not in the text have no loss.
        marked = [i for i, (target,) in enumerate(rows.targets) if target[0] != IGNORED]
        sources, targets = rows.sources, rows.targets
        sums, _ = self.losses([sources[i] for i in marked], [targets[i][0] for i in marked])
        return sum(right) / len(right), sum(sums) / max(1, len(marked))

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return the state of the first token: `readout` after the last layer, or `layer.K` (0 is
        the embedding).
        """
        import numpy as np

        read = [self._read(*split_question(text))[0] for text in texts(inputs)]
        states: list[Any] = [None] * len(read)

        def take(rows: list[int], first: Any, last: Any, layers: Any) -> None:
            names = {f"layer.{i}": i for i in range(len(layers))} | {"readout": len(layers) - 1}
            if where not in names:
                raise LearnerError(
                    f"'{self.base.name}' has no state '{where}'; {nearest(str(where), names)}"
                )
            first_tokens = layers[names[where]][:, 0].float().cpu().numpy()
            for row, state in zip(rows, first_tokens, strict=True):
                states[row] = state

        self._passes(read, take, states=True)
        return np.stack(states) if states else np.zeros((0, 0), dtype=np.float32)

    def _read(
        self, context: str, question: str
    ) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        how = self.learner
        return read_passage(self.base, context, question, how.longest_input, how.cut)

    def _point(self, inputs: Sequence[str]) -> list[Pointed]:
        contexts = [split_question(text) for text in inputs]
        read = [self._read(context, question) for context, question in contexts]
        pointed: list[Any] = [None] * len(read)

        def take(rows: list[int], first: Any, last: Any, layers: Any) -> None:
            logprobs = [x.double().log_softmax(-1).cpu().numpy() for x in (first, last)]
            for i, row in enumerate(rows):
                context, _ = contexts[row]
                _, positions, offsets = read[row]
                starts, ends = (x[i][positions] for x in logprobs)
                pointed[row] = Pointed(context, offsets, starts, ends)

        self._passes([ids for ids, _, _ in read], take)
        return pointed

    def _passes(
        self, sources: Sequence[list[int]], take: Callable[..., None], states: bool = False
    ) -> None:
        """Pass the rows and results of each batch to `take`. The rows of a batch have similar
        lengths.
        """

        def some(rows: list[int]) -> None:
            batch = collate(self.base, [sources[r] for r in rows], [[] for _ in rows]).to(
                self.device
            )
            take(rows, *point(self.base, batch.ids, batch.mask, states))

        lengths = [len(s) for s in sources]
        self._begin(lengths)
        with torch.no_grad(), computing("fp32", self.device):
            for rows in self._batches(lengths):
                in_halves(rows, some)
