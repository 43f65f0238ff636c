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
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from taskloom.errors import RecipeError, nearest
from taskloom.experiments.own_data import is_own_data, own_recipe
from taskloom.experiments.spec import Experiment, ExperimentError, Keep
from taskloom.files import json_digest
from taskloom.learners.config import read as read_learner
from taskloom.learners.interface import LEARNERS, Learner, find_learner
from taskloom.plan import Plan
from taskloom.recipe import Recipe, check
from taskloom.recipe import read as read_recipe
from taskloom.recipe.fields import Described
from taskloom.recipe.overrides import parse_changes
from taskloom.registry import is_python

VERSION = 1
"""Raised whenever the code here would give the same cell other predictions or scores."""


TASK_FIELD = "recipe.task"
"""The field of a run on one task of a recipe of several."""


@dataclass(frozen=True)
class CellData:
    """A recipe under a data seed, as cells use it.

    Attributes:
        recipe: The checked recipe.
        seed: Of the samples.
        block: The user's spelling of it, which `config.yaml` repeats.
        fields: The fields that were set or tried, by name.
    """

    recipe: Recipe
    seed: int
    block: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return what tables call it: the recipe's name, a file's stem, a task's own name."""
        file = self.recipe.name.partition("::")[0]
        if file.endswith(".py"):
            return self.recipe.suite.name
        return Path(file).stem if file.endswith((".yaml", ".yml")) else self.recipe.name

    @cached_property
    def plan(self) -> Plan:
        """Return the plan of its recipe and seed."""
        return self.recipe.plan(self.seed)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the names of its tasks, where they can be listed."""
        return self.plan.tasks.names or ()

    @property
    def unlabelled(self) -> bool:
        """Return whether it has several tasks and no input tells which one it is of."""
        tasks = self.plan.tasks
        if tasks.by != "task" or len(self.tasks) < 2 or self.recipe.described is not None:
            return False
        return tasks.tell is None or bool(tasks.tell(self.tasks[0], "instruction"))

    def described(self) -> CellData:
        """Return the same data with the description of its task before every input."""
        block = dict(self.block)
        if "recipe" in block:
            block["set"] = {**block.get("set", {}), "described": True}
        else:
            block["described"] = True
        recipe = dataclasses.replace(self.recipe, described=Described())
        return CellData(recipe, self.seed, block, {**self.fields, "described": True})

    @cached_property
    def key(self) -> str:
        """Return the name of the data: by the contract of purity, equal keys have equal rows."""
        sources = {s.name: s.digest for s in self.plan.sources}
        return json_digest([self.recipe.digest, self.seed, sources])


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
        tests: The splits to answer, each with the data that it belongs to.
        keep: What is kept.
        task: The only task of the recipe that is learned and answered; empty: all of them.
    """

    data: CellData
    learner: Learner
    learner_name: str
    block: Mapping[str, Any]
    seed: int
    train: str
    tests: tuple[tuple[str, CellData], ...]
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
            "tests": [[split, data.key] for split, data in self.tests],
            "keep": self.keep.model_dump(),
            **({"task": self.task} if self.task else {}),
        }
        return json_digest(determined_by)

    @property
    def fields(self) -> dict[str, Any]:
        """Return what was set or tried: `recipe.FIELD` and `learner.SETTING` with their values."""
        own = {f"recipe.{k}": v for k, v in self.data.fields.items()}
        if self.task:
            own[TASK_FIELD] = self.task
        return own | {f"learner.{k}": v for k, v in self.block.items() if k != "learner"}

    def config(self) -> dict[str, Any]:
        """Return the experiment of this run alone, as `taskloom run` reads it."""
        tests = [split if data is self.data else data.recipe.name for split, data in self.tests]
        tasks: str | list[str] | None = [self.task] if self.task else "mixed" if self.data.unlabelled else None
        return {
            "recipes": [dict(self.data.block)],
            "learners": [dict(self.block)],
            "seeds": [self.seed],
            **({"tasks": tasks} if tasks else {}),
            "train": self.train or "train",
            "evaluate": list(dict.fromkeys(tests)),
            "keep": self.keep.model_dump(),
        }

    def __str__(self) -> str:
        fields = "".join(f" {k.split('.', 1)[1]}={v}" for k, v in self.fields.items())
        return f"{self.data.name} {self.learner_name}{fields} seed {self.seed}"


