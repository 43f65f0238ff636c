"""Execution of `make`: in this process, in several processes, or as tasks on a Ray cluster. All of
them make the same bytes.

Worker processes never run the caller's script again, so `make` with several workers needs no
`__main__` guard. A forked worker inherits the plan and starts in milliseconds; a fresh one must
import the suite and build the plan.

Ray is imported only when it is used. This module connects to a cluster or starts one, for `make
--engine ray` and for the Ray engine of experiments.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext, SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pyarrow as pa

from taskloom.core import shards
from taskloom.core.child_process import ChildObject, end_with_parent
from taskloom.core.errors import DataError, MissingExtra, ParameterError, TaskloomError
from taskloom.core.files import sweep
from taskloom.core.object_store import ObjectPath
from taskloom.core.plan import Plan, Split
from taskloom.core.progress import WorkCounter
from taskloom.data.dataset import origin_of, shard_file
from taskloom.recipe import Recipe
from taskloom.recipe.recipe import load_definitions

FORKABLE_THREADS = ("rich.live",)
"""Modules of threads that may run during a fork. The one that redraws the progress bar holds no
lock that a worker takes.
"""

UNFORKABLE = ("cupy", "grpc", "jax", "polars", "ray", "tensorflow", "torch")
"""Libraries whose native threads or GPU contexts do not survive a fork."""

MOST_WORKERS = 10_000
"""Maximum number of worker processes: more than any machine has cores."""

_GUARD = re.compile(r"^if\s+__name__\b", re.MULTILINE)
_swap = threading.Lock()


class MainlessProcess(SpawnProcess):
    """A spawned process that does not import the main module of its parent."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name that multiprocessing calls
        # When a child starts, multiprocessing reads from the main module what the child must
        # import. Nothing that is sent to the child is defined there.
        with _swap:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return SpawnProcess._Popen(process_obj)
            finally:
                sys.modules["__main__"] = main


class MainlessContext(SpawnContext):
    """Multiprocessing context that gives executors such processes."""

    Process = MainlessProcess


def context_for(module: str) -> SpawnContext:
    """Context for workers of a suite or task from this module. Raises an error if workers would run
    a script again.

    A task defined in the running script is available to a worker only if the worker imports that
    script, which is safe only if the script's own actions are under a `__main__` guard.
    """
    if module != "__main__":
        return MainlessContext()
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or not _GUARD.search(Path(file).read_text(encoding="utf-8", errors="replace")):
        raise ParameterError(
            "workers",
            "must be 1 for a task that the running script defines: others would run the script"
            " again; move the task to a file of its own, or the script's actions under if __name__"
            " == '__main__'",
        )
    return SpawnContext()


def can_fork() -> bool:
    """True if this process can be forked safely: on Linux, from its main thread, without other
    threads that might hold a lock.

    Threads of Arrow and of BLAS are allowed, because both handle forks. Native threads of other
    libraries are not detected, so a process that has imported one of them is not forked.
    """
    if (
        sys.platform != "linux"
        or any(name in sys.modules for name in UNFORKABLE)
        or threading.current_thread() is not threading.main_thread()
    ):
        return False
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    ]
    return all(type(thread).__module__ in FORKABLE_THREADS for thread in others)


@contextmanager
def forking() -> Iterator[None]:
    """Silence Python's warning about forks with native threads, which `can_fork` has already
    checked.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*use of fork\\(\\).*", DeprecationWarning)
        yield


def refuse_while_importing_main() -> None:
    """Raise an error in a worker that is importing the caller's script, because its parent is
    already executing the same call.
    """
    if getattr(current_process(), "_inheriting", False):
        raise ParameterError(
            "workers",
            "must be 1 if a script calls make at its top level: move the call under"
            " if __name__ == '__main__'",
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """One shard to make: rows start..stop of a split."""

    split: str
    number: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    @property
    def file(self) -> str:
        """Path inside the dataset's folder."""
        return shard_file(self.split, self.number)


@dataclass(frozen=True, slots=True)
class Where:
    """Settings for making shards: engine, workers and address."""

    workers: int
    engine: str
    address: str | None


