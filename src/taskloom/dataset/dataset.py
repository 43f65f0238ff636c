"""The dataset: splits of examples and a manifest, on disk or in memory, and how to read it.

On disk a dataset is a folder with `manifest.json` and one folder of Parquet shards per split, readable by pyarrow,
pandas, polars and Hugging Face `datasets` without Taskloom.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.dataset import shards
from taskloom.errors import DataError, nearest
from taskloom.example import Example
from taskloom.files import digest, json_digest
from taskloom.plan import Role

if TYPE_CHECKING:
    from taskloom.recipe import Recipe

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Dataset:
    """Splits of examples and their manifest.

    >>> import taskloom as tl
    >>> data = tl.make("ctl/A", set=["splits.train.n=1000"])
    >>> len(data["train"])
    1000
    """

    manifest: Mapping[str, Any]
    tables: Mapping[str, pa.Table | Path]

    @property
    def splits(self) -> list[str]:
        """The names of the splits, in the recipe's order."""
        return list(self.manifest["splits"])

    @property
    def digest(self) -> str:
        """The content digest: equal digests, equal rows."""
        return str(self.manifest["digest"])

    def role(self, split: str) -> Role:
        """What a split is for: train, test or probe."""
        role: Role = self.manifest["splits"][split]["role"]
        return role

    def table(self, split: str) -> pa.Table:
        """A split as one Arrow table."""
        if split not in self.manifest["splits"]:
            raise DataError(f"the dataset has no split '{split}'; {nearest(split, self.splits)}")
        held = self.tables[split]
        if isinstance(held, pa.Table):
            return held
        entry = self.manifest["splits"][split]
        parts = [shards.read(held / shard["file"]) for shard in entry["shards"]]
        table = pa.concat_tables(parts) if parts else shards.schema({}).empty_table()
        if table.num_rows != entry["n"]:
            raise DataError(
                f"{held}: split '{split}' has {table.num_rows} rows, its manifest says {entry['n']}; make it again"
            )
        return table

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {entry['n']:,}" for name, entry in self.manifest["splits"].items())
        return f"<Dataset {self.manifest['recipe'].get('name', '')}: {sizes}>"

    def __getitem__(self, split: str) -> Examples:
        return Examples(self.table(split), self.manifest)

    def __contains__(self, split: object) -> bool:
        return split in self.manifest["splits"]

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe that made this dataset."""
        from taskloom.recipe import Recipe
        from taskloom.recipe.finder import load_definitions

        load_definitions(str(self.manifest["recipe"].get("name", "")))
        return Recipe.from_dict(self.manifest["recipe"])


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of a split: a sequence over an Arrow table that makes `Example` objects only as they are asked for.

    Attributes:
        table: Their rows.
        manifest: Of the dataset that they are from: whose rules they follow.
    """

    table: pa.Table
    manifest: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Example]:
        return iter(shards.to_examples(self.table))

    def __getitem__(self, index: int) -> Example:
        if not -len(self) <= index < len(self):
            raise IndexError(f"the split has {len(self)} examples; {index} is not one of them")
        return next(iter(shards.to_examples(self.table.slice(index % len(self), 1))))


def load(folder: str | Path) -> Dataset:
    """Read a dataset that `make` wrote; also a folder of `SPLIT/*.parquet`, `SPLIT.parquet` or `SPLIT.jsonl` without a manifest."""
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        return load_foreign(folder)
    manifest = read_manifest(path)
    return Dataset(manifest, dict.fromkeys(manifest["splits"], folder))


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest, checked for being one."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        known = manifest["format"]
        for key, kind in {"recipe": dict, "recipe_digest": str, "seed": int, "digest": str, "splits": dict}.items():
            if not isinstance(manifest[key], kind):
                raise TypeError(f"'{key}' is {manifest[key]!r}")
        for split in manifest["splits"].values():
            if split["role"] not in ("train", "test", "probe") or not isinstance(split["n"], int):
                raise ValueError(f"a split with the role {split['role']!r} and {split['n']!r} rows")
            for shard in split["shards"]:
                (shard["file"], shard["rows"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not a manifest of ours ({type(error).__name__}: {error}); make the dataset again"
        ) from error
    if known != FORMAT:
        raise DataError(f"{path} has format {known}, this taskloom reads format {FORMAT}; make the dataset again")
    return dict(manifest)


def load_foreign(folder: Path) -> Dataset:
    """A folder of Parquet or JSONL files that somebody else wrote, with the columns `input` and `targets` (or `target`)."""
    if not folder.is_dir():
        raise DataError(f"there is no dataset folder {folder}; make one with 'taskloom make RECIPE -o {folder}'")
    tables: dict[str, pa.Table] = {}
    for path in sorted(folder.iterdir()):
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path] if path.is_file() else []
        if not {p.suffix for p in files} & {".parquet", ".jsonl"}:
            continue
        name = path.name if path.is_dir() else path.stem
        if name in tables:
            raise DataError(f"{folder} has two sources for the split '{name}' ({path.name} is the second); keep one")
        if path.suffix == ".jsonl":
            tables[name] = _read_jsonl(path)
            continue
        if any(shards.read_stamp(p) is not None for p in files):
            raise DataError(
                f"{folder} is an unfinished dataset (no {MANIFEST}); run the same 'taskloom make' again to finish it"
            )
        tables[name] = _joined(files)
    if not tables:
        raise DataError(
            f"{folder} holds neither {MANIFEST} nor Parquet or JSONL splits; make it with 'taskloom make RECIPE -o {folder}'"
        )
    tables = {name: _adapt(table, folder / name) for name, table in tables.items()}
    entries = {n: {"n": t.num_rows, "role": "train" if n == "train" else "test"} for n, t in tables.items()}
    manifest = {"format": FORMAT, "recipe": {"name": str(folder)}, "digest": "", "splits": entries}
    return Dataset(manifest, tables)


