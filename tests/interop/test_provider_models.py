"""The learner `model`: the same prompts, answers and records as `endpoint`, by Inspect's model
layer.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.learners import LearnerError
from taskloom.learners.config import read
from tests.learners.chat_server import ChatHandler, ChatServer, serving

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


class BatchHandler(ChatHandler):
    """OpenAI's batch mode: a file of requests, a batch, a file of replies."""

    server: BatchServer

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server asks for
        number = int(re.findall(r"\d+", self.path)[-1])
        if self.path.endswith("/content"):
            raw = "".join(self.line(one) for one in self.server.batches[number]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
            return
        counts = {"completed": 1, "failed": 0, "total": 1}
        done = {"status": "completed", "output_file_id": f"file-{number}", "request_counts": counts}
        self.send({**self.batch(number), **done})

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server asks for
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/batches"):
            number = int(json.loads(raw)["input_file_id"].removeprefix("file-"))
            return self.send(self.batch(number))
        requests = [json.loads(line) for line in raw.splitlines() if line.startswith(b"{")]
        self.server.batches.append(requests)
        number = len(self.server.batches) - 1
        about = {"bytes": 1, "filename": "a", "purpose": "batch", "status": "processed"}
        return self.send({"id": f"file-{number}", "object": "file", "created_at": 0, **about})

    def batch(self, number: int) -> dict[str, Any]:
        about = {"endpoint": "/v1/chat/completions", "completion_window": "24h", "created_at": 0}
        files = {"input_file_id": f"file-{number}", "status": "in_progress"}
        return {"id": f"batch_{number}", "object": "batch", **about, **files}

    def line(self, request: dict[str, Any]) -> str:
        body = request["body"]
        text, _, finish = self.server.reply(body["model"], body["messages"][-1]["content"])
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        reply = {"id": "a", "object": "chat.completion", "created": 0, "model": "m"}
        whole = {**reply, "choices": [choice], "usage": usage}
        answer = {"custom_id": request["custom_id"], "error": None}
        return json.dumps({**answer, "response": {"status_code": 200, "body": whole}}) + "\n"


class BatchServer(ChatServer):
    """Answers in batches alone."""

    def __init__(self) -> None:
        super().__init__(STORIES, {"m": 0.8})
        self.RequestHandlerClass = BatchHandler
        self.batches: list[list[dict[str, Any]]] = []


def test_all_questions_share_a_batch(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may take hours, so sixteen questions at once would take days."""
    monkeypatch.setenv("OPENAI_API_KEY", "local-key-123456")
    batches = BatchServer()
    block = {
        "learner": "model",
        "model": "openai/m",
        "batch": True,
        "timeout": 1,  # of one request, which a batch is not
        "arguments": {"base_url": batches.url, "responses_api": False},
        "request": {"batch": {"size": 200, "send_delay": 20, "tick": 0.2}},
    }
    with serving(batches):
        model: Any = read(block).fit([])
        answers = model.answer(list(STORIES))
    assert [len(requests) for requests in batches.batches] == [200]
    endpoint: Any = read({"learner": "endpoint", "url": server.url, "model": "m"}).fit([])
    assert answers == endpoint.answer(list(STORIES))


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"max_completion_tokens": 7}, "request: .*max_completion_tokens"),
        ({"temperature": "hot"}, "request: temperature: .*valid number"),
    ],
)
def test_a_parameter_that_inspect_does_not_have_is_one_sentence(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, request_: dict[str, Any], fault: str
) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "local-key-123456")
    block = {"learner": "model", "model": "openai-api/local/m", "request": request_}
    model = read({**block, "arguments": {"base_url": server.url}}).fit([])
    with pytest.raises(LearnerError, match=fault) as caught:
        model.answer(["Where is Fred?"])
    assert "\n" not in str(caught.value)


def test_parameters_replace_the_settings_of_the_same_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "local-key-123456")
    asked = ChatServer(STORIES)
    block = {"learner": "model", "model": "openai-api/local/m", "longest_answer": 50}
    with serving(asked):
        more = {"arguments": {"base_url": asked.url}, "request": {"max_tokens": 7, "timeout": 9}}
        read({**block, **more}).fit([]).answer(["Where is Fred?"])
    assert asked.requests[-1]["max_tokens"] == 7


class HangingServer(ChatServer):
    """Never answers in time."""

    def reply(self, model: str, text: str) -> tuple[str | None, str, str]:
        time.sleep(5)
        return super().reply(model, text)


def test_a_request_that_hangs_ends_after_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "local-key-123456")
    hanging = HangingServer(STORIES)
    with serving(hanging):
        patient = {"timeout": 1, "attempts": 1, "arguments": {"base_url": hanging.url}}
        model = read({"learner": "model", "model": "openai-api/local/m", **patient}).fit([])
        with pytest.raises(LearnerError, match="no whole answer within 1 seconds"):
            model.answer(["Where is Fred?"])