def make_shards(
    recipe: Recipe,
    seed: int,
    plan: Plan,
    folder: Path | ObjectPath,
    pieces: list[Piece],
    where: Where,
    report: WorkCounter,
) -> dict[str, shards.Stamp]:
    """Make shards in a folder and return their stamps by file."""
    if where.engine == "ray":
        return _make_by_ray(recipe, seed, folder, pieces, where, report)
    if where.workers == 1 or len(pieces) < 2:
        return _make_here(recipe, seed, plan, folder, pieces, report)
    return _make_in_processes(recipe, seed, plan, folder, pieces, where.workers, report)


def table_of(plan: Plan, split: Split, start: int, stop: int) -> pa.Table:
    """Generate rows start..stop of a split as a table."""
    table = shards.to_table(split.rows(start, stop), start, plan.traits)
    if table.num_rows != stop - start:
        raise DataError(
            f"split '{split.name}' gave {table.num_rows} rows for {start}..{stop}: a bug in the"
            " suite"
        )
    return table


def _make_one(
    recipe: Recipe, seed: int, plan: Plan, folder: Path | ObjectPath, piece: Piece
) -> shards.Stamp:
    table = table_of(plan, plan.split(piece.split), piece.start, piece.stop)
    origin = origin_of(recipe.digest, {s.name: s.digest for s in plan.sources})
    return shards.write(folder / piece.file, table, origin, seed, piece.split, piece.start)


def _make_here(
    recipe: Recipe,
    seed: int,
    plan: Plan,
    folder: Path | ObjectPath,
    pieces: list[Piece],
    report: WorkCounter,
) -> dict[str, shards.Stamp]:
    stamps = {}
    for piece in pieces:
        stamps[piece.file] = _make_one(recipe, seed, plan, folder, piece)
        report.add(piece.split, piece.rows)
    return stamps


_worker: tuple[Recipe, int, Plan, Path | ObjectPath] | None = None
"""State of a worker process: recipe, seed, plan and folder. Set once, when it starts."""


def _join_forked(
    stop: Connection, recipe: Recipe, seed: int, plan: Plan, folder: Path | ObjectPath
) -> None:
    """Initialise a forked worker with the inherited plan. It must not write to the parent's
    streams.
    """
    global _worker
    _leave_signals_to_parent(stop)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A process flushes its streams on exit, and another thread may have held their locks at the
    # fork.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until this process ends
    _worker = (recipe, seed, plan, folder)


def _start_fresh(
    stop: Connection,
    recipe: dict[str, Any],
    name: str,
    files: dict[str, str],
    seed: int,
    folder: Path | ObjectPath,
) -> None:
    """Rebuild the plan in a fresh process."""
    global _worker
    _leave_signals_to_parent(stop)
    load_definitions(name)
    rebuilt = Recipe.from_dict(recipe, files=files)
    _worker = (rebuilt, seed, rebuilt.plan(seed), folder)


