"""A world of facts in Parquet files, built from a Wikidata dump in one pass.

A truthy dump has billions of triples. The 500 tasks need 34 properties between entities, and the
labels of these entities in one language. `build_world` reads the dump once, in chunks of whole
lines, and writes a folder:

    world.json         sources, counts, and a digest of everything that was kept
    facts/P22.parquet  the pairs of one property: x, y
    labels.parquet     id, label

Memory is bounded by the chunk, the rows waiting to be written, and two bits for every number up to
the highest Q-id (33 MB for Wikidata's 130 million). Labels may come before or after the facts that
mention them, so all labels in the requested language are first written to a temporary file next to
the result. Labels of entities that no fact mentions are dropped at the end.

The folder can be loaded into memory, or sampled from disk.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from taskloom.core.errors import DataError, InputError
from taskloom.core.plan import Source
from taskloom.suites.taskbench.worlds.facts.fact_world import CatalogueWorld, TableWorld
from taskloom.suites.taskbench.worlds.facts.properties import (
    ALL_LANGUAGES,
    CLASS_PROPERTIES,
    ENTITY,
    INSTANCE_OF,
    LABEL,
    NAMELESS,
    PROPERTIES,
    PROPERTY,
    SUBCLASS_OF,
    Direction,
    check_language,
)
from taskloom.suites.taskbench.worlds.facts.rdf import chunks, rdf_files
from taskloom.suites.taskbench.worlds.facts.relation import Relation, Rows

MANIFEST = "world.json"
FORMAT = 1
"""Version of the folder's layout."""

CHUNK = 16 << 20
"""Bytes of N-Triples parsed per chunk."""

WAITING = 50_000
"""Maximum rows of one property that wait to be written. They form one row group in Parquet."""

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def build_world(
    source: str | Path, folder: str | Path, language: str = "en", chunk: int = CHUNK
) -> dict[str, Any]:
    """Build a world from a dump and return its manifest.

    Args:
        source: A file `.nt`, `.nt.gz`, `.nt.bz2` or `.nt.zst`, a folder of them, or `-` for
            N-Triples on standard input.
        folder: Folder for the world, which must not exist. If building fails, it is not created.
        language: Language tag of the labels.
        chunk: Bytes parsed at once.
    """
    target = Path(folder)
    if target.exists():
        raise DataError(f"{target} already exists; remove it, or choose another folder")
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
                f"{source} has no facts of the {len(properties)} properties that the tasks need; "
                "use a truthy dump of Wikidata, as N-Triples"
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
        """Extract the facts and labels that the tasks need from some lines."""
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
        """Write the waiting rows, drop labels that no task needs, and return the manifest."""
        counts = {prop: rows.close() for prop, rows in self.facts.items()}
        self.labels.close()
        labels = _Rows(self.folder / "labels.parquet", ("id", "label"))
        for rows in _row_groups(self.labels.path):
            wanted = self.mentioned.has(rows["id"])
            in_language = np.asarray(pc.equal(rows["language"], self.language))
            # The label for all languages is used only if there is none in the requested language.
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
    """Writes the rows of a Parquet file in groups, so that only a few are in memory."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path = path
        self.schema = pa.schema([(name, pa.string()) for name in columns])
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._count, self._written = 0, 0

    def add(self, rows: pa.Table) -> None:
        """Add rows, and write all waiting rows once there are enough."""
        if rows.num_rows:
            self._waiting.append(rows)
            self._count += rows.num_rows
        if self._count >= WAITING:
            self._flush()

    def close(self) -> int:
        """Write the remaining rows and return the total number of rows."""
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
    """A set of entity ids: one bit per Q-number, and a Python set for the few other ids."""

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
    """Return a mask of the ids that are a Q followed by at most ten digits, and their numbers."""
    is_number = pc.match_substring_regex(ids, "^Q[1-9][0-9]{0,9}$")
    digits = pc.utf8_slice_codeunits(ids.filter(is_number), 1)
    return is_number, np.asarray(digits.cast(pa.int64()), dtype=np.int64)


def _bit(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (numbers & 7).astype(np.uint8))


def _ids(iris: pa.Array) -> pa.Array:
    """Convert IRIs to ids, like `to_id`."""
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
    """Build the pattern for facts and labels in a dump, with groups for their parts. It accepts all
    white space that N-Triples allows.
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


def is_built(path: Path) -> bool:
    """True if a path is the folder of a built world."""
    return (path / MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a built world."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known = manifest["format"] == FORMAT and manifest["digest"] and manifest["facts"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / MANIFEST} cannot be read ({error}); build the world again"
        ) from error
    if not known:
        raise DataError(f"{folder / MANIFEST} belongs to another version; build the world again")
    return manifest


