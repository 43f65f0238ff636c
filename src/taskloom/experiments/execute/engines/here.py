"""The engine without processes: jobs run one after the other in this one.

For what only this process knows: a task, a learner or a scorer that a notebook or the running script defines.
"""

from __future__ import annotations

from taskloom.experiments.execute.worker import Job, JobResult, perform


class HereEngine:
    """Runs a job as soon as it is submitted, and returns when it is done."""

    slots = 1

    def __init__(self) -> None:
        self._results: list[JobResult] = []

    def room(self, job: Job) -> bool:
        """Return whether the last result has been taken."""
        return not self._results

    def submit(self, job: Job) -> None:
        """Run the job."""
        self._results.append(perform(job))

    def wait(self, seconds: float) -> list[JobResult]:
        """Return what has been run since the last call."""
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Do nothing: there is no process to stop."""
