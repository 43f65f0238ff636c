"""The worker runs jobs, in any process and on any machine.

A job consists of plain values, so that any engine can send it. It makes a dataset, or it trains and
scores one or several cells: one learner and seed; many seeds of one learner as one stacked program;
or many tasks in one mixed batch. Each cell is written to its own folder. While a job runs, a small
file in its folder records its progress, which the driver can read from any machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import sys
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.core.errors import TaskloomError
from taskloom.core.files import json_digest
from taskloom.data import dataset
from taskloom.data import make as making
from taskloom.experiments import files as run_files
from taskloom.experiments.execute.predictions import (
    asked_as,
    choosing_rows,
    data_folder,
    dataset_in,
    mean_score,
    part_of,
    read_examples,
    read_part,
    reply_counts,
    reply_measures,
    reply_rows,
    score_split,
    scorer_name,
    training_rows,
    write_replies,
)
from taskloom.experiments.files import StoreError, environment
from taskloom.experiments.spec.cell_data import CellData
from taskloom.experiments.spec.cells import Cell, expand
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store
from taskloom.learners.interface import Fitted, Learner, Point, Progress, measured, noted, watched

FILE = "progress.json"

CURVE = "curve.jsonl"
"""File in the folder of a running job: points of the learning curves of its runs, one line per
measurement.
"""

EVERY = 1.0
"""Seconds between two writes of the progress. Short for a waiting user, negligible for a file
system.
"""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress of a job.

    Attributes:
        step: Number of finished training steps, of `steps`; both are 0 for learners without steps.
        steps: Training steps in all.
        loss: The training loss.
        answered: Number of answered inputs of the current split, of `inputs`.
        inputs: Number of inputs of the current split; 0 while training.
        note: Current activity, such as a wait that an endpoint asked for.
    """

    step: int = 0
    steps: int = 0
    loss: float | None = None
    answered: int = 0
    inputs: int = 0
    note: str = ""

    @property
    def share(self) -> float:
        """Estimated share of finished work. Training counts as nine tenths of the total."""
        if not self.steps:
            return 0.0
        return 0.9 * self.step / self.steps

    def __str__(self) -> str:
        if self.inputs:
            note = f" ({self.note})" if self.note else ""
            return f"answered {self.answered:,} of {self.inputs:,} inputs{note}"
        if self.steps:
            loss = "" if self.loss is None else f", loss {self.loss:.3g}"
            return f"step {self.step:,} of {self.steps:,}{loss}"
        return ""


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[None]:
    """Write the progress of training and answering inside the block to a file in the folder."""
    last = time.monotonic()
    latest = JobProgress()

    def write(progress: JobProgress) -> None:
        nonlocal last, latest
        latest = progress
        if time.monotonic() - last < EVERY and not progress.note:
            return
        last = time.monotonic()
        # A full disk stops the run elsewhere, and progress is optional.
        with contextlib.suppress(OSError, ValueError):
            beside = folder / f".{FILE}"
            beside.write_text(json.dumps(asdict(progress), allow_nan=False), encoding="utf-8")
            os.replace(beside, folder / FILE)

    def step(progress: Progress) -> None:
        write(JobProgress(progress.step, progress.steps, progress.loss))

    def answer(done: int, total: int) -> None:
        write(JobProgress(latest.step, latest.steps, latest.loss, done, total))

    def note(text: str) -> None:
        write(replace(latest, note=text))

    with watched(step, answer), noted(note):
        yield


