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

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from taskloom import files
from taskloom.arguments import path_of
from taskloom.arrow import column
from taskloom.errors import DataError
from taskloom.experiments import score_cache
from taskloom.experiments.score_cache import ScoreCache
from taskloom.experiments.scored_file import SCORED_FILE, read_scored, write_scored
from taskloom.files import atomic
from taskloom.recipe.yaml_files import YamlError, parse

SCHEMA = 1
"""Raised whenever stores written before could be misread."""

STORE = "store.json"
CONFIG, SCORES, CURVES, PREDICTIONS = "config.yaml", "scores.json", "curves.parquet", "predictions.parquet"
ENVIRONMENT, LOG, MODEL = "environment.json", "log.txt", "model"

FLEETING = (ENVIRONMENT, LOG, SCORED_FILE)
"""Files that a power cut may take: no result depends on them."""

DIGEST = re.compile("[0-9a-f]{32}")
"""What the folders of runs are called."""

REQUIRED = ("run", "kind", "recipe", "learner", "seed", "fields", "scorer", "splits", "data")
"""Keys that scores.json must have."""

REQUIRED_KEYS = frozenset(REQUIRED)

PLAIN_KEYS = frozenset(("n", "score", "items"))
"""Keys of a split's entry whose values say all: the others have parts."""

KINDS = {"kind": str, "recipe": str, "learner": str, "seed": int, "fields": dict, "scorer": str, "splits": dict}
"""Types of their values, where something depends on them."""

SUITE_SCORE = "score."
"""Stands before the names of scores that a suite computes itself, in the table of runs: `score.C@90`."""

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
"""Of predictions.parquet. Traits are a map from name to value as JSON spells it (text without quotes); candidates and their
log-probabilities are null unless `keep` names them."""

CURVE_COLUMNS = pa.schema(
    [("step", pa.int64()), ("split", pa.string()), ("score", pa.float64()), ("loss", pa.float64())]
)


COLUMNS = {PREDICTIONS: PREDICTION_COLUMNS, CURVES: CURVE_COLUMNS}
"""The columns of the Parquet files of a run."""


class StoreError(DataError):
    """A run store that cannot be read or written."""


def _not_a_store(path: Path) -> str:
    """Return why a path is not a run store, and what to do."""
    if not path.exists():
        return f"there is no folder {path}; runs are made by 'taskloom run'"
    if path.is_file():
        return f"{path} is a file and not a run store; 'taskloom study' reads files of scores and predictions"
    return f"{path} is not a run store (it has no {STORE}); create one with 'taskloom run'"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's errors about writing into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise StoreError(
            f"cannot write to {path}: {why}; every finished run is kept: free space or make the folder writable, then rerun the "
            "command to resume"
        ) from error


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
    def kept(self) -> _KeptFiles:
        """Return what questions about scores have read of this store."""
        return _KeptFiles(SCORED, at_once=False)

    def _create(self, mark: Path) -> None:
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
        kept = _kept.get()
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
            raise _damaged(path, str(error)) from error
        checked = _checked(scores, run, path)
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
            raise _damaged(path, str(error).splitlines()[0]) from error
        if not sound:
            raise _damaged(path, "it is not a mapping")
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
        return _table(scores, took)

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
            kept = _kept.get()
            if kept is not None and kept.at_once:  # whose files are in memory, and are asked for again and again
                kept.together = kept.together or self._scores_together(
                    lambda path, names: read_parquet(Path(path), names), saved=False
                )
                return kept.together.rows(runs, columns)
            if len(runs) >= score_cache.FILES:
                return self._score_cache.rows(runs, columns)
        parts = [pa.Table.from_batches([], pa.schema([PREDICTION_COLUMNS.field(c) for c in columns]))]
        for run in runs:
            rows = self.rows(run, PREDICTIONS, columns)
            parts.append(parts[0] if rows is None else rows)
        counts = np.array([part.num_rows for part in parts[1:]], np.int64)
        return pa.concat_tables(parts).unify_dictionaries(), counts

    @cached_property
    def _score_cache(self) -> ScoreCache:
        return self._scores_together(_read_scored, saved=True)

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


def _damaged(path: str | Path, why: str) -> StoreError:
    return StoreError(f"{path} is damaged ({why}); delete {os.path.dirname(path)} and rerun the experiment")


