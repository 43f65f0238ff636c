"""HTTP connections to one endpoint that stay open: one for each thread, with a time-out for the whole of a reply.

The OpenAI library takes 1.6 ms of CPU time for a request, which is all that one process can do in that time; this takes a third.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit


class TooLongError(ValueError):
    """A reply with more bytes than are wanted."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an endpoint sent back."""

    status: int
    reason: str
    headers: Message
    body: bytes


class _Reader(io.RawIOBase):
    """Reads a socket until a given moment: a server may send a byte now and then for ever."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._socket, self._until = sock, until
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, or wait for it while there is time."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        """Close the file, not the connection."""
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True)
class _TimedSocket:
    """What a response of `http.client` reads: it takes a socket, and makes a file of it."""

    socket: socket.socket
    until: float

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self.socket, self.until))


class Connections:
    """Open connections to the chat completions of an endpoint, one for each thread that sends to it.

    Proxies are those of the environment (`HTTPS_PROXY`, `NO_PROXY`, …).

    Args:
        url: Up to and including `/v1`.
        headers: Sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._path = f"{parts.path.rstrip('/')}/chat/completions"
        proxies = urllib.request.getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        self._proxy = urlsplit(proxy) if proxy and not urllib.request.proxy_bypass(self._host) else None
        if self._proxy is not None and not self._secure:
            self._path = f"http://{parts.netloc}{self._path}"
            self._headers |= _proxy_headers(self._proxy)
        self._own = threading.local()

    def post(self, body: bytes, seconds: float, most_bytes: int) -> Reply:
        """Send a request and return its reply.

        Args:
            body: JSON.
            seconds: For all of it; a `TimeoutError` is raised after them.
            most_bytes: The longest reply; a `TooLongError` is raised for a longer one.
        """
        until = time.monotonic() + seconds
        connection = self._connection(seconds)
        connection.response_class = lambda sock, **how: HTTPResponse(_TimedSocket(sock, until), **how)  # type: ignore[assignment, arg-type]
        try:
            connection.request("POST", self._path, body, self._headers)
            with connection.getresponse() as response:
                return read_reply(response, most_bytes)
        except BaseException:
            connection.close()  # what is left of the reply must not be taken for the next one
            raise

    def _connection(self, seconds: float) -> HTTPConnection:
        """Return this thread's connection; a new one where the server has closed it."""
        connection: HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._new()
        elif connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()  # there is something to read before anything was asked: its end
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        return connection

    def _new(self) -> HTTPConnection:
        host, port = self._host, self._port
        if self._proxy is not None:
            host, port = self._proxy.hostname or "", self._proxy.port
        if not self._secure:
            return HTTPConnection(host, port)
        connection = HTTPSConnection(host, port, context=ssl.create_default_context())
        if self._proxy is not None:
            connection.set_tunnel(self._host, self._port or 443, _proxy_headers(self._proxy))
        return connection


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """Return the header with the name and password that a proxy's address holds."""
    if not proxy.username:
        return {}
    both = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(both.encode()).decode()}"}


def read_reply(response: HTTPResponse, most_bytes: int) -> Reply:
    """Read a response to its end, so that its connection can be used again."""
    body = response.read(most_bytes + 1)
    if len(body) > most_bytes:
        raise TooLongError(f"more than {most_bytes} bytes")
    if response.length:  # fewer than were promised
        raise IncompleteRead(body, response.length)
    if not response.isclosed() and response.read(1):
        raise TooLongError(f"more than {most_bytes} bytes")
    return Reply(response.status, response.reason, response.headers, body)