class BuiltWorld(TableWorld):
    """The facts of a built world. Each property is read on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        super().__init__(self._pairs, self._labelled, lambda: _sources(self.manifest))

    def sampled(self, inputs: int) -> SampledWorld:
        """Return the same facts, but with only the first inputs of each relation at first. Others
        are read from the files when a composition needs them.
        """
        return SampledWorld(self.folder, inputs)

    def _pairs(self, prop: str) -> Iterator[tuple[str, str]]:
        table = _read(_facts_file(self.folder, self.manifest, prop))
        return zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)

    def _labelled(self) -> Iterator[tuple[str, str]]:
        table = _read(self.folder / "labels.parquet")
        return zip(table["id"].to_pylist(), table["label"].to_pylist(), strict=True)


class SampledWorld(CatalogueWorld):
    """The facts of a built world whose relations do not fit into memory. Every query scans one
    file.
    """

    def __init__(self, folder: Path, inputs: int) -> None:
        if inputs < 1:
            raise InputError(
                f"inputs is {inputs}, but at least 1 input of each relation must be sampled"
            )
        super().__init__()
        self.folder, self.inputs = folder, inputs
        self.manifest = read_manifest(folder)
        self._rows: dict[Direction, dict[str, tuple[str, ...]]] = {}
        self._labels: dict[str, str | None] = {}
        self._named: dict[str, tuple[str, ...]] = {}

    def sources(self) -> tuple[Source, ...]:
        """The built world, by its digest."""
        return _sources(self.manifest)

    def label(self, id: str) -> str | None:
        """Label of an entity."""
        return self.labels((id,)).get(id)

    def labels(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the labels of many entities. Entities without a label are omitted."""
        wanted = sorted(set(ids))
        missing = [x for x in wanted if x not in self._labels]
        texts: dict[str, str] = {}
        for x, label in self._scan(self.folder / "labels.parquet", "id", missing):
            texts[x] = min(label, texts.get(x, label))
        self._labels.update({x: texts.get(x) for x in missing})
        known = {x: self._labels[x] for x in wanted}
        return {x: text for x, text in known.items() if text is not None}

    def ids(self, label: str) -> tuple[str, ...]:
        """Return every entity with this label."""
        return self.namesakes((label,))[label]

    def namesakes(self, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return every entity with each of these labels."""
        wanted = sorted(set(labels))
        missing = [label for label in wanted if label not in self._named]
        found = self._scan(self.folder / "labels.parquet", "label", missing)
        # Only one of an entity's labels counts.
        own = self.labels({x for x, _ in found})
        turned = Relation.of_pairs((label, x) for x, label in own.items())
        self._named.update({label: turned.get(label, ()) for label in missing})
        return {label: self._named[label] for label in wanted}

    def _compute_relation(self, way: Direction) -> Relation:
        first = self._first(way)
        return Relation(
            self._at(way, first),
            lambda ids: self._at(way, ids),
            lambda: self._relation(way.flipped),
        )

    def _relation_with(self, way: Direction, values: tuple[str, ...]) -> Relation:
        """Return a sample that includes some inputs with these values, which may be rare."""
        rows = self._relation(way)
        return rows.at({*rows, *self._having(way, values)})

    def _having(self, way: Direction, values: tuple[str, ...]) -> set[str]:
        """Return some inputs that have any of the values. If a class has too few, add inputs of its
        subclasses, level by level.
        """
        some: set[str] = set()
        level, kinds = list(values), set(values)
        while level and len(some) < self.inputs:
            some.update(self._first(way, level))
            if way.inverse or way.prop not in CLASS_PROPERTIES:
                break
            narrower = self._at(Direction(SUBCLASS_OF, inverse=True), level)
            level = sorted({kind for row in narrower.values() for kind in row} - kinds)
            kinds.update(level)
        return some

    def _at(self, way: Direction, ids: Iterable[str]) -> Rows:
        """Return the complete rows of these ids. Each is looked up once."""
        known = self._rows.setdefault(way, {})
        wanted = sorted(set(ids))
        missing = [x for x in wanted if x not in known]
        inputs, _ = _columns(way)
        file = _facts_file(self.folder, self.manifest, way.prop)
        rows = Relation.of_pairs(self._scan(file, inputs, missing))
        known.update({x: rows.get(x, ()) for x in missing})
        return {x: known[x] for x in wanted if known[x]}

    def _first(self, way: Direction, values: list[str] | None = None) -> list[str]:
        """Return the first inputs of a relation, in the order of their ids, among those with any of
        the values.
        """
        inputs, outputs = _columns(way)
        file = _facts_file(self.folder, self.manifest, way.prop)
        wanted = None if values is None else pc.field(outputs).isin(values)
        first = pa.array([], pa.string())
        for batch in ds.dataset(file).to_batches(columns=[inputs], filter=wanted):
            together = pc.unique(pa.concat_arrays([first, batch.column(0)]))
            first = together.take(pc.sort_indices(together)[: self.inputs])
        found: list[str] = first.to_pylist()
        return found

    def _scan(self, file: Path, column: str, values: list[str]) -> list[tuple[str, str]]:
        """Return the pairs in a file that have one of these values in a column. This column comes
        first in the result.
        """
        if not values:
            return []
        dataset = ds.dataset(file)
        if column == "label":  # pairs of labels keep the order (id, label)
            columns = ["id", "label"]
        else:
            columns = [column, *(name for name in dataset.schema.names if name != column)]
        table = dataset.to_table(columns=columns, filter=pc.field(column).isin(values))
        return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _columns(way: Direction) -> tuple[str, str]:
    """Return the columns of the inputs and of the outputs."""
    return ("y", "x") if way.inverse else ("x", "y")


def _facts_file(folder: Path, manifest: dict[str, Any], prop: str) -> Path:
    if prop not in manifest["facts"]:
        raise InputError(
            f"{folder} has no property {prop}: a built world only has the properties of the "
            "catalog; use an N-Triples file or an endpoint instead"
        )
    return folder / "facts" / f"{prop}.parquet"


def _read(file: Path) -> pa.Table:
    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} is damaged ({error}); build the world again") from error


def _sources(manifest: dict[str, Any]) -> tuple[Source, ...]:
    return (Source(" ".join(manifest["from"]), manifest["digest"]),)
