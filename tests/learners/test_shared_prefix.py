"""Prompts that begin alike: their common part is computed once, and the answers are those of whole prompts."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from taskloom.learners.config import read
from taskloom.learners.pretrained import fitted as fitted_models
from taskloom.learners.pretrained import shared_prefix
from taskloom.learners.pretrained.shared_prefix import find_shared_prefix, has_whole_line

WORDS = "grass sky snow coal blood"


@pytest.fixture(scope="module")
def writer() -> Any:
    """Build a small Llama with large random weights, so that what it writes depends on all that it reads."""
    sizes = {"state": 32, "layers": 2, "heads": 2, "feed_forward": 64, "dropout": 0.0, "longest": 128}
    loop = {"batch": 4, "warmup": 0, "evaluate_every": 0, "longest_answer": 5, "steps": 1, "rate": 1e-3}
    fitted: Any = read({"learner": "decoder", **sizes, **loop}).fit([(WORDS, word) for word in WORDS.split()], seed=0)
    torch.manual_seed(0)
    for weight in fitted.base.model.parameters():
        if weight.dim() == 2:
            weight.data.normal_(0.0, 0.4)
    return fitted


def prompts(writer: Any) -> list[list[int]]:
    """Return inputs of several lengths after forty words that they share."""
    rng = random.Random(1)
    words = WORDS.split()
    head = rng.choices(words, k=40)
    texts = [" ".join([*head, *rng.choices(words, k=k)]) for k in (1, 2, 5, 3, 9, 1)]
    return [writer.read(text) for text in texts]


def test_answers_after_a_shared_prefix_are_those_of_whole_prompts(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = prompts(writer)
    shared = find_shared_prefix(writer.base, sources, writer.device)
    assert shared is not None
    assert len(shared.ids) >= 40
    answers = []
    for batch in (2, 6):
        monkeypatch.setattr(type(writer), "_answered_at_once", batch)
        answers.append(writer.say(sources))
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    assert answers == [writer.say(sources)] * 2
    assert len(set(answers[0])) > 1


def test_inputs_that_do_not_begin_alike_share_nothing(writer: Any) -> None:
    sources = prompts(writer)
    assert find_shared_prefix(writer.base, sources[:1], writer.device) is None
    assert find_shared_prefix(writer.base, [*sources, sources[0][1:]], writer.device) is None
    same = find_shared_prefix(writer.base, [sources[0], sources[0]], writer.device)
    assert same is not None
    assert len(same.ids) == len(sources[0]) - 1  # the last token is each row's own: something has to be computed
    assert shared_prefix.LEAST > 1


def test_writing_ends_with_the_first_line(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def decoded(rows: Any, **_: Any) -> list[str]:
        steps.append(rows.shape[1])
        return ["one\n" if rows.shape[1] >= 2 else " "] * len(rows)

    monkeypatch.setattr(writer.base.tokeniser, "batch_decode", decoded)
    monkeypatch.setattr(type(writer), "_answered_at_once", 6)
    writer.say(prompts(writer), first_line=True)
    assert max(steps) == 2


@pytest.mark.parametrize(
    ("text", "whole"), [("", False), ("one", False), ("\n one", False), ("one\n", True), ("\n\n one\r\ntwo", True)]
)
def test_a_line_is_whole_when_it_has_ended(text: str, whole: bool) -> None:
    assert has_whole_line(text) == whole
