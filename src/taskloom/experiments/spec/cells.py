"""The cells of an experiment, one for each run, with a digest of everything that determines it.

The digest covers the recipe with all its fields and the suite's version, the digests of external
resources, the data seed, the learner's name, version and settings (and its code if it comes from a
file), the seed, the splits, the kept files, and the version of the code that runs and scores. It
does not cover machines, engines, times, spellings of the same thing, settings that were added to a
learner later (`taskloom.learners.interface.later_setting`) and have their defaults, or prices
(unless the budget is in money).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from taskloom.core.errors import RecipeError, nearest
from taskloom.core.files import json_digest
from taskloom.core.registry import is_python
from taskloom.experiments.record import BEST_OF_FIELD, LIMIT_FIELD, TASK_FIELD, UNTIL_FIELD
from taskloom.experiments.spec.cell_data import (
    CellData,
    RecipeMix,
    is_own_data,
    own_grid,
    products,
    read_data,
    read_recipes,
)
from taskloom.experiments.spec.experiment import (
    MOST_CELLS,
    BestOf,
    Experiment,
    ExperimentError,
    Keep,
    Until,
)
from taskloom.learners.config import LEARNERS, aside_settings, find_learner
from taskloom.learners.config import read as read_learner
from taskloom.learners.interface import Learner, trains

MOST_RECIPES = 2_000
"""Maximum number of recipes in an experiment. Planning a recipe takes a tenth of a second."""

Grid = Mapping[str, Sequence[Any]]


def refuse_huge(experiment: Experiment, recipe_grid: Grid, learner_grid: Grid) -> None:
    """Raise an error for an experiment with too many cells to list."""
    recipes = _count(experiment.recipes, recipe_grid)
    learners = _count(experiment.learners, learner_grid)
    seeds = experiment.seeds if isinstance(experiment.seeds, int) else len(experiment.seeds)
    if recipes > MOST_RECIPES:
        raise ExperimentError(
            f"recipes: {recipes:,} recipes, their grids counted, are more than {MOST_RECIPES:,};"
            " each has to be planned: use shorter grids, or several experiments on one store"
        )
    if recipes * learners * seeds > MOST_CELLS:
        raise _too_many(f"{recipes:,} recipes x {learners:,} learners x {seeds:,} seeds")


def _too_many(what: str) -> ExperimentError:
    return ExperimentError(
        f"{what} are more than {MOST_CELLS:,} runs; use shorter grids or fewer seeds, or several"
        " experiments on one store"
    )


def _count(blocks: Sequence[Any], grid: Grid) -> int:
    """Number of recipes or learners that the given blocks expand to."""
    total = 0
    for block in blocks:
        own = block.get("grid") if isinstance(block, dict) else None
        sizes = {**grid, **(own if isinstance(own, dict) else {})}.values()
        total += prod(len(values) for values in sizes if isinstance(values, list))
    return total


VERSION = 1
"""Version of this code, increased when a change gives the same cell different predictions or
scores.
"""


ASKING = 2
"""Version of `until`, increased when a change asks the same cell different items before it
stops.
"""

ONE_TRY = BestOf()
"""A single try, which leaves nothing to choose."""


@dataclass(frozen=True)
class Cell:
    """One run of an experiment.

    Attributes:
        data: Training data.
        learner: The checked learner.
        learner_name: Name of the learner in the registry.
        block: The learner as the user wrote it.
        seed: Seed of the run.
        train: Split to train on; empty if the recipe has none.
        tests: Splits to evaluate.
        keep: Types of files to keep.
        task: The single task to train and evaluate on. Empty: all tasks.
        zero_shot: True if the training split lacks the task, so that the model learns from all
            training tasks.
        best_of: Number of tries, and the split on which the best is chosen.
        until: When to stop early. None: all items are evaluated.
    """

    data: CellData | RecipeMix
    learner: Learner
    learner_name: str
    block: Mapping[str, Any]
    seed: int
    train: str
    tests: tuple[EvaluatedSplit, ...]
    keep: Keep
    task: str = ""
    zero_shot: bool = False
    best_of: BestOf = ONE_TRY
    until: Until | None = None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The learner's settings as plain values, with defaults filled in."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self.learner)))  # type: ignore[call-overload]
        return plain

    @cached_property
    def kind(self) -> str:
        """Digest of everything but the seed. Cells of one kind are repetitions of each other."""
        return self._digest(None)

    @cached_property
    def run(self) -> str:
        """Digest of everything that determines the run, used as its name in the store."""
        return self._digest(self.seed)

    def _digest(self, seed: int | None) -> str:
        # Settings added in later versions are included only if they are set, so that older digests
        # stay valid.
        determined_by = {
            "code": VERSION,
            "data": self.data.key,
            "learner": LEARNERS.get(self.learner_name).identity(self.learner),
            "seed": seed,
            "train": self.train,
            "tests": [test.identity for test in self.tests],
            "keep": self.keep.model_dump(),
            **({"task": self.task} if self.task else {}),
            **({"zero-shot": True} if self.zero_shot else {}),
            **({"best of": self.best_of.model_dump()} if self.best_of.seeds > 1 else {}),
            **({"until": self.until.model_dump(), "asking": ASKING} if self.until else {}),
        }
        if self.until is not None and self.until.unit == "usd":
            determined_by["prices"] = self.settings.get("prices")
        return json_digest(determined_by)

    @property
    def label(self) -> str:
        """Name of the learner in tables and on pages: its own name, or that of the model it
        asks.
        """
        return str(getattr(self.learner, "label", self.learner_name))

    @property
    def tries(self) -> list[int]:
        """Seeds of the tries from which the run is chosen. Only its own seed if there is a single
        try.
        """
        count = self.best_of.seeds
        return list(range(self.seed * count, (self.seed + 1) * count))

    @property
    def of_all_tasks(self) -> Cell:
        """The cell that learns and answers all tasks at once."""
        return dataclasses.replace(self, task="", zero_shot=False)

    @property
    def datasets(self) -> list[CellData]:
        """All data that the run reads, without duplicates."""
        return list(
            {d.key: d for d in (*self.data.parts, *(test.data for test in self.tests))}.values()
        )

    @property
    def fields(self) -> dict[str, Any]:
        """Values of the settings that were set or searched, as `recipe.FIELD` and
        `learner.SETTING`. Settings that do not affect answers are omitted.
        """
        own = {f"recipe.{k}": v for k, v in self.data.fields.items()}
        if self.task:
            own[TASK_FIELD] = self.task
        if self.tests[0].limit:
            own[LIMIT_FIELD] = self.tests[0].limit
        if self.until is not None:
            own[UNTIL_FIELD] = str(self.until.goal or self.until.budget)
        if self.best_of.seeds > 1:
            own[BEST_OF_FIELD] = self.best_of.seeds
        left_out = {"learner", *aside_settings(self.learner)}
        return own | {f"learner.{k}": v for k, v in self.block.items() if k not in left_out}

    def config(self) -> dict[str, Any]:
        """Return an experiment with only this run, in the form that `taskloom run` reads."""
        tasks: str | list[str] | None = None
        if self.task:
            tasks = [self.task]
        elif self.data.unlabelled:
            tasks = "mixed"
        return {
            "recipes": [dict(self.data.block)],
            "learners": [dict(self.block)],
            "seeds": [self.seed],
            **({"tasks": tasks} if tasks else {}),
            **({"best_of": self.best_of.model_dump()} if self.best_of.seeds > 1 else {}),
            "train": self.train or "train",
            "evaluate": spell(self.tests, self.data),
            **({"limit": self.tests[0].limit} if self.tests[0].limit else {}),
            **({"until": self.until.model_dump()} if self.until is not None else {}),
            "keep": self.keep.model_dump(),
        }

    def __str__(self) -> str:
        shown = {k.split(".", 1)[1]: v for k, v in self.fields.items() if v != self.label}
        fields = "".join(f" {name}={value}" for name, value in shown.items())
        return f"{self.data.name} {self.label}{fields} seed {self.seed}"


def cell_names(cells: Sequence[Cell]) -> dict[str, str]:
    """Display name of each cell by run: learner, recipe, and everything that distinguishes it from
    the others.
    """
    differing = differing_fields([(cell.data.name, cell.label, cell.fields) for cell in cells])
    has_seeds = len({cell.seed for cell in cells}) > 1
    names = {}
    for cell, fields in zip(cells, differing, strict=True):
        parts = [f"{cell.label} on {cell.data.name}"]
        parts += [f"{name.split('.', 1)[1]}={cell.fields[name]}" for name in fields]
        if has_seeds:
            parts.append(f"seed {cell.seed}")
        names[cell.run] = ", ".join(parts)
    return names


def differing_fields(rows: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[list[str]]:
    """Return the fields in which each row differs from other rows with the same recipe and learner.

    Args:
        rows: Recipe, learner and fields of each row.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for recipe, learner, fields in rows:
        groups.setdefault((recipe, learner), []).append(fields)
    differing = {key: _names_that_differ(group) for key, group in groups.items()}
    return [
        sorted(differing[recipe, learner].intersection(fields)) for recipe, learner, fields in rows
    ]


