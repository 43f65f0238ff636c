"""Facts from SPARQL queries, requested for a whole relation or a batch of entities.

The published reference sends one query per input, up to 12 million for the benchmark. Here, a
relation is one query with several pages. A composition over a sample is one query per batch: first
the inputs of a relation, then the rows that the next relation needs, using `VALUES`. Each page
continues after the last pair seen rather than at an offset, so the result is correct even if a
server caps its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from taskloom.core.errors import InputError
from taskloom.core.files import cache_folder
from taskloom.core.plan import Source
from taskloom.suites.taskbench.worlds.facts.fact_world import CatalogueWorld
from taskloom.suites.taskbench.worlds.facts.properties import (
    ALL_LANGUAGES,
    CLASS_PROPERTIES,
    LABEL,
    SUBCLASS_OF,
    Direction,
    check_language,
    iri_term,
    is_entity,
    property_term,
    text_term,
    to_id,
)
from taskloom.suites.taskbench.worlds.facts.relation import Relation, Rows
from taskloom.suites.taskbench.worlds.facts.sparql import (
    CachedClient,
    Manners,
    Overloaded,
    Row,
    SparqlClient,
    SparqlError,
)

BELIEVED = 1_000
"""Maximum rows of a short page that is accepted as the last one. Servers cap their rows (Virtuoso
at 10,000 by default), so a longer page may have been cut off, and the next one is requested.
"""

SMALLEST = 20
"""Minimum size of pages and batches. They are halved if they are too large for a server."""


class QueryClient(Protocol):
    """A source that answers queries."""

    @property
    def name(self) -> str:
        """Name of the source, for messages."""

    @property
    def ordered(self) -> bool:
        """True if a sample consists of the first inputs in order. A local store can sort all
        inputs, but a remote server refuses to.
        """

    def select(self, query: str, variables: tuple[str, ...]) -> list[Row]:
        """Return the values of these variables in every row of the answer."""

    def sources(self) -> tuple[Source, ...]:
        """Sources of the answers, by digest."""


class QueryWorld(CatalogueWorld):
    """The facts of a source that answers SPARQL queries in Wikidata's vocabulary."""

    def __init__(
        self,
        client: QueryClient,
        inputs: int | None = None,
        language: str = "en",
        page: int = 5_000,
        batch: int = 200,
    ) -> None:
        """Set up the world. No query is sent yet.

        Args:
            client: Source that answers queries.
            inputs: Number of inputs to sample from each relation. None fetches whole relations.
            language: Language of the labels.
            page: Rows per request.
            batch: Entities per query.
        """
        if (inputs is not None and inputs < 1) or page < SMALLEST or batch < 1:
            raise InputError(
                f"facts from queries need at least 1 input, pages of {SMALLEST} rows and batches "
                "of 1 entity"
            )
        super().__init__()
        self._source = client
        self._inputs = inputs
        self._language = check_language(language)
        self._page = page
        self._batch = batch
        self._rows: dict[Direction, dict[str, tuple[str, ...]]] = {}
        self._labels: dict[str, str | None] = {}
        self._named: dict[str, tuple[str, ...]] = {}

    def _compute_relation(self, way: Direction) -> Relation:
        """Return a whole relation, or a sample of its inputs to which more can be added."""
        if self._inputs is None:
            return super()._compute_relation(way)
        return self._sampled(way, self._some(f"{_pattern(way)} FILTER(isIRI(?y))"))

    def _pairs_of(self, way: Direction) -> Iterator[tuple[str, str]]:
        for x, y in self._pairs(f"{_pattern(way)} FILTER(isIRI(?x) && isIRI(?y))"):
            if is_entity(x) and is_entity(y):
                yield to_id(x), to_id(y)

    def _relation_with(self, way: Direction, values: tuple[str, ...]) -> Relation:
        """Return a relation. A sample includes some inputs with these values, which may be rare."""
        rows = self._relation(way)
        return rows.at({*rows, *self._having(way, values)}) if rows.partial else rows

    def label(self, id: str) -> str | None:
        """Return the label of an entity."""
        return self.labels((id,)).get(id)

    def labels(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the labels of many entities, requested in batches."""
        wanted = sorted(set(ids))
        missing = [x for x in wanted if x not in self._labels]
        texts: dict[str, str] = {}
        for language in (self._language, ALL_LANGUAGES):
            for iri, text in self._labelled([x for x in missing if x not in texts], language):
                if text.strip():
                    texts[to_id(iri)] = min(text, texts.get(to_id(iri), text))
        self._labels.update({x: texts.get(x) for x in missing})
        known = {x: self._labels[x] for x in wanted}
        return {x: label for x, label in known.items() if label is not None}

    def _labelled(self, ids: list[str], language: str) -> list[tuple[str, str]]:
        return self._batched(
            [iri_term(x) for x in ids],
            lambda terms: (
                f"VALUES ?x {{ {terms} }} ?x <{LABEL}> ?y FILTER(LANG(?y) = {text_term(language)})"
            ),
        )

    def ids(self, label: str) -> tuple[str, ...]:
        """Return every entity with that label."""
        return self.namesakes((label,))[label]

    def namesakes(self, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return every entity with each label, requested in batches."""
        wanted = sorted(set(labels))
        missing = [label for label in wanted if label not in self._named]
        texts = [text_term(label) for label in missing if label.strip()]
        tags = (self._language, ALL_LANGUAGES)
        pairs = self._batched(
            [f"{text}@{tag}" for text in texts for tag in tags],
            lambda terms: f"VALUES ?y {{ {terms} }} ?x <{LABEL}> ?y FILTER(isIRI(?x))",
        )
        # An entity may have a second label for all languages. `labels` decides which one counts.
        named = self.labels({to_id(iri) for iri, _ in pairs if is_entity(iri)})
        turned = Relation.of_pairs((label, x) for x, label in named.items())
        self._named.update({label: turned.get(label, ()) for label in missing})
        return {label: self._named[label] for label in wanted}

    def sources(self) -> tuple[Source, ...]:
        """Sources of the answers, by digest."""
        return self._source.sources()

    def _sampled(self, way: Direction, inputs: Iterable[str]) -> Relation:
        return Relation(
            self._at(way, inputs),
            lambda ids: self._at(way, ids),
            lambda: self._relation(way.flipped),
        )

    def _at(self, way: Direction, ids: Iterable[str]) -> Rows:
        """Return the complete rows of these ids. Each row is requested once."""
        known = self._rows.setdefault(way, {})
        wanted = sorted(set(ids))
        missing = [x for x in wanted if x not in known]
        pairs = self._batched(
            [iri_term(x) for x in missing],
            lambda terms: f"VALUES ?x {{ {terms} }} {_pattern(way)} FILTER(isIRI(?y))",
        )
        rows = Relation.of_pairs((to_id(x), to_id(y)) for x, y in pairs if is_entity(y))
        known.update({x: rows.get(x, ()) for x in missing})
        return {x: known[x] for x in wanted if known[x]}

    def _some(self, pattern: str) -> list[str]:
        order = " ORDER BY STR(?x)" if self._source.ordered else ""
        query = (
            f"SELECT DISTINCT ?x WHERE {{ {pattern} FILTER(isIRI(?x)) }}{order} LIMIT"
            f" {self._inputs}"
        )
        return sorted({to_id(x) for (x,) in self._source.select(query, ("x",)) if is_entity(x)})

    def _having(self, way: Direction, values: tuple[str, ...]) -> set[str]:
        """Return some inputs that have any of the values. If a class has too few, add inputs of its
        subclasses, level by level.
        """
        some: set[str] = set()
        level, kinds = list(values), set(values)
        while level and self._inputs is not None and len(some) < self._inputs:
            for start in range(0, len(level), self._batch):
                terms = " ".join(map(iri_term, level[start : start + self._batch]))
                some.update(self._some(f"VALUES ?y {{ {terms} }} {_pattern(way)}"))
            if way.inverse or way.prop not in CLASS_PROPERTIES:
                break
            narrower = self._at(Direction(SUBCLASS_OF, inverse=True), level)
            level = sorted({kind for row in narrower.values() for kind in row} - kinds)
            kinds.update(level)
        return some

    def _batched(self, terms: list[str], pattern: Callable[[str], str]) -> list[tuple[str, str]]:
        """Return the pairs of a pattern over all terms, with one query per batch. If a batch is too
        large for the server, it is halved.
        """
        pairs: list[tuple[str, str]] = []
        todo = [terms[i : i + self._batch] for i in range(0, len(terms), self._batch)][::-1]
        while todo:
            batch = todo.pop()
            try:
                # Reducing the number of entities helps a server more than shortening pages, so do
                # that first.
                pairs += self._pairs(pattern(" ".join(batch)), shrink=len(batch) <= SMALLEST)
            except Overloaded:
                if len(batch) <= SMALLEST:
                    raise
                todo += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
        return pairs

    def _pairs(self, pattern: str, shrink: bool = True) -> list[tuple[str, str]]:
        """Return all values of ?x and ?y, page by page in the order of their texts. Pages that are
        too large for a server are halved.
        """
        pairs: dict[tuple[str, str], None] = {}
        after, size = "", self._page
        while True:
            query = (
                f"SELECT ?x ?y WHERE {{ {pattern}{after} }} ORDER BY STR(?x) STR(?y) LIMIT {size}"
            )
            try:
                rows = self._source.select(query, ("x", "y"))
            except Overloaded:
                if not shrink or size // 2 < SMALLEST:
                    raise
                size //= 2
                continue
            before = len(pairs)
            pairs.update(dict.fromkeys((x, y) for x, y in rows))
            if len(rows) < min(size, BELIEVED):
                return list(pairs)
            if len(pairs) == before:
                raise SparqlError(
                    f"{self._source.name} returned the same page again, so it does not sort its "
                    "rows"
                )
            x, y = (text_term(value) for value in rows[-1])
            after = f" FILTER(STR(?x) > {x} || (STR(?x) = {x} && STR(?y) > {y}))"


class EndpointWorld(QueryWorld):
    """The facts of a SPARQL server that uses Wikidata's vocabulary."""

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
        """Set up the world. No query is sent yet.

        Args:
            url: Address to which queries are posted.
            inputs: Number of inputs to sample from each relation. None fetches whole relations,
                which is suitable for your own server. The server decides which inputs it returns
                first. Cached answers and `sources` make the sample reproducible.
            language: Language of the labels.
            manners: Rate, number of tries, time limits, contact.
            page: Rows per request.
            batch: Entities per query.
            cache: Cache folder. Default: `TASKLOOM_CACHE`, or else `~/.cache/taskloom`.
            refresh: Send queries again even if their answers are cached.
        """
        self._client = SparqlClient(url, manners)
        client = CachedClient(self._client, cache or cache_folder("facts"), refresh)
        super().__init__(client, inputs, language, page, batch)

    @property
    def queries(self) -> int:
        """Number of queries sent. Answers from the cache do not count."""
        return self._client.queries


def _pattern(way: Direction) -> str:
    return f"?y {property_term(way.prop)} ?x" if way.inverse else f"?x {property_term(way.prop)} ?y"