def _joined(files: list[Path]) -> pa.Table:
    try:
        return pa.concat_tables([shards.read(p) for p in files], promote_options="default")
    except pa.ArrowException as error:
        raise DataError(f"{files[0].parent}: files of different columns: {str(error).splitlines()[0]}") from error


def _read_jsonl(path: Path) -> pa.Table:
    rows = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.encode("utf-8", "strict"))
            except UnicodeError as error:
                raise DataError(f"{path}:{number} is not UTF-8 text; save the file as UTF-8") from error
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}:{number} is not JSON ({error}); one object a line") from error
            if not isinstance(row, dict):
                raise DataError(f"{path}:{number} is not a JSON object; one object a line with 'input' and 'targets'")
            rows.append(row)
    try:
        return pa.Table.from_pylist(rows)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise DataError(f"{path}: rows of different shapes: {str(error).splitlines()[0]}") from error


def _adapt(table: pa.Table, where: Path) -> pa.Table:
    """Somebody's columns as ours; what cannot be is one sentence."""
    try:
        adapted = _columns(table, where)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{where}: a column is not what it should be: {str(error).splitlines()[0]}") from error
    answered = adapted.column("targets").filter(
        pc.fill_null(pc.greater(pc.list_value_length(adapted.column("targets")), 0), False)
    )
    if (
        adapted.column("input").null_count
        or len(answered) < adapted.num_rows
        or pc.list_element(answered, 0).null_count
    ):
        raise DataError(f"{where}: every row needs an 'input' and at least one target; some have none")
    return adapted


def _columns(table: pa.Table, where: Path) -> pa.Table:
    names = table.column_names
    if "input" not in names or not {"targets", "target"} & set(names):
        raise DataError(f"{where} needs the columns 'input' and 'targets'; it has: {', '.join(names)}")
    n = table.num_rows
    texts = table.column("input").cast(pa.string())
    if "targets" in names and pa.types.is_list(table.column("targets").type):
        targets = table.column("targets").cast(pa.list_(pa.string()))
    else:
        plain = table.column("targets" if "targets" in names else "target").cast(pa.string())
        targets = pa.array([[t] for t in plain.to_pylist()], pa.list_(pa.string()))
    columns: dict[str, Any] = {
        "index": pa.array(range(n), pa.int64()),
        "task": table.column("task").cast(pa.string()) if "task" in names else pa.array([""] * n, pa.string()),
        "input": texts,
        "targets": targets,
    }
    for name in ("question", "key"):
        columns[name] = table.column(name).cast(pa.string()) if name in names else pa.nulls(n, pa.string())
    columns["derivation"] = _derivations(table, where)
    if "traits" in names and pa.types.is_struct(table.column("traits").type):
        columns["traits"] = table.column("traits")
    return pa.table(columns)


def _derivations(table: pa.Table, where: Path) -> Any:
    if "derivation" not in table.column_names:
        return pa.nulls(table.num_rows, pa.list_(shards.STEP))
    try:
        return table.column("derivation").cast(pa.list_(shards.STEP))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{where}: 'derivation' must be a list of steps with rule, value and of: {error}") from error


def split_digest(blocks: list[str]) -> str:
    """The digest of a split out of the digests of its blocks."""
    return digest("\n".join(blocks))


def content_digest(splits: Mapping[str, Mapping[str, Any]]) -> str:
    """The digest of a dataset out of names, sizes and digests of its splits."""
    return json_digest([[name, entry["n"], entry["digest"]] for name, entry in splits.items()])