def _leave_signals_to_parent(stop: Connection) -> None:
    """Let the parent handle Ctrl-C. This process ends when the parent ends or tells it to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(stop)


def _work(piece: Piece) -> shards.Stamp:
    assert _worker is not None
    recipe, seed, plan, folder = _worker
    return _make_one(recipe, seed, plan, folder, piece)


def _make_in_processes(
    recipe: Recipe,
    seed: int,
    plan: Plan,
    folder: Path | ObjectPath,
    pieces: list[Piece],
    workers: int,
    report: WorkCounter,
) -> dict[str, shards.Stamp]:
    """Make shards in several processes.

    Forked processes inherit the plan. Fresh ones, used if a fork would not be safe, need half a
    second to import a suite, and longer to build some plans.
    """
    own_script = recipe.suite.module == "__main__"
    context: BaseContext = context_for(recipe.suite.module)
    stopped, stop = context.Pipe(duplex=False)
    start: Callable[..., None]
    arguments: tuple[Any, ...]
    # The threads of an object store's client do not survive a fork.
    if can_fork() and not own_script and isinstance(folder, Path):
        context = get_context("fork")
        start, arguments = _join_forked, (recipe, seed, plan, folder)
    else:
        start, arguments = (
            _start_fresh,
            (recipe.to_dict(), recipe.name, dict(recipe.files), seed, folder),
        )
    pool = ProcessPoolExecutor(min(workers, len(pieces)), context, start, (stopped, *arguments))
    stamps: dict[str, shards.Stamp] = {}
    try:
        with forking():
            # Longest pieces first, because one that is started last would keep all other workers
            # waiting.
            by_length = sorted(pieces, key=lambda piece: -piece.rows)
            futures = {pool.submit(_work, piece): piece for piece in by_length}
        for future in as_completed(futures):
            piece = futures[future]
            stamps[piece.file] = future.result()
            report.add(piece.split, piece.rows)
    except BrokenProcessPool as error:
        raise DataError(
            f"a worker process was killed (out of memory?); {report.done:,} of {report.total:,}"
            f" rows are safe in {folder}: rerun the command to resume, with fewer workers if memory"
            " is short"
        ) from error
    finally:
        if len(stamps) < len(pieces):
            stop.send(None)  # shards in progress are not needed
        pool.shutdown(cancel_futures=True)
        stop.close()
        stopped.close()
        if len(stamps) < len(pieces) and isinstance(folder, Path):
            sweep(folder)  # files that workers had not finished
    return stamps


@lru_cache(maxsize=2)
def planned(recipe: str, name: str, files: str, seed: int) -> tuple[Recipe, Plan]:
    """Return the plan in a process that makes many shards of one dataset."""
    load_definitions(name)
    rebuilt = Recipe.from_dict(json.loads(recipe), files=json.loads(files))
    return rebuilt, rebuilt.plan(seed)


def _make_by_ray(
    recipe: Recipe,
    seed: int,
    folder: Path | ObjectPath,
    pieces: list[Piece],
    where: Where,
    report: WorkCounter,
) -> dict[str, shards.Stamp]:
    """Make shards as tasks on a Ray cluster. Every node writes to the folder, so it must be visible
    to all of them: a shared folder or an object store.
    """
    if not pieces:
        return {}
    written = (json.dumps(recipe.to_dict()), recipe.name, json.dumps(dict(recipe.files)))
    cpus = where.workers if where.workers > 1 else None
    address = cluster_address(where.address)
    arguments = (written, seed, folder.resolve(), pieces, address, cpus)
    maker = ChildObject(RAY_DRIVER, RAY_REMEDY, _RayShards, *arguments)
    stamps = {}
    try:
        for _ in pieces:
            piece, stamp = maker.call("next")
            if isinstance(folder, Path) and not (folder / piece.file).is_file():
                raise DataError(
                    f"a Ray node wrote {piece.file} to a folder {folder} of its own; put it where"
                    " all nodes see it"
                )
            stamps[piece.file] = stamp
            report.add(piece.split, piece.rows)
    finally:
        maker.close(RAY_ENDING)
    return stamps


class _RayShards:
    """Shards that are made on a Ray cluster.

    Args:
        written: JSON of the recipe, its name, and JSON of its files.
        seed: Seed of the dataset.
        folder: Folder of the dataset.
        pieces: Shards to make.
        address: Address of the cluster. None starts one on this machine.
        cpus: Cores of a cluster that is started.
    """

    def __init__(
        self,
        written: tuple[str, str, str],
        seed: int,
        folder: Path | ObjectPath,
        pieces: list[Piece],
        address: str | None,
        cpus: int | None,
    ) -> None:
        def work(piece: Piece) -> shards.Stamp:
            rebuilt, plan = planned(*written, seed)
            return _make_one(rebuilt, seed, plan, folder, piece)

        self.cluster = Ray(address, cpus)
        self.made = self.cluster.spread(work, pieces)

    def next(self) -> tuple[Piece, shards.Stamp]:
        """Next shard that is ready."""
        return next(self.made)

    def close(self) -> None:
        """Leave the cluster."""
        self.cluster.leave()


T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 3
"""Maximum attempts at a call whose worker or node dies. One death may be chance; three are blamed
on the call.
"""

ANSWER_WITHIN = 10.0
"""Seconds in which a cluster's head node must answer. Ray itself would try for minutes."""


REFRESH = 5.0
"""Seconds between queries of the cluster's size, which the head node answers slowly."""


RAY_DRIVER = "the driver of Ray"
"""Name of the process that is connected to a Ray cluster."""