def _names_that_differ(group: list[Mapping[str, Any]]) -> set[str]:
    """Fields with several values in a group, or missing from some of its rows."""
    values: dict[str, list[str]] = {}
    for fields in group:
        for name, value in fields.items():
            values.setdefault(name, []).append(json.dumps(value))
    return {
        name for name, given in values.items() if len(set(given)) > 1 or len(given) < len(group)
    }


def expand(experiment: Experiment) -> list[Cell]:
    """Return all cells, ordered by recipe, learner and seed. Two spellings of the same cell count
    once.
    """
    refuse_huge(experiment, _part(experiment.grid, "recipe."), _part(experiment.grid, "learner."))
    recipes: list[CellData | RecipeMix] = []
    for block in experiment.recipes:
        recipes += read_data(block, _part(experiment.grid, "recipe."))
    learners = list(tried_learners(experiment))
    _check_grid(experiment, learners)
    splits = SplitFinder()
    cells: dict[str, Cell] = {}
    for given in recipes:
        data = _given_tasks(given, experiment.tasks)
        train = _train_split(data, experiment.train)
        tests = _limited(splits.find(data, experiment.evaluate), experiment.limit)
        tasks = _tasks(data, experiment.tasks, train, tests)
        _check_choice(data, experiment.best_of)
        count = len(experiment.seed_list)
        if len(cells) + len(tasks) * len(learners) * count > MOST_CELLS:
            raise _too_many(
                f"{data.name}: {len(tasks):,} tasks x {len(learners):,} learners x {count:,} seeds"
            )
        for task, (block, name, learner), seed in itertools.product(
            tasks, learners, experiment.seed_list
        ):
            cell = Cell(
                data=data,
                learner=learner,
                learner_name=name,
                block=block,
                seed=seed,
                train=train,
                tests=tests,
                keep=experiment.keep,
                task=task,
                zero_shot=not tasks[task],
                best_of=experiment.best_of,
                # Models that are only asked can stop early. A learner with a training loop answers
                # all items.
                until=None if trains(learner) else experiment.until,
            )
            cells.setdefault(cell.run, cell)
    return _asked_together(list(cells.values()))


