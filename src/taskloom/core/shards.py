"""Shards: rows of a split in a Parquet file, written atomically, with a digest of the content.

The content digest is computed over blocks of 1,000 rows in a canonical encoding instead of the
file's bytes. So it does not depend on shard size, number of workers, compression or Arrow version.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, repeat
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import array_of, column
from taskloom.core.errors import DataError
from taskloom.core.example import Example, Step, Trait
from taskloom.core.files import atomic, path_of, refuse_special
from taskloom.core.object_store import ObjectPath

BLOCK = 1_000
"""Rows per digest block. Shard sizes are multiples of it."""

MOST_ROWS = 50_000_000
"""Maximum number of rows of a file. A Parquet file of a few kilobytes can hold billions."""

MANIFEST = "manifest.json"
"""File that marks a dataset as complete."""

METADATA = b"taskloom"
MANY = 50
"""Maximum number of different values of a trait that the manifest counts. Above it, the trait is
listed as 'many'.
"""

_ARROW: dict[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}
STEP = pa.struct([("rule", pa.string()), ("value", pa.string()), ("of", pa.list_(pa.int32()))])


def place_of(value: str | PathLike[str] | ObjectPath) -> Path | ObjectPath:
    """Return a local path, or a path in an object store if the value is an address such as
    `s3://BUCKET/FOLDER`.
    """
    if isinstance(value, ObjectPath):
        return value
    if isinstance(value, str) and "://" in value:
        return ObjectPath(value)
    return path_of(value)


def schema(traits: Mapping[str, type]) -> pa.Schema:
    """Return the columns of a dataset. Only the fields of `traits` differ between datasets.

    `question` and `key` are null if they equal the whole input. `of` is null if a step uses only
    the previous one.
    """
    columns = [
        ("index", pa.int64()),
        ("task", pa.string()),
        ("input", pa.string()),
        ("targets", pa.list_(pa.string())),
        ("question", pa.string()),
        ("key", pa.string()),
        ("derivation", pa.list_(STEP)),
    ]
    if traits:
        columns.append(
            ("traits", pa.struct([(name, _ARROW[kind]) for name, kind in traits.items()]))
        )
    return pa.schema(columns)


def to_table(
    rows: Iterable[Example] | pa.Table, start: int, traits: Mapping[str, type]
) -> pa.Table:
    """Convert rows to an Arrow table with the dataset's columns. `start` is the index of the first
    row.
    """
    wanted = schema(traits)
    if isinstance(rows, pa.Table):
        return rows if rows.schema == wanted else rows.select(wanted.names).cast(wanted)
    examples = list(rows)
    columns: dict[str, Any] = {
        "index": list(range(start, start + len(examples))),
        "task": [e.task for e in examples],
        "input": [e.input for e in examples],
        "targets": [e.targets for e in examples],
        "question": [e.question or None for e in examples],
        "key": [e.key or None for e in examples],
        "derivation": [
            [{"rule": s.rule, "value": s.value, "of": s.of} for s in e.derivation] for e in examples
        ],
    }
    if traits:
        columns["traits"] = [_traits(e, traits, start + i) for i, e in enumerate(examples)]
    try:
        return pa.table([column(columns[f.name], f.type) for f in wanted], schema=wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise DataError(
            f"an example with an index of at least {start} does not fit the declared columns: "
            f"{error}"
        ) from error


def _traits(example: Example, declared: Mapping[str, type], index: int) -> Mapping[str, Trait]:
    for name in example.traits:
        if name not in declared:
            raise DataError(
                f"{example.task}: example {index} has the trait '{name}', which the first example "
                "does not have; give every example the same traits (declared: "
                f"{', '.join(declared)})"
            )
    return example.traits


_PUT_SLOTS = {
    name: getattr(Example, name).__set__
    for name in ("input", "targets", "traits", "key", "question", "derivation", "task")
}


def to_examples(table: pa.Table) -> Iterable[Example]:
    """Yield the rows of a table as examples."""
    for batch in table.to_batches(max_chunksize=4096):
        columns = {name: batch.column(name) for name in batch.schema.names}
        n = batch.num_rows
        slots: dict[str, Iterable[Any]] = {"input": values(columns["input"])}
        for name in ("key", "question", "task"):
            slots[name] = _texts(columns[name]) if name in columns else repeat("", n)
        slots["targets"] = _tuples(columns["targets"], values)
        slots["derivation"] = (
            _tuples(columns["derivation"], _steps) if "derivation" in columns else repeat((), n)
        )
        slots["traits"] = (
            _trait_rows(columns["traits"]) if "traits" in columns else ({} for _ in range(n))
        )
        # Set the slots directly, without a Python loop. `Example(...)` takes three times as long,
        # because it converts values again.
        examples = list(map(object.__new__, repeat(Example, n)))
        for name, put in _PUT_SLOTS.items():
            deque(map(put, examples, slots[name]), maxlen=0)
        yield from examples


def values(array: Any) -> list[Any]:
    """Return the values of a column as a list."""
    try:
        plain: list[Any] = array.to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(
            f"a text of the dataset is not UTF-8 ({error.reason}): a file was damaged; make it"
            " again"
        ) from error
    return plain


def _texts(array: Any) -> Iterable[str]:
    """Return the texts of a column, with missing ones as empty texts."""
    if array.null_count == len(array):
        return repeat("", len(array))
    return [text or "" for text in values(array)] if array.null_count else values(array)


def _tuples(array: Any, read: Callable[[Any], list[Any]]) -> list[tuple[Any, ...]]:
    """Return a column of lists as tuples, with missing ones as empty tuples."""
    lists = _lists(array, read)
    return (
        [part or () for part in lists] if array.null_count else cast("list[tuple[Any, ...]]", lists)
    )


def _lists(array: Any, read: Callable[[Any], list[Any]]) -> list[tuple[Any, ...] | None]:
    """Return a column of lists as tuples, with missing ones as None. `read` decodes all items in
    one call.
    """
    # Not through NumPy, because `to_numpy` imports pandas if it is installed.
    lengths = pc.list_value_length(array).to_pylist()
    ends = list(
        accumulate(length or 0 for length in lengths) if array.null_count else accumulate(lengths)
    )
    members = tuple(read(pc.list_flatten(array)))
    lists: list[tuple[Any, ...] | None] = [
        members[start:stop] for start, stop in zip([0, *ends[:-1]], ends, strict=True)
    ]
    if array.null_count:
        lists = [
            part if valid else None
            for part, valid in zip(lists, array.is_valid().to_pylist(), strict=True)
        ]
    return lists


def _field(array: Any, name: str) -> Any:
    """Return a field of a struct column, which is missing where the struct is missing."""
    place = array.type.get_field_index(name)
    if place < 0:
        raise pa.ArrowInvalid(f"no field, or more than one, is called '{name}'")
    return array.flatten()[place]


def _steps(array: Any) -> list[Step]:
    """Return the steps of all derivations. Equal steps are the same object, because suites repeat
    rules and values.
    """
    rules, results, used = (_field(array, name) for name in ("rule", "value", "of"))
    chained = used.null_count == len(array) and not rules.null_count and not results.null_count
    if chained and len(array) >= BLOCK:
        return _chained_steps(rules, results)
    parents = [None] * len(array) if used.null_count == len(array) else _lists(used, values)
    known: dict[tuple[Any, ...], Step] = {}
    steps = []
    for step in zip(values(rules), values(results), parents, strict=True):
        same = known.get(step)
        if same is None:
            same = known[step] = Step(*step)
        steps.append(same)
    return steps


def _chained_steps(rules: Any, results: Any) -> list[Step]:
    """Return steps that each use only the previous one, built once per pair of rule and value."""
    rules, results = pc.dictionary_encode(rules), pc.dictionary_encode(results)
    names, outcomes = values(rules.dictionary), values(results.dictionary)
    pairs = array_of(rules.indices).astype(np.int64) * len(outcomes) + array_of(results.indices)
    built = {
        pair: Step(names[pair // len(outcomes)], outcomes[pair % len(outcomes)])
        for pair in set(pairs.tolist())
    }
    return list(map(built.__getitem__, pairs.tolist()))


def _trait_rows(array: Any) -> Iterable[Mapping[str, Trait]]:
    """Yield the traits of each row without missing ones."""
    names = [field.name for field in array.type]
    if not names:
        return ({} for _ in range(len(array)))
    columns = array.flatten()
    rows = zip(*map(values, columns), strict=True)
    if any(column.null_count for column in columns):
        return (
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in rows
        )
    return map(dict, map(zip, repeat(names), rows))  # without a loop in Python


def block_digests(table: pa.Table) -> list[str]:
    """Return the digest of each block of rows. The table must begin at a block boundary."""
    columns = [(name, table.column(name).combine_chunks()) for name in table.column_names]
    arrays = [(name, a.chunk(0) if isinstance(a, pa.ChunkedArray) else a) for name, a in columns]
    digests = []
    for low in range(0, table.num_rows, BLOCK):
        digest = blake2b(digest_size=16)
        for name, array in arrays:
            digest.update(name.encode())
            _feed(digest, array.slice(low, BLOCK))
        digests.append(digest.hexdigest())
    return digests


def _tag(kind: pa.DataType) -> str:
    """Return the canonical name of a type. Arrow's own names differ between memory and files
    (`item` and `element` for list items).
    """
    if pa.types.is_struct(kind):
        return "struct " + ",".join(field.name for field in kind)
    names = {
        pa.types.is_list: "list",
        pa.types.is_string: "text",
        pa.types.is_boolean: "bool",
        pa.types.is_floating: "float",
        pa.types.is_integer: "int",
        pa.types.is_null: "int",  # only missing values
    }
    for test, name in names.items():
        if test(kind):
            return name
    raise DataError(
        f"a column has the type {kind}, which does not occur in Taskloom's datasets; restore the "
        "file, or make it again"
    )


def _feed(digest: blake2b, array: pa.Array) -> None:
    """Update a hash with an array's values, independently of Arrow's memory layout."""
    kind = array.type
    digest.update(f"{_tag(kind)}:{len(array)}:{array.null_count};".encode())
    if array.null_count:
        digest.update(np.packbits(array_of(array.is_valid())).tobytes())
        if array.null_count == len(array):
            return
        array = array.drop_null()
    if pa.types.is_struct(kind):
        for child in array.flatten():
            _feed(digest, child)
    elif pa.types.is_list(kind):
        digest.update(array_of(pc.list_value_length(array)).astype("<i4").tobytes())
        _feed(digest, pc.list_flatten(array))
    elif pa.types.is_string(kind):
        digest.update(array_of(pc.binary_length(array)).astype("<i4").tobytes())
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32)[[array.offset, array.offset + len(array)]]
        if data is not None:
            digest.update(memoryview(data)[ends[0] : ends[1]])
    elif pa.types.is_boolean(kind):
        digest.update(np.packbits(array_of(array)).tobytes())
    else:
        digest.update(
            array_of(array).astype("<f8" if pa.types.is_floating(kind) else "<i8").tobytes()
        )


@dataclass(frozen=True, slots=True)
class Stamp:
    """Metadata that a shard stores about itself in its file."""

    recipe: str
    seed: int
    split: str
    start: int
    stop: int
    blocks: tuple[str, ...]
    counts: dict[str, Any]

    def same_place(self, recipe: str, seed: int, split: str, start: int, stop: int) -> bool:
        """True if the shard contains exactly these rows of this recipe and seed."""
        return (self.recipe, self.seed, self.split, self.start, self.stop) == (
            recipe,
            seed,
            split,
            start,
            stop,
        )


def write(
    path: Path | ObjectPath, table: pa.Table, recipe: str, seed: int, split: str, start: int
) -> Stamp:
    """Write a shard atomically."""
    # Imported here and below: pyarrow.parquet loads remote file systems and ssl, which showing an
    # example does not need.
    import pyarrow.parquet as pq

    stop = start + table.num_rows
    stamp = Stamp(recipe, seed, split, start, stop, tuple(block_digests(table)), counts(table))
    payload = {
        "recipe": recipe,
        "seed": seed,
        "split": split,
        "start": start,
        "stop": stop,
        "blocks": stamp.blocks,
        "counts": stamp.counts,
    }
    stamped = table.replace_schema_metadata({METADATA: json.dumps(payload).encode()})
    if isinstance(path, ObjectPath):
        sink = pa.BufferOutputStream()
        pq.write_table(stamped, sink, compression="zstd", write_statistics=False)
        path.write_bytes(sink.getvalue())
        return stamp
    with atomic(path) as beside:
        pq.write_table(stamped, beside, compression="zstd", write_statistics=False)
    return stamp


def _source(path: Path | ObjectPath) -> Path | pa.NativeFile:
    """Open an object, or check a local path, so that pyarrow can read it."""
    if isinstance(path, ObjectPath):
        return path.open()
    refuse_special(path)
    return path


def read_stamp(path: Path | ObjectPath) -> Stamp | None:
    """Read a shard's stamp, or return None if the file is not a complete shard of a Taskloom
    dataset.
    """
    import pyarrow.parquet as pq

    source = _source(path)
    try:
        return _parse_stamp(pq.read_metadata(source).metadata)
    except (pa.ArrowException, OSError, ValueError):  # edited names
        return None


def _parse_stamp(metadata: Mapping[bytes, bytes] | None) -> Stamp | None:
    raw = (metadata or {}).get(METADATA)
    if raw is None:
        return None
    try:
        payload = json.loads(raw)
        return Stamp(**{**payload, "blocks": tuple(map(str, payload["blocks"]))})
    except (ValueError, KeyError, TypeError, RecursionError):  # an edited stamp
        return None


def read(path: Path | ObjectPath) -> pa.Table:
    """Read a shard's rows. Raises an error with one sentence if the file is damaged."""
    return read_stamped(path)[0]


