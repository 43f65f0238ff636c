"""Runs that a file holds or names, without folders of their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from taskloom.core.arguments import path_of
from taskloom.core.errors import DataError
from taskloom.experiments.record import Run, record_of
from taskloom.experiments.store import RunSource


class LoadedRuns(RunSource):
    """Runs in memory; what is known of one beyond its scores is up to the kind of file.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path_of(path)
        self._scores: dict[str, dict[str, Any]] = {}

    def names(self) -> list[str]:
        """Digests of all runs, sorted."""
        return sorted(self._scores)

    def scores(self, run: str) -> dict[str, Any]:
        """The scores of a run, as scores.json has them."""
        if run not in self._scores:
            raise DataError(f"{self.path} has no run {run}")
        return self._scores[run]

    def records(self, names: Iterable[str] | None = None) -> list[Run]:
        """What is known of runs, all by default."""
        return [record_of(self.scores(run)) for run in (self.names() if names is None else names)]

    def folder(self, run: str) -> Path:
        """Where the folder of a run would be; there is none."""
        return self.path / run

    def keeps_predictions(self, run: str) -> bool:
        """False: a score file has at most the scores of examples."""
        return False
