"""The run store: one folder per run, named by the run's digest, either whole or absent.

    STORE/store.json                 version of the format
    STORE/ab/abcd…/                  a finished run
        config.yaml                  an experiment of this run alone: `taskloom run config.yaml`
        scores.json                  what the table of runs needs
        curves.parquet               step, split, score, loss; for learners that learn in steps
        predictions.parquet          every example with its traits, prediction and score
        replies.parquet              whole replies of a model behind an API
        environment.json, log.txt    machine, versions, seconds, what was printed
        model/                       the fitted learner, where `keep` names it
    STORE/data/                      datasets, made once
    STORE/work/                      claims, unfinished runs, checkpoints, reasons of failures

Everything but environment.json and log.txt is a function of the run's digest: the same bytes from
every engine, after any number of kills, on any machine of the same libraries. Times are therefore
in environment.json alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from taskloom.core import files
from taskloom.core.files import atomic, path_of
from taskloom.experiments.files import (
    CONFIG,
    DIGEST,
    ENVIRONMENT,
    LOG,
    MODEL,
    PREDICTION_COLUMNS,
    PREDICTIONS,
    SCHEMA,
    SCORES,
    STORE,
    StoreError,
    damaged,
    parquet_batches,
    read_parquet,
    writing,
)
from taskloom.experiments.index import MOST_ROWS, SCORED, Index
from taskloom.experiments.record import FailedRun, Run, RunSource, record_of, run_record
from taskloom.recipe.yaml_files import YamlError, parse


def _not_a_store(path: Path) -> str:
    """Reason why a path is not a run store, and the remedy."""
    if not path.exists():
        return f"there is no folder {path}; runs are made by 'taskloom run'"
    if path.is_file():
        return (
            f"{path} is a file and not a run store; 'taskloom study' reads files of scores and"
            " predictions"
        )
    return f"{path} is not a run store (it has no {STORE}); create one with 'taskloom run'"


class Store(RunSource):
    """A folder of runs.

    Args:
        path: The folder.
        create: True to create the folder if it does not exist.
    """

    def __init__(self, path: str | Path, create: bool = False) -> None:
        self.path = path_of(path)
        mark = self.path / STORE
        if not mark.is_file():
            if not create:
                raise StoreError(_not_a_store(self.path))
            self._create(mark)
        self._check(mark)

    @cached_property
    def _index(self) -> Index:
        return Index(self.path, self.scores, self._scored_columns)

    def _scored_columns(self, run: str) -> pa.Table:
        return read_parquet(self.folder(run) / PREDICTIONS, SCORED)

    def _create(self, mark: Path) -> None:
        if self.path.is_file():
            raise StoreError(f"{self.path} is a file; a run store is a folder")
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            strange = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if strange and STORE not in strange:
                raise StoreError(
                    f"{self.path} is not empty ({sorted(strange)[0]}) and is not a run store;"
                    " choose another folder as the store"
                )
            with atomic(mark, StoreError) as beside:
                beside.write_text(
                    json.dumps({"format": "taskloom runs", "schema": SCHEMA}) + "\n",
                    encoding="utf-8",
                )

    def _check(self, mark: Path) -> None:
        try:
            schema = json.loads(mark.read_text(encoding="utf-8"))["schema"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f'{mark} is damaged ({error}); restore it: it holds {{"schema": {SCHEMA}}}'
            ) from error
        if schema != SCHEMA:
            age = "an older" if isinstance(schema, int) and schema < SCHEMA else "another"
            raise StoreError(
                f"{self.path} was made by {age} version of taskloom (schema {schema}, this one"
                f" writes {SCHEMA}); its runs are untouched: read them with that version, or choose"
                " another folder as the store"
            )

    def folder(self, run: str) -> Path:
        """Folder of a run, finished or not."""
        return Path(f"{self.path}/{run[:2]}/{run}")  # joining paths takes three times as long

    def model(self, run: str) -> Path | None:
        """Folder of the trained model; None if the run kept none."""
        folder = self.folder(run) / MODEL
        return folder if folder.is_dir() else None

    def config_file(self, run: str) -> Path | None:
        """File with the experiment of this run alone."""
        return self.folder(run) / CONFIG

    def log_file(self, run: str) -> Path:
        """Log file of a run, if it has not been deleted."""
        return self.folder(run) / LOG

    def finished_at(self, run: str) -> float:
        """Time at which a run finished, in seconds since the epoch; 0 if it has been deleted."""
        try:
            return os.stat(f"{self.path}/{run[:2]}/{run}/{SCORES}").st_mtime
        except OSError:
            return 0.0

    def __contains__(self, run: str) -> bool:
        return files.is_readable(self.folder(run) / SCORES)

    def names(self) -> list[str]:
        """Sorted digests of all finished runs. Folders that were renamed by hand or have lost their
        scores are ignored.
        """
        runs: list[str] = []
        for group in files.listing(self.path):
            path = f"{self.path}/{group}"
            if len(group) == 2 and os.path.isdir(path):
                names = [
                    name
                    for name in files.listing(path)
                    if DIGEST.fullmatch(name) and name[:2] == group
                ]
                runs += [name for name in names if os.path.exists(f"{path}/{name}/{SCORES}")]
        return sorted(runs)

    def scores(self, run: str) -> dict[str, Any]:
        """Read and check scores.json of a run."""
        path = f"{self.path}/{run[:2]}/{run}/{SCORES}"
        try:
            with open(path, "rb", buffering=0) as file:
                text = file.readall()
            scores = json.loads(text)
            if b"\\u" in text and b"\\ud" in text.lower():
                # A lone surrogate raises a ValueError here, rather than later in a table.
                json.dumps(scores, ensure_ascii=False).encode()
        except FileNotFoundError:
            raise StoreError(f"{self.path} has no run {run}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise damaged(path, str(error)) from error
        run_record(scores, run, path)
        return dict(scores)

    def records(self, names: Iterable[str] | None = None) -> list[Run]:
        """Records of runs. Default: all."""
        return [
            record_of(scores)
            for scores in self._index.scores(self.names() if names is None else list(names))
        ]

    def readable(self) -> tuple[list[str], dict[str, str]]:
        """Digests of the runs whose scores can be read, and the errors of the others."""
        names = self.names()
        try:
            self.records(names)
        except StoreError:
            pass  # some run is damaged: check each of them
        else:
            return names, {}
        problems = {}
        for name in names:
            try:
                self.record(name)
            except StoreError as error:
                problems[name] = str(error)
        return [name for name in names if name not in problems], problems

    def config(self, run: str) -> str:
        """Read config.yaml of a run as text, and check that it is a YAML mapping."""
        path = self.folder(run) / CONFIG
        try:
            text = path.read_text(encoding="utf-8")
            sound = isinstance(parse(text), dict)
        except (OSError, ValueError, YamlError) as error:
            raise damaged(path, str(error).splitlines()[0]) from error
        if not sound:
            raise damaged(path, "it is not a mapping")
        return text

    def environment(self, run: str) -> dict[str, Any]:
        """Read machine, versions and seconds of a run. Empty if the file was lost, since no result
        depends on it.
        """
        try:
            environment = json.loads((self.folder(run) / ENVIRONMENT).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return environment if isinstance(environment, dict) else {}

    def keeps_predictions(self, run: str) -> bool:
        """True if the run kept its predictions."""
        return os.path.isfile(f"{self.path}/{run[:2]}/{run}/{PREDICTIONS}")

    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Read columns of a run's Parquet file. None if the run did not keep it."""
        path = f"{self.path}/{run[:2]}/{run}/{file}"
        indexed = [name for name in columns if name in SCORED] if file == PREDICTIONS else []
        if indexed and self._index.has(run, indexed):
            known = self._index.rows([run], indexed)[0]
            others = [name for name in columns if name not in SCORED]
            if not others:
                return known
            # Columns in memory take half the time of reading a small file.
            read = read_parquet(Path(path), others)
            if read.num_rows == known.num_rows:
                arrays = [(known if name in SCORED else read)[name] for name in columns]
                fields = [PREDICTION_COLUMNS.field(name) for name in columns]
                return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        return read_parquet(Path(path), columns) if os.path.isfile(path) else None

    def answer_batches(
        self, run: str, columns: Sequence[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the predictions of one run, `size` rows at a time, without holding the file in
        memory.
        """
        path = self.folder(run) / PREDICTIONS
        return parquet_batches(path, columns, size) if path.is_file() else iter(())

    def scored(
        self, runs: Sequence[str], columns: Sequence[str], n: int
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Columns of the predictions of runs, from the index unless there are too many rows for
        memory.
        """
        if n > MOST_ROWS:
            return super().scored(runs, columns, n)
        return self._index.rows(runs, columns)

    def refresh_index(self) -> None:
        """Add new runs to the index of a large store, so that the first query need not open all
        their files.

        For 10,000 runs this takes 4 CPU-seconds. The runs themselves take 10 if each lasts a
        millisecond.
        """
        self._index.refresh(self.names())

    @property
    def failed_folder(self) -> Path:
        """Folder with the reasons why runs failed."""
        return self.path / "work" / "failed"

    def failure_file(self, run: str) -> Path:
        """File with the reason why a run failed. It is deleted when the run succeeds."""
        return self.failed_folder / f"{run}.json"

    def failures(self) -> dict[str, FailedRun]:
        """Runs that have failed and not succeeded since, by digest."""
        failed = {}
        for path in sorted(self.failed_folder.glob("*.json")):
            # A driver may be writing or deleting the file at this moment, so it is not a failure.
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                entry = json.loads(path.read_text(encoding="utf-8"))
                failed[path.stem] = FailedRun(str(entry.get("cell", "")), str(entry["reason"]))
        return failed

    def publish(self, run: str, beside: Path) -> bool:
        """Move a finished run into the store. False if another driver was first."""
        target = self.folder(run)
        with writing(self.path):
            target.parent.mkdir(exist_ok=True)
            try:
                files.rename(beside, target)
            except OSError:
                if run in self:
                    shutil.rmtree(beside, ignore_errors=True)
                    return False
                if not target.is_dir():
                    raise
                # A run whose scores were deleted is not finished, so it is replaced.
                aside = beside.with_name(f"{beside.name}-old")
                files.rename(target, aside)
                files.rename(beside, target)
                shutil.rmtree(aside, ignore_errors=True)
        return True
