"""Power against published sizes and against simulated experiments."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from taskloom.cli.app import run
from taskloom.experiments.statistics import (
    PowerQuestion,
    StatisticsError,
    examples_needed,
    gap_found,
    mcnemar,
    paired_two_way,
    power,
    seeds_needed,
)
from taskloom.experiments.statistics.power import plan
from tests.experiments.statistics.test_intervals import generator


@pytest.mark.parametrize(("d", "n"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_cohens_sizes_of_a_paired_t_test(d: float, n: int) -> None:
    """Cohen's small, medium and large effect at 80 % power: 199, 34 and 15 pairs (G*Power). Here:
    seeds, examples without end.
    """
    question = PowerQuestion(gap=0.02, accuracy=0.5, seed_sd=0.02 / d / sqrt(2))
    assert seeds_needed(question, 10**9) == n


def test_two_shares_of_different_items() -> None:
    """0.80 against 0.82, one run each: the textbook's (z + z)² (p q + p q) / d² = 6,036, and two
    for t.
    """
    z = scipy.stats.norm.ppf(0.975) + scipy.stats.norm.ppf(0.8)
    found = examples_needed(PowerQuestion(gap=0.02, accuracy=0.8), 1)
    assert found == pytest.approx(z**2 * (0.16 + 0.82 * 0.18) / 0.02**2, abs=4)


def test_more_of_anything_helps() -> None:
    question = PowerQuestion(gap=0.02, accuracy=0.8, seed_sd=0.01)
    assert examples_needed(question, 3) is None  # the seeds' variance alone hides the gap
    found = examples_needed(question, 10)
    assert found is not None
    assert power(question, found, 10) >= 0.8 > power(question, found - 1, 10)
    assert (examples_needed(replace(question, paired_correlation=0.5), 10) or 0) < found
    assert (examples_needed(replace(question, seed_correlation=0.9), 10) or 0) > found
    assert (examples_needed(replace(question, seed_correlation=0.1), 10) or 0) < found
    assert power(question, 10**6, 1) == 0  # one seed each: whose gap it is cannot be told


@given(
    st.floats(0.01, 0.2),
    st.floats(0.2, 0.75),
    st.floats(0, 0.03),
    st.floats(0, 0.9),
    st.integers(2, 20),
    st.integers(2, 5000),
)
def test_power_is_a_share_and_grows(
    gap: float, accuracy: float, sd: float, r: float, seeds: int, items: int
) -> None:
    question = PowerQuestion(gap=gap, accuracy=accuracy, seed_sd=sd, paired_correlation=r)
    small = power(question, items, seeds)
    assert 0 <= small <= 1 + 1e-9
    # With seeds that differ this does not hold to the last: where they come to dominate, degrees of
    # freedom are lost.
    alike = replace(question, seed_sd=0.0)
    assert power(alike, items, seeds) <= power(alike, 2 * items, seeds) + 1e-9
    assert small <= power(question, items, seeds + 1) + 1e-6
    smallest = gap_found(question, items, seeds)
    if smallest is not None:
        assert power(replace(question, gap=smallest), items, seeds) >= 0.8


def simulate(question: PowerQuestion, examples: int, seeds: int, times: int) -> float:
    """Tables of differences with the question's variances, put to the test."""
    rng = generator("power", str(question), examples, seeds)
    a, b, e = (sqrt(v) for v in question.components())
    found = 0
    for _ in range(times):
        table = question.gap + a * rng.normal(size=(seeds, 1)) + b * rng.normal(size=(1, examples))
        table = table + e * rng.normal(size=(seeds, examples))
        found += paired_two_way(np.zeros_like(table), table).p <= question.alpha
    return found / times


CASES = [
    (PowerQuestion(0.10, 0.7, seed_sd=0.03), 500, 3),
    (PowerQuestion(0.05, 0.8, seed_sd=0.02), 400, 5),
    (PowerQuestion(0.05, 0.8, seed_sd=0.03, paired_correlation=0.3), 300, 8),
    (PowerQuestion(0.04, 0.7, paired_correlation=0.3, seed_correlation=0.6), 500, 4),
    (PowerQuestion(0.06, 0.9, seed_sd=0.02, alpha=0.01), 500, 10),
]


@pytest.mark.parametrize(("question", "examples", "seeds"), CASES)
def test_simulated_experiments_find_the_gap_as_often(
    question: PowerQuestion, examples: int, seeds: int
) -> None:
    """Within 0.08 of the formula by 400 experiments: three standard errors, and the little that
    Satterthwaite is off.
    """
    assert simulate(question, examples, seeds, 400) == pytest.approx(
        power(question, examples, seeds), abs=0.08
    )


