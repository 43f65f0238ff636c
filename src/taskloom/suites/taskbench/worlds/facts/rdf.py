"""Facts from RDF files in the format of Wikidata's truthy dumps, and any world written as one."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from taskloom.core.errors import InputError
from taskloom.core.files import cache_folder
from taskloom.core.plan import Source
from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld, TableWorld
from taskloom.suites.taskbench.worlds.facts.iri import (
    ALL_LANGUAGES,
    LABEL,
    PROPERTY,
    check_language,
    iri_term,
    is_entity,
    property_term,
    text_term,
    to_id,
)
from taskloom.suites.taskbench.worlds.facts.properties import INSTANCE_OF, PROPERTIES
from taskloom.suites.taskbench.worlds.facts.query_world import QueryWorld
from taskloom.suites.taskbench.worlds.facts.sparql import Row
from taskloom.suites.taskbench.worlds.facts.triple_store import (
    CHUNK,
    MEMORY_LIMIT,
    disk_store,
    file_source,
    lines_about,
    memory_store,
    rdf_files,
    write_whole,
)


@dataclass(frozen=True, slots=True)
class StoreAsker:
    """An embedded store as one that answers queries."""

    store: Any
    files: tuple[Source, ...]

    @property
    def name(self) -> str:
        """Name the source in messages."""
        return "the fact store"

    @property
    def ordered(self) -> bool:
        """Return True: a store at hand has no time limit, and the same files then give the same
        sample.
        """
        return True

    def select(self, query: str, variables: tuple[str, ...]) -> list[Row]:
        """Return the values of these variables in every row of the answer."""
        return [tuple(solution[v].value for v in variables) for solution in self.store.query(query)]

    def sources(self) -> tuple[Source, ...]:
        """Return the files, by digest."""
        return self.files


class RdfWorld(TableWorld):
    """The facts of one N-Triples file, or of all those in a folder."""

    def __init__(
        self,
        path: str | Path,
        keep: Literal["auto", "memory", "disk"] = "auto",
        language: str = "en",
        only: Literal["everything", "catalogue"] = "everything",
        cache: Path | None = None,
        chunk: int = CHUNK,
    ) -> None:
        """Load the files, or open the store that an earlier load has left.

        Args:
            path: A file `.nt`, `.nt.gz` or `.nt.bz2`, or a folder of them.
            keep: `memory` loads anew every time, `disk` once into the cache; `auto` takes memory
                for files up to 64 MB.
            language: Of the labels; Wikidata's labels for all languages stand in where there is
                none.
            only: `catalogue` loads the catalogue's relations, the classes and these labels, and
                skips the rest of a large dump.
            cache: Instead of `TASKLOOM_CACHE` or `~/.cache/taskloom`.
            chunk: Bytes loaded at once.
        """
        if keep not in ("auto", "memory", "disk"):
            raise InputError(
                f"a fact store is kept in 'memory', on 'disk' or 'auto'matically, not '{keep}'"
            )
        if only not in ("everything", "catalogue"):
            raise InputError(
                f"of a dump 'everything' or only the 'catalogue' is loaded, not '{only}'"
            )
        self._languages = (check_language(language), ALL_LANGUAGES)
        lines = (
            lines_about({*PROPERTIES.values(), INSTANCE_OF}, self._languages)
            if only == "catalogue"
            else None
        )
        files = rdf_files(Path(path))
        cache = cache or cache_folder("facts")
        if keep == "auto":
            keep = (
                "memory" if sum(file.stat().st_size for file in files) <= MEMORY_LIMIT else "disk"
            )
        paths = tuple(file_source(file, cache if keep == "disk" else None) for file in files)
        if keep == "memory":
            self.store: Any = memory_store(files, chunk, lines)
        else:
            name = Key(
                *(source.digest for source in paths), lines.pattern if lines else b""
            ).digest.hex()
            self.store = disk_store(files, name, cache, chunk, lines)
        super().__init__(self._pairs, self._labelled, lambda: paths)

    def query(self, sparql: str) -> Any:
        """Return the store's answer to any SPARQL query, as pyoxigraph gives it."""
        try:
            return self.store.query(sparql)
        except SyntaxError as error:
            raise InputError(f"the query cannot be read: {error}") from error

    def sampled(self, inputs: int) -> QueryWorld:
        """Return the same facts, known on the first so many inputs of each relation and asked for
        where a composition needs more.

        For dumps whose relations do not fit into memory: nothing is read but what is asked for.
        """
        return QueryWorld(StoreAsker(self.store, self.sources()), inputs, self._languages[0])

    def _pairs(self, property: str) -> Iterator[tuple[str, str]]:
        from pyoxigraph import NamedNode

        # Values that are not entities (dates, numbers, unknown values) have no place in a map
        # between entities.
        for quad in self.store.quads_for_pattern(None, NamedNode(PROPERTY + property), None):
            x, y = quad.subject, quad.object
            if (
                isinstance(x, NamedNode)
                and isinstance(y, NamedNode)
                and is_entity(x.value)
                and is_entity(y.value)
            ):
                yield to_id(x.value), to_id(y.value)

    def _labelled(self) -> Iterator[tuple[str, str]]:
        from pyoxigraph import Literal, NamedNode

        wanted, general = self._languages
        labels: set[str] = set()
        spare: list[tuple[str, str]] = []
        for quad in self.store.quads_for_pattern(None, NamedNode(LABEL), None):
            x, label = quad.subject.value, quad.object
            if not isinstance(label, Literal) or not label.value.strip():
                continue
            if label.language == wanted:
                labels.add(x)
                yield to_id(x), label.value
            elif label.language == general:
                spare.append((x, label.value))
        yield from ((to_id(x), label) for x, label in spare if x not in labels)


def write_ntriples(world: FactWorld, path: Path, language: str = "en") -> int:
    """Write the catalogue's relations, the classes and the labels of a world; returns the number of
    triples.

    The file is gzip where its name ends in `.gz`. The same world gives the same bytes.
    """
    out = io.StringIO()
    triples = 0
    mentioned: set[str] = set()
    for prop in sorted({*PROPERTIES.values(), INSTANCE_OF}):
        relation = world.relation(prop)
        mentioned |= relation.keys() | relation.outputs()
        for x, y in relation.pairs():
            out.write(f"{iri_term(x)} {property_term(prop)} {iri_term(y)} .\n")
            triples += 1
    for x, label in sorted(world.labels(mentioned).items()):
        out.write(f"{iri_term(x)} <{LABEL}> {text_term(label)}@{language} .\n")
        triples += 1
    text = out.getvalue().encode()
    write_whole(path, gzip.compress(text, 6, mtime=0) if path.name.endswith(".gz") else text)
    return triples
