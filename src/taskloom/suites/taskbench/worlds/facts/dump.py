"""A world of facts in Parquet, built from a Wikidata dump in one pass.

A truthy dump has billions of triples; the 500 tasks need 34 properties between entities, and the
labels of these entities in one language. `build_world` reads the dump once, in chunks of whole
lines, and writes a folder:

    world.json        what it was built from, counts, and a digest of all that was kept
    facts/P22.parquet the pairs of one property: x, y
    labels.parquet    id, label

Memory is bounded by the chunk, by the rows waiting to be written and by two bits for every number
up to the highest Q-id (33 MB for Wikidata's 130 million). Labels come before or after the facts
that mention them, so all of them in this language wait in a file next to the result, and those of
entities that no fact mentions are dropped at the end.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from taskloom.core.errors import DataError
from taskloom.suites.taskbench.worlds.facts.iri import (
    ALL_LANGUAGES,
    ENTITY,
    LABEL,
    NAMELESS,
    PROPERTY,
    check_language,
)
from taskloom.suites.taskbench.worlds.facts.properties import INSTANCE_OF, PROPERTIES
from taskloom.suites.taskbench.worlds.facts.rdf import chunks, rdf_files

MANIFEST = "world.json"
FORMAT = 1
"""Version of the folder's layout."""

CHUNK = 16 << 20
"""Bytes of N-Triples parsed at one time."""

WAITING = 50_000
"""Maximum rows of one property that wait to be written; a row group of Parquet."""

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def build_world(
    source: str | Path, folder: str | Path, language: str = "en", chunk: int = CHUNK
) -> dict[str, Any]:
    """Build a world from a dump and return its manifest.

    Args:
        source: A file `.nt`, `.nt.gz`, `.nt.bz2` or `.nt.zst`, a folder of them, or `-` for
            N-Triples on standard input.
        folder: The world's folder, which must not exist; it is whole or absent.
        language: Language tag of the labels.
        chunk: Bytes parsed at one time.
    """
    target = Path(folder)
    if target.exists():
        raise DataError(f"{target} is there already; remove it, or name another folder")
    files = [Path("-")] if str(source) == "-" else rdf_files(Path(source))
    properties = sorted({*PROPERTIES.values(), INSTANCE_OF})
    beside = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}")
    (beside / "facts").mkdir(parents=True)
    try:
        builder = _Builder(beside, properties, check_language(language))
        for _, _, _, lines in chunks(files, chunk):
            builder.read(lines)
        manifest = builder.finish([file.name for file in files])
        if not sum(manifest["facts"].values()):
            raise DataError(
                f"{source} has no fact of the {len(properties)} properties that the tasks need;"
                " take a truthy dump of Wikidata, as N-Triples"
            )
        (beside / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return manifest


class _Builder:
    def __init__(self, folder: Path, properties: list[str], language: str) -> None:
        self.folder, self.language = folder, language
        self.pattern = _pattern(properties, (language, ALL_LANGUAGES))
        self.facts = {p: _Rows(folder / "facts" / f"{p}.parquet", ("x", "y")) for p in properties}
        self.labels = _Rows(folder / "all-labels.parquet", ("id", "label", "language"))
        self.mentioned, self.named = IdSet(), IdSet()
        self.digest = blake2b(digest_size=16)
        self.triples = 0

    def read(self, lines: bytes) -> None:
        """Keep what the tasks need of some lines."""
        self.triples += lines.count(b"\n")
        found = self.pattern.findall(lines)
        if not found:
            return
        # A match is (x, property, y, "", "") or (x, "", "", label, language).
        columns = [pa.array(column, pa.binary()) for column in zip(*found, strict=True)]
        try:
            x, prop, y, label, language = (column.cast(pa.string()) for column in columns)
        except pa.ArrowInvalid as error:
            raise DataError(f"the dump is not UTF-8 near triple {self.triples:,}") from error
        x, y = _ids(x), _ids(y)
        entities = pc.invert(
            pc.or_(pc.match_substring(x, NAMELESS), pc.match_substring(y, NAMELESS))
        )
        is_fact = pc.and_(pc.not_equal(prop, ""), entities)
        self._keep_facts(pa.table({"p": prop, "x": x, "y": y}).filter(is_fact))
        is_label = pc.equal(prop, "")
        named = pa.table({"id": x, "label": label, "language": language}).filter(is_label)
        self._keep_labels(named)

    def _keep_facts(self, rows: pa.Table) -> None:
        rows = rows.combine_chunks()
        for prop in pc.unique(rows["p"]).to_pylist():
            own = rows.filter(pc.equal(rows["p"], prop)).select(["x", "y"])
            self.facts[prop].add(own)
            self.mentioned.add(own["x"])
            self.mentioned.add(own["y"])
        self._note(rows)

    def _keep_labels(self, rows: pa.Table) -> None:
        texts = pa.array(map(unescaped, rows["label"].to_pylist()), pa.string())
        rows = rows.set_column(1, "label", texts)
        rows = rows.filter(pc.not_equal(pc.utf8_trim_whitespace(rows["label"]), ""))
        self.labels.add(rows)
        own = rows.filter(pc.equal(rows["language"], self.language))
        self.named.add(own["id"])
        self._note(rows)

    def _note(self, rows: pa.Table) -> None:
        """Add rows to the digest, in the order of the dump."""
        if rows.num_rows:
            for column in rows.itercolumns():
                self.digest.update("\n".join(column.to_pylist()).encode())

    def finish(self, names: list[str]) -> dict[str, Any]:
        """Write what waits, drop labels that no task needs, and return the manifest."""
        counts = {prop: rows.close() for prop, rows in self.facts.items()}
        self.labels.close()
        labels = _Rows(self.folder / "labels.parquet", ("id", "label"))
        for rows in _row_groups(self.labels.path):
            wanted = self.mentioned.has(rows["id"])
            in_language = np.asarray(pc.equal(rows["language"], self.language))
            # A label for all languages stands in only if there is none in this one.
            stands_in = ~self.named.has(rows["id"])
            kept = wanted & (in_language | stands_in)
            labels.add(rows.filter(pa.array(kept)).select(["id", "label"]))
        self.labels.path.unlink()
        return {
            "format": FORMAT,
            "digest": self.digest.hexdigest(),
            "from": names,
            "language": self.language,
            "triples": self.triples,
            "facts": counts,
            "labels": labels.close(),
        }


class _Rows:
    """Rows of a Parquet file that are written in groups, so that few of them wait in memory."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path = path
        self.schema = pa.schema([(name, pa.string()) for name in columns])
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._count, self._written = 0, 0

    def add(self, rows: pa.Table) -> None:
        """Add rows; write all that wait once there are enough."""
        if rows.num_rows:
            self._waiting.append(rows)
            self._count += rows.num_rows
        if self._count >= WAITING:
            self._flush()

    def close(self) -> int:
        """Write the rest and return the number of rows."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._written

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, self.schema, compression="zstd")
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
        self._written += self._count
        self._waiting, self._count = [], 0


