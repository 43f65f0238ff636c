"""Asking servers politely: pace, waits that grow, the wait that a server asks for, whole answers only, and a cache of answers.

A failed request is either worth another try (`TryLater`) or not (`Refused`); both say in words that follow the server's name what
went wrong, so that whoever asked can raise one sentence in an error of its own.
"""

from __future__ import annotations

import http.client
import random
import sqlite3
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any

from taskloom import __version__
from taskloom.core.errors import InputError, TaskloomError

BUSY = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which the same request may succeed later."""

CHUNK = 1 << 16
"""Bytes read at once: few enough that a deadline is noticed in time."""


class TryLater(Exception):  # noqa: N818 - what the caller should do
    """A request that failed and may succeed later.

    Attributes:
        wait: Seconds that the server asks to wait.
        overloaded: Whether a smaller question may do better.
    """

    def __init__(self, problem: str, wait: float = 0.0, overloaded: bool = False) -> None:
        super().__init__(problem)
        self.wait = wait
        self.overloaded = overloaded


class Refused(Exception):  # noqa: N818 - what the server did
    """A request that will fail again."""


class Pace:
    """Requests at most so many a second, however many threads ask."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Sleep until the next request may be sent."""
        with self._lock:
            now = time.monotonic()
            start, self._next = max(now, self._next), max(now, self._next) + 1 / self.rate
        if start > now:
            time.sleep(start - now)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between tries.

    Attributes:
        first: Seconds before the second try; doubled for each further one.
        longest: The longest wait.
    """

    first: float
    longest: float = float("inf")

    def pause(self, tries: int, requested: float = 0.0) -> float | None:
        """Return the seconds to wait after so many tries; None where the server asks for more than the longest wait.

        Up to half as long again is added, so that clients that failed together do not come back together.
        """
        wanted = max(requested, min(self.first * 2 ** (tries - 1), self.longest))
        return None if wanted > self.longest else wanted * (1 + random.random() / 2)  # noqa: S311 - no secret


def retry_after(headers: Mapping[str, str] | Message) -> float:
    """Return the seconds that a server asks to wait, given as a number or as a date; 0 where it does not ask."""
    text = (headers.get("Retry-After") or headers.get("retry-after") or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError):
            return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0


def check_url(url: str, example: str) -> str:
    """Return an address that requests may be sent to, or raise an `InputError`."""
    try:
        parts = urllib.parse.urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or not all(0x20 < ord(c) < 0x7F for c in url):
        raise InputError(f"{url[:100]!r} is not the address of an endpoint: write '{example}'")
    if parts.username or parts.password:
        raise InputError("the address of an endpoint must not hold a password: it is written into manifests")
    return url


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A question must reach the address that a person named, not another one."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


@contextmanager
def exchange(
    url: str,
    timeout: float,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    redirects: bool = False,
) -> Iterator[Any]:
    """Send a request and yield its response; raise what goes wrong, then or while it is read, as `TryLater` or `Refused`.

    Args:
        url: The address.
        timeout: Seconds for each piece of the answer; `read_whole` keeps the time of the whole.
        data: The body of a POST request; a GET request by default.
        headers: Further headers.
        redirects: Whether the server may send us elsewhere.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise Refused("is not an http or https address")  # urllib would also open files of this machine
    agent = {"User-Agent": f"taskloom/{__version__} Python-urllib"}
    request = urllib.request.Request(url, data=data, headers={**agent, **(headers or {})})  # noqa: S310 - checked above
    opener = urllib.request.build_opener(*([] if redirects else [_NoRedirect]))
    try:
        with opener.open(request, timeout=timeout) as response:
            yield response
    except urllib.error.HTTPError as error:
        with error:
            raise _problem(error) from error
    except TimeoutError as error:
        raise TryLater(f"gave no whole answer within {timeout:g} seconds", overloaded=True) from error
    except http.client.HTTPException as error:
        raise TryLater(f"broke off its answer ({type(error).__name__})", overloaded=True) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise TryLater(f"cannot be reached within {timeout:g} seconds") from error
        if isinstance(error.reason, ssl.SSLError):
            raise Refused(f"cannot be trusted: {error.reason}") from error
        raise TryLater(f"cannot be reached ({error.reason}): is it running, and is the address right?") from error
    except OSError as error:
        raise TryLater(f"cannot be read to its end ({error})", overloaded=True) from error


def _problem(error: urllib.error.HTTPError) -> Exception:
    """Return what a status other than success means."""
    if 300 <= error.code < 400:
        return Refused(f"has moved to {error.headers.get('Location', 'an address that it does not say')}: use that one")
    if error.code in BUSY:
        wait = retry_after(error.headers)
        asks = f" and asks to wait {wait:.0f} seconds" if wait else ""
        return TryLater(f"answers with status {error.code} ({error.reason}){asks}", wait, error.code in (500, 504))
    try:
        text = " ".join(error.read(2000).decode("utf-8", "replace").split())[:200]
    except (OSError, http.client.HTTPException):
        text = ""
    return Refused(f"refuses the request with status {error.code} ({error.reason}){': ' + text if text else ''}")


def read_whole(response: Any, deadline: float, largest: int) -> bytes:
    """Return the body of a response, or raise `TryLater` for one that is cut off, endless or later than the deadline."""
    parts, size = [], 0
    while part := response.read1(CHUNK):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise TryLater(f"sent more than {largest >> 20} MB for one page", overloaded=True)
        if time.monotonic() > deadline:
            raise TimeoutError
    promised = response.headers.get("Content-Length")
    if promised is not None and promised.isdigit() and int(promised) != size:
        raise TryLater(f"sent {size} of {promised} bytes", overloaded=True)
    return b"".join(parts)


class AnswerCache:
    """Answers by the digest of their question, in one SQLite file; without a path in memory.

    A run that was stopped asks only what is open.
    """

    def __init__(self, path: Path | None, error: type[TaskloomError]) -> None:
        """Open a cache, or create it.

        Args:
            path: The file.
            error: What is raised where it cannot be used.
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
                base.execute("create table if not exists answers (question text primary key, answer not null)")
            return base

        self._base = self._usable(connect)

    def _usable(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (OSError, sqlite3.DatabaseError) as problem:
            raise self._error(
                f"the cache of answers {self.path} cannot be used ({problem}); delete it, or name another"
            ) from problem

    def get(self, question: str) -> bytes | None:
        """Return the answer to a question, or None."""

        def select() -> Any:
            query = "select answer from answers where question = ?"
            with self._lock, closing(self._base.execute(query, [question])) as rows:
                return rows.fetchone()

        row = self._usable(select)
        if row is None:
            return None
        return row[0].encode("utf-8", "surrogatepass") if isinstance(row[0], str) else bytes(row[0])

    def put(self, question: str, answer: bytes) -> None:
        """Keep an answer: when this returns, it is on disk."""
        self._waiting.append((question, answer))
        self._usable(self._insert)

    def put_soon(self, question: str, answer: bytes) -> None:
        """Keep an answer without waiting for the disk; `flush` waits for it.

        A thread writes what has arrived while it wrote the last time, all at once: a disk that takes a hundred writes a second
        keeps thousands of answers. A process that is killed loses those of the last write.
        """
        if self.path is None:
            return self.put(question, answer)
        if self._problem is not None:
            raise self._problem
        self._waiting.append((question, answer))
        with self._starting:
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(target=self._write)  # ends by itself; a process that ends waits for it
                self._writer.start()
        return None

    def flush(self) -> None:
        """Write what waits; when this returns, it is on disk."""
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
                self._waiting.extend(rows)  # none is lost: the next one to write tries them again
                raise
