"""Runs from anywhere: a store's folder, a file of scores, or files of predictions that another program made."""

from __future__ import annotations

from pathlib import Path

from taskloom.core.arguments import path_of
from taskloom.experiments.files import SCORES
from taskloom.experiments.table import Runs
from taskloom.experiments.table import runs as read_store


def runs(path: str | Path = "runs") -> Runs:
    """Return the runs of a store, or those that a file has or names.

    Args:
        path: The store's folder; a file of scores by seed (JSON, CSV, TSV, Parquet), or the folder of a study's page with one; or a
            YAML file that names predictions.
    """
    if path_of(path).is_dir() and not (path_of(path) / SCORES).is_file():
        return read_store(path)
    from taskloom.experiments.sources.score_files import open_runs  # only files need what reads them

    return open_runs(path)
