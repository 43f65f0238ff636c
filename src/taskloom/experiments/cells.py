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
from hashlib import blake2b
from pathlib import Path
from typing import Any

from taskloom.errors import RecipeError, nearest
from taskloom.experiments.spec import Experiment, ExperimentError, Keep
from taskloom.learners.config import read as read_learner
from taskloom.learners.interface import LEARNERS, Learner, find_learner
from taskloom.plan import Plan
from taskloom.recipe import Recipe, check
from taskloom.recipe import read as read_recipe
from taskloom.registry import is_python

VERSION = 1
"""Raised whenever the code here would give the same cell other predictions or scores."""


@dataclass(frozen=True)
class Data:
    """A recipe under a data seed, as cells use it.

    Attributes:
        recipe: The checked recipe.
        seed: Of the samples.
        block: How a person asked for it: what `config.yaml` repeats.
        fields: The fields that were set or tried, by name.
    """

    recipe: Recipe
    seed: int
    block: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tables call it: the recipe's name, a file's stem, a task's own name."""
        file = self.recipe.name.partition("::")[0]
        if file.endswith(".py"):
            return self.recipe.suite.name
        return Path(file).stem if file.endswith((".yaml", ".yml")) else self.recipe.name

    @cached_property
    def plan(self) -> Plan:
        """The plan of its recipe and seed."""
        return self.recipe.plan(self.seed)

    @cached_property
    def key(self) -> str:
        """Names the data: by the contract of purity, equal keys have equal rows."""
        sources = {s.name: s.digest for s in self.plan.sources}
        said = [self.recipe.digest, self.seed, sources]
        return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Cell:
    """One run of an experiment.

    Attributes:
        data: What is learned from.
        learner: The checked learner.
        learner_name: As the registry knows it.
        block: How a person asked for the learner.
        seed: Of the run.
        train: The split to learn from; empty where the recipe has none.
        tests: The splits to answer, each with the data that it belongs to.
        keep: What is kept.
    """

    data: Data
    learner: Learner
    learner_name: str
    block: Mapping[str, Any]
    seed: int
    train: str
    tests: tuple[tuple[str, Data], ...]
    keep: Keep

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The learner's settings as plain values, defaults filled in."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self.learner)))  # type: ignore[call-overload]
        return plain

    @cached_property
    def kind(self) -> str:
        """Everything but the seed, as a digest: cells of one kind are repetitions of each other."""
        return self._digest(None)

    @cached_property
    def run(self) -> str:
        """The digest of everything that determines the run: its name in the store."""
        return self._digest(self.seed)

    def _digest(self, seed: int | None) -> str:
        said = {
            "code": VERSION,
            "data": self.data.key,
            "learner": LEARNERS.get(self.learner_name).identity(self.learner),
            "seed": seed,
            "train": self.train,
            "tests": [[split, data.key] for split, data in self.tests],
            "keep": self.keep.model_dump(),
        }
        return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def fields(self) -> dict[str, Any]:
        """What was set or tried: `recipe.FIELD` and `learner.SETTING` with their values."""
        own = {f"recipe.{k}": v for k, v in self.data.fields.items()}
        return own | {f"learner.{k}": v for k, v in self.block.items() if k != "learner"}

    def config(self) -> dict[str, Any]:
        """The experiment of this run alone, as `taskloom run` reads it."""
        tests = [split if data is self.data else data.recipe.name for split, data in self.tests]
        return {
            "recipes": [dict(self.data.block)],
            "learners": [dict(self.block)],
            "seeds": [self.seed],
            "train": self.train or "train",
            "evaluate": list(dict.fromkeys(tests)),
            "keep": self.keep.model_dump(),
        }

    def __str__(self) -> str:
        said = "".join(f" {k.split('.', 1)[1]}={v}" for k, v in self.fields.items())
        return f"{self.data.name} {self.learner_name}{said} seed {self.seed}"


def expand(experiment: Experiment) -> list[Cell]:
    """All cells, in the order recipes, learners, seeds; two spellings of one cell are one."""
    recipes = [d for block in experiment.recipes for d in _recipes(block, _part(experiment.grid, "recipe."))]
    learners = [x for block in experiment.learners for x in _learners(block, _part(experiment.grid, "learner."))]
    _all_tried(experiment, recipes, learners)
    others: dict[str, Data] = {}
    cells: dict[str, Cell] = {}
    for data in recipes:
        train, tests = _splits(data, experiment, others)
        for block, name, learner in learners:
            for seed in experiment.seed_list:
                cell = Cell(data, learner, name, block, seed, train, tests, experiment.keep)
                cells.setdefault(cell.run, cell)
    return list(cells.values())