def _asked_together(cells: list[Cell]) -> list[Cell]:
    """Set the group of each cell whose stopping depends on other cells."""
    group = asked_group(cells)
    grouped = []
    for cell in cells:
        until = cell.until
        if until is not None and until.shared and not until.group:
            until = until.model_copy(update={"group": group})
            cell = dataclasses.replace(cell, until=until)
        grouped.append(cell)
    return grouped


def asked_group(cells: Sequence[Cell]) -> str:
    """Digest of the cells that are asked together."""
    alone = [
        dataclasses.replace(cell, until=cell.until.model_copy(update={"group": ""}))
        for cell in cells
        if cell.until is not None
    ]
    return json_digest(sorted(cell.run for cell in alone))


def _limited(tests: tuple[EvaluatedSplit, ...], limit: int) -> tuple[EvaluatedSplit, ...]:
    """Return the splits with the limit applied."""
    return tuple(dataclasses.replace(test, limit=limit) for test in tests) if limit else tests


def _train_split(data: CellData | RecipeMix, train: str) -> str:
    """Name of the training split; empty if the data have none."""
    for part in data.parts:
        trains = [s.name for s in part.plan.splits if s.role == "train"]
        if train in (s.name for s in part.plan.splits):
            continue
        if trains:
            raise ExperimentError(
                f"{part.name} has no split '{train}' to learn from; {nearest(train, trains)}"
            )
        if isinstance(data, RecipeMix):
            raise ExperimentError(
                f"recipes: {part.name} has no training split, so it cannot be mixed into training"
            )
        return ""
    return train


