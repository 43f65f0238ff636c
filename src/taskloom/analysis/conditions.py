"""Conditions under which runs were made, and how they differ from those of a published number."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import TaskloomError
from taskloom.experiments.accuracy import varying
from taskloom.experiments.spec.cell_data import read_data
from taskloom.learners.config import read as read_learner
from taskloom.recipe import Recipe
from taskloom.recipe.yaml_files import parse

if TYPE_CHECKING:
    from taskloom.analysis.published_numbers import PublishedNumber
    from taskloom.experiments.table import Runs

Conditions = Mapping[str, Any]
"""Settings as `recipe.FIELD` and `learner.SETTING`, with defaults filled in and nested names joined
by dots.
"""

EPOCHS, STEPS = "learner.epochs", "learner.steps"

MODEL_NAMES = {
    "smollm2": "SmolLM2-135M",
    "t5-base": "T5-base",
    "roberta-base": "RoBERTa-base",
    "t5-11b": "T5-11B",
    "facebook/bart-large": "BART-large",
}
"""Display names of pretrained models. Others keep their own name."""


SETTING_NAMES = {"learner.n": "prompt vectors", "recipe.sequences.length": "items of a sequence"}
"""Display names of settings whose own name is unclear in a list of conditions."""


def model_name(ours: Conditions) -> str:
    """Name of a run's pretrained model for tables and figures; empty if it has none.

    >>> model_name({"learner.model": "smollm2", "learner.pretrained": False})
    'SmolLM2-135M (random weights)'
    """
    model = str(ours.get("learner.model") or "")
    name = MODEL_NAMES.get(model, model)
    return f"{name} (random weights)" if name and random_twin(ours) else name


def random_twin(ours: Conditions) -> bool:
    """True if a run's model has the architecture of a pretrained one, with random weights."""
    return ours.get("learner.pretrained") is False


def conditions_of(runs: Runs, run: str) -> Conditions:
    """All settings under which a run was made, with defaults filled in.

    If the recipe or learner is not known here, only the recorded settings are returned.
    """
    text = runs.config(run)
    settings = dict(runs[run].fields)
    if ".py" in text:
        # Code that is named only by a store is never run.
        return settings
    config = parse(text)
    try:
        recipe = _recipe(config)
        settings = {**flatten(recipe.fields.model_dump(mode="json"), "recipe"), **settings}
    except TaskloomError:
        pass
    try:
        learner: Any = read_learner(config["learners"][0], "learners:")
        values = json.loads(json.dumps(dataclasses.asdict(learner)))
        loop = values.pop("training", {})
        settings = {**flatten({**values, **loop}, "learner"), **settings}
    except TaskloomError:
        pass
    return _with_steps_of_epochs(settings)


def _with_steps_of_epochs(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with `steps` computed from `epochs`, which override it; removed if the number is
    unknown.

    `recipe.limit` concerns test items and so has no effect:

    >>> rows = {"recipe.splits.train.n": 100, "recipe.limit": 10}
    >>> _with_steps_of_epochs({"learner.epochs": 2.0, "learner.steps": 9, "learner.batch": 8, **rows})["learner.steps"]
    25
    """
    if not settings.get(EPOCHS):
        return settings
    rows, batch = settings.get("recipe.splits.train.n"), settings.get("learner.batch")
    known = {STEPS: int(settings[EPOCHS] * rows / batch)} if rows and batch else {}
    return {key: value for key, value in settings.items() if key != STEPS} | known


def run_labels(runs: Runs) -> dict[str, str]:
    """Name of each run in tables and figures: learner, recipe, and the fields in which runs vary.

    Runs with the same label are repetitions: they differ in the seed alone.
    """
    columns = [column for column in varying(runs) if column not in ("recipe", "learner")]
    labels = {}
    for row in runs.table.to_pylist():
        fields = [f"{c.partition('.')[2]} {_shown(row[c])}" for c in columns if row[c] is not None]
        labels[row["run"]] = ", ".join([str(row["learner"]), str(row["recipe"]), *fields])
    return labels


def recipe_of(runs: Runs, run: str) -> Recipe:
    """Recipe that a run learned from; the first one of a mix. Code that is named only by a store is
    never run.
    """
    text = runs.config(run)
    if ".py" in text:
        raise TaskloomError(
            f"the run {run} uses a recipe or learner in a Python file, which is not run"
        )
    return _recipe(parse(text))


def _recipe(config: Mapping[str, Any]) -> Recipe:
    return next(iter(read_data(config["recipes"][0], {}))).parts[0].recipe


def differences(number: PublishedNumber, ours: Conditions) -> tuple[str, ...]:
    """One sentence for each condition that differs from the paper's. Conditions that are unknown
    for our run are omitted.
    """
    return tuple(_differing(number, ours).values())


def comparable(number: PublishedNumber, ours: Conditions) -> bool:
    """True if no essential condition differs from the paper's."""
    return not set(_differing(number, ours)) & set(number.essential)


def _differing(number: PublishedNumber, ours: Conditions) -> dict[str, str]:
    differing = {}
    for key, theirs in number.conditions.items():
        if key not in ours or ours[key] == theirs:
            continue
        their_value = MODEL_NAMES.get(str(theirs), _shown(theirs))
        if key == EPOCHS and not ours[key] and STEPS in ours:
            # With 0 epochs, training takes the given number of steps.
            differing[key] = f"steps {_shown(ours[STEPS])} (paper: {their_value} epochs)"
            continue
        our_value = MODEL_NAMES.get(str(ours[key]), _shown(ours[key]))
        name = SETTING_NAMES.get(key) or key.partition(".")[2]
        differing[key] = f"{name} {our_value} (paper: {their_value})"
    return differing


def flatten(values: Mapping[str, Any], head: str) -> dict[str, Any]:
    """Nested values under dotted names.

    >>> flatten({"splits": {"train": {"n": 5}}}, "recipe")
    {'recipe.splits.train.n': 5}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{head}.{key}"
        flat.update(flatten(value, name) if isinstance(value, Mapping) else {name: value})
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return short_value(value)


STORED = re.compile(r"^.*/[0-9a-f]{2}/([0-9a-f]{8})[0-9a-f]{24}(/.*)?$")
"""A path in a run store."""


def short_value(value: Any) -> str:
    """Format the value of a setting for labels. Paths in a run store are shortened to the first
    digits of the run's name.

    >>> short_value("/data/runs/36/36d76a7b23471100f4b75da084962b25/model"), short_value(0.5)
    ('36d76a7b', '0.5')
    """
    return STORED.sub(r"\1", str(value))
