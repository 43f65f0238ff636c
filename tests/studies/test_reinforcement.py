"""The study of reinforcement on made-up scores, and its experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskloom.experiments.cells import expand
from taskloom.studies import StudyError, find_study
from taskloom.studies.reinforcement import UNSEEN, recipe
from taskloom.studies.reproduction import experiments_of
from tests.studies.made_up_scores import group, made_up

START = {"steps": 100, "batch": 64, "rate": 3e-4}


def arm(learner: str, steps: int, iid: list[float], ood: list[float], **more: Any) -> dict[str, Any]:
    settings = {f"learner.{key}": value for key, value in more.items()}
    return group("ctl/A-independent", learner, {"iid": iid, "ood": ood}, {"learner.steps": steps, **settings})


def test_gains_are_paired_by_seed(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path,
        arm("fine-tune", 100, [0.2, 0.4, 0.6], [0.1, 0.1, 0.2]),
        arm("fine-tune", 300, [0.5, 0.7, 0.9], [0.1, 0.2, 0.2]),
        arm("grpo", 200, [0.3, 0.5, 0.7], [0.1, 0.1, 0.2], supervised=START),
        arm("grpo", 400, [0.1, 0.1, 0.1], [0.1, 0.1, 0.1]),
    )
    arms, gains = find_study("reinforcement")(runs)
    assert arms.table is not None
    assert gains.table is not None
    assert {row["arm"] for row in arms.table} == {"SFT 100", "SFT 300", "SFT 100, GRPO 200", "GRPO 400"}
    rows = {(row["further"], row["split"]): row for row in gains.table}
    assert set(rows) == {(a, s) for a in ("SFT 100, GRPO 200", "SFT 300") for s in ("iid", "ood")}
    # The seeds differ by 0.2 from each other, and each gains just 0.1: paired, that is certain.
    reinforced = rows["SFT 100, GRPO 200", "iid"]
    assert (reinforced["gain"], reinforced["low"], reinforced["high"]) == pytest.approx((0.1, 0.1, 0.1))
    assert rows["SFT 300", "iid"]["gain"] == pytest.approx(0.3)


def test_runs_of_something_else_are_refused(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("zest/synthetic", "majority", {"test": [0.5]}))
    with pytest.raises(StudyError, match="tested on seen and unseen compositions"):
        find_study("reinforcement")(runs)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_the_experiment_has_every_arm_for_every_seed(scale: str) -> None:
    [experiment] = experiments_of(find_study("reinforcement"), scale)
    cells = expand(experiment)
    assert len(cells) == len(experiment.learners) * len(experiment.seed_list)
    assert len(experiment.learners) >= 6
    assert {test.name for cell in cells for test in cell.tests} == {"test"}


def test_conditions_are_told_apart_by_the_trait_of_the_items(tmp_path: Path) -> None:
    import taskloom as tl

    runs = tl.run(recipes=[recipe()], learners=["majority"], evaluate=["test"], limit=60, store=tmp_path, engine="here")
    scores: dict[str, list[float]] = {"iid": [], "ood": []}
    for row in runs.predictions().to_pylist():
        scores["ood" if row["task"].removeprefix("taskbench/") in UNSEEN else "iid"].append(row["score"])
    arms, _ = find_study("reinforcement")(runs)
    assert arms.table is not None
    means = {row["split"]: row["mean"] for row in arms.table}
    assert means == pytest.approx({name: sum(values) / len(values) for name, values in scores.items()})
    assert {len(values) for values in scores.values()} != {0}
