"""Engines run jobs in this process, in local processes, or as tasks on a Ray cluster. Every engine
writes the same bytes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from taskloom.core.child_process import (
    ChildObject,
    ChildProcess,
    ForkedProcess,
    end_with_parent,
    exit_reason,
)
from taskloom.core.errors import TaskloomError, nearest, whole
from taskloom.data.workers import (
    ATTEMPTS,
    MOST_WORKERS,
    RAY_DRIVER,
    RAY_ENDING,
    RAY_REMEDY,
    Ray,
    can_fork,
    cluster_address,
    forking,
)
from taskloom.experiments import files as run_files
from taskloom.experiments.execute.worker import Job, JobResult, job_folder, perform
from taskloom.experiments.store import Store

ENGINES = ("local", "ray")

QUICK = 0.5
"""Maximum seconds of a small job. Only workers with small jobs get one more job in advance, so that
no job waits behind a long one while other workers are idle.
"""

PATIENCE = 5.0
"""Seconds that a worker has to exit after its connection is closed."""


class Engine(Protocol):
    """Interface of engines for the driver."""

    @property
    def slots(self) -> int:
        """Number of jobs that can run at one time."""

    def room(self, job: Job) -> bool:
        """True if a job would start now, or as soon as a running one ends."""

    def submit(self, job: Job) -> None:
        """Submit a job."""

    def wait(self, seconds: float) -> list[JobResult]:
        """Wait for results, and return those since the last call."""

    def close(self) -> None:
        """Stop all running jobs at once."""


def start(
    name: str,
    *,
    workers: int | None = None,
    cpus: int = 1,
    gpus: float = 1.0,
    address: str | None = None,
) -> Engine:
    """Start an engine by name.

    Args:
        name: `local`, `ray`, or `here` for this process.
        workers: Processes of the local engine. Default: number of cores / `cpus`.
        cpus: Cores of one job.
        gpus: GPUs per job that needs one. Below 1, jobs share a GPU.
        address: Address of a Ray cluster. Default: start a local one.
    """
    if name == "local":
        return LocalEngine(workers, cpus, gpus)
    if name == "here":
        return HereEngine()
    if name == "ray":
        return RayEngine(address, workers)
    raise _unknown(name)


def check_name(name: str) -> None:
    """Raise an error for an unknown engine, even if there is nothing to run."""
    if name not in (*ENGINES, "here"):
        raise _unknown(name)


def _unknown(name: str) -> TaskloomError:
    return TaskloomError(f"no engine is called '{name}'; {nearest(str(name), ENGINES)}")


class HereEngine:
    """Runs each job in this process when it is submitted.

    For tasks, learners or scorers that are defined only in this process, in a notebook or in the
    running script.
    """

    slots = 1

    def __init__(self) -> None:
        self._results: list[JobResult] = []

    def room(self, job: Job) -> bool:
        """True if the last result has been collected."""
        return not self._results

    def submit(self, job: Job) -> None:
        """Run the job."""
        self._results.append(perform(job))

    def wait(self, seconds: float) -> list[JobResult]:
        """Return the results since the last call."""
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Nothing to do: there is no process to stop."""


@dataclass
class _Worker:
    process: ChildProcess | ForkedProcess
    connection: Connection
    gpu: str | None
    jobs: deque[Job] = field(default_factory=deque)
    ahead: int = 0