@pytest.mark.slow
@pytest.mark.parametrize(("question", "examples", "seeds"), CASES)
def test_many_simulated_experiments(question: PowerQuestion, examples: int, seeds: int) -> None:
    assert simulate(question, examples, seeds, 10_000) == pytest.approx(
        power(question, examples, seeds), abs=0.04
    )


def answers(
    question: PowerQuestion, examples: int, seeds: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Right or wrong with the question's correlations: with probability r an item's luck is shared
    by all runs, else its own.

    Two uniform numbers that agree with probability r and are independent otherwise give answers of
    correlation r where the accuracies are equal, and nearly so where they are close.
    """
    shared = rng.random((1, examples))
    own = rng.random((2, seeds, examples))
    # Each run takes the shared number with probability sqrt(r): two runs both do with probability
    # r.
    luck = np.where(
        rng.random((2, seeds, examples)) < sqrt(question.paired_correlation), shared, own
    )
    level = np.array([question.accuracy, question.accuracy + question.gap])[:, None, None]
    level = level + question.seed_sd * rng.normal(size=(2, seeds, 1))
    a, b = (luck < level).astype(float)
    return a, b


def test_real_answers_find_the_gap_as_often() -> None:
    """The whole chain: correlated right-or-wrong answers of seeds, put to the test that `compare`
    uses.
    """
    question = PowerQuestion(0.05, 0.8, seed_sd=0.02, paired_correlation=0.4, seed_correlation=0.4)
    rng = generator("answers")
    times = 500
    found = (
        sum(paired_two_way(*answers(question, 400, 6, rng)).p <= 0.05 for _ in range(times)) / times
    )
    assert found == pytest.approx(power(question, 400, 6), abs=0.07)
    one = replace(question, seed_sd=0.0)
    found = (
        sum(mcnemar(*(t[0] for t in answers(one, 1000, 1, rng))).p <= 0.05 for _ in range(times))
        / times
    )
    assert found == pytest.approx(power(one, 1000, 1), abs=0.07)


def test_plans() -> None:
    question = PowerQuestion(gap=0.02, accuracy=0.8, seed_sd=0.01)
    assert [row["seeds"] for row in plan(question)] == [1, 3, 5, 10, 20, 50]
    both = plan(question, 1000, 5)[0]
    assert both["power"] == power(question, 1000, 5)
    assert both["smallest_gap"] == gap_found(question, 1000, 5)
    assert plan(question, examples=1000)[0]["seeds"] == seeds_needed(question, 1000)
    assert plan(question, seeds=10)[0]["examples"] == examples_needed(question, 10)
    down = gap_found(replace(question, gap=-0.02), 1000, 5)
    assert down is not None
    assert down < 0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"accuracy": 1.2}, "accuracy must be a share between 0 and 1, not 1.2"),
        ({"gap": 0.0}, "other than 0"),
        ({"gap": 0.3}, "make 1.1"),
        ({"seed_sd": -1}, "seed-sd"),
        ({"paired_correlation": 1.0}, "below 1"),
        ({"paired_correlation": 0.5, "seed_correlation": 0.2}, "at least as alike"),
        ({"power": 0.01}, "between alpha and 1"),
        ({"alpha": 0.0}, "alpha"),
    ],
)
def test_impossible_questions(change: dict[str, float], word: str) -> None:
    with pytest.raises(StatisticsError, match=word):
        PowerQuestion(**{"gap": 0.02, "accuracy": 0.8, **change})


def test_no_sizes() -> None:
    with pytest.raises(StatisticsError, match="at least one"):
        power(PowerQuestion(0.02, 0.8), 0, 1)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["power", "--gap", "0.02", "--accuracy", "0.8"]
    assert run([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["plans"][0] == {"seeds": 1, "examples": 6038, "power": pytest.approx(0.8, abs=1e-4)}
    assert run([*words, "--seed-sd", "0.05", "--seeds", "3"]) == 0
    assert "none is enough" in capsys.readouterr().out
    assert run([*words, "--examples", "500", "--seeds", "5"]) == 0
    assert "smallest gap" in capsys.readouterr().out
    for wrong in (["--accuracy", "1.5"], ["--seeds", "0"], ["--seed-sd", "-1"], ["--alpha", "2"]):
        assert run([*words, *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
