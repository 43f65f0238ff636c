"""Making a dataset: shards by one or many processes, resumable, the same bytes for every number of workers.

A shard is the unit of work. It is written beside its place and renamed, and says in its own metadata what it is, so a
second `make` after any interruption keeps every whole shard, remakes the damaged ones and ends with the same manifest.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import taskloom
from taskloom import dataset, shards
from taskloom.dataset import Dataset
from taskloom.errors import DataError, RecipeError, TaskloomError, nearest
from taskloom.plan import Plan, Split
from taskloom.recipe import Recipe, find_task, read

MOST_ROWS = 10**11
"""Beyond this even the list of files no longer fits a computer."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a `make` is: rows done of all rows, and the seconds it took."""

    split: str
    done: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Piece:
    """One shard to be made: rows start..stop of a split."""

    split: str
    number: int
    start: int
    stop: int

    @property
    def file(self) -> str:
        """Its path inside the dataset's folder."""
        return f"{self.split}/{self.number:05d}.parquet"


def make(
    recipe: str | Recipe,
    out: str | Path | None = None,
    *,
    seed: int | None = None,
    set: Iterable[str] = (),
    workers: int = 1,
    shard_rows: int | None = None,
    jsonl: bool = False,
    engine: str = "local",
    address: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Dataset:
    """Make a dataset: into a folder, or in memory where `out` is None.

    Args:
        recipe: A recipe, its name (`ctl/A`) or its file.
        out: The folder of the dataset. Whole shards that lie there from an earlier, interrupted call are kept.
        seed: The seed of the samples; the recipe's own by default.
        set: Overrides such as `max_length=8`, as on the command line.
        workers: Processes; the result does not depend on it.
        shard_rows: Rows per file, a multiple of 1,000; the result's digest does not depend on it.
        jsonl: Also write one JSONL file per split.
        engine: `local` processes, or tasks on a `ray` cluster whose nodes all see the folder.
        address: Of the Ray cluster; one is started on this machine by default.
        progress: Called after each shard.
    """
    if engine not in ("local", "ray"):
        raise TaskloomError(f"no engine is called '{engine}'; {nearest(engine, ('local', 'ray'))}")
    if isinstance(set, str):
        raise RecipeError(f"set takes a list of changes: set=[{set!r}]")
    if isinstance(recipe, str):
        recipe = read(recipe, set)
    elif tuple(set):
        raise RecipeError("overrides go with a recipe's name, not with a checked recipe")
    seed = recipe.seed if seed is None else seed
    plan = recipe.plan(seed)
    if workers < 1:
        raise TaskloomError(f"--workers must be at least 1, not {workers}")
    _check_splits(plan)
    pieces = list(_pieces(plan, _shard_rows(plan, shard_rows)))
    if out is None:
        return _in_memory(recipe, seed, plan)
    folder = Path(out)
    with _alone(folder):
        return _make_into(folder, recipe, seed, plan, pieces, _Where(workers, engine, address), jsonl, progress)


@dataclass(frozen=True, slots=True)
class _Where:
    """Who makes the shards."""

    workers: int
    engine: str
    address: str | None


def _make_into(
    folder: Path,
    recipe: Recipe,
    seed: int,
    plan: Plan,
    pieces: list[Piece],
    where: _Where,
    jsonl: bool,
    progress: Callable[[Progress], None] | None,
) -> Dataset:
    origin = _origin(recipe.digest, {s.name: s.digest for s in plan.sources})
    _refuse_other(folder, recipe, seed, origin)
    report = _Report(sum(s.n for s in plan.splits), progress)
    kept = {p.file: stamp for p in pieces if (stamp := _kept(folder, origin, seed, p)) is not None}
    for piece in pieces:
        if piece.file in kept:
            report.add(piece)
    missing = [p for p in pieces if p.file not in kept]
    if where.engine == "ray":
        made = _make_by_ray(recipe, seed, folder, missing, where, report)
    elif where.workers == 1:
        made = _make_here(recipe, seed, plan, folder, missing, report)
    else:
        made = _make_apart(recipe, seed, folder, missing, where.workers, report)
    manifest = _manifest(recipe, seed, plan, folder, pieces, kept | made)
    if jsonl:
        _write_jsonl(folder, manifest)
    _write_text(folder / "README.md", _card(manifest))
    _write_text(folder / dataset.MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    _sweep(folder, {p.file for p in pieces})
    return dataset.load(folder)


def _check_splits(plan: Plan) -> None:
    """Split names become folders, and names in other tools."""
    seen: dict[str, str] = {}
    for split in plan.splits:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", split.name):
            raise RecipeError(f"splits: {split.name!r} cannot name a split; use letters, digits, '-' and '_'")
        other = seen.setdefault(split.name.replace("-", "_").casefold(), split.name)
        if other != split.name:
            raise RecipeError(f"splits: '{other}' and '{split.name}' are the same name in other tools; rename one")
    rows = sum(split.n for split in plan.splits)
    if rows > MOST_ROWS:
        raise RecipeError(
            f"splits: {rows:,} examples are more than the {MOST_ROWS:,} that one dataset may hold; make several"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One `make` at a time in a folder: a second one waits, and then finds everything done, or refuses to mix."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; -o names a folder")
    try:
        import fcntl
    except ImportError:  # Windows: folders cannot be locked there
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"cannot make the folder {folder}: {error.strerror}; choose another with -o") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def default_folder(recipe: Recipe, seed: int) -> Path:
    """Where a dataset goes when nobody says: data/RECIPE-seedN."""
    path = Path(recipe.name.partition("::")[0])
    name = path.stem if path.suffix in (".py", ".yaml", ".yml") else recipe.name
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-")
    return Path("data") / f"{plain}-seed{seed}"


class _Report:
    """Counts rows and passes them on."""

    def __init__(self, total: int, progress: Callable[[Progress], None] | None) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.progress = progress

    def add(self, piece: Piece) -> None:
        self.done += piece.stop - piece.start
        if self.progress:
            self.progress(Progress(piece.split, self.done, self.total, time.monotonic() - self.start))


def _shard_rows(plan: Plan, asked: int | None) -> int:
    rows = asked if asked is not None else plan.shard_rows
    if rows < shards.BLOCK or rows % shards.BLOCK:
        raise TaskloomError(f"--shard-rows must be a multiple of {shards.BLOCK}, not {rows}")
    return rows


def _pieces(plan: Plan, rows: int) -> Iterator[Piece]:
    for split in plan.splits:
        for number, start in enumerate(range(0, split.n, rows)):
            yield Piece(split.name, number, start, min(start + rows, split.n))


def _table(plan: Plan, split: Split, start: int, stop: int) -> pa.Table:
    table = shards.to_table(split.rows(start, stop), start, plan.traits)
    if table.num_rows != stop - start:
        raise DataError(f"split '{split.name}' gave {table.num_rows} rows for {start}..{stop}: a fault of its suite")
    return table


def _in_memory(recipe: Recipe, seed: int, plan: Plan) -> Dataset:
    tables = {s.name: _table(plan, s, 0, s.n) for s in plan.splits}
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
    return Dataset(_head(recipe, seed, plan, entries), tables)


def _make_one(recipe: Recipe, seed: int, plan: Plan, folder: Path, piece: Piece) -> shards.Stamp:
    table = _table(plan, plan.split(piece.split), piece.start, piece.stop)
    origin = _origin(recipe.digest, {s.name: s.digest for s in plan.sources})
    return shards.write(folder / piece.file, table, origin, seed, piece.split, piece.start)


def _make_here(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], report: _Report
) -> dict[str, shards.Stamp]:
    made = {}
    for piece in pieces:
        made[piece.file] = _make_one(recipe, seed, plan, folder, piece)
        report.add(piece)
    return made


