"""The files of a run: their names and columns, reading them, and writing them durably.

`environment.json` describes the machine and the libraries: for people, and for estimates of cost.
No result depends on it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import taskloom
from taskloom.core.errors import DataError

if TYPE_CHECKING:
    from taskloom.experiments.spec.cells import Cell

SCHEMA = 1
"""Version of the format, raised when older stores could be misread."""

STORE = "store.json"
CONFIG, SCORES, CURVES, PREDICTIONS = (
    "config.yaml",
    "scores.json",
    "curves.parquet",
    "predictions.parquet",
)
REPLIES = "replies.parquet"
ENVIRONMENT, LOG, MODEL = "environment.json", "log.txt", "model"

FLEETING = (ENVIRONMENT, LOG)
"""Files that may be lost in a power cut, because no result depends on them."""

DIGEST = re.compile("[0-9a-f]{32}")
"""Matches the names of run folders."""

PREDICTION_COLUMNS = pa.schema(
    [
        ("split", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int64()),
        ("task", pa.string()),
        ("input", pa.string()),
        ("targets", pa.list_(pa.string())),
        ("prediction", pa.string()),
        ("score", pa.float64()),
        ("traits", pa.map_(pa.string(), pa.string())),
        ("candidates", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.float64())),
    ]
)
"""Columns of predictions.parquet. Traits are a map from name to value as JSON spells it (text
without quotes); candidates and their log-probabilities are null unless `keep` names them.
"""

CURVE_COLUMNS = pa.schema(
    [("step", pa.int64()), ("split", pa.string()), ("score", pa.float64()), ("loss", pa.float64())]
)

REPLY_COLUMNS = pa.schema(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("messages", pa.string()),
        ("reply", pa.string()),
        ("thinking", pa.string()),
        ("finish", pa.string()),
        ("outcome", pa.string()),
        ("answer", pa.string()),
        ("rule", pa.string()),
        ("in_form", pa.bool_()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("tokens_thinking", pa.int64()),
        ("seconds", pa.float64()),
        ("cost", pa.float64()),
    ]
)
"""Columns of replies.parquet, which has one row for each of predictions.parquet: what a model
behind an API was sent (`messages`, as JSON) and what it replied. `outcome` is `answered`, or why
there is no answer.
"""

COLUMNS = {PREDICTIONS: PREDICTION_COLUMNS, CURVES: CURVE_COLUMNS, REPLIES: REPLY_COLUMNS}
"""The columns of the Parquet files of a run."""


class StoreError(DataError):
    """Raised if a run store cannot be read or written."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's errors on writing into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise StoreError(
            f"cannot write to {path}: {why}; every finished run is kept: free space or make the"
            " folder writable, then rerun the command to resume"
        ) from error


def damaged(path: str | Path, why: str) -> StoreError:
    """Error for a file of a run that cannot be read."""
    return StoreError(
        f"{path} is damaged ({why}); delete {os.path.dirname(path)} and rerun the experiment"
    )


SMALL = 2**18
"""Maximum bytes of a Parquet file that is read whole. From larger files, only the requested columns
are read.
"""


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file of a run, and check it."""
    try:
        # Not read_table, which is optimised for large remote files: it takes 1.1 ms for a small
        # file, this 0.3, and 0.2 from memory.
        small = path.stat().st_size <= SMALL
        source = pa.BufferReader(path.read_bytes()) if small else path
        with pq.ParquetFile(source, memory_map=not small, pre_buffer=False) as file:
            table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        if path.name == REPLIES:
            table = _with_later_columns(table, columns)
        table = table if columns is None else table.select(list(columns))
        # Otherwise invalid UTF-8 would raise an error only on access.
        table.validate(full=True)
        expected = COLUMNS.get(path.name)
        if expected is None:
            return table
        schema = (
            expected
            if columns is None
            else pa.schema([expected.field(c) for c in table.column_names])
        )
        return table if table.schema == schema else table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise damaged(path, str(error).splitlines()[0]) from error


def _with_later_columns(table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    """Replies with empty columns for those that earlier versions did not store."""
    wanted = REPLY_COLUMNS.names if columns is None else columns
    for name in wanted:
        if name not in table.column_names:
            kind = REPLY_COLUMNS.field(name).type
            table = table.append_column(name, pa.nulls(table.num_rows, kind))
    return table.select(list(wanted))


def parquet_batches(path: Path, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """Columns of a Parquet file of a run, `size` rows at a time."""
    schema = COLUMNS[path.name]
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(size, columns=list(columns), use_threads=False):
                # `select` raises an error for a column that the file lacks, whereas iter_batches
                # omits it.
                chosen = batch.select(list(columns)).cast(
                    pa.schema([schema.field(name) for name in columns])
                )
                chosen.validate(full=True)
                yield chosen
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise damaged(path, str(error).splitlines()[0]) from error


UNCOMPRESSED = 100
"""Maximum rows of an uncompressed file. Compressing a smaller one would double the time of writing
and reading it.
"""

LIGHTLY_COMPRESSED = 1_000
"""Maximum rows of a file that is compressed by LZ4. Zstandard makes 200 rows a seventh smaller, but
five of their columns are then read in 0.32 ms instead of 0.20. A report reads thousands of them.
"""


def parquet_content(table: pa.Table) -> pa.Buffer:
    """Content of a run's Parquet file."""
    # In memory first: Arrow writes a file in many small pieces, which takes twice the time.
    out = pa.BufferOutputStream()
    compression = "zstd"
    if table.num_rows <= LIGHTLY_COMPRESSED:
        compression = "lz4"
    if table.num_rows <= UNCOMPRESSED:
        compression = "none"
    pq.write_table(table, out, compression=compression)
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
    """Write all files of a run to a temporary folder, durably: even a power cut cannot leave half
    of it in place.

    Args:
        folder: The temporary folder.
        config: The experiment of this run alone.
        scores: The contents of scores.json.
        curves: The learning curves, if they are kept.
        predictions: The predictions, if they are kept.
        environment: The contents of environment.json.
        log: The output, or a file with the output that may be moved: for a run of milliseconds,
            writing a new file would take most of the time.
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
        with suppress(OSError):  # the file system has no links, or no output was written to a file
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
    """Number of threads that flush files concurrently. The file system then flushes them in one
    step, in a fifth of the time.
    """
    return ThreadPoolExecutor(4, "flush")


DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The C writer is ten times faster and writes the same."""


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
    """Machine, versions, recipe and settings in full, and the duration of the run.

    Args:
        cell: The run.
        kind: `alone`, or `seeds` or `tasks` if several were trained together.
        together: Number of runs that were trained together.
        seconds: Seconds of this run; its share if several were trained together.
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
