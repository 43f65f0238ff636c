"""A recipe as an environment behind HTTP: `reset` returns an example, `step` scores the answer and
ends the episode.

OpenEnv clients connect to `/ws`, where each connection is a session with one episode at a time, and
read `/schema`, `/metadata` and `/state`. Other clients post to `/reset` and `/step`. By default the
server listens on the loopback interface. Its only state is the open episodes, which are kept in
memory. Each client that names itself has its own order of examples and its own open episodes.
Clients without a name share one order per address. No client can end another's episode, because ids
cannot be guessed and a named client displaces only its own episodes. Requests that web pages cause
browsers to send are refused.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taskloom import __version__
from taskloom.core.errors import InputError, MissingExtra, TaskloomError, echo
from taskloom.core.listener import (
    LOOPBACK,
    address,
    caused_elsewhere,
    content_length,
    hostname,
    is_loopback,
    listen,
    of_another_origin,
)
from taskloom.interop.graded import GradedSplit

MOST_BYTES = 2**20
"""Maximum bytes of a request. Answers are short."""
MOST_EPISODES = 10_000
"""Maximum open episodes of one client. Beyond that, a named client's oldest ones are dropped, so
that a client that never answers does not fill the memory.
"""
MOST_OPEN = 100_000
"""Maximum number of open episodes of all clients."""
MOST_CLIENTS = 1_000
"""Maximum number of clients that are remembered."""
LONGEST_NAME = 200
"""Maximum length of the name that a client gives itself."""
IDLE_SECONDS = 3_600.0
"""Minimum idle seconds before a client may be dropped to make room for another. Also the minimum
age of a droppable episode of a client without a name.
"""


class BusyError(TaskloomError):
    """Raised if there is no room for another client or episode."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Sender of a request.

    Attributes:
        address: Address that the request comes from.
        name: The client's name; empty for all clients of an address without a name.
    """

    address: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Episode:
    """Index of an episode's example, and its start time."""

    index: int
    began: float


@dataclass
class _Client:
    """Open episodes of one client, the oldest first, and the index of its next example."""

    next: int = 0
    open: OrderedDict[str, _Episode] = field(default_factory=OrderedDict)
    asked: float = 0.0


NOBODY = Asker()


class RecipeEnvironment:
    """Single-turn episodes over the examples of a split, in order or by index. Thread-safe.

    Args:
        graded: The examples with their scorer.
        clock: Monotonic clock in seconds, to measure how long a client has been idle.
    """

    def __init__(self, graded: GradedSplit, clock: Callable[[], float] = time.monotonic) -> None:
        self.graded = graded
        self._clock = clock
        # Ordered by their last request, the longest idle first.
        self._clients: OrderedDict[Asker, _Client] = OrderedDict()
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """Recipe, split and scorer of the environment."""
        g = self.graded
        return {
            "recipe": g.name,
            "split": g.split,
            "seed": g.seed,
            "n": len(g),
            "scorer": g.plan.scorer.name,
            "extract": str(g.extraction),
        }

    def metadata(self) -> dict[str, Any]:
        """Metadata of the environment for OpenEnv."""
        g = self.graded
        return {
            "name": g.name,
            "description": g.plan.describe,
            "version": __version__,
            "author": "Taskloom",
            "documentation_url": "https://github.com/taskloom/taskloom",
            "readme_content": None,
        }

    def forget(self, client: Asker) -> None:
        """Forget a client and its open episodes."""
        with self._lock:
            self._clients.pop(client, None)

    def reset(self, index: object = None, client: Asker = NOBODY) -> dict[str, Any]:
        """Begin an episode with the example at an index, or with the client's next one."""
        with self._lock:
            number = None if index is None else self._checked(index)
            asking = self._client(client)
            self._make_room(client, asking)
            if number is None:
                number, asking.next = asking.next, (asking.next + 1) % len(self.graded)
            example = self.graded[number]
            episode = uuid.uuid4().hex
            asking.open[episode] = _Episode(number, asking.asked)
        observation = {
            "prompt": self.graded.prompt(example),
            "task": example.task,
            "traits": dict(example.traits),
            "index": number,
        }
        return {"episode": episode, "observation": observation, "reward": None, "done": False}

    def step(self, episode: object, action: object, client: Asker = NOBODY) -> dict[str, Any]:
        """Score the answer to an episode and end it. An action is a text, or an object with the
        text under `text`.
        """
        with self._lock:
            begun = None
            if client in self._clients and isinstance(episode, str):
                begun = self._client(client).open.pop(episode, None)
            if begun is None:
                raise InputError(
                    f"there is no open episode {echo(episode)}; call reset first, and step once"
                )
            example = self.graded[begun.index]
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

    def _make_room(self, client: Asker, asking: _Client) -> None:
        """Forget a client's oldest episode if there is no room for another one. The caller holds
        the lock.
        """
        if len(asking.open) < MOST_EPISODES:
            total = sum(len(known.open) for known in self._clients.values())
            if total >= MOST_OPEN:
                raise BusyError(f"{total:,} episodes are open; try again later")
            return
        oldest, begun = next(iter(asking.open.items()))
        # Without names, the oldest episode may belong to a different client.
        if not client.name and asking.asked - begun.began < IDLE_SECONDS:
            raise BusyError(
                f"{len(asking.open):,} episodes of clients without a name are open; answer them, or"
                ' give yourself a name: {"client": "…"}'
            )
        del asking.open[oldest]

    def _client(self, name: Asker) -> _Client:
        """Find or admit a client, and record the time of its request. The caller holds the lock."""
        now = self._clock()
        if name not in self._clients:
            if len(self._clients) >= MOST_CLIENTS:
                longest, idle = next(iter(self._clients.items()))
                if now - idle.asked < IDLE_SECONDS:
                    raise BusyError(f"{MOST_CLIENTS:,} clients are being served; try again later")
                del self._clients[longest]
            self._clients[name] = _Client()
        self._clients.move_to_end(name)
        found = self._clients[name]
        found.asked = now
        return found

    def _checked(self, index: object) -> int:
        last = len(self.graded) - 1
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index <= last:
            return index
        raise InputError(f"index is {echo(index)}; it must be a whole number from 0 to {last}")


