"""Verdicts on conditions with known scores."""

from __future__ import annotations

import pytest

from taskloom.analysis.profile.panel import (
    ABOVE,
    ABSENT,
    BREAKS,
    CLEAN,
    HOLDS,
    OPEN,
    ContrastResult,
    Measurement,
    PanelContrast,
    paired_difference,
    result_of,
    unpaired_difference,
)


def measured(
    right: int, n: int = 100, *, chance: float = 0.1, constant: float | None = None
) -> Measurement:
    scores = tuple(1.0 if i < right else 0.0 for i in range(n))
    answers = tuple("same" if i < right else f"{right}-{i}" for i in range(n))
    return Measurement("a:test", "zero-shot", tuple(range(n)), (scores,), answers, chance, constant)


def result(easy: Measurement, hard: Measurement, **more: bool) -> ContrastResult:
    contrast = PanelContrast.model_validate(
        {"axis": "depth", "name": "two and three", "easy": "a:test", "hard": "b:test", **more}
    )
    return result_of(contrast, "zero-shot", easy, hard)


@pytest.mark.parametrize(
    ("easy", "hard", "verdict"),
    [
        (measured(90), measured(40), BREAKS),
        (measured(900, 1000), measured(890, 1000), HOLDS),
        (measured(8, 10), measured(7, 10), OPEN),
        (measured(40, 1000, chance=0.01), measured(10, 1000), BREAKS),
        (
            measured(40, 1000, chance=0.01),
            measured(30, 1000),
            OPEN,
        ),  # it may have lost most of the little that it had
        (measured(12), measured(2), ABSENT),  # 0.12 of 100 is not above a chance of 0.1
        (measured(40, constant=0.35), measured(0), ABSENT),  # nor 0.40 above a constant of 0.35
        (measured(60, constant=0.35), measured(0), BREAKS),
    ],
)
def test_the_rule(easy: Measurement, hard: Measurement, verdict: str) -> None:
    assert result(easy, hard).verdict == verdict


def test_a_control_is_clean_unless_it_is_above_guessing() -> None:
    assert result(measured(90), measured(10), control=True).verdict == CLEAN
    assert result(measured(90), measured(40), control=True).verdict == ABOVE


def test_the_same_items_are_compared_one_by_one() -> None:
    easy, hard = measured(60), measured(50)
    paired, unpaired = result(easy, hard, same=True), result(easy, hard)
    assert (paired.difference.mean, unpaired.difference.mean) == pytest.approx((-0.1, -0.1))
    # Ten of a hundred items were lost and none won: item by item that is certain, of two samples it
    # would not be.
    assert paired.verdict == BREAKS
    assert unpaired.verdict == OPEN
    assert paired.consistency == pytest.approx(0.5)
    assert unpaired.consistency is None


def test_equal_scores_on_few_items_prove_little() -> None:
    few, many = (paired_difference(measured(n, n), measured(n, n)) for n in (5, 500))
    assert (few.mean, many.mean) == (0, 0)
    assert few.low < -0.2
    assert many.low > -0.02


def test_the_interval_of_two_samples_is_newcombes() -> None:
    # Newcombe (1998), table II, case a: 56 of 70 against 48 of 80.
    difference = unpaired_difference(measured(48, 80).estimate, measured(56, 70).estimate)
    assert (difference.mean, difference.low, difference.high) == pytest.approx(
        (0.2, 0.0524, 0.3339), abs=1e-4
    )
