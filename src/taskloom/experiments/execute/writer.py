"""The files of a finished run, written durably beside the place that the run then takes.

`environment.json` describes the machine and the libraries: for people, and for estimates of cost. No result depends on it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import taskloom
from taskloom.experiments.files import (
    CONFIG,
    CURVES,
    ENVIRONMENT,
    FLEETING,
    LOG,
    PREDICTIONS,
    SCORES,
    writing,
)
from taskloom.experiments.spec.cells import Cell

UNCOMPRESSED = 100
"""Rows up to which a file is not compressed, which would take half of the time of writing and of reading it."""


def parquet_content(table: pa.Table) -> pa.Buffer:
    """Return the content of a Parquet file of a run."""
    out = (
        pa.BufferOutputStream()
    )  # Arrow writes a file in many small pieces, which costs twice the time
    pq.write_table(table, out, compression="none" if table.num_rows <= UNCOMPRESSED else "zstd")
    return out.getvalue()


def write_run(
    folder: Path,
    config: Mapping[str, Any],
    scores: Mapping[str, Any],
    curves: pa.Table | None,
    predictions: pa.Table | None,
    environment: Mapping[str, Any],
    log: bytes | Path,
) -> None:
    """Write all files of a run to a folder beside its place, durably: not even a power cut leaves half of it in place.

    Args:
        folder: The folder beside its place.
        config: The experiment of this run alone.
        scores: The contents of scores.json.
        curves: The learning curves, where they are kept.
        predictions: The predictions, where they are kept.
        environment: The contents of environment.json.
        log: What was printed, or the file that has it and is of no further use: a new file would cost most of what a run
            of milliseconds costs.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_text(
            yaml.dump(dict(config), Dumper=DUMPER, sort_keys=False, allow_unicode=True), "utf-8"
        )
        (folder / SCORES).write_text(
            json.dumps(scores, ensure_ascii=False, sort_keys=True) + "\n", "utf-8"
        )
        for table, file in ((curves, CURVES), (predictions, PREDICTIONS)):
            if table is not None:
                (folder / file).write_bytes(parquet_content(table))
        (folder / ENVIRONMENT).write_text(json.dumps(environment) + "\n", "utf-8")
        _write_log(folder / LOG, log)
        paths = [os.path.join(here, name) for here, _, names in os.walk(folder) for name in names]
        list(
            _flushers().map(
                _flush, (path for path in paths if os.path.basename(path) not in FLEETING)
            )
        )


def _write_log(path: Path, log: bytes | Path) -> None:
    if isinstance(log, Path):
        with suppress(OSError):  # the file system has no links, or nothing was printed to a file
            os.link(log, path)
            return
        log = log.read_bytes() if log.is_file() else b""
    path.write_bytes(log)


def _flush(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@cache
def _flushers() -> ThreadPoolExecutor:
    """Return the threads that make files durable at one time: the file system does it in one step, in a fifth of the time."""
    return ThreadPoolExecutor(4, "flush")


DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The C writer is ten times faster; both write the same."""


LIBRARIES = ("numpy", "pyarrow", "torch", "transformers", "peft", "scikit-learn", "ray")


@cache
def _machine() -> dict[str, Any]:
    versions = {"taskloom": taskloom.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def environment(cell: Cell, kind: str, together: int, seconds: float) -> dict[str, Any]:
    """Describe machine, versions, the recipe and settings in full, and how long the run took.

    Args:
        cell: The run.
        kind: `alone`, or whether `seeds` or `tasks` were trained together.
        together: How many were.
        seconds: Of this run; its share where several were trained together.
    """
    torch: Any = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
    recipes = [part.recipe.to_dict() for part in cell.data.parts]
    return {
        "seconds": round(seconds, 3),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "trained": kind,
        "together": together,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "gpu": gpu,
        **_machine(),
        "recipe": recipes[0] if len(recipes) == 1 else recipes,
        "settings": cell.settings,
    }
