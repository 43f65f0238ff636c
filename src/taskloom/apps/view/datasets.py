"""Datasets as the viewer reads them: the manifest, and each split's rows, read on demand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from taskloom.apps.view.folders import VanishedError, ViewedFolder
from taskloom.apps.view.split_rows import SplitRows, opened
from taskloom.core import shards
from taskloom.core.errors import DataError, nearest
from taskloom.core.files import atomic, cache_folder, digest
from taskloom.core.plan import role_of
from taskloom.data.dataset import MANIFEST, read_manifest
from taskloom.data.foreign import adapt, is_split_csv, read_csv

LINES = 10_000
"""Number of lines of a JSONL file that are converted at a time."""


@dataclass(frozen=True, slots=True)
class ViewedDataset:
    """A dataset.

    Attributes:
        folder: Its folder.
        manifest: Its manifest. For files that Taskloom did not write, the known facts about them.
        splits: The rows of each split.
    """

    folder: ViewedFolder
    manifest: Mapping[str, Any]
    splits: Mapping[str, SplitRows]

    @property
    def title(self) -> str:
        """Its title: the recipe and the seed, or the folder."""
        recipe = self.manifest["recipe"]
        return (
            f"{recipe['name']}, seed {self.manifest['seed']}"
            if "seed" in self.manifest
            else self.folder.label
        )

    def split(self, name: str) -> SplitRows:
        """Return the rows of a split. Raise `VanishedError` if there is no such split."""
        if name not in self.splits:
            raise VanishedError(
                f"the dataset has no split '{name[:80]}'; {nearest(name, self.splits)}"
            )
        return self.splits[name]

    def counts(self, split: str) -> dict[str, dict[str, int] | None]:
        """Counts of each trait's values in a split. None for a trait with many values."""
        counted = self.manifest["splits"][split].get("counts", {})
        return {
            str(name): (
                {str(v): n for v, n in values.items() if isinstance(n, int)}
                if isinstance(values, dict)
                else None
            )
            for name, values in (counted.items() if isinstance(counted, dict) else ())
        }


def open_dataset(folder: ViewedFolder) -> ViewedDataset:
    """Open a dataset that `make` wrote, or Parquet, JSONL or CSV files from elsewhere."""
    path = folder.path / MANIFEST
    if not path.is_file():
        return _open_foreign(folder)
    manifest = read_manifest(path)
    manifest["recipe"].setdefault("name", folder.label)
    splits = {
        name: SplitRows(_shards(folder.path, entry)) for name, entry in manifest["splits"].items()
    }
    return ViewedDataset(folder, manifest, splits)


def _shards(folder: Path, entry: Mapping[str, Any]) -> list[tuple[Path, int]]:
    return [(inside(folder, folder / shard["file"]), shard["rows"]) for shard in entry["shards"]]


def inside(folder: Path, path: Path) -> Path:
    """Resolve the links of a path. Raise an error if the result is outside the folder."""
    resolved = Path(os.path.realpath(path))
    if not resolved.is_relative_to(folder):
        raise DataError(
            f"{path.name} leads out of the folder {folder.name}; the viewer reads nothing outside"
            " of it"
        )
    return resolved


def _open_foreign(folder: ViewedFolder) -> ViewedDataset:
    splits: dict[str, SplitRows] = {}
    for name, files in _foreign_splits(folder.path):
        converted = files[0].suffix in (".jsonl", ".csv")
        paths = [_converted(path) for path in files] if converted else files
        sizes = []
        for path in paths:
            with opened(path) as file:
                sizes.append((path, file.metadata.num_rows))
        splits[name] = SplitRows(sizes, foreign=not converted)
    if not splits:
        raise VanishedError(
            f"{folder.label} holds neither {MANIFEST} nor Parquet, JSONL or CSV files with examples"
        )
    entries = {
        name: {"n": rows.n, "role": role_of(name), "describe": ""} for name, rows in splits.items()
    }
    return ViewedDataset(
        folder, {"recipe": {"name": folder.label}, "digest": "", "splits": entries}, splits
    )


def _foreign_splits(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise VanishedError(
            f"the folder {folder.name} cannot be read ({error.strerror})"
        ) from error
    seen: set[str] = set()
    for path in paths:
        # A split is a folder of Parquet files or a single file, named after it.
        if path.is_dir():
            name, files = path.name, sorted(path.glob("*.parquet"))
        elif path.suffix in (".parquet", ".jsonl") or is_split_csv(path):
            name, files = path.stem, [path]
        else:
            continue
        if files and name not in seen:
            seen.add(name)
            yield name, [inside(folder, file) for file in files]


def _converted(path: Path) -> Path:
    """Return a Parquet file with the rows of a JSONL or CSV file. It is written to the cache once,
    a few thousand lines at a time.
    """
    status = path.stat()
    name = digest(json.dumps([str(path), status.st_size, status.st_mtime_ns]))
    target = cache_folder("viewer", f"{name}.parquet")
    if not target.is_file():
        if path.suffix == ".csv":
            with atomic(target) as beside:
                pq.write_table(adapt(read_csv(path), path), beside, compression="zstd")
            return target
        with atomic(target) as beside, path.open(encoding="utf-8-sig", errors="replace") as file:
            _write_lines(path, file, beside)
    return target


def _write_lines(path: Path, lines: Iterator[str], target: Path) -> None:
    writer: pq.ParquetWriter | None = None
    number = 0
    try:
        while chunk := list(islice(lines, LINES)):
            rows = [_row(path, number + i, line) for i, line in enumerate(chunk, 1) if line.strip()]
            number += len(chunk)
            table = (
                adapt(pa.Table.from_pylist(rows), path) if rows else shards.schema({}).empty_table()
            )
            writer = writer or pq.ParquetWriter(target, table.schema, compression="zstd")
            writer.write_table(table.cast(writer.schema))
        if writer is None:
            pq.write_table(shards.schema({}).empty_table(), target)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise DataError(
            f"{path.name}: rows of different shapes ({str(error).splitlines()[0][:200]})"
        ) from error
    finally:
        if writer is not None:
            with suppress(pa.ArrowException):
                writer.close()


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path.name}:{number} is not JSON; each line must be a JSON object"
        ) from error
    if not isinstance(row, dict):
        raise DataError(
            f"{path.name}:{number} is not a JSON object; each line must be one with 'input' and"
            " 'targets'"
        )
    return row


def filter_choices(
    counts: Mapping[str, dict[str, int] | None], traits: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The possible filters of a split: the task and each trait, with the values and their counts if
    there are few.
    """
    names: Sequence[str] = [*(["task"] if counts.get("task") else []), *traits]
    choices = []
    for name in dict.fromkeys(names):
        values = counts.get(name)
        if values is not None and len(values) < 2:
            continue
        choices.append({"name": name, "kind": traits.get(name, "text"), "values": values or {}})
    return choices