_worker: tuple[Recipe, int, Plan, Path] | None = None


def _start_worker(recipe: dict[str, Any], name: str, seed: int, folder: str) -> None:
    """Rebuild the plan in a fresh process. Ctrl-C is the parent's to handle."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    find_task(name)
    rebuilt = Recipe.from_dict(recipe)
    _worker = (rebuilt, seed, rebuilt.plan(seed), Path(folder))


def _end_with_parent() -> None:
    """A worker holds both ends of its queue, so nothing else tells it that its parent was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(piece: Piece) -> shards.Stamp:
    assert _worker is not None
    recipe, seed, plan, folder = _worker
    return _make_one(recipe, seed, plan, folder, piece)


def _make_apart(
    recipe: Recipe, seed: int, folder: Path, pieces: list[Piece], workers: int, report: _Report
) -> dict[str, shards.Stamp]:
    """Shards by several fresh processes (spawned: a fork would copy Arrow's threads in an unknown state)."""
    made: dict[str, shards.Stamp] = {}
    if not pieces:
        return made
    pool = ProcessPoolExecutor(
        min(workers, len(pieces)),
        mp_context=get_context("spawn"),
        initializer=_start_worker,
        initargs=(recipe.to_dict(), recipe.name, seed, str(folder)),
    )
    try:
        waiting: dict[Future[shards.Stamp], Piece] = {pool.submit(_work, piece): piece for piece in pieces}
        for future in as_completed(waiting):
            made[waiting[future].file] = future.result()
            report.add(waiting[future])
    except BrokenProcessPool as error:
        raise DataError(
            f"a worker process was killed (out of memory?); {report.done:,} of {report.total:,} rows are safe in {folder}: "
            "run the same command again to go on, with fewer --workers if memory is short"
        ) from error
    finally:
        # A worker may be deep in a long shard: what it has written is beside its place and is swept away below.
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        if len(made) < len(pieces):
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
            shards.sweep(folder)
        else:
            pool.shutdown(wait=True)
    return made


