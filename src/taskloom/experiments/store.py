"""The run store: one directory a run, named by the run's digest, there whole or not at all.

    STORE/store.json                 which format this is
    STORE/ab/abcd…/                  a finished run
        config.yaml                  an experiment of this run alone: `taskloom run config.yaml`
        scores.json                  what the table of runs needs
        curves.parquet               step, split, score, loss; for learners that learn in steps
        predictions.parquet          every example with its traits, prediction and score
        scored.arrow                 scores and traits of short predictions once more, which questions about many runs read
        environment.json, log.txt    machine, versions, seconds, what was printed
        model/                       the fitted learner, where `keep` names it
    STORE/data/                      datasets, made once
    STORE/work/                      claims, unfinished runs, checkpoints, reasons of failures

Everything but environment.json and log.txt is a function of the run's digest: the same bytes from every engine, after
any number of kills, on any machine of the same libraries. Times are therefore in environment.json alone.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from taskloom import files
from taskloom.arguments import path_of
from taskloom.arrow import column
from taskloom.experiments import kept_files, score_cache
from taskloom.experiments.kept_files import KEPT, SCORED, SCORED_COLUMNS, KeptFiles, keeping, read_parquet
from taskloom.experiments.run_files import (
    CONFIG,
    CURVE_COLUMNS,
    CURVES,
    DIGEST,
    ENVIRONMENT,
    PREDICTION_COLUMNS,
    PREDICTIONS,
    SCHEMA,
    SCORES,
    STORE,
    StoreError,
    damaged,
    writing,
)
from taskloom.experiments.score_cache import ScoreCache
from taskloom.experiments.score_records import checked_record, record_table
from taskloom.files import atomic
from taskloom.recipe.yaml_files import YamlError, parse


def _not_a_store(path: Path) -> str:
    """Return why a path is not a run store, and what to do."""
    if not path.exists():
        return f"there is no folder {path}; runs are made by 'taskloom run'"
    if path.is_file():
        return f"{path} is a file and not a run store; 'taskloom study' reads files of scores and predictions"
    return f"{path} is not a run store (it has no {STORE}); create one with 'taskloom run'"


class Store:
    """A folder of runs.

    Args:
        path: The folder.
        create: Whether to create it where there is none.
    """

    def __init__(self, path: str | Path, create: bool = False) -> None:
        self.path = path_of(path)
        self._kinds: dict[str, str] = {}
        mark = self.path / STORE
        if not mark.is_file():
            if not create:
                raise StoreError(_not_a_store(self.path))
            self._create(mark)
        self._check(mark)

    @cached_property
    def kept(self) -> KeptFiles:
        """Return what questions about scores have read of this store."""
        return KeptFiles(SCORED, at_once=False)

    def _create(self, mark: Path) -> None:
        if self.path.is_file():
            raise StoreError(f"{self.path} is a file; a run store is a folder")
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            strange = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if strange and STORE not in strange:
                raise StoreError(
                    f"{self.path} is not empty ({sorted(strange)[0]}) and is not a run store; choose another folder as the store"
                )
            with atomic(mark, StoreError) as beside:
                beside.write_text(json.dumps({"format": "taskloom runs", "schema": SCHEMA}) + "\n", encoding="utf-8")

    def _check(self, mark: Path) -> None:
        try:
            schema = json.loads(mark.read_text(encoding="utf-8"))["schema"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f'{mark} is damaged ({error}); restore it: it holds {{"schema": {SCHEMA}}}') from error
        if schema != SCHEMA:
            age = "an older" if isinstance(schema, int) and schema < SCHEMA else "another"
            raise StoreError(
                f"{self.path} was made by {age} version of taskloom (schema {schema}, this one writes {SCHEMA}); its runs are "
                "untouched: read them with that version, or choose another folder as the store"
            )

    def folder(self, run: str) -> Path:
        """Return the folder of a run, finished or not."""
        return Path(f"{self.path}/{run[:2]}/{run}")  # three paths joined take three times as long

    def __contains__(self, run: str) -> bool:
        return files.is_readable(self.folder(run) / SCORES)

    def names(self) -> list[str]:
        """Return the digests of all finished runs, sorted; not folders that were renamed by hand or lost their scores."""
        runs: list[str] = []
        for group in files.listing(self.path):
            path = f"{self.path}/{group}"
            if len(group) == 2 and os.path.isdir(path):
                names = [name for name in files.listing(path) if DIGEST.fullmatch(name) and name[:2] == group]
                runs += [name for name in names if os.path.exists(f"{path}/{name}/{SCORES}")]
        return sorted(runs)

    def scores(self, run: str) -> dict[str, Any]:
        """Read scores.json of a run."""
        path = f"{self.path}/{run[:2]}/{run}/{SCORES}"
        kept = KEPT.get()
        if kept is None:
            return self._read_scores(run, path)
        if path not in kept.scores:
            kept.scores[path] = self._read_scores(run, path)
        return kept.scores[path]

    def _read_scores(self, run: str, path: str) -> dict[str, Any]:
        try:
            with open(path, "rb", buffering=0) as file:
                text = file.readall()
            scores = json.loads(text)
            if b"\\u" in text and b"\\ud" in text.lower():
                json.dumps(
                    scores, ensure_ascii=False
                ).encode()  # half of a character is a ValueError, here and not in a table
        except FileNotFoundError:
            raise StoreError(f"{self.path} has no run {run}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise damaged(path, str(error)) from error
        checked = checked_record(scores, run, path)
        self._kinds[run] = checked["kind"]
        return checked

    def kind(self, run: str) -> str:
        """Return what runs that differ only in the seed have in common; what the table of runs has read is not read again."""
        if run not in self._kinds:
            self._kinds[run] = self.scores(run)["kind"]
        return self._kinds[run]

    def config(self, run: str) -> str:
        """Read config.yaml of a run, as text that is a YAML mapping."""
        path = self.folder(run) / CONFIG
        try:
            text = path.read_text(encoding="utf-8")
            sound = isinstance(parse(text, ours=True), dict)
        except (OSError, ValueError, YamlError) as error:
            raise damaged(path, str(error).splitlines()[0]) from error
        if not sound:
            raise damaged(path, "it is not a mapping")
        return text

    def environment(self, run: str) -> dict[str, Any]:
        """Read machine, versions and seconds of a run; empty where the file was lost, since no result depends on it."""
        try:
            environment = json.loads((self.folder(run) / ENVIRONMENT).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return environment if isinstance(environment, dict) else {}

    def runs(self, names: Iterable[str] | None = None, *, seconds: bool = False) -> pa.Table:
        """Return a table with a row per run and split: run, recipe, learner, seed, one column per field, split, n, score, and
        one column per score that the suites compute themselves (`score.C@90`).

        Rows are sorted by everything but the digest, so that equal stores have equal tables.

        Args:
            names: Digests of the runs; all by default.
            seconds: Also how long each run took. Not part of the plain table, which is the same on every machine.
        """
        chosen = self.names() if names is None else list(names)
        scores = [self.scores(run) for run in chosen]
        took = {run: self.environment(run).get("seconds") for run in chosen} if seconds else None
        return record_table(scores, took)

    def predictions(
        self,
        runs: Iterable[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        splits: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the predictions of runs as one table, with the run's own columns (run, recipe, learner, seed) in front.

        Args:
            runs: Digests; all by default.
            columns: Of predictions.parquet; all by default.
            splits: Only these splits.
        """
        return self._gather(PREDICTIONS, PREDICTION_COLUMNS, runs, columns, splits)

    def curves(self, runs: Iterable[str] | None = None) -> pa.Table:
        """Return the learning curves of runs as one table, with the run's own columns in front."""
        return self._gather(CURVES, CURVE_COLUMNS, runs, None, None)

    def keeps_predictions(self, run: str) -> bool:
        """Return whether a run kept what it answered to each input."""
        return os.path.isfile(f"{self.path}/{run[:2]}/{run}/{PREDICTIONS}")

    def keeps_item_scores(self, run: str) -> bool:
        """Return whether the score of each input is known, and not only the mean."""
        return self.keeps_predictions(run)

    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Read columns of a Parquet file of a run; None where the run did not keep it."""
        path = f"{self.path}/{run[:2]}/{run}/{file}"
        return read_parquet(Path(path), columns) if os.path.isfile(path) else None

    def scored_rows(self, runs: Sequence[str], columns: Sequence[str], n: int) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return columns of the predictions of runs, one run after the other, and how many rows each has.

        Many small files are opened once and for all; see `taskloom.experiments.score_cache`.

        Args:
            runs: Digests. One that kept no predictions has no rows.
            columns: Some of `SCORED`.
            n: How many rows there are about.
        """
        if n <= score_cache.MOST_ROWS:
            kept = KEPT.get()
            if kept is not None and kept.at_once:  # whose files are in memory, and are asked for again and again
                kept.together = kept.together or self._scores_together(
                    lambda path, names: read_parquet(Path(path), names), saved=False
                )
                return kept.together.rows(runs, columns)
            if len(runs) >= score_cache.FILES:
                return self._score_cache.rows(runs, columns)
        return self.rows_one_by_one(runs, columns)

    def rows_one_by_one(self, runs: Sequence[str], columns: Sequence[str]) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return what `scored_rows` does, reading each run alone."""
        parts = [pa.Table.from_batches([], pa.schema([PREDICTION_COLUMNS.field(c) for c in columns]))]
        for run in runs:
            rows = self.rows(run, PREDICTIONS, columns)
            parts.append(parts[0] if rows is None else rows)
        counts = np.array([part.num_rows for part in parts[1:]], np.int64)
        return pa.concat_tables(parts).unify_dictionaries(), counts

    @cached_property
    def _score_cache(self) -> ScoreCache:
        return self._scores_together(kept_files.read_scored_columns, saved=True)

    def _scores_together(self, read: Callable[[str, Sequence[str]], pa.Table], saved: bool) -> ScoreCache:
        folder = str(self.path)
        return ScoreCache(self.path, SCORED_COLUMNS, lambda run: f"{folder}/{run[:2]}/{run}/{PREDICTIONS}", read, saved)

    def _gather(
        self,
        file: str,
        schema: pa.Schema,
        runs: Iterable[str] | None,
        columns: Sequence[str] | None,
        splits: Sequence[str] | None,
    ) -> pa.Table:
        chosen = schema.names if columns is None else list(columns)
        own = ("run", "recipe", "learner", "seed")
        kinds = {"run": pa.string(), "recipe": pa.string(), "learner": pa.string(), "seed": pa.int64()}
        wanted = pa.schema([*((k, kinds[k]) for k in own), *(schema.field(c) for c in chosen)])
        parts = [pa.Table.from_batches([], wanted)]  # empty_table would import pandas
        for run in self.names() if runs is None else runs:
            wide = chosen if splits is None else list(dict.fromkeys([*chosen, "split"]))
            table = self.rows(run, file, wide)
            if table is None:
                continue  # it was not kept
            scores = self.scores(run)
            if splits is not None:
                import pyarrow.compute as pc

                table = table.filter(
                    pc.is_in(table["split"].cast(pa.string()), column(list(splits), pa.string()))
                ).select(chosen)
            for place, name in enumerate(own):
                table = table.add_column(place, name, pa.repeat(column([scores[name]], kinds[name])[0], table.num_rows))
            parts.append(table.cast(wanted))
        return pa.concat_tables(parts).unify_dictionaries()

    def publish(self, run: str, beside: Path) -> bool:
        """Move a finished run into its place; False where somebody else was first."""
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
                aside = beside.with_name(f"{beside.name}-old")  # a run whose scores were deleted is none: it makes room
                files.rename(target, aside)
                files.rename(beside, target)
                shutil.rmtree(aside, ignore_errors=True)
        return True


@contextmanager
def scores_kept(store: Store) -> Iterator[None]:
    """Read the scores, and the traits where they are asked for, of every run once for all blocks with this store."""
    with nullcontext() if KEPT.get() is not None else keeping(store.kept):
        yield
