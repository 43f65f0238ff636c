"""A local server that answers as models behind an API do: mostly right, in many forms, with thoughts,
empty, filtered and cut-off replies, refusals of parameters, and 429s.

It knows the answers of a recipe, so it needs no model. What it does with a question depends on a
digest of the model and the question alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FORMS = (
    "{thought}I looked at each sentence in turn.\nAnswer: {answer}",
    "{thought}Answer: {answer}",
    "{thought}**Answer:** {answer}.",
    "{thought}The answer is {answer}.",
    "{thought}So the result follows.\n\n\\boxed{{{answer}}}",
    "{thought}<answer>{answer}</answer>",
)


class ChatServer(ThreadingHTTPServer):
    """The server.

    Args:
        answers: Right answers by input, each with how hard the input is (1 is easy).
        skill: Share of right answers to easy inputs by model; it falls with the hardness.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, answers: Mapping[str, tuple[str, int]], skill: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(("127.0.0.1", 0), ChatHandler)
        self.answers = answers
        self.skill = skill or {}
        self.lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.refused: set[str] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def reply(self, model: str, text: str) -> tuple[str | None, str, str]:
        """Content, thinking and reason for the end of the reply to a prompt."""
        found = [known for known in self.answers if known in text]
        right, hardness = self.answers[found[0]] if found else ("nothing", 1)
        number = int.from_bytes(blake2b(f"{model} {text}".encode(), digest_size=4).digest())
        skill = self.skill.get(model, 0.9) / hardness
        is_right = number % 1000 < 1000 * skill
        others = sorted({answer for answer, _ in self.answers.values()} - {right}) or ["nowhere"]
        answer = right if is_right else others[number % len(others)]
        odd = number // 1000 % 25
        if odd == 0:
            return None, "", "stop"
        if odd == 1:
            return None, "", "content_filter"
        if odd == 2:
            return f"<think>Perhaps the answer is {answer}", "", "length"
        if odd == 3:
            return f"She may be in the {answer}, I think", "", "stop"
        thought = f"<think>Is the answer {others[0]}? No.</think>\n" if number % 3 == 0 else ""
        apart = f"The answer is not {others[0]}." if number % 3 == 1 else ""
        form = FORMS[number // 7 % len(FORMS)]
        return form.format(thought=thought, answer=answer), apart, "stop"


class ChatHandler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: ChatServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = body["model"]
        with self.server.lock:
            self.server.requests.append({"path": self.path, **body})
            is_first = model not in self.server.refused
            self.server.refused.add(model)
        if is_first:
            return self.send({"error": {"message": "slow down"}}, 429, {"Retry-After": "0.1"})
        if model.startswith("new-") and "max_tokens" in body:
            why = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return self.send({"error": {"message": why, "param": "max_tokens"}}, 400)
        turns = body.get("messages") or body["input"]
        text, thinking, finish = self.server.reply(model, turns[-1]["content"])
        asked, written = len(str(turns)) // 4, len((text or "") + thinking) // 4 + 1
        counts = {"total_tokens": asked + written}
        details = {"reasoning_tokens": len(thinking) // 4}
        if self.path.endswith("/responses"):
            usage = {"input_tokens": asked, "output_tokens": written, **counts}
            parts = [{"type": "output_text", "text": text}] if text else []
            summary = [{"type": "summary_text", "text": thinking}]
            is_cut = finish != "stop"
            reason = "max_output_tokens" if finish == "length" else finish
            return self.send(
                {
                    "status": "incomplete" if is_cut else "completed",
                    "incomplete_details": {"reason": reason} if is_cut else None,
                    "output": [
                        {"type": "reasoning", "summary": summary if thinking else []},
                        {"type": "message", "role": "assistant", "content": parts},
                    ],
                    "usage": {**usage, "output_tokens_details": details},
                }
            )
        message = {"role": "assistant", "content": text, "reasoning_content": thinking or None}
        usage = {"prompt_tokens": asked, "completion_tokens": written, **counts}
        return self.send(
            {
                "id": "reply-1",
                "object": "chat.completion",
                "created": 0,
                "model": model,
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {**usage, "completion_tokens_details": details},
            }
        )

    def send(
        self, answer: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Answer requests while the block runs."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
