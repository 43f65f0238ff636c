"""The panel of a profile: the recipes that are run, how a model is asked, the contrasted
conditions, and the verdict on each contrast.

The panel is defined in `panel.yaml`, a versioned file of the package. Two profiles are compared
only if they were made with the same version.

A contrast asks whether the hard condition is as good as the easy one. The rule, in this order:

1. The interval of the easy condition includes the chance score or that of the best constant answer,
   whichever is higher: **not above guessing**. There is nothing that could break.
2. The whole interval of *hard - easy* is below 0: **breaks**.
3. The whole interval is above -0.1, and above minus half of the easy condition's margin over
   guessing: **holds**. The second part is for scores such as 0.04, which could be lost entirely
   within the first.
4. Otherwise **inconclusive**: the data are compatible with both.

The right answers of a control cannot be known, so it is **clean** if its hard side is not above
guessing, and **above guessing** if it is. All intervals are 95 % intervals without correction for
multiple tests: one in twenty contrasts without a loss may be called broken by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.scoring import any_of, form_of
from taskloom.experiments.statistics import Estimate, over_items, two_way
from taskloom.experiments.statistics.distributions import normal_quantile
from taskloom.experiments.statistics.intervals import LEVEL
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import load, validated

FILE = Path(__file__).parent / "panel.yaml"

Way = Literal["zero-shot", "few-shot", "described"]
"""How a model is asked. zero-shot: the input alone; few-shot: training examples before it;
described: the task's description before it.
"""


class PanelError(TaskloomError):
    """Raised if a panel cannot be read."""


class PanelRecipe(Fields):
    """A recipe of the panel, and how models are asked.

    Attributes:
        recipe: Name of the recipe.
        set: Changes to its fields.
        splits: The splits that are answered, as an experiment spells them under `evaluate`.
        ways: Ways in which a model is asked.
        shots: Number of examples in few-shot prompts.
        tokens: Maximum tokens of an answer.
    """

    recipe: str
    set: dict[str, Any] = Field(default_factory=dict)
    splits: list[str]
    ways: list[Way]
    shots: int = Field(4, ge=1)
    tokens: int = Field(12, ge=1)

    @property
    def split_names(self) -> list[str]:
        """Names of the splits in runs: `test` for `SUITE/NAME:test`."""
        return [split.rpartition(":")[2] for split in self.splits]


class PanelSide(Fields):
    """One condition of a contrast: a split of a recipe, or its examples with the given traits.

    Attributes:
        recipe: Name of the recipe in the panel.
        split: One of its splits.
        where: Traits with their values.
    """

    recipe: str
    split: str
    where: dict[str, str] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        """The condition as one text: `NAME:test`, followed by its traits if it has any."""
        return ":".join(
            [self.recipe, self.split, *(f"{k}={v}" for k, v in sorted(self.where.items()))]
        )


class PanelContrast(Fields):
    """Two conditions that differ in one respect.

    Attributes:
        axis: The dimension in which they differ.
        name: The contrast in words.
        easy: The condition that is the baseline.
        hard: The condition that is compared with the baseline.
        same: True if both have the same items and are therefore compared item by item.
        control: True if the answers of the hard condition cannot be known.
    """

    axis: str
    name: str
    easy: PanelSide
    hard: PanelSide
    same: bool = False
    control: bool = False

    @field_validator("easy", "hard", mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Read `NAME:SPLIT`."""
        if isinstance(value, str):
            recipe, _, split = value.partition(":")
            return {"recipe": recipe, "split": split}
        return value


class TaskPanel(Fields):
    """A panel.

    Attributes:
        version: Version number, increased with every change.
        recipes: Recipes by name.
        contrasts: Contrasts in the order of the page.
    """

    version: int
    recipes: dict[str, PanelRecipe]
    contrasts: list[PanelContrast]

    @model_validator(mode="after")
    def _known(self) -> TaskPanel:
        for contrast in self.contrasts:
            for side in (contrast.easy, contrast.hard):
                if side.recipe not in self.recipes:
                    raise ValueError(
                        f"contrasts: '{contrast.name}' names '{side.recipe}';"
                        f" {nearest(side.recipe, self.recipes)}"
                    )
                splits = self.recipes[side.recipe].split_names
                if side.split not in splits:
                    raise ValueError(
                        f"contrasts: {side.recipe} has no split '{side.split}';"
                        f" {nearest(side.split, splits)}"
                    )
        return self

    def ways_of(self, contrast: PanelContrast) -> list[Way]:
        """Ways in which both sides of a contrast are asked."""
        hard = self.recipes[contrast.hard.recipe].ways
        return [way for way in self.recipes[contrast.easy.recipe].ways if way in hard]

    def sides(self) -> list[PanelSide]:
        """All conditions without duplicates: all splits, and the parts of them that contrasts
        name.
        """
        whole = [
            PanelSide(recipe=name, split=split)
            for name, one in self.recipes.items()
            for split in one.split_names
        ]
        named = [side for contrast in self.contrasts for side in (contrast.easy, contrast.hard)]
        return list({side.key: side for side in (*whole, *named)}.values())


def read_panel(path: Path = FILE) -> TaskPanel:
    """Read a panel from its file."""
    return validated(TaskPanel, load(path, PanelError), str(path), PanelError)


@cache
def packaged_panel() -> TaskPanel:
    """The packaged panel."""
    return read_panel()


SMALL = 0.1
"""Maximum loss of accuracy for the verdict *holds*."""

