"""Whatever a server does, a run ends with a result or with one sentence, the rerun finishes it, and
the key is nowhere on disk.
"""

from __future__ import annotations

import gzip
import json
import shutil
import socketserver
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.learners.chat_server import serving
from tests.learners.test_endpoint_replies import KEY, completion, pieces
from tests.slow import slow_except

from taskloom.cli.app import run
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine

CRLF = "\r\n"


def response(
    body: bytes | object, status: str = "200 OK", *headers: str, length: int | None = None
) -> bytes:
    """A whole HTTP response."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = len(raw) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", "Connection: close", *headers]
    return (CRLF.join(lines) + CRLF * 2).encode() + raw


def failing(status: str, *headers: str) -> bytes:
    return response({"error": {"message": f"no, {KEY}"}}, status, *headers)


def moved(status: str) -> bytes:
    return response(b"", status, f"Location: http://127.0.0.1:9/{KEY}")


def counted(usage: object) -> bytes:
    return response({**completion("kitchen"), "usage": usage})


GOOD = response(completion("Answer: kitchen"))
DEEP = b'{"choices":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
HUGE = b'{"choices": [{"message": {"content": "' + b"a" * 2**23 + b'"}}]}'
UNSUPPORTED = {"error": {"message": "'max_tokens' is not supported", "param": "max_tokens"}}

BEHAVIOURS: dict[str, bytes] = {
    "a right answer": GOOD,
    "closed at once": b"",
    "half a status line": b"HTTP/1.",
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "HTTP 1.0 without a length": b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(completion("a")).encode(),
    "half a body": response(b'{"choices": [{"mess', length=500),
    "half JSON": response(b'{"choices": [{"mess'),
    "a wrong length": response(completion("kitchen"), length=10),
    "a negative length": response(completion("kitchen"), length=-5),
    "two replies in one": response(json.dumps(completion("a")).encode() * 2),
    "two responses": GOOD + GOOD,
    "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
    "gzip that nobody asked for": response(
        gzip.compress(json.dumps(completion("kitchen")).encode()),
        "200 OK",
        "Content-Encoding: gzip",
    ),
    "a web page": response(b"<html>maintenance</html>", "200 OK", "Content-Type: text/html"),
    "another encoding": response('{"choices": "é"}'.encode("latin-1")),
    "a list": response([1]),
    "no choices": response({"choices": []}),
    "deep JSON": response(DEEP),
    "a huge reply": response(HUGE),
    "thousands of headers": response(
        completion("a"), "200 OK", *[f"X-{i}: y" for i in range(5000)]
    ),
    "a 100-continue first": b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + GOOD,
    "negative tokens": counted({"total_tokens": -5, "prompt_tokens": -1}),
    "tokens of 5,000 digits": response(
        json.dumps(completion("a")).replace("12", "9" * 4000).encode()
    ),
    "tokens as text": counted({"total_tokens": "many"}),
    "moved for good": moved("301 Moved Permanently"),
    "moved": moved("302 Found"),
    "moved, same method": moved("307 Temporary Redirect"),
    "moved for good, same method": moved("308 Permanent Redirect"),
    "400": failing("400 Bad Request"),
    "401": failing("401 Unauthorized"),
    "402": failing("402 Payment Required"),
    "403": failing("403 Forbidden"),
    "404": failing("404 Not Found"),
    "413": failing("413 Content Too Large"),
    "429 for a day": failing("429 Too Many Requests", "Retry-After: 86400"),
    "429 until the year 9999": failing(
        "429 Too Many Requests", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"
    ),
    "429 in no time": failing("429 Too Many Requests", "Retry-After: 0"),
    "500": failing("500 Internal Server Error"),
    "503": failing("503 Service Unavailable"),
    "a status of its own": failing("799 Whatever"),
    "a refused parameter": response(UNSUPPORTED, "400 Bad Request"),
    "a filtered question": response(
        {"error": {"message": f"policy, {KEY}", "code": "content_filter"}}, "400 Bad Request"
    ),
    "a question that is too long": response(
        {"error": {"message": f"{KEY}: maximum context length is 8"}}, "400 Bad Request"
    ),
    "the key in the answer": response(completion(f"Answer: {KEY}")),
    "thinking alone": response(completion("<think>the answer is kitchen", "length")),
    "thinking apart": response(completion("Answer: a", reasoning_content="the answer is b")),
    "an empty reply": response(completion("")),
    "nothing": response(completion(None)),
    "filtered": response(completion(None, "content_filter")),
    "a refusal": response(completion(None, refusal="I cannot help.")),
    "half a surrogate pair": response(b'{"choices":[{"message":{"content":"\\ud83d x"}}]}'),
    "NUL and escapes": response(completion("\x00\x1b[31m\u202ekitchen")),
}

SLOW = {"drips": 0.05, "hangs": 3.0}
"""Behaviours that take time, with the seconds between two bytes."""


class OddServer(socketserver.ThreadingTCPServer):
    """Does the same with every connection."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OddHandler)
        self.reply = GOOD
        self.pause = 0.0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class OddHandler(socketserver.StreamRequestHandler):
    server: OddServer

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip().lower():
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        self.rfile.read(length)
        if not self.server.pause:
            self.wfile.write(self.server.reply)
            return
        for byte in self.server.reply:
            time.sleep(self.server.pause)
            self.wfile.write(bytes([byte]))


