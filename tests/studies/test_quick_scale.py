"""Every study of the papers, at quick scale, end to end: at most ten minutes each on two cores, by night."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.studies import STUDIES
from taskloom.studies.quick_costs import quick_costs
from taskloom.studies.reproduction import Reproduced, experiments_of
from taskloom.studies.study import find_study

TRAINED = sorted(s.name for s in STUDIES if s.experiment is not None and not s.name.startswith("mine/"))


OTHERS = sorted(s.name for s in STUDIES if s.from_recipes and not s.name.startswith("mine/"))

LONGEST = 600
"""Seconds that a study may take on two cores that nobody else uses."""


def seconds_alone(result: Reproduced, own: float) -> float:
    """Return what a study would take with a store of its own: it may have found runs that another study made."""
    if result.runs is None:
        return own
    runs = result.runs
    return max(own, sum(runs.store.environment(run).get("seconds") or 0.0 for run in runs.names) / 2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quick") / "runs"


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*TRAINED, *OTHERS])
def test_a_study_runs_at_quick_scale(name: str, store: Path, tmp_path: Path) -> None:
    if name == "reinforcement":
        pytest.importorskip("trl", reason="needs trl: make test-interop")
    began = time.monotonic()
    result = tl.reproduce(name, store=store, out=tmp_path)
    assert seconds_alone(result, time.monotonic() - began) < LONGEST
    assert result.page is not None
    assert result.page.is_file()
    assert result.findings
    for finding in result.findings:
        assert finding.table is None or len(finding.table)
        for figure in finding.figures:
            drawing = (tmp_path / f"{figure.name}.svg").read_text(encoding="utf-8")
            assert len(drawing) > 1_500
            assert "<image" not in drawing
            assert len(figure.data)
    assert (tmp_path / "scores.json").is_file() == (name in TRAINED)


@pytest.mark.parametrize("name", TRAINED)
def test_the_experiments_of_both_scales_can_be_read(name: str) -> None:
    for scale in ("quick", "full"):
        assert experiments_of(find_study(name), scale)


def test_two_cores_have_every_study_in_ten_minutes() -> None:
    costs = quick_costs()
    assert set(costs) == {*TRAINED, *OTHERS}
    assert max(costs.values()) < 2 * LONGEST


FROM_SCRATCH_ALONE = ("ctlpp/",)
"""Studies whose models are networks of the paper: there is no pretrained one to put in their place."""


@pytest.mark.parametrize("name", [name for name in TRAINED if not name.startswith(FROM_SCRATCH_ALONE)])
def test_any_pretrained_model_takes_the_place_of_a_studys_own(name: str) -> None:
    for scale in ("quick", "full"):
        learners = [
            learner
            for experiment in experiments_of(find_study(name), scale, "some/model")
            for learner in experiment.model_dump()["learners"]
        ]
        assert learners
        assert {learner["model"] for learner in learners} == {"some/model"}