RAY_REMEDY = (
    "Ray ends it if the cluster's head or this machine's raylet dies; finished work is kept: rerun"
    " the command to resume, after starting the cluster again if you started it yourself"
)
"""Remedy to suggest if that process has ended."""

RAY_ENDING = 15.0
"""Seconds for a process that is connected to Ray to stop its cluster and end."""


def cluster_address(address: str | None) -> str | None:
    """Address of the cluster that this process is connected to, or else the one that was given."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return address
    found: str = ray.get_runtime_context().gcs_address
    return found


class Ray:
    """A connection to a Ray cluster. Closing it stops the cluster only if it was started here.

    Use it in a child process (`ChildObject`): Ray ends the whole process if a part of the cluster
    dies.

    Args:
        address: `HOST:PORT` of a cluster's head, or `auto` for the one on this machine; None starts
            one on this machine.
        cpus: Cores of a cluster that is started. Default: all.
    """

    def __init__(self, address: str | None = None, cpus: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("the engine 'ray'", "ray", "ray") from None
        self.ray: Any = ray
        self._known: tuple[float, dict[str, float]] | None = None
        self.joined = not ray.is_initialized()
        if not self.joined:
            return
        try:
            if address:
                _reach(address)
                ray.init(address=address, log_to_driver=False)
            else:
                ray.init(
                    address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False
                )
        except Exception as error:  # Ray raises it if a process dies on start
            ray.shutdown()
            if "InvalidAuthToken" in f"{error} {error.__cause__}":
                raise TaskloomError(
                    f"the Ray cluster at '{address}' refuses the token; set RAY_AUTH_MODE=token and"
                    " RAY_AUTH_TOKEN in this shell as for 'ray start'"
                ) from error
            first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            where = (
                f"no Ray cluster answers at '{address}'" if address else "Ray does not start here"
            )
            raise TaskloomError(
                f"{where} ({first}); start a cluster with 'ray start --head' and give its address,"
                " or none"
            ) from error

    @property
    def cores(self) -> int:
        """Total CPU cores of the cluster, which may grow and shrink."""
        return max(1, int(self._resources().get("CPU", 1)))

    @property
    def gpus(self) -> float:
        """Total GPUs of the cluster."""
        return float(self._resources().get("GPU", 0))

    def _resources(self) -> dict[str, float]:
        """Resources of the cluster, at most a few seconds old, because asking the head node takes
        longer than the rest of a job.
        """
        now = time.monotonic()
        if self._known is None or now - self._known[0] > REFRESH:
            self._known = (now, dict(self.ray.cluster_resources()))
        return self._known[1]

    def leave(self) -> None:
        """Close the connection, and stop the cluster if it was started here."""
        if self.joined:
            self.ray.shutdown()

    def spread(
        self, function: Callable[[T], R], items: Iterable[T], at_once: int | None = None
    ) -> Iterator[tuple[T, R]]:
        """Call a function on every item somewhere in the cluster, and yield results as they arrive.
        Calls on a node that dies are moved to another one.

        Args:
            function: Function of one item. Its exceptions are raised here.
            items: Items to process.
            at_once: Maximum concurrent calls. Default: twice the number of cores.
        """
        remote = self.ray.remote(function)
        waiting = deque((item, 1) for item in items)
        running: dict[Any, tuple[T, int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < (at_once or 2 * self.cores):
                    item, attempt = waiting.popleft()
                    running[remote.options(max_retries=0).remote(item)] = (item, attempt)
                ready, _ = self.ray.wait(list(running), timeout=1.0)
                for reference in ready:
                    item, attempt = running.pop(reference)
                    try:
                        yield item, self.ray.get(reference)
                    except self.ray.exceptions.RayTaskError as error:
                        raise error.cause if isinstance(error.cause, Exception) else error from None
                    except self.ray.exceptions.RayError as error:
                        if attempt == ATTEMPTS:
                            raise TaskloomError(
                                f"a Ray worker died {attempt} times on one piece of work: {error}"
                            ) from error
                        waiting.append((item, attempt + 1))
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)


def _reach(address: str) -> None:
    """Check that an address accepts connections, because Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # Ray resolves 'auto' and similar names
    if not port.isdigit():
        raise ValueError("an address is HOST:PORT")
    socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN).close()
