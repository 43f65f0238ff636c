"""A language model behind an OpenAI-compatible address: `python -m tests.interop.model_server
FOLDER` prints the address.

It answers `POST /v1/chat/completions`, one request after the other, greedily: what a client sees of
a real server.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ModelServer(ThreadingHTTPServer):
    """The server, with the model of a folder."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: Path, port: int = 0) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        super().__init__(("127.0.0.1", port), ModelHandler)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.lock = threading.Lock()
        self.answered = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed has gone, which is what a test of a kill is about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, messages: list[dict[str, str]], most: int) -> tuple[str, int, int]:
        """Return a reply, and the numbers of tokens of the prompt and of the reply."""
        import torch

        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        prompt = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        length = prompt["input_ids"].shape[1]
        with self.lock, torch.no_grad():
            self.answered += 1
            whole = self.model.generate(
                input_ids=prompt["input_ids"],
                attention_mask=prompt["attention_mask"],
                max_new_tokens=most,
                do_sample=False,
                pad_token_id=self.tokenizer.pad_token_id or 0,
            )
        reply = whole[0, length:]
        return self.tokenizer.decode(reply, skip_special_tokens=True), length, len(reply)


class ModelHandler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send({"answered": self.server.answered})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        most = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        text, asked, written = self.server.answer(body["messages"], most)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        usage = {
            "prompt_tokens": asked,
            "completion_tokens": written,
            "total_tokens": asked + written,
        }
        self.send(
            {
                "object": "chat.completion",
                "model": body["model"],
                "choices": [choice],
                "usage": usage,
            }
        )

    def send(self, answer: dict[str, Any]) -> None:
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


if __name__ == "__main__":
    server = ModelServer(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(server.url, flush=True)
    server.serve_forever()