SCHEMA = {
    "action": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The model's reply"}},
        "required": ["text"],
    },
    "observation": {
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "After reset: the message for the model"},
            "task": {"type": "string"},
            "traits": {"type": "object"},
            "index": {"type": "integer"},
            "answer": {"type": "string", "description": "After step: the extracted answer"},
            "reason": {"type": "string", "description": "After step: why it has its score"},
            "targets": {"type": "array", "items": {"type": "string"}},
        },
    },
    "state": {
        "type": "object",
        "properties": {
            "episode_id": {"type": ["string", "null"]},
            "step_count": {"type": "integer"},
        },
    },
}
"""JSON schemas of actions, observations and states for OpenEnv."""


class Session:
    """One connection of an OpenEnv client: at most one open episode.

    Args:
        environment: The environment.
        client: Unique client of the session.
    """

    def __init__(self, environment: RecipeEnvironment, client: Asker) -> None:
        self.environment, self.client = environment, client
        self.episode: str | None = None
        self.steps = 0
        self.closed = False

    def answer(self, raw: bytes) -> dict[str, Any]:
        """Answer one message. The answer to an invalid message is OpenEnv's error object."""
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError) as error:
            return _error("INVALID_JSON", f"the message is not JSON ({str(error)[:100]})")
        if not isinstance(message, dict) or not isinstance(message.get("data", {}), dict):
            return _error("VALIDATION_ERROR", "a message has a text 'type' and an object 'data'")
        kind, data = message.get("type"), message.get("data", {})
        try:
            if kind == "reset":
                return self._reset(data)
            if kind == "step":
                return self._step(data)
        except TaskloomError as error:
            code = "CAPACITY_REACHED" if isinstance(error, BusyError) else "EXECUTION_ERROR"
            return _error(code, str(error))
        if kind == "state":
            return {"type": "state", "data": self._state()}
        if kind == "close":
            self.closed = True
            return {"type": "state", "data": self._state()}
        return _error("UNKNOWN_TYPE", f"there is no message {echo(kind)}")

    def _state(self) -> dict[str, Any]:
        return {"episode_id": self.episode, "step_count": self.steps}

    def _reset(self, data: dict[str, Any]) -> dict[str, Any]:
        """Begin an episode with the example that `seed` or `index` chooses."""
        index, seed = data.get("index"), data.get("seed")
        if index is None and isinstance(seed, int):
            index = seed % len(self.environment.graded)
        begun = self.environment.reset(index, self.client)
        self.episode, self.steps = begun["episode"], 0
        return _observed(begun["observation"], None, False)

    def _step(self, action: dict[str, Any]) -> dict[str, Any]:
        ended = self.environment.step(self.episode, action, self.client)
        self.steps += 1
        return _observed(ended["info"], ended["reward"], True)


def _observed(observation: dict[str, Any], reward: float | None, done: bool) -> dict[str, Any]:
    data = {"observation": observation, "reward": reward, "done": done}
    return {"type": "observation", "data": data}


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}


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
        self.socket.close()  # unbound; replaced by our own
        self.socket, self.host = listener, host

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the client disconnected or timed out."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Address for clients."""
        return address(self.host, self.socket)


