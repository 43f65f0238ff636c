"""The Ray engine: jobs as Ray tasks, on an existing cluster or on one started on this machine.

All nodes must see the store under the same path (a shared file system). When a node dies, its jobs
go to others; a job whose worker process dies again and again has failed, like one that kills its
worker on a single machine.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from taskloom.core.errors import TaskloomError
from taskloom.core.ray_cluster import ATTEMPTS, Ray
from taskloom.experiments.execute.worker import Job, JobResult, perform
from taskloom.experiments.store import Store


class RayEngine:
    """Tasks on a Ray cluster.

    Args:
        address: The cluster's; one is started on this machine by default.
        workers: The most jobs at one time; as many as the cluster has cores by default.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.cluster = Ray(address, workers)
        self.ray = self.cluster.ray
        self.workers = workers
        self.remote = self.ray.remote(perform)
        self.running: dict[Any, tuple[Job, int]] = {}
        self.seen: set[str] = set()

    @property
    def slots(self) -> int:
        """Number of jobs that can run at one time; a cluster may grow and shrink."""
        cores = self.cluster.cores
        return min(cores, self.workers) if self.workers else cores

    def room(self, job: Job) -> bool:
        """True if one more job should be submitted. Ray has a queue of its own, and a few jobs more
        than cores keep all nodes busy.
        """
        return len(self.running) < (self.workers or self.slots + 2)

    def submit(self, job: Job) -> None:
        """Submit the job as a Ray task with its resources."""
        if job.store not in self.seen:
            self._check(job)
        self._send(job, 1)

    def wait(self, seconds: float) -> list[JobResult]:
        """Wait for results; the loss of a node is not one."""
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
    """Set as many threads as in a worker of the local engine, so that libraries round in the same
    way.
    """
    return {"env_vars": {"OMP_NUM_THREADS": str(job.cpus)}}


def _failed(job: Job, why: str) -> JobResult:
    return JobResult(job.name, dict.fromkeys((job.data,) if job.kind == "data" else job.runs, why))