def read_stamped(path: Path | ObjectPath) -> tuple[pa.Table, Stamp | None]:
    """Read a shard's rows like `read`, together with its stamp."""
    import pyarrow.parquet as pq

    source = _source(path)
    try:
        with pq.ParquetFile(source) as file:  # read_table would import pyarrow.dataset and pandas
            _check_size(file.metadata.num_rows, path)
            table = file.read(use_threads=False)
        _look_at_names(table.schema)
        table.validate(full=True)  # finds texts that are not UTF-8 and invalid offsets
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; rerun 'taskloom make' to restore it") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{path} is damaged ({first}); restore it; rerun 'taskloom make' if Taskloom made it"
        ) from error
    return table.replace_schema_metadata(None), _parse_stamp(table.schema.metadata)


def _check_size(rows: int, path: Path | ObjectPath) -> None:
    if rows > MOST_ROWS:
        raise DataError(f"{path} has {rows:,} rows; at most {MOST_ROWS:,} are read: split the file")


def check_form(table: pa.Table, where: Path | ObjectPath) -> pa.Table:
    """Check that rows have the columns, types and values that readers of examples rely on, and
    return them. Otherwise, for example if the file was edited, raises an error with one sentence.
    """
    names = table.column_names
    for wanted in schema({}):
        if names.count(wanted.name) != 1:
            what = "no column" if wanted.name not in names else "more than one column"
            raise _malformed(where, f"has {what} '{wanted.name}'")
        kind = table.schema.field(wanted.name).type
        if not _is_like(kind, wanted.type):
            raise _malformed(where, f"has {kind} in '{wanted.name}', not {wanted.type}")
    _check_traits(table.schema, where)
    for name in ("index", "task", "input", "targets"):
        column = _whole(table.column(name))
        if column.null_count:
            _refuse_rows(array_of(column.is_null()), f"no {name}", where)
    answers = _whole(table.column("targets"))
    if pc.list_flatten(answers).null_count:
        raise _malformed(where, "has a missing text in 'targets'")
    _refuse_rows(array_of(pc.list_value_length(answers)) == 0, "no targets", where)
    _check_derivations(_whole(table.column("derivation")), where)
    return table


