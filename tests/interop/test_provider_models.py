"""The learner `model`: the same prompts, answers and records as `endpoint`, by Inspect's model
layer.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.learners import LearnerError
from taskloom.learners.config import read
from tests.learners.chat_server import ChatServer, serving

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

STORIES = {f"Story {i}. Where is Fred?": (f"room {i % 7}", 1 + i % 2) for i in range(200)}


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    found = ChatServer(STORIES, {"m": 0.8})
    with serving(found):
        yield found


def test_replies_are_those_of_an_endpoint(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "local-key-123456")
    quick = {"pause": 0.01, "at_once": 8}
    endpoint: Any = read({"learner": "endpoint", "url": server.url, "model": "m", **quick}).fit([])
    cache = str(tmp_path / "replies.sqlite")
    block = {
        "learner": "model",
        "model": "openai-api/local/m",
        "arguments": {"base_url": server.url},
        "cache": cache,
        **quick,
    }
    model: Any = read(block).fit([])
    inputs = list(STORIES)
    assert model.answer(inputs) == endpoint.answer(inputs)
    for one, other in zip(model.replies, endpoint.replies, strict=True):
        for name in ("messages", "outcome", "answer", "rule", "tokens_in", "tokens_out"):
            assert one[name] == other[name], (name, one, other)
    asked = len(server.requests)
    assert read(block).fit([]).answer(inputs) == endpoint.answer(inputs)
    assert len(server.requests) == asked
    assert b"local-key-123456" not in Path(cache).read_bytes()


def test_an_unknown_provider_is_one_sentence() -> None:
    fitted = read({"learner": "model", "model": "nobody/m", "attempts": 1}).fit([])
    with pytest.raises(LearnerError, match="nobody"):
        fitted.answer(["Where is Fred?"])
    with pytest.raises(LearnerError, match="write provider and name"):
        read({"learner": "model", "model": "gpt"})


class EchoingServer(ChatServer):
    """Repeats the key of the last request in every reply, as it is and encoded."""

    key = "sk-SECRET-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"

    def reply(self, model: str, text: str) -> tuple[str | None, str, str]:
        hidden = b64encode(f"Bearer {self.key}".encode()).decode()
        return f"<think>{hidden}</think>Answer: {self.key}", f"I saw {self.key}", "stop"


def test_a_key_that_a_server_repeats_is_nowhere_on_disk_or_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server = EchoingServer(STORIES)
    monkeypatch.setenv("LOCAL_API_KEY", server.key)
    with serving(server):
        block = {
            "learner": "model",
            "model": "openai-api/local/m",
            "arguments": {"base_url": server.url},
        }
        store = tmp_path / "runs"
        runs = tl.run(recipes=["babi/mix-T2"], learners=[block], limit=5, store=store, workers=1)
        replies = list(runs.replies())
    encoded = b64encode(server.key.encode()).decode()[:20]
    assert len(replies) == 5
    for text in (str(replies), *capfd.readouterr()):
        assert server.key[:16] not in text
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert server.key.encode() not in content, file
            assert encoded.encode() not in content, file


def test_batch_mode_is_passed_to_inspect() -> None:
    from inspect_ai.model import GenerateConfig

    learner: Any = read({"learner": "model", "model": "openai/m", "batch": True, "at_once": 7})
    client = learner.client()
    assert GenerateConfig(**client._settings).batch is True
    assert client.gate.limit == 7, "a batch waits for all of its requests"
