"""`taskloom.run`: from an experiment, in Python or in a file, to the table of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from taskloom.core.files import path_of
from taskloom.core.plan import sharing
from taskloom.experiments.execute import engines, jobs, trackers
from taskloom.experiments.execute.driver import Driver, ExperimentState, Watch
from taskloom.experiments.execute.progress import given_progress, watching
from taskloom.experiments.execute.until import ask_until_certain
from taskloom.experiments.spec import cells
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.spec.cells import Cell
from taskloom.experiments.spec.experiment import Experiment
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from taskloom.recipe.recipe import task_name

if TYPE_CHECKING:
    from taskloom.recipe.tasks import Task


@dataclass(frozen=True)
class Outcome:
    """Result of an experiment.

    Attributes:
        store: Store of its runs.
        cells: All its cells.
        state: Number of finished cells, and why others failed.
    """

    store: Store
    cells: list[Cell]
    state: ExperimentState

    @property
    def runs(self) -> list[str]:
        """Digests of the cells that are finished."""
        return [cell.run for cell in self.cells if cell.run in self.store]

    @property
    def table(self) -> Runs:
        """The finished runs as a table."""
        return Runs(self.store, dict.fromkeys(self.runs))


@dataclass(frozen=True)
class DryRun:
    """Plan of an experiment: its cells, which of them are finished, and the estimated cost of the
    rest.
    """

    cells: list[Cell]
    present: set[str]
    failed: dict[str, str]
    estimate: jobs.CostEstimate


def dry_run(
    experiment: Experiment | Sequence[Experiment], store: str | Path | None = None
) -> DryRun:
    """Plan an experiment, or several as one, without running or writing anything."""
    together = _together(experiment)
    table = _cells(together)
    path = path_of(store or together[0].store)
    opened = Store(path) if path.is_file() or (path.is_dir() and any(path.iterdir())) else None
    present = set(opened.names()) if opened is not None else set()
    missing = [cell for cell in table if cell.run not in present]
    failed = opened.failures() if opened is not None else {}
    return DryRun(
        table,
        {cell.run for cell in table} & present,
        {cell.run: failed[cell.run].reason for cell in missing if cell.run in failed},
        jobs.estimate(opened, missing),
    )


def _names(tracker: str | Sequence[str]) -> list[str]:
    return [tracker] if isinstance(tracker, str) else list(tracker)


def fill(
    experiment: Experiment | Sequence[Experiment],
    store: str | Path | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    tracker: str | Sequence[str] = (),
    watch: Watch | None = None,
) -> Outcome:
    """Run the missing cells of an experiment; see `run`.

    Several experiments are run as one, with the resources and the store of the first, so that
    processes start only once.
    """
    together = _together(experiment)
    table = _cells(together)
    opened = Store(store or together[0].store, create=True)
    resources = together[0].resources
    gpus = 1.0 if resources.gpus == "auto" else float(resources.gpus)
    tracked = dict.fromkeys([*(name for one in together for name in one.track), *_names(tracker)])
    engines.check_name(engine)
    trackers.check_names(tracked)
    present = set(opened.names())
    _price([cell for cell in table if cell.run in present], opened)
    if all(cell.run in present for cell in table):
        return Outcome(opened, table, ExperimentState(len(table), len(table)))
    tracking = trackers.Tracking(tracked, opened)
    trained = [cell for cell in table if cell.until is None]
    asked = [cell for cell in table if cell.until is not None]
    state = ExperimentState(len(trained), len(trained))
    if any(cell.run not in present for cell in trained):
        if engine == "local" and any(map(_defined_here, trained)):
            engine = "here"  # other processes could not import their tasks
        started = engines.start(
            engine, workers=workers, cpus=resources.cpus, gpus=gpus, address=address
        )
        state = Driver(opened, trained, started, resources, watch, tracking=tracking).run()
    if asked:
        ask_until_certain(opened, asked, state, watch, tracking)
    outcome = Outcome(opened, table, state)
    opened.refresh_index()
    return outcome


def _price(finished: Sequence[Cell], store: Store) -> None:
    """Update the costs of finished runs whose learners' prices were added or changed later."""
    priced = [cell for cell in finished if getattr(cell.learner, "price", None) is not None]
    if priced:
        from taskloom.experiments.rescore import price_run

        for cell in priced:
            price_run(store, cell)