def _check_choice(data: CellData | RecipeMix, best_of: BestOf) -> None:
    """Raise an error if the data lack the split to choose by."""
    splits = {s.name for part in data.parts for s in part.plan.splits}
    if best_of.seeds > 1 and best_of.split not in splits:
        raise ExperimentError(
            f"best_of: {data.name} has no split '{best_of.split}' to choose by;"
            f" {nearest(best_of.split, sorted(splits))}"
        )


def _given_tasks(
    data: CellData | RecipeMix, choice: str | list[str] | None
) -> CellData | RecipeMix:
    """Data for the given choice of `tasks`. Raise an error if the inputs do not state their task
    and nothing was chosen.
    """
    if choice is None and data.unlabelled:
        silent = next(part for part in data.parts if part.unlabelled)
        raise ExperimentError(
            f"recipes: {silent.name} has {len(silent.tasks)} tasks, and its inputs do not state"
            " which task they belong to; choose tasks: each (one model per task), tasks: together"
            " (one model that is given the task's description) or tasks: mixed (one model"
            " without descriptions)"
        )
    if choice == "together":
        return data.described() if data.unlabelled or isinstance(data, RecipeMix) else data
    if isinstance(data, RecipeMix) and choice not in (None, "mixed"):
        raise ExperimentError(
            f"recipes: {data.name} is one training on several recipes, so its tasks have no models"
            " of their own; choose tasks: together or tasks: mixed, or list the recipes without"
            " 'mix'"
        )
    return data


def _tasks(
    data: CellData | RecipeMix,
    choice: str | list[str] | None,
    train: str,
    tests: Sequence[EvaluatedSplit],
) -> dict[str, bool]:
    """Return the tasks with separate cells, each with True if the training split has the task. An
    empty name means one cell for all tasks.
    """
    if choice in (None, "mixed", "together") or isinstance(data, RecipeMix):
        return {"": True}
    tasks = data.evaluated_tasks(train, [test.split for test in tests if test.data is data])
    for name in choice if isinstance(choice, list) else ():
        if name not in tasks:
            raise ExperimentError(
                f"tasks: {data.name} has no task '{name}'; {nearest(name, tasks)}"
            )
    if len(tasks) < 2:
        return {"": True}
    if isinstance(choice, list):
        return {name: tasks[name] for name in choice}
    return tasks


def _part(grid: Mapping[str, list[Any]], head: str) -> dict[str, list[Any]]:
    return {k.removeprefix(head): v for k, v in grid.items() if k.startswith(head)}


def _check_grid(
    experiment: Experiment, learners: list[tuple[dict[str, Any], str, Learner]]
) -> None:
    """Raise an error for a setting in the grid that no learner has, since it must be misspelt."""
    for name in _part(experiment.grid, "learner."):
        if name == "learner" or not any(name in block for block, *_ in learners):
            known = sorted({f for _, learner, _ in learners for f in _settings(learner)})
            raise ExperimentError(
                f"grid: no learner here has the setting '{name}'; {nearest(name, known)}"
            )


def tried_learners(experiment: Experiment) -> Iterator[tuple[dict[str, Any], str, Learner]]:
    """Yield the learners of an experiment at each point of its grid, each as spelling, name and
    learner.
    """
    grid = _part(experiment.grid, "learner.")
    for block in experiment.learners:
        yield from _learners(block, grid)


