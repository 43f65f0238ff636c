"""Run stores as the viewer reads them: every run by itself, so that a damaged one hides no other,
and what is running.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.apps.view.folders import VanishedError
from taskloom.core.errors import TaskloomError
from taskloom.experiments.execute.driver import lives, owner_of
from taskloom.experiments.execute.worker import job_folder
from taskloom.experiments.files import DIGEST, LOG
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.store import Store, failures
from taskloom.experiments.table import Runs

LOG_SHOWN = 4_000
"""Bytes of the end of a log that are shown."""

MOST_JOBS = 12
"""Unfinished jobs whose logs are shown."""

FRESH = 0.3
"""Seconds for which a store is not looked at again: one page asks several times."""

RECENT = 600.0
"""Seconds over which the pace of an experiment is measured."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run: what scores.json says, or what is wrong with it.

    Attributes:
        name: Its digest.
        scores: The contents of scores.json; empty for a damaged run.
        problem: A sentence for a damaged run; empty otherwise.
        finished: When, in seconds of the system's clock.
    """

    name: str
    scores: dict[str, Any]
    problem: str
    finished: float


@dataclass(frozen=True, slots=True)
class UnfinishedJob:
    """A job in hand, or one that was interrupted: its name, the end of its log, and seconds since
    it last wrote.
    """

    name: str
    log: str
    quiet: float


@dataclass(frozen=True, slots=True)
class LiveState:
    """How far the experiments of a store are.

    Attributes:
        finished: Runs that are there.
        recent: Of them, finished in the last ten minutes.
        running: Runs that a live driver has claimed.
        failed: Reasons of failed runs.
        jobs: Unfinished jobs, the last written first.
    """

    finished: int
    recent: int
    running: int
    failed: dict[str, str]
    jobs: list[UnfinishedJob]

    @property
    def pace(self) -> float:
        """Return runs a minute over the last ten minutes."""
        return self.recent / (RECENT / 60)


class ViewedStore:
    """A store whose scores are read once, and again when a run changes.

    Args:
        path: The store's folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._known: dict[str, tuple[tuple[int, int], StoredRun]] = {}
        self._runs: list[StoredRun] = []
        self._when = -FRESH
        self._table: Runs | None = None
        self._results: ResultTable | None = None

    def store(self) -> Store:
        """The store, always the same one because it remembers what it read; a `TaskloomError` if it
        is not one any more.
        """
        opened = Store(self.path)
        if self._opened is None:
            self._opened = opened
        return self._opened

    def runs(self) -> list[StoredRun]:
        """Return all runs, sorted by recipe, learner and seed; damaged ones last."""
        store = self.store()
        with self._lock:
            if time.monotonic() - self._when < FRESH:
                return self._runs
            fresh = {name: self._read(store, name) for name in store.names()}
            if fresh.keys() != self._known.keys() or any(
                self._known[name] is not fresh[name] for name in fresh
            ):
                self._table = self._results = None
            self._known = fresh
            self._runs = sorted((run for _, run in fresh.values()), key=_order)
            self._when = time.monotonic()
            return self._runs

    def _read(self, store: Store, name: str) -> tuple[tuple[int, int], StoredRun]:
        try:
            status = store.status(name)
        except OSError as error:
            return (0, 0), StoredRun(name, {}, f"its scores cannot be read ({error.strerror})", 0.0)
        mark = status.st_mtime_ns, status.st_size
        known = self._known.get(name)
        if known is not None and known[0] == mark:
            return known
        try:
            return mark, StoredRun(name, store.scores(name), "", status.st_mtime)
        except TaskloomError as error:
            return mark, StoredRun(name, {}, str(error), status.st_mtime)

    def run(self, name: str) -> StoredRun:
        """Return one run by its whole digest; raise a `VanishedError` where there is none."""
        store = self.store()
        if not DIGEST.fullmatch(name) or name not in store:
            raise VanishedError(f"the store has no run '{name[:40]}'")
        return self._read(store, name)[1]

    def table(self) -> Runs:
        """Return the runs that are whole, for questions about them."""
        whole = [run.name for run in self.runs() if not run.problem]
        table = self._table
        if table is None:
            table = self._table = Runs(self.store(), whole)
        return table

    def results(self) -> ResultTable:
        """Return the mean score of everything that runs differ in, but the seed, with its interval,
        as `taskloom runs show`.
        """
        table = self.table()
        results = self._results
        if results is None:
            results = self._results = table.overview()
        return results

    def live(self) -> LiveState:
        """Return what is running and what has failed."""
        store = self.store()
        runs = self.runs()
        now = time.time()
        finished = {run.name for run in runs}
        recent = sum(now - run.finished < RECENT for run in runs)
        running = [
            name for name in live_claims(store.path / "work" / "claims") if name not in finished
        ]
        return LiveState(len(runs), recent, len(running), failures(store.path), _jobs(store, now))


def _order(run: StoredRun) -> tuple[bool, str, str, str, int]:
    scores = run.scores
    fields = json.dumps(scores.get("fields", {}), sort_keys=True)
    return (
        bool(run.problem),
        scores.get("recipe", ""),
        scores.get("learner", ""),
        fields,
        scores.get("seed", 0),
    )


def live_claims(folder: Path) -> list[str]:
    """Names of the runs that a live driver has claimed. Nothing is written."""
    alive: dict[str, bool] = {}
    claimed = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        owner = owner_of(folder / name) if DIGEST.fullmatch(name) else None
        if owner is None:
            continue
        if owner not in alive:
            alive[owner] = lives(folder, owner)
        if alive[owner]:
            claimed.append(name)
    return claimed


def _jobs(store: Store, now: float) -> list[UnfinishedJob]:
    """Return the jobs that have a folder, those that wrote last first."""
    written: list[tuple[float, str]] = []
    try:
        entries = list(os.scandir(job_folder(store, "")))
    except OSError:
        return []
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                log = Path(entry.path) / LOG
                written.append(
                    ((log if log.is_file() else Path(entry.path)).stat().st_mtime, entry.name)
                )
        except OSError:
            continue  # it has ended
    latest = sorted(written, reverse=True)[:MOST_JOBS]
    return [
        UnfinishedJob(name, log_end(job_folder(store, name) / LOG), max(0.0, now - when))
        for when, name in latest
    ]


def log_end(path: Path, size: int = LOG_SHOWN) -> str:
    """Return the end of a log; empty where there is none."""
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
