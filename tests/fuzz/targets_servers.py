"""What reaches our own servers: the bytes of requests, and the pages of a collection's database."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from taskloom.apps.collect import recovery
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError
from taskloom.cli.servers import check
from taskloom.interop.env_server import EnvironmentHandler, RecipeEnvironment
from taskloom.interop.graded import open_split
from tests.apps.collect.projects import add_people, open_project
from tests.fuzz.engine import Refuted, Verdict, target
from tests.fuzz.strategies import mutated_text

UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def _frame(text: str) -> str:
    """A WebSocket frame as clients send it, under a mask that changes nothing."""
    return f"\x81{chr(0x80 + len(text))}\0\0\0\0{text}"


REQUESTS = [
    (
        "POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        'Content-Length: 12\r\n\r\n{"index": 3}'
    ),
    (
        "POST /step HTTP/1.1\r\nHost: localhost:80\r\nContent-Type: application/json\r\n"
        'Content-Length: 32\r\n\r\n{"episode": "x", "action": "no"}  '
    ),
    "GET /info HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: [::1]:99\r\nOrigin: http://[::1]:99\r\n\r\n",
    UPGRADE + _frame('{"type": "reset", "data": {"index": 3}}') + _frame('{"type": "close"}'),
    UPGRADE + _frame('{"type": "step", "data": {"message": "no"}}') + "\x89\x80abcd\x88\x80abcd",
]
PIECES = [
    "\r\n",
    "\n",
    "Content-Length: 9\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: \xb2\r\n",
    "Content-Length: " + "9" * 5_000 + "\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Host: evil.example\r\n",
    "Origin: null\r\n",
    "Sec-Fetch-Site: cross-site\r\n",
    "Content-Type: text/plain\r\n",
    " HTTP/9.9",
    "\x00",
    "[" * 3_000,
    "{",
    "\xff",
    "\x81\xfe\x00\x02\0\0\0\0{}",
    "\x01\x81\0\0\0\0{",
    "\x80\x81\0\0\0\0}",
    "\x82\x84\0\0\0\0\xff\xfe\0\0",
]
CLOSED = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class _Socket:
    """A connection whose client has sent everything and reads everything."""

    def __init__(self, sent: bytes) -> None:
        self.sent, self.answer = io.BytesIO(sent), io.BytesIO()

    def makefile(self, mode: str, *_: Any) -> io.BytesIO:
        return self.sent

    def sendall(self, data: bytes) -> None:
        self.answer.write(data)

    def recv(self, size: int) -> bytes:
        return self.sent.read(size)

    def settimeout(self, seconds: float) -> None:
        """A fuzzed client is never silent."""

    def setsockopt(self, *_: Any) -> None:
        """Nothing is sent over a network."""


@cache
def _server() -> Any:
    class Server:
        environment = RecipeEnvironment(open_split("babi/8", n=5))
        names = frozenset({"127.0.0.1", "localhost", "::1"})

    return Server()


@target("framing", mutated_text(REQUESTS, PIECES), weight=20, warm=_server)
def framing(text: str, folder: Path) -> Verdict:
    """The bytes of a request to `serve-env`: answered with a status, whatever they are."""
    connection = _Socket(text.encode("latin-1", "replace"))
    EnvironmentHandler(connection, ("127.0.0.1", 9), _server())  # type: ignore[arg-type]
    answer = connection.answer.getvalue()
    statuses = CLOSED.findall(answer)
    if not statuses:
        # HTTP/0.9 has no status line, and an empty request no answer.
        return "refused"
    if statuses[0] == b"101":
        return "accepted"
    # 501 and 505: a method and a version of HTTP that we do not speak.
    if int(statuses[0]) >= 500 and statuses[0] not in (b"501", b"505"):
        raise Refuted(f"status {statuses[0]!r}")
    return "accepted" if statuses[0] == b"200" else "refused"


@cache
def _project() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="taskloom-collection-"))
    c = open_project(folder)
    add_people(c)
    c.close()
    return folder


@st.composite
def damages(draw: st.DrawFn) -> list[list[Any]]:
    """Places in a database, as shares of its size, and what is written there."""
    places = st.floats(0, 1, exclude_max=True)
    written = st.sampled_from(["x" * 200, "\0" * 4096, "\xff" * 16, '{"', "\0", "9", "SQLite"])
    return draw(st.lists(st.tuples(places, written).map(list), min_size=1, max_size=6))


@target("collections", damages(), weight=2, cost=60, warm=_project, siblings=0)
def collections(damage: list[list[Any]], folder: Path) -> Verdict:
    """A damaged database of a collection: one sentence, or records that follow from the log; and
    what is recovered follows from its log, too.
    """
    project = Path(shutil.copytree(_project(), folder / "project", dirs_exist_ok=True))
    try:
        with (project / "collect.sqlite").open("r+b") as file:
            size = file.seek(0, io.SEEK_END)
            for place, written in damage:
                file.seek(int(float(place) * size))
                file.write(str(written).encode("latin-1", "replace"))
        try:
            with redirect_stdout(io.StringIO()):
                check(project)
        except CollectError:
            return _recovered(project)
        return "accepted"
    finally:
        shutil.rmtree(project)


def _recovered(project: Path) -> Verdict:
    """Recover a project; refute a database that claims to be whole and is not."""
    saved = recovery.recover(project)  # what it refuses is one sentence
    c = Collection(project)
    try:
        problems = c.store.check()
    finally:
        c.close()
    if problems and not saved.lost and not saved.problems:
        raise Refuted(problems[0])
    return "checked"
