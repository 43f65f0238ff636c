"""Run stores in the viewer: the table of readable runs, the damaged ones, and running jobs."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from taskloom.analysis.report.effects import is_reference
from taskloom.apps.view.datasets import inside
from taskloom.apps.view.folders import VanishedError, ViewedFolder
from taskloom.core.errors import InputError, TaskloomError
from taskloom.experiments.accuracy import run_labels
from taskloom.experiments.execute.driver import claimed_runs
from taskloom.experiments.execute.jobs import unfinished_jobs
from taskloom.experiments.files import DIGEST
from taskloom.experiments.record import Run, RunSource
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.sources import runs as read_runs
from taskloom.experiments.sources.eval_logs import LoggedRuns
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs

LOG_SHOWN = 4_000
"""Bytes shown from the end of a log."""

MOST_JOBS = 12
"""Maximum unfinished jobs with logs on a page."""

FRESH = 0.3
"""Seconds for which the state of a store is cached, because one page needs it several times."""

RECENT = 600.0
"""Seconds over which the rate of finished runs is measured."""


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A running or interrupted job: its name, the end of its log, and the seconds since its last
    output.
    """

    name: str
    log: str
    quiet: float


@dataclass(frozen=True, slots=True)
class LiveState:
    """Progress of the experiments in a store.

    Attributes:
        finished: Number of finished runs.
        recent: Number of runs finished in the last ten minutes.
        running: Runs that a live driver has claimed.
        failed: Reasons why runs failed.
        jobs: Unfinished jobs, the one with the latest output first.
    """

    finished: int
    recent: int
    running: int
    failed: dict[str, str]
    jobs: list[ShownJob]

    @property
    def pace(self) -> float:
        """Runs per minute over the last ten minutes."""
        return self.recent / (RECENT / 60)


@dataclass(frozen=True, slots=True)
class BestScore:
    """The best mean over seeds on a split, the label of its runs and the number of their seeds."""

    split: str
    score: float
    label: str
    seeds: int


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """Summary of a store.

    Attributes:
        runs: Number of runs.
        recipes: Names of their recipes.
        learners: Names of their learners.
        best: Best mean over seeds on each split.
        finished: Unix time at which the last run finished.
    """

    runs: int
    recipes: list[str]
    learners: list[str]
    best: list[BestScore]
    finished: float


