"""Cells: what an experiment comes down to, one for each run, with a digest of everything that determines it.

The digest covers the recipe with all its fields and the suite's version, the digests of outside resources, the data
seed, the learner's name, version and settings (and its code, where it comes from a file), the seed, the splits, what
is kept, and the version of the code that runs and scores. It does not cover machines, engines,
times, how a person spelt the same thing, or a setting that a learner got later (`taskloom.learners.interface.later_setting`)
and that was left alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from taskloom.errors import nearest
from taskloom.experiments.cell_data import CellData, Mix, own_grid, products, read_data
from taskloom.experiments.evaluated_splits import EvaluatedSplit, SplitFinder, spell
from taskloom.experiments.spec import Experiment, ExperimentError, Keep
from taskloom.files import json_digest
from taskloom.learners.config import read as read_learner
from taskloom.learners.interface import LEARNERS, Learner, find_learner
from taskloom.registry import is_python

VERSION = 1
"""Raised whenever the code here would give the same cell other predictions or scores."""


TASK_FIELD = "recipe.task"
"""The field of a run on one task of a recipe of several."""


@dataclass(frozen=True)
class Cell:
    """One run of an experiment.

    Attributes:
        data: What is learned from.
        learner: The checked learner.
        learner_name: As the registry knows it.
        block: The user's spelling of the learner.
        seed: Of the run.
        train: The split to learn from; empty where the recipe has none.
        tests: The splits to answer.
        keep: What is kept.
        task: The only task of the recipe that is learned and answered; empty: all of them.
    """

    data: CellData | Mix
    learner: Learner
    learner_name: str
    block: Mapping[str, Any]
    seed: int
    train: str
    tests: tuple[EvaluatedSplit, ...]
    keep: Keep
    task: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return the learner's settings as plain values, defaults filled in."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self.learner)))  # type: ignore[call-overload]
        return plain

    @cached_property
    def kind(self) -> str:
        """Return the digest of everything but the seed: cells of one kind are repetitions of each other."""
        return self._digest(None)

    @cached_property
    def run(self) -> str:
        """Return the digest of everything that determines the run: its name in the store."""
        return self._digest(self.seed)

    def _digest(self, seed: int | None) -> str:
        determined_by = {
            "code": VERSION,
            "data": self.data.key,
            "learner": LEARNERS.get(self.learner_name).identity(self.learner),
            "seed": seed,
            "train": self.train,
            "tests": [test.identity for test in self.tests],
            "keep": self.keep.model_dump(),
            **({"task": self.task} if self.task else {}),
        }
        return json_digest(determined_by)

    @property
    def datasets(self) -> list[CellData]:
        """Return all data that the run reads, each once."""
        return list({d.key: d for d in (*self.data.parts, *(test.data for test in self.tests))}.values())

    @property
    def fields(self) -> dict[str, Any]:
        """Return what was set or tried: `recipe.FIELD` and `learner.SETTING` with their values."""
        own = {f"recipe.{k}": v for k, v in self.data.fields.items()}
        if self.task:
            own[TASK_FIELD] = self.task
        return own | {f"learner.{k}": v for k, v in self.block.items() if k != "learner"}

    def config(self) -> dict[str, Any]:
        """Return the experiment of this run alone, as `taskloom run` reads it."""
        tasks: str | list[str] | None = [self.task] if self.task else "mixed" if self.data.unlabelled else None
        return {
            "recipes": [dict(self.data.block)],
            "learners": [dict(self.block)],
            "seeds": [self.seed],
            **({"tasks": tasks} if tasks else {}),
            "train": self.train or "train",
            "evaluate": spell(self.tests, self.data),
            "keep": self.keep.model_dump(),
        }

    def __str__(self) -> str:
        fields = "".join(f" {k.split('.', 1)[1]}={v}" for k, v in self.fields.items())
        return f"{self.data.name} {self.learner_name}{fields} seed {self.seed}"


def expand(experiment: Experiment) -> list[Cell]:
    """Return all cells in the order recipes, learners, seeds; two spellings of one cell are one."""
    recipes = [d for block in experiment.recipes for d in read_data(block, _part(experiment.grid, "recipe."))]
    learners = [x for block in experiment.learners for x in _learners(block, _part(experiment.grid, "learner."))]
    _check_grid(experiment, learners)
    splits = SplitFinder()
    cells: dict[str, Cell] = {}
    for given in recipes:
        data, tasks = _tasks(given, experiment.tasks)
        train, tests = _train_split(data, experiment.train), splits.find(data, experiment.evaluate)
        for task, (block, name, learner), seed in itertools.product(tasks, learners, experiment.seed_list):
            cell = Cell(data, learner, name, block, seed, train, tests, experiment.keep, task)
            cells.setdefault(cell.run, cell)
    return list(cells.values())


def _train_split(data: CellData | Mix, train: str) -> str:
    """Return the split to learn from; empty where the data have none."""
    for part in data.parts:
        trains = [s.name for s in part.plan.splits if s.role == "train"]
        if train in (s.name for s in part.plan.splits):
            continue
        if trains:
            raise ExperimentError(f"{part.name} has no split '{train}' to learn from; {nearest(train, trains)}")
        if isinstance(data, Mix):
            raise ExperimentError(f"recipes: {part.name} has no training split, so it cannot be mixed into training")
        return ""
    return train


def _tasks(data: CellData | Mix, choice: str | list[str] | None) -> tuple[CellData | Mix, list[str]]:
    """Return the data and the tasks that get cells of their own; one empty name stands for all tasks in one cell."""
    if choice is None and data.unlabelled:
        silent = next(part for part in data.parts if part.unlabelled)
        raise ExperimentError(
            f"recipes: {silent.name} has {len(silent.tasks)} tasks, and its inputs do not tell which one they are of; choose "
            "tasks: each (a model for every task), tasks: together (one model, given the description of the task) or "
            "tasks: mixed (one model, without it)"
        )
    if choice is None or choice == "mixed":
        return data, [""]
    if choice == "together":
        return data.described() if data.unlabelled or isinstance(data, Mix) else data, [""]
    if isinstance(data, Mix):
        raise ExperimentError(
            f"recipes: {data.name} is one training on several recipes, so its tasks have no models of their own; choose "
            "tasks: together or tasks: mixed, or list the recipes without 'mix'"
        )
    names = data.plan.tasks.names
    if names is None:
        raise ExperimentError(
            f"recipes: the tasks of {data.name} cannot be listed, so they cannot be run one by one; leave 'tasks' out"
        )
    if choice == "each":
        return data, list(names) if len(names) > 1 else [""]
    for name in choice:
        if name not in names:
            raise ExperimentError(f"tasks: {data.name} has no task '{name}'; {nearest(name, names)}")
    return data, list(dict.fromkeys(choice)) if len(names) > 1 else [""]


def _part(grid: Mapping[str, list[Any]], head: str) -> dict[str, list[Any]]:
    return {k.removeprefix(head): v for k, v in grid.items() if k.startswith(head)}


def _check_grid(experiment: Experiment, learners: list[tuple[dict[str, Any], str, Learner]]) -> None:
    """Raise an error for a grid over a setting that no learner has: it is a misspelling."""
    for name in _part(experiment.grid, "learner."):
        if name == "learner" or not any(name in block for block, *_ in learners):
            known = sorted({f for _, learner, _ in learners for f in _settings(learner)})
            raise ExperimentError(f"grid: no learner here has the setting '{name}'; {nearest(name, known)}")


def _learners(
    block: str | dict[str, Any], grid: Mapping[str, list[Any]]
) -> Iterator[tuple[dict[str, Any], str, Learner]]:
    """Yield the spelling of each learner, its name in the registry, and itself."""
    data = _named_learner(block)
    name = find_learner(str(data["learner"])).name
    own = own_grid(data)
    mine = {k: v for k, v in grid.items() if k in _settings(name)}
    for tried in products({**mine, **own}):
        settings = {**data, **tried}
        yield settings, name, read_learner({**settings, "learner": name}, "learners:")


def _named_learner(block: str | dict[str, Any]) -> dict[str, Any]:
    """Resolve a learner's name: `smollm2/fine-tune` is the learner fine-tune with the model smollm2."""
    if isinstance(block, dict):
        if "learner" not in block:
            raise ExperimentError(
                f"learners: a block says which learner, e.g. {{learner: bilstm, steps: 2000}}; {nearest('', LEARNERS.names())}"
            )
        return dict(block)
    model, slash, method = block.rpartition("/")
    if slash and not is_python(block) and LEARNERS.find(block) is None and "model" in _settings(method):
        return {"learner": method, "model": model}
    return {"learner": block}


def _settings(name: str) -> set[str]:
    """Return the settings of a learner, with those of its training loop."""
    entry = LEARNERS.find(name)
    if entry is None:
        return set()
    default: Any = entry()
    own = {f.name for f in dataclasses.fields(default)}
    loop = getattr(default, "training", None)
    return own | ({f.name for f in dataclasses.fields(loop)} if loop is not None else set())
