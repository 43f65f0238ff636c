"""`taskloom frontier`: where along a trait a model's accuracy crosses 0.9 and 0.5.

Level-set estimation. Items are drawn in the order of the split and kept by the value of the trait,
its *level*. Each level has a confidence sequence for its accuracy. The next batch goes to the level
whose interval reaches farthest over both sides of a threshold, so that few questions are spent on
levels that are clearly above or below. If accuracy is declared to fall along the trait, an interval
also holds for its neighbours: a level is at most as good as every level before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics.sequences import ConfidenceSequence
from taskloom.recipe import read as read_recipe
from taskloom.recipe.overrides import Changes

THRESHOLDS = (0.9, 0.5)
"""Accuracies whose crossing is looked for: nearly always right, and right half of the time."""

LEVEL = 0.95
"""Probability that the intervals of all levels of a field hold together."""

BATCH = 10
"""Items per batch."""

MOST_LEVELS = 40
"""Maximum number of levels of a field. A trait with more values names items rather than
conditions.
"""

RESULT, PAGE, WORK = "frontier.json", "frontier.html", "answers"


@dataclass(frozen=True, slots=True)
class LevelAccuracy:
    """Accuracy of a model on one level of a field.

    Attributes:
        model: Name of the model.
        field: The trait.
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
    """Where the accuracy of a model falls below a threshold.

    Attributes:
        model: Name of the model.
        field: The trait.
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
            return (
                f"{self.model}: no level of {self.field} has an accuracy below {self.threshold:g}"
            )
        known = []
        if self.after is not None:
            known.append(f"certainly above at {self.after}")
        if self.before is not None:
            known.append(f"certainly below at {self.before}")
        ends = f" ({', '.join(known)})" if known else " (not certain)"
        border = f"{self.field} = {self.level}"
        return f"{self.model}: accuracy falls below {self.threshold:g} at {border}{ends}"


@dataclass(frozen=True, slots=True)
class Frontier:
    """What was found along some fields.

    Attributes:
        recipe: Name of the recipe.
        split: The split that was drawn from.
        levels: Accuracy of each model on each level.
        crossings: Where accuracy crosses the thresholds, for fields with an order.
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
        """Accuracy along each field, one line for each model. Fields without an order are left
        out.
        """
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
    """Find out where along some traits a model's accuracy crosses 0.9 and 0.5.

    Args:
        models: A model, or several that are drawn in one picture; see `falsify`.
        recipe: In any form that `make` takes.
        along: Traits, such as `support` or `support,sentences`.
        changes: Changes of the recipe's fields; they decide which levels there are.
        monotone: True if accuracy can only fall along each field.
        split: The split to draw from; `test` or the first test split by default.
        seed: Seed of the items; the recipe's own by default.
        questions: Maximum number of questions for each model and field.
        endpoint: Address of an OpenAI-compatible endpoint, up to and including `/v1`.
        out: Folder for the page and the result. Answers are kept there too, so that an interrupted
            search is resumed.
        progress: Whether to show progress; None: in notebooks only.
    """
    whole(questions, "questions", 1)
    checked = read_recipe(recipe, changes)
    plan = checked.plan(seed)
    fields = [one.strip() for one in along.split(",")] if isinstance(along, str) else list(along)
    for name in fields:
        if name not in plan.traits:
            raise ParameterError(
                "along", f"names '{name}'; {checked.name} has {nearest(name, plan.traits)}"
            )
    chosen = asked_split(plan, split)
    several = isinstance(models, Sequence) and not isinstance(models, str)
    named: list[Any] = list(models) if several else [models]  # type: ignore[arg-type]
    folder = path_of(out) if out is not None else None
    levels: list[LevelAccuracy] = []
    crossings: list[Crossing] = []
    counts: dict[str, int] = {}
    with count_display(progress, "questions") as show:
        for model in named:
            asked = open_model(model, plan, endpoint=endpoint)
            journal = folder / WORK / f"{asked.identity}.jsonl" if folder is not None else None
            answers = Questions(asked, plan.scorer, journal)
            for name in fields:
                items = _by_level(drawn(checked, plan, chosen, seed), name, questions)
                search = LevelSearch(answers, name, items, monotone)
                search.run(questions, show)
                levels += search.accuracies()
                crossings += search.crossings()
            counts[asked.name] = answers.asked
    result = Frontier(checked.name, chosen.name, tuple(levels), tuple(crossings), counts)
    if folder is not None:
        write_result(folder, result)
    return result


