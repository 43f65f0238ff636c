"""Planted worlds: one in which tasks score what their best constant answer scores, and one in which
skill composes.

In the first, parts and wholes are alike only because their constants are: the plain r² is high, the
primary numbers must be near 0. Both worlds are drawn many times, so that the checks are about the
estimators and not about one draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from taskloom.analysis.study import analyse
from taskloom.papers.taskbench500.task_regression import Regression, regress
from taskloom.suites.taskbench.catalog import select
from tests.analysis.made_up_scores import made_up
from tests.papers.taskbench500.made_up_tasks import adapted, constant

UNIONS = [
    (task.expression, task.operands) for task in select(["lexical", "factual", "random"], ["union"])
]
ATOMS = sorted({atom for _, parts in UNIONS for atom in parts})

TESTS = 40
"""Tests of a task: constants and scores are shares of so many."""

WORLDS = 120
"""Draws of each world."""

Scores = dict[str, float]


@dataclass(frozen=True)
class World:
    """Scores and constants of atomic tasks and of the paper's 57 unions of them."""

    scores: Scores
    constants: Scores

    @property
    def lines(self) -> tuple[Regression, Regression, Regression]:
        """The plain line, that of the excess, and that beside the constant."""
        x = [np.mean([self.scores[a] for a in parts]) for _, parts in UNIONS]
        y = [self.scores[task] for task, _ in UNIONS]
        beside = [self.constants[task] for task, _ in UNIONS]
        excess_x = [
            np.mean([self.scores[a] - self.constants[a] for a in parts]) for _, parts in UNIONS
        ]
        excess_y = [self.scores[task] - self.constants[task] for task, _ in UNIONS]
        atoms = [parts for _, parts in UNIONS]
        return (
            regress([float(v) for v in x], y, parts=atoms),
            regress([float(v) for v in excess_x], excess_y, parts=atoms),
            regress([float(v) for v in x], y, beside, parts=atoms),
        )


def world(rng: np.random.Generator, skilled: bool) -> World:
    """Draw a world: a union's best constant is that of its better part; skill, if any, is the mean
    of its parts' skill.
    """
    # Most tasks have many different answers, a few have one that is nearly always right.
    true = {atom: float(rng.beta(0.5, 3)) for atom in ATOMS}
    skill = {atom: float(rng.uniform(0, 0.4)) if skilled else 0.0 for atom in ATOMS}
    for task, parts in UNIONS:
        true[task] = max(true[atom] for atom in parts)
        skill[task] = float(np.mean([skill[atom] for atom in parts]))
    constants = {task: rng.binomial(TESTS, share) / TESTS for task, share in true.items()}
    noise = {task: float(rng.normal(0, 0.03)) for task in true}
    scores = {
        task: float(np.clip(constants[task] + skill[task] + noise[task], 0, 1)) for task in true
    }
    return World(scores, constants)


def drawn(skilled: bool) -> list[tuple[Regression, Regression, Regression]]:
    rng = np.random.default_rng(7)
    return [world(rng, skilled).lines for _ in range(WORLDS)]


def of(lines: list[tuple[Regression, Regression, Regression]], place: int) -> NDArray[np.float64]:
    return np.array([[line[place].r2, line[place].r2_low, line[place].r2_high] for line in lines])


def test_where_tasks_score_what_their_constants_do_the_parts_explain_nothing_more() -> None:
    lines = drawn(skilled=False)
    plain, excess, partial = (of(lines, place) for place in range(3))
    assert np.median(plain[:, 0]) > 0.6  # what would have been taken for composition
    for primary in (excess, partial):
        assert np.median(primary[:, 0]) < 0.06
        assert np.mean(primary[:, 1] < 0.01) > 0.93  # the interval reaches down to nothing
        assert not (primary[:, 1] > 0.5).any()  # the claim never holds


def test_where_skill_composes_the_parts_explain_much_beside_the_constant() -> None:
    lines = drawn(skilled=True)
    _, excess, partial = (of(lines, place) for place in range(3))
    for primary in (excess, partial):
        assert np.median(primary[:, 0]) > 0.5
        assert np.mean(primary[:, 1] > 0.01) > 0.85  # power of the interval over 28 parts


@pytest.mark.parametrize(("skilled", "never"), [(False, "holds"), (True, "does not hold")])
def test_the_study_tells_the_two_worlds_apart(tmp_path: Path, skilled: bool, never: str) -> None:
    made = world(np.random.default_rng(1), skilled)
    groups = [adapted(task, score) for task, score in made.scores.items()]
    groups += [constant(task, score) for task, score in made.constants.items()]
    findings = analyse("taskbench500/table3", made_up(tmp_path, *groups))[2]
    (union,) = [row for row in findings[0].table or () if row["composition"] == "union"]
    for column in ("r² of excess", "partial r²"):
        value, low = (float(text.strip("[,")) for text in str(union[column]).split()[:2])
        assert (value > 0.4, low > 0.1) == (skilled, skilled)
    assert never not in {row["outcome"] for row in findings[-1].table or ()}
