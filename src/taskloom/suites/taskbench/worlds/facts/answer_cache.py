"""Answers of an endpoint on disk, each under the digest of its question.

A download that was cut off asks its questions again and finds those answered that had arrived; so it goes on where it was. A file
that does not read back whole (gzip checks it) counts as absent.
"""

from __future__ import annotations

import gzip
import json
import zlib
from hashlib import blake2b
from pathlib import Path

from taskloom.plan import Source
from taskloom.seeding import Key
from taskloom.suites.taskbench.worlds.facts.sparql import Client
from taskloom.suites.taskbench.worlds.facts.triple_store import write_whole

Row = tuple[str, ...]


class Answers:
    """A client with a memory."""

    def __init__(self, client: Client, cache: Path, refresh: bool = False) -> None:
        """Remember answers of this client's server.

        Args:
            client: Who asks.
            cache: The folder; each server has its own in it.
            refresh: Ask again although an answer is on disk, once for each question.
        """
        self.client = client
        self._folder = cache / "answers" / blake2b(client.url.encode(), digest_size=8).hexdigest()
        self._refresh = refresh
        self._used: dict[str, str] = {}

    def select(self, query: str, variables: tuple[str, ...]) -> list[Row]:
        """The rows of a query, from disk where they are there."""
        name = blake2b(query.encode(), digest_size=20).hexdigest()
        path = self._folder / name[:2] / f"{name}.json.gz"
        fresh = self._refresh and name not in self._used
        rows = None if fresh else _read(path, len(variables))
        if rows is None:
            rows = self.client.select(query, variables)
            write_whole(path, gzip.compress(json.dumps(rows, ensure_ascii=False).encode(), 5, mtime=0))
        self._used[name] = blake2b(json.dumps(rows).encode(), digest_size=20).hexdigest()
        return rows

    @property
    def name(self) -> str:
        """The server, for messages."""
        return f"the endpoint {self.client.url}"

    @property
    def ordered(self) -> bool:
        """A server of millions of entities runs out of time sorting them for a sample."""
        return False

    def sources(self) -> tuple[Source, ...]:
        """The server's address with the digest of every question asked so far and its answer."""
        parts = [part for item in sorted(self._used.items()) for part in item]
        return (Source(self.client.url, Key(*parts).digest.hex()),)


def _read(path: Path, width: int) -> list[Row] | None:
    try:
        rows = [tuple(row) for row in json.loads(gzip.decompress(path.read_bytes()))]
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        return None
    return rows if all(len(row) == width and all(isinstance(v, str) for v in row) for row in rows) else None