def _learners(
    block: str | dict[str, Any], grid: Mapping[str, list[Any]]
) -> Iterator[tuple[dict[str, Any], str, Learner]]:
    """Yield each learner of a block, as spelling, name in the registry and learner."""
    data = _named_learner(block)
    name = find_learner(str(data["learner"])).name
    own = own_grid(data)
    mine = {k: v for k, v in grid.items() if k in _settings(name)}
    for tried in products({**mine, **own}):
        settings = {**data, **tried}
        yield settings, name, read_learner({**settings, "learner": name}, "learners:")


def _named_learner(block: str | dict[str, Any]) -> dict[str, Any]:
    """Resolve a learner's name: `smollm2/fine-tune` is the learner fine-tune with the model
    smollm2.
    """
    if isinstance(block, dict):
        if "learner" not in block:
            raise ExperimentError(
                "learners: a block says which learner, e.g. {learner: bilstm, steps: 2000};"
                f" {nearest('', LEARNERS.names())}"
            )
        return dict(block)
    model, slash, method = block.rpartition("/")
    if (
        slash
        and not is_python(block)
        and LEARNERS.find(block) is None
        and "model" in _settings(method)
    ):
        return {"learner": method, "model": model}
    return {"learner": block}


def _settings(name: str) -> set[str]:
    """Settings of a learner, including those of its training loop."""
    entry = LEARNERS.find(name)
    if entry is None:
        return set()
    default: Any = entry()
    settings = {field.name for field in dataclasses.fields(default)}
    loop = getattr(default, "training", None)
    if loop is not None:
        settings |= {field.name for field in dataclasses.fields(loop)}
    return settings


ONLY = "only"
"""Key of a block under `evaluate` that selects splits of its recipe. Default: all test splits."""


@dataclass(frozen=True, slots=True)
class EvaluatedSplit:
    """A split that a cell evaluates.

    Attributes:
        name: Name in tables: the split, or `RECIPE:SPLIT` if the name would be ambiguous without
            the recipe.
        data: The data that it belongs to.
        split: Name of the split in the data.
        limit: Maximum examples that are answered; 0: all.
        rows: Indices of the examples that were asked, among those within the limit; empty: all.
            They follow from the answers, so the digest of a run does not cover them.
    """

    name: str
    data: CellData
    split: str
    limit: int = 0
    rows: tuple[int, ...] = ()

    @property
    def identity(self) -> list[str]:
        """The split's contribution to the digest of a run."""
        names = [self.name] if self.name == self.split else [self.name, self.split]
        # A limit used to take every k-th row. "drawn" distinguishes those runs from current ones.
        limit = [f"limit {self.limit} drawn"] if self.limit else []
        return [*names, self.data.key, *limit]


