"""Definition of the scales `gpu` and `paper` of a study: settings, assumptions where the paper
gives no value, and estimated GPU hours.

`papers/<paper>/scales.yaml` has sentences by scale and study (`all`: every study of the paper), and
`hours`: for a learner, and a model if it has one, either the hours of a run or the parameters and
tokens of an example from which they are computed. `unknown` is a sentence on learners without a
rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from taskloom.analysis.conditions import short_value
from taskloom.recipe.yaml_files import parse

if TYPE_CHECKING:
    from taskloom.experiments.spec.cells import Cell
    from taskloom.experiments.spec.experiment import Experiment

FLOPS = 1.25e14
"""FLOP/s of training on one GPU, about 40 % of the 312 TFLOP/s in bf16 of an A100."""

SHOWN = (
    "model",
    "pretrained",
    "optimiser",
    "rate",
    "warmup",
    "decay",
    "halve_every",
    "weight_decay",
    "clip",
    "batch",
    "steps",
    "epochs",
    "patience",
    "evaluate_every",
    "evaluate_epochs",
    "n",
    "rank",
    "shots",
    "targets",
    "label_smoothing",
    "beams",
    "longest_input",
    "longest_answer",
    "state",
    "layers",
    "layers_answering",
    "feed_forward",
    "heads",
    "slots",
    "dropout",
    "attention_dropout",
    "gate_dropout",
    "precision",
)
"""Settings that a dry run prints if the learner has them."""


@cache
def scale_file(paper: str) -> Mapping[str, Any]:
    """Contents of a paper's scales.yaml; empty if it has none."""
    folder = paper.replace("-", "_")
    file = files("taskloom.papers").joinpath(folder, "scales.yaml")
    # Papers in other packages need not have one.
    if not paper or not file.is_file():
        return {}
    contents: Mapping[str, Any] = parse(file.read_text(encoding="utf-8"))
    return contents


def scale_statements(study: str, scale: str) -> list[str]:
    """Differences and assumptions that the dry run of a study prints next to its settings."""
    paper, _, name = study.partition("/")
    stated = scale_file(paper).get(scale, {})
    return [*stated.get("all", ()), *stated.get(name, ())]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A planned run, with everything that its conditions and its cost depend on.

    Attributes:
        learner: Name of the learner.
        settings: Its settings with defaults filled in, those of its training included.
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


def planned(cell: Cell) -> PlannedRun:
    """A cell as a run of a plan."""
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


UNLESS_SET = ("patience", "evaluate_epochs", "label_smoothing", "shots", "epochs", "halve_every")
"""Settings that are omitted if they are 0."""


def settings_lines(runs: Sequence[PlannedRun]) -> list[str]:
    """One line for each learner and its settings, with the recipes that it learns from."""
    groups: dict[tuple[str, str, int], list[PlannedRun]] = {}
    for run in runs:
        # With epochs, the number of steps follows from the data.
        hidden = ("steps", "evaluate_every") if run.settings.get("epochs") else ()
        known = {name: run.settings.get(name) for name in SHOWN}
        shown = [
            f"{name} {short_value(value)}"
            for name, value in known.items()
            if value not in (None, "") and name not in hidden and (value or name not in UNLESS_SET)
        ]
        groups.setdefault((run.learner, ", ".join(shown), run.tries), []).append(run)
    return [_line(*key, own) for key, own in groups.items()]


def _line(learner: str, settings: str, tries: int, runs: Sequence[PlannedRun]) -> str:
    recipes = ", ".join(dict.fromkeys(run.data for run in runs))
    tests = ", ".join(dict.fromkeys(test for run in runs for test in run.tests))
    seeds = len({run.seed for run in runs})
    best = f", each the best of {tries} by dev" if tries > 1 else ""
    return (
        f"{learner} on {recipes}: {settings or 'no settings'}; {len(runs):,} runs with"
        f" {seeds} seeds{best}; answers {tests}"
    )


def gpu_hours(study: str, runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Sentences on the estimated GPU hours of a plan, one for each source of an estimate."""
    stated = scale_file(study.partition("/")[0])
    hours: dict[str, float] = {}
    counts: dict[str, int] = {}
    unknown = 0
    for run in runs:
        rule = _rule(stated.get("hours", ()), run)
        own = None if rule is None else _hours(rule, run)
        if rule is None or own is None:
            unknown += run.learner != "majority"
            continue
        hours[rule["source"]] = hours.get(rule["source"], 0.0) + own * run.tries
        counts[rule["source"]] = counts.get(rule["source"], 0) + 1
    for source, total in hours.items():
        # Below ten hours the first decimal matters, so that half an hour is not shown as 0.
        amount = f"{total:,.0f}" if total >= 10 else f"{max(total, 0.1):.1f}"
        yield f"about {amount} GPU hours for {counts[source]:,} runs ({source})"
    if unknown:
        why = stated.get("unknown", "")
        yield f"GPU hours of {unknown:,} runs are not known" + (f": {why}" if why else "")


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
