"""Who makes the shards of a dataset: this process, several of them, or tasks on a Ray cluster. All make the same bytes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
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
    if where.workers == 1 or not pieces:
        return _make_here(recipe, seed, plan, folder, pieces, report)
    return _make_together(recipe, seed, plan, folder, pieces, where.workers, report)


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


def _make_together(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], workers: int, report: RowCounter
) -> dict[str, shards.Stamp]:
    """Make shards in this process and in fresh ones beside it (spawned: a fork would copy Arrow's threads in an unknown state).

    This process works from the start, with the plan that it has; the others join when they have imported the suite and built
    the plan for themselves. So several processes are never slower than one, however short the work.
    """
    context = context_for(recipe.suite.module)
    team = Team(
        ProcessPoolExecutor(
            max(1, min(workers, len(pieces)) - 1),
            mp_context=context,
            initializer=_start_worker,
            initargs=(recipe.to_dict(), recipe.name, dict(recipe.files), seed, str(folder)),
        ),
        pieces,
        # Whether a script can be imported again shows only in a worker; it must not depend on how long the work takes.
        patient=recipe.suite.module == "__main__",
    )
    stamps: dict[str, shards.Stamp] = {}
    try:
        for _ in range(min(workers, len(pieces)) - 1):
            team.give()
        while len(stamps) < len(pieces):
            for piece, stamp in team.done():
                stamps[piece.file] = stamp
                report.add(piece)
            own = team.take()
            if own is not None:
                stamps[own.file] = _make_one(recipe, seed, plan, folder, own)
                report.add(own)
    except BrokenProcessPool as error:
        raise DataError(
            f"a worker process was killed (out of memory?); {report.done:,} of {report.total:,} rows are safe in {folder}: "
            "rerun the command to resume, with fewer workers if memory is short"
        ) from error
    finally:
        if team.leave():
            sweep(folder)  # what a worker was writing when it was ended
    return stamps


class Team:
    """Pieces that are waiting, and the processes beside this one that make them."""

    def __init__(self, pool: ProcessPoolExecutor, pieces: Sequence[Piece], patient: bool) -> None:
        """Form a team.

        Args:
            pool: The other processes.
            pieces: What is to be made.
            patient: Whether to wait for processes that are still starting, rather than to take their pieces from them.
        """
        # The longest first: one that is left for the end keeps everybody waiting.
        self._waiting = deque(sorted(pieces, key=lambda piece: piece.start - piece.stop))
        self._pool = pool
        self._running: dict[Future[shards.Stamp], Piece] = {}
        self._started = patient

    def give(self) -> None:
        """Give the next piece to a process, and another one whenever one is done."""
        with contextlib.suppress(IndexError):
            piece = self._waiting.popleft()
            try:
                future = self._pool.submit(_work, piece)
            except BaseException:
                self._waiting.appendleft(piece)
                raise
            self._running[future] = piece
            future.add_done_callback(self._give_again)

    def _give_again(self, _done: Future[shards.Stamp]) -> None:
        # In the pool's own thread, where an error would only be logged: `done` raises that of the piece that broke the pool.
        with contextlib.suppress(BrokenProcessPool, RuntimeError):
            self.give()

    def done(self) -> Iterator[tuple[Piece, shards.Stamp]]:
        """Yield the pieces that other processes have made since the last call."""
        for future in [future for future in list(self._running) if future.done()]:
            self._started = True
            yield self._running.pop(future), future.result()

    def take(self) -> Piece | None:
        """Take a piece for this process; where none is left wait for the others, and return None.

        Processes that have made nothing yet are still starting: their pieces are taken from them.
        """
        with contextlib.suppress(IndexError):
            return self._waiting.popleft()
        if self._started or not self._running:
            wait(list(self._running), return_when=FIRST_COMPLETED)
            return None
        return self._running.pop(next(iter(self._running)))

    def leave(self) -> bool:
        """End the other processes, and return whether one was at work: what it was writing lies beside its place."""
        self._waiting.clear()
        processes = list((self._pool._processes or {}).values())
        ended = all(future.done() for future in self._running) and self._started
        self._pool.shutdown(wait=ended, cancel_futures=True)
        if ended:
            return False
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        return True


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