@lru_cache(maxsize=2)
def _planned(recipe: str, name: str, seed: int) -> tuple[Recipe, Plan]:
    """The plan in a process that makes many shards of one dataset."""
    find_task(name)
    rebuilt = Recipe.from_dict(json.loads(recipe))
    return rebuilt, rebuilt.plan(seed)


def _make_by_ray(
    recipe: Recipe, seed: int, folder: Path, pieces: list[Piece], where: _Where, report: _Report
) -> dict[str, shards.Stamp]:
    """Shards by tasks on a Ray cluster; every node writes into the folder, so all of them must see it."""
    if not pieces:
        return {}
    from taskloom.cluster import Ray

    said, name, there = json.dumps(recipe.to_dict()), recipe.name, str(folder.resolve())

    def work(piece: Piece) -> shards.Stamp:
        rebuilt, plan = _planned(said, name, seed)
        return _make_one(rebuilt, seed, plan, Path(there), piece)

    cluster = Ray(where.address, where.workers if where.workers > 1 else None)
    made = {}
    try:
        for piece, stamp in cluster.spread(work, pieces):
            if not (folder / piece.file).is_file():
                raise DataError(
                    f"a Ray node wrote {piece.file} where {folder} is another folder; put it where all nodes see it"
                )
            made[piece.file] = stamp
            report.add(piece)
    finally:
        cluster.leave()
    return made


def _origin(recipe: str, sources: Mapping[str, str]) -> str:
    """What shards are stamped with: the recipe's digest, and what its outside resources held when they were made."""
    if not sources:
        return recipe
    return blake2b(json.dumps([recipe, dict(sources)], sort_keys=True).encode(), digest_size=16).hexdigest()


