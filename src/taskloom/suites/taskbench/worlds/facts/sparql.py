"""Client for a SPARQL server: sends one query at a time, accepts only complete answers, and caches
them.

A complete answer has the right status, type, length, encoding and shape. Answers are cached under
the digest of their query, so an interrupted download can be resumed: it sends its queries again and
finds the answers already received.
"""

from __future__ import annotations

import gzip
import json
import urllib.parse
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from taskloom import __version__
from taskloom.core.errors import DataError, InputError
from taskloom.core.files import digest, json_digest
from taskloom.core.http import (
    AnswerCache,
    Backoff,
    HttpClient,
    Pace,
    Refused,
    TryLater,
    check_url,
    retried,
)
from taskloom.core.plan import Source
from taskloom.core.seeding import Key

Row = tuple[str, ...]

LARGEST = 256 << 20
"""Maximum size of an answer in bytes, far more than a page needs."""

OVERLOADED_TRIES = 3
"""Maximum number of tries if a smaller query is more likely to succeed than another try."""


class SparqlError(DataError):
    """A SPARQL server that cannot be used with the current request."""


class Overloaded(SparqlError):  # noqa: N818 - a state of the server that asking for less may end
    """A server that is too slow or ends its answer early. A smaller query may succeed."""


@dataclass(frozen=True, slots=True)
class Manners:
    """Rate limits, retries and contact for a server.

    Attributes:
        rate: Maximum queries per second.
        tries: Maximum attempts per query. At most three if a smaller query may succeed.
        timeout: Seconds for a single answer, from the query to its last byte.
        backoff: Seconds before the second try. Doubled for each further try, with a random extra of
            up to half.
        patience: Maximum wait between two tries, even if the server asks for more.
        contact: An address or web page for the user agent, which Wikidata's rules require.
    """

    rate: float = 3.0
    tries: int = 5
    timeout: float = 60.0
    backoff: float = 1.0
    patience: float = 120.0
    contact: str = ""

    def __post_init__(self) -> None:
        if not (
            self.rate > 0
            and self.tries >= 1
            and self.timeout > 0
            and self.backoff >= 0
            and self.patience >= 0
        ):
            raise InputError(
                "an endpoint needs a rate and timeout above 0, at least 1 try, and no negative "
                "waiting time"
            )
        if not all(0x20 <= ord(c) < 0x7F for c in self.contact):
            raise InputError(
                "the contact of an endpoint must be plain text on one line, because it is sent "
                "as a header"
            )


class SparqlClient:
    """One SPARQL 1.1 server."""

    def __init__(self, url: str, manners: Manners | None = None) -> None:
        """Store the address. Nothing is sent yet.

        Args:
            url: Address to which queries are posted, e.g. `https://query.wikidata.org/sparql`.
            manners: Rate, tries and time limits.
        """
        self.url = check_url(url, "https://host/sparql")
        self.manners = manners or Manners()
        self.queries = 0
        self._pace = Pace(self.manners.rate)
        self._backoff = Backoff(self.manners.backoff, self.manners.patience)
        contact = self.manners.contact or "research on controlled language tasks"
        headers = {
            "Accept": "application/sparql-results+json",
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": f"taskloom/{__version__} ({contact}) python-httpx",
        }
        self._http = HttpClient(self.manners.timeout, LARGEST, headers)

    def select(self, query: str, variables: tuple[str, ...]) -> list[Row]:
        """Return the values of these variables in every row. Rows in which one is missing or a
        blank node are omitted.
        """

        def once() -> list[Row]:
            self._pace.wait()
            self.queries += 1
            return _rows(self._post(query), variables)

        try:
            return retried(once, self.manners.tries, self._backoff, OVERLOADED_TRIES)
        except TryLater as error:
            kind = Overloaded if error.overloaded else SparqlError
            tries = f"{error.tries} tries" if error.tries > 1 else "one try"
            raise kind(
                f"the endpoint {self.url} {error} (after {tries}); what was received is kept"
            ) from error
        except Refused as error:
            raise SparqlError(f"the endpoint {self.url} {error}") from error

    def _post(self, query: str) -> bytes:
        """Return the whole body of an answer. Anything else raises `TryLater` or `Refused`."""
        reply = self._http.post(self.url, urllib.parse.urlencode({"query": query}).encode())
        kind = reply.media_type
        if kind in ("text/html", "application/xhtml+xml") or reply.body.lstrip()[:1] == b"<":
            raise Refused(
                f"answered with a web page ({kind}) instead of SPARQL results; is this the "
                "address of the query service?"
            )
        if reply.status == 206 or reply.headers.get("X-SQL-State"):
            # Virtuoso reports this if its own time limit cut the answer short.
            raise TryLater("reports that its answer is incomplete", overloaded=True)
        return reply.body


