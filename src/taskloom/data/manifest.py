"""The manifest of a dataset: its recipe, versions and sources, and of each split the digest and the counts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import taskloom
from taskloom.core import shards
from taskloom.core.plan import Plan
from taskloom.data import dataset
from taskloom.data.workers import Piece
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
