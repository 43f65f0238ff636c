"""Engines run jobs in local processes or as tasks on a Ray cluster. Every engine writes the same
bytes.
"""

from __future__ import annotations

from typing import Protocol

from taskloom.core.errors import TaskloomError, nearest
from taskloom.experiments.execute.worker import Job, JobResult, perform


class HereEngine:
    """The engine without processes: runs a job as soon as it is submitted, and returns when it is
    done.

    For what only this process knows: a task, a learner or a scorer that a notebook or the running
    script defines.
    """

    slots = 1

    def __init__(self) -> None:
        self._results: list[JobResult] = []

    def room(self, job: Job) -> bool:
        """True if the last result has been taken."""
        return not self._results

    def submit(self, job: Job) -> None:
        """Run the job."""
        self._results.append(perform(job))

    def wait(self, seconds: float) -> list[JobResult]:
        """Return the results since the last call."""
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Do nothing: there is no process to stop."""


ENGINES = ("local", "ray")


class Engine(Protocol):
    """What the driver asks of an engine."""

    @property
    def slots(self) -> int:
        """Number of jobs that can run at one time."""

    def room(self, job: Job) -> bool:
        """True if the job would run at once, or next."""

    def submit(self, job: Job) -> None:
        """Take a job."""

    def wait(self, seconds: float) -> list[JobResult]:
        """Wait for results and return those since the last call."""

    def close(self) -> None:
        """Stop at once what still runs, and leave."""


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
        workers: Processes of the local engine; as many as there are cores (over `cpus`) by default.
        cpus: Cores of one job.
        gpus: GPUs of one job that wants one; less than 1 shares.
        address: Of a Ray cluster; a local one is started by default.
    """
    if name == "local":
        from taskloom.experiments.execute.engines.local import LocalEngine

        return LocalEngine(workers, cpus, gpus)
    if name == "here":
        from taskloom.experiments.execute.engines import HereEngine

        return HereEngine()
    if name == "ray":
        from taskloom.experiments.execute.engines.ray import RayEngine

        return RayEngine(address, workers)
    raise _unknown(name)


def check_name(name: str) -> None:
    """Refuse an engine that does not exist, also where there is nothing to run."""
    if name not in (*ENGINES, "here"):
        raise _unknown(name)


def _unknown(name: str) -> TaskloomError:
    return TaskloomError(f"no engine is called '{name}'; {nearest(str(name), ENGINES)}")
