"""The experiment as the user writes it, in a YAML file or as arguments of `taskloom.run`, and its
checks.

Example:
    recipes: [ctl/A, {recipe: ctl/R, set: {max_length: 8}}]
    learners: [majority, {learner: bilstm, steps: 2000}]
    seeds: 3
    grid: {learner.state: [64, 128]}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.files import path_of
from taskloom.core.registry import paper_folders
from taskloom.experiments.execute.trackers import TRACKERS
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import load, validated

LAST_SEED = 2**32 - 1
"""Maximum seed accepted by every library."""

MOST_CELLS = 200_000
"""Maximum number of cells in an experiment. Listing this many takes a few minutes."""

TASKS = ("each", "together", "mixed")
"""Ways to run recipes with several tasks."""


class ExperimentError(TaskloomError):
    """Raised if an experiment cannot be read, has a misspelt key, or is impossible."""


class Keep(Fields):
    """Files that a run keeps in addition to its scores.

    Attributes:
        predictions: Every example with its prediction and score.
        logprobs: Log-probabilities of candidates, either of the example's own `targets` or of all
            `answers` of the training split.
        model: The fitted learner, in `model/`.
        curves: The learning curve.
    """

    predictions: bool = True
    logprobs: Literal["none", "targets", "answers"] = "none"
    model: bool = False
    curves: bool = True

    @model_validator(mode="after")
    def _possible(self) -> Keep:
        if self.logprobs != "none" and not self.predictions:
            raise ValueError("logprobs are kept in the predictions; keep those as well")
        return self


class Resources(Fields):
    """Resources of a run. They change no result beyond rounding and are not part of a run's digest.

    Attributes:
        cpus: Cores, and threads for libraries that choose their own number.
        gpus: Number of GPUs, or a fraction of one. `auto`: one GPU if the machine has one and the
            learner can use it.
        stack: Maximum seeds (or tasks) of one learner that are trained as one program; 1: train
            each alone.
    """

    cpus: int = Field(1, ge=1)
    gpus: float | Literal["auto"] = "auto"
    stack: int = Field(25, ge=1)

    @field_validator("gpus")
    @classmethod
    def _share(cls, value: float | str) -> float | str:
        if isinstance(value, float) and not 0 <= value < math.inf:
            raise ValueError("must be a number from 0")
        return value


class BestOf(Fields):
    """Choice of the best of several tries for each run. Tries differ only in the seed and are
    compared by their score on a split.

    Attributes:
        seeds: Number of tries per run. With 1, the run's own seed is used without a choice.
        split: The split of the training data on which tries are compared.
    """

    seeds: int = Field(1, ge=1, le=1_000)
    split: str = "dev"


BUDGET = re.compile(r"(\d+(?:\.\d+)?) ?(k|M)?(usd|tok|items)", re.IGNORECASE)
"""Matches a budget: a number, optionally in thousands (k) or millions (M), and its unit."""


class Until(Fields):
    """Rule for when to stop asking a model that answers without training.

    Attributes:
        goal: Half-width of the 95 % interval of each split's accuracy at which to stop. `decided`:
            stop as soon as two learners differ, or a single learner differs from chance. None: stop
            when the budget is spent.
        budget: Maximum cost of all cells together: `5usd`, `1Mtok` or `2000items`.
        group: Digest of the cells that share a budget or are compared. Computed, not set by users.
    """

    goal: float | Literal["decided"] | None = None
    budget: str = ""
    group: str = ""

    @field_validator("goal")
    @classmethod
    def _width(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, float) and not 0.001 < value < 0.5:
            raise ValueError("a half-width is a number between 0.001 and 0.5, such as 0.02")
        return value

    @model_validator(mode="after")
    def _possible(self) -> Until:
        if self.goal is None and not self.budget:
            raise ValueError("name a half-width (0.02), 'decided', or a budget (2000items)")
        if self.budget and not (BUDGET.fullmatch(self.budget) and self.amount > 0):
            raise ValueError(f"budget: write 5usd, 1Mtok or 2000items, not {self.budget!r}")
        return self

    @property
    def unit(self) -> str:
        """`usd`, `tok` or `items`; empty without a budget."""
        match = BUDGET.fullmatch(self.budget)
        return match[3].lower() if match else ""

    @property
    def amount(self) -> float:
        """The budget in its unit; infinite without one."""
        match = BUDGET.fullmatch(self.budget)
        if match is None:
            return math.inf
        factor = {"": 1, "k": 1_000, "m": 1_000_000}[(match[2] or "").lower()]
        return float(match[1]) * factor

    @property
    def shared(self) -> bool:
        """True if the time to stop depends on other cells."""
        return self.goal == "decided" or bool(self.budget)


class Experiment(Fields):
    """Recipes x learners x seeds.

    Attributes:
        recipes: Names, files, blocks `{recipe: NAME, set: {field: value}, seed: 0, grid: {field:
            [values]}}`, whole recipes, or your own data: a file or folder (`./mine`), also as
            `{recipe: ./mine, columns: {input: question, target: answer}}`; or a mix of them that
            one model learns from, `{mix: [NAME, ./mine], rates: [1, 2]}`.
        learners: Names (`bilstm`, `smollm2/fine-tune`), files (`mine.py`, `mine.py::NAME`), or
            blocks `{learner: NAME, setting: value, grid: {setting: [values]}}`.
        seeds: Number of seeds, or a list of seeds. `samples` is another name for it: each seed of a
            model behind an API is another sample of its replies.
        tasks: How to handle recipes with several tasks. `each`: one model per task. `together`: one
            model for all tasks that is given the description of the task. `mixed`: one model for
            all tasks without descriptions. A list of task names: one model per named task. By
            default, a recipe whose inputs do not state their task is an error.
        best_of: Number of tries from which a run keeps the one with the best score on `dev`, or
            `{seeds: 10, split: dev}`. With n tries, the run with seed s tries the seeds s * n to s
            * n + n - 1. Ties go to the first try.
        train: The split to learn from.
        evaluate: The splits to evaluate. A recipe's name, or the path of the user's own data,
            stands for its test splits; a block with `only: [SPLIT]` selects splits. Default: all
            test splits of the recipe, and those of the recipe that it names as `tested_by`.
        limit: Maximum examples to answer in each evaluated split, drawn at random from equal
            stretches of the split; 0: all. A run with a different limit is a different run.
        until: Ask learners that answer without training until their accuracy is certain: the
            half-width of its 95 % interval (`0.02`), `decided`, or a block `{goal: 0.02, budget:
            5usd}`. `limit` is then the maximum. Learners with a training loop
            answer all items.
        grid: Values to try for `recipe.FIELD` in every recipe, or for `learner.SETTING` in every
            learner that has it.
        keep: Files that each run keeps.
        resources: Resources of each run.
        store: Folder of the runs.
        track: Trackers to which curves and runs are also logged: `trackio`, `wandb`, `mlflow`. They
            do not affect results.
    """

    recipes: list[str | dict[str, Any]]
    learners: list[str | dict[str, Any]]
    seeds: int | list[int] = 1
    tasks: str | list[str] | None = None
    best_of: BestOf = BestOf()
    train: str = "train"
    evaluate: list[str | dict[str, Any]] = Field(default_factory=list)
    limit: int = Field(0, ge=0, strict=True)
    until: Until | None = None
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    keep: Keep = Keep()
    resources: Resources = Resources()
    store: str = "runs"
    track: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _samples(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "samples" not in data:
            return data
        if "seeds" in data:
            raise ValueError("'samples' and 'seeds' are the same; give one of them")
        return {("seeds" if key == "samples" else key): value for key, value in data.items()}

    @field_validator("track")
    @classmethod
    def _tracked(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in TRACKERS:
                raise ValueError(f"there is no tracker '{name}'; {nearest(name, TRACKERS)}")
        return names

    @field_validator("recipes", "learners", "evaluate", "track", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if isinstance(value, str | dict):
            return [value]
        if isinstance(value, tuple):
            return list(value)
        return value  # a list, or something that pydantic rejects

    @field_validator("until", mode="before")
    @classmethod
    def _goal(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, dict | Until) else {"goal": value}

    @field_validator("best_of", mode="before")
    @classmethod
    def _tries(cls, value: Any) -> Any:
        return {"seeds": value} if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _seeds_of_tries(self) -> Experiment:
        greatest = self.seeds - 1 if isinstance(self.seeds, int) else max(self.seeds)
        if (greatest + 1) * self.best_of.seeds > LAST_SEED + 1:
            raise ValueError(
                f"best_of: the seeds of the tries would exceed {LAST_SEED}; take smaller seeds or"
                " fewer tries"
            )
        return self

    @field_validator("tasks")
    @classmethod
    def _known_choice(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, str) and value not in TASKS:
            raise ValueError(
                f"{value!r} is neither a list of task names nor known; {nearest(value, TASKS)}"
            )
        if value == []:
            raise ValueError("name at least one task")
        return value

    @field_validator("recipes", "learners", mode="after")
    @classmethod
    def _some(cls, value: list[Any]) -> list[Any]:
        if not value:
            raise ValueError("name at least one")
        return value

    @field_validator("seeds", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        if isinstance(value, range) and len(value) > MOST_CELLS:
            raise ValueError(f"{len(value):,} seeds are more than {MOST_CELLS:,} runs; take fewer")
        if isinstance(value, range | tuple):
            value = list(value)
        if isinstance(value, bool) or (isinstance(value, int) and value < 1):
            raise ValueError(
                f"say how many (at least 1) or which, e.g. 3 or [0, 1, 2], not {value!r}"
            )
        if isinstance(value, int) and value > LAST_SEED + 1:
            raise ValueError(f"at most {LAST_SEED + 1}")
        if isinstance(value, str | float | dict):
            raise ValueError(f"say how many or which, e.g. 3 or [0, 1, 2], not {value!r}")
        if isinstance(value, list):
            for seed in value:
                if (
                    not isinstance(seed, int)
                    or isinstance(seed, bool)
                    or not 0 <= seed <= LAST_SEED
                ):
                    raise ValueError(
                        f"a seed is a whole number from 0 to {LAST_SEED}, not {seed!r}"
                    )
            if not value or len(set(value)) < len(value):
                raise ValueError("name different seeds, and at least one")
        return value

    @field_validator("grid")
    @classmethod
    def _placed(cls, grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key, values in grid.items():
            if not key.startswith(("recipe.", "learner.")):
                raise ValueError(
                    f"'{key}' must say whose field it is: recipe.{key} or learner.{key}"
                )
            if not values:
                raise ValueError(f"'{key}' has no values to try")
        return grid

    @property
    def seed_list(self) -> list[int]:
        """The seeds as a list."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