class LocalEngine:
    """Processes on this machine.

    A worker has one running job and, while jobs are small, a second one waiting in its pipe, so
    that they follow each other without a round trip. If a worker dies, its running job fails, with
    the signal and the end of its log as the reason. The waiting job goes to another worker. A
    `ProcessPoolExecutor` cannot be used, because one dead worker breaks the pool with all its jobs,
    and jobs cannot be sent to specific workers, such as those with a GPU.

    A worker is a `ChildProcess` that runs this module, so that a script may call `taskloom.run` at
    its top level. If forking is safe, it is a fork of this process, which saves 0.35 CPU-s of
    imports.

    Args:
        workers: Number of workers without a GPU. Default: as many as fit the cores.
        cpus: Cores, and therefore threads, of each worker.
        gpus: GPUs per job that needs one; with 0.5, two share one.
    """

    def __init__(self, workers: int | None = None, cpus: int = 1, gpus: float = 1.0) -> None:
        if workers is not None:
            workers = whole(workers, "workers", least=1, most=MOST_WORKERS)
        self.cpus = cpus
        self.places: list[str | None] = [None] * (workers or max(1, cores() // cpus))
        if gpus:
            per_gpu = max(1, int(1 / gpus)) if gpus < 1 else 1
            self.places += [gpu for gpu in visible_gpus() for _ in range(per_gpu)]
        self.slots = len(self.places)
        self.workers: list[_Worker] = []
        self.lost: deque[Job] = deque()  # jobs queued for a worker that died

    def room(self, job: Job) -> bool:
        """True if a worker of the right kind can take a job."""
        return not self.lost and self._choose(job) is not None

    def submit(self, job: Job) -> None:
        """Send the job to the worker with the least to do, or start a new one if there is room."""
        worker = self._choose(job)
        if worker is None:
            self.lost.append(job)
            return
        if isinstance(worker, str):
            worker = self._start(None if worker == "cpu" else worker)
        worker.jobs.append(job)
        with contextlib.suppress(OSError):  # it may have died, which `wait` notices and reports
            worker.connection.send(job)

    def wait(self, seconds: float) -> list[JobResult]:
        """Wait for results or for workers that die."""
        handles: dict[Any, _Worker] = {w.connection: w for w in self.workers}
        results: list[JobResult] = []
        for handle in wait(list(handles), timeout=seconds):
            worker = handles[handle]
            try:
                while worker.connection.poll():
                    result: JobResult = worker.connection.recv()
                    results.append(result)
                    worker.jobs.popleft()
                    worker.ahead = int(result.seconds < QUICK)
            except (EOFError, OSError):
                results += self._remove(worker)
        while self.lost and self._choose(self.lost[0]) is not None:
            self.submit(self.lost.popleft())
        return results

    def close(self) -> None:
        """Stop all workers. Half-written runs are removed by the next driver."""
        for worker in self.workers:
            worker.connection.close()
            if worker.jobs:
                worker.process.kill()
        for worker in self.workers:
            worker.process.end(patience=PATIENCE)
        self.workers.clear()

    def _choose(self, job: Job) -> _Worker | str | None:
        """Worker for a job, the slot of a worker to start, or None if all are busy."""
        wants = bool(job.gpus) and any(self.places)
        mine = [w for w in self.workers if (w.gpu is not None) == wants]
        idle = next((w for w in mine if not w.jobs), None)
        if idle is not None:
            return idle
        free = list(self.places)
        for w in self.workers:
            free.remove(w.gpu)
        new = next((p for p in free if (p is not None) == wants), "none")
        if new != "none":
            return new or "cpu"
        least = min(mine, key=lambda w: len(w.jobs) - w.ahead, default=None)
        return least if least is not None and len(least.jobs) < 1 + least.ahead else None

    def _start(self, gpu: str | None) -> _Worker:
        ours, theirs = socket.socketpair()
        settings = {
            "OMP_NUM_THREADS": str(self.cpus),
            "OPENBLAS_NUM_THREADS": str(self.cpus),  # `taskloom run` sets 1 for itself
            "CUDA_VISIBLE_DEVICES": gpu or "",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        process: ChildProcess | ForkedProcess
        if gpu is None and can_fork() and self._has_threads():
            with forking():
                process = ForkedProcess(serve, theirs.fileno(), settings)
        else:
            process = ChildProcess(
                "taskloom.experiments.execute.engines",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **settings},
            )
        theirs.close()
        worker = _Worker(process, Connection(ours.detach()), gpu)
        self.workers.append(worker)
        return worker

    def _has_threads(self) -> bool:
        """True if this process's BLAS has as many threads as a worker's, which a fork inherits: the
        number of threads affects rounding.
        """
        named = os.environ.get("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS"))
        return named == str(self.cpus)

    def _remove(self, worker: _Worker) -> list[JobResult]:
        self.workers.remove(worker)
        worker.connection.close()
        status = worker.process.end(patience=PATIENCE)
        if not worker.jobs:
            return []
        job = worker.jobs.popleft()
        self.lost.extend(worker.jobs)
        why = f"the worker process {exit_reason(status)}{_log_ending(job)}"
        return [_failed(job, why)]


def _log_ending(job: Job) -> str:
    path = job_folder(Store(job.store), job.name) / run_files.LOG
    try:
        lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    fatal = next((line for line in lines if line.startswith("Fatal Python error")), None)
    ending = fatal or (lines[-1] if lines else "")
    return f"; its log ends with: {ending.strip()[:200]}" if ending else ""


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """List the GPUs that may be used, as CUDA names them, without importing torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [g for g in named.split(",") if g.strip() and g.strip() != "-1"]
    try:
        # By name, because the tool is on the PATH and not in a fixed folder.
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [
        str(i) for i, line in enumerate(x for x in done.stdout.splitlines() if x.startswith("GPU "))
    ]


class RayEngine:
    """Tasks on a Ray cluster, from a child process, because Ray ends its driver's process if a part
    of the cluster dies.

    Args:
        address: Address of the cluster. Default: start one on this machine.
        workers: Maximum concurrent jobs. Default: number of cores of the cluster.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        arguments = (cluster_address(address), workers)
        self._tasks = ChildObject(RAY_DRIVER, RAY_REMEDY, RayTasks, *arguments)

    @property
    def slots(self) -> int:
        """Number of jobs that can run at one time; a cluster may grow and shrink."""
        return int(self._tasks.call("slots"))

    def room(self, job: Job) -> bool:
        """True if one more job should be submitted."""
        return bool(self._tasks.call("room"))

    def submit(self, job: Job) -> None:
        """Submit the job as a Ray task with its resources."""
        self._tasks.call("submit", job)

    def wait(self, seconds: float) -> list[JobResult]:
        """Wait for results. Losing a node is not a result."""
        results: list[JobResult] = self._tasks.call("wait", seconds)
        return results

    def close(self) -> None:
        """Stop what still runs and leave the cluster."""
        self._tasks.close(RAY_ENDING)


class RayTasks:
    """The part of `RayEngine` that runs in its child process.

    All nodes must see the store under the same path (a shared file system). If a node dies, its
    jobs move to other nodes. A job whose worker process dies repeatedly fails, like one that kills
    its worker on a single machine.

    Args:
        address: Address of the cluster. Default: start one on this machine.
        workers: Maximum concurrent jobs. Default: number of cores of the cluster.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.cluster = Ray(address, workers)
        self.ray = self.cluster.ray
        self.workers = workers
        self.remote = self.ray.remote(perform)
        self.running: dict[Any, tuple[Job, int]] = {}
        self.seen: set[str] = set()

    def slots(self) -> int:
        """Cores of the cluster, or fewer if so few jobs may run at one time."""
        cores = self.cluster.cores
        return min(cores, self.workers) if self.workers else cores

    def room(self) -> bool:
        """True if one more job should be submitted. Ray has its own queue, and slightly more jobs
        than cores keep all nodes busy.
        """
        return len(self.running) < (self.workers or self.slots() + 2)

    def submit(self, job: Job) -> None:
        """Submit the job with its resources."""
        if job.store not in self.seen:
            self._check(job)
        self._send(job, 1)

    def wait(self, seconds: float) -> list[JobResult]:
        """Results that become ready within some seconds."""
        if not self.running:
            time.sleep(seconds)
            return []
        ready, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        if not ready:
            ready, _ = self.ray.wait(list(self.running), timeout=seconds)
        results = []
        for reference in ready:
            job, attempt = self.running.pop(reference)
            try:
                results.append(self.ray.get(reference))
            except self.ray.exceptions.RayTaskError as error:
                results.append(_failed(job, f"{type(error.cause).__name__}: {error.cause}"))
            except self.ray.exceptions.RayError as error:
                if attempt < ATTEMPTS:
                    self._send(job, attempt + 1)
                else:
                    why = str(error).splitlines()[0]
                    results.append(
                        _failed(job, f"its worker died {attempt} times; the last time: {why}")
                    )
        return results

    def close(self) -> None:
        """Stop what still runs and leave the cluster."""
        for reference in self.running:
            with contextlib.suppress(Exception):
                self.ray.cancel(reference, force=True)
        self.running.clear()
        self.cluster.leave()

    def _send(self, job: Job, attempt: int) -> None:
        has_gpus = bool(job.gpus) and self.cluster.gpus > 0
        options = {"num_cpus": job.cpus, "num_gpus": job.gpus if has_gpus else 0, "max_retries": 0}
        self.running[self.remote.options(**options, runtime_env=_threads(job)).remote(job)] = (
            job,
            attempt,
        )

    def _check(self, job: Job) -> None:
        """Check from a worker's side that it sees the store, before any job is submitted."""

        def sees(path: str) -> str:
            try:
                Store(path)
            except TaskloomError as error:
                return str(error)
            return ""

        asked = self.ray.remote(sees).options(runtime_env=_threads(job)).remote(job.store)
        try:
            problem = self.ray.get(asked)
        except self.ray.exceptions.RayError as error:
            why = str(error).strip().splitlines()[0]
            raise TaskloomError(
                f"Ray's first worker died ({why}); rerun the command to resume"
            ) from error
        if problem:
            raise TaskloomError(
                f"a Ray node does not see the store {job.store} ({problem}); put it on a file"
                " system that all nodes share"
            )
        self.seen.add(job.store)


def _threads(job: Job) -> dict[str, Any]:
    """Use the same number of threads as a worker of the local engine, so that libraries round in
    the same way.
    """
    return {"env_vars": {"OMP_NUM_THREADS": str(job.cpus)}}


def _failed(job: Job, why: str) -> JobResult:
    return JobResult(job.name, dict.fromkeys((job.data,) if job.kind == "data" else job.runs, why))


def serve(file: int) -> None:
    """Main loop of a worker process: perform jobs until the parent closes the connection."""
    connection = Connection(file)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    end_with_parent()
    faulthandler.enable()  # written to the job's log, because standard error goes there
    while True:
        try:
            connection.send(perform(connection.recv()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent has gone


if __name__ == "__main__":
    serve(int(sys.argv[1]))
