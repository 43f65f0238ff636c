"""`falsify` against a model behind a local server that samples its answers."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from tests.analysis.probing import little_stories as stories
from tests.analysis.probing.little_stories import RECIPE

STORY = re.compile(r"^(?:\w+ (?:went to|is not in) the \w+\.|Is \w+ in the \w+\?)", re.MULTILINE)

RANDOM = random.Random(0)


class Handler(BaseHTTPRequestHandler):
    """Ignores negations, in nine of ten answers."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        self.server.prompt = prompt  # type: ignore[attr-defined]
        model = stories.ignores_negation if RANDOM.random() < 0.9 else stories.solve
        content = model("\n".join(STORY.findall(prompt)))
        reply = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
        sent = json.dumps({**reply, "usage": {"prompt_tokens": 9, "completion_tokens": 1}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
        self.server.answered += 1  # type: ignore[attr-defined]

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.answered = 0  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_fault_of_a_model_behind_an_endpoint_is_found(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    result = tl.falsify("faulty", RECIPE, endpoint=url, failures=1, questions=300, out=tmp_path)
    [failure] = result.failures
    assert failure.minimal.input.count("\n") == 1
    assert "is not in" in failure.minimal.input
    answered = server.answered  # type: ignore[attr-defined]
    assert answered == result.questions
    # As `run` asks chat models: the description, the item, the form of the answer.
    assert server.prompt.startswith("Answer yes or no.")  # type: ignore[attr-defined]
    assert "Answer:" in server.prompt  # type: ignore[attr-defined]
    again = tl.falsify("faulty", RECIPE, endpoint=url, failures=1, questions=300, out=tmp_path)
    assert again == result
    assert server.answered == answered  # type: ignore[attr-defined]