def read_progress(folder: Path) -> JobProgress | None:
    """Read the progress of a job; None if it has not reported any."""
    try:
        return JobProgress(**json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def curves_written(folder: Path, members: Sequence[Sequence[str]]) -> Iterator[None]:
    """Write the learning curves of training inside the block to a file in the folder.

    Args:
        folder: Folder of the job.
        members: Runs of each member of the stack; empty for those that are not followed.
    """

    def write(member: int, points: Sequence[Point]) -> None:
        runs = members[member] if member < len(members) else []
        if not runs:
            return
        line = json.dumps({"runs": runs, "points": [asdict(point) for point in points]})
        # A full disk stops the run elsewhere, and following it is optional.
        with contextlib.suppress(OSError), (folder / CURVE).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    with measured(write):
        yield


def read_points(folder: Path, begin: int) -> tuple[list[dict[str, Any]], int]:
    """Read the points of a job's learning curves that were added since the last call.

    Args:
        folder: Folder of the job.
        begin: Position in the file where the last call ended; 0 for the first.

    Returns:
        Runs and points of each measurement, and the new position.
    """
    try:
        with (folder / CURVE).open("rb") as file:
            file.seek(begin)
            data = file.read()
    except OSError:
        return [], begin
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        with contextlib.suppress(ValueError):  # the line of a worker that was killed
            found.append(json.loads(line))
    return found, begin + len(whole)


def _followed(cells: Sequence[Cell]) -> list[str]:
    """Runs whose learning curves can be followed. If the best of several tries is kept, the curve is
    known only at the end.
    """
    return [cell.run for cell in cells if cell.keep.curves and cell.best_of.seeds == 1]


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors of the operating system for a store that cannot grow."""

SHARED = "shared"
"""Kind of a job in which one model answers a different task for each cell, because training has
none of these tasks.
"""

ATTEMPTS = 5
"""Maximum attempts to create a folder that another driver removes. Each takes microseconds, and a
job ends only once.
"""

ENDPOINT_ANSWERS = "work/endpoint-answers.sqlite"
"""Path in a store of the cached answers of endpoints, so that none is paid for twice."""

TOGETHER = "together.json"
"""File in the folder of an unfinished job: the runs that are trained as one program, so that the
next driver resumes it unchanged.
"""


@dataclass(frozen=True)
class Job:
    """Unit of work for a worker.

    Attributes:
        name: Its name for engines; also that of its folder for checkpoints and its log.
        store: The folder of the store, as the worker sees it.
        kind: `data` makes a dataset; `alone`, `seeds`, `tasks` and `shared` run cells.
        configs: The cells, each as its config.
        runs: Digests of the cells. Only those that are missing from the store are published.
        data: For kind `data`: key of the dataset.
        cpus: Number of cores.
        gpus: Number of GPUs.
    """

    name: str
    store: str
    kind: str
    configs: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[str, ...] = ()
    data: str = ""
    cpus: int = 1
    gpus: float = 0.0


@dataclass(frozen=True)
class JobResult:
    """Result of a job.

    Attributes:
        name: Name of the job.
        failed: Reason for each failed cell (or dataset key), in one sentence.
        seconds: Duration.
        fatal: Why the whole experiment must stop, such as a full disk or a folder that cannot be
            written.
        published: Runs that this job, and no other, moved into place.
    """

    name: str
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    fatal: str = ""
    published: tuple[str, ...] = ()


def perform(job: Job) -> JobResult:
    """Run a job. Errors are returned as reasons in the result, never raised."""
    try:
        return _perform(job)
    except StoreError as error:
        return JobResult(job.name, fatal=str(error))


def _perform(job: Job) -> JobResult:
    began = time.monotonic()
    store = Store(job.store)
    folder = job_folder(store, job.name)
    with run_files.writing(store.path):
        folder.mkdir(parents=True, exist_ok=True)
        if len(job.runs) > 1:
            (folder / TOGETHER).write_text(json.dumps(job.runs), encoding="utf-8")
    published: list[str] = []
    with capture_output(folder / run_files.LOG), recorded(folder):
        try:
            cells = [_cell(config, job.kind == SHARED) for config in job.configs]
            _check_versions(cells, job)
            if job.kind == "data":
                failed = _make(store, job, cells[0])
            else:
                failed = _run(store, job, cells, folder, published)
        except StoreError:
            raise
        except Exception as error:
            names = (job.data,) if job.kind == "data" else job.runs
            failed = dict.fromkeys(names, reason(error))
    if failed:
        # The log is kept, but a later driver resumes a job only if it was killed.
        (folder / TOGETHER).unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return JobResult(job.name, failed, time.monotonic() - began, published=tuple(published))


def _check_versions(cells: Sequence[Cell], job: Job) -> None:
    """Check that driver and worker have the same digests of cells. On a cluster their code may
    differ.
    """
    for cell, run in zip(cells, job.runs, strict=True):
        if cell.run != run:
            raise TaskloomError(
                f"{cell} is {cell.run[:8]}… for this worker and {run[:8]}… for the driver: they"
                " have different versions of taskloom or of a task; install the same one"
                " everywhere"
            )


def job_folder(store: Store, name: str) -> Path:
    """Folder of an unfinished job, with its checkpoints and its log."""
    return store.path / "work" / "jobs" / name


def _cell(config: Mapping[str, Any], zero_shot: bool) -> Cell:
    """Cell of a config. Runs that differ only in seed or task share recipe, plan and learner."""
    [seed] = config["seeds"]
    tasks = config.get("tasks")
    # The cached template has seed 0 and all tasks; those of the run are put in below.
    shared = {**config, "seeds": [0], **({"tasks": "mixed"} if tasks else {})}
    task = tasks[0] if isinstance(tasks, list) else ""
    return dataclasses.replace(
        _template(json.dumps(shared)), seed=seed, task=task, zero_shot=zero_shot
    )


@lru_cache(maxsize=64)
def _template(config: str) -> Cell:
    return expand(check(json.loads(config), "the run's configuration"))[0]


def _make(store: Store, job: Job, cell: Cell) -> dict[str, str]:
    """Make one dataset of a cell, unless it exists."""
    data = {d.key: d for d in cell.datasets}[job.data]
    folder = data_folder(store, job.data)
    try:
        if not (folder / dataset.MANIFEST).is_file():
            making.make(data.recipe, folder, seed=data.seed)
    except Exception as error:
        _raise_if_full(store, error)
        return {job.data: reason(error)}
    return {}


def _run(
    store: Store, job: Job, cells: list[Cell], folder: Path, published: list[str]
) -> dict[str, str]:
    """Train, answer, score and publish, and record what was published. A stack that cannot be
    trained together is trained one by one.
    """
    missing = [cell for cell in cells if cell.run not in store]
    if not missing:
        return {}
    began = time.monotonic()
    open_runs = {cell.run for cell in missing}
    if len(cells) > 1:
        try:
            fit = {"seeds": _fit_seeds, "tasks": _fit_tasks, SHARED: _fit_shared}[job.kind]
            if job.kind == SHARED:
                members = [_followed(missing)]
            else:
                members = [_followed([cell] if cell.run in open_runs else []) for cell in cells]
            with curves_written(folder, members):
                fitted = fit(store, cells, folder / "together")
        except StoreError:
            raise
        except Exception as error:
            _raise_if_full(store, error)
            print(f"together: {reason(error)}; each is trained alone now")
            shutil.rmtree(folder / "together", ignore_errors=True)
            return _one_by_one(store, missing, folder, published)
        each = (time.monotonic() - began) / len(cells)
        began = time.monotonic()
        answers = _answer_tasks(store, cells, fitted) if job.kind == "tasks" else {}
        each += (time.monotonic() - began) / len(cells)
        failed: dict[str, str] = {}
        for cell, chosen in zip(cells, fitted, strict=True):
            if cell.run in open_runs:
                how = TrainedHow(each, job.kind, len(cells))
                failed |= finish_run(
                    store, cell, chosen, folder, how, published, answers.get(cell.run)
                )
        return failed
    return _one_by_one(store, missing, folder, published)


def _one_by_one(
    store: Store, cells: Sequence[Cell], folder: Path, published: list[str]
) -> dict[str, str]:
    failed: dict[str, str] = {}
    for cell in cells:
        began = time.monotonic()
        try:
            with curves_written(folder, [_followed([cell])]):
                chosen = fit_alone(store, cell, folder / cell.run)
        except StoreError:
            raise
        except Exception as error:
            _raise_if_full(store, error)
            failed[cell.run] = reason(error)
            continue
        how = TrainedHow(time.monotonic() - began, own_log=len(cells) == 1)
        failed |= finish_run(store, cell, chosen, folder, how, published)
    return failed


def _raise_if_full(store: Store, error: BaseException) -> None:
    """Raise a `StoreError` if the disk is full or read-only, which is not the cell's fault and ends
    the experiment.
    """
    cause: BaseException | None = error
    while cause is not None:
        # safetensors wraps the system's error in its own, with the number only in the message
        number = getattr(cause, "errno", None) or next(
            (n for n in NO_ROOM if f"os error {n})" in str(cause)), None
        )
        if number in NO_ROOM:
            with run_files.writing(store.path):
                raise OSError(number, os.strerror(number))
        cause = cause.__cause__


def reason(error: BaseException) -> str:
    """Explain an error in one sentence. For a bug, print the traceback to the log."""
    if isinstance(error, TaskloomError):
        return str(error)
    traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f" ({Path(last.filename).name}, line {last.lineno})" if last else ""
    return f"{type(error).__name__}: {error}{where}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model of a run and, if it was chosen among tries, how."""

    model: Fitted
    choice: Mapping[str, Any] = field(default_factory=dict)


def fit_alone(store: Store, cell: Cell, folder: Path) -> Chosen:
    """Train one cell. With several tries, keep the one with the highest mean score on the split
    that chooses.
    """
    train, tests = _splits(store, cell)
    learner: Any = _to_the_end(_with_cache(store, cell), cell, tests)
    if getattr(learner, "shots", 0) and isinstance(cell.data, CellData):
        train = asked_as(learner, cell.data, train)
    if cell.best_of.seeds == 1:
        return Chosen(learner.fit(train, tests, cell.seed, folder=folder))
    scores: list[float] = []
    best: Fitted | None = None
    for model in _tries(learner, train, tests, cell.tries, folder):
        score = mean_score(store, cell, model, cell.best_of.split)
        if best is None or score > max(scores):  # the first of equal scores
            best = model
        scores.append(score)
    assert best is not None
    seed = cell.tries[scores.index(max(scores))]
    return Chosen(
        best, {"by": cell.best_of.split, "seeds": cell.tries, "scores": scores, "seed": seed}
    )


def _tries(
    learner: Any, train: Any, tests: Any, seeds: Sequence[int], folder: Path
) -> Iterator[Fitted]:
    """Yield a model for each seed, trained as one program if the learner supports it."""
    if hasattr(learner, "fit_many"):
        yield from learner.fit_many(train, tests, list(seeds), folder=folder)
        return
    for seed in seeds:
        yield learner.fit(train, tests, seed, folder=folder / str(seed))


def _fit_shared(store: Store, cells: Sequence[Cell], folder: Path) -> list[Chosen]:
    """Train one model for all cells. Training has none of their tasks, so all of them learn from
    the whole split.
    """
    return [fit_alone(store, cells[0].of_all_tasks, folder)] * len(cells)


def _with_cache(store: Store, cell: Cell) -> Learner:
    """Return the learner with a cache in the store, if it keeps replies and has no cache of its
    own.

    There is no cache if the model is kept, because its card would name a file of this machine.
    """
    learner: Any = cell.learner
    keeps_replies = getattr(learner, "keeps_replies", False)
    if not keeps_replies or learner.cache or cell.keep.model:
        return cell.learner
    replaced: Learner = dataclasses.replace(
        learner, cache=str((store.path / ENDPOINT_ANSWERS).resolve())
    )
    return replaced


def _fit_seeds(store: Store, cells: Sequence[Cell], folder: Path) -> list[Chosen]:
    train, tests = _splits(store, cells[0])
    learner: Any = cells[0].learner
    models: list[Fitted] = learner.fit_many(
        train, tests, [cell.seed for cell in cells], folder=folder
    )
    return [Chosen(model) for model in models]


def _fit_tasks(store: Store, cells: Sequence[Cell], folder: Path) -> list[Chosen]:
    parts = {cell.run: _splits(store, cell) for cell in cells}
    tests = {
        test.name: {run: part[1][test.name] for run, part in parts.items()}
        for test in cells[0].tests
    }
    learner: Any = cells[0].learner
    train = {run: part[0] for run, part in parts.items()}
    models: dict[str, Fitted] = learner.fit_tasks(train, tests, cells[0].seed, folder=folder)
    return [Chosen(models[cell.run]) for cell in cells]


def _answer_tasks(
    store: Store, cells: Sequence[Cell], fitted: Sequence[Chosen]
) -> dict[str, dict[str, list[str]]]:
    """Answers by run and split, for models that answer in one batch; empty if they answer one by
    one.

    The batch always has all runs of the stack, even if some are finished: its composition must not
    depend on when a run was interrupted.
    """
    learner: Any = cells[0].learner
    if not hasattr(learner, "answer_tasks"):
        return {}
    models = {cell.run: chosen.model for cell, chosen in zip(cells, fitted, strict=True)}
    answers: dict[str, dict[str, list[str]]] = {cell.run: {} for cell in cells}
    try:
        for place, test in enumerate(cells[0].tests):
            own = {cell.run: cell.tests[place] for cell in cells}
            parts = {
                c.run: part_of(store, c, own[c.run].data, test.split, own[c.run].limit)
                for c in cells
            }
            inputs = {run: [e.input for e in read_examples(part)] for run, part in parts.items()}
            for run, some in learner.answer_tasks(models, inputs).items():
                answers[run][test.name] = some
    except StoreError:
        raise
    except Exception as error:  # one task with inputs that are too long must not fail the others
        _raise_if_full(store, error)
        print(f"together: {reason(error)}; each answers alone now")
        return {}
    return answers


def _splits(store: Store, cell: Cell) -> tuple[Any, dict[str, Any]]:
    """Training rows, and the evaluated splits that have rows."""
    tests = {
        test.name: read_part(part_of(store, cell, test.data, test.split, test.limit))
        for test in cell.tests
    }
    evaluated: dict[str, Any] = {name: rows for name, rows in tests.items() if len(rows)}
    split = cell.best_of.split
    # The splits of a mix are called RECIPE:dev, so patience would not find `dev` among them.
    stops_early = bool(_patience(cell)) and split not in evaluated
    if cell.best_of.seeds > 1 or stops_early:
        choosing = choosing_rows(store, cell)
        if choosing:
            evaluated = {split: choosing, **evaluated}
    return training_rows(store, cell), evaluated


def _patience(cell: Cell) -> int:
    return int((cell.settings.get("training") or {}).get("patience") or 0)


def _to_the_end(learner: Any, cell: Cell, tests: Mapping[str, Any]) -> Any:
    """The learner without early stopping, if its task has no row in the split used for stopping
    although the recipe has that split. One small task must not fail the others.
    """
    split = cell.best_of.split
    named = {one.name for part in cell.data.parts for one in part.plan.splits}
    if not _patience(cell) or split in tests or split not in named:
        return learner
    print(f"{cell.task or cell.data.name} has no row in '{split}': trained to the end")
    return dataclasses.replace(learner, training=dataclasses.replace(learner.training, patience=0))


@dataclass(frozen=True, slots=True)
class TrainedHow:
    """Facts about a cell's training.

    Attributes:
        seconds: Its share of the seconds.
        kind: Kind of the job.
        together: Number of cells trained together.
        own_log: True if the whole output of the job belongs to this cell.
    """

    seconds: float
    kind: str = "alone"
    together: int = 1
    own_log: bool = False


@dataclass(frozen=True, slots=True)
class AskedRecord:
    """Result of asking a split until its accuracy was certain.

    Attributes:
        summary: Items, interval, tokens and cost, and why asking stopped.
        replies: Records of the learner's replies, in the order of the split.
    """

    summary: Mapping[str, Any]
    replies: Sequence[Mapping[str, Any]] = ()


def finish_run(
    store: Store,
    cell: Cell,
    chosen: Chosen,
    folder: Path,
    how: TrainedHow,
    published: list[str],
    answers: Mapping[str, Sequence[str]] | None = None,
    asked: Mapping[str, AskedRecord] | None = None,
) -> dict[str, str]:
    """Answer and score the test splits, move the run into place, and record it unless another job
    was first.
    """
    began, model = time.monotonic(), chosen.model
    beside = store.path / "work" / f".tmp-{cell.run}-{uuid.uuid4().hex[:8]}"
    try:
        parts, scores, replies = [], {}, []
        for test in cell.tests:
            part, scores[test.name] = score_split(
                store, cell, model, test, (answers or {}).get(test.name)
            )
            parts.append(part)
            records: Sequence[Mapping[str, Any]] = getattr(model, "replies", ())
            if asked is not None:
                scores[test.name]["asked"] = dict(asked[test.name].summary)
                records = asked[test.name].replies
            own = reply_rows(test.name, part, records)
            replies += own
            if measures := reply_measures(own):
                scores[test.name]["replies"] = measures
        if cell.keep.model:
            with run_files.writing(beside):
                beside.mkdir(parents=True, exist_ok=True)
                model.save(beside / run_files.MODEL)
        if replies and cell.keep.predictions:
            write_replies(beside, replies)
        choice = {**chosen.choice, **_checkpoint(cell, model)}
        spent = how.seconds + time.monotonic() - began
        run_files.write_run(
            beside,
            cell.config(),
            {
                **scores_json(store, cell, scores),
                **({"chosen": choice} if choice else {}),
                **({"replies": reply_counts(replies)} if replies else {}),
            },
            _curves(model) if cell.keep.curves and model.curve else None,
            pa.concat_tables(parts).unify_dictionaries() if cell.keep.predictions else None,
            {
                **environment(cell, how.kind, how.together, spent),
                "parameters": getattr(model, "parameters", None),
            },
            _log(folder, how.own_log),
        )
        if store.publish(cell.run, beside):
            published.append(cell.run)
    except StoreError:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    except Exception as error:
        shutil.rmtree(beside, ignore_errors=True)
        _raise_if_full(store, error)
        return {cell.run: reason(error)}
    return {}


def _checkpoint(cell: Cell, model: Fitted) -> dict[str, Any]:
    """Training step of a model's weights, if `dev` was used to choose among those of several
    steps.
    """
    step = getattr(model, "step", None)
    if not _patience(cell) or step is None:
        return {}
    return {"by": cell.best_of.split, "step": step}


def _curves(model: Fitted) -> pa.Table:
    rows = [
        {name: getattr(point, name) for name in run_files.CURVE_COLUMNS.names}
        for point in model.curve
    ]
    return pa.Table.from_pylist(rows, run_files.CURVE_COLUMNS)


def scores_json(store: Store, cell: Cell, splits: Mapping[str, Any]) -> dict[str, Any]:
    """Contents of scores.json."""
    digests = [dataset_in(data_folder(store, part.key)).digest for part in cell.data.parts]
    return {
        "schema": run_files.SCHEMA,
        "run": cell.run,
        "kind": cell.kind,
        "recipe": cell.data.name,
        "learner": cell.label,
        "seed": cell.seed,
        "fields": cell.fields,
        "scorer": scorer_name(test.data for test in cell.tests),
        "splits": dict(splits),
        "data": digests[0] if len(digests) == 1 else json_digest(digests),
    }


@contextlib.contextmanager
def capture_output(path: Path) -> Iterator[None]:
    """Redirect everything that Python or libraries print inside the block to a file, which survives
    a crash.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with run_files.writing(path):
        handle = _open_log(path)
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # a full disk truncates the log, not the run
                stream.flush()
        for number, old in zip((1, 2), saved, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(handle)


def _open_log(path: Path) -> int:
    """Open a log for appending, even if another driver that ran the same job removes its folder
    meanwhile.
    """
    for _ in range(ATTEMPTS):
        try:
            return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)


def _log(folder: Path, own: bool) -> bytes | Path:
    """Output of a job. The file itself if all of it belongs to one run, which may then keep it."""
    path = folder / run_files.LOG
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        return path if own else path.read_bytes()
    except OSError:
        return b""