class EnvironmentHandler(BaseHTTPRequestHandler):
    """One request: a path, a JSON object in, a JSON object out."""

    server: EnvironmentServer
    timeout = 30
    # Head and body are separate segments. With Nagle's algorithm the second may wait for an
    # acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer `/health`, `/info` and OpenEnv's paths, and upgrade `/ws` to a WebSocket."""
        if self._is_refused():
            return
        environment = self.server.environment
        if self.path == "/ws":
            self._serve_session()
            return
        paths = {
            "/health": {"status": "healthy"},
            "/info": environment.info(),
            "/metadata": environment.metadata(),
            "/schema": SCHEMA,
            "/state": {"episode_id": None, "step_count": 0},
        }
        if self.path in paths:
            self._send(200, paths[self.path])
        else:
            self._send(404, {"error": f"there is no {self.path[:80]}"})

    def do_POST(self) -> None:
        """Answer `/reset` and `/step`."""
        if self._is_refused():
            return
        environment = self.server.environment
        try:
            body = self._body()
            client = self._asker(body)
            if self.path == "/reset":
                self._send(200, environment.reset(body.get("index"), client))
            elif self.path == "/step":
                answer = environment.step(body.get("episode"), body.get("action"), client)
                self._send(200, answer)
            else:
                self._send(404, {"error": f"there is no {self.path[:80]}; post to /reset or /step"})
        except BusyError as error:
            self._send(503, {"error": str(error)})
        except TaskloomError as error:
            self._send(400, {"error": str(error)})

    def _serve_session(self) -> None:
        """Speak OpenEnv's protocol over a WebSocket until the client closes it."""
        try:
            from websockets.frames import Opcode
            from websockets.http11 import Request
            from websockets.protocol import State
            from websockets.server import ServerProtocol
        except ImportError:
            error = MissingExtra("/ws", "websockets", "openenv")
            self._send(501, {"error": str(error)})
            return
        socket = self.connection
        socket.settimeout(IDLE_SECONDS)  # a trainer may take long between two steps
        self.close_connection = True
        protocol = ServerProtocol(max_size=MOST_BYTES)
        # The request was already read, but the protocol needs it, too.
        head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        protocol.receive_data(f"GET {self.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
        session = Session(self.server.environment, Asker(self.client_address[0], uuid.uuid4().hex))
        text = b""
        try:
            while True:
                for event in protocol.events_received():
                    if isinstance(event, Request):
                        protocol.send_response(protocol.accept(event))
                    elif event.opcode in (Opcode.TEXT, Opcode.CONT):
                        text += event.data
                        # The same bytes may contain the closing of the connection.
                        if event.fin and protocol.state is State.OPEN:
                            protocol.send_text(json.dumps(session.answer(text)).encode())
                            text = b""
                for data in protocol.data_to_send():
                    if data:
                        socket.sendall(data)
                if session.closed or protocol.close_expected():
                    break
                received = socket.recv(65_536)
                if not received:
                    break
                protocol.receive_data(received)
        finally:
            session.environment.forget(session.client)

    def _is_refused(self) -> bool:
        """Refuse requests with a wrong host or with several hosts, and requests caused by web
        pages.
        """
        # A proxy may have checked the other header.
        for name in ("Host", "Content-Length"):
            if len(self.headers.get_all(name) or ()) > 1:
                self._send(400, {"error": f"the request has more than one {name}"})
                return True
        names = self.server.names
        if names and hostname(self.headers.get("Host") or "") not in names:
            self._send(403, {"error": f"this server is for {', '.join(sorted(names))}"})
            return True
        headers = {name.lower(): value for name, value in self.headers.items()}
        if caused_elsewhere(headers) or of_another_origin(headers):
            self._send(403, {"error": "this request came from another site"})
            return True
        return False

    def _body(self) -> dict[str, Any]:
        """Read the JSON object of a request."""
        if self.headers.get("Transfer-Encoding"):
            raise InputError("the request has no Content-Length")
        stated = self.headers.get("Content-Length") or "0"
        length = content_length(stated)
        if length is None or length > MOST_BYTES:
            raise InputError(
                f"the request has {stated[:20]!r} bytes; at most {MOST_BYTES:,} are read"
            )
        if length == 0:
            return {}
        # Browsers let other sites send forms and plain text without a preflight request, but not
        # JSON.
        kind = self.headers.get_content_type()
        if kind != "application/json":
            raise InputError(f"the request is {kind}; send it as application/json")
        try:
            body = json.loads(self.rfile.read(length))
        except (ValueError, RecursionError) as error:
            raise InputError(f"the request is not JSON ({str(error)[:100]})") from error
        if not isinstance(body, dict):
            raise InputError(f"the request is {echo(body)}; it must be a JSON object")
        return body

    def _asker(self, body: dict[str, Any]) -> Asker:
        """Sender of a request: the address, and the client's name if it gives one."""
        name = body.get("client", "")
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise InputError(
                f"client is {echo(name)}; it must be a text of at most {LONGEST_NAME} characters"
            )
        return Asker(self.client_address[0], name)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing, because a line per request would hide important messages."""
