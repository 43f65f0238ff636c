"""Where runs come from: a store, a score file, or predictions that were made elsewhere."""

from __future__ import annotations

from pathlib import Path

from taskloom.core.arguments import path_of
from taskloom.experiments.files import SCORES
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs


def runs(path: str | Path = "runs") -> Runs:
    """The runs of a store, or those that a file has or names.

    Args:
        path: The store's folder; a file of scores by seed (JSON, CSV, TSV, Parquet), or the folder of a study's page with one; or a
            YAML file that names predictions.
    """
    folder = path_of(path)
    if folder.is_dir() and not (folder / SCORES).is_file():
        return Runs(Store(folder))
    from taskloom.experiments.sources.score_files import (
        open_runs,
    )  # only files need what reads them

    return open_runs(path)
