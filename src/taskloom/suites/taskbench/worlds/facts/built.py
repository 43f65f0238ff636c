"""Facts from a folder that `dump.build_world` wrote: whole in memory, or sampled from the files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from taskloom.core.errors import DataError, InputError
from taskloom.core.plan import Source
from taskloom.suites.taskbench.worlds.facts.dump import FORMAT, MANIFEST
from taskloom.suites.taskbench.worlds.facts.fact_world import CatalogueWorld, TableWorld
from taskloom.suites.taskbench.worlds.facts.properties import (
    CLASS_PROPERTIES,
    SUBCLASS_OF,
    Direction,
)
from taskloom.suites.taskbench.worlds.facts.relation import Relation, Rows


def is_built(path: Path) -> bool:
    """True if a path is the folder of a built world."""
    return (path / MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what a built world says about itself."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known = manifest["format"] == FORMAT and manifest["digest"] and manifest["facts"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / MANIFEST} cannot be read ({error}); build the world again"
        ) from error
    if not known:
        raise DataError(f"{folder / MANIFEST} is of another version; build the world again")
    return manifest


class BuiltWorld(TableWorld):
    """The facts of a built world, each property read when it is first wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        super().__init__(self._pairs, self._labelled, lambda: _sources(self.manifest))

    def sampled(self, inputs: int) -> SampledWorld:
        """The same facts, known on the first inputs of each relation and read from the files where
        a composition needs more.
        """
        return SampledWorld(self.folder, inputs)

    def _pairs(self, prop: str) -> Iterator[tuple[str, str]]:
        table = _read(_facts_file(self.folder, self.manifest, prop))
        return zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)

    def _labelled(self) -> Iterator[tuple[str, str]]:
        table = _read(self.folder / "labels.parquet")
        return zip(table["id"].to_pylist(), table["label"].to_pylist(), strict=True)


class SampledWorld(CatalogueWorld):
    """The facts of a built world whose relations do not fit into memory: every question scans one
    file.
    """

    def __init__(self, folder: Path, inputs: int) -> None:
        if inputs < 1:
            raise InputError(f"inputs is {inputs}; at least 1 input of each relation is sampled")
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
        """The text of an entity."""
        return self.labels((id,)).get(id)

    def labels(self, ids: Iterable[str]) -> dict[str, str]:
        """The texts of many entities; those without one are left out."""
        wanted = sorted(set(ids))
        missing = [x for x in wanted if x not in self._labels]
        texts: dict[str, str] = {}
        for x, label in self._scan(self.folder / "labels.parquet", "id", missing):
            texts[x] = min(label, texts.get(x, label))
        self._labels.update({x: texts.get(x) for x in missing})
        known = {x: self._labels[x] for x in wanted}
        return {x: text for x, text in known.items() if text is not None}

    def ids(self, label: str) -> tuple[str, ...]:
        """Every entity of that text."""
        return self.namesakes((label,))[label]

    def namesakes(self, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Every entity of each text."""
        wanted = sorted(set(labels))
        missing = [label for label in wanted if label not in self._named]
        found = self._scan(self.folder / "labels.parquet", "label", missing)
        # An entity with several labels goes by one of them only.
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
        """A sample with some inputs that have the values, which may be rare."""
        rows = self._relation(way)
        return rows.at({*rows, *self._having(way, values)})

    def _having(self, way: Direction, values: tuple[str, ...]) -> set[str]:
        """Some inputs that have any of the values; too few of a class are completed by those of its
        kinds, by levels.
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
        """The rows of these ids, complete; each is looked for once."""
        known = self._rows.setdefault(way, {})
        wanted = sorted(set(ids))
        missing = [x for x in wanted if x not in known]
        inputs, _ = _columns(way)
        file = _facts_file(self.folder, self.manifest, way.prop)
        rows = Relation.of_pairs(self._scan(file, inputs, missing))
        known.update({x: rows.get(x, ()) for x in missing})
        return {x: known[x] for x in wanted if known[x]}

    def _first(self, way: Direction, values: list[str] | None = None) -> list[str]:
        """The first inputs of a relation in the order of the ids, of those that have some values."""
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
        """The pairs of a file that have one of these values in a column, which comes first."""
        if not values:
            return []
        dataset = ds.dataset(file)
        if column == "label":  # pairs of labels stay (id, label)
            columns = ["id", "label"]
        else:
            columns = [column, *(name for name in dataset.schema.names if name != column)]
        table = dataset.to_table(columns=columns, filter=pc.field(column).isin(values))
        return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _columns(way: Direction) -> tuple[str, str]:
    """The columns of the inputs and of the outputs."""
    return ("y", "x") if way.inverse else ("x", "y")


def _facts_file(folder: Path, manifest: dict[str, Any], prop: str) -> Path:
    if prop not in manifest["facts"]:
        raise InputError(
            f"{folder} has no property {prop}: a built world has those of the catalogue; name an"
            " N-Triples file or an endpoint instead"
        )
    return folder / "facts" / f"{prop}.parquet"


def _read(file: Path) -> pa.Table:
    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file} is damaged ({error}); build the world again") from error


def _sources(manifest: dict[str, Any]) -> tuple[Source, ...]:
    return (Source(" ".join(manifest["from"]), manifest["digest"]),)
