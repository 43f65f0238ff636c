"""A person's own data in the place of a recipe: a folder, a JSONL, CSV or Parquet file, or a Hugging Face dataset on disk.

Every file is a split (`train.jsonl`, `test/*.parquet`, `test/*.arrow`). Columns are named `input` and `targets` (or `target`), or
are renamed by `columns`; a column `task` tells tasks apart, and all other columns of plain values become traits. The digest is
that of the rows, not of the place where they lie.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from pydantic import Field

from taskloom.core import shards
from taskloom.core.arguments import path_of
from taskloom.core.errors import DataError, nearest
from taskloom.core.files import json_digest
from taskloom.core.plan import Level, Plan, Split, Tasks, role_of
from taskloom.core.registry import FunctionSuite
from taskloom.core.scoring import AnyOf
from taskloom.core.seeding import Key
from taskloom.data import dataset
from taskloom.data.foreign import adapt, read_jsonl
from taskloom.recipe import Fields, Recipe

FILES = (".jsonl", ".csv", ".parquet")
COLUMNS = ("input", "targets", "target", "task", "question", "key", "derivation", "traits", "index")
"""Columns that are not traits."""


class OwnFields(Fields):
    """What is said of own data.

    Attributes:
        path: Where it lies; not part of the digest.
        columns: Our name of a column to the name that the data has for it: `{input: question, target: answer}`.
    """

    path: str = Field(exclude=True)
    columns: dict[str, str] = Field(default_factory=dict)


def is_own_data(name: str) -> bool:
    """Return whether a name is the path of somebody's data: a file of rows, or a folder written with `./`, `../`, `/` or `~`."""
    path = path_of(name)
    return (path.suffix in FILES and path.is_file()) or (
        name.startswith(("./", "../", "/", "~")) and path.is_dir()
    )


def own_recipe(path: str, columns: dict[str, str]) -> Recipe:
    """Return a recipe whose plan has the rows of the files."""
    tables = {
        name: _adapted(table, name, columns) for name, table in _tables(path_of(path)).items()
    }
    traits = _traits(tables)
    rows = {name: _with_traits(table, traits) for name, table in tables.items()}
    digests = {name: json_digest(table.to_pylist()) for name, table in rows.items()}
    name = Path(path).stem or Path(path).resolve().name

    def weave(fields: OwnFields, key: Key) -> Plan:
        splits = tuple(_split(split, table) for split, table in rows.items())
        names = tuple(sorted({task for split in splits for task in split.tasks or ()}))
        return Plan(splits, traits, scorer=AnyOf(), tasks=Tasks(tell=_name, names=names))

    suite = FunctionSuite(
        name="own-data",
        describe="your own data",
        fields=OwnFields,
        weave=weave,
        version=1,
        module=__name__,
        code=lambda fields: digests,
    )
    return Recipe(name, suite, OwnFields(path=path, columns=columns))


def _name(task: str, level: Level) -> str:
    """Return the name of a task, which is all that is known of it."""
    return task


def _split(name: str, table: pa.Table) -> Split:
    tasks = tuple(sorted({task for task in table["task"].to_pylist() if task}))
    return Split(
        name,
        table.num_rows,
        lambda start, stop: table.slice(start, stop - start),
        role_of(name),
        tasks=tasks,
    )


def _tables(path: Path) -> dict[str, pa.Table]:
    if path.is_file():
        return {path.stem: _read([path])}
    if (path / dataset.MANIFEST).is_file():
        loaded = dataset.load(path)
        return {split: loaded.table(split) for split in loaded.splits}
    if list(path.glob("*.arrow")):
        return {path.name: _read(sorted(path.glob("*.arrow")))}
    tables: dict[str, pa.Table] = {}
    for entry in sorted(path.iterdir()):
        files = (
            sorted([*entry.glob("*.parquet"), *entry.glob("*.arrow")])
            if entry.is_dir()
            else [entry]
        )
        if not files or (entry.is_file() and entry.suffix not in FILES):
            continue
        name = entry.name if entry.is_dir() else entry.stem
        if name in tables:
            raise DataError(
                f"{path} has two sources for the split '{name}' ({entry.name} is the second); keep one"
            )
        tables[name] = _read(files)
    if not tables:
        raise DataError(
            f"{path} holds no JSONL, CSV, Parquet or Arrow file; name each by its split, e.g. train.jsonl"
        )
    return tables


def _read(files: list[Path]) -> pa.Table:
    try:
        return pa.concat_tables([_read_one(file) for file in files], promote_options="default")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{files[0]} cannot be read ({str(error).splitlines()[0]})") from error


def _read_one(file: Path) -> pa.Table:
    if file.suffix == ".jsonl":
        return read_jsonl(file)
    if file.suffix == ".csv":
        return pyarrow.csv.read_csv(file)
    if file.suffix == ".arrow":
        with pa.memory_map(str(file)) as source:
            return pa.ipc.open_stream(source).read_all()
    return shards.read(file)


def _adapted(table: pa.Table, split: str, columns: dict[str, str]) -> pa.Table:
    """Return a split with our columns, and its other columns of plain values as they are."""
    for ours, theirs in columns.items():
        if ours not in COLUMNS:
            raise DataError(
                f"columns: '{ours}' is not a column of a dataset; {nearest(ours, COLUMNS)}"
            )
        if theirs not in table.column_names:
            raise DataError(
                f"columns: {split} has no column '{theirs}'; {nearest(theirs, table.column_names)}"
            )
        place = table.column_names.index(theirs)
        table = table.rename_columns(
            [ours if i == place else c for i, c in enumerate(table.column_names)]
        )
    adapted = adapt(table, Path(split))
    for name in table.column_names:
        if name not in COLUMNS and _kind(table.schema.field(name).type) is not None:
            adapted = adapted.append_column(name, table.column(name))
    return adapted


def _kind(arrow: pa.DataType) -> type | None:
    if pa.types.is_boolean(arrow):
        return bool
    if pa.types.is_integer(arrow):
        return int
    if pa.types.is_floating(arrow):
        return float
    return str if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) else None


def _traits(tables: dict[str, pa.Table]) -> dict[str, type]:
    """Return the traits of all splits; one of two types is text."""
    kinds: dict[str, set[type]] = {}
    for table in tables.values():
        own = [(f.name, f.type) for f in table.schema if f.name not in COLUMNS]
        if "traits" in table.column_names:
            own += [(f.name, f.type) for f in table.schema.field("traits").type]
        for name, arrow in own:
            kind = _kind(arrow)
            if kind is not None:
                kinds.setdefault(name, set()).add(kind)
    return {
        name: next(iter(types)) if len(types) == 1 else str for name, types in sorted(kinds.items())
    }


def _with_traits(table: pa.Table, traits: dict[str, type]) -> pa.Table:
    plain = table.select([c for c in table.column_names if c in COLUMNS and c != "traits"])
    if not traits:
        return shards.to_table(plain, 0, {})
    given = (
        table.column("traits").to_pylist()
        if "traits" in table.column_names
        else [{}] * table.num_rows
    )
    values: dict[str, Any] = {}
    for name, kind in traits.items():
        column = (
            table.column(name).to_pylist()
            if name in table.column_names
            else [(t or {}).get(name) for t in given]
        )
        values[name] = [None if v is None else kind(v) for v in column]
    wanted = shards.schema(traits)
    struct = [dict(zip(traits, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return shards.to_table(
        plain.append_column("traits", pa.array(struct, wanted.field("traits").type)), 0, traits
    )