def expand(experiment: Experiment) -> list[Cell]:
    """Return all cells in the order recipes, learners, seeds; two spellings of one cell are one."""
    recipes = [d for block in experiment.recipes for d in _recipes(block, _part(experiment.grid, "recipe."))]
    learners = [x for block in experiment.learners for x in _learners(block, _part(experiment.grid, "learner."))]
    _check_grid(experiment, recipes, learners)
    others: dict[str, CellData] = {}
    cells: dict[str, Cell] = {}
    for given in recipes:
        data, tasks = _tasks(given, experiment.tasks)
        train, tests = _splits(data, experiment, others)
        for task, (block, name, learner), seed in itertools.product(tasks, learners, experiment.seed_list):
            cell = Cell(data, learner, name, block, seed, train, tests, experiment.keep, task)
            cells.setdefault(cell.run, cell)
    return list(cells.values())


def _tasks(data: CellData, choice: str | list[str] | None) -> tuple[CellData, list[str]]:
    """Return the data and the tasks that get cells of their own; one empty name stands for all tasks in one cell."""
    if choice is None and data.unlabelled:
        raise ExperimentError(
            f"recipes: {data.name} has {len(data.tasks)} tasks, and its inputs do not tell which one they are of; choose "
            "tasks: each (a model for every task), tasks: together (one model, given the description of the task) or "
            "tasks: mixed (one model, without it)"
        )
    if choice is None or choice == "mixed":
        return data, [""]
    if choice == "together":
        return data.described() if data.unlabelled else data, [""]
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


def _check_grid(
    experiment: Experiment, recipes: list[CellData], learners: list[tuple[dict[str, Any], str, Learner]]
) -> None:
    """Raise an error for a grid over a setting that no learner has: it is a misspelling."""
    for name in _part(experiment.grid, "learner."):
        if name == "learner" or not any(name in block for block, *_ in learners):
            known = sorted({f for _, learner, _ in learners for f in _settings(learner)})
            raise ExperimentError(f"grid: no learner here has the setting '{name}'; {nearest(name, known)}")