def _value(binding: dict[str, Any], name: str) -> Any:
    """Return the value of a variable in one row, or None if it is missing or a blank node."""
    if name not in binding or binding[name]["type"] == "bnode":
        return None
    return binding[name]["value"]


def _rows(body: bytes, variables: tuple[str, ...]) -> list[tuple[str, ...]]:
    try:
        # According to the standard, SPARQL's JSON results are UTF-8. Another encoding would
        # silently garble names.
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(
            f"answered in an encoding that is not UTF-8 (byte {error.start}): its names cannot be"
            " read"
        ) from error
    try:
        bindings = json.loads(text)["results"]["bindings"]
        rows = [tuple(_value(binding, name) for name in variables) for binding in bindings]
    except json.JSONDecodeError as error:
        raise TryLater(f"broke off its answer after {len(body)} bytes", overloaded=True) from error
    # Python raises ValueError for a number of thousands of digits.
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Refused(
            "answered with JSON that is not SPARQL results; is this the address of the query "
            "service?"
        ) from error
    whole = [row for row in rows if None not in row]
    if not all(isinstance(v, str) for row in whole for v in row):
        raise Refused("answered with SPARQL results whose values are not text")
    return cast("list[tuple[str, ...]]", whole)


class CachedClient:
    """A SPARQL client that caches answers on disk."""

    ordered = False
    """False, because a server with millions of entities would time out sorting them for a
    sample.
    """

    def __init__(self, client: SparqlClient, cache: Path, refresh: bool = False) -> None:
        """Cache the answers of this client's server.

        Args:
            client: Client that sends queries.
            cache: Folder with one file for each server.
            refresh: Send each query once even if its answer is cached.
        """
        self.client = client
        self.name = f"the endpoint {client.url}"
        self._cache = AnswerCache(
            cache / "answers" / f"{digest(client.url, 8)}.sqlite", SparqlError
        )
        self._refresh = refresh
        self._used: dict[str, str] = {}

    def select(self, query: str, variables: tuple[str, ...]) -> list[Row]:
        """Return the rows for a query, from the cache if possible."""
        name = digest(query, 20)
        fresh = self._refresh and name not in self._used
        rows = None if fresh else _unpack(self._cache.get(name), len(variables))
        if rows is None:
            rows = self.client.select(query, variables)
            self._cache.put(
                name, gzip.compress(json.dumps(rows, ensure_ascii=False).encode(), 5, mtime=0)
            )
        self._used[name] = json_digest(rows, 20)
        return rows

    def sources(self) -> tuple[Source, ...]:
        """The server's address with the digest of every query sent so far and its answer."""
        parts = [part for item in sorted(self._used.items()) for part in item]
        return (Source(self.client.url, Key(*parts).digest.hex()),)


def _unpack(answer: bytes | None, width: int) -> list[Row] | None:
    """Return the rows of a cached answer, or None if there is none or it is incomplete."""
    if answer is None:
        return None
    try:
        rows = [tuple(row) for row in json.loads(gzip.decompress(answer))]
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        return None
    for row in rows:
        if len(row) != width or not all(isinstance(value, str) for value in row):
            return None
    return rows
