"""Who makes the shards of a dataset: this process, several of them, or tasks on a Ray cluster. All make the same bytes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.dataset import shards
from taskloom.dataset.processes import context_for
from taskloom.errors import DataError
from taskloom.files import json_digest, sweep
from taskloom.plan import Plan, Split
from taskloom.recipe import Recipe
from taskloom.recipe.finder import load_definitions


@dataclass(frozen=True, slots=True)
class MakeProgress:
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
        """Return its path inside the dataset's folder."""
        return f"{self.split}/{self.number:05d}.parquet"


class RowCounter:
    """Counts rows and passes them on."""

    def __init__(self, total: int, progress: Callable[[MakeProgress], None] | None) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.progress = progress

    def add(self, piece: Piece) -> None:
        """Count a shard that is there."""
        self.done += piece.stop - piece.start
        if self.progress:
            self.progress(MakeProgress(piece.split, self.done, self.total, time.monotonic() - self.start))


@dataclass(frozen=True, slots=True)
class Where:
    """Who makes the shards."""

    workers: int
    engine: str
    address: str | None


def origin_of(recipe: str, sources: Mapping[str, str]) -> str:
    """Return what shards are stamped with: the recipe's digest, and what its outside resources held when they were made."""
    if not sources:
        return recipe
    return json_digest([recipe, dict(sources)])


def make_shards(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], where: Where, report: RowCounter
) -> dict[str, shards.Stamp]:
    """Make shards into a folder and return their stamps by file."""
    if where.engine == "ray":
        return _make_by_ray(recipe, seed, folder, pieces, where, report)
    if where.workers == 1:
        return _make_here(recipe, seed, plan, folder, pieces, report)
    return _make_apart(recipe, seed, folder, pieces, where.workers, report)


def table_of(plan: Plan, split: Split, start: int, stop: int) -> pa.Table:
    """Return the rows start..stop of a split."""
    table = shards.to_table(split.rows(start, stop), start, plan.traits)
    if table.num_rows != stop - start:
        raise DataError(f"split '{split.name}' gave {table.num_rows} rows for {start}..{stop}: a bug in the suite")
    return table


def _make_one(recipe: Recipe, seed: int, plan: Plan, folder: Path, piece: Piece) -> shards.Stamp:
    table = table_of(plan, plan.split(piece.split), piece.start, piece.stop)
    origin = origin_of(recipe.digest, {s.name: s.digest for s in plan.sources})
    return shards.write(folder / piece.file, table, origin, seed, piece.split, piece.start)


def _make_here(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], report: RowCounter
) -> dict[str, shards.Stamp]:
    stamps = {}
    for piece in pieces:
        stamps[piece.file] = _make_one(recipe, seed, plan, folder, piece)
        report.add(piece)
    return stamps


_worker: tuple[Recipe, int, Plan, Path] | None = None


def _start_worker(recipe: dict[str, Any], name: str, files: dict[str, str], seed: int, folder: str) -> None:
    """Rebuild the plan in a fresh process. Ctrl-C is the parent's to handle."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_definitions(name)
    rebuilt = Recipe.from_dict(recipe, files=files)
    _worker = (rebuilt, seed, rebuilt.plan(seed), Path(folder))


def _end_with_parent() -> None:
    """Stop this worker when its parent is killed: it holds both ends of its queue, so nothing else would end it."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(piece: Piece) -> shards.Stamp:
    assert _worker is not None
    recipe, seed, plan, folder = _worker
    return _make_one(recipe, seed, plan, folder, piece)


def _make_apart(
    recipe: Recipe, seed: int, folder: Path, pieces: list[Piece], workers: int, report: RowCounter
) -> dict[str, shards.Stamp]:
    """Make shards in several fresh processes (spawned: a fork would copy Arrow's threads in an unknown state)."""
    stamps: dict[str, shards.Stamp] = {}
    if not pieces:
        return stamps
    context = context_for(recipe.suite.module)
    pool = ProcessPoolExecutor(
        min(workers, len(pieces)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(recipe.to_dict(), recipe.name, dict(recipe.files), seed, str(folder)),
    )
    try:
        waiting: dict[Future[shards.Stamp], Piece] = {pool.submit(_work, piece): piece for piece in pieces}
        for future in as_completed(waiting):
            stamps[waiting[future].file] = future.result()
            report.add(waiting[future])
    except BrokenProcessPool as error:
        raise DataError(
            f"a worker process was killed (out of memory?); {report.done:,} of {report.total:,} rows are safe in {folder}: "
            "rerun the command to resume, with fewer workers if memory is short"
        ) from error
    finally:
        # A worker may be deep in a long shard: what it has written is beside its place and is swept away below.
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        if len(stamps) < len(pieces):
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
            sweep(folder)
        else:
            pool.shutdown(wait=True)
    return stamps


@lru_cache(maxsize=2)
def _planned(recipe: str, name: str, files: str, seed: int) -> tuple[Recipe, Plan]:
    """Return the plan in a process that makes many shards of one dataset."""
    load_definitions(name)
    rebuilt = Recipe.from_dict(json.loads(recipe), files=json.loads(files))
    return rebuilt, rebuilt.plan(seed)


def _make_by_ray(
    recipe: Recipe, seed: int, folder: Path, pieces: list[Piece], where: Where, report: RowCounter
) -> dict[str, shards.Stamp]:
    """Make shards by tasks on a Ray cluster; every node writes into the folder, so all of them must see it."""
    if not pieces:
        return {}
    from taskloom.ray_cluster import Ray

    recipe_json, name, there = json.dumps(recipe.to_dict()), recipe.name, str(folder.resolve())
    files = json.dumps(dict(recipe.files))

    def work(piece: Piece) -> shards.Stamp:
        rebuilt, plan = _planned(recipe_json, name, files, seed)
        return _make_one(rebuilt, seed, plan, Path(there), piece)

    cluster = Ray(where.address, where.workers if where.workers > 1 else None)
    stamps = {}
    try:
        for piece, stamp in cluster.spread(work, pieces):
            if not (folder / piece.file).is_file():
                raise DataError(
                    f"a Ray node wrote {piece.file} where {folder} is another folder; put it where all nodes see it"
                )
            stamps[piece.file] = stamp
            report.add(piece)
    finally:
        cluster.leave()
    return stamps