def _together(experiment: Experiment | Sequence[Experiment]) -> list[Experiment]:
    return [experiment] if isinstance(experiment, Experiment) else list(experiment)


def _cells(experiments: Sequence[Experiment]) -> list[Cell]:
    """Cells of several experiments, without duplicates."""
    with sharing():
        return list({cell.run: cell for one in experiments for cell in cells.expand(one)}.values())


def _defined_here(cell: Cell) -> bool:
    """True if a cell needs a task or learner that is defined only in this process: in a notebook or
    in the running script.
    """
    modules = {data.recipe.suite.module for data in cell.datasets} | {type(cell.learner).__module__}
    return "__main__" in modules


class FurtherKeys(TypedDict, total=False):
    """Keys of an experiment that `run` passes on; `Experiment` describes them and checks their
    values.
    """

    tasks: str | Sequence[str]
    best_of: int | Mapping[str, Any]
    train: str
    evaluate: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
    limit: int
    until: float | str | Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    keep: Mapping[str, Any]
    resources: Mapping[str, Any]
    track: str | Sequence[str]


def run(
    experiment: str | Path | Experiment | None = None,
    *,
    recipes: Sequence[str | Mapping[str, Any] | Task] | str | Task | None = None,
    learners: Sequence[str | Mapping[str, Any]] | str | None = None,
    seeds: int | Sequence[int] = 1,
    store: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    tracker: str | Sequence[str] = (),
    progress: Watch | bool | None = None,
    watch: Watch | bool | None = None,
    **more: Unpack[FurtherKeys],
) -> Runs:
    """Run recipes x learners x seeds and return the table of the runs. Runs that are already in the
    store are not repeated.

    Args:
        experiment: A YAML file, instead of the arguments that follow.
        recipes: Names, files, blocks, or tasks of `@tl.task`. Tasks defined in a notebook or in the
            running script are run in this process, one run after the other.
        learners: Names or blocks.
        seeds: Number of seeds, or a list of seeds.
        store: Folder of the runs. Default: `runs`.
        engine: `local` or `ray`.
        workers: Number of processes. Default: number of cores.
        address: Address of a Ray cluster.
        tracker: Also log curves and finished runs to `trackio`, `wandb` or `mlflow`, or several.
        progress: True to show progress: a table on a terminal, a line in a notebook or a log.
            Default: in notebooks only. Or a function that is called regularly with the state of the
            experiment.
        watch: The old name of `progress`; deprecated.
        **more: Further keys of an experiment: `tasks`, `best_of`, `train`, `evaluate`, `limit`,
            `grid`, `keep`, `resources`, `track`.
    """
    if experiment is None:
        given = {"recipes": _named(recipes), "learners": learners, "seeds": seeds, **more}
        checked = spec.check({k: v for k, v in given.items() if v is not None}, "taskloom.run")
    elif recipes or learners or more:
        raise spec.ExperimentError(
            "taskloom.run takes an experiment or its recipes and learners, not both"
        )
    else:
        checked = experiment if isinstance(experiment, Experiment) else spec.read(experiment)
    with watching(given_progress(progress, watch)) as show:
        outcome = fill(
            checked,
            store,
            engine=engine,
            workers=workers,
            address=address,
            tracker=tracker,
            watch=show,
        )
    if outcome.state.failed:
        _warn(outcome)
    return outcome.table


def _named(recipes: Any) -> Any:
    """Recipes in the form that experiments use: tasks by their names."""
    if isinstance(recipes, list | tuple):
        return [task_name(one) or one for one in recipes]
    return task_name(recipes) or recipes


def _warn(outcome: Outcome) -> None:
    import warnings

    first = next(iter(outcome.state.failed.values()))
    warnings.warn(
        f"{len(outcome.state.failed)} of {len(outcome.cells)} runs failed; the first: {first}; call"
        " taskloom.run again to retry them",
        stacklevel=3,
    )
