"""Make a dataset: generate shards in one or more processes, resumably, with the same bytes for any
number of workers.

A shard is the unit of work. It is written atomically and identifies itself in its metadata. So
after an interruption a second `make` keeps every complete shard, regenerates damaged ones and ends
with the same manifest.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import taskloom
from taskloom.core import shards
from taskloom.core.errors import (
    DataError,
    ParameterError,
    RecipeError,
    TaskloomError,
    nearest,
    whole,
)
from taskloom.core.files import locked, sweep
from taskloom.core.object_store import ObjectPath
from taskloom.core.plan import Plan
from taskloom.core.progress import ShowProgress, WorkCounter, shown
from taskloom.data import Dataset, dataset
from taskloom.data.dataset import MOST_SHARDS, origin_of, write_beside
from taskloom.data.workers import (
    MOST_WORKERS,
    Piece,
    Where,
    make_shards,
    refuse_while_importing_main,
    table_of,
)
from taskloom.recipe import Recipe, read
from taskloom.recipe.overrides import Changes, given_changes
from taskloom.recipe.recipe import Source

if TYPE_CHECKING:
    from taskloom.recipe.tasks import Task


READERS = 16
"""Maximum concurrent requests to an object store when `make` checks which shards exist. They mostly
wait for the network.
"""

LOOKED_AT = 100
"""Maximum number of Parquet files in which `make` looks for the dataset that a folder without a
manifest holds. A folder of other files may have millions.
"""

MOST_ROWS = 10**11
"""Maximum number of rows. With more, even the list of files would not fit into memory."""


def make(
    recipe: Source | Task | Recipe,
    out: str | Path | ObjectPath | None = None,
    *,
    seed: int | None = None,
    changes: Changes = None,
    set: Changes = None,
    workers: int = 1,
    shard_rows: int | None = None,
    jsonl: bool = False,
    force: bool = False,
    engine: str = "local",
    address: str | None = None,
    progress: ShowProgress | bool | None = None,
) -> Dataset:
    """Make a dataset in a folder, or in memory if `out` is None.

    Args:
        recipe: A recipe, its name or its file; a mapping such as `{"suite": NAME, "splits": …}`; or
            a task of `@tl.task`.
        out: Folder of the dataset, or its address in an object store (`s3://BUCKET/FOLDER`).
            Complete shards from an earlier, interrupted call are kept.
        seed: Seed of the samples. Default: the recipe's own.
        changes: Changes to the recipe's fields: `{"max_length": 8, "splits.train.n": 500}`, or
            `["max_length=8"]` as on the command line.
        set: Another name for `changes`.
        workers: Number of processes. It does not affect the result.
        shard_rows: Rows per file, a multiple of 1,000. It does not affect the content digest.
        jsonl: Also write one JSONL file per split.
        force: Remove any existing dataset in the folder first. Other files are never removed.
        engine: `local` processes, or tasks on a `ray` cluster whose nodes all reach `out`.
        address: Address of the Ray cluster. Default: start one on this machine.
        progress: True to show progress: a bar on a terminal, a line in a notebook or a log.
            Default: only in notebooks. Or a function that is called after each shard (in memory,
            after each split).
    """
    if engine not in ("local", "ray"):
        raise TaskloomError(
            f"no engine is called '{engine}'; {nearest(str(engine), ('local', 'ray'))}"
        )
    changes = given_changes(changes, set)
    if not isinstance(recipe, Recipe):
        recipe = read(recipe, changes)
    elif changes:
        raise ParameterError("changes", "go with a recipe's name, not with a checked recipe")
    seed = recipe.seed if seed is None else whole(seed, "seed")
    workers = whole(workers, "workers", least=1, most=MOST_WORKERS)
    plan = recipe.plan(seed)
    _check_splits(plan)
    pieces = _pieces(plan, _shard_rows(plan, shard_rows))
    if out is None:
        with shown(progress) as show:
            return _in_memory(recipe, seed, plan, show)
    folder = shards.place_of(out)
    if jsonl and isinstance(folder, ObjectPath):
        raise ParameterError("jsonl", "is written to folders only, not to an object store")
    refuse_while_importing_main()
    with _alone(folder), shown(progress) as show:
        if not (force and _remove_dataset(folder)):
            _refuse_other(folder, recipe, seed, _origin(recipe, plan))
        return _make_into(
            folder, recipe, seed, plan, pieces, Where(workers, engine, address), jsonl, show
        )


def _make_into(
    folder: Path | ObjectPath,
    recipe: Recipe,
    seed: int,
    plan: Plan,
    pieces: list[Piece],
    where: Where,
    jsonl: bool,
    show: ShowProgress | None,
) -> Dataset:
    origin = _origin(recipe, plan)
    report = WorkCounter(sum(s.n for s in plan.splits), show)
    kept = _kept_shards(folder, origin, seed, pieces)
    for piece in pieces:
        if piece.file in kept:
            report.add(piece.split, piece.rows)
    missing = [p for p in pieces if p.file not in kept]
    fresh = make_shards(recipe, seed, plan, folder, missing, where, report)
    manifest = manifest_of_shards(recipe, seed, plan, folder, pieces, kept | fresh)
    if jsonl and isinstance(folder, Path):
        from taskloom.data.export import write_jsonl

        write_jsonl(folder, manifest)
    write_beside(folder, manifest)
    _sweep(folder, {p.file for p in pieces})
    return dataset.load(folder)


def _origin(recipe: Recipe, plan: Plan) -> str:
    return origin_of(recipe.digest, {s.name: s.digest for s in plan.sources})


def _check_splits(plan: Plan) -> None:
    """Check names of splits, which are used as folders and in other tools."""
    if not plan.splits:
        raise RecipeError("splits: name at least one, e.g. splits={train: {n: 1000}}")
    seen: dict[str, str] = {}
    for split in plan.splits:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", split.name):
            raise RecipeError(
                f"splits: {split.name!r} cannot name a split; use letters, digits, '-' and '_'"
            )
        other = seen.setdefault(split.name.replace("-", "_").casefold(), split.name)
        if other != split.name:
            raise RecipeError(
                f"splits: '{other}' and '{split.name}' are the same name in other tools; rename one"
            )
    rows = sum(split.n for split in plan.splits)
    if rows > MOST_ROWS:
        raise RecipeError(
            f"splits: {rows:,} examples are more than the {MOST_ROWS:,} that one dataset may hold;"
            " make several"
        )


@contextmanager
def _alone(folder: Path | ObjectPath) -> Iterator[None]:
    """Lock a folder for one `make` at a time. A second one waits, and then either finds everything
    done or refuses to mix datasets.

    Object stores have no locks. Two calls of the same recipe would write the same bytes twice.
    """
    if isinstance(folder, ObjectPath):
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; a dataset is a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder {folder}: {error.strerror}; choose another folder"
        ) from error
    with locked(folder):
        yield


def default_folder(recipe: Recipe, seed: int) -> Path:
    """Default folder of a dataset: data/RECIPE-seedN."""
    path = Path(recipe.name.partition("::")[0])
    name = path.stem if path.suffix in (".py", ".yaml", ".yml") else recipe.name
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-")
    return Path("data") / f"{plain}-seed{seed}"


def _shard_rows(plan: Plan, wanted: int | None) -> int:
    rows = plan.shard_rows if wanted is None else whole(wanted, "shard_rows")
    if rows < shards.BLOCK or rows % shards.BLOCK:
        raise ParameterError("shard_rows", f"must be a multiple of {shards.BLOCK}, not {rows}")
    if rows > shards.MOST_ROWS:
        raise ParameterError("shard_rows", f"must be at most {shards.MOST_ROWS:,}, not {rows:,}")
    return rows


def _pieces(plan: Plan, rows: int) -> list[Piece]:
    files = sum(-(-split.n // rows) for split in plan.splits)
    if files > MOST_SHARDS:
        raise ParameterError(
            "shard_rows",
            f"gives {files:,} files of {rows:,} rows; the most is {MOST_SHARDS:,}: raise it",
        )
    return [
        Piece(split.name, number, start, min(start + rows, split.n))
        for split in plan.splits
        for number, start in enumerate(range(0, split.n, rows))
    ]


def _in_memory(recipe: Recipe, seed: int, plan: Plan, show: ShowProgress | None) -> Dataset:
    report = WorkCounter(sum(s.n for s in plan.splits), show)
    tables = {}
    for split in plan.splits:
        tables[split.name] = table_of(plan, split, 0, split.n)
        report.add(split.name, split.n)
    return Dataset(manifest_of_tables(recipe, seed, plan, tables), tables)


def _remove_dataset(folder: Path | ObjectPath) -> bool:
    """Remove the shards and accompanying files of a Taskloom dataset. Returns True if there was
    one.

    The manifest, which marks the dataset as complete, is removed first.
    """
    if _owner(folder) is None:
        return False
    splits = {p.parent.name for p in folder.glob("*/*.parquet")}
    for name in (dataset.MANIFEST, "README.md", *(f"{split}.jsonl" for split in splits)):
        (folder / name).unlink(missing_ok=True)
    _sweep(folder, frozenset())
    return True


def _refuse_other(folder: Path | ObjectPath, recipe: Recipe, seed: int, origin: str) -> None:
    """Refuse to mix two datasets in one folder, or to write among unrelated files."""
    owner = _owner(folder)
    if owner is None:
        strange = next((p for p in folder.rglob("*") if p.suffix != ".tmp" and p.is_file()), None)
        if strange is not None:
            raise DataError(
                f"{folder} is not empty ({strange.name}) and is not a Taskloom dataset; choose"
                " another folder"
            )
    elif owner[1:] != (origin, seed):
        raise DataError(
            f"{folder} already holds another dataset ({owner[0]}, seed {owner[2]}, recipe digest"
            f" {owner[1][:8]}…), not {recipe.name} with seed {seed} and recipe digest {origin[:8]}…"
            " (or its data files have changed); choose another folder, or replace it with force"
        )


def _owner(folder: Path | ObjectPath) -> tuple[str, str, int] | None:
    """Name, origin and seed of the dataset in a folder. If the manifest is damaged, they are read
    from the shards.
    """
    path = folder / dataset.MANIFEST
    trouble: DataError | None = None
    if path.is_file():
        try:
            manifest = dataset.read_manifest(path)
            origin = origin_of(manifest["recipe_digest"], manifest.get("sources", {}))
            return str(manifest["recipe"].get("name")), origin, manifest["seed"]
        except DataError as error:
            trouble = error
    found: list[Path | ObjectPath] = [*folder.glob("*/*.parquet")]
    for shard in sorted(found, key=str)[:LOOKED_AT]:
        stamp = shards.read_stamp(shard) if shard.is_file() else None
        if stamp is not None:
            return "unfinished", stamp.recipe, stamp.seed
    if trouble is not None:
        raise DataError(f"{trouble}, or remove {folder}") from trouble
    return None


def _kept_shards(
    folder: Path | ObjectPath, origin: str, seed: int, pieces: list[Piece]
) -> dict[str, shards.Stamp]:
    """Stamps of the shards that are already complete, by file."""
    if isinstance(folder, Path):
        stamps = [_kept(folder, origin, seed, piece) for piece in pieces]
        return {p.file: stamp for p, stamp in zip(pieces, stamps, strict=True) if stamp}
    present = set(folder.glob("*/*.parquet"))
    there = [piece for piece in pieces if folder / piece.file in present]
    with ThreadPoolExecutor(READERS) as pool:
        # Only the stamps are read: objects are written atomically, and downloading all rows would
        # take longer than generating them again.
        found = list(pool.map(lambda piece: shards.read_stamp(folder / piece.file), there))
    return {
        piece.file: stamp
        for piece, stamp in zip(there, found, strict=True)
        if stamp and stamp.same_place(origin, seed, piece.split, piece.start, piece.stop)
    }


def _kept(folder: Path, origin: str, seed: int, piece: Piece) -> shards.Stamp | None:
    path = folder / piece.file
    if not path.is_file():
        return None
    stamp = shards.read_stamp(path)
    if stamp is None or not stamp.same_place(origin, seed, piece.split, piece.start, piece.stop):
        return None
    return stamp if shards.intact(path, stamp) else None


def _sweep(folder: Path | ObjectPath, wanted: AbstractSet[str]) -> None:
    """Remove shards of a different shard size, and temporary files of interrupted writes."""
    for path in folder.glob("*/[0-9][0-9][0-9][0-9][0-9]*.parquet"):
        if f"{path.parent.name}/{path.name}" not in wanted and shards.read_stamp(path) is not None:
            path.unlink()
    if isinstance(folder, Path):
        sweep(folder)


def manifest_of_shards(
    recipe: Recipe,
    seed: int,
    plan: Plan,
    folder: Path | ObjectPath,
    pieces: list[Piece],
    stamps: dict[str, shards.Stamp],
) -> dict[str, Any]:
    """Build the manifest of a dataset from the stamps of its shards in a folder."""
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
            "shards": _listed(folder, mine),
        }
    return _head(recipe, seed, plan, entries)


def _listed(folder: Path | ObjectPath, pieces: list[Piece]) -> list[dict[str, Any]] | int:
    """List a split's files with their sizes; for an object store, the number of rows in each."""
    if isinstance(folder, ObjectPath):
        return max((piece.rows for piece in pieces), default=shards.BLOCK)
    return [
        {"file": p.file, "rows": p.rows, "bytes": (folder / p.file).stat().st_size} for p in pieces
    ]


def manifest_of_tables(
    recipe: Recipe, seed: int, plan: Plan, tables: Mapping[str, pa.Table]
) -> dict[str, Any]:
    """Build the manifest of an in-memory dataset. Its digest is that of the same dataset in a
    folder.
    """
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
        **({"facts": dict(plan.facts)} if plan.facts else {}),
        "sources": {s.name: s.digest for s in plan.sources},
        "versions": {
            "taskloom": taskloom.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
        },
        "splits": entries,
    }
