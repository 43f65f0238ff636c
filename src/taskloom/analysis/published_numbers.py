"""Published numbers with their conditions, and how the conditions of our runs differ from them.

Published numbers are in data files, one per paper, each number with its place in the paper.

A paper's folder is `papers/<paper>/`, or a package of another distribution, which names it under
the entry-point group `taskloom`. Its `published.yaml` has the paper's title, its tables and figures
(`places`) and its numbers:

    numbers:
      - {place: Table 1, of: {model: bilstm, variant: A, split: ood}, value: 0.95, sd: 0.03, n: 25}

`of` describes the number in the terms that studies use to look it up. `sd` is the standard
deviation over trainings, and `n` their number. Without them the number is treated as that of one
training. `decimals` is the number of decimals in the paper (default: 2). `margin` is the difference
that still counts as agreement, for numbers with their own scale. Conditions that many numbers share
are given once, under `conditions: {all: …, GROUP: …}`; a number names its groups by `under: GROUP`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.registry import paper_folders
from taskloom.experiments.accuracy import shown_setting
from taskloom.experiments.spec.cell_data import read_data
from taskloom.learners.config import read as read_learner
from taskloom.recipe import Recipe
from taskloom.recipe.yaml_files import parse

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

NUMBERS = "published.yaml"
"""File with the published numbers in the folder of a paper."""

MARGIN = 0.05
"""Difference of two accuracies that still counts as agreement. No claim of the papers rests on a
difference of five percentage points.
"""

WIDE_MARGIN, WIDE_SPREAD = 0.10, 0.15
"""Margin for numbers whose published standard deviation between trainings is above the second
number.

The mean of 25 trainings with a standard deviation of 0.27 is itself known only to ± 0.11.
"""


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """A published number.

    Attributes:
        paper: The paper's name: `dyna-babi`.
        place: Place in the paper: `Table 1`, `section 4.1`.
        of: Description of the number, as labels with values.
        value: The number.
        sd: Standard deviation over trainings; None if the paper gives none. With `n` 1, the
            standard error of the number.
        n: Number of trainings that it averages.
        decimals: Number of decimals in the paper.
        own_margin: Margin of agreement on the number's own scale, if it is not an accuracy
            (slopes).
        conditions: Settings under which it was measured: `learner.steps: 80000`, `recipe.functions:
            32`.
        essential: Conditions that must agree for a comparison of numbers to mean anything.
    """

    paper: str
    place: str
    of: Mapping[str, Any]
    value: float
    sd: float | None = None
    n: int = 1
    decimals: int = 2
    own_margin: float | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    essential: tuple[str, ...] = ()

    @property
    def rounding(self) -> float:
        """Half a unit of the last decimal that the paper gives."""
        return 0.5 * 10.0**-self.decimals

    @property
    def margin(self) -> float:
        """Largest difference that counts as agreement."""
        if self.own_margin is not None:
            return self.own_margin
        if self.sd is not None and self.sd > WIDE_SPREAD:
            return WIDE_MARGIN
        return MARGIN

    @property
    def name(self) -> str:
        """Description of the number, as text."""
        return ", ".join(str(value) for value in self.of.values())

    def __str__(self) -> str:
        spread = "" if self.sd is None else f" ± {self.sd:.{max(0, self.decimals)}f}"
        return f"{self.value:,.{max(0, self.decimals)}f}{spread}"


@dataclass(frozen=True, slots=True)
class PaperPlace:
    """A table or figure of a paper, whether a study of it exists or not.

    Attributes:
        study: The name of its study.
        paper: The paper's title in short.
        place: `Table 1`.
        shows: Content of the table or figure.
        needs: Requirements for reproducing it: no training, networks from scratch, or a pretrained
            model.
    """

    study: str
    paper: str
    place: str
    shows: str
    needs: str


@dataclass(frozen=True, slots=True)
class PaperData:
    """Contents of a paper's data file.

    Attributes:
        name: The paper's name: `dyna-babi`.
        paper: The paper's title in short.
        places: Its tables and figures, and our own questions about it.
        numbers: Its numbers.
    """

    name: str
    paper: str
    places: tuple[PaperPlace, ...]
    numbers: tuple[PublishedNumber, ...]


def _files() -> dict[str, Path]:
    """The data files of all papers, by the papers' names."""
    files: dict[str, Path] = {}
    for package, folder in paper_folders().items():
        # A folder is a Python package, so its name has underscores where the paper's name has
        # hyphens.
        name = package.rpartition(".")[2].replace("_", "-")
        file = folder / NUMBERS
        if not file.is_file():
            continue
        if name in files:
            raise TaskloomError(
                f"two packages have published numbers of '{name}': {files[name]} and {file};"
                " uninstall one, or rename its package"
            )
        files[name] = file
    return files


def paper_names() -> list[str]:
    """The papers that have a data file, in this package or in one that an entry point names."""
    return sorted(_files())


def paper(name: str) -> PaperData:
    """Read the data file of a paper."""
    files = _files()
    if name not in files:
        raise TaskloomError(f"there are no published numbers of '{name}'; {nearest(name, files)}")
    return _read(name, files[name])


@cache
def _read(name: str, file: Path) -> PaperData:
    data = parse(file.read_text(encoding="utf-8"))
    title = data["paper"]
    places = tuple(PaperPlace(paper=title, **place) for place in data["places"])
    shared, essential = data.get("conditions", {}), tuple(data.get("essential", ()))
    numbers = tuple(_number(name, row, shared, essential) for row in data.get("numbers", ()))
    return PaperData(name, title, places, numbers)


def published(name: str, place: str | None = None, **of: Any) -> list[PublishedNumber]:
    """Return the numbers of a paper, optionally only those from one place or with the given labels.

    Args:
        name: The paper's name: `dyna-babi`.
        place: Only numbers from this place: `Table 1`.
        **of: Only numbers with these labels: `model="bilstm"`.
    """
    numbers = [n for n in paper(name).numbers if place in (None, n.place)]
    return [n for n in numbers if all(n.of.get(key) == value for key, value in of.items())]


def _number(
    name: str, row: Mapping[str, Any], shared: Mapping[str, Any], essential: tuple[str, ...]
) -> PublishedNumber:
    """Build a number with the conditions that it shares with others: those for `all`, and those of
    the groups it is `under`.
    """
    own = dict(row)
    own_margin = own.pop("margin", None)
    groups = str(own.pop("under", "")).split()
    common = {k: v for group in ("all", *groups) for k, v in shared.get(group, {}).items()}
    conditions = {**common, **own.pop("conditions", {})}
    return PublishedNumber(
        paper=name, essential=essential, conditions=conditions, own_margin=own_margin, **own
    )


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
        their_value = MODEL_NAMES.get(str(theirs), shown_setting(theirs))
        if key == EPOCHS and not ours[key] and STEPS in ours:
            # With 0 epochs, training takes the given number of steps.
            differing[key] = f"steps {shown_setting(ours[STEPS])} (paper: {their_value} epochs)"
            continue
        our_value = MODEL_NAMES.get(str(ours[key]), shown_setting(ours[key]))
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
