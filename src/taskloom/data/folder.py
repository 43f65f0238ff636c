"""The folder of a dataset: Parquet shards and, next to them, the card, JSONL if wanted, and the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.core import shards
from taskloom.core.errors import DataError
from taskloom.core.files import atomic, json_digest
from taskloom.data.json_lines import json_lines

SHARD_ROWS = 4_000
"""Rows of a shard unless a plan has a number of its own."""


def origin_of(recipe: str, sources: Mapping[str, str]) -> str:
    """Return what shards are stamped with: the recipe's digest, and what its outside resources held when they were made."""
    if not sources:
        return recipe
    return json_digest([recipe, dict(sources)])


def shard_file(split: str, number: int) -> str:
    """Return the path of a shard inside a dataset's folder."""
    return f"{split}/{number:05d}.parquet"


def write_tables(folder: Path, manifest: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
    """Write a dataset that is in memory into a new folder: the files that `make` writes, or plain Parquet of foreign data."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is there already; a dataset is saved into a new or empty folder")
    if "recipe_digest" not in manifest:
        _write_foreign(folder, tables)
        return
    origin = origin_of(manifest["recipe_digest"], manifest["sources"])
    entries = {}
    for split, table in tables.items():
        written = []
        for number, start in enumerate(range(0, table.num_rows, SHARD_ROWS)):
            file = shard_file(split, number)
            part = table.slice(start, SHARD_ROWS)
            shards.write(folder / file, part, origin, manifest["seed"], split, start)
            written.append(
                {"file": file, "rows": part.num_rows, "bytes": (folder / file).stat().st_size}
            )
        entries[split] = {**manifest["splits"][split], "shards": written}
    write_beside(folder, {**manifest, "splits": entries}, jsonl=False)


def _write_foreign(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write splits that were made elsewhere, which have no recipe and so no manifest."""
    import pyarrow.parquet as pq

    for split, table in tables.items():
        with atomic(folder / f"{split}.parquet") as beside:
            pq.write_table(table, beside)


def write_beside(folder: Path, manifest: dict[str, Any], jsonl: bool) -> None:
    """Write everything but the shards, the manifest last: it says that the rest is there."""
    if jsonl:
        _write_jsonl(folder, manifest)
    _write_text(folder / "README.md", _card(manifest))
    _write_text(folder / shards.MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


def _write_jsonl(folder: Path, manifest: dict[str, Any]) -> None:
    for name, entry in manifest["splits"].items():
        with (
            atomic(folder / f"{name}.jsonl") as beside,
            beside.open("wb") as file,
        ):
            for shard in entry["shards"]:
                file.writelines(json_lines(shards.read(folder / shard["file"])))


def _write_text(path: Path, text: str) -> None:
    with atomic(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _card(manifest: dict[str, Any]) -> str:
    """Write a dataset card: its head makes `datasets.load_dataset(FOLDER)` find the splits; the rest is for people."""
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for name, entry in manifest["splits"].items():
        if entry["n"]:
            # Hugging Face split names are identifiers, and 'all' is a reserved one.
            lines += [
                f"  - split: {'any' if name == 'all' else name.replace('-', '_')}",
                f"    path: {name}/*.parquet",
            ]
    name, seed = manifest["recipe"]["name"], manifest["seed"]
    lines += ["---", "", f"# {name}, seed {seed}", "", manifest["recipe"].get("describe", ""), ""]
    lines += ["| split | examples | role | what |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {n} | {e['n']:,} | {e['role']} | {e['describe']} |"
        for n, e in manifest["splits"].items()
    ]
    if sources := manifest["sources"]:
        lines += [
            "",
            "Made from:",
            *(f"- {source}, digest `{digest}`" for source, digest in sources.items()),
        ]
    lines += [
        "",
        f"Content digest `{manifest['digest']}`. `manifest.json` holds the full recipe; made by Taskloom.",
        "",
    ]
    return "\n".join(lines)
