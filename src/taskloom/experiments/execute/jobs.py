"""Jobs that fill in the missing cells of an experiment, and an estimate of their cost.

Seeds of one learner are trained as one stacked program, and tasks of one learner in one mixed
batch, if the learner supports it (`fit_many`, `fit_tasks`). The stacking of cells depends only on
the experiment, not on the number of workers, and a killed job resumes with exactly the same cells.
A stack equals its members trained alone only within rounding, and the table must be the same to the
last bit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.core import files
from taskloom.core.errors import TaskloomError
from taskloom.core.files import digest
from taskloom.experiments.execute.worker import SHARED, TOGETHER, Job, job_folder
from taskloom.experiments.files import LOG
from taskloom.experiments.record import BEST_OF_FIELD
from taskloom.experiments.spec.cell_data import CellData
from taskloom.experiments.spec.cells import Cell
from taskloom.experiments.spec.experiment import Resources
from taskloom.experiments.store import Store
from taskloom.learners.config import read as read_learner


def jobs(store: Store, cells: Sequence[Cell], missing: set[str], resources: Resources) -> list[Job]:
    """Plan the jobs that fill in the missing cells, in the experiment's order."""
    unfinished = _interrupted_stacks(store)
    by_run = {cell.run: cell for cell in cells}
    planned: list[Job] = []
    for kind, group in _groups(cells, resources.stack):
        wanted = [cell for cell in group if cell.run in missing]
        if not wanted:
            continue
        names = {cell.run for cell in wanted}
        for before in unfinished if kind != SHARED else ():
            if len(group) > 1 and names <= set(before) <= set(by_run):
                wanted = [by_run[run] for run in before]
                break
        planned.append(
            job(store, wanted, kind if len(wanted) > 1 or kind == SHARED else "alone", resources)
        )
    return planned


def job(store: Store, cells: Sequence[Cell], kind: str, resources: Resources) -> Job:
    """Build the job that runs these cells."""
    runs = tuple(cell.run for cell in cells)
    name = runs[0] if len(runs) == 1 else digest(" ".join(runs))
    gpus = float(_has_device(cells[0])) if resources.gpus == "auto" else float(resources.gpus)
    configs = tuple(cell.config() for cell in cells)
    return Job(name, str(store.path.resolve()), kind, configs, runs, cpus=resources.cpus, gpus=gpus)


def data_job(store: Store, cell: Cell, data: CellData) -> Job:
    """Build the job that makes a dataset of a cell."""
    whole = cell.of_all_tasks
    return Job(
        f"data-{data.key}",
        str(store.path.resolve()),
        "data",
        (whole.config(),),
        (whole.run,),
        data.key,
    )


def _has_device(cell: Cell) -> bool:
    """True if the learner's settings let it use a GPU."""
    settings: dict[str, Any] = cell.settings
    device = settings.get("device", (settings.get("training") or {}).get("device", "cpu"))
    return str(device) != "cpu"


def _groups(cells: Sequence[Cell], most: int) -> Iterable[tuple[str, list[Cell]]]:
    """Group the cells that may be trained together, at most `most` in each group."""
    together: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        together.setdefault(_stack_key(cell), []).append(cell)
    for key, group in together.items():
        size = len(group) if key[0] == SHARED else most
        for start in range(0, len(group), size):
            yield str(key[0]), group[start : start + size]


def _stack_key(cell: Cell) -> tuple[Any, ...]:
    if cell.zero_shot:
        return (SHARED, cell.of_all_tasks.run)
    if cell.best_of.seeds > 1:
        return ("alone", cell.run)
    if hasattr(cell.learner, "fit_many"):
        return ("seeds", cell.kind)
    if hasattr(cell.learner, "fit_tasks"):
        settings = json.dumps(cell.settings, sort_keys=True)
        return (
            "tasks",
            cell.learner_name,
            settings,
            cell.seed,
            bool(cell.train),
            tuple(test.name for test in cell.tests),
        )
    return ("alone", cell.run)


def _interrupted_stacks(store: Store) -> list[list[str]]:
    """Runs of each stack whose job was killed before it ended."""
    stacks = []
    for path in sorted(job_folder(store, "").glob(f"*/{TOGETHER}")):
        try:
            runs = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(runs, list):
            stacks.append([str(run) for run in runs])
    return stacks


