"""HTTP requests on httpx: paced, with a deadline, a size limit and one sentence for every failure.

A failed request raises `TryLater` if the same request may succeed later, and `Refused` if it will
fail again. Both messages continue a sentence that begins with the server's name ("answers with
status 503"), so that callers can use them in their own errors. `retried` repeats a request that
raised `TryLater`. `AnswerCache` stores answers on disk.

httpx takes 90 ms to import and is not needed to generate data, so it is imported with the first
request.
"""

from __future__ import annotations

import base64
import html
import json
import os
import random
import re
import sqlite3
import ssl
import sys
import threading
import time
import urllib.parse
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from taskloom import __version__
from taskloom.core.errors import InputError, TaskloomError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

TOO_MANY = 429
"""Status of a rate-limited request."""

PASSING = {408, 409, 425, TOO_MANY}
"""Statuses below 500 after which the same request may succeed later. All statuses from 500 on count
as temporary too.
"""

LONGEST_EXPLANATION = 1 << 16
"""Maximum bytes read from the body of a failed response."""

LONGEST_MESSAGE = 200
"""Maximum characters quoted from the server in an error. Secrets are hidden before the text is cut.
"""

SHORTEST_PIECE = 8
"""Minimum length of a piece of a secret that is hidden. Shorter secrets are placeholders such as
`EMPTY`, which occur in ordinary texts.
"""

HIDDEN = "…"

_ESCAPED = re.compile(
    r"%(?P<percent>[0-9a-fA-F]{2})|\\u(?P<json>[0-9a-fA-F]{4})|\\x(?P<python>[0-9a-fA-F]{2})"
    r"|\\(?P<plain>[/\\\"'])|&#(?P<decimal>\d{1,7});|&#[xX](?P<hex>[0-9a-fA-F]{1,6});"
    r"|&(?P<name>[a-zA-Z]{2,8});"
)
"""A single character, possibly escaped as in URLs, JSON, Python or HTML."""


class TryLater(Exception):  # noqa: N818 - what the caller should do
    """A request that failed and may succeed later.

    Attributes:
        wait: Seconds that the server asks to wait.
        overloaded: True if a smaller request is more likely to succeed.
        status: The server's status; 0 if there was no reply.
        is_unreachable: True if there was no connection, so that any other request would fail too.
        tries: Number of attempts so far.
    """

    def __init__(
        self,
        problem: str,
        wait: float = 0.0,
        overloaded: bool = False,
        status: int = 0,
        is_unreachable: bool = False,
    ) -> None:
        super().__init__(problem)
        self.wait = wait
        self.overloaded = overloaded
        self.status = status
        self.is_unreachable = is_unreachable
        self.tries = 1


class Refused(Exception):  # noqa: N818 - what the server did
    """A request that will fail again.

    Attributes:
        status: The server's status; 0 if there was no reply.
        parameter: The request's parameter that the server names as the reason; may be empty.
        code: The server's code for the reason, such as `content_filter`; may be empty.
    """

    def __init__(self, problem: str, status: int = 0, parameter: str = "", code: str = "") -> None:
        super().__init__(problem)
        self.status = status
        self.parameter = parameter
        self.code = code


class Secrets:
    """Hides texts that must not be shown or written, such as API keys.

    Every piece of a secret with at least `SHORTEST_PIECE` characters is hidden, regardless of case,
    so that most of it stays hidden even if a server abbreviates it or the text is cut later. This
    covers the secret itself, any mix of percent-encoding, JSON, Python and HTML escapes (even
    applied twice), base64 and hex.
    """

    def __init__(self, *secrets: str) -> None:
        self._short = [secret for secret in secrets if 0 < len(secret) < SHORTEST_PIECE]
        self._pieces: set[str] = set()
        for secret in secrets:
            for form in _written_forms(secret):
                places = range(len(form) - SHORTEST_PIECE + 1)
                self._pieces.update(form[i : i + SHORTEST_PIECE].lower() for i in places)

    def hide(self, text: str) -> str:
        """Replace secrets in a text with "…"."""
        if not self._pieces:
            return text
        hidden = bytearray(len(text))
        for letters, begins, ends in _readings(text):
            for i in range(len(letters) - SHORTEST_PIECE + 1):
                if letters[i : i + SHORTEST_PIECE] in self._pieces:
                    begin, end = begins[i], ends[i + SHORTEST_PIECE - 1]
                    hidden[begin:end] = b"\1" * (end - begin)
        if not any(hidden):
            return text
        parts = []
        for is_secret, group in groupby(zip(text, hidden, strict=True), key=itemgetter(1)):
            parts.append(HIDDEN if is_secret else "".join(letter for letter, _ in group))
        return "".join(parts)

    def hide_in_message(self, text: str) -> str:
        """Like `hide`, but also hides short secrets, which may be ordinary words. For error
        messages, not for answers.
        """
        for secret in self._short:
            text = text.replace(secret, HIDDEN)
        return self.hide(text)


