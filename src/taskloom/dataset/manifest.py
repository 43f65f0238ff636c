"""What lies beside the shards of a dataset: its manifest, its card, and JSONL where it is wanted."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import taskloom
from taskloom.dataset import dataset, shards
from taskloom.dataset.json_lines import json_lines
from taskloom.dataset.workers import Piece
from taskloom.files import atomic
from taskloom.plan import Plan
from taskloom.recipe import Recipe


def manifest_of_shards(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], stamps: dict[str, shards.Stamp]
) -> dict[str, Any]:
    """Build the manifest of a dataset whose shards, with these stamps, lie in a folder."""
    entries: dict[str, Any] = {}
    for split in plan.splits:
        mine = [p for p in pieces if p.split == split.name]
        blocks = [block for p in mine for block in stamps[p.file].blocks]
        entries[split.name] = {
            "n": split.n,
            "role": split.role,
            "describe": split.describe,
            "digest": dataset.split_digest(blocks),
            "counts": shards.merge_counts(stamps[p.file].counts for p in mine),
            "shards": [
                {"file": p.file, "rows": p.stop - p.start, "bytes": (folder / p.file).stat().st_size} for p in mine
            ],
        }
    return _head(recipe, seed, plan, entries)


def manifest_of_tables(recipe: Recipe, seed: int, plan: Plan, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Build the manifest of a dataset in memory; it has the digest of the same dataset in a folder."""
    entries = {
        s.name: {
            "n": s.n,
            "role": s.role,
            "describe": s.describe,
            "digest": dataset.split_digest(shards.block_digests(tables[s.name])),
            "counts": shards.merge_counts([shards.counts(tables[s.name])]),
        }
        for s in plan.splits
    }
    return _head(recipe, seed, plan, entries)


def _head(recipe: Recipe, seed: int, plan: Plan, entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": dataset.FORMAT,
        "recipe": recipe.to_dict(),
        "recipe_digest": recipe.digest,
        "seed": seed,
        "digest": dataset.content_digest(entries),
        "describe": plan.describe,
        "scorer": plan.scorer.name,
        "tasks_by": plan.tasks.by,
        "warnings": list(plan.warnings),
        "left_out": dict(plan.left_out),
        "sources": {s.name: s.digest for s in plan.sources},
        "versions": {
            "taskloom": taskloom.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
        },
        "splits": entries,
    }


def write_beside(folder: Path, manifest: dict[str, Any], jsonl: bool) -> None:
    """Write everything but the shards, the manifest last: it says that the rest is there."""
    if jsonl:
        _write_jsonl(folder, manifest)
    _write_text(folder / "README.md", _card(manifest))
    _write_text(folder / dataset.MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


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
            lines += [f"  - split: {'any' if name == 'all' else name.replace('-', '_')}", f"    path: {name}/*.parquet"]
    name, seed = manifest["recipe"]["name"], manifest["seed"]
    lines += ["---", "", f"# {name}, seed {seed}", "", manifest["recipe"].get("describe", ""), ""]
    lines += ["| split | examples | role | what |", "| --- | --- | --- | --- |"]
    lines += [f"| {n} | {e['n']:,} | {e['role']} | {e['describe']} |" for n, e in manifest["splits"].items()]
    if sources := manifest["sources"]:
        lines += ["", "Made from:", *(f"- {source}, digest `{digest}`" for source, digest in sources.items())]
    lines += [
        "",
        f"Content digest `{manifest['digest']}`. `manifest.json` holds the full recipe; made by Taskloom.",
        "",
    ]
    return "\n".join(lines)
