"""Facts from RDF files in the format of Wikidata's truthy dumps. Any world can be written to such a
file.

N-Triples are loaded into pyoxigraph, an embedded SPARQL store, either in memory or once on disk.
Files are read in chunks of whole lines. A store on disk is named after the digest of the files. It
is built in a temporary folder that records the number of loaded chunks, and renamed when it is
complete. A killed load resumes after its last complete chunk. Loading a chunk twice changes
nothing, because a store is a set of triples. A second process waits for the first.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import re
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from taskloom.core.errors import DataError, InputError, MissingExtra
from taskloom.core.files import atomic, cache_folder, locked
from taskloom.core.plan import Source
from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld, TableWorld
from taskloom.suites.taskbench.worlds.facts.properties import (
    ALL_LANGUAGES,
    INSTANCE_OF,
    LABEL,
    PROPERTIES,
    PROPERTY,
    check_language,
    iri_term,
    is_entity,
    property_term,
    text_term,
    to_id,
)
from taskloom.suites.taskbench.worlds.facts.query_world import QueryWorld
from taskloom.suites.taskbench.worlds.facts.sparql import Row

CHUNK = 64 << 20
"""Bytes of N-Triples loaded per chunk. This limits the memory, and the work that is lost if the
process is killed.
"""

MEMORY_LIMIT = 64 << 20
"""Maximum total size in bytes of files that are loaded into memory by default. 3 MB of gzip take 1
CPU-second.
"""


ENDINGS = (".nt", ".nt.gz", ".nt.bz2", ".nt.zst")
_ENDS = ".nt, .nt.gz, .nt.bz2 or .nt.zst"

Only = re.Pattern[bytes] | None
"""Pattern of the lines to load, or None for all lines."""


def rdf_files(path: Path) -> list[Path]:
    """Return the N-Triples files at a path: the file itself, or those in a folder, sorted by
    name.
    """
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.name.endswith(ENDINGS) and p.is_file())
        if not files:
            raise DataError(
                f"the folder {path} has no file that ends in {_ENDS}; facts are read from N-Triples"
            )
        return files
    if not path.is_file():
        raise DataError(f"there is no file or folder {path} to read facts from")
    if not path.name.endswith(ENDINGS):
        raise DataError(
            f"{path} does not end in {_ENDS}; facts are read from N-Triples, such as Wikidata's "
            "truthy dumps"
        )
    return [path]


def file_source(path: Path, cache: Path | None = None) -> Source:
    """Return the digest of a file's bytes. It is cached by size and modification time, because a
    full dump takes minutes.
    """
    if cache is None:
        return Source(path.name, _digest(path))
    stat = path.stat()
    mark = f"{path.resolve()}\n{stat.st_size}\n{stat.st_mtime_ns}"
    note = cache / "digests" / hashlib.sha256(mark.encode()).hexdigest()[:32]
    try:
        digest = note.read_text()
    except OSError:
        digest = ""
    if len(digest) != 64:
        digest = _digest(path)
        write_whole(note, digest.encode())
    return Source(path.name, digest)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, so that it is never incomplete."""
    with atomic(path) as beside:
        beside.write_bytes(content)


def lines_about(properties: Iterable[str], languages: Iterable[str]) -> re.Pattern[bytes]:
    """Build the pattern for lines with these properties between entities, and with labels in these
    languages.

    These lines are a small part of a full dump, and the rest is never parsed. The pattern accepts
    all white space that N-Triples allows.
    """
    facts = f"{re.escape(PROPERTY)}(?:{'|'.join(sorted(properties))})>[ \\t]*<[^>\\n]*>"
    labels = f'{re.escape(LABEL)}>[ \\t]*"[^\\n]*"@(?:{"|".join(sorted(languages))})'
    return re.compile(
        f"^[ \\t]*<[^>\\n]*>[ \\t]*<(?:{facts}|{labels})[ \\t]*\\.[^\\n]*\\n?".encode(),
        re.MULTILINE,
    )


def memory_store(files: list[Path], chunk: int = CHUNK, only: Only = None) -> Any:
    """Load the triples of the files into an in-memory store."""
    store = _oxigraph().Store()
    for _, name, first_line, lines in chunks(files, chunk):
        _load(store, name, first_line, lines, only)
    return store


def disk_store(
    files: list[Path], digest: str, cache: Path, chunk: int = CHUNK, only: Only = None
) -> Any:
    """Open the store on disk with the triples of the files for reading. If it does not exist, build
    it.

    Args:
        files: Files with the triples.
        digest: Digest of the files and of the selection, used as the store's name.
        cache: Folder of the stores.
        chunk: Bytes per chunk.
        only: Pattern of the lines to load.
    """
    whole = cache / "stores" / digest[:32]
    if not whole.is_dir():
        try:
            with locked(whole.with_suffix(".lock")):
                if not whole.is_dir():
                    _build(files, whole, chunk, only)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"cannot create the fact store {whole}: {error}; free some space, or set another "
                "TASKLOOM_CACHE"
            ) from error
    try:
        return _oxigraph().Store.read_only(str(whole / "triples"))
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"the fact store {whole} is damaged ({error}): remove that folder to rebuild it"
        ) from error


