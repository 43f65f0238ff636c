"""The rule that says whether our number agrees with a published one, on constructed data."""

from __future__ import annotations

import math
import random

import pytest

from taskloom.studies.conditions import differences
from taskloom.studies.findings import short_judgement_table
from taskloom.studies.judgements import AGREES, DISAGREES, OPEN, OTHER, judge_mean, judge_number, judge_share, verdict
from taskloom.studies.published_numbers import PublishedNumber
from tests.studies.made_up_scores import spread


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


def test_many_seeds_of_the_same_noisy_model_agree() -> None:
    assert judge_mean(spread(0.73, 0.27, 25), number(0.75, 0.27)).verdict == AGREES


def test_one_seed_cannot_tell_even_if_it_is_equal() -> None:
    result = judge_mean([0.75], number(0.75, 0.27))
    assert result.verdict == OPEN
    assert result.cells()[6] == "cannot be told from 1 seed"
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
    """0.98 against 1.00 with hardly any spread: surely different, and nobody's claim rests on it."""
    result = judge_mean(spread(0.98, 0.002, 25), number(1.0, 0.0))
    assert result.difference_high < 0
    assert result.verdict == AGREES


def test_a_published_number_of_one_training_is_taken_to_have_our_spread() -> None:
    """Three seeds at 0.80 ± 0.05 do not refute one training at 0.90, but they do refute one at 0.30."""
    assert judge_mean(spread(0.8, 0.05, 3), number(0.9, None, 1)).verdict == OPEN
    assert judge_mean(spread(0.8, 0.05, 3), number(0.3, None, 1)).verdict == DISAGREES


def test_other_essential_conditions_are_not_compared() -> None:
    result = judge_mean([1.0, 1.0], number(1.0, 0.0), comparable=False, conditions=("functions 8 (paper: 32)",))
    assert (result.verdict, result.cells()[-1]) == (OTHER, "functions 8 (paper: 32)")


@pytest.mark.parametrize(("hits", "n", "expected"), [(8, 25, AGREES), (25, 25, DISAGREES), (1, 3, OPEN)])
def test_shares_of_seeds(hits: int, n: int, expected: str) -> None:
    """8 of 25 again is not proof of the same share within 5 points, so a share needs a wide idea of 'small' to agree."""
    result = judge_share(hits, n, number(0.32, None, 25, small=0.3))
    assert result.verdict == expected


def test_numbers_without_trainings_agree_as_the_paper_rounds_them() -> None:
    assert judge_number(407_816, number(408_000, decimals=-3)).verdict == AGREES
    assert judge_number(155_018, number(672_000, decimals=-3)).verdict == DISAGREES
    assert judge_number(1_004, number(1_000, decimals=0), tolerance=5).verdict == AGREES


def test_an_interval_without_ends_cannot_tell() -> None:
    assert verdict(math.nan, math.nan, number(0.5)) == OPEN


def test_the_same_learner_is_rarely_said_to_disagree() -> None:
    """In 400 pairs of experiments with the same learner, at most a few in a hundred disagree: the interval is a 95 % one."""
    rng = random.Random(1)
    wrong = 0
    for _ in range(400):
        paper = [rng.gauss(0.6, 0.15) for _ in range(25)]
        mean = sum(paper) / 25
        sd = (sum((x - mean) ** 2 for x in paper) / 24) ** 0.5
        ours = [rng.gauss(0.6, 0.15) for _ in range(6)]
        wrong += judge_mean(ours, number(round(mean, 2), round(sd, 2))).verdict == DISAGREES
    assert wrong / 400 < 0.06


def test_the_short_table_has_no_column_that_says_nothing() -> None:
    of_tasks = [judge_mean([0.5, 0.6, 0.7], number(0.6, 0.1), unit="tasks") for _ in range(2)]
    assert short_judgement_table(of_tasks).columns == ("claim", "ours", "tasks", "published", "difference", "verdict")
    assert [row["tasks"] for row in short_judgement_table(of_tasks)] == ["3", "3"]
    counted = [judge_number(1_004, number(1_000, decimals=0))]
    assert short_judgement_table(counted).columns == ("claim", "ours", "published", "difference", "verdict")


def test_steps_are_what_stands_beside_published_epochs_where_no_epochs_were_set() -> None:
    published = PublishedNumber("made-up", "Table 1", {}, 0.5, conditions={"learner.epochs": 15})
    assert differences(published, {"learner.epochs": 0.0, "learner.steps": 680}) == ("steps 680 (paper: 15 epochs)",)
    assert differences(published, {"learner.epochs": 4.0, "learner.steps": 1}) == ("epochs 4.0 (paper: 15)",)