def packaged() -> dict[str, Path]:
    """Return the experiments in the papers' folders, by name."""
    experiments = {}
    for folder in paper_folders().values():
        for path in sorted(folder.glob("examples/*.yaml")):
            experiments[path.stem] = path
    return experiments


def read(path: str | Path) -> Experiment:
    """Read an experiment from a file, or a packaged experiment by name.

    Recipe files are searched next to the experiment, then in the current folder.
    """
    given = path_of(path)
    # A user's file takes precedence over a packaged experiment of the same name.
    path = given if given.exists() else packaged().get(str(path), given)
    if path.is_dir():
        raise ExperimentError(
            f"{path} is a folder; an experiment is a YAML file with recipes and learners"
        )
    if not path.exists():
        known = nearest(str(path), packaged())
        raise ExperimentError(
            f"there is no experiment file {path}; of those that come with Taskloom, {known}"
        )
    data = load(path, ExperimentError)
    if not isinstance(data, dict):
        what = "is empty" if data is None else "is not a mapping"
        raise ExperimentError(
            f"{path} {what}; an experiment is a YAML file with 'recipes:' and 'learners:'"
        )
    return check(data, str(path), path.parent)


def read_until(given: Until | None, goal: str | None, budget: str | None) -> Until:
    """Build the stopping rule from an experiment's block and the command's options."""
    block = given.model_dump(exclude={"group"}) if given is not None else {}
    if goal:
        number = re.fullmatch(r"0?\.\d+", goal)
        block["goal"] = float(goal) if number else goal
    if budget:
        block["budget"] = budget
    return validated(Until, block, "--until", ExperimentError)


