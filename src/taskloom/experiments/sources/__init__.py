"""Sources of runs: a store, a score file, predictions of other programs, or logs of other tools."""

from __future__ import annotations

from pathlib import Path

from taskloom.core.files import path_of
from taskloom.experiments.files import STORE
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs


def runs(path: str | Path = "runs") -> Runs:
    """Return the runs in a store, or those that a file contains or names.

    Args:
        path: The store's folder; a file of scores by seed (JSON, CSV, TSV, Parquet), or the folder
            of a study's page with one; a YAML file that names predictions; or a log of Inspect
            (`.eval`) or lm-evaluation-harness (`samples_*.jsonl`), or a folder of logs.
    """
    folder = path_of(path)
    if (folder / STORE).is_file():
        return Runs(Store(folder))
    # Import the readers of files only if they are needed.
    from taskloom.experiments.sources.score_files import open_runs

    return open_runs(path)
