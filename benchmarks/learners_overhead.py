"""What our evaluation loop costs beside the model: milliseconds per example with a model that does
nothing (limit: 0.2).

python benchmarks/learners_overhead.py
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

import taskloom
from taskloom.core.http import AnswerCache
from taskloom.core.scoring import Exact
from taskloom.learners.config import read
from taskloom.learners.models.client import EndpointError
from taskloom.learners.pretrained.in_context import Prompt
from taskloom.learners.scratch.answer_spans import ask
from taskloom.learners.scratch.classifiers import Classifier
from taskloom.learners.scratch.readers import BiDAFLearner, Passages, Pointer
from taskloom.learners.scratch.tokens import Stories, WordVocabulary

EXAMPLES = 20_000


class Mock:
    """A network that answers 0 at once."""

    frame = (False, True)
    sites = 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def start(self, random: torch.Generator) -> dict[str, Tensor]:
        return {}

    def forward(
        self, weights: Any, tokens: Tensor, lengths: Tensor, *rest: Any, **more: Any
    ) -> Tensor:
        return torch.zeros(1, len(tokens), 8)


class MockPointer(Mock):
    """A network that points at the first word at once."""

    frame = (False, False)

    def __init__(self, asked: int) -> None:
        self.asked = asked

    def forward(
        self, weights: Any, tokens: Tensor, lengths: Tensor, *rest: Any, **more: Any
    ) -> Tensor:
        return torch.zeros(1, len(tokens), 2, tokens.shape[1] - self.asked)


def stories() -> None:
    """Stories of twenty sentences: as sentences for memory networks, as passages for pointers."""
    examples = list(taskloom.make("babi/mix-T7", seed=0, set=["splits.mix.n=2000"])["mix"])
    inputs = [e.input for e in examples]
    reader = Passages.of(ask(examples))
    learner: Any = read("entnet")
    net: Any = MockPointer(reader.asked)
    told = Classifier(learner, Mock(), {}, Stories.of(inputs, 150), tuple("01234567"))
    pointing = Pointer(BiDAFLearner(), net, {}, reader)
    pointing.answer(inputs[:10])
    for name, fitted in (("stories", told), ("spans", pointing)):
        began = time.process_time()
        said = fitted.answer(inputs)
        judge = Exact()
        score = sum(judge.score(a, e) for a, e in zip(said, examples, strict=True)) / len(examples)
        each = 1000 * (time.process_time() - began) / len(examples)
        print(
            f"{name}, {len(examples):,} examples answered and scored ({score:.3f}): {each:.4f} ms"
            " an example, limit 0.2"
        )


def main() -> None:
    stories()
    data = taskloom.make("ctl/A", seed=0, set=[f"splits.train.n={EXAMPLES}"])
    examples = list(data["train"])
    inputs = [e.input for e in examples]
    learner: Any = read("bilstm")
    fitted = Classifier(learner, Mock(), {}, WordVocabulary.of(inputs), tuple("01234567"))
    began = time.process_time()
    said = fitted.answer(inputs)
    judge = Exact()
    score = sum(judge.score(a, e) for a, e in zip(said, examples, strict=True)) / len(examples)
    each = 1000 * (time.process_time() - began) / EXAMPLES
    print(
        f"classifier, {EXAMPLES:,} examples answered and scored ({score:.3f}): {each:.4f} ms an"
        " example, limit 0.2"
    )
    with TemporaryDirectory() as folder:
        cache, showing = AnswerCache(Path(folder) / "answers.sqlite", EndpointError), Prompt()
        for text in inputs[:2000]:
            cache.put(text, b"3.")
        began = time.process_time()
        found = [showing.extract((cache.get(text) or b"").decode()) for text in inputs[:2000]]
        each = 1000 * (time.process_time() - began) / len(found)
        print(f"endpoint, answers from the cache: {each:.4f} ms an example, limit 0.2")


if __name__ == "__main__":
    main()
