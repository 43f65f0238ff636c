"""Means with intervals: over items, seeds, tasks, or seeds and items at once.

The right choice depends on the population to generalize to:

* new items for the model at hand: `wilson`, `clopper_pearson`, `over_items`;
* new seeds (trainings) on the same items: `over_seeds`;
* new tasks of the same kind: `over_tasks`, `over_task_differences`;
* new seeds *and* new items: `two_way`, which fits a claim about a learner and a task;
* new seeds and new items of two kinds, for the difference between the kinds: `between_kinds`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from math import hypot, inf, isfinite, isnan, nan, sqrt
from typing import TYPE_CHECKING, Any

from taskloom.experiments.statistics import distributions as dist
from taskloom.experiments.statistics.distributions import StatisticsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[Any]


LEVEL = 0.95

ROUNDING = 1e-12
"""Maximum standard error that is treated as rounding. For example, the standard error of three
scores of 0.1 is computed as 1e-17.
"""

FEWEST_PARTS = 4
"""Minimum number of parts for the jackknife. With fewer, it provides little information on how
tasks vary.
"""

SEEDS_ALIKE = "seeds alike"
"""Name of the method if all seeds have the same score, which gives no interval over seeds."""

TASKS_ALIKE = "tasks alike"
"""Name of the method if all tasks have the same score."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its confidence interval.

    Attributes:
        mean: The mean.
        low: Lower end of the interval; nan if the mean has no interval.
        high: Upper end of the interval.
        se: The standard error.
        seeds: Number of trainings.
        items: Number of items (or tasks) that each training answered.
        df: Degrees of freedom of the standard error; infinite for a normal or exact interval.
        method: Method of the interval.
        level: The confidence level.
    """

    mean: float
    low: float
    high: float
    se: float
    seeds: int
    items: int
    df: float
    method: str
    level: float = LEVEL

    def __str__(self) -> str:
        return (
            f"{self.mean:.3f}"
            if isnan(self.low)
            else f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields for JSON. Numbers that are not finite are null."""
        return {
            k: None if isinstance(v, float) and not isfinite(v) else v
            for k, v in asdict(self).items()
        }