@dataclass(frozen=True, slots=True)
class UnfinishedJob:
    """A running or interrupted job.

    Attributes:
        name: Its name.
        log: File with its output so far.
        written: Time of its last write, in seconds since the epoch.
    """

    name: str
    log: Path
    written: float


def unfinished_jobs(store: Store) -> list[UnfinishedJob]:
    """Jobs that have a folder, most recently written first."""
    unfinished = []
    every = job_folder(store, "")
    for name in files.listing(every) if every.is_dir() else ():
        folder = job_folder(store, name)
        log = folder / LOG
        if folder.is_symlink() or not folder.is_dir():
            continue
        with contextlib.suppress(OSError):  # it has ended at this moment
            written = (log if log.is_file() else folder).stat().st_mtime
            unfinished.append(UnfinishedJob(name, log, written))
    return sorted(unfinished, key=lambda job: (job.written, job.name), reverse=True)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Estimated cost of cells.

    Attributes:
        seconds: Total for cells that resemble a finished run: the same except for the seed, or else
            the same learner and settings except for the length of training, by which the seconds
            are scaled.
        known: Number of these cells.
        unknown: Number of cells that resemble no finished run.
    """

    seconds: float
    known: int
    unknown: int


@dataclass(frozen=True, slots=True)
class TrainingLength:
    """Length of a training, and the settings that must be equal for two lengths to be comparable.

    Attributes:
        like: The learner and its settings. Of the settings of the training loop, only the device
            and the precision.
        examples: Steps times batch, over all tries.
    """

    like: str
    examples: int


def estimate(store: Store | None, missing: Sequence[Cell], sample: int = 200) -> CostEstimate:
    """Estimate the cost of missing cells from the seconds of similar finished runs."""
    kinds: dict[str, list[float]] = {}
    per_example: dict[str, list[float]] = {}
    learners = {cell.learner_name for cell in missing}
    for scores, seconds in _finished(store, sample) if store is not None else ():
        kinds.setdefault(scores["kind"], []).append(seconds)
        length = _stored_length(scores) if scores["learner"] in learners else None
        if length is not None:
            per_example.setdefault(length.like, []).append(seconds / length.examples)
    total, known = 0.0, 0
    for cell in missing:
        like = kinds.get(cell.kind)
        length = None if like else _length(cell.learner_name, cell.settings, cell.best_of.seeds)
        if length is not None:
            like = [rate * length.examples for rate in per_example.get(length.like, ())]
        if like:
            total += sum(like) / len(like)
            known += 1
    return CostEstimate(total, known, len(missing) - known)


def _finished(store: Store, sample: int) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield scores and seconds of about `sample` finished runs."""
    names = store.names()
    for run in names[:: max(1, len(names) // sample)]:
        seconds = store.environment(run).get("seconds")
        if isinstance(seconds, int | float):
            yield store.scores(run), seconds


def _length(learner: str, settings: Mapping[str, Any], tries: int) -> TrainingLength | None:
    """Length of a training; None if the settings do not determine it (no steps, or epochs over
    unknown data).
    """
    loop = settings.get("training") or settings
    steps, batch = loop.get("steps"), loop.get("batch")
    if not isinstance(steps, int) or not isinstance(batch, int) or loop.get("epochs"):
        return None
    shape = {
        key: value for key, value in settings.items() if key not in ("training", "steps", "batch")
    }
    machine = [loop.get("device"), loop.get("precision")]
    return TrainingLength(
        json.dumps([learner, shape, machine], sort_keys=True), steps * batch * tries
    )


def _stored_length(scores: Mapping[str, Any]) -> TrainingLength | None:
    """Length of the training of a finished run, from the settings among its fields."""
    fields = dict(scores["fields"])
    tries = fields.pop(BEST_OF_FIELD, 1)
    own = {k.removeprefix("learner."): v for k, v in fields.items() if k.startswith("learner.")}
    try:
        learner: Any = read_learner({**own, "learner": scores["learner"]})
    except TaskloomError:
        return None  # settings from another version, or a learner from a file that is unknown here
    return _length(scores["learner"], json.loads(json.dumps(dataclasses.asdict(learner))), tries)