HOLDS, BREAKS, ABSENT, OPEN = "holds", "breaks", "not above guessing", "inconclusive"
CLEAN, ABOVE = "clean", "above guessing"
VERDICTS = (HOLDS, BREAKS, OPEN, ABSENT, CLEAN, ABOVE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The answers to the items of one condition in one way.

    Attributes:
        side: The condition, as `PanelSide.key` spells it.
        way: How the model was asked.
        items: Positions of the items in the split.
        scores: The score of each item, for each seed.
        answers: A short digest of the first seed's answer to each item, if a contrast compares
            answers item by item.
        chance: Score of a uniform guess among all answers of the condition.
        constant: Score of the best constant answer of training; None if there is no training
            split.
        formed: Share of answers that are right for some item of the condition, not necessarily
            their own. It shows whether the model answers in the requested form. None if there are
            more than `CLOSED` answers.
    """

    side: str
    way: Way
    items: tuple[int, ...]
    scores: tuple[tuple[float, ...], ...]
    answers: tuple[str, ...]
    chance: float
    constant: float | None = None
    formed: float | None = None

    @property
    def estimate(self) -> Estimate:
        """Mean score with its interval, over items, and over seeds as well if there are several."""
        return two_way(self.scores) if len(self.scores) > 1 else over_items(self.scores[0])

    @property
    def guessing(self) -> float:
        """The higher of the chance score and that of the best constant."""
        return max(self.chance, self.constant or 0.0)

    @property
    def means(self) -> dict[int, float]:
        """Mean score of each item over seeds."""
        columns = zip(self.items, zip(*self.scores, strict=True), strict=True)
        return {item: sum(values) / len(values) for item, values in columns}


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """A difference of two means with its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """Result of a contrast for one way of asking.

    Attributes:
        contrast: The contrast.
        way: How the model was asked.
        easy: The easy condition.
        hard: The hard one.
        difference: Hard - easy.
        consistency: Share of items with the same answer on both sides, if the items are the same.
        verdict: One of `VERDICTS`.
    """

    contrast: PanelContrast
    way: Way
    easy: Measurement
    hard: Measurement
    difference: ScoreDifference
    consistency: float | None
    verdict: str


def contrast_results(panel: TaskPanel, measurements: Sequence[Measurement]) -> list[ContrastResult]:
    """Results of all contrasts whose two conditions were measured, for each way of asking."""
    known = {(m.side, m.way): m for m in measurements}
    results = []
    for contrast in panel.contrasts:
        for way in panel.ways_of(contrast):
            hard = known.get((contrast.hard.key, way))
            easy = known.get((contrast.easy.key, way))
            if easy is not None and hard is not None:
                results.append(result_of(contrast, way, easy, hard))
    return results


def result_of(
    contrast: PanelContrast, way: Way, easy: Measurement, hard: Measurement
) -> ContrastResult:
    """Compare two conditions."""
    paired = contrast.same and easy.items == hard.items
    difference = (
        paired_difference(easy, hard)
        if paired
        else unpaired_difference(easy.estimate, hard.estimate)
    )
    consistency = None
    if paired and easy.answers and hard.answers:
        pairs = list(zip(easy.answers, hard.answers, strict=True))
        consistency = sum(a == b for a, b in pairs) / len(pairs)
    return ContrastResult(
        contrast,
        way,
        easy,
        hard,
        difference,
        consistency,
        _verdict(contrast, easy, hard, difference),
    )


def paired_difference(a: Measurement, b: Measurement) -> ScoreDifference:
    """Difference b - a over the items that both answered, with the interval of Agresti and Min.

    Two items are added to those in the data: half an item in favour of each side, and one without a
    difference. The interval therefore does not collapse to a point if all items are equal, as a t
    interval does.
    """
    first, second = a.means, b.means
    differences = [second[item] - first[item] for item in first if item in second]
    n, total = len(differences), sum(differences)
    center = total / (n + 2)
    variance = (sum(d * d for d in differences) + 1) / (n + 2) - center**2
    reach = normal_quantile(0.5 + LEVEL / 2) * math.sqrt(variance / (n + 2))
    return ScoreDifference(total / n, max(-1.0, center - reach), min(1.0, center + reach))


def unpaired_difference(a: Estimate, b: Estimate) -> ScoreDifference:
    """Difference b - a of two independent means, with the interval recovered from their own
    intervals (Newcombe).
    """
    mean = b.mean - a.mean
    low = mean - math.hypot(b.mean - b.low, a.high - a.mean)
    high = mean + math.hypot(b.high - b.mean, a.mean - a.low)
    return ScoreDifference(mean, max(-1.0, low), min(1.0, high))


def _verdict(
    contrast: PanelContrast, easy: Measurement, hard: Measurement, difference: ScoreDifference
) -> str:
    if contrast.control:
        return ABOVE if hard.estimate.low > hard.guessing else CLEAN
    if easy.estimate.low <= easy.guessing:
        return ABSENT
    if difference.high < 0:
        return BREAKS
    margin = min(SMALL, (easy.estimate.mean - easy.guessing) / 2)
    return HOLDS if difference.low > -margin else OPEN


def formed_share(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> float | None:
    """Share of predictions that are the answer of some item; None if there are too many different
    answers.

    >>> formed_share([["a"], ["b"]], ["B.", "The answer may be b", "a", "c"])
    0.5
    """
    anything = form_of(targets)
    if anything is None:
        return None
    return sum(any_of.score(prediction, anything) for prediction in predictions) / len(predictions)


def matches(side: PanelSide, traits: Mapping[str, str | None]) -> bool:
    """True if an example belongs to a condition."""
    return all(traits.get(name) == value for name, value in side.where.items())