def _part(grid: Mapping[str, list[Any]], head: str) -> dict[str, list[Any]]:
    return {k.removeprefix(head): v for k, v in grid.items() if k.startswith(head)}


def _all_tried(
    experiment: Experiment, recipes: list[Data], learners: list[tuple[dict[str, Any], str, Learner]]
) -> None:
    """A grid over a field that nothing has is a misspelling."""
    for name in _part(experiment.grid, "learner."):
        if name == "learner" or not any(name in block for block, *_ in learners):
            known = sorted({f for _, learner, _ in learners for f in _settings(learner)})
            raise ExperimentError(f"grid: no learner here has the setting '{name}'; {nearest(name, known)}")


def _products(grid: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _recipes(block: str | dict[str, Any], grid: Mapping[str, list[Any]]) -> Iterator[Data]:
    data = {"recipe": block} if isinstance(block, str) else dict(block)
    grid = {**grid, **_own_grid(data)}
    for tried in _products(grid):
        if "recipe" in data:
            yield _named(data, tried)
        else:
            yield _whole(data, tried)


def _named(block: dict[str, Any], tried: dict[str, Any]) -> Data:
    unknown = [k for k in block if k not in ("recipe", "set", "seed", "grid")]
    if unknown:
        raise ExperimentError(
            f"recipes: {block['recipe']}: unknown key '{unknown[0]}'; fields of the recipe stand under 'set', e.g. "
            f"set: {{{unknown[0]}: …}}"
        )
    fields = {**_mapping(block.get("set"), f"recipes: {block['recipe']}: set"), **tried}
    recipe = read_recipe(str(block["recipe"]), [f"{k}={json.dumps(v, default=str)}" for k, v in fields.items()])
    seed = block.get("seed", recipe.seed)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ExperimentError(f"recipes: {block['recipe']}: seed must be a whole number, not {seed!r}")
    asked: dict[str, Any] = {"recipe": str(block["recipe"]), "seed": seed}
    return Data(recipe, seed, {**asked, "set": fields} if fields else asked, fields)


def _whole(block: dict[str, Any], tried: dict[str, Any]) -> Data:
    """A recipe that stands in the experiment itself; `name` is what tables call it."""
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
    return Data(recipe, recipe.seed, {"name": name, **body}, tried)


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
    """Yield how each learner was asked for, its name in the registry, and itself."""
    data = _named_learner(block)
    name = find_learner(str(data["learner"])).name
    own = _own_grid(data)
    mine = {k: v for k, v in grid.items() if k in _settings(name)}
    for tried in _products({**mine, **own}):
        asked = {**data, **tried}
        yield asked, name, read_learner({**asked, "learner": name}, "learners:")


def _named_learner(block: str | dict[str, Any]) -> dict[str, Any]:
    """`smollm2/fine-tune` is the learner fine-tune with the model smollm2."""
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
    """The settings of a learner, with those of its training loop."""
    entry = LEARNERS.find(name)
    if entry is None:
        return set()
    default: Any = entry()
    own = {f.name for f in dataclasses.fields(default)}
    loop = getattr(default, "training", None)
    return own | ({f.name for f in dataclasses.fields(loop)} if loop is not None else set())


def _splits(data: Data, experiment: Experiment, others: dict[str, Data]) -> tuple[str, tuple[tuple[str, Data], ...]]:
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
    tests: list[tuple[str, Data]] = []
    for name in wanted:
        if name in splits:
            tests.append((name, data))
        else:
            tests += _other(name, data, others)
    if not tests:
        raise ExperimentError(f"{data.name} has no test split; say what to answer: evaluate: [{', '.join(splits)}]")
    names = [name for name, _ in tests]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ExperimentError(
            f"{data.name} would be evaluated on two splits called '{twice}'; name the splits you want"
        )
    return train, tuple(sorted(tests, key=lambda test: test[0]))


def _other(name: str, data: Data, others: dict[str, Data]) -> list[tuple[str, Data]]:
    if name not in others:
        try:
            recipe = read_recipe(name)
        except RecipeError as error:
            known = [s.name for s in data.plan.splits]
            raise ExperimentError(
                f"evaluate: {data.name} has no split '{name}'; {nearest(name, known)} (or a recipe whose test splits are answered)"
            ) from error
        others[name] = Data(recipe, recipe.seed, {"recipe": name})
    other = others[name]
    return [(s.name, other) for s in other.plan.splits if s.role == "test"]
