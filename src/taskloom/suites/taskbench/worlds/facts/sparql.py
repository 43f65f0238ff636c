"""Asking a SPARQL server politely, and saying in one sentence what went wrong.

One query at a time, not faster than the rate; waits that grow, with jitter, when the server is busy, and the wait that the server
asks for when it names one. An answer counts only when it is whole: the right status, type, length, encoding and shape.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import IO, Any, cast

from taskloom import __version__
from taskloom.errors import DataError, InputError

LARGEST = 256 << 20
"""Bytes of the largest answer that is read: far more than a page of any setting needs."""

BUSY = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which the same question may be answered later."""


class SparqlError(DataError):
    """A SPARQL server that cannot be used as it is asked now."""


class Overloaded(SparqlError):  # noqa: N818 - a state of the server that asking for less may end
    """Too slow, or an answer that broke off: a smaller question may do."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How a server is treated.

    Attributes:
        rate: Queries a second at most.
        tries: How often one query is asked before it is given up; three times at most where a smaller one may do better.
        timeout: Seconds for one answer, from the question to its last byte.
        backoff: Seconds before the second try; doubled for each further one, and drawn between half and all of it.
        patience: The longest wait between two tries, also when the server asks for more.
        contact: An address or page in the user agent; Wikidata's rules ask for one.
    """

    rate: float = 3.0
    tries: int = 5
    timeout: float = 60.0
    backoff: float = 1.0
    patience: float = 120.0
    contact: str = ""

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.tries >= 1 and self.timeout > 0 and self.backoff >= 0 and self.patience >= 0):
            raise InputError(
                "an endpoint's rate and timeout must be above 0, its tries at least 1, and no wait below 0"
            )
        if not all(0x20 <= ord(c) < 0x7F for c in self.contact):
            raise InputError("the contact of an endpoint is plain text on one line: it is sent as a header")


class _Busy(Exception):  # noqa: N818 - caught here, never seen outside
    """This try failed; another may not."""

    def __init__(self, why: str, wait: float = 0.0, overloaded: bool = False) -> None:
        super().__init__(why)
        self.wait = wait
        self.overloaded = overloaded


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A query must reach the address that a person named, not another one."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