class ViewedStore:
    """The run table of a store, rebuilt when a run changes.

    Args:
        folder: The store's folder, or the file or logs with the runs.
    """

    def __init__(self, folder: ViewedFolder) -> None:
        self.path, self.logs = folder.path, folder.logs
        # Requests are answered in threads. One lock guards opening files, the other the table.
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._opened: RunSource | None = None
        # Times and sizes of the files when they were opened.
        self._written: list[tuple[int, int]] = []
        # The table of runs, the time at which it was checked, and what is derived from it.
        self._table: Runs | None = None
        self._when = -FRESH
        self._damaged: dict[str, str] = {}
        self._results: ResultTable | None = None
        self._labels: dict[str, str] | None = None

    def store(self) -> RunSource:
        """The store, always the same object because it caches what it read. Raise `TaskloomError`
        if the folder is no longer a store. Other files are reread when they change.
        """
        if self.path.is_dir() and not self.logs:
            opened = Store(self.path)
            if self._opened is None:
                self._opened = opened
            return self._opened
        with self._reading:
            states = [path.stat() for path in self.logs or [self.path]]
            written = [(state.st_mtime_ns, state.st_size) for state in states]
            if self._opened is None or written != self._written:
                self._opened = self._read_files()
                self._written, self._table = written, None
            return self._opened

    def _read_files(self) -> RunSource:
        if self.logs:
            return LoggedRuns(self.path, self.logs, skip_bad=True)
        return read_runs(self.path).source

    def table(self) -> Runs:
        """The runs whose scores can be read."""
        store = self.store()
        with self._lock:
            if self._table is not None and time.monotonic() - self._when < FRESH:
                return self._table
            names, self._damaged = store.readable()
            fresh = Runs(store, names)
            if self._table is None or list(fresh) != list(self._table):
                self._table, self._results, self._labels = fresh, None, None
            self._when = time.monotonic()
            return self._table

    def runs(self) -> list[Run]:
        """The runs whose scores can be read, sorted by recipe, learner, fields and seed."""
        return list(self.table())

    def label(self, run: Run) -> str:
        """Label of a run: learner, recipe, and the fields in which the runs differ."""
        table = self.table()
        labels = self._labels
        if labels is None:
            labels = self._labels = run_labels(table) if len(table) else {}
        return labels.get(run.name) or f"{run.learner}, {run.recipe}"

    def summary(self) -> StoreSummary:
        """Summary of the store for lists. Learners that are included only for comparison have no
        best score, unless there are no others.
        """
        store, runs = self.store(), self.runs()
        learned = [run for run in runs if not is_reference(run.learner)]
        scores: dict[tuple[str, str], list[float]] = {}
        for run in learned or runs:
            for split, entry in run.splits.items():
                if entry.score is not None and not math.isnan(entry.score):
                    scores.setdefault((split, self.label(run)), []).append(entry.score)
        best: dict[str, BestScore] = {}
        for (split, label), seeds in scores.items():
            mean = sum(seeds) / len(seeds)
            if split not in best or mean > best[split].score:
                best[split] = BestScore(split, mean, label, len(seeds))
        return StoreSummary(
            len(runs),
            sorted({run.recipe for run in runs}),
            sorted({run.learner for run in runs}),
            list(best.values()),
            max((store.finished_at(run.name) for run in runs), default=0.0),
        )

    def damaged(self) -> dict[str, str]:
        """The problem with each run that cannot be read."""
        self.table()
        return self._damaged

    def run(self, name: str) -> Run:
        """One run by its whole digest.

        Raises:
            VanishedError: If there is no such run.
            InputError: If the run is damaged.
        """
        store = self.store()
        if not DIGEST.fullmatch(name) or name not in store:
            raise VanishedError(f"the store has no run '{name[:40]}'")
        try:
            return store.record(name)
        except TaskloomError as error:
            raise InputError(str(error)) from error

    def refuse_links(self, name: str) -> None:
        """Refuse a run with a link that leads out of the store, because the viewer must not read
        files there.
        """
        store = self.store()
        if isinstance(store, Store):
            for path in store.folder(name).glob("*.parquet"):
                inside(self.path, path)

    def results(self) -> ResultTable:
        """Mean scores with intervals over seeds, grouped by everything else in which the runs
        differ, as in `taskloom runs show`.
        """
        table = self.table()
        results = self._results
        if results is None:
            results = self._results = table.overview()
        return results

    def live(self) -> LiveState:
        """The running and failed jobs."""
        store = self.store()
        if not isinstance(store, Store):  # files have no jobs
            return LiveState(len(self.runs()), 0, 0, {}, [])
        finished = {run.name for run in self.runs()} | set(self.damaged())
        now = time.time()
        recent = sum(now - store.finished_at(name) < RECENT for name in finished)
        running = sum(name not in finished for name in claimed_runs(store))
        failed = {name: failure.reason for name, failure in store.failures().items()}
        jobs = [
            ShownJob(job.name, log_end(job.log), max(0.0, now - job.written))
            for job in unfinished_jobs(store)[:MOST_JOBS]
        ]
        return LiveState(len(finished), recent, running, failed, jobs)


def log_end(path: Path | None, size: int = LOG_SHOWN) -> str:
    """The end of a log; empty if there is none."""
    if path is None:
        return ""
    try:
        if path.is_symlink():
            return ""
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - size))
            text = file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""
    return text if length <= size else "… " + text.partition("\n")[2]