def _build(files: list[Path], whole: Path, chunk: int, only: Only) -> None:
    part = whole.with_suffix(".part")
    progress = part / "progress.json"
    store, done = None, 0
    try:
        state = json.loads(progress.read_text())
        # If the store is missing, opening it would create an empty one without the chunks that were
        # loaded.
        if state["chunk"] == chunk and (part / "triples" / "CURRENT").is_file():
            store, done = _oxigraph().Store(str(part / "triples")), int(state["done"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        pass  # Loading had not started, or the store cannot be opened. Start again.
    if store is None:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        store = _oxigraph().Store(str(part / "triples"))
    for number, name, first_line, lines in chunks(files, chunk):
        if number >= done:
            _load(store, name, first_line, lines, only)
            store.flush()
            write_whole(progress, json.dumps({"chunk": chunk, "done": number + 1}).encode())
    del store  # Close the store, because an open store must not be renamed.
    part.rename(whole)


def _load(store: Any, name: str, first_line: int, lines: bytes, only: Only) -> None:
    chosen = lines if only is None else b"".join(only.findall(lines))
    try:
        store.bulk_load(chosen, _oxigraph().RdfFormat.N_TRIPLES)
    except SyntaxError as error:
        # The library reports the line within the chunk. Report the line within the file.
        place = (error.lineno or 1) - 1
        where = f"line {first_line + place}" if only is None else f"a line after {first_line}"
        raise DataError(f"{name}, {where} is not N-Triples: {error.msg}") from error


def chunks(files: list[Path], size: int) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield chunks of whole lines with their number, file and first line number. The same size
    always gives the same chunks.
    """
    number = 0
    for path in files:
        line = 1
        try:
            with _opened(path) as file:
                while lines := file.read(size):
                    lines += file.readline()
                    yield number, str(path), line, lines
                    number, line = number + 1, line + lines.count(b"\n")
        except (EOFError, zlib.error, OSError) as error:
            raise DataError(
                f"{path} is damaged or cut off after line {line}: {error}; download it again"
            ) from error


def _opened(path: Path) -> gzip.GzipFile | bz2.BZ2File | IO[bytes]:
    """Open a file for reading bytes. `-` is standard input."""
    if str(path) == "-":
        return sys.stdin.buffer
    if path.name.endswith(".gz"):
        return gzip.open(path)
    if path.name.endswith(".bz2"):
        return bz2.open(path)
    if path.name.endswith(".zst"):
        import pyarrow as pa

        stream = pa.input_stream(str(path), compression="zstd", buffer_size=1 << 20)
        return cast("IO[bytes]", io.BufferedReader(cast("io.RawIOBase", stream), 1 << 20))
    return path.open("rb")


def _oxigraph() -> Any:
    try:
        import pyoxigraph
    except ImportError as error:
        raise MissingExtra("reading RDF files", "pyoxigraph", "facts") from error
    return pyoxigraph


@dataclass(frozen=True, slots=True)
class StoreAsker:
    """An embedded store as a `QueryClient`."""

    store: Any
    files: tuple[Source, ...]

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return "the fact store"

    @property
    def ordered(self) -> bool:
        """Always True. A local store has no time limit, and sorting makes samples of the same files
        equal.
        """
        return True

    def select(self, query: str, variables: tuple[str, ...]) -> list[Row]:
        """Return the values of these variables in every row of the answer."""
        return [tuple(solution[v].value for v in variables) for solution in self.store.query(query)]

    def sources(self) -> tuple[Source, ...]:
        """The files, by digest."""
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
        """Load the files, or open the store from an earlier load.

        Args:
            path: A file `.nt`, `.nt.gz` or `.nt.bz2`, or a folder of them.
            keep: `memory` loads the files every time, `disk` loads them once into the cache. `auto`
                means `memory` for files up to 64 MB.
            language: Language of the labels. Entities without one get Wikidata's label for all
                languages.
            only: `catalogue` loads only the catalogue's relations, the classes and these labels,
                and skips the rest of a large dump.
            cache: Cache folder. Default: `TASKLOOM_CACHE`, or else `~/.cache/taskloom`.
            chunk: Bytes per chunk.
        """
        if keep not in ("auto", "memory", "disk"):
            raise InputError(f"keep must be 'memory', 'disk' or 'auto', not '{keep}'")
        if only not in ("everything", "catalogue"):
            raise InputError(f"only must be 'everything' or 'catalogue', not '{only}'")
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
        """Return the store's answer to any SPARQL query, in pyoxigraph's types."""
        try:
            return self.store.query(sparql)
        except SyntaxError as error:
            raise InputError(f"the query cannot be read: {error}") from error

    def sampled(self, inputs: int) -> QueryWorld:
        """Return the same facts, but with only the first `inputs` inputs of each relation at first.
        Others are queried when a composition needs them.

        This is suitable for dumps whose relations do not fit into memory, because only what is
        needed is read.
        """
        return QueryWorld(StoreAsker(self.store, self.sources()), inputs, self._languages[0])

    def _pairs(self, property: str) -> Iterator[tuple[str, str]]:
        from pyoxigraph import NamedNode

        # Values that are not entities (dates, numbers, unknown values) do not belong in a relation
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
    """Write the catalog's relations, the classes and the labels of a world. Return the number of
    triples.

    The file is compressed if its name ends in `.gz`. The same world always gives the same bytes.
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