def _whole(column: Any) -> Any:
    """Return a column as a single chunk."""
    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array


def _check_traits(fields: pa.Schema, where: Path | ObjectPath) -> None:
    if "traits" not in fields.names:
        return
    kind = fields.field("traits").type
    if not pa.types.is_struct(kind):
        raise _malformed(where, f"has {kind} in 'traits', not a struct of scalars")
    for trait in kind:
        if pa.types.is_nested(trait.type):
            raise _malformed(where, f"has {trait.type} in the trait '{trait.name}', not a scalar")


def _check_derivations(derivations: Any, where: Path | ObjectPath) -> None:
    """Check that every step has a rule and a value, and uses only earlier steps."""
    steps = pc.list_flatten(derivations)
    if steps.null_count or any(_field(steps, name).null_count for name in ("rule", "value")):
        raise _malformed(where, "has a step without a rule or a value in 'derivation'")
    used = _field(steps, "of")
    if used.null_count == len(used):
        return
    positions, sizes = _positions(derivations), _sizes(used)
    parents = pc.list_flatten(used)
    if parents.null_count:
        raise _malformed(where, "has a missing number in 'derivation', field 'of'")
    before = array_of(parents)
    if ((before < 0) | (before >= np.repeat(positions, sizes))).any():
        raise _malformed(where, "has a step in 'derivation' that uses a step not before it")


