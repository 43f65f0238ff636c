"""A run store that is not a folder: runs that some file holds or names, with their scores in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.arguments import path_of
from taskloom.errors import DataError
from taskloom.experiments.store import Store

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class LoadedRuns(Store):
    """Runs without folders of their own; what is read of one beyond its scores is up to the kind of file.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path_of(path)
        self._scores: dict[str, dict[str, Any]] = {}

    def __contains__(self, run: str) -> bool:
        return run in self._scores

    def folder(self, run: str) -> Path:
        """Return where the folder of a run would be; there is none."""
        return self.path / run

    def names(self) -> list[str]:
        """Return the digests of all runs."""
        return sorted(self._scores)

    def scores(self, run: str) -> dict[str, Any]:
        """Return the scores of a run, as scores.json has them."""
        if run not in self._scores:
            raise DataError(f"{self.path} has no run {run}")
        return self._scores[run]

    def keeps_predictions(self, run: str) -> bool:
        """Return whether there are inputs and answers; a file of scores has at most the scores of items."""
        return False

    def scored_rows(self, runs: Sequence[str], columns: Sequence[str], n: int) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return columns of the predictions of runs, one run after the other; there are no files to keep open."""
        return self.rows_one_by_one(runs, columns)

    def kind(self, run: str) -> str:
        """Return what runs that differ only in the seed have in common."""
        return str(self.scores(run)["kind"])
