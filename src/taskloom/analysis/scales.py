"""Definition of the scales `gpu` and `paper` of a study: settings, assumptions where the paper
gives no value, and estimated GPU hours.

`papers/<paper>/scales.yaml` has sentences by scale and study (`all`: every study of the paper), and
`hours`: for a learner, and a model if it has one, either the hours of a run or the parameters and
tokens of an example from which they are computed. A sentence `{for: [NAME, …], text: …}` is for
plans with one of these learners, models or recipes. `unknown` is a sentence on learners without a
rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING, Any

from taskloom.analysis.study import joined_choices
from taskloom.core.tables import counted
from taskloom.experiments.accuracy import short_value
from taskloom.recipe.yaml_files import parse

if TYPE_CHECKING:
    from taskloom.experiments.spec.cells import Cell
    from taskloom.experiments.spec.experiment import Experiment

FLOPS = 1.25e14
"""FLOP/s of training on one GPU: about 40 % of an A100's 312 TFLOP/s in bf16."""

HIDDEN = {
    "training",
    "evaluate_at",
    "order_seed",
    "checkpoint_every",
    "device",
    "threads",
    "compile",
    "graphs",
    "kernels",
    "shortest",
    "without_span",
    "cut",
}
"""Settings that a dry run does not print: those that affect the speed of a run but not what it
learns, and those for data that no paper uses. `training` is printed setting by setting.
"""


@cache
def scale_file(paper: str) -> Mapping[str, Any]:
    """Contents of a paper's scales.yaml; empty if it has none."""
    folder = paper.replace("-", "_")
    file = files("taskloom.papers").joinpath(folder, "scales.yaml")
    # Papers in other packages need not have the file.
    if not paper or not file.is_file():
        return {}
    contents: Mapping[str, Any] = parse(file.read_text(encoding="utf-8"))
    return contents