def _sizes(lists: Any) -> NDArray[np.int64]:
    """Return the lengths of lists, with 0 for missing ones."""
    # Not `pc.fill_null`, because its scalar imports pandas if it is installed.
    lengths = pc.list_value_length(lists)
    sizes = np.zeros(len(lists), np.int64)
    sizes[array_of(lengths.is_valid())] = array_of(lengths.drop_null())
    return sizes


def _positions(lists: Any) -> NDArray[np.int64]:
    """Return the index of every item within its own list."""
    sizes = _sizes(lists)
    starts = np.cumsum(sizes) - sizes
    members: NDArray[np.int64] = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    return members


def _is_like(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """True for types with equivalent values, regardless of Arrow's names for list items and the
    width of integers.
    """
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(kind)) and _is_like(kind.value_type, wanted.value_type)
    if pa.types.is_struct(wanted):
        if not pa.types.is_struct(kind) or {f.name for f in kind} != {f.name for f in wanted}:
            return False
        return all(_is_like(kind.field(f.name).type, f.type) for f in wanted)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(kind))
    return bool(kind == wanted)


def _refuse_rows(wrong: NDArray[np.bool_], what: str, where: Path | ObjectPath) -> None:
    if wrong.any():
        raise _malformed(where, f"has {what} in row {int(wrong.argmax())}")


