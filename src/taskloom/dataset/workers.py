"""Who makes the shards of a dataset: this process, several of them, or tasks on a Ray cluster. All make the same bytes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.dataset import shards
from taskloom.dataset.folder import origin_of, shard_file
from taskloom.dataset.processes import can_fork, context_for, forking
from taskloom.errors import DataError
from taskloom.files import sweep
from taskloom.plan import Plan, Split
from taskloom.recipe import Recipe
from taskloom.recipe.finder import load_definitions

FORK_PAYS = 0.3
"""Seconds of work from which a forked process helps: it takes some 20 ms to start and to end."""

FRESH_PAYS = 2.0
"""Seconds of work from which a fresh process helps: it needs half a second to import a suite, and longer to build some plans."""

PROBED = 50
"""Rows that are made for the estimate and dropped: 0.03 seconds of the slowest suite."""


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
        return shard_file(self.split, self.number)


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


def make_shards(
    recipe: Recipe, seed: int, plan: Plan, folder: Path, pieces: list[Piece], where: Where, report: RowCounter
) -> dict[str, shards.Stamp]:
    """Make shards into a folder and return their stamps by file."""
    if where.engine == "ray":
        return _make_by_ray(recipe, seed, folder, pieces, where, report)
    if where.workers == 1 or len(pieces) < 2:
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


def _join_forked(recipe: Recipe, seed: int, plan: Plan, folder: Path) -> None:
    """Take over the plan in a forked process, which must neither write where the caller does nor act on its signals."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # At its end a process flushes its streams, whose locks another thread may have held when it was copied.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until this process ends
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = (recipe, seed, plan, folder)


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
    """Make shards in this process and in others beside it, where the work is long enough for them.

    Forked processes have the plan, and what the suite prepared for its first rows. Fresh ones join when they have imported the
    suite and built the plan for themselves; this process works from the start.
    """
    own_script = recipe.suite.module == "__main__"
    context = context_for(recipe.suite.module)
    forked = not own_script and can_fork()
    # Whether a script can be imported again shows only in a worker; it must not depend on how long the work takes.
    if not own_script and _estimate(plan, pieces) < (FORK_PAYS if forked else FRESH_PAYS):
        return _make_here(recipe, seed, plan, folder, pieces, report)
    others = min(workers, len(pieces)) - 1
    if forked:
        pool = ProcessPoolExecutor(others, get_context("fork"), _join_forked, (recipe, seed, plan, folder))
    else:
        arguments = (recipe.to_dict(), recipe.name, dict(recipe.files), seed, str(folder))
        pool = ProcessPoolExecutor(others, context, _start_worker, arguments)
    team = Team(pool, pieces, patient=own_script or forked)
    return _make_as_team(recipe, seed, plan, folder, pieces, team, others, report)


def _estimate(plan: Plan, pieces: Sequence[Piece]) -> float:
    """Estimate the seconds that one process takes, by some rows of the largest piece, after one with which a suite gets ready."""
    largest = max(pieces, key=lambda piece: piece.stop - piece.start)
    split = plan.split(largest.split)
    table_of(plan, split, largest.start, largest.start + 1)
    n = min(PROBED, largest.stop - largest.start)
    began = time.perf_counter()
    table_of(plan, split, largest.start, largest.start + n)
    return (time.perf_counter() - began) / n * sum(piece.stop - piece.start for piece in pieces)


def _make_as_team(
    recipe: Recipe,
    seed: int,
    plan: Plan,
    folder: Path,
    pieces: list[Piece],
    team: Team,
    others: int,
    report: RowCounter,
) -> dict[str, shards.Stamp]:
    stamps: dict[str, shards.Stamp] = {}
    try:
        with forking():
            for _ in range(others):
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


class Waiting:
    """Pieces in the order in which they are made; `first` and `last` raise an IndexError where none is left.

    Pieces of full size come before shorter ones, since one that is left for the end keeps everybody waiting. They lie side by side
    as their rows lie in their splits: neighbours share what a suite prepares for them, such as the table of a task, and what lies
    at the same height of another split as well. One process begins at one end, the others at the other.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        longest = max((piece.stop - piece.start for piece in pieces), default=0)
        ends: dict[str, int] = {}
        for piece in pieces:
            ends[piece.split] = max(piece.stop, ends.get(piece.split, 0))
        whole = [piece for piece in pieces if piece.stop - piece.start == longest]
        self._whole = deque(sorted(whole, key=lambda piece: piece.start / ends[piece.split]))
        rest = [piece for piece in pieces if piece.stop - piece.start < longest]
        self._rest = deque(sorted(rest, key=lambda piece: piece.start - piece.stop))

    def first(self) -> Piece:
        """Take the first piece."""
        with contextlib.suppress(IndexError):  # another thread may have taken what was there a moment ago
            return self._whole.popleft()
        return self._rest.popleft()

    def last(self) -> Piece:
        """Take the last piece of full size, or the longest of the others."""
        with contextlib.suppress(IndexError):
            return self._whole.pop()
        return self._rest.popleft()

    def put_back(self, piece: Piece) -> None:
        """Let a piece wait again."""
        self._rest.appendleft(piece)

    def clear(self) -> None:
        """Drop all pieces."""
        self._whole.clear()
        self._rest.clear()


class Team:
    """Pieces that are waiting, and the processes beside this one that make them."""

    def __init__(self, pool: ProcessPoolExecutor, pieces: Sequence[Piece], patient: bool) -> None:
        """Form a team.

        Args:
            pool: The other processes.
            pieces: What is to be made.
            patient: Whether to wait for processes that are still starting, rather than to take their pieces from them.
        """
        self._waiting = Waiting(pieces)
        self._pool = pool
        self._running: dict[Future[shards.Stamp], Piece] = {}
        self._started = patient

    def give(self) -> None:
        """Give the next piece to a process, and another one whenever one is done."""
        with contextlib.suppress(IndexError):
            piece = self._waiting.last()
            try:
                future = self._pool.submit(_work, piece)
            except BaseException:
                self._waiting.put_back(piece)
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
            return self._waiting.first()
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
