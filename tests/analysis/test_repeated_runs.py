"""Runs that differ in the seed alone: what counts as a repetition."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskloom.analysis.paper_table import SEEDLESS, repeated_runs, seed_point
from taskloom.learners import LEARNERS, baselines
from tests.analysis.made_up_scores import group, made_up


@pytest.mark.parametrize(
    ("learner", "counted"), [("bilstm", 3), ("majority", 1), ("nearest-neighbour", 1)]
)
def test_a_learner_that_does_nothing_by_chance_is_counted_once(
    tmp_path: Path, learner: str, counted: int
) -> None:
    runs = made_up(tmp_path, group("ctl/A", learner, {"ood": [0.5, 0.5, 0.5]}))
    assert [len(names) for names in repeated_runs(runs)] == [counted]


def test_every_baseline_is_known_to_do_nothing_by_chance() -> None:
    assert set(LEARNERS.of(baselines.__name__)) == set(SEEDLESS)


def test_equal_scores_have_no_interval_over_seeds() -> None:
    alike = seed_point([1.0] * 25)
    assert (alike["mean"], alike["low"], alike["high"], alike["sd"], alike["seeds"]) == (
        1.0,
        None,
        None,
        0.0,
        25,
    )
    apart = seed_point([1.0] * 24 + [0.9])
    assert apart["low"] < apart["mean"] < apart["high"]
