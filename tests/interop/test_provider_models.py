"""The learner `model`: the same prompts, answers and records as `endpoint`, by Inspect's model
layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