def _checked(scores: Any, run: str, path: str) -> dict[str, Any]:
    """Return the contents of scores.json; raise an error unless it is of this version, of this run, and whole."""
    if not isinstance(scores, dict):
        raise _damaged(path, "it is not a mapping")
    if scores.get("schema") != SCHEMA:
        raise StoreError(
            f"{path} has schema {scores.get('schema')}, this taskloom reads {SCHEMA}; delete {os.path.dirname(path)}"
        )
    if not scores.keys() >= REQUIRED_KEYS:
        raise _damaged(path, f"it lacks '{next(key for key in REQUIRED if key not in scores)}'")
    for key, kind in KINDS.items():
        if type(scores[key]) is not kind:  # JSON has no subclasses, and True is not a number
            raise _damaged(path, f"'{key}' is {str(scores[key])[:60]!r}")
    for split, entry in scores["splits"].items():
        why = _entry_fault(entry)
        if why:
            raise _damaged(path, f"the split '{split}' {why}")
    if scores["run"] != run:
        raise StoreError(
            f"{path} is of the run {scores['run']}: its folder was renamed; delete it, or give it back its name"
        )
    return scores


def _entry_fault(entry: Any) -> str:
    """Return what is wrong with the scores of a split; empty where nothing is."""
    if type(entry) is dict and entry.keys() <= PLAIN_KEYS and type(entry.get("score")) is float:
        n = entry.get("n")
        if type(n) is int and n >= 0:
            return ""  # nearly all entries: 10,000 runs have 20,000 of them
    if not isinstance(entry, dict):
        return "is not a mapping"
    if "score" not in entry:
        return "has no score"
    n, score = entry.get("n"), entry.get("score")
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        return f"has {str(n)[:60]!r} examples"
    if not (score is None or (isinstance(score, int | float) and not isinstance(score, bool))):
        return f"has the score {str(score)[:60]!r}"
    own = entry.get("scores", {})
    if not isinstance(own, dict) or not all(isinstance(v, int | float) for v in own.values()):
        return "has scores that are not numbers"
    return "" if isinstance(entry.get("by_task", {}), dict) else "has scores by task that are not a mapping"


def _table(scores: list[dict[str, Any]], took: Mapping[str, Any] | None) -> pa.Table:
    fields = sorted({name for one in scores for name in one["fields"]})
    rows = []
    for one in scores:
        values = [one["fields"].get(name) for name in fields]
        head = (one["recipe"], one["learner"], json.dumps(values), one["seed"], one["run"])
        rows += [(head, split, entry, values) for split, entry in one["splits"].items()]
    rows.sort(key=lambda row: (row[0], row[1]))
    columns: dict[str, pa.Array] = {
        "run": column([head[4] for head, *_ in rows], pa.string()),
        "recipe": column([head[0] for head, *_ in rows], pa.string()),
        "learner": column([head[1] for head, *_ in rows], pa.string()),
        "seed": column([head[3] for head, *_ in rows], pa.int64()),
    }
    for place, name in enumerate(fields):
        columns[name] = _column([values[place] for *_, values in rows])
    columns["split"] = column([split for _, split, *_ in rows], pa.string())
    columns["n"] = column([entry["n"] for _, _, entry, _ in rows], pa.int64())
    columns["score"] = column([entry["score"] for _, _, entry, _ in rows], pa.float64())
    for name in sorted({name for _, _, entry, _ in rows for name in entry.get("scores", {})}):
        values = [entry.get("scores", {}).get(name) for _, _, entry, _ in rows]
        columns[SUITE_SCORE + name] = column(values, pa.float64())
    if took is not None:
        columns["seconds"] = column([took[head[4]] for head, *_ in rows], pa.float64())
    return pa.table(columns)


PLAIN: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _column(values: list[Any]) -> pa.Array:
    """Return values of one kind as they are; lists, mappings and mixed kinds as JSON text."""
    kinds = {type(v) for v in values if v is not None}
    if kinds == {int, float}:
        return pa.array(values, pa.float64())
    if len(kinds) == 1 and kinds <= PLAIN.keys():
        return column(values, PLAIN[kinds.pop()])
    if len(kinds) <= 1 and not kinds & {list, dict}:
        return pa.array(values)
    return column(
        [v if v is None or isinstance(v, str) else json.dumps(v, sort_keys=True) for v in values], pa.string()
    )


@dataclass(slots=True)
class _KeptFiles:
    """Files of runs that were read.

    Attributes:
        columns: The columns of predictions that are kept.
        at_once: Whether all of them are read as soon as one is asked for.
        tables: Predictions, by path.
        size: Their bytes in all.
        scores: What scores.json says, by path.
        together: The scores of all of them in one table, where all are read at once.
    """

    columns: tuple[str, ...]
    at_once: bool
    tables: dict[Path, pa.Table] = field(default_factory=dict)
    size: int = 0
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    together: ScoreCache | None = None