def _refuse_other(folder: Path, recipe: Recipe, seed: int, origin: str) -> None:
    """Never mix two datasets in one folder, and never write among somebody's own files."""
    found = _owner(folder)
    if found is None:
        strange = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".tmp"]
        if strange:
            raise DataError(
                f"{folder} is not empty ({strange[0].name}) and holds no dataset of ours; choose another folder with -o"
            )
    elif found[1:] != (origin, seed):
        raise DataError(
            f"{folder} already holds another dataset ({found[0]}, seed {found[2]}, digest {found[1][:8]}…), not {recipe.name} with "
            f"seed {seed} and digest {origin[:8]}… (or its data files have changed); choose another folder with -o, or remove it"
        )


def _owner(folder: Path) -> tuple[str, str, int] | None:
    """Name, origin and seed of the dataset in a folder; a damaged manifest is passed over where shards still tell."""
    path = folder / dataset.MANIFEST
    trouble: DataError | None = None
    if path.is_file():
        try:
            manifest = dataset.read_manifest(path)
            origin = _origin(manifest["recipe_digest"], manifest.get("sources", {}))
            return str(manifest["recipe"].get("name")), origin, manifest["seed"]
        except DataError as error:
            trouble = error
    for shard in sorted(folder.glob("*/*.parquet")):
        stamp = shards.read_stamp(shard) if shard.is_file() else None
        if stamp is not None:
            return f"recipe {stamp.recipe[:8]}…", stamp.recipe, stamp.seed
    if trouble is not None:
        raise DataError(f"{trouble}, or remove {folder}") from trouble
    return None


def _kept(folder: Path, origin: str, seed: int, piece: Piece) -> shards.Stamp | None:
    path = folder / piece.file
    if not path.is_file():
        return None
    stamp = shards.read_stamp(path)
    if stamp is None or not stamp.same_place(origin, seed, piece.split, piece.start, piece.stop):
        return None
    return stamp if shards.intact(path, stamp) else None


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


def _manifest(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], stamps: dict[str, shards.Stamp]
) -> dict[str, Any]:
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


def _write_jsonl(folder: Path, manifest: dict[str, Any]) -> None:
    for name, entry in manifest["splits"].items():
        with (
            shards.atomic(folder / f"{name}.jsonl") as beside,
            beside.open("w", encoding="utf-8", newline="\n") as file,
        ):
            for shard in entry["shards"]:
                for batch in shards.read(folder / shard["file"]).to_batches(max_chunksize=4096):
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def _write_text(path: Path, text: str) -> None:
    with shards.atomic(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _card(manifest: dict[str, Any]) -> str:
    """A dataset card: its head makes `datasets.load_dataset(FOLDER)` find the splits; the rest is for people."""
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for name, entry in manifest["splits"].items():
        if entry["n"]:
            # Hugging Face split names are identifiers, and 'all' is a reserved one.
            lines += [f"  - split: {'any' if name == 'all' else name.replace('-', '_')}", f"    path: {name}/*.parquet"]
    name, seed = manifest["recipe"]["name"], manifest["seed"]
    lines += ["---", "", f"# {name}, seed {seed}", "", manifest["recipe"].get("describe", ""), ""]
    lines += ["| split | examples | role | what |", "| --- | --- | --- | --- |"]
    lines += [f"| {n} | {e['n']:,} | {e['role']} | {e['describe']} |" for n, e in manifest["splits"].items()]
    lines += [
        "",
        f"Content digest `{manifest['digest']}`. `manifest.json` holds the full recipe; made by Taskloom.",
        "",
    ]
    return "\n".join(lines)


def _sweep(folder: Path, wanted: set[str]) -> None:
    """Remove shards of ours that a former shard size left behind, and what an interrupted write left beside its place."""
    for path in folder.glob("*/[0-9][0-9][0-9][0-9][0-9].parquet"):
        if f"{path.parent.name}/{path.name}" not in wanted and shards.read_stamp(path) is not None:
            path.unlink()
    shards.sweep(folder)
