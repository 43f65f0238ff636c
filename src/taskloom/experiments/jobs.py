"""Jobs: what the missing cells of an experiment come down to, and what they will cost.

Seeds of one learner are trained as one stacked program, and tasks of one learner in one mixed batch, where the
learner can (`fit_many`, `fit_tasks`). Which cells are stacked follows from the experiment alone, not from the number
of workers, and a job that was killed resumes with the very cells that it had: a stack equals its members trained
alone only within rounding, and the table must come out the same to the last bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.experiments.cell_data import CellData
from taskloom.experiments.cells import Cell
from taskloom.experiments.spec import Resources
from taskloom.experiments.store import Store
from taskloom.experiments.worker import SHARED, TOGETHER, Job
from taskloom.files import digest


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
        planned.append(job(store, wanted, kind if len(wanted) > 1 or kind == SHARED else "alone", resources))
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
    return Job(f"data-{data.key}", str(store.path.resolve()), "data", (whole.config(),), (whole.run,), data.key)


def _has_device(cell: Cell) -> bool:
    """Return whether the learner's settings let it use a GPU."""
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
    """Return the runs of each stack that a kill left behind."""
    stacks = []
    for path in sorted((store.path / "work" / "jobs").glob(f"*/{TOGETHER}")):
        try:
            runs = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(runs, list):
            stacks.append([str(run) for run in runs])
    return stacks


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What is known of the cost of cells.

    Attributes:
        seconds: Of those cells that are like a finished run (the same but for the seed, or else the same learner), in all.
        known: How many cells that is.
        unknown: Cells of learners of which no run has finished.
    """

    seconds: float
    known: int
    unknown: int


def estimate(store: Store | None, missing: Sequence[Cell], sample: int = 200) -> CostEstimate:
    """Estimate the cost of missing cells from the seconds of finished runs like them."""
    kinds: dict[str, list[float]] = {}
    learners: dict[str, list[float]] = {}
    names = store.names() if store is not None else []
    for run in names[:: max(1, len(names) // sample)]:
        assert store is not None
        seconds = store.environment(run).get("seconds")
        if isinstance(seconds, int | float):
            scores = store.scores(run)
            kinds.setdefault(scores["kind"], []).append(seconds)
            learners.setdefault(scores["learner"], []).append(seconds)
    total, known = 0.0, 0
    for cell in missing:
        like = kinds.get(cell.kind) or learners.get(cell.learner_name)
        if like:
            total += sum(like) / len(like)
            known += 1
    return CostEstimate(total, known, len(missing) - known)