_kept: ContextVar[_KeptFiles | None] = ContextVar("kept", default=None)

MOST_KEPT = 2**30
"""Bytes of predictions that are kept in memory; beyond, files are read again."""

SMALL = 2**18
"""Bytes of a Parquet file that is read whole; of a larger one, only the columns that are wanted."""

UNCOMPRESSED = 100
"""Rows up to which a file is not compressed, which would take half of the time of writing and of reading it."""

RARELY_READ = ("candidates", "logprobs")

SCORED = ("split", "index", "task", "score", "traits")
"""The columns that questions about scores read: without texts, which are most of a file."""

SCORED_COLUMNS = pa.schema([PREDICTION_COLUMNS.field(name) for name in SCORED])


@contextmanager
def predictions_kept() -> Iterator[None]:
    """Read every file of predictions and scores once in the block, however often it is asked for: a report asks seven times."""
    with _keeping(_KeptFiles(tuple(c for c in PREDICTION_COLUMNS.names if c not in RARELY_READ), at_once=True)):
        yield


@contextmanager
def scores_kept(store: Store) -> Iterator[None]:
    """Read the scores, and the traits where they are asked for, of every run once for all blocks with this store."""
    with nullcontext() if _kept.get() is not None else _keeping(store.kept):
        yield


@contextmanager
def _keeping(kept: _KeptFiles) -> Iterator[None]:
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file of a run."""
    kept = _kept.get()
    if kept is None or columns is None or path.name != PREDICTIONS or not set(columns) <= set(kept.columns):
        return _read_parquet(path, columns)
    table = kept.tables.get(path)
    if table is None or not set(columns) <= set(table.column_names):
        known = [] if table is None else table.column_names
        wanted = [c for c in kept.columns if kept.at_once or c in columns or c in known]
        kept.size -= 0 if table is None else kept.tables.pop(path).nbytes
        table = _read_parquet(path, wanted)
        size = table.nbytes
        if kept.size + size <= MOST_KEPT:
            kept.tables[path] = table
            kept.size += size
    return table.select(list(columns))


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pa.Table:
    try:
        # Not read_table, which prepares for large files far away: 1.1 ms a small file, this 0.3, and 0.2 for bytes in memory.
        small = path.stat().st_size <= SMALL
        source = pa.BufferReader(path.read_bytes()) if small else path
        with pq.ParquetFile(source, memory_map=not small, pre_buffer=False) as file:
            table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        table = table if columns is None else table.select(list(columns))
        table.validate(full=True)  # a text that is not UTF-8 would be noticed only where it is looked at
        expected = COLUMNS.get(path.name)
        if expected is None:
            return table
        schema = expected if columns is None else pa.schema([expected.field(c) for c in table.column_names])
        return table if table.schema == schema else table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error).splitlines()[0]) from error


def _read_scored(path: str, columns: Sequence[str]) -> pa.Table:
    """Read scored columns of a run's predictions, from their copy where that is sound."""
    table = read_scored(path, columns, SCORED_COLUMNS)
    return _read_parquet(Path(path), columns) if table is None else table


def parquet_content(table: pa.Table) -> pa.Buffer:
    """Return the content of a Parquet file of a run."""
    out = pa.BufferOutputStream()  # Arrow writes a file in many small pieces, which costs twice the time
    pq.write_table(table, out, compression="none" if table.num_rows <= UNCOMPRESSED else "zstd")
    return out.getvalue()


def copy_scored(path: Path, table: pa.Table, content: bytes | pa.Buffer) -> None:
    """Write the copy of the scored columns of predictions beside their file, whose content is given."""
    scored = table.select(list(SCORED))
    write_scored(path, content, scored if scored.schema == SCORED_COLUMNS else scored.cast(SCORED_COLUMNS))


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
        (folder / SCORES).write_text(json.dumps(scores, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
        for table, file in ((curves, CURVES), (predictions, PREDICTIONS)):
            if table is not None:
                content = parquet_content(table)
                (folder / file).write_bytes(content)
                if file == PREDICTIONS:
                    copy_scored(folder / file, table, content)
        (folder / ENVIRONMENT).write_text(json.dumps(environment) + "\n", "utf-8")
        _write_log(folder / LOG, log)
        paths = [os.path.join(here, name) for here, _, names in os.walk(folder) for name in names]
        list(_flushers().map(_flush, (path for path in paths if os.path.basename(path) not in FLEETING)))


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