def _by_level(stream: Iterator[Example], name: str, most: int) -> dict[Trait, list[Example]]:
    """The items of each level, in the order of drawing.

    Args:
        stream: Draws items.
        name: The trait.
        most: Items after which no more are drawn: ten times as many are enough for rare levels.
    """
    items: dict[Trait, list[Example]] = {}
    for _, example in zip(range(10 * most), stream, strict=False):
        if name in example.traits:
            items.setdefault(example.traits[name], []).append(example)
    if not items:
        raise TaskloomError(f"no item of the split has the trait '{name}'")
    if len(items) > MOST_LEVELS:
        raise ParameterError(
            "along", f"names '{name}', which has {len(items)} values; at most {MOST_LEVELS}"
        )
    return dict(sorted(items.items(), key=lambda level: figures.natural_order(level[0])))


@dataclass
class LevelSearch:
    """The search for the levels at which one model crosses the thresholds.

    Attributes:
        answers: The model's answers.
        name: The trait.
        items: Items of each level, levels in order.
        monotone: True if accuracy can only fall from level to level.
    """

    answers: Questions
    name: str
    items: dict[Trait, list[Example]]
    monotone: bool
    sequences: dict[Trait, ConfidenceSequence] = field(init=False)

    def __post_init__(self) -> None:
        share = 1.0 - (1.0 - LEVEL) / len(self.items)
        self.sequences = {level: ConfidenceSequence(level=share) for level in self.items}

    def run(self, most: int, show: ShowCount) -> None:
        """Ask until every level is on one side of each threshold, or the questions are spent."""
        asked = 0
        while asked < most and (level := self._most_ambiguous()) is not None:
            begin = self.sequences[level].n
            batch = self.items[level][begin : begin + min(BATCH, most - asked)]
            self.sequences[level].add([float(right) for right in self.answers.right(batch)])
            asked += len(batch)
            show(f"{self.answers.model.name} along {self.name}", asked, most)

    def _most_ambiguous(self) -> Trait | None:
        """The level whose interval reaches farthest over both sides of a threshold."""
        best, reach = None, 0.0
        for level, (low, high) in self.intervals().items():
            if self.sequences[level].n >= len(self.items[level]):
                continue
            own = max(min(high - t, t - low) for t in THRESHOLDS)
            if own > reach:
                best, reach = level, own
        return best

    def intervals(self) -> dict[Trait, tuple[float, float]]:
        """Interval of each level."""
        own = [sequence.interval for sequence in self.sequences.values()]
        if not self.monotone:
            return dict(zip(self.items, own, strict=True))
        lows = [max(low for low, _ in own[i:]) for i in range(len(own))]
        highs = [min(high for _, high in own[: i + 1]) for i in range(len(own))]
        return dict(zip(self.items, zip(lows, highs, strict=True), strict=True))

    def accuracies(self) -> list[LevelAccuracy]:
        """Accuracy of each level that was asked, or that the others bound."""
        means = self._means()
        return [
            LevelAccuracy(
                self.answers.model.name,
                self.name,
                level,
                self.sequences[level].n,
                means[level],
                low,
                high,
            )
            for level, (low, high) in self.intervals().items()
            if level in means
        ]

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

    def crossings(self) -> list[Crossing]:
        """Where the accuracy crosses each threshold; empty for a trait without an order."""
        if any(isinstance(level, str | bool) for level in self.items):
            return []
        means, intervals = self._means(), self.intervals()
        found = []
        for threshold in THRESHOLDS:
            below = [level for level, (_, high) in intervals.items() if high < threshold]
            before = below[0] if below else None
            above = [level for level, (low, _) in intervals.items() if low > threshold]
            ahead = [level for level in above if before is None or level < before]  # type: ignore[operator]
            level = next((one for one, mean in means.items() if mean < threshold), None)
            after = ahead[-1] if ahead else None
            model = self.answers.model.name
            found.append(Crossing(model, self.name, threshold, level, after, before))
        return found


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
