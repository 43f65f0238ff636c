"""Real servers on the loopback interface: pyoxigraph as a SPARQL endpoint, and one that misbehaves
on request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

JSON = "application/sparql-results+json"

Reply = Callable[[BaseHTTPRequestHandler, str], None]


@contextmanager
def serving(reply: Reply) -> Iterator[str]:
    """The address of a server that answers every posted query by `reply(handler, query)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # The client gives up, as some tests want it to.
                reply(self, parse_qs(body, strict_parsing=True)["query"][0])

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/sparql"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(
    handler: BaseHTTPRequestHandler,
    body: bytes,
    kind: str = JSON,
    status: int = 200,
    length: int | None = None,
    **headers: str,
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


class Oxigraph:
    """A pyoxigraph store as an endpoint; `cap` cuts answers silently, as Virtuoso's
    ResultSetMaxRows does.
    """

    def __init__(self, store: Any, cap: int | None = None) -> None:
        self.store = store
        self.cap = cap
        self.queries: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, handler: BaseHTTPRequestHandler, query: str) -> None:
        send(handler, self.answer(query))

    def answer(self, query: str) -> bytes:
        from pyoxigraph import QueryResultsFormat

        with self._lock:
            self.queries.append(query)
            if self.cap is not None:
                query = f"SELECT * WHERE {{ {{ {query} }} }} LIMIT {self.cap}"
            return bytes(self.store.query(query).serialize(format=QueryResultsFormat.JSON))


class Faulty:
    """Misbehaves by the names in `faults`, one a request, then answers properly."""

    def __init__(self, good: Oxigraph, faults: list[str]) -> None:
        self.good = good
        self.faults = list(faults)
        self.times: list[float] = []

    def __call__(self, handler: BaseHTTPRequestHandler, query: str) -> None:
        self.times.append(time.monotonic())
        fault = self.faults.pop(0) if self.faults else "none"
        body = self.good.answer(query)
        if fault.isdigit():
            send(handler, b"busy or broken", "text/plain", int(fault))
        elif fault == "retry-after":
            send(handler, b"slow down", "text/plain", 429, Retry_After="1")
        elif fault == "retry-after-an-hour":
            send(handler, b"slow down", "text/plain", 429, Retry_After="3600")
        elif fault == "hang":
            time.sleep(1.5)
        elif fault == "drip":
            handler.send_response(200)
            handler.send_header("Content-Type", JSON)
            handler.end_headers()
            for i in range(20):
                handler.wfile.write(body[i : i + 1])
                handler.wfile.flush()
                time.sleep(0.1)
        elif fault == "html":
            send(handler, b"<!DOCTYPE html><title>Welcome</title>", "text/html; charset=utf-8")
        elif fault == "html-as-json":
            send(handler, b"\n<html><body>Gateway</body></html>")
        elif fault == "truncated":
            send(handler, body[: len(body) // 2], length=len(body))
        elif fault == "half-a-page":
            send(handler, body[: len(body) // 2])
        elif fault == "stack-trace":
            send(
                handler, body[: len(body) // 2] + b"\njava.util.concurrent.TimeoutException\n\tat X"
            )
        elif fault == "latin-1":
            send(handler, body.decode().encode("latin-1"), JSON + "; charset=utf-8")
        elif fault == "incomplete":
            send(handler, body, X_SQL_State="S1TAT")
        elif fault == "other-json":
            send(handler, b'{"boolean": true}')
        elif fault == "numbers":
            send(
                handler,
                b'{"results": {"bindings": [{"x": {"type": "uri", "value": 1}, "y": {"type": "uri",'
                b' "value": 2}}]}}',
            )
        elif fault == "silent":
            pass  # The connection is closed without a word.
        elif fault == "broken-chunk":
            handler.send_response(200)
            handler.send_header("Content-Type", JSON)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            handler.wfile.write(b"ffff\r\n" + body)
        elif fault == "moved":
            send(handler, b"", "text/plain", 302, Location="http://127.0.0.1:9/elsewhere")
        else:
            assert fault == "none", fault
            send(handler, body)