class IdSet:
    """A set of entity ids: one bit for each Q-number, a Python set for the few other ids."""

    def __init__(self) -> None:
        self._bits: NDArray[np.uint8] = np.zeros(1 << 16, np.uint8)
        self._others: set[str] = set()

    def add(self, ids: pa.ChunkedArray) -> None:
        """Add ids."""
        is_number, numbers = _numbers(ids)
        if len(numbers):
            self._grow(int(numbers.max()))
            np.bitwise_or.at(self._bits, numbers >> 3, _bit(numbers))
        self._others.update(ids.filter(pc.invert(is_number)).to_pylist())

    def has(self, ids: pa.ChunkedArray) -> NDArray[np.bool_]:
        """True for each id that is in the set."""
        is_number, numbers = _numbers(ids)
        places = numbers >> 3
        known = places < len(self._bits)
        found = np.zeros(len(numbers), bool)
        found[known] = (self._bits[places[known]] & _bit(numbers[known])) > 0
        here: NDArray[np.bool_] = np.zeros(len(ids), bool)
        mask = np.asarray(is_number)
        here[mask] = found
        rest = ids.filter(pc.invert(is_number)).to_pylist()
        here[~mask] = [x in self._others for x in rest]
        return here

    def _grow(self, number: int) -> None:
        size = len(self._bits)
        while size <= number >> 3:
            size *= 2
        if size > len(self._bits):
            self._bits = np.concatenate([self._bits, np.zeros(size - len(self._bits), np.uint8)])


def _numbers(ids: pa.ChunkedArray) -> tuple[pa.ChunkedArray, NDArray[np.int64]]:
    """Which ids are a Q with at most ten digits, and the numbers of these."""
    is_number = pc.match_substring_regex(ids, "^Q[1-9][0-9]{0,9}$")
    digits = pc.utf8_slice_codeunits(ids.filter(is_number), 1)
    return is_number, np.asarray(digits.cast(pa.int64()), dtype=np.int64)


def _bit(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (numbers & 7).astype(np.uint8))


def _ids(iris: pa.Array) -> pa.Array:
    """The ids of IRIs, as `iri.to_id` has them."""
    escaped = pc.match_substring(iris, "\\")
    if pc.any(escaped).as_py():
        iris = pa.array(map(unescaped, iris.to_pylist()), pa.string())
    return pc.replace_substring_regex(iris, f"^{re.escape(ENTITY)}([A-Z][1-9][0-9]*)$", r"\1")


def unescaped(text: str) -> str:
    r"""Resolve the escapes of N-Triples.

    >>> unescaped(r"caf\u00E9 \"Zero\"")
    'café "Zero"'
    """
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    short, long, plain = match.groups()
    if plain is not None:
        return _CONTROL.get(plain, plain)
    return chr(int(short or long, 16))


def _pattern(properties: list[str], languages: tuple[str, ...]) -> re.Pattern[bytes]:
    """Facts and labels in a dump, with groups for their parts; takes any blanks that N-Triples
    allows.
    """
    fact = rf"{re.escape(PROPERTY)}({'|'.join(properties)})>[ \t]*<([^>\n]*)>"
    label = rf'{re.escape(LABEL)}>[ \t]*"([^\n]*)"@({"|".join(languages)})'
    return re.compile(
        rf"^[ \t]*<([^>\n]*)>[ \t]*<(?:{fact}|{label})[ \t]*\.".encode(), re.MULTILINE
    )


def _row_groups(path: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)
