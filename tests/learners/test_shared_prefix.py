"""Prompts that begin alike: their common part is computed once, and the answers are those of whole prompts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from taskloom.learners.config import read
from taskloom.learners.pretrained import fitted as fitted_models
from taskloom.learners.pretrained import shared_prefix
from taskloom.learners.pretrained.fast import greedy
from taskloom.learners.pretrained.fast.greedy import write
from taskloom.learners.pretrained.shared_prefix import WholeLine, find_shared_prefix, has_whole_line

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
    sources: list[list[int]] = writer.read([" ".join([*head, *rng.choices(words, k=k)]) for k in (1, 2, 5, 3, 9, 1)])
    return sources


def test_answers_after_a_shared_prefix_are_those_of_whole_prompts(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = prompts(writer)
    shared = find_shared_prefix(writer.base, sources, writer.device)
    assert shared is not None
    assert len(shared.ids) >= 40
    answers = []
    for batch, own_pass in ((2, True), (6, True), (6, False)):
        monkeypatch.setattr(type(writer), "_answered_at_once", batch)
        monkeypatch.setattr(fitted_models, "can_write", lambda _, own_pass=own_pass: own_pass)
        answers.append(writer.say(sources))
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    assert answers == [writer.say(sources)] * 3
    assert len(set(answers[0])) > 1


def test_inputs_that_do_not_begin_alike_share_nothing(writer: Any) -> None:
    sources = prompts(writer)
    assert find_shared_prefix(writer.base, sources[:1], writer.device) is None
    assert find_shared_prefix(writer.base, [*sources, sources[0][1:]], writer.device) is None
    same = find_shared_prefix(writer.base, [sources[0], sources[0]], writer.device)
    assert same is not None
    assert len(same.ids) == len(sources[0]) - 1  # the last token is each row's own: something has to be computed
    assert shared_prefix.LEAST > 1


@pytest.mark.parametrize("own_pass", [True, False])
def test_writing_ends_with_the_first_line(writer: Any, monkeypatch: pytest.MonkeyPatch, own_pass: bool) -> None:
    steps: list[int] = []

    def decoded(rows: Any, **_: Any) -> list[str]:
        steps.append(len(rows[0]))
        return ["one\n" if len(row) >= 2 else " " for row in rows]

    monkeypatch.setattr(fitted_models, "can_write", lambda _: own_pass)
    monkeypatch.setattr(writer.base.tokeniser, "batch_decode", decoded)
    monkeypatch.setattr(shared_prefix.WholeLine, "_may_break", lambda *_: True)
    monkeypatch.setattr(type(writer), "_answered_at_once", 6)
    writer.say(prompts(writer), first_line=True)
    assert max(steps) == 2


def test_a_row_that_is_done_is_left_out_of_the_next_steps(writer: Any) -> None:
    sources = prompts(writer)
    shared = find_shared_prefix(writer.base, sources, writer.device)
    assert shared is not None
    rests = [source[len(shared.ids) :] for source in sources]
    asked: list[int] = []

    def finished(rows: Sequence[list[int]]) -> list[bool]:
        asked.append(len(rows))
        return [row[0] % 2 == 0 or len(row) == 3 for row in rows]

    with torch.no_grad():
        whole = write(writer.base.model, shared.states, rests, 3, lambda rows: [False] * len(rows))
        some = write(writer.base.model, shared.states, rests, 3, finished)
        alone = [write(writer.base.model, shared.states, [rest], 3, lambda rows: [False])[0] for rest in rests]
    assert whole == alone
    assert some == [row[:1] if row[0] % 2 == 0 else row for row in whole]
    odd = sum(row[0] % 2 for row in whole)
    assert 0 < odd < len(whole), "some end early and some do not"
    assert asked == [len(whole), odd, odd]


def test_many_rows_are_written_in_parts(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = prompts(writer)
    whole = writer.say(sources)
    monkeypatch.setattr(greedy, "MOST_SCORES", 1)
    assert writer.say(sources) == whole


def test_a_model_that_would_not_write_the_likeliest_token_is_left_to_the_library(writer: Any) -> None:
    model = writer.base.model
    assert greedy.can_write(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.generation_config, "repetition_penalty", 1.2)
        assert not greedy.can_write(model)


@pytest.mark.parametrize(
    ("text", "whole"), [("", False), ("one", False), ("\n one", False), ("one\n", True), ("\n\n one\r\ntwo", True)]
)
def test_a_line_is_whole_when_it_has_ended(text: str, whole: bool) -> None:
    assert has_whole_line(text) == whole


def test_a_row_is_decoded_only_where_its_last_token_may_break_a_line() -> None:
    texts = {0: "one", 1: "\n", 2: " two", 3: "\ufffd", 4: "three\nfour"}
    decoded: list[list[int]] = []

    class Tokens:
        def decode(self, ids: list[int], **_: Any) -> str:
            return "".join(texts[i] for i in ids)

        def batch_decode(self, rows: list[list[int]], **_: Any) -> list[str]:
            decoded.extend(rows)
            return [self.decode(row) for row in rows]

    rows = [[0], [1], [0, 1], [1, 2], [0, 3], [4], [1, 2, 1]]
    assert WholeLine(Tokens())(rows) == [has_whole_line(Tokens().decode(row)) for row in rows]
    assert decoded == [[1], [0, 1], [0, 3], [4], [1, 2, 1]]


def test_answers_written_in_stages_are_those_written_at_once(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    sources = prompts(writer)
    whole = writer.say(sources)
    monkeypatch.setattr(type(writer), "_stages", [2, 3, 5])
    assert writer.say(sources) == whole


def test_an_answer_that_is_done_is_left_out_of_the_next_stage(writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted_models, "find_shared_prefix", lambda *_: None)
    sources = prompts(writer)
    answers = [sources[0][:n] for n in (1, 2, 5, 0, 3, 4)]
    sizes: list[int] = []

    def generate(self: Any, ids: torch.Tensor, mask: torch.Tensor, *given: Any, **_: Any) -> list[list[int]]:
        """Give the next tokens of each row's answer; fewer than may be written where it is done."""
        sizes.append(len(ids))
        rows = [row[m == 1].tolist() for row, m in zip(ids, mask, strict=True)]
        which = [
            next(i for i, s in enumerate(sources) if row[: len(s)] == s and _goes_on(row, s, answers[i]))
            for row in rows
        ]
        so_far = [len(row) - len(sources[i]) for row, i in zip(rows, which, strict=True)]
        return [answers[i][n : n + given[2]] for i, n in zip(which, so_far, strict=True)]

    monkeypatch.setattr(type(writer), "_generate", generate)
    monkeypatch.setattr(type(writer), "_answered_at_once", 6)
    monkeypatch.setattr(type(writer), "_stages", [2, 4, 5])
    assert writer.say(sources) == [writer.base.tokeniser.decode(answer) for answer in answers]
    assert sizes == [6, 4, 2]


def _goes_on(row: list[int], source: list[int], answer: list[int]) -> bool:
    return row[len(source) :] == answer[: len(row) - len(source)]