def check(data: Mapping[str, Any], where: str, beside: Path | None = None) -> Experiment:
    """Check plain values and return the experiment."""
    experiment = validated(Experiment, dict(data), where, ExperimentError)
    if beside is None:
        return experiment
    recipes = [_beside(r, "recipe", beside) for r in experiment.recipes]
    learners = [_beside(x, "learner", beside) for x in experiment.learners]
    evaluate = [_beside(x, "recipe", beside) for x in experiment.evaluate]
    return experiment.model_copy(
        update={"recipes": recipes, "learners": learners, "evaluate": evaluate}
    )


def _beside(block: str | dict[str, Any], kind: str, folder: Path) -> str | dict[str, Any]:
    """Resolve a recipe's or learner's file relative to the experiment's folder first, so that an
    experiment runs from any folder.
    """
    if isinstance(block, dict):
        if isinstance(block.get("mix"), list):
            return {
                **block,
                "mix": [
                    _beside(m, kind, folder) if isinstance(m, str | dict) else m
                    for m in block["mix"]
                ],
            }
        name = block.get(kind)
        return {**block, kind: _beside(name, kind, folder)} if isinstance(name, str) else block
    file = block.partition("::")[0]
    if kind == "recipe" and (
        file.startswith(("./", "../")) or file.endswith((".jsonl", ".csv", ".parquet"))
    ):
        beside = folder / file  # the user's own data
        if beside.exists() and not file.endswith((".yaml", ".yml", ".py")):
            return str(beside.resolve())
    if (
        file.endswith((".yaml", ".yml", ".py"))
        and not Path(file).is_absolute()
        and (folder / file).is_file()
    ):
        return str(folder / block)
    return block