def _products(grid: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _recipes(block: str | dict[str, Any], grid: Mapping[str, list[Any]]) -> Iterator[CellData]:
    data = {"recipe": block} if isinstance(block, str) else dict(block)
    grid = {**grid, **_own_grid(data)}
    if is_own_data(str(data.get("recipe", ""))):
        yield _own(data, grid)
        return
    for tried in _products(grid):
        if "recipe" in data:
            yield _named_recipe(data, tried)
        else:
            yield _inline_recipe(data, tried)


def _own(block: dict[str, Any], grid: Mapping[str, list[Any]]) -> CellData:
    """Build the cell data of files in the place of a recipe."""
    described = block.get("set") == {"described": True}
    unknown = [k for k in block if k not in ("recipe", "columns", "seed") and not (k == "set" and described)]
    if unknown or grid:
        raise ExperimentError(
            f"recipes: {block['recipe']} is data, which has no '{(unknown or list(grid))[0]}'; a block of data has 'columns', e.g. "
            "columns: {input: question, target: answer}"
        )
    columns = _mapping(block.get("columns"), f"recipes: {block['recipe']}: columns")
    recipe = own_recipe(str(block["recipe"]), {k: str(v) for k, v in columns.items()})
    data = CellData(recipe, 0, {"recipe": str(block["recipe"]), **({"columns": columns} if columns else {})})
    return data.described() if described else data


def _named_recipe(block: dict[str, Any], tried: dict[str, Any]) -> CellData:
    unknown = [k for k in block if k not in ("recipe", "set", "seed", "grid")]
    if unknown:
        raise ExperimentError(
            f"recipes: {block['recipe']}: unknown key '{unknown[0]}'; fields of the recipe stand under 'set', e.g. "
            f"set: {{{unknown[0]}: …}}"
        )
    given = parse_changes(block["set"]) if isinstance(block.get("set"), list) else block.get("set")
    fields = {**_mapping(given, f"recipes: {block['recipe']}: set"), **tried}
    recipe = read_recipe(str(block["recipe"]), [f"{k}={json.dumps(v, default=str)}" for k, v in fields.items()])
    seed = block.get("seed", recipe.seed)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ExperimentError(f"recipes: {block['recipe']}: seed must be a whole number, not {seed!r}")
    block_read: dict[str, Any] = {"recipe": str(block["recipe"]), "seed": seed}
    return CellData(recipe, seed, {**block_read, "set": fields} if fields else block_read, fields)


def _inline_recipe(block: dict[str, Any], tried: dict[str, Any]) -> CellData:
    """Build the data of a recipe that stands in the experiment itself; `name` is what tables call it."""
    body = {k: v for k, v in block.items() if k not in ("name", "grid")}
    for path, value in tried.items():
        here = body
        *parents, last = path.split(".")
        for parent in parents:
            here[parent] = dict(_mapping(here.get(parent), f"recipes: {path}"))
            here = here[parent]
        here[last] = value
    name = str(block.get("name", block.get("suite", block.get("task", "a recipe"))))
    recipe = check(body, name, f"recipes: {name}")
    return CellData(recipe, recipe.seed, {"name": name, **body}, tried)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ExperimentError(f"{where} must be fields with values, e.g. {{max_length: 8}}, not {value!r}")
    return value or {}


def _own_grid(block: dict[str, Any]) -> dict[str, list[Any]]:
    grid = _mapping(block.pop("grid", None), "grid")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ExperimentError(f"grid: '{key}' needs a list of values to try, not {values!r}")
    return grid


def _learners(
    block: str | dict[str, Any], grid: Mapping[str, list[Any]]
) -> Iterator[tuple[dict[str, Any], str, Learner]]:
    """Yield the spelling of each learner, its name in the registry, and itself."""
    data = _named_learner(block)
    name = find_learner(str(data["learner"])).name
    own = _own_grid(data)
    mine = {k: v for k, v in grid.items() if k in _settings(name)}
    for tried in _products({**mine, **own}):
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


def _splits(
    data: CellData, experiment: Experiment, others: dict[str, CellData]
) -> tuple[str, tuple[tuple[str, CellData], ...]]:
    splits = {s.name: s for s in data.plan.splits}
    trains = [s.name for s in data.plan.splits if s.role == "train"]
    train = experiment.train
    if train not in splits:
        if trains:
            raise ExperimentError(f"{data.name} has no split '{train}' to learn from; {nearest(train, trains)}")
        train = ""
    wanted = experiment.evaluate or [s.name for s in data.plan.splits if s.role == "test"]
    tested_by = getattr(data.recipe.fields, "tested_by", None)
    if not experiment.evaluate and tested_by:
        wanted = [*wanted, str(tested_by)]
    tests: list[tuple[str, CellData]] = []
    for name in wanted:
        if name in splits:
            tests.append((name, data))
        else:
            tests += _other_tests(name, data, others)
    if not tests:
        raise ExperimentError(f"{data.name} has no test split; say what to answer: evaluate: [{', '.join(splits)}]")
    names = [name for name, _ in tests]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ExperimentError(
            f"{data.name} would be evaluated on two splits called '{twice}'; name the splits you want"
        )
    return train, tuple(sorted(tests, key=lambda test: test[0]))


def _other_tests(name: str, data: CellData, others: dict[str, CellData]) -> list[tuple[str, CellData]]:
    if name not in others:
        try:
            recipe = read_recipe(name)
        except RecipeError as error:
            known = [s.name for s in data.plan.splits]
            raise ExperimentError(
                f"evaluate: {data.name} has no split '{name}'; {nearest(name, known)} (or a recipe whose test splits are answered)"
            ) from error
        others[name] = CellData(recipe, recipe.seed, {"recipe": name})
    other = others[name]
    return [(s.name, other) for s in other.plan.splits if s.role == "test"]