def scale_statements(study: str, scale: str, names: Set[str] | None = None) -> list[str]:
    """Differences and assumptions that the dry run of a study prints next to its settings.

    Args:
        study: Name of the study.
        scale: `gpu` or `paper`.
        names: Learners, models and recipes that are planned. Statements `for` others are omitted.
            None: all statements.
    """
    paper, _, name = study.partition("/")
    stated = scale_file(paper).get(scale, {})
    statements = []
    for one in (*stated.get("all", ()), *stated.get(name, ())):
        if isinstance(one, str):
            statements.append(one)
        elif names is None or not names.isdisjoint(one["for"]):
            statements.append(one["text"])
    return statements


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A planned run, with everything that determines its conditions and its cost.

    Attributes:
        learner: Name of the learner.
        settings: Its settings with defaults filled in, including those of its training.
        data: Training data.
        tests: Splits that it answers.
        seed: Seed of the run.
        tries: Number of trainings, of which the best on dev is kept.
        rows: Training rows, if the recipe states them.
    """

    learner: str
    settings: Mapping[str, Any]
    data: str
    tests: tuple[str, ...]
    seed: int
    tries: int
    rows: int | None = None

    @property
    def model(self) -> str:
        """Pretrained model; empty if there is none."""
        return str(self.settings.get("model") or "")


def planned(cell: Cell) -> PlannedRun:
    """Convert a cell to a planned run."""
    splits = getattr(cell.data.parts[0].recipe.fields, "splits", None) or {}
    rows = getattr(splits.get("train"), "n", None)
    return PlannedRun(
        cell.learner_name,
        _flat(cell.settings),
        cell.data.name,
        tuple(test.name for test in cell.tests),
        cell.seed,
        cell.best_of.seeds,
        rows if isinstance(rows, int) else None,
    )


def planned_without_data(experiment: Experiment) -> Iterator[PlannedRun]:
    """Runs of an experiment whose data are missing: one for each recipe, learner and seed."""
    from taskloom.experiments.spec.cells import tried_learners

    for recipe in experiment.recipes:
        for _, name, learner in tried_learners(experiment):
            settings = _flat(dataclasses.asdict(learner))  # type: ignore[call-overload]
            tests = tuple(str(test) for test in experiment.evaluate or ())
            for seed in experiment.seed_list:
                tries = experiment.best_of.seeds
                yield PlannedRun(name, settings, _recipe_name(recipe), tests, seed, tries)


def _recipe_name(recipe: str | Mapping[str, Any]) -> str:
    if isinstance(recipe, str):
        return recipe
    if "mix" in recipe:
        return "+".join(_recipe_name(part) for part in recipe["mix"])
    return str(recipe["recipe"])


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    own = dict(settings)
    return {**own, **(own.pop("training", None) or {})}


UNLESS_SET = (
    "patience",
    "evaluate_epochs",
    "label_smoothing",
    "shots",
    "epochs",
    "halve_every",
    "cut_answers",
    "longest_input",
    "layers_answering",
)
"""Settings that are omitted if they are 0 or false."""

Shown = tuple[tuple[str, str], ...]
"""Names and values of the settings that are printed."""


def settings_lines(runs: Sequence[PlannedRun]) -> list[str]:
    """One line for each learner and its settings, with the recipes that it learns from. The values
    that a search combines are on one line.
    """
    alike: dict[tuple[Any, ...], list[PlannedRun]] = {}
    for run in runs:
        names = tuple(name for name, _ in _shown(run))
        alike.setdefault((run.learner, run.tries, run.data, names), []).append(run)
    groups: dict[tuple[str, int, str], list[PlannedRun]] = {}
    for (learner, tries, *_), own in alike.items():
        for text, some in _searched(own):
            groups.setdefault((learner, tries, text), []).extend(some)
    return [_line(*key, own) for key, own in groups.items()]


def _searched(runs: Sequence[PlannedRun]) -> Iterator[tuple[str, list[PlannedRun]]]:
    """Settings of runs that have the same names of settings, as text: once if they are all
    combinations of some values, otherwise once for each combination.
    """
    combinations: dict[Shown, list[PlannedRun]] = {}
    for run in runs:
        combinations.setdefault(_shown(run), []).append(run)
    values: dict[str, dict[str, None]] = {}
    for combination in combinations:
        for name, value in combination:
            values.setdefault(name, {})[value] = None
    if prod(len(own) for own in values.values()) == len(combinations):
        yield _text({name: joined_choices(tuple(own)) for name, own in values.items()}), list(runs)
        return
    for combination, own in combinations.items():
        yield _text(dict(combination)), own


def _text(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "no settings"


def _shown(run: PlannedRun) -> Shown:
    # With epochs, the number of steps follows from the data.
    follow = ("steps", "evaluate_every") if run.settings.get("epochs") else ()
    return tuple(
        (name, _value(value))
        for name, value in run.settings.items()
        if name not in HIDDEN
        and name not in follow
        and value not in (None, "")
        and (value or name not in UNLESS_SET)
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'" if " " in value else short_value(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _line(learner: str, tries: int, settings: str, runs: Sequence[PlannedRun]) -> str:
    recipes = ", ".join(dict.fromkeys(run.data for run in runs))
    tests = ", ".join(dict.fromkeys(test for run in runs for test in run.tests))
    count, seeds = counted(len(runs), "run"), counted(len({run.seed for run in runs}), "seed")
    best = f", each the best of {tries} by dev" if tries > 1 else ""
    return f"{learner} on {recipes}: {settings}; {count} with {seeds}{best}; answers {tests}"


def data_lines(cells: Sequence[Cell]) -> list[str]:
    """One line for each recipe, with the rows of the splits that are learned, chosen by (dev) or
    answered.
    """
    sizes: dict[str, dict[str, set[int]]] = {}
    for cell in cells:
        chooses = cell.best_of.seeds > 1 or bool(_flat(cell.settings).get("patience"))
        learned = (cell.train, "dev") if chooses else (cell.train,)
        used = [(data, split, 0) for data in cell.data.parts for split in learned]
        used += [(test.data, test.split, test.limit) for test in cell.tests]
        for data, split, limit in used:
            rows = {one.name: one.n for one in data.plan.splits}.get(split)
            if rows is not None:
                name = f"{data.name}, all tasks together" if cell.task else data.name
                own = sizes.setdefault(name, {}).setdefault(split, set())
                own.add(min(rows, limit or rows))
    return [
        f"{name}: {', '.join(f'{split} {_range(own)}' for split, own in splits.items())}"
        for name, splits in sizes.items()
    ]


def _range(rows: Collection[int]) -> str:
    least, most = min(rows), max(rows)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _learner_name(learner: str, runs: Sequence[PlannedRun]) -> str:
    """Name of a learner, with its models in the given runs."""
    models = dict.fromkeys(run.model for run in runs if run.model)
    return f"{learner} ({', '.join(models)})" if models else learner


def gpu_hours(study: str, runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Sentences on the estimated GPU hours of a plan, one for each source of an estimate."""
    stated = scale_file(study.partition("/")[0])
    hours: dict[tuple[str, str], float] = {}
    estimated: dict[tuple[str, str], list[PlannedRun]] = {}
    unknown: list[PlannedRun] = []
    for run in runs:
        rule = _rule(stated.get("hours", ()), run)
        own = None if rule is None else _hours(rule, run)
        if rule is None or own is None:
            unknown += [run] if run.learner != "majority" else []
            continue
        key = (run.learner, rule["source"])
        hours[key] = hours.get(key, 0.0) + own * run.tries
        estimated.setdefault(key, []).append(run)
    for (learner, source), total in hours.items():
        # Below ten hours the first decimal matters, so that half an hour is not shown as 0.
        amount = f"{total:,.0f}" if total >= 10 else f"{max(total, 0.1):.1f}"
        own_runs = estimated[learner, source]
        yield (
            f"{_learner_name(learner, own_runs)}: about {amount} GPU hours for"
            f" {counted(len(own_runs), 'run')} ({source})"
        )
    if unknown:
        why = stated.get("unknown", "")
        names = ", ".join(dict.fromkeys(run.learner for run in unknown))
        runs_unknown = counted(len(unknown), "run")
        yield f"{names}: GPU hours of {runs_unknown} are not known" + (f": {why}" if why else "")


def _rule(rules: Sequence[Mapping[str, Any]], run: PlannedRun) -> Mapping[str, Any] | None:
    """First rule that matches a run's learner and model."""
    model = run.settings.get("model")
    for rule in rules:
        if run.learner == rule["learner"] and rule.get("model", model) == model:
            return rule
    return None


def _hours(rule: Mapping[str, Any], run: PlannedRun) -> float | None:
    """GPU hours of one training; None if the number of steps is unknown."""
    if "per_run" in rule:
        return float(rule["per_run"])
    settings = run.settings
    if "per_epoch" in rule:
        return float(rule["per_epoch"]) * float(settings["epochs"])
    examples = settings["steps"] * settings["batch"]
    if settings.get("epochs"):
        rows = run.rows if run.rows is not None else rule.get("rows")
        if rows is None:
            return None
        examples = settings["epochs"] * rows
    # Forward and backward passes: six operations for each parameter and token.
    operations: float = 6.0 * float(rule["parameters"]) * float(rule["tokens"]) * examples
    return operations / FLOPS / 3_600