def wilson(right: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Compute Wilson's score interval for a share. Use it for the accuracy of one run.

    Its coverage is near the level for every share, even with few items (Newcombe 1998), whereas
    mean ± 2 standard errors collapses to a point at 0 and 1.
    """
    _check_share(right, n)
    return _score_interval(right / n, n, dist.normal_quantile(0.5 + dist.check_level(level) / 2))


def clopper_pearson(right: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Compute the exact interval for a share. Its coverage is never below the level, so on average
    it is wider than needed.
    """
    _check_share(right, n)
    tail = (1 - dist.check_level(level)) / 2
    low = 0.0 if right == 0 else dist.beta_quantile(tail, right, n - right + 1)
    high = 1.0 if right == n else dist.beta_quantile(1 - tail, right + 1, n - right)
    return low, high


def newcombe(
    a: float, a_ends: tuple[float, float], b: float, b_ends: tuple[float, float]
) -> tuple[float, float]:
    """Interval of a - b from an interval of each (Newcombe 1998): the distances to the ends add up
    as squares.

    This works for shares, whose intervals are asymmetric near 0 and 1, and for any other pair of
    independent estimates.
    """
    gap = a - b
    return gap - hypot(a - a_ends[0], b_ends[1] - b), gap + hypot(a_ends[1] - a, b - b_ends[0])


def one_item(n: int, level: float = LEVEL) -> float:
    """Minimum standard error of the mean of n partial scores between 0 and 1.

    For example, 199 scores of 0 and one of 0.05 have almost no spread, yet the next item may well
    score 1. This floor gives them the upper end that Wilson's interval gives to 200 scores of 0
    (0.019), so that the interval doesn't jump because of one item. Its square is added to the
    variance. It soon becomes negligible: with 1,000 items of standard deviation 0.3 it widens the
    interval by 2 %.
    """
    return dist.normal_quantile(0.5 + dist.check_level(level) / 2) / n


def over_items(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the mean of one run's scores over new items, with Wilson's interval for
    right-or-wrong scores and Student's t for others.

    The standard error of partial scores between 0 and 1 is never below that of `one_item`.
    """
    values = vector(scores, "scores of items", 1)
    n = len(values)
    if is_binary(values):
        return over_binary_items(values[None], level)[0]
    mean, low, high, se = _t_interval(values, level, least=one_item(n, level))
    if se <= ROUNDING:
        return Estimate(mean, nan, nan, se, 1, n, n - 1, "items alike", level)
    return Estimate(mean, low, high, se, 1, n, n - 1, "t over items", level)


def over_binary_items(scores: Floats, level: float = LEVEL) -> list[Estimate]:
    """Estimate the means of many runs at once, as `over_items` does.

    Args:
        scores: runs × items, 1 for right and 0 for wrong.
        level: The confidence level.
    """
    n, quantile = scores.shape[1], dist.normal_quantile(0.5 + dist.check_level(level) / 2)
    estimates = []
    for mean, right in zip(scores.mean(axis=1).tolist(), scores.sum(axis=1).tolist(), strict=True):
        low, high = _score_interval(right / n, n, quantile)
        estimates.append(
            Estimate(mean, low, high, sqrt(mean * (1 - mean) / n), 1, n, inf, "Wilson", level)
        )
    return estimates


def over_seeds(scores: ArrayLike, level: float = LEVEL, items: int = 0) -> Estimate:
    """Estimate the mean of several trainings' scores over new seeds on the same items, by Student's
    t.

    If all seeds have the same score there is no spread, and t would predict the same score for
    every new seed. For shares with a known number of items, the interval is then Wilson's over the
    items, each counted once, as in `two_way`. Otherwise there is no interval.

    Args:
        scores: One score per seed, at least two.
        level: The confidence level.
        items: Number of items behind each score; 0 if unknown.
    """
    values = vector(scores, "scores of seeds", 2)
    mean, low, high, se = _t_interval(values, level)
    if se <= ROUNDING:
        if not items or not _are_shares(values):
            return Estimate(
                mean, nan, nan, se, len(values), items, len(values) - 1, SEEDS_ALIKE, level
            )
        low, high, se = *wilson(mean * items, items, level), sqrt(mean * (1 - mean) / items)
        return Estimate(
            mean, low, high, se, len(values), items, inf, f"Wilson over items, {SEEDS_ALIKE}", level
        )
    return Estimate(mean, low, high, se, len(values), items, len(values) - 1, "t over seeds", level)


def over_seed_differences(differences: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the mean difference between two scores of each seed. Unlike a mean of shares, it may
    be below 0.

    If all differences are equal there is no spread and no interval: two seeds that both gain 0.01
    do not prove a gain.

    Args:
        differences: One difference per seed, at least two.
        level: The confidence level.
    """
    values = vector(differences, "differences of seeds", 2)
    mean, low, high, se = _t_interval(values, level, shares=False)
    if se <= ROUNDING:
        return Estimate(mean, nan, nan, se, len(values), 0, len(values) - 1, SEEDS_ALIKE, level)
    return Estimate(mean, low, high, se, len(values), 0, len(values) - 1, "t over seeds", level)


def over_task_differences(
    differences: ArrayLike, parts: Sequence[Collection[str]] | None = None, level: float = LEVEL
) -> Estimate:
    """Estimate the mean difference between two scores of each task over new tasks, by Student's t.

    Composed tasks share parts, and a part may be easier under one procedure than under the other.
    If the parts are known, the jackknife leaves out one part at a time, with all tasks that have
    it, and its standard error is used if it gives a wider interval. In simulations of 57 pairs of
    28 parts whose effects differ, t over tasks covered the true difference in 61 to 77 % of cases
    and the jackknife in 97 %. If parts had no effects, t covered it in 97 % and the jackknife in 99
    %. There is no interval if all differences are equal, or if tasks have fewer than four parts in
    all.

    Args:
        differences: One difference per task, at least two.
        parts: Parts of each task. None: tasks share no parts.
        level: The confidence level.
    """
    values = vector(differences, "differences of tasks", 2)
    n, (mean, low, high, se) = len(values), _t_interval(values, level, shares=False)
    if se <= ROUNDING:
        return Estimate(mean, nan, nan, se, 1, n, n - 1, TASKS_ALIKE, level)
    if parts is None:
        return Estimate(mean, low, high, se, 1, n, n - 1, "t over tasks", level)
    names = sorted({part for own in parts for part in own})
    without = [
        [value for value, own in zip(values, parts, strict=True) if name not in own]
        for name in names
    ]
    if len(names) < FEWEST_PARTS or not all(without):
        return Estimate(mean, nan, nan, nan, 1, n, nan, "few parts", level)
    centres = vector(
        [sum(rest) / len(rest) for rest in without], "means without a part", FEWEST_PARTS
    )
    df = len(names) - 1
    wider = sqrt(df * float(centres.var()))
    half = dist.t_quantile(0.5 + level / 2, df) * wider
    if half <= mean - low:
        return Estimate(mean, low, high, se, 1, n, n - 1, "t over tasks", level)
    return Estimate(mean, mean - half, mean + half, wider, 1, n, df, "t over parts of tasks", level)


def over_tasks(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the mean over new tasks of the same kind, with equal weights, by Student's t.

    If all tasks have the same score, there is no interval: four tasks at 0 do not show that a fifth
    would also score 0.

    Args:
        scores: One score per task, or seeds × tasks, in which case each task's scores are averaged
            over the seeds.
        level: The confidence level.
    """
    values = matrix(scores)
    means = vector(values.mean(axis=0), "scores of tasks", 2)
    mean, low, high, se = _t_interval(means, level)
    if se <= ROUNDING:
        return Estimate(
            mean, nan, nan, se, len(values), len(means), len(means) - 1, TASKS_ALIKE, level
        )
    return Estimate(
        mean, low, high, se, len(values), len(means), len(means) - 1, "t over tasks", level
    )


def two_way(scores: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the mean over new seeds and new items (or tasks) at once.

    Every seed answers every item, so the scores are a crossed table with a seed effect, an item
    effect and a residual. The variance of the mean is that of the random-effects model, from the
    mean squares of seeds (A), items (B) and residual (E): (A + B - E) / (seeds · items), with
    Satterthwaite's degrees of freedom. Shares (scores between 0 and 1) then get Wilson's interval
    at the effective sample size mean · (1 - mean) / variance, with t in place of the normal
    quantile. This interval stays between 0 and 1 and does not collapse to a point at either end.

    A bootstrap of seeds and items would draw from only three to five seeds, and its intervals would
    be far too short. In simulations with 3 seeds whose accuracy varies, its 95 % intervals covered
    the mean in 69 % of cases, and those of this formula in 93 %.

    Args:
        scores: seeds × items. With one seed the variance between seeds is unknown, and `over_items`
            is used instead.
        level: The confidence level.
    """
    values = matrix(scores)
    if len(values) == 1:
        return over_items(values[0], level)
    if values.shape[1] == 1:
        return over_seeds(values[:, 0], level, 1)
    return two_way_tables(values[None], level)[0]


def two_way_tables(scores: Floats, level: float = LEVEL) -> list[Estimate]:
    """Estimate the means of many tables with the same shape at once, as `two_way` does.

    Args:
        scores: tables × seeds × items, finite, with at least two seeds and two items.
        level: The confidence level.
    """
    tail = 0.5 + dist.check_level(level) / 2
    tables, seeds, items = scores.shape
    flat = scores.reshape(tables, seeds * items)
    shares = ((flat.min(axis=1) >= 0) & (flat.max(axis=1) <= 1)).tolist()
    partial = ((flat != 0) & (flat != 1)).any(axis=1).tolist()
    moments = crossed_tables(scores)
    quantiles = dist.t_quantiles(tail, [df for _, _, df in moments])
    estimates = []
    for (mean, variance, df), quantile, share, is_partial in zip(
        moments, quantiles, shares, partial, strict=True
    ):
        if not share:
            half = quantile * sqrt(variance) if variance else nan
            low, high = mean - half, mean + half
        else:
            # If all scores are equal, the observed variance is 0. Each item then counts once, which
            # is the cautious choice.
            spread = mean * (1 - mean)
            effective = spread / variance if variance > 0 and spread > 0 else float(items)
            if is_partial and effective > items:
                # If partial scores vary little, such as 199 zeros and one 0.05, cap the effective
                # sample size at the number of items.
                low, high = _partial_interval(
                    mean, variance, quantile, items, dist.normal_quantile(tail)
                )
            else:
                low, high = _score_interval(
                    mean, effective, quantile if variance > 0 else dist.normal_quantile(tail)
                )
        method = "Wilson over seeds × items" if share else "t over seeds × items"
        estimates.append(Estimate(mean, low, high, sqrt(variance), seeds, items, df, method, level))
    return estimates


def crossed(values: Floats) -> tuple[float, float, float]:
    """Compute the mean, its variance and degrees of freedom for a crossed table (at least 2 × 2)
    with random rows and columns.
    """
    return crossed_tables(values[None])[0]


def crossed_tables(values: Floats) -> list[tuple[float, float, float]]:
    """Compute the mean, its variance and degrees of freedom for each of many crossed tables with
    the same shape.
    """
    tables, rows, columns = values.shape
    means = values.reshape(tables, rows * columns).mean(axis=1)
    by_row, by_column = values.mean(axis=2), values.mean(axis=1)
    row_squares = columns * ((by_row - means[:, None]) ** 2).sum(axis=1) / (rows - 1)
    column_squares = rows * ((by_column - means[:, None]) ** 2).sum(axis=1) / (columns - 1)
    rest = values - by_row[:, :, None] - by_column[:, None, :] + means[:, None, None]
    rest_squares = (rest**2).reshape(tables, rows * columns).sum(axis=1) / (
        (rows - 1) * (columns - 1)
    )
    moments = []
    squares = (array.tolist() for array in (means, row_squares, column_squares, rest_squares))
    for mean, a, b, e in zip(*squares, strict=True):
        # Negative components are set to 0: the variance is never below that of independent scores.
        total = max(a, e) + max(b, e) - e
        if total <= 1e-24 * max(1.0, mean * mean):  # all equal, up to the rounding of the means
            moments.append((mean, 0.0, inf))
            continue
        df = total**2 / (
            a**2 / (rows - 1) + b**2 / (columns - 1) + e**2 / ((rows - 1) * (columns - 1))
        )
        moments.append((mean, total / (rows * columns), max(1.0, df)))
    return moments


def noise_of_mean(table: Floats) -> tuple[float, int]:
    """Variance of a table's mean not explained by seeds or items, and its degrees of freedom."""
    rows, columns = table.shape
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    df = (rows - 1) * (columns - 1)
    return float((rest**2).sum()) / df / table.size, df


def vector(values: ArrayLike, what: str, least: int) -> Floats:
    """Return `values` as a one-dimensional array. Raise an error if it has fewer than `least`
    numbers, or one that is not finite.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise StatisticsError(
            f"{what}: expected one row of numbers, not an array of {array.ndim} dimensions"
        )
    if len(array) < least:
        raise StatisticsError(f"{what}: got {len(array)}; at least {least} are needed")
    if not np.isfinite(array).all():
        raise StatisticsError(
            f"{what}: some are not finite; omit or repair the runs they come from"
        )
    return array


def matrix(values: ArrayLike) -> Floats:
    """Return `values` as a matrix [seeds, items]. A one-dimensional array is one seed. Raise an
    error for numbers that are not finite.
    """
    import numpy as np

    array = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if array.ndim != 2 or array.size == 0:
        raise StatisticsError(
            f"scores: expected seeds × items, not an array of shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise StatisticsError("scores: some are not finite; omit or repair the runs they come from")
    return array


def is_binary(values: Floats) -> bool:
    """True if all scores are 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())


def _are_shares(values: Floats) -> bool:
    return bool(values.min() >= 0 and values.max() <= 1)


def _check_share(right: float, n: float) -> None:
    if not (n > 0 and 0 <= right <= n):
        raise StatisticsError(
            f"{right} right of {n} is not a share: it needs at least one item, and no more right"
            " than there are"
        )


def _score_interval(share: float, n: float, q: float) -> tuple[float, float]:
    bend = q * q / n
    middle = (share + bend / 2) / (1 + bend)
    half = q / (1 + bend) * sqrt(share * (1 - share) / n + bend / (4 * n))
    # At 0 and 1 the ends are exact; rounding would leave 1e-17.
    return (0.0 if share == 0 else max(0.0, middle - half)), (
        1.0 if share == 1 else min(1.0, middle + half)
    )


def _partial_interval(
    mean: float, variance: float, q: float, n: int, normal: float
) -> tuple[float, float]:
    """Return the wider of two intervals: that of t, and Wilson's with the observed variance and the
    shrinkage towards one half of n right-or-wrong items.

    Near 0 and 1, Wilson's interval alone would exclude the true mean too often: in a simulation of
    2 × 40 scores with a mean of 0.02, its lower end was above the mean in 9 % of cases.
    """
    bend = normal * normal / n
    middle = (mean + bend / 2) / (1 + bend)
    half = sqrt(q * q * variance + normal * normal * bend / (4 * n)) / (1 + bend)
    plain = q * sqrt(variance)
    return max(0.0, min(middle - half, mean - plain)), min(1.0, max(middle + half, mean + plain))


def _t_interval(
    values: Floats, level: float, shares: bool = True, least: float = 0.0
) -> tuple[float, float, float, float]:
    """Return the mean, the ends of its interval and the standard error. For scores between 0 and 1,
    the standard error `least` is added.
    """
    n, mean = len(values), float(values.mean())
    if n == 1:
        raise StatisticsError("a single number has no spread; at least two are needed")
    within = shares and _are_shares(values)
    se = float(values.std(ddof=1)) / sqrt(n)
    if within:
        se = hypot(se, least)
    half = dist.t_quantile(0.5 + dist.check_level(level) / 2, n - 1) * se
    low, high = mean - half, mean + half
    if within:
        # The mean of shares is between 0 and 1, so clipping the interval there costs no coverage.
        low, high = max(0.0, low), min(1.0, high)
    return mean, low, high, se


def between_kinds(one: ArrayLike, other: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate how much higher the same seeds score on one kind of items than on another, over new
    seeds and new items of both kinds.

    The interval over the seeds' differences uses t, with one degree of freedom less than there are
    seeds. The variance of the items of both kinds is added to it, as squares of half-widths. With
    Satterthwaite's degrees of freedom, 95 % intervals were too short: in simulations with two seeds
    whose differences vary, they covered 90 %, and the intervals used here 96 %. The items' part
    uses the normal quantile. With only eight items of a kind and many seeds, the interval covered
    88 to 92 %.

    Args:
        one: seeds × items of one kind, at least 2 × 2.
        other: The same seeds × items of the other kind.
        level: The confidence level.
    """
    return between_kinds_by_stratum([(one, other)], level)


def between_kinds_by_stratum(
    strata: Sequence[tuple[ArrayLike, ArrayLike]], level: float = LEVEL
) -> Estimate:
    """Estimate as `between_kinds` does, within strata of items that might explain a difference
    between the kinds.

    The difference of each stratum is weighted by its number of items.

    Args:
        strata: The two tables of `between_kinds` for each stratum, all of the same seeds.
        level: The confidence level.
    """
    pairs = [(matrix(one), matrix(other)) for one, other in strata]
    if not pairs:
        raise StatisticsError(
            "a difference between kinds of items needs at least one stratum with items of both "
            "kinds"
        )
    for first, second in pairs:
        if (
            not len(pairs[0][0]) == len(first) == len(second)
            or min(*first.shape, *second.shape) < 2
        ):
            raise StatisticsError(
                "the difference of two kinds of items needs the same seeds for both, at least two,"
                f" and two items of each; not {first.shape} and {second.shape}"
            )
    sizes = [first.shape[1] + second.shape[1] for first, second in pairs]
    weights = [size / sum(sizes) for size in sizes]
    gaps = sum(
        w * (first.mean(axis=1) - second.mean(axis=1))
        for w, (first, second) in zip(weights, pairs, strict=True)
    )
    by_seed = float(gaps.var(ddof=1)) / len(gaps)
    by_item = sum(
        w**2 * max(0.0, _items_variance(side) - noise_of_mean(side)[0])
        for w, sides in zip(weights, pairs, strict=True)
        for side in sides
    )
    tail = 0.5 + dist.check_level(level) / 2
    half = sqrt(
        dist.t_quantile(tail, len(gaps) - 1) ** 2 * by_seed
        + dist.normal_quantile(tail) ** 2 * by_item
    )
    mean, items, se = float(gaps.mean()), sum(sizes), sqrt(by_seed + by_item)
    if se <= ROUNDING:  # every seed had the same score on all items of a kind
        return Estimate(mean, nan, nan, se, len(gaps), items, len(gaps) - 1, SEEDS_ALIKE, level)
    return Estimate(
        mean,
        mean - half,
        mean + half,
        se,
        len(gaps),
        items,
        len(gaps) - 1,
        "t over seeds, items",
        level,
    )


def _items_variance(table: Floats) -> float:
    """Variance of a table's mean due to its items, including noise."""
    by_item: float = table.mean(axis=0).var(ddof=1) / table.shape[1]
    return float(by_item)
