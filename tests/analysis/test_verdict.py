"""The rule that says whether our number agrees with a published one, on constructed data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from taskloom.analysis.published_numbers import PublishedNumber, differences
from taskloom.analysis.verdict import (
    AGREES,
    DISAGREES,
    OPEN,
    OTHER,
    judge_mean,
    judge_number,
    judge_share,
    short_judgement_table,
    verdict,
)
from taskloom.experiments.statistics import wilson
from tests.analysis.made_up_scores import spread
from tests.slow import slow_except


def number(value: float, sd: float | None = None, n: int = 25, **more: float) -> PublishedNumber:
    return PublishedNumber("made-up", "Table 1", {"model": "mine"}, value, sd, n, **more)  # type: ignore[arg-type]


def test_the_same_mean_and_spread_from_many_seeds_agree() -> None:
    result = judge_mean(spread(0.941, 0.031, 25), number(0.95, 0.03))
    assert result.verdict == AGREES
    assert result.difference == pytest.approx(-0.009)
    assert result.difference_low < -0.009 < result.difference_high


def test_a_large_gap_disagrees() -> None:
    assert judge_mean(spread(0.86, 0.1, 10), number(0.34, 0.26)).verdict == DISAGREES


def test_few_seeds_of_a_noisy_model_cannot_tell() -> None:
    assert judge_mean(spread(0.7, 0.27, 3), number(0.75, 0.27)).verdict == OPEN


def test_twenty_five_seeds_of_a_noisy_model_are_too_few_for_a_margin_of_a_tenth() -> None:
    """The mean of 25 scores with a standard deviation of 0.27 is known to ± 0.11, theirs as well as
    ours.
    """
    assert judge_mean(spread(0.75, 0.27, 25), number(0.75, 0.27)).verdict == OPEN
    assert judge_mean(spread(0.75, 0.16, 100), number(0.75, 0.16, 100)).verdict == AGREES


@pytest.mark.parametrize(
    ("sd", "margin"), [(None, 0.05), (0.0, 0.05), (0.15, 0.05), (0.16, 0.10), (0.27, 0.10)]
)
def test_the_margin_is_fixed_and_wider_only_for_large_published_spreads(
    sd: float | None, margin: float
) -> None:
    judged = judge_mean([0.7, 0.8], number(0.75, sd))
    assert judged.margin == margin
    assert judged.cells()[6] == f"±{margin:.2f}"
    assert judge_mean([0.7, 0.8], number(0.75, sd, own_margin=0.3)).margin == 0.3


def test_one_seed_cannot_tell_even_if_it_is_equal() -> None:
    result = judge_mean([0.75], number(0.75, 0.27))
    assert result.verdict == OPEN
    assert result.cells()[7] == "inconclusive"
    assert math.isnan(result.difference_low)


def test_the_difference_of_two_shares_is_one_from_minus_1_to_1() -> None:
    judged = judge_mean([0.0, 0.98], number(0.95, 0.03))
    assert (judged.difference_low, judged.difference_high, judged.verdict) == (-1.0, 1.0, OPEN)


def test_means_have_three_decimals_however_many_the_paper_has() -> None:
    cells = judge_mean([0.9112, 0.9241], number(0.9998, None, decimals=4)).cells()
    assert cells[2].startswith("0.918 [")
    assert cells[4] == "0.9998"
    assert cells[5].startswith("-0.082 [")


def test_no_seed_is_not_measured() -> None:
    result = judge_mean([], number(0.75, 0.27))
    assert (result.verdict, result.cells()[2]) == (OPEN, "not measured")


def test_perfect_scores_of_two_seeds_agree_with_a_perfect_published_score() -> None:
    assert judge_mean([1.0, 1.0], number(1.0, 0.0)).verdict == AGREES


def test_a_significant_difference_that_is_small_agrees() -> None:
    """0.98 against 1.00 with hardly any spread: surely different, and nobody's claim rests on
    it.
    """
    result = judge_mean(spread(0.98, 0.002, 25), number(1.0, 0.0))
    assert result.difference_high < 0
    assert result.verdict == AGREES


def test_a_published_number_of_one_training_is_taken_to_have_our_spread() -> None:
    """Three seeds at 0.80 ± 0.05 do not refute one training at 0.90, but they do refute one at
    0.30.
    """
    assert judge_mean(spread(0.8, 0.05, 3), number(0.9, None, 1)).verdict == OPEN
    assert judge_mean(spread(0.8, 0.05, 3), number(0.3, None, 1)).verdict == DISAGREES


def test_other_essential_conditions_are_not_compared() -> None:
    result = judge_mean(
        [1.0, 1.0], number(1.0, 0.0), comparable=False, conditions=("functions 8 (paper: 32)",)
    )
    assert (result.verdict, result.cells()[-1]) == (OTHER, "functions 8 (paper: 32)")


@pytest.mark.parametrize(
    ("hits", "n", "expected"), [(8, 25, AGREES), (25, 25, DISAGREES), (1, 3, OPEN)]
)
def test_shares_of_seeds(hits: int, n: int, expected: str) -> None:
    """8 of 25 again is not proof of the same share within 5 points, so a share needs a wide idea of
    'small' to agree.
    """
    result = judge_share(hits, n, number(0.32, None, 25, own_margin=0.3))
    assert result.verdict == expected


def test_numbers_without_trainings_agree_as_the_paper_rounds_them() -> None:
    assert judge_number(407_816, number(408_000, decimals=-3)).verdict == AGREES
    assert judge_number(155_018, number(672_000, decimals=-3)).verdict == DISAGREES
    assert judge_number(1_004, number(1_000, decimals=0), tolerance=5).verdict == AGREES


def test_an_interval_without_ends_cannot_tell() -> None:
    assert verdict(math.nan, math.nan, number(0.5)) == OPEN


ROWS = {
    "NDR on R": (0.75, 0.27),
    "NDR on A": (0.34, 0.26),
    "Transformer on A": (0.21, 0.09),
    "bi-LSTM on A": (0.95, 0.03),
    "in the middle": (0.50, 0.10),
}
"""Mean and standard deviation between trainings. The first two are strongly skewed: most networks
are near 1, or near chance.
"""

SEEDS = (3, 5, 10, 25)

EXPERIMENTS = 1000
MORE_EXPERIMENTS = 6000
"""For the hardest case, three skewed seeds against a single training: it covers 0.945, too close to
0.94 for 1,000.
"""


def trainings(rng: np.random.Generator, mean: float, sd: float, n: int) -> list[float]:
    """Accuracies of n trainings: beta-distributed, so that they stay within 0 and 1 and are skewed
    near either.
    """
    size = mean * (1 - mean) / sd**2 - 1
    return [float(x) for x in rng.beta(mean * size, (1 - mean) * size, n)]


def simulated(
    row: str, seeds: int, published_seeds: int, shift: float = 0.0
) -> tuple[float, float]:
    """Share of experiments whose interval covers the true difference, and share that disagree."""
    rng = np.random.default_rng([len(row), seeds, published_seeds, round(100 * abs(shift))])
    mean, sd = ROWS[row]
    hardest = row == "NDR on R" and seeds == 3 and published_seeds == 1
    experiments = MORE_EXPERIMENTS if hardest else EXPERIMENTS
    covered = disagree = 0
    for _ in range(experiments):
        paper = trainings(rng, mean, sd, published_seeds)
        their_sd = round(float(np.std(paper, ddof=1)), 2) if published_seeds > 1 else None
        ours = trainings(rng, mean + shift, sd, seeds)
        judged = judge_mean(
            ours, number(round(float(np.mean(paper)), 2), their_sd, published_seeds)
        )
        # The paper's rounding is part of what it published, so it belongs to the tolerance.
        covered += judged.difference_low - 0.005 <= shift <= judged.difference_high + 0.005
        disagree += judged.verdict == DISAGREES
    return covered / experiments, disagree / experiments


CASES = list(itertools.product(ROWS, SEEDS, (1, 25)))
QUICK = [("NDR on R", 3, 1), ("NDR on R", 25, 25), *((row, 5, 1) for row in ROWS)]
"""The hardest case, the most common one, and each row once."""


@pytest.mark.parametrize(("row", "seeds", "published_seeds"), slow_except(CASES, *QUICK))
def test_intervals_cover_and_the_same_learner_rarely_disagrees(
    row: str, seeds: int, published_seeds: int
) -> None:
    covered, disagree = simulated(row, seeds, published_seeds)
    assert covered >= 0.94
    assert disagree <= 0.06


@pytest.mark.parametrize("seeds", slow_except(SEEDS, 3, 10))
@pytest.mark.parametrize("row", ["NDR on R", "NDR on A"])
def test_intervals_cover_a_true_difference(row: str, seeds: int) -> None:
    covered, _ = simulated(row, seeds, 25, shift=-0.1)
    assert covered >= 0.94


def test_a_true_difference_is_found() -> None:
    """A test that never disagrees would pass those above."""
    _, disagree = simulated("bi-LSTM on A", 25, 25, shift=-0.15)
    assert disagree >= 0.9


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("share", [0.04, 0.2, 0.32, 0.5, 0.8, 0.96])
def test_intervals_of_shares_cover(share: float, n: int) -> None:
    """Exact: all pairs of outcomes, each with its probability."""
    published = 25
    chances = scipy.stats.binom.pmf(range(n + 1), n, share)
    published_chances = scipy.stats.binom.pmf(range(published + 1), published, share)
    covered = disagree = 0.0
    for theirs, their_chance in enumerate(published_chances):
        for ours, our_chance in enumerate(chances):
            weight = their_chance * our_chance
            judged = judge_share(ours, n, number(theirs / published, None, published))
            covered += weight * (judged.difference_low <= 0 <= judged.difference_high)
            disagree += weight * (judged.verdict == DISAGREES)
    assert covered >= 0.94
    assert disagree <= 0.06


@pytest.mark.parametrize("seeds", SEEDS)
def test_a_published_share_of_tasks_is_covered(seeds: int) -> None:
    """Competence: one published training, whose share of 599 tasks varies with the training and
    with the tasks.
    """
    rng, share, sd, tasks = np.random.default_rng([599, seeds]), 0.11, 0.02, 599
    covered = disagree = 0
    for _ in range(EXPERIMENTS):
        understood = rng.binomial(tasks, trainings(rng, share, sd, 1)[0])
        published = number(round(understood / tasks, 2), None, 1)
        ends = wilson(published.value * tasks, tasks)
        judged = judge_mean(trainings(rng, share, sd, seeds), published, their_ends=ends)
        covered += judged.difference_low - 0.005 <= 0 <= judged.difference_high + 0.005
        disagree += judged.verdict == DISAGREES
    assert covered / EXPERIMENTS >= 0.94
    assert disagree / EXPERIMENTS <= 0.06


def test_a_single_published_training_adds_no_degrees_of_freedom() -> None:
    """BiDAF without GIVE: once judged to disagree by an interval of [-0.105, -0.004], which was too
    short.
    """
    ours = spread(0.455, 0.0143, 3)
    judged = judge_mean(ours, number(0.51, None, 1))
    half = scipy.stats.t.ppf(0.975, 2) * float(np.std(ours, ddof=1)) * math.sqrt(1 + 1 / 3)
    assert judged.difference_low == pytest.approx(judged.difference - half, abs=0.003)
    assert judged.difference_high == pytest.approx(judged.difference + half, abs=0.003)
    assert judged.verdict == OPEN


def test_the_short_table_has_no_column_that_says_nothing() -> None:
    of_tasks = [judge_mean([0.5, 0.6, 0.7], number(0.6, 0.1), unit="tasks") for _ in range(2)]
    assert short_judgement_table(of_tasks).columns == (
        "claim", "ours", "tasks", "published", "difference", "margin", "verdict",
    )  # fmt: skip
    assert [row["tasks"] for row in short_judgement_table(of_tasks)] == ["3", "3"]
    counted = [judge_number(1_004, number(1_000, decimals=0))]
    assert short_judgement_table(counted).columns == (
        "claim",
        "ours",
        "published",
        "difference",
        "verdict",
    )


def test_steps_are_what_stands_beside_published_epochs_where_no_epochs_were_set() -> None:
    published = PublishedNumber("made-up", "Table 1", {}, 0.5, conditions={"learner.epochs": 15})
    assert differences(published, {"learner.epochs": 0.0, "learner.steps": 680}) == (
        "steps 680 (paper: 15 epochs)",
    )
    assert differences(published, {"learner.epochs": 4.0, "learner.steps": 1}) == (
        "epochs 4.0 (paper: 15)",
    )
