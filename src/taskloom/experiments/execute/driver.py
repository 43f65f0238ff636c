"""The driver fills in the missing cells of an experiment and reports its progress.

It holds no essential state: finished runs and claims are in the store, so a new driver can continue
after a kill at any moment. Several drivers may work on one store. Each takes unclaimed cells and
waits for the rest.

A claim is a file that is named after its run and contains the name of its owner. Every owner holds
a lock on a file of its own. The system releases that lock when the process ends, however it ends,
so the claims of a killed driver are released at once. Claims only prevent duplicate work: two
drivers that
ran the same cell would write the same bytes, and the first rename wins.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.core import files
from taskloom.experiments.execute import jobs
from taskloom.experiments.execute.engines import Engine
from taskloom.experiments.execute.predictions import data_folder
from taskloom.experiments.execute.worker import (
    EVERY,
    Job,
    JobProgress,
    JobResult,
    job_folder,
    read_points,
    read_progress,
    scores_json,
)
from taskloom.experiments.files import DIGEST, StoreError, environment, writing
from taskloom.experiments.spec.cell_data import CellData
from taskloom.experiments.spec.cells import Cell, cell_names
from taskloom.experiments.spec.experiment import Resources
from taskloom.experiments.store import Store

if TYPE_CHECKING:
    from filelock import FileLock

    from taskloom.experiments.execute.trackers import Tracking


OWNER = re.compile(r"[0-9a-f]{32}")
"""Matches names of owners. A claim with any other content has no owner."""


class Claims:
    """The claims of one driver on one store.

    There is one lock per driver, not per run: a driver on a cluster has thousands of runs at a
    time, which would be more open files than a process may have.

    Args:
        folder: Folder of claims, created if necessary.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = uuid.uuid4().hex
        self.taken: set[str] = set()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._life = _lock(_owner_file(folder, self.owner))
            self._life.acquire()
        # The lock file is next to the folder, not in it, because files in the folder are temporary.
        self._changing = _lock(folder.with_suffix(".lock"))

    def take(self, name: str) -> bool:
        """Claim a run. False if a live owner has it."""
        path = self.folder / name
        with writing(self.folder), self._changing:
            owner = owner_of(path)
            if owner is not None and owner != self.owner and lives(self.folder, owner):
                return False
            path.unlink(missing_ok=True)  # writing through a link would write elsewhere
            path.write_text(self.owner, encoding="utf-8")
        self.taken.add(name)
        return True

    def drop(self, name: str) -> None:
        """Release a claim."""
        self.taken.discard(name)
        (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Release all claims."""
        for name in list(self.taken):
            self.drop(name)
        _owner_file(self.folder, self.owner).unlink(missing_ok=True)
        self._life.release()

    def sweep(self) -> None:
        """Remove the files of owners that have ended."""
        for path in self.folder.glob(".owner-*"):
            owner = path.name.removeprefix(".owner-")
            if owner != self.owner and not lives(self.folder, owner):
                path.unlink(missing_ok=True)


def owner_of(path: Path) -> str | None:
    """Name of the owner of a claim. None if there is no claim, or it is damaged."""
    if path.is_symlink():  # from a version that claimed by links, or planted to point elsewhere
        return None
    try:
        owner = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return owner if OWNER.fullmatch(owner) else None


def lives(folder: Path, owner: str) -> bool:
    """True if the owner is alive, because its lock is held."""
    from filelock import Timeout

    path = _owner_file(folder, owner)
    if not path.exists():  # locking would create it
        return False
    try:
        with _lock(path).acquire(blocking=False):
            return False
    except (Timeout, PermissionError):
        return True


def _owner_file(folder: Path, owner: str) -> Path:
    return folder / f".owner-{owner}"


def _lock(path: Path) -> FileLock:
    # Importing it takes 0.05 s, which viewer pages that only list runs avoid.
    from filelock import FileLock

    return FileLock(path, thread_local=False)


POLL = 0.5
"""Seconds between checks of other drivers' progress, and between two reports. Short for a user,
long for a file system.
"""

MOST_LOOKED_AT = 64
"""Maximum running jobs whose progress is read, because each is a file, possibly on a network."""


@dataclass
class ExperimentState:
    """State and progress of an experiment.

    Attributes:
        total: Number of cells.
        before: Number of cells that were finished when this driver began.
        done: Number of cells finished since, by this driver or another.
        running: Number of cells that this driver is running.
        making: Number of datasets that are being made.
        elsewhere: Number of cells that other drivers have claimed.
        failed: Reasons by run.
        began: Start by the monotonic clock.
        slots: Number of jobs that can run at one time.
        jobs: Progress of each running job that reports it, and its number of runs.
    """

    total: int
    before: int
    done: int = 0
    running: int = 0
    making: int = 0
    elsewhere: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    slots: int = 1
    jobs: list[tuple[JobProgress, int]] = field(default_factory=list)

    @property
    def open(self) -> int:
        """Number of cells that are neither finished nor failed."""
        return self.total - self.before - self.done - len(self.failed)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float | None:
        """Estimated seconds to the end at the current pace; None before anything is done, or while
        other drivers do all the work.
        """
        if self.elsewhere and not self.running:
            return None
        partly = sum(progress.share * runs for progress, runs in self.jobs)
        done = self.done + partly
        return self.seconds / done * max(0.0, self.open - partly) if done else None


Watch = Callable[[ExperimentState], None]


class Driver:
    """One experiment on one engine.

    Args:
        store: Store of the runs.
        cells: All cells of the experiment.
        engine: Engine that runs them.
        resources: Resources of each run.
        watch: Called regularly with the state.
        claims: Replaces the driver's own claims in tests.
        tracking: Follows the runs of this driver.
    """

    def __init__(
        self,
        store: Store,
        cells: Sequence[Cell],
        engine: Engine,
        resources: Resources,
        watch: Watch | None = None,
        claims: Claims | None = None,
        tracking: Tracking | None = None,
    ) -> None:
        self.store, self.cells, self.engine = store, cells, engine
        self.watch = watch or (lambda state: None)
        self.tracking = tracking
        self.claims = claims or Claims(claims_folder(store))
        sweep(store, self.claims)
        self.by_run = {cell.run: cell for cell in cells}
        present = set(store.names())
        missing = {cell.run for cell in cells if cell.run not in present}
        self.waiting = deque(jobs.jobs(store, cells, missing, resources))
        self.open = missing
        self.elsewhere: deque[Job] = deque()
        self.running: dict[str, Job] = {}
        self.datasets: dict[str, str] = {}  # by key: "making", "made", or why it could not be made
        self.state = ExperimentState(len(cells), len(cells) - len(missing), slots=engine.slots)
        self._looked = self._looked_at_jobs = 0.0
        self._positions: dict[str, int] = {}  # in the learning curves of running jobs

    def run(self) -> ExperimentState:
        """Run until every cell is finished, here or by another driver, or has failed."""
        try:
            while self.waiting or self.running or self.elsewhere:
                self._look_elsewhere()
                self._submit()
                for result in self.engine.wait(POLL if self.running or not self.waiting else 0.0):
                    self._handle(result)
                self._report()
        finally:
            self.engine.close()
            if self.tracking:
                self.tracking.close()
            self.claims.close()
        return self.state

    @cached_property
    def _names(self) -> dict[str, str]:
        return cell_names(self.cells)

    def _submit(self) -> None:
        """Submit jobs while the engine has room. Jobs whose data is not ready go to the back of the
        queue.
        """
        for _ in range(len(self.waiting)):
            job = self.waiting[0]
            if not self.engine.room(job):
                return
            self.waiting.popleft()
            cell = self.by_run[job.runs[0]]
            missing_data = [
                d for d in _data_of(self.by_run[run] for run in job.runs) if not self._has_data(d)
            ]
            if missing_data:
                self._request_data(job, cell, missing_data)
                if self.running:
                    continue
                return
            if not self._claim(job):
                continue
            self.running[job.name] = job
            self.engine.submit(job)

    def _has_data(self, data: CellData) -> bool:
        if (
            data.key not in self.datasets
            and (data_folder(self.store, data.key) / "manifest.json").is_file()
        ):
            self.datasets[data.key] = "made"
        return self.datasets.get(data.key) == "made"

    def _request_data(self, job: Job, cell: Cell, missing_data: list[CellData]) -> None:
        """Start the jobs that make the data. A job fails if making its data has failed."""
        for data in missing_data:
            state = self.datasets.get(data.key)
            if state is None:
                owner = next(c for c in (self.by_run[r] for r in job.runs) if data in _data_of([c]))
                data_job = jobs.data_job(self.store, owner, data)
                self.datasets[data.key] = "making"
                self.running[data_job.name] = data_job
                self.engine.submit(data_job)
            elif state not in ("making", "made"):
                self._fail(dict.fromkeys(job.runs, f"its data could not be made: {state}"))
                return
        self.waiting.append(job)

    def _claim(self, job: Job) -> bool:
        """Claim all cells of a job. Set a job aside if it is finished or claimed elsewhere."""
        if all(run in self.store for run in job.runs):
            self._finish(job.runs)
            return False
        taken: list[str] = []
        for run in job.runs:
            if not self.claims.take(run):
                for name in taken:
                    self.claims.drop(name)
                self.elsewhere.append(job)
                return False
            taken.append(run)
        if all(run in self.store for run in job.runs):  # finished between the check and the claim
            for name in taken:
                self.claims.drop(name)
            self._finish(job.runs)
            return False
        return True

    def _look_elsewhere(self) -> None:
        """Retry the jobs that other drivers had claimed."""
        if not self.elsewhere or time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        self.waiting.extend(self.elsewhere)
        self.elsewhere.clear()

    def _handle(self, result: JobResult) -> None:
        job = self.running.pop(result.name)
        if result.fatal:
            raise StoreError(result.fatal)
        if job.kind == "data":
            self.datasets[job.data] = result.failed.get(job.data, "made")
            return
        if result.failed and self.tracking:
            self._follow(job, self.tracking)  # its last points may show why
        self._fail({run: why for run, why in result.failed.items() if run in self.open})
        mine = [run for run in job.runs if run not in result.failed and run in self.open]
        self._finish(mine)
        for run in job.runs:
            self.claims.drop(run)
        for run in mine:
            # If another driver published the run first, that driver has counted it.
            if self.tracking and run in result.published:
                self.tracking.finished(run)

    def _finish(self, runs: Iterable[str]) -> None:
        for run in runs:
            if run in self.open:
                self.open.discard(run)
                self.state.done += 1
                clear_failure(self.store, run)

    def _fail(self, reasons: dict[str, str]) -> None:
        for run, why in reasons.items():
            self.open.discard(run)
            self.state.failed[run] = why
            if self.tracking:
                self.tracking.failed(run)
            record_failure(self.store, self.by_run[run], self._names[run], why)

    def _report(self) -> None:
        self.state.running = sum(
            len(job.runs) for job in self.running.values() if job.kind != "data"
        )
        self.state.making = sum(job.kind == "data" for job in self.running.values())
        self.state.elsewhere = sum(len(job.runs) for job in self.elsewhere)
        self._look_at_jobs()
        self.watch(self.state)

    def _look_at_jobs(self) -> None:
        """Read the progress of running jobs. If there are many, read only some, since each is a
        file.
        """
        if not self.running:
            self.state.jobs = []
        if time.monotonic() - self._looked_at_jobs < EVERY:
            return
        self._looked_at_jobs = time.monotonic()
        running = [job for job in self.running.values() if job.kind != "data"]
        seen = (
            (read_progress(job_folder(self.store, job.name)), len(job.runs))
            for job in running[:MOST_LOOKED_AT]
        )
        self.state.jobs = [(progress, runs) for progress, runs in seen if progress is not None]
        if self.tracking:
            for job in running[:MOST_LOOKED_AT]:
                self._follow(job, self.tracking)

    def _follow(self, job: Job, tracking: Tracking) -> None:
        """Log the new points of the learning curves of a running job."""
        begin = self._positions.get(job.name, 0)
        measurements, end = read_points(job_folder(self.store, job.name), begin)
        self._positions[job.name] = end
        for measurement in measurements:
            for run in measurement["runs"]:
                if run in self.open:
                    about = partial(self._about, job, self.by_run[run])
                    tracking.measured(run, measurement["points"], about)

    def _about(self, job: Job, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
        """The `scores.json` of a cell, without scores, and its `environment.json`."""
        known = environment(cell, job.kind, len(job.runs), 0.0)
        return scores_json(self.store, cell, {}), known


def record_failure(store: Store, cell: Cell, name: str, why: str) -> None:
    """Record in the store why a cell has failed.

    Args:
        store: The store.
        cell: The cell.
        name: Its name for users, from `cell_names`.
        why: The reason.
    """
    record = {"run": cell.run, "cell": name, "reason": why, "config": cell.config()}
    with writing(store.path):
        path = store.failure_file(cell.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def clear_failure(store: Store, run: str) -> None:
    """Delete the record of an earlier failure."""
    store.failure_file(run).unlink(missing_ok=True)


def _data_of(cells: Iterable[Cell]) -> list[CellData]:
    by_key = {d.key: d for cell in cells for d in cell.datasets}
    return list(by_key.values())


def claims_folder(store: Store) -> Path:
    """Folder with the claims of all drivers of a store."""
    return store.path / "work" / "claims"


def claimed_runs(store: Store) -> list[str]:
    """Digests of the runs that live drivers have claimed. Nothing is written."""
    folder = claims_folder(store)
    alive: dict[str, bool] = {}
    claimed = []
    for name in files.listing(folder) if folder.is_dir() else ():
        owner = owner_of(folder / name) if DIGEST.fullmatch(name) else None
        if owner is None:
            continue
        if owner not in alive:
            alive[owner] = lives(folder, owner)
        if alive[owner]:
            claimed.append(name)
    return claimed


def sweep(store: Store, claims: Claims) -> None:
    """Remove half-written runs without a live claim, and owners that have ended."""
    work = store.path / "work"
    for path in work.glob(".tmp-*"):
        run = path.name.split("-")[1]
        if claims.take(run):
            shutil.rmtree(path, ignore_errors=True)
            claims.drop(run)
    files.sweep(claims.folder)
    claims.sweep()
