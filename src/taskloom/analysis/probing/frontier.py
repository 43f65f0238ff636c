"""`taskloom frontier`: where along a trait or field a model's accuracy crosses 0.9 and 0.5.

Level-set estimation. A *level* is a value of a trait, whose items are those of the split that have
it, or a value of a field, whose items are drawn from the recipe with that value. Each level has a
confidence sequence for its accuracy. The next batch goes to the level whose interval reaches
farthest over both sides of a threshold, so that few questions are spent on levels that are clearly
above or below. If accuracy is declared to fall along levels with an order, an interval also holds
for its neighbours: a level is at most as good as every level before it. The search then bisects:
among levels that are equally uncertain, it asks the middle one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.probing.asking import (
    Model,
    Questions,
    ShowCount,
    asked_split,
    count_display,
    drawn,
    open_model,
)
from taskloom.analysis.report import page
from taskloom.core.errors import ParameterError, TaskloomError, nearest, whole
from taskloom.core.example import Example, Trait
from taskloom.core.files import atomic, path_of
from taskloom.core.plan import Plan
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics.sequences import ConfidenceSequence
from taskloom.recipe import Recipe
from taskloom.recipe import read as read_recipe
from taskloom.recipe.overrides import Changes, changed_fields

THRESHOLDS = (0.9, 0.5)
"""Accuracy levels whose crossings are located: nearly always right, and right half of the time."""

LEVEL = 0.95
"""Probability that the intervals of all levels of a field hold together."""

BATCH = 10
"""Items per batch."""

MOST_LEVELS = 40
"""Maximum number of levels of a field. A trait with more values names items rather than
conditions.
"""

RESULT, PAGE = "frontier.json", "frontier.html"


@dataclass(frozen=True, slots=True)
class LevelAccuracy:
    """Accuracy of a model on one level of a field.

    Attributes:
        model: Name of the model.
        field: The trait or field.
        level: Its value.
        n: Number of items asked.
        mean: Accuracy; fitted to be monotone if that was declared.
        low: Lower end of the interval.
        high: Upper end.
    """

    model: str
    field: str
    level: Trait
    n: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Crossing:
    """Point at which the accuracy of a model falls below a threshold.

    Attributes:
        model: Name of the model.
        field: The trait or field.
        threshold: The accuracy.
        level: First level whose mean is below it; None if there is none.
        after: Last level before it that is certainly above; None if there is none.
        before: First level that is certainly below; None if there is none.
    """

    model: str
    field: str
    threshold: float
    level: Trait | None
    after: Trait | None
    before: Trait | None

    def __str__(self) -> str:
        if self.level is None:
            border = f"no level of {self.field} has an accuracy below {self.threshold:g}"
            return f"{self.model}: {border}"
        known = []
        if self.after is not None:
            known.append(f"certainly above at {self.after}")
        if self.before is not None:
            known.append(f"certainly below at {self.before}")
        ends = ", ".join(known) or "not certain"
        border = f"accuracy falls below {self.threshold:g} at {self.field} = {self.level}"
        return f"{self.model}: {border} ({ends})"


@dataclass(frozen=True, slots=True)
class Frontier:
    """Result of a search along traits or fields.

    Attributes:
        recipe: Name of the recipe.
        split: The split that was drawn from.
        levels: Accuracy of each model on each level.
        crossings: Points at which accuracy crosses the thresholds, for fields with an order.
        questions: Number of questions asked of each model.
    """

    recipe: str
    split: str
    levels: tuple[LevelAccuracy, ...]
    crossings: tuple[Crossing, ...]
    questions: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)

    def table(self) -> ResultTable:
        """One row for each model, field and level."""
        # Tables hide a column called `level`, which elsewhere is that of an interval.
        columns = ("field", "value", "model", "n", "mean", "low", "high")
        return ResultTable(columns, [{**asdict(one), "value": one.level} for one in self.levels])

    def figure(self) -> Any:
        """Accuracy along each field, one line for each model. Unordered fields are omitted."""
        rows = [asdict(one) for one in self.levels if not isinstance(one.level, str | bool)]
        data = ResultTable(("field", "model", "level", "mean", "low", "high"), rows)
        return figures.lines(data, x="level", series="model", panel="field", threshold=0.5)


def frontier(
    models: Model | Sequence[Model],
    recipe: Any,
    *,
    along: str | Sequence[str],
    changes: Changes = None,
    monotone: bool = False,
    split: str = "",
    seed: int | None = None,
    questions: int = 1_000,
    endpoint: str = "",
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Frontier:
    """Find where a model's accuracy crosses 0.9 and 0.5 along traits or fields.

    Args:
        models: A model, or several that are drawn in one figure; see `falsify`.
        recipe: In any form that `make` takes.
        along: Traits (`support`, `support,sentences`), and fields of the recipe with the values to
            try (`splits.test.sentences=5|10|20` or `2..40`), in a list if there are several.
        changes: Changes to the recipe's fields, which determine the levels of a trait.
        monotone: True if accuracy can only fall along each trait or field that has an order.
        split: The split to draw from; `test` or the first test split by default.
        seed: Seed of the items; the recipe's own by default.
        questions: Maximum number of questions for each model and field.
        endpoint: Address of an OpenAI-compatible endpoint, up to and including `/v1`.
        out: Folder for the page and the result. Answers are kept there too, so that an interrupted
            search is resumed.
        progress: True to show progress; None: in notebooks only.
    """
    whole(questions, "questions", 1)
    checked = read_recipe(recipe, changes)
    plan = checked.plan(seed)
    dimensions = _dimensions(along, checked, plan)
    chosen = asked_split(plan, split)
    several = isinstance(models, Sequence) and not isinstance(models, str)
    named: Sequence[Any] = models if several else [models]  # type: ignore[assignment]
    folder = path_of(out) if out is not None else None
    searches: list[LevelSearch] = []
    counts: dict[str, int] = {}
    with count_display(progress, "questions") as show:
        for model in named:
            asked = open_model(model, plan, endpoint=endpoint)
            if asked.name in counts:  # two functions of the same name
                asked = replace(asked, name=f"{asked.name} ({len(counts) + 1})")
            answers = Questions(asked, plan.scorer, folder)
            for name, values in dimensions.items():
                if values:
                    items = _of_values(recipe, changes, name, values, split, seed)
                else:
                    items = _of_trait(drawn(checked, plan, chosen, seed), name, questions)
                searches.append(LevelSearch(answers, name, items, monotone))
                searches[-1].run(questions, show)
            counts[asked.name] = answers.asked
    levels = tuple(chain.from_iterable(search.accuracies() for search in searches))
    crossings = tuple(chain.from_iterable(search.crossings() for search in searches))
    result = Frontier(checked.name, chosen.name, levels, crossings, counts)
    if folder is not None:
        write_result(folder, result)
    return result


def _dimensions(along: str | Sequence[str], recipe: Recipe, plan: Plan) -> dict[str, list[str]]:
    """Traits and fields along which accuracy is measured, with the values to try."""
    dimensions: dict[str, list[str]] = {}
    for part in [along] if isinstance(along, str) else along:
        name, equals, given = part.partition("=")
        if equals:
            dimensions[name.strip()] = _values(given)
        else:
            dimensions.update({one.strip(): [] for one in part.split(",")})
    for name, values in dimensions.items():
        if not values and name not in plan.traits:
            raise ParameterError(
                "along",
                f"names '{name}', which is no trait of {recipe.name}; {nearest(name, plan.traits)};"
                f" a field of the recipe needs values: {name}=1|2|3",
            )
    return dimensions


def _values(given: str) -> list[str]:
    """The values that `5|10|20` or `2..40` names."""
    span = re.fullmatch(r"\s*(\d+)\.\.(\d+)\s*", given)
    if span is None:
        return [value.strip() for value in given.split("|")]
    values = range(int(span[1]), int(span[2]) + 1)
    if not 0 < len(values) <= MOST_LEVELS:
        raise ParameterError("along", f"names {len(values):,} values; write 1 to {MOST_LEVELS}")
    return [str(value) for value in values]


Levels = dict[Trait, Iterator[Example]]
"""The items of each level, in the order of drawing; levels in order."""


def _of_values(
    source: Any, changes: Changes, name: str, values: Sequence[str], split: str, seed: int | None
) -> Levels:
    """Items of the recipe for each value of a field. Levels are in the order of `values`."""
    levels: Levels = {}
    for value in values:
        both = {**changed_fields(changes), **changed_fields([f"{name}={value}"])}
        recipe = read_recipe(source, both)
        plan = recipe.plan(seed)
        level = int(value) if value.removeprefix("-").isdecimal() else value
        levels[level] = drawn(recipe, plan, asked_split(plan, split), seed)
    return levels


def _of_trait(stream: Iterator[Example], name: str, most: int) -> Levels:
    """The items of each value of a trait.

    Args:
        stream: Draws items.
        name: The trait.
        most: Ten times this number of items are drawn, which is enough for rare levels.
    """
    items: dict[Trait, list[Example]] = {}
    for example in islice(stream, 10 * most):
        if name in example.traits:
            items.setdefault(example.traits[name], []).append(example)
        if len(items) > MOST_LEVELS:
            raise ParameterError("along", f"names '{name}', which has over {MOST_LEVELS} values")
    if not items:
        raise TaskloomError(f"no item of the split has the trait '{name}'")
    ordered = sorted(items.items(), key=lambda level: figures.natural_order(level[0]))
    return {level: iter(members) for level, members in ordered}


@dataclass
class LevelSearch:
    """The search for the levels at which one model crosses the thresholds.

    Attributes:
        answers: The model's answers.
        name: The trait or field.
        items: Items of each level, levels in order.
        monotone: True if accuracy can only fall from level to level.
    """

    answers: Questions
    name: str
    items: Levels
    monotone: bool
    sequences: dict[Trait, ConfidenceSequence] = field(init=False)
    exhausted: set[Trait] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.monotone &= self.ordered
        share = 1.0 - (1.0 - LEVEL) / len(self.items)
        self.sequences = {level: ConfidenceSequence(level=share) for level in self.items}

    def run(self, most: int, show: ShowCount) -> None:
        """Ask until every level is on one side of each threshold, or no questions remain."""
        asked = 0
        while asked < most and (level := self._most_ambiguous()) is not None:
            batch = list(islice(self.items[level], min(BATCH, most - asked)))
            if not batch:
                self.exhausted.add(level)
            self.sequences[level].add([float(right) for right in self.answers.right(batch)])
            asked += len(batch)
            show(f"{self.answers.model.name} along {self.name}", asked, most)

    @property
    def ordered(self) -> bool:
        """True if levels are numbers."""
        return not any(isinstance(level, str | bool) for level in self.items)

    def _most_ambiguous(self) -> Trait | None:
        """The level whose interval extends farthest on both sides of a threshold; in a tie, the
        middle one.
        """
        reach = {
            level: max(min(high - t, t - low) for t in THRESHOLDS)
            for level, (low, high) in self.intervals().items()
            if level not in self.exhausted
        }
        farthest = max(reach.values(), default=-1.0)
        # At 0 an end of the interval is the threshold itself, which is not certain yet.
        if farthest < 0.0:
            return None
        widest = [level for level, own in reach.items() if own == farthest]
        return widest[len(widest) // 2]

    def intervals(self) -> dict[Trait, tuple[float, float]]:
        """Interval of each level."""
        own = [sequence.interval for sequence in self.sequences.values()]
        if not self.monotone:
            return dict(zip(self.items, own, strict=True))
        lows = [max(low for low, _ in own[i:]) for i in range(len(own))]
        highs = [min(high for _, high in own[: i + 1]) for i in range(len(own))]
        return dict(zip(self.items, zip(lows, highs, strict=True), strict=True))

    def accuracies(self) -> Iterator[LevelAccuracy]:
        """Yield the accuracy of each level that was asked."""
        intervals, model = self.intervals(), self.answers.model.name
        for level, mean in self._means().items():
            n = self.sequences[level].n
            yield LevelAccuracy(model, self.name, level, n, mean, *intervals[level])

    def _means(self) -> dict[Trait, float]:
        """Accuracy of each level that was asked; fitted to be monotone if that was declared."""
        asked = {level: s for level, s in self.sequences.items() if s.n}
        means = [sequence.mean for sequence in asked.values()]
        if self.monotone and len(means) > 1:
            from scipy.optimize import isotonic_regression

            weights = [sequence.n for sequence in asked.values()]
            fitted = isotonic_regression(means, weights=weights, increasing=False).x
            means = [float(mean) for mean in fitted]
        return dict(zip(asked, means, strict=True))

    def crossings(self) -> Iterator[Crossing]:
        """Yield where the accuracy crosses each threshold; nothing for levels without an order."""
        if not self.ordered:
            return
        means, intervals = self._means(), self.intervals()
        for threshold in THRESHOLDS:
            level = next((one for one, mean in means.items() if mean < threshold), None)
            after = before = None
            for one, (low, high) in intervals.items():
                if high < threshold:
                    before = one
                    break
                if low > threshold:
                    after = one
            model = self.answers.model.name
            yield Crossing(model, self.name, threshold, level, after, before)


def write_result(folder: Path, result: Frontier) -> None:
    """Write the page and the result."""
    models = " and ".join(result.questions)
    ordered = any(not isinstance(one.level, str | bool) for one in result.levels)
    alt = f"Accuracy of {models} along {', '.join({one.field for one in result.levels})}"
    figure = figures.page_svg(result.figure(), alt) if ordered else ""
    caption = "Intervals hold at all levels and at every moment together with 95 % probability."
    sections = [
        page.Section(
            "Where it crosses",
            sentences=tuple(map(str, result.crossings)),
            figure=figure,
            caption=caption,
        ),
        page.Section("Levels", table=result.table().shown()),
    ]
    asked = ", ".join(f"{name} {count:,}" for name, count in result.questions.items())
    lead = f"{result.recipe}, split {result.split}. Questions asked: {asked}."
    page.write(folder / PAGE, f"The frontier of {models}", lead, sections)
    with atomic(folder / RESULT) as beside:
        beside.write_text(json.dumps(result.to_dict(), ensure_ascii=False) + "\n", "utf-8")