@pytest.fixture(scope="module")
def server() -> Iterator[OddServer]:
    found = OddServer()
    with serving(found):  # type: ignore[arg-type]
        yield found


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, server: OddServer) -> Path:
    """A store with the dataset, which all tests share."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "start", lambda name, **options: HereEngine())
        patch.setenv("OPENAI_API_KEY", KEY)
        server.reply, server.pause = GOOD, 0.0
        assert run(command(folder, server, model="first")) == 0
    return folder / "runs"


def command(folder: Path, server: OddServer, **settings: Any) -> list[str]:
    small = {"splits": {"train": {"n": 300}, "iid": {"n": 4}}}
    quick = {"attempts": 2, "pause": 0.01, "timeout": 0.7, "at_once": 2}
    learner = {"learner": "endpoint", "url": server.url, "model": "m", **quick, **settings}
    content = {
        "recipes": [{"recipe": "ctl/A-independent", "set": small}],
        "learners": [learner],
    }
    (folder / "e.yaml").write_text(json.dumps(content))
    return ["run", str(folder / "e.yaml"), "--store", str(folder / "runs"), "--workers", "1"]


def readable(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".parquet":
        raw += str(pq.read_table(path).to_pylist()).encode()
    return raw


QUICK = ("a right answer", "half a body", "429 until the year 9999", "the key in the answer", "401")


@pytest.mark.parametrize("name", slow_except([*BEHAVIOURS, *SLOW], *QUICK))
def test_a_run_ends_with_a_result_or_one_sentence_and_resumes(
    name: str,
    server: OddServer,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    start: Callable[..., HereEngine] = lambda name, **options: HereEngine()  # noqa: E731
    monkeypatch.setattr(engines, "start", start)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    shutil.copytree(prepared, tmp_path / "runs")
    server.reply, server.pause = BEHAVIOURS.get(name, GOOD), SLOW.get(name, 0.0)
    status = run(command(tmp_path, server))
    shown = "".join(capfd.readouterr())
    assert "Traceback" not in shown
    assert not pieces(KEY) & pieces(shown)
    scores = list((tmp_path / "runs").glob("??/*/scores.json"))
    if status == 0:
        assert len(scores) == 2
    else:
        assert len(scores) == 1
        assert "1 failed" in shown
    server.reply, server.pause = GOOD, 0.0
    assert run(command(tmp_path, server)) == 0, capfd.readouterr()
    assert len(list((tmp_path / "runs").glob("??/*/scores.json"))) == 2
    for path in (tmp_path / "runs").rglob("*"):
        if path.is_file():
            assert not any(piece.encode() in readable(path) for piece in pieces(KEY)), path


def test_there_are_forty_behaviours() -> None:
    assert len(BEHAVIOURS) + len(SLOW) >= 40
