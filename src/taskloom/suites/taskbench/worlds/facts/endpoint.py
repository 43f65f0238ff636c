"""Facts from any SPARQL 1.1 server."""

from __future__ import annotations

from pathlib import Path

from taskloom.suites.taskbench.worlds.facts.answer_cache import Answers
from taskloom.suites.taskbench.worlds.facts.query_world import QueryWorld
from taskloom.suites.taskbench.worlds.facts.sparql import Client, Manners
from taskloom.suites.taskbench.worlds.facts.triple_store import cache_folder


class EndpointWorld(QueryWorld):
    """The facts of a SPARQL server that speaks Wikidata's vocabulary."""

    def __init__(
        self,
        url: str,
        inputs: int | None = None,
        language: str = "en",
        manners: Manners | None = None,
        page: int = 5_000,
        batch: int = 200,
        cache: Path | None = None,
        refresh: bool = False,
    ) -> None:
        """Take the address; nothing is asked yet.

        Args:
            url: Where queries are posted.
            inputs: How many inputs of each relation are sampled; None fetches relations whole, which suits a server of one's own.
                Which inputs a server names first is its own affair: the answers on disk and `sources` keep it fixed.
            language: Of the labels.
            manners: Rate, tries, time limits, contact.
            page: Rows asked for at once.
            batch: Entities in one query.
            cache: Instead of `TASKLOOM_CACHE` or `~/.cache/taskloom`.
            refresh: Ask again what is on disk.
        """
        self._client = Client(url, manners)
        super().__init__(Answers(self._client, cache or cache_folder(), refresh), inputs, language, page, batch)

    @property
    def queries(self) -> int:
        """How many queries have been sent; what is on disk needs none."""
        return self._client.asked