class SplitFinder:
    """Finds evaluated splits by the names used in an experiment. Other recipes are read once."""

    def __init__(self) -> None:
        self._others: dict[str, CellData] = {}

    def find(
        self, data: CellData | RecipeMix, evaluate: Sequence[str | dict[str, Any]]
    ) -> tuple[EvaluatedSplit, ...]:
        """Return the splits to evaluate. If `evaluate` is empty, these are all test splits, and
        those of the recipe named by `tested_by`.
        """
        own = {one.name: one for one in _own(data)}
        wanted: Sequence[str | dict[str, Any]] = evaluate or _by_default(data, own)
        tests: list[EvaluatedSplit] = []
        others: list[EvaluatedSplit] = []
        for block in wanted:
            matching = [one for one in own.values() if block in (one.name, one.split)]
            tests += matching
            others += [] if matching else self._other(block, data, own)
        tests += _named(others, tests)
        if not tests:
            raise ExperimentError(
                f"{data.name} has no test split; say what to answer: evaluate: [{', '.join(own)}]"
            )
        for name, times in Counter(one.name for one in tests).items():
            if times > 1:
                raise ExperimentError(
                    f"{data.name} would be evaluated on two splits called '{name}'; name the splits"
                    " you want"
                )
        return tuple(sorted(tests, key=lambda one: one.name))

    def _other(
        self,
        block: str | dict[str, Any],
        data: CellData | RecipeMix,
        own: dict[str, EvaluatedSplit],
    ) -> Iterator[EvaluatedSplit]:
        """Yield the splits of another recipe, or of files."""
        only: Any = None
        plain = block
        if isinstance(block, dict):
            only = block.get(ONLY)
            plain = {key: value for key, value in block.items() if key != ONLY}
        try:
            other = self._read(plain)
        except RecipeError as error:
            # Not a recipe: perhaps RECIPE:SPLIT, as in names of splits and in stored experiments.
            name, colon, split = plain.rpartition(":") if isinstance(plain, str) else ("", "", "")
            if not colon or not name or name.endswith(":"):
                raise _unknown(block, data, own) from error
            try:
                other, only = self._read(name), [split]
            except RecipeError:
                raise _unknown(block, data, own) from error
        splits = {split.name: split for split in other.plan.splits}
        names = [only] if isinstance(only, str) else only
        if not names:
            names = [split.name for split in splits.values() if split.tested]
        for name in names:
            if name not in splits:
                raise ExperimentError(
                    f"evaluate: {other.name} has no split '{name}'; {nearest(str(name), splits)}"
                )
            yield EvaluatedSplit(name, other, name)

    def _read(self, block: str | dict[str, Any]) -> CellData:
        known = str(block)
        if known not in self._others:
            [other] = read_recipes(block, {})
            # A recipe given only by name keeps the seed from its file.
            bare = isinstance(block, str) and not is_own_data(block)
            self._others[known] = (
                CellData(other.recipe, other.recipe.seed, {"recipe": block}) if bare else other
            )
        return self._others[known]


def _own(data: CellData | RecipeMix) -> list[EvaluatedSplit]:
    """Return all splits of the training data. The names of a mix's splits include their recipe."""
    if isinstance(data, CellData):
        return [EvaluatedSplit(s.name, data, s.name) for s in data.plan.splits]
    pairs = zip(data.labels, data.parts, strict=True)
    return [
        EvaluatedSplit(f"{label}:{s.name}", part, s.name)
        for label, part in pairs
        for s in part.plan.splits
    ]


def _by_default(data: CellData | RecipeMix, own: dict[str, EvaluatedSplit]) -> list[str]:
    tests = [name for name, one in own.items() if one.data.plan.split(one.split).tested]
    tested_by = [getattr(part.recipe.fields, "tested_by", None) for part in data.parts]
    return [*tests, *dict.fromkeys(str(name) for name in tested_by if name)]


def _named(others: Sequence[EvaluatedSplit], own: Sequence[EvaluatedSplit]) -> list[EvaluatedSplit]:
    """Add the recipe to the names of other recipes' splits if they are not unique."""
    taken = Counter([*(one.name for one in own), *(one.split for one in others)])
    return [
        (
            EvaluatedSplit(f"{one.data.name}:{one.split}", one.data, one.split)
            if taken[one.split] > 1
            else one
        )
        for one in others
    ]


def _unknown(
    block: str | dict[str, Any], data: CellData | RecipeMix, own: dict[str, EvaluatedSplit]
) -> ExperimentError:
    name = block if isinstance(block, str) else str(block.get("recipe", block))
    return ExperimentError(
        f"evaluate: {data.name} has no split '{name}'; {nearest(name, own)} (or a recipe whose test"
        " splits are answered)"
    )


def spell(
    tests: Sequence[EvaluatedSplit], data: CellData | RecipeMix
) -> list[str | dict[str, Any]]:
    """Spell splits as in an experiment's `evaluate`."""
    spelt: list[str | dict[str, Any]] = [one.name for one in tests if one.data in data.parts]
    others: dict[str, list[EvaluatedSplit]] = {}
    for one in tests:
        if one.data not in data.parts:
            others.setdefault(one.data.key, []).append(one)
    for group in others.values():
        other = group[0].data
        names = [one.split for one in group]
        whole = sorted(names) == sorted(s.name for s in other.plan.splits if s.tested)
        if whole and list(other.block) == ["recipe"]:
            spelt.append(str(other.block["recipe"]))
        else:
            spelt.append({**other.block, **({} if whole else {ONLY: names})})
    return spelt