def _malformed(where: Path | ObjectPath, what: str) -> DataError:
    return DataError(f"{where} {what}; correct it, or rerun 'taskloom make' if Taskloom made it")


def _look_at_names(fields: Iterable[pa.Field]) -> None:
    """Access the names, so that a name that is not UTF-8 raises its `UnicodeDecodeError`. Arrow
    decodes names only on access.
    """
    for field in fields:
        _ = field.name
        kind = field.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            _look_at_names(kind)


def intact(path: Path, stamp: Stamp) -> bool:
    """True if a shard's rows still match the digests in its stamp."""
    try:
        return block_digests(read(path)) == list(stamp.blocks)
    except DataError:
        return False


def counts(table: pa.Table) -> dict[str, Any]:
    """Count rows per task and per value of each trait. The count is None for a trait with more than
    `MANY` values.
    """
    by_column: dict[str, Any] = {"task": value_counts(table.column("task"))}
    if "traits" in table.column_names:
        traits = table.column("traits").combine_chunks()
        traits = traits.chunk(0) if isinstance(traits, pa.ChunkedArray) else traits
        for field, values in zip(traits.type, traits.flatten(), strict=True):
            by_column[field.name] = value_counts(values)
    return by_column


def value_counts(values: Any) -> dict[str, int] | None:
    """Count rows per value. None if there are more than `MANY` values."""
    # Checking the first rows avoids counting hundreds of thousands of different values.
    if len(pc.unique(values.slice(0, BLOCK))) > MANY:
        return None
    table = pc.value_counts(values)
    if len(table) > MANY:
        return None
    pairs = [(_spell(row["values"]), row["counts"]) for row in table.to_pylist()]
    return dict(sorted(pairs))


def _spell(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)


def merge_counts(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the counts of several shards. The result does not depend on the shard size."""
    merged: dict[str, Any] = {}
    for part in parts:
        for name, values in part.items():
            if name in merged and (merged[name] is None or values is None):
                merged[name] = None
            elif name in merged:
                for value, n in values.items():
                    merged[name][value] = merged[name].get(value, 0) + n
            else:
                merged[name] = None if values is None else dict(values)
    return {
        name: "many" if values is None or len(values) > MANY else dict(sorted(values.items()))
        for name, values in merged.items()
    }
