"""A recipe as an environment behind HTTP: `reset` hands out an example, `step` scores the answer and ends the episode.

The shape is OpenEnv's: JSON objects with `observation`, `reward` and `done`. The server listens on the loopback interface unless
told otherwise, keeps what it handed out in memory, and has no other state.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taskloom.core.errors import InputError, TaskloomError, echo
from taskloom.core.example import Example
from taskloom.core.listener import LOOPBACK, address, hostname, is_loopback, listen
from taskloom.interop.graded import GradedSplit

MOST_BYTES = 2**20
"""A request that is longer is refused: an answer is short."""
MOST_EPISODES = 10_000
"""Episodes that were begun and not ended; the oldest are forgotten, so that clients that never answer fill no memory."""


class RecipeEnvironment:
    """Episodes of one turn over the examples of a split, in order or by index. Safe to use from several threads."""

    def __init__(self, graded: GradedSplit) -> None:
        self.graded = graded
        self._next = 0
        self._open: OrderedDict[str, Example] = OrderedDict()
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """Return what is served."""
        g = self.graded
        return {
            "recipe": g.name,
            "split": g.split,
            "seed": g.seed,
            "n": len(g),
            "scorer": g.plan.scorer.name,
            "extract": str(g.extraction),
        }

    def reset(self, index: int | None = None) -> dict[str, Any]:
        """Begin an episode with the example of an index, or with the next one."""
        if index is not None and (
            isinstance(index, bool)
            or not isinstance(index, int)
            or not 0 <= index < len(self.graded)
        ):
            raise InputError(
                f"index is {echo(index)}; it must be a whole number from 0 to {len(self.graded) - 1}"
            )
        with self._lock:
            if index is None:
                index, self._next = self._next, (self._next + 1) % len(self.graded)
            example = self.graded[index]
            episode = uuid.uuid4().hex
            self._open[episode] = example
            while len(self._open) > MOST_EPISODES:
                self._open.popitem(last=False)
        observation = {
            "prompt": example.input,
            "task": example.task,
            "traits": dict(example.traits),
            "index": index,
        }
        return {"episode": episode, "observation": observation, "reward": None, "done": False}

    def step(self, episode: object, action: object) -> dict[str, Any]:
        """Score the answer to an episode, which ends with it; an action is a text, or an object with one as `text`."""
        with self._lock:
            example = self._open.pop(episode, None) if isinstance(episode, str) else None
        if example is None:
            raise InputError(
                f"there is no open episode {echo(episode)}; call reset first, and step once"
            )
        reply = action.get("text") if isinstance(action, dict) else action
        grade = self.graded.grade(reply, example)
        info = {"answer": grade.answer, "reason": grade.reason, "targets": list(example.targets)}
        return {
            "episode": episode,
            "observation": {},
            "reward": grade.score,
            "done": True,
            "info": info,
        }


class EnvironmentServer(ThreadingHTTPServer):
    """The HTTP server of an environment."""

    daemon_threads = True

    def __init__(
        self, environment: RecipeEnvironment, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.environment = environment
        self.names = LOOPBACK if is_loopback(host) else frozenset()
        listener = listen(host, [port])
        super().__init__(listener.getsockname()[:2], EnvironmentHandler, bind_and_activate=False)
        self.socket.close()  # one that is not bound
        self.socket, self.host = listener, host

    @property
    def url(self) -> str:
        """Return the address that clients use."""
        return address(self.host, self.socket)


class EnvironmentHandler(BaseHTTPRequestHandler):
    """One request: a path, a JSON object in, a JSON object out."""

    server: EnvironmentServer
    timeout = 30

    def do_GET(self) -> None:
        """Answer `/health` and `/info`."""
        paths = {"/health": {"status": "healthy"}, "/info": self.server.environment.info()}
        if self._is_for_us():
            known = self.path in paths
            self._send(
                200 if known else 404,
                paths.get(self.path, {"error": f"there is no {self.path[:80]}"}),
            )

    def do_POST(self) -> None:
        """Answer `/reset` and `/step`."""
        if not self._is_for_us():
            return
        try:
            body = self._body()
            if self.path == "/reset":
                self._send(200, self.server.environment.reset(body.get("index")))
            elif self.path == "/step":
                self._send(
                    200, self.server.environment.step(body.get("episode"), body.get("action"))
                )
            else:
                self._send(404, {"error": f"there is no {self.path[:80]}; post to /reset or /step"})
        except TaskloomError as error:
            self._send(400, {"error": str(error)})

    def _is_for_us(self) -> bool:
        """Refuse requests that a page in a browser sends to this machine under another name."""
        if self.server.names and hostname(self.headers.get("Host") or "") not in self.server.names:
            self._send(403, {"error": f"this server is for {', '.join(sorted(self.server.names))}"})
            return False
        return True

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length") or "0"
        if not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True
            raise InputError(
                f"the request has {length[:20]} bytes; at most {MOST_BYTES:,} are read"
            )
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except (ValueError, RecursionError) as error:
            raise InputError(f"the request is not JSON ({str(error)[:100]})") from error
        if not isinstance(body, dict):
            raise InputError(f"the request is {echo(body)}; it must be a JSON object")
        return body

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a line per request would hide what matters."""
