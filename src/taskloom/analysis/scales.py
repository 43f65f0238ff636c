"""What the scales `gpu` and `paper` of a study mean: the settings of a plan, what is assumed where
the paper is silent, and the estimated GPU hours.

`papers/<paper>/scales.yaml` has sentences by scale and study (`all`: every study of the paper), and
`hours`: for a learner, and a model if it has one, either the hours of a run or the parameters and
tokens of an example from which they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from taskloom.analysis.conditions import short_value
from taskloom.recipe.yaml_files import parse

if TYPE_CHECKING:
    from taskloom.experiments.spec.cells import Cell

FLOPS = 1.25e14
"""FLOP/s of training on one GPU, about 40 % of the 312 TFLOP/s in bf16 of an A100."""

SHOWN = (
    "model",
    "pretrained",
    "optimiser",
    "rate",
    "warmup",
    "decay",
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
    "feed_forward",
    "heads",
    "slots",
    "dropout",
    "precision",
)
"""Settings that a dry run prints, if the learner has them."""


@cache
def scale_file(paper: str) -> Mapping[str, Any]:
    """Contents of a paper's scales.yaml; empty if it has none."""
    folder = paper.replace("-", "_")
    file = files("taskloom.papers").joinpath(folder, "scales.yaml")
    # Papers of other packages need not have one.
    if not paper or not file.is_file():
        return {}
    contents: Mapping[str, Any] = parse(file.read_text(encoding="utf-8"))
    return contents


def scale_statements(study: str, scale: str) -> list[str]:
    """What the dry run of a study states beside its settings: differences and assumptions."""
    paper, _, name = study.partition("/")
    stated = scale_file(paper).get(scale, {})
    return [*stated.get("all", ()), *stated.get(name, ())]


def resolved(cell: Cell) -> dict[str, Any]:
    """Settings of a run's learner with defaults filled in, those of its training included."""
    settings = dict(cell.settings)
    return {**settings, **(settings.pop("training", None) or {})}


UNLESS_SET = ("patience", "evaluate_epochs", "label_smoothing", "shots", "epochs")
"""Settings that are left out if they are 0."""


def settings_lines(cells: Sequence[Cell]) -> list[str]:
    """A line for each learner and its settings, with the recipes that it learns from."""
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        settings = resolved(cell)
        # With epochs, the number of steps follows from the data.
        hidden = ("steps", "evaluate_every") if settings.get("epochs") else ()
        known = {name: settings[name] for name in SHOWN if settings.get(name) not in (None, "")}
        shown = [
            f"{name} {short_value(value)}"
            for name, value in known.items()
            if name not in hidden and (value or name not in UNLESS_SET)
        ]
        key = (cell.learner_name, ", ".join(shown), cell.best_of.seeds)
        groups.setdefault(key, []).append(cell)
    return [_line(*key, own) for key, own in groups.items()]


def _line(learner: str, settings: str, tries: int, cells: Sequence[Cell]) -> str:
    recipes = ", ".join(dict.fromkeys(cell.data.name for cell in cells))
    tests = ", ".join(dict.fromkeys(test.name for cell in cells for test in cell.tests))
    seeds = len({cell.seed for cell in cells})
    best = f", each the best of {tries} by dev" if tries > 1 else ""
    return (
        f"{learner} on {recipes}: {settings or 'no settings'}; {len(cells):,} runs with"
        f" {seeds} seeds{best}; answers {tests}"
    )


def gpu_hours(study: str, cells: Sequence[Cell]) -> Iterator[str]:
    """Sentences on the estimated GPU hours of a plan, one for each source of an estimate."""
    rules = scale_file(study.partition("/")[0]).get("hours", ())
    hours: dict[str, float] = {}
    runs: dict[str, int] = {}
    unknown = 0
    for cell in cells:
        rule = _rule(rules, cell)
        own = None if rule is None else _hours(rule, cell)
        if rule is None or own is None:
            unknown += cell.learner_name != "majority"
            continue
        hours[rule["source"]] = hours.get(rule["source"], 0.0) + own * cell.best_of.seeds
        runs[rule["source"]] = runs.get(rule["source"], 0) + 1
    for source, total in hours.items():
        yield f"about {total:,.0f} GPU hours for {runs[source]:,} runs ({source})"
    if unknown:
        yield f"GPU hours of {unknown:,} runs are not known"


def _rule(rules: Sequence[Mapping[str, Any]], cell: Cell) -> Mapping[str, Any] | None:
    """The first rule of a run's learner and model."""
    model = cell.settings.get("model")
    for rule in rules:
        if cell.learner_name == rule["learner"] and rule.get("model", model) == model:
            return rule
    return None


def _hours(rule: Mapping[str, Any], cell: Cell) -> float | None:
    """GPU hours of one training; None if the number of its steps is not known."""
    if "per_run" in rule:
        return float(rule["per_run"])
    settings = resolved(cell)
    if "per_epoch" in rule:
        return float(rule["per_epoch"]) * float(settings["epochs"])
    examples = settings["steps"] * settings["batch"]
    if settings.get("epochs"):
        splits = getattr(cell.data.parts[0].recipe.fields, "splits", None) or {}
        train = splits.get("train")
        rows = getattr(train, "n", None)
        if not isinstance(rows, int):
            rows = rule.get("rows")
        if rows is None:
            return None
        examples = settings["epochs"] * rows
    # Forward and backward passes: six operations for each parameter and token.
    operations: float = 6.0 * float(rule["parameters"]) * float(rule["tokens"]) * examples
    return operations / FLOPS / 3_600
