"""Facts from RDF files in the format of Wikidata's truthy dumps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from taskloom.errors import InputError
from taskloom.seeding import Key
from taskloom.suites.taskbench.facts.iri import LABEL, PROPERTY, check_language, to_id
from taskloom.suites.taskbench.facts.storage import (
    CHUNK,
    MEMORY_LIMIT,
    cache_folder,
    disk_store,
    file_source,
    memory_store,
    rdf_files,
)
from taskloom.suites.taskbench.facts.world import TableWorld


class RdfWorld(TableWorld):
    """The facts of one N-Triples file, or of all those in a folder."""

    def __init__(
        self,
        path: str | Path,
        keep: Literal["auto", "memory", "disk"] = "auto",
        language: str = "en",
        cache: Path | None = None,
        chunk: int = CHUNK,
    ) -> None:
        """Load the files, or open the store that an earlier load has left.

        Args:
            path: A file `.nt` or `.nt.gz`, or a folder of them.
            keep: `memory` loads anew every time, `disk` once into the cache; `auto` takes memory for files up to 64 MB.
            language: Of the labels.
            cache: Instead of `TASKLOOM_CACHE` or `~/.cache/taskloom`.
            chunk: Bytes loaded at once.
        """
        if keep not in ("auto", "memory", "disk"):
            raise InputError(f"a fact store is kept in 'memory', on 'disk' or 'auto'matically, not '{keep}'")
        self._language = check_language(language)
        files = rdf_files(Path(path))
        cache = cache or cache_folder()
        if keep == "auto":
            keep = "memory" if sum(file.stat().st_size for file in files) <= MEMORY_LIMIT else "disk"
        found = tuple(file_source(file, cache if keep == "disk" else None) for file in files)
        if keep == "memory":
            self.store: Any = memory_store(files, chunk)
        else:
            self.store = disk_store(files, Key(*(source.digest for source in found)).digest.hex(), cache, chunk)
        super().__init__(self._pairs, self._labelled, lambda: found)

    def query(self, sparql: str) -> Any:
        """The store's answer to any SPARQL query, as pyoxigraph gives it."""
        try:
            return self.store.query(sparql)
        except SyntaxError as error:
            raise InputError(f"the query cannot be read: {error}") from error

    def _pairs(self, property: str) -> Iterator[tuple[str, str]]:
        from pyoxigraph import NamedNode

        # Values that are not entities (dates, numbers, unknown values) have no place in a map between entities.
        for quad in self.store.quads_for_pattern(None, NamedNode(PROPERTY + property), None):
            if isinstance(quad.subject, NamedNode) and isinstance(quad.object, NamedNode):
                yield to_id(quad.subject.value), to_id(quad.object.value)

    def _labelled(self) -> Iterator[tuple[str, str]]:
        from pyoxigraph import Literal, NamedNode

        for quad in self.store.quads_for_pattern(None, NamedNode(LABEL), None):
            if isinstance(quad.object, Literal) and quad.object.language == self._language:
                yield to_id(quad.subject.value), quad.object.value
