"""From the answers of one model to conditions with intervals, and to contrasts with verdicts.

A contrast asks whether the hard condition is as good as the easy one. The rule, in this order:

1. The easy condition is not above guessing (its interval includes the better of chance and the best
   constant answer): **not above guessing**. There is nothing that could break.
2. The whole interval of *hard - easy* is below 0: **breaks**.
3. The whole interval is above -0.1, and above minus half of the easy condition's lead over
   guessing: **holds**. The second part is for scores such as 0.04, which could be lost entirely
   within the first.
4. Otherwise **inconclusive**: these items fit both.

A control has no right answer that could be known, so it is **clean** if its hard side is not above
guessing, and **above guessing** if it is. All intervals are at 95 % and not corrected for their
number: of twenty contrasts that hold, one may be called broken by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskloom.analysis.profile.panel import PanelContrast, PanelSide, TaskPanel, Way
from taskloom.core.scoring import any_of, form_of
from taskloom.experiments.statistics import Estimate, over_items, two_way
from taskloom.experiments.statistics.distributions import normal_quantile
from taskloom.experiments.statistics.intervals import LEVEL

SMALL = 0.1
"""A loss of accuracy up to this size counts as holding."""

HOLDS, BREAKS, ABSENT, OPEN = "holds", "breaks", "not above guessing", "inconclusive"
CLEAN, ABOVE = "clean", "above guessing"
VERDICTS = (HOLDS, BREAKS, OPEN, ABSENT, CLEAN, ABOVE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The answers to the items of one condition in one way.

    Attributes:
        side: The condition, as `PanelSide.key` spells it.
        way: How the model was asked.
        items: The items, by their places in the split.
        scores: The score of each item, for each seed.
        answers: A short digest of the first seed's answer to each item, where a contrast compares
            answers item by item.
        chance: The score of guessing evenly among all answers of the condition.
        constant: The score of the best constant answer of training; None where there is no training
            split.
        formed: The share of answers that are right for some item of the condition, whether or not
            for their own: whether the model answers in the form that is asked for. None where there
            are more than `CLOSED` answers.
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
        """Return the mean score with its interval, for new items, and for new seeds where there are
        several.
        """
        return two_way(self.scores) if len(self.scores) > 1 else over_items(self.scores[0])

    @property
    def guessing(self) -> float:
        """Return the better one of chance and the best constant."""
        return max(self.chance, self.constant or 0.0)

    @property
    def means(self) -> dict[int, float]:
        """Return the mean score of each item over seeds."""
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
    """What came of a contrast in one way.

    Attributes:
        contrast: The contrast.
        way: How the model was asked.
        easy: The easy condition.
        hard: The hard one.
        difference: Hard - easy.
        consistency: Where both have the same items, the share of them that got the same answer.
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
    """Return every contrast whose two conditions were measured, in every way."""
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
    """Return b - a over the items that both answered, with the interval of Agresti and Min.

    Two items are added to the n of the data, half of them on either side: the interval does not
    collapse to a point where all items are alike, which a t interval does.
    """
    first, second = a.means, b.means
    differences = [second[item] - first[item] for item in first if item in second]
    n, total = len(differences), sum(differences)
    center = total / (n + 2)
    variance = (sum(d * d for d in differences) + 1) / (n + 2) - center**2
    reach = normal_quantile(0.5 + LEVEL / 2) * math.sqrt(variance / (n + 2))
    return ScoreDifference(total / n, max(-1.0, center - reach), min(1.0, center + reach))


def unpaired_difference(a: Estimate, b: Estimate) -> ScoreDifference:
    """Return b - a of two independent means, by the method of variance estimates recovered from
    their intervals (Newcombe).
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


def chance_of(targets: Sequence[Sequence[str]]) -> float:
    """Return the score of guessing evenly among all answers that some items have.

    >>> chance_of([["a"], ["b"], ["a", "c"], ["b"]])
    0.4166666666666667
    """
    answers = {target for row in targets for target in row}
    return sum(len(set(row)) for row in targets) / (len(targets) * len(answers)) if answers else 0.0


def formed_share(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> float | None:
    """Return the share of predictions that are an answer of some item; None where there are too
    many different answers.

    >>> formed_share([["a"], ["b"]], ["B.", "The answer may be b", "a", "c"])
    0.5
    """
    anything = form_of(targets)
    if anything is None:
        return None
    return sum(any_of.score(prediction, anything) for prediction in predictions) / len(predictions)


def matches(side: PanelSide, traits: Mapping[str, str | None]) -> bool:
    """Return whether an example belongs to a condition."""
    return all(traits.get(name) == value for name, value in side.where.items())
