"""The local engine: worker processes on this machine, some of which have a GPU each.

A worker has one job in hand and, while jobs are small, one more waiting in its pipe, so that they
follow each other without a round trip. When a worker dies, the job in hand has failed, with the
signal and the end of its log as the reason; the one that waited goes to another worker. A
`ProcessPoolExecutor` can do neither: one dead worker breaks the pool with all its jobs, and jobs
cannot be sent to the workers that have a GPU.

A worker is a `ChildProcess` that runs this module, so that a script may call `taskloom.run` at its
top.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from taskloom.core.arguments import whole
from taskloom.core.child_process import ChildProcess, end_with_parent, exit_reason
from taskloom.data.workers import MOST_WORKERS
from taskloom.experiments import files as run_files
from taskloom.experiments.execute.worker import Job, JobResult, job_folder, perform
from taskloom.experiments.store import Store

QUICK = 0.5
"""Seconds below which a job is small: a worker gets one more job ahead. Nothing waits behind a long
job while others are idle.
"""

PATIENCE = 5.0
"""Seconds in which a worker whose connection is closed may end by itself."""


@dataclass
class _Worker:
    process: ChildProcess
    connection: Connection
    gpu: str | None
    jobs: deque[Job] = field(default_factory=deque)
    ahead: int = 0


class LocalEngine:
    """Processes on this machine.

    Args:
        workers: How many without a GPU; as many as fit the cores by default.
        cpus: Cores, and so threads, of each.
        gpus: GPUs of a job that wants one; 0.5 lets two share.
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
        self.lost: deque[Job] = deque()  # waited in the pipe of a worker that died

    def room(self, job: Job) -> bool:
        """True if a worker of the right kind can take a job."""
        return not self.lost and self._choose(job) is not None

    def submit(self, job: Job) -> None:
        """Send the job to the worker with the least to do; start a new one while there is a free
        place.
        """
        worker = self._choose(job)
        if worker is None:
            self.lost.append(job)
            return
        if isinstance(worker, str):
            worker = self._start(None if worker == "cpu" else worker)
        worker.jobs.append(job)
        with contextlib.suppress(OSError):  # it may have died; `wait` finds out and reports it
            worker.connection.send(job)

    def wait(self, seconds: float) -> list[JobResult]:
        """Wait for results, and for workers that die."""
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
        """Stop all workers; what they were writing lies beside its place and is removed by the next
        driver.
        """
        for worker in self.workers:
            worker.connection.close()
            if worker.jobs:
                worker.process.kill()
        for worker in self.workers:
            worker.process.end(patience=PATIENCE)
        self.workers.clear()

    def _choose(self, job: Job) -> _Worker | str | None:
        """Choose a worker for a job, the place of one to be started, or None when all are busy."""
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
            "CUDA_VISIBLE_DEVICES": gpu or "",
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }
        process = ChildProcess(
            "taskloom.experiments.execute.engines.local",
            str(theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **settings},
        )
        theirs.close()
        worker = _Worker(process, Connection(ours.detach()), gpu)
        self.workers.append(worker)
        return worker

    def _remove(self, worker: _Worker) -> list[JobResult]:
        self.workers.remove(worker)
        worker.connection.close()
        status = worker.process.end(patience=PATIENCE)
        if not worker.jobs:
            return []
        job = worker.jobs.popleft()
        self.lost.extend(worker.jobs)
        why = f"the worker process {exit_reason(status)}{_log_ending(job)}"
        return [
            JobResult(job.name, dict.fromkeys((job.data,) if job.kind == "data" else job.runs, why))
        ]


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
        # By name: the driver's tool is on the path of the person who installed it, in no fixed
        # folder.
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [
        str(i) for i, line in enumerate(x for x in done.stdout.splitlines() if x.startswith("GPU "))
    ]


def serve() -> None:
    """Run in a worker process: perform jobs until the parent closes the connection."""
    connection = Connection(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    end_with_parent()
    faulthandler.enable()  # into the job's log, since that is where errors go
    while True:
        try:
            connection.send(perform(connection.recv()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent has gone


if __name__ == "__main__":
    serve()