def _written_forms(secret: str) -> Iterator[str]:
    """Yield the secret itself, in hex, and in base64 after 0, 1 or 2 other bytes (`Bearer KEY`)."""
    if len(secret) < SHORTEST_PIECE:
        return
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield raw.hex()
    for shift in range(3):
        # The first and last characters depend on the neighbouring bytes.
        whole = base64.b64encode(b"\0" * shift + raw).decode()
        begin = -(-shift * 8 // 6)
        inner = whole[begin : (shift + len(raw)) * 8 // 6]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


def _readings(text: str) -> Iterator[tuple[str, Sequence[int], Sequence[int]]]:
    """Yield the text in lower case, then with its escapes undone once and twice, each with the
    start and end of every character in the original text.
    """
    letters = text
    begins: Sequence[int] = range(len(text))
    ends: Sequence[int] = range(1, len(text) + 1)
    for _ in range(3):
        # Lower only ASCII, because İ becomes two characters in lower case, which would shift the
        # following ones.
        yield "".join(c.lower() if c.isascii() else c for c in letters), begins, ends
        if not _ESCAPED.search(letters):
            return
        plain: list[str] = []
        new_begins, new_ends = array("q"), array("q")
        end = 0
        for found in _ESCAPED.finditer(letters):
            start = found.start()
            plain += letters[end:start], _unescaped(found)
            new_begins.extend(begins[end : start + 1])
            new_ends.extend(ends[end:start])
            end = found.end()
            new_ends.append(ends[end - 1])
        plain.append(letters[end:])
        new_begins.extend(begins[end:])
        new_ends.extend(ends[end:])
        letters, begins, ends = "".join(plain), new_begins, new_ends


def _unescaped(found: re.Match[str]) -> str:
    """Return the character that an escape stands for. Unknown escapes become a different escape of
    the same character.
    """
    kind = found.lastgroup
    value = found[kind or 0]
    if kind == "plain":
        return value
    if kind == "name":
        named = html.unescape(found[0])
        return named if len(named) == 1 else "\0"
    number = int(value, 10 if kind == "decimal" else 16)
    return chr(number) if number < sys.maxunicode else "\0"


class Pace:
    """Limits the number of requests per second across all threads."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Sleep until the next request may be sent."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + 1 / self.rate
        if start > now:
            time.sleep(start - now)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting times between attempts.

    Attributes:
        first: Seconds before the second attempt, doubled after each further one.
        longest: Maximum seconds to wait.
    """

    first: float
    longest: float = float("inf")

    def pause(self, tries: int, requested: float = 0.0) -> float | None:
        """Return the seconds to wait after this many attempts, or None if the server asks for more
        than `longest`.

        Jitter of up to half the time is added, so that clients that failed together do not retry
        together.
        """
        wanted = max(requested, min(self.first * 2 ** (tries - 1), self.longest))
        return None if wanted > self.longest else wanted * (1 + random.random() / 2)  # noqa: S311 - no secret


def retried(
    request: Callable[[], T],
    tries: int,
    backoff: Backoff,
    overloaded_tries: int | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Repeat a request until it succeeds. When the attempts run out, raise the last `TryLater`,
    with the number of attempts.

    Args:
        request: Sends the request once.
        tries: Maximum number of attempts.
        backoff: Waiting times between attempts.
        overloaded_tries: Maximum number of attempts if a smaller request may succeed. Default:
            `tries`.
        sleep: Function that waits this many seconds.
    """
    for tried in count(1):
        try:
            return request()
        except TryLater as error:
            error.tries = tried
            most = tries
            if error.overloaded and overloaded_tries is not None:
                most = min(tries, overloaded_tries)
            pause = backoff.pause(tried, error.wait)
            if tried >= most or pause is None:
                raise
            sleep(pause)
    raise AssertionError("unreachable: the counter is infinite")


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the server asks to wait, given as a number or a date. 0 if none is
    given.
    """
    text = (headers.get("Retry-After") or headers.get("retry-after") or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0


def check_url(url: str, example: str) -> str:
    """Validate an address for requests. Raises `InputError` if requests may not be sent to it."""
    try:
        parts = urllib.parse.urlsplit(url)
        fine = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        fine = False
    if not fine or not all(0x20 < ord(c) < 0x7F for c in url):
        raise InputError(f"{url[:100]!r} is not the address of an endpoint; write '{example}'")
    if parts.username or parts.password:
        raise InputError(
            "the address of an endpoint must not contain a password, because addresses are "
            "written to manifests"
        )
    return url


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply with a success status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """Content type without its parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class HttpClient:
    """Sends requests over persistent connections. Safe to share between threads.

    Proxies are taken from the environment (`HTTPS_PROXY`, `NO_PROXY`, …).

    Args:
        timeout: Seconds for a whole reply.
        largest: Maximum bytes of a reply.
        headers: Sent with every request.
        secrets: Texts to hide in error messages.
        redirects: Follow redirects. By default requests go only to the address that the user gave.
    """

    def __init__(
        self,
        timeout: float,
        largest: int = 1 << 28,
        headers: Mapping[str, str] | None = None,
        secrets: Secrets | None = None,
        redirects: bool = False,
    ) -> None:
        self.timeout = timeout
        self.largest = largest
        self._secrets = secrets or Secrets()
        self._redirects = redirects
        # Compressed replies could exceed the size limit in a single decompression step.
        agent = {
            "User-Agent": f"taskloom/{__version__} python-httpx",
            "Accept-Encoding": "identity",
        }
        self._headers = {**agent, **(headers or {})}
        self._lock = threading.Lock()
        self._opened: tuple[int, httpx.Client] | None = None

    def post(self, url: str, body: bytes) -> Reply:
        """Send a body and return the whole reply. Raises `TryLater` or `Refused`."""
        deadline = time.monotonic() + self.timeout
        with self.stream("POST", url, body) as response:
            parts = []
            size = 0
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > self.largest:
                    raise TryLater(
                        f"sent more than {self.largest >> 20} MB in one reply", overloaded=True
                    )
                # httpx limits only the wait for each chunk, so a server that sends single bytes
                # could hold the connection forever.
                if time.monotonic() > deadline:
                    raise self._late()
            return Reply(response.status_code, response.headers, b"".join(parts))

    @contextmanager
    def stream(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request and yield its response, whose body has not been read yet.

        Failures, including those while the caller reads, are raised as `TryLater` or `Refused`. The
        time limit applies to each chunk of the body.
        """
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise Refused("is not an http or https address")
        import httpx

        response = None
        try:
            with self._client().stream(method, url, content=body, headers=headers) as response:
                if not response.is_success:
                    raise self._failure(response)
                yield response
        except httpx.ConnectTimeout as error:
            problem = f"cannot be reached within {self.timeout:g} seconds"
            raise TryLater(problem, is_unreachable=True) from error
        except httpx.TimeoutException as error:
            raise self._late() from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            if _caused_by(error, ssl.SSLError):
                raise Refused(f"cannot be trusted: {self._one_line(error)}") from error
            problem = (
                f"cannot be reached ({self._one_line(error)}): is it running, and is the address"
                " right?"
            )
            raise TryLater(problem, is_unreachable=True) from error
        except (
            httpx.UnsupportedProtocol,
            httpx.LocalProtocolError,
            httpx.InvalidURL,
            UnicodeError,
        ) as error:
            raise Refused(f"cannot receive this request ({self._one_line(error)})") from error
        except httpx.HTTPError as error:
            raise TryLater(_broken_off(response, error), overloaded=True) from error

    def _client(self) -> httpx.Client:
        """Return the open client. A forked process opens its own, because two processes must not
        read from one connection.
        """
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = (os.getpid(), self._open())
            return self._opened[1]

    def _open(self) -> httpx.Client:
        import httpx

        try:
            return httpx.Client(
                headers=self._headers,
                timeout=self.timeout,
                follow_redirects=self._redirects,
                verify=_certificates(),
                # No connection limit here, because callers limit their own concurrency.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            )
        except (
            ImportError,
            ValueError,
            httpx.InvalidURL,
        ) as error:  # e.g. a SOCKS proxy, which needs another package
            raise Refused(
                f"cannot be reached through the proxy of the environment ({self._one_line(error)})"
            ) from error

    def _late(self) -> TryLater:
        return TryLater(f"gave no whole answer within {self.timeout:g} seconds", overloaded=True)

    def _failure(self, response: httpx.Response) -> TryLater | Refused:
        """Build the exception for an error status."""
        status = response.status_code
        if 300 <= status < 400:
            place = self._words(response.headers.get("Location", ""))
            return Refused(
                f"has moved to {place or 'an address that it does not state'} (status {status}):"
                " use that address"
            )
        explanation, parameter, code = self._explanation(response)
        words = [word for word in (self._words(response.reason_phrase), explanation) if word]
        reason = f"status {status}" + (f" ({': '.join(words)})" if words else "")
        if status in PASSING or status >= 500:
            wait = retry_after(response.headers)
            asks = f" and asks to wait {wait:.0f} seconds" if wait else ""
            return TryLater(f"answers with {reason}{asks}", wait, status in (500, 504), status)
        return Refused(f"refuses the request with {reason}", status, parameter, code)

    def _explanation(self, response: httpx.Response) -> tuple[str, str, str]:
        """Return the server's explanation in one line (the message of an OpenAI-compatible error,
        or the beginning of the body), followed by the parameter and the error code if given.
        """
        import httpx

        body = b""
        deadline = time.monotonic() + self.timeout
        try:
            for part in response.iter_bytes():
                body += part
                if len(body) > LONGEST_EXPLANATION or time.monotonic() > deadline:
                    break
        except httpx.HTTPError:
            pass  # the status is known and more important
        parameter = code = ""
        try:
            error = json.loads(body)["error"]
            text = error["message"]
            parameter = self._name(error.get("param"))
            # llama.cpp gives the reason as the type, and the status as the code.
            code = self._name(error.get("code")) or self._name(error.get("type"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            text = body.decode("utf-8", "replace")
        return self._words(str(text)), parameter, code

    def _name(self, value: object) -> str:
        return self._words(value) if isinstance(value, str) else ""

    def _one_line(self, error: Exception) -> str:
        return self._words(str(error)) or type(error).__name__

    def _words(self, text: str) -> str:
        """Return the first line of the server's message. Secrets are hidden before it is cut,
        because half a secret is still a secret.
        """
        hidden = self._secrets.hide_in_message(" ".join(text.split()))
        return hidden[:LONGEST_MESSAGE]


@cache
def _certificates() -> ssl.SSLContext:
    """Return the system's certificates, to which institutions add their own. httpx alone would use
    those of certifi.
    """
    return ssl.create_default_context()


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def _broken_off(response: httpx.Response | None, error: Exception) -> str:
    """Build the exception for a reply that ended early or cannot be parsed."""
    promised = response.headers.get("Content-Length", "") if response is not None else ""
    if (
        response is not None
        and promised.isdigit()
        and response.num_bytes_downloaded < int(promised)
    ):
        return f"sent {response.num_bytes_downloaded} of {promised} bytes"
    return f"broke off its answer ({type(error).__name__})"


class AnswerCache:
    """Cache of answers in an SQLite file, keyed by the digest of the question. Without a path, it
    is in memory.

    A resumed run sends only the questions that are not in the cache.
    """

    def __init__(self, path: Path | None, error: type[TaskloomError]) -> None:
        """Open or create a cache.

        Args:
            path: The file.
            error: Type to raise if the file cannot be used.
        """
        self.path = path
        self._error = error
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._starting = threading.Lock()
        self._writer: threading.Thread | None = None
        self._problem: TaskloomError | None = None

        def connect() -> sqlite3.Connection:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            base = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=30)
            with base:
                base.execute(
                    "create table if not exists answers (question text primary key, answer not"
                    " null)"
                )
            return base

        self._base = self._usable(connect)

    def _usable(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (OSError, sqlite3.DatabaseError) as problem:
            raise self._error(
                f"the cache of answers {self.path} cannot be used ({problem}); delete it, or name"
                " another"
            ) from problem

    def get(self, question: str) -> bytes | None:
        """Return the cached answer to a question, or None."""

        def select() -> Any:
            query = "select answer from answers where question = ?"
            with self._lock, closing(self._base.execute(query, [question])) as rows:
                return rows.fetchone()

        row = self._usable(select)
        if row is None:
            return None
        return row[0].encode("utf-8", "surrogatepass") if isinstance(row[0], str) else bytes(row[0])

    def put(self, question: str, answer: bytes) -> None:
        """Store an answer. It is on disk when this returns."""
        self._waiting.append((question, answer))
        self._usable(self._insert)

    def put_soon(self, question: str, answer: bytes) -> None:
        """Store an answer without waiting for the disk. `flush` waits for it.

        A background thread writes everything that arrived during the previous write in one
        transaction, so that a disk with a hundred writes per second can store thousands of answers.
        If the process is killed, the answers of the last write are lost.
        """
        if self.path is None:
            return self.put(question, answer)
        if self._problem is not None:
            raise self._problem
        self._waiting.append((question, answer))
        with self._starting:
            if self._writer is None or not self._writer.is_alive():
                # Not a daemon, because the process must wait for the thread on exit. It ends by
                # itself.
                self._writer = threading.Thread(target=self._write)
                self._writer.start()
        return None

    def flush(self) -> None:
        """Write all pending answers. They are on disk when this returns."""
        self._usable(self._insert)

    def _write(self) -> None:
        try:
            while self._waiting:
                self._usable(self._insert)
        except TaskloomError as problem:
            self._problem = problem

    def _insert(self) -> None:
        with self._lock:
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                with self._base:
                    self._base.executemany("insert or replace into answers values (?, ?)", rows)
            except BaseException:
                self._waiting.extend(rows)  # kept for the next write, so that none is lost
                raise