class Client:
    """One SPARQL 1.1 server."""

    def __init__(self, url: str, manners: Manners | None = None) -> None:
        """Take the address; nothing is sent yet.

        Args:
            url: Where queries are posted, e.g. `https://query.wikidata.org/sparql`.
            manners: Rate, tries and time limits.
        """
        self.url = check_url(url)
        self.manners = manners or Manners()
        self.asked = 0
        self._next = 0.0
        self._jitter = random.Random()
        self._opener = urllib.request.build_opener(_NoRedirect)
        contact = self.manners.contact or "research on controlled language tasks"
        self._agent = f"taskloom/{__version__} ({contact}) Python-urllib"

    def select(self, query: str, variables: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The values of these variables in every row; rows in which one is missing or a blank node are left out."""
        manners = self.manners
        wait = manners.backoff
        for tried in range(1, manners.tries + 1):
            self._pace()
            try:
                return _rows(self._post(query), variables)
            except _Busy as error:
                pause = max(error.wait, wait * (0.5 + 0.5 * self._jitter.random()))
                if tried < min(manners.tries, 3 if error.overloaded else manners.tries) and pause <= manners.patience:
                    time.sleep(pause)
                    wait = min(2 * wait, manners.patience)
                    continue
                kind = Overloaded if error.overloaded else SparqlError
                tries = f"{tried} tries" if tried > 1 else "one try"
                raise kind(f"the endpoint {self.url} {error} (after {tries}); what has arrived is kept") from error
            except _Refused as error:
                raise SparqlError(f"the endpoint {self.url} {error}") from error
        raise AssertionError("unreachable: the last try returns or raises")

    def _pace(self) -> None:
        now = time.monotonic()
        if now < self._next:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + 1 / self.manners.rate
        self.asked += 1

    def _post(self, query: str) -> bytes:
        request = urllib.request.Request(
            self.url,
            data=urllib.parse.urlencode({"query": query}).encode(),
            headers={
                "Accept": "application/sparql-results+json",
                "Content-Type": "application/x-www-form-urlencoded",
                "User-Agent": self._agent,
            },
        )
        started = time.monotonic()
        try:
            with self._opener.open(request, timeout=self.manners.timeout) as response:
                return self._read(response, started)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error) from error
        except TimeoutError as error:
            raise _Busy(f"gave no whole answer within {self.manners.timeout:g} seconds", overloaded=True) from error
        except http.client.HTTPException as error:
            raise _Busy(f"broke off its answer ({type(error).__name__})", overloaded=True) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _Busy(f"cannot be reached within {self.manners.timeout:g} seconds") from error
            if isinstance(error.reason, ssl.SSLError):
                raise _Refused(f"cannot be trusted: {error.reason}") from error
            raise _Busy(f"cannot be reached ({error.reason}): is it running, and is the address right?") from error
        except OSError as error:
            raise _Busy(f"broke the connection ({error})", overloaded=True) from error

    def _read(self, response: Any, started: float) -> bytes:
        """The whole body, or the reason why it is not one."""
        kind = response.headers.get_content_type()
        parts, size = [], 0
        while part := response.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise _Busy(f"sent more than {LARGEST >> 20} MB for one page", overloaded=True)
            if time.monotonic() - started > self.manners.timeout:
                raise TimeoutError
        body = b"".join(parts)
        promised = response.headers.get("Content-Length")
        if promised is not None and promised.isdigit() and int(promised) != size:
            raise _Busy(f"sent {size} of {promised} bytes", overloaded=True)
        if kind in ("text/html", "application/xhtml+xml") or body.lstrip()[:1] == b"<":
            raise _Refused(
                f"answered with a page for people ({kind}), not with SPARQL results: is the address that of the query service?"
            )
        if response.status == 206 or response.headers.get("X-SQL-State"):
            # Virtuoso says so when its own time limit cut the answer short.
            raise _Busy("says that its answer is incomplete", overloaded=True)
        return body


class _Refused(Exception):  # noqa: N818 - caught here, never seen outside
    """No other try will do."""


def check_url(url: str) -> str:
    """An address that queries may be sent to."""
    try:
        parts = urllib.parse.urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or not all(0x20 < ord(c) < 0x7F for c in url):
        raise InputError(f"{url[:100]!r} is not the address of an endpoint: write 'https://host/sparql'")
    if parts.username or parts.password:
        raise InputError("the address of an endpoint must not hold a password: it is written into manifests")
    return url


def _refusal(error: urllib.error.HTTPError) -> Exception:
    """What a status other than success means."""
    if 300 <= error.code < 400:
        return _Refused(
            f"has moved to {error.headers.get('Location', 'an address that it does not say')}: use that one"
        )
    if error.code in BUSY:
        wait = _retry_after(error)
        asks = f" and asks to wait {wait:.0f} seconds" if wait else ""
        return _Busy(f"answers with status {error.code} ({error.reason}){asks}", wait, error.code in (500, 504))
    try:
        said = " ".join(error.read(2000).decode("utf-8", "replace").split())[:200]
    except (OSError, http.client.HTTPException):
        said = ""
    return _Refused(f"refuses the query with status {error.code} ({error.reason}){': ' + said if said else ''}")


def _retry_after(error: urllib.error.HTTPError) -> float:
    said = (error.headers.get("Retry-After") or "").strip()
    if said.isdigit():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _rows(body: bytes, variables: tuple[str, ...]) -> list[tuple[str, ...]]:
    try:
        # SPARQL's JSON results are UTF-8 by their standard; another encoding would garble names without a sound.
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Refused(
            f"answered in an encoding that is not UTF-8 (byte {error.start}): its names cannot be read"
        ) from error
    try:
        bindings = json.loads(text)["results"]["bindings"]
        rows = [
            tuple(b[v]["value"] if v in b and b[v]["type"] != "bnode" else None for v in variables) for b in bindings
        ]
    except json.JSONDecodeError as error:
        raise _Busy(f"broke off its answer after {len(body)} bytes", overloaded=True) from error
    except (KeyError, TypeError, RecursionError) as error:
        raise _Refused(
            "answered with JSON that is not SPARQL results: is the address that of the query service?"
        ) from error
    whole = [row for row in rows if None not in row]
    if not all(isinstance(v, str) for row in whole for v in row):
        raise _Refused("answered with SPARQL results whose values are not text")
    return cast("list[tuple[str, ...]]", whole)
