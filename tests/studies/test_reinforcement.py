"""The study of reinforcement on made-up answers, and its experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskloom.experiments.cells import expand
from taskloom.experiments.runs import Runs
from taskloom.studies import StudyError, find_study
from taskloom.studies.reinforcement import UNSEEN, recipe
from taskloom.studies.reproduction import experiments_of
from taskloom.studies.score_files import open_runs, write_scores
from tests.studies.made_up_scores import group, made_up

START = {"steps": 100, "batch": 64, "rate": 3e-4}
ITEMS = {"traits": ["answer", "unseen_task"], "kinds": [["a", "false"], ["a", "true"]], "of": [0] * 6 + [1] * 4}
"""Six items of seen compositions, then four of unseen ones."""


def arm(learner: str, steps: int, *answers: str, **more: Any) -> dict[str, Any]:
    """Return an arm with the scores of its ten items, a digit each, for every seed."""
    settings = {f"learner.{key}": value for key, value in more.items()}
    scored = group("taskbench/english", learner, {"test": [0.5] * len(answers)}, {"learner.steps": steps, **settings})
    scores = {str(seed): {"test": {"scores": digits, "predictions": [0] * 10}} for seed, digits in enumerate(answers)}
    return {**scored, "n": {"test": 10}, "items": {"test": "items"}, "texts": ["a"], "answers": scores}


def runs_of(folder: Path, *arms: dict[str, Any]) -> Runs:
    return open_runs(write_scores(arms, folder / "scores.json", {"items": ITEMS}))


def test_gains_are_paired_by_seed_and_item(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        arm("fine-tune", 100, "1110000000", "0001110000"),
        arm("fine-tune", 300, "1111100000", "0111110000"),
        arm("grpo", 200, "1111000010", "0011110001", supervised=START),
        arm("grpo", 300, "0000000000", "0000000000"),
    )
    arms, gains = find_study("reinforcement")(runs)
    assert arms.table is not None
    assert gains.table is not None
    means = {(row["arm"], row["split"]): row["mean"] for row in arms.table}
    assert list(dict.fromkeys(name for name, _ in means)) == ["SFT 100", "SFT 300", "SFT 100, GRPO 200", "GRPO 300"]
    assert means["SFT 100", "iid"] == pytest.approx(3 / 6)
    assert means["SFT 100, GRPO 200", "ood"] == pytest.approx(1 / 4)
    rows = {(row["from"], row["to"], row["split"]): row["gain"] for row in gains.table}
    assert rows["SFT 100", "SFT 100, GRPO 200", "iid"] == pytest.approx(1 / 6)
    assert rows["SFT 100", "SFT 300", "iid"] == pytest.approx(2 / 6)
    assert rows["SFT 300", "SFT 100, GRPO 200", "iid"] == pytest.approx(-1 / 6)
    assert rows["SFT 100", "SFT 100, GRPO 200", "ood"] == pytest.approx(1 / 4)


def test_an_interval_of_no_change_is_around_zero(tmp_path: Path) -> None:
    same = "1110001000", "0011100010"
    runs = runs_of(tmp_path, arm("fine-tune", 100, *same), arm("grpo", 200, *same, supervised=START))
    _, gains = find_study("reinforcement")(runs)
    assert gains.table is not None
    for row in gains.table:
        assert row["gain"] == pytest.approx(0)
        assert row["low"] == pytest.approx(-row["high"])
        assert row["high"] > 0.1


def test_an_item_counts_only_where_all_of_it_is_right(tmp_path: Path) -> None:
    half = arm("fine-tune", 100, "1" * 10)
    half["answers"]["0"]["test"]["scores"] = [0.5] * 5 + [1.0] + [0.5] * 4
    arms, _ = find_study("reinforcement")(runs_of(tmp_path, half))
    assert arms.table is not None
    assert {row["split"]: row["mean"] for row in arms.table} == pytest.approx({"iid": 1 / 6, "ood": 0})


def test_the_reward_in_training_is_drawn_where_runs_kept_it(tmp_path: Path) -> None:
    one = arm("grpo", 200, "1" * 10, "0" * 10)
    one["curves"] = {"0": [[10, "train", 0.2], [20, "train", 0.4]], "1": [[10, "train", 0.4], [20, "test", 0.9]]}
    *_, rewards = find_study("reinforcement")(runs_of(tmp_path, one))
    [figure] = rewards.figures
    assert {row["step"]: (row["reward"], row["seeds"]) for row in figure.data} == {
        10: (pytest.approx(0.3), 2),
        20: (pytest.approx(0.4), 1),
    }


def runs_with_tasks(folder: Path, *answers: str) -> Runs:
    """Return one arm whose items have kept their tasks: six of one that training has, four of one that it lacks."""
    kinds = [
        ["a", "false", "taskbench/filter(is_pos_noun[eng])"],
        ["a", "true", f"taskbench/filter({next(iter(UNSEEN))})"],
    ]
    items = {"traits": ["answer", "unseen_task", "task"], "kinds": kinds, "of": [0] * 6 + [1] * 4}
    return open_runs(write_scores([arm("fine-tune", 100, *answers)], folder / "scores.json", {"items": items}))


def test_accuracy_by_composition_needs_the_tasks_of_items(tmp_path: Path) -> None:
    _, _, finding = find_study("reinforcement")(runs_with_tasks(tmp_path, "1110000000", "1110001000"))
    assert finding.table is not None
    rows = {row["kept"]: row["SFT 100"] for row in finding.table}
    assert rows["noun"] == pytest.approx(1 / 2)
    assert rows["not an adjective"] == pytest.approx(1 / 8)
    assert rows["verb"] is None


def test_where_nothing_is_right_there_is_no_table_of_compositions(tmp_path: Path) -> None:
    findings = find_study("reinforcement")(runs_with_tasks(tmp_path, "0" * 10, "0" * 10))
    assert [finding.title for finding in findings] == [
        "Accuracy of each arm",
        "What further training adds to its start",
    ]


def test_runs_of_something_else_are_refused(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("zest/synthetic", "majority", {"test": [0.5]}))
    with pytest.raises(StudyError, match="tested on seen and unseen compositions; make some"):
        find_study("reinforcement")(runs)


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_the_experiment_has_every_arm_for_every_seed(scale: str) -> None:
    [experiment] = experiments_of(find_study("reinforcement"), scale)
    cells = expand(experiment)
    assert len(experiment.learners) == 5
    assert len(cells) >= 4 * len(experiment.seed_list)
    assert {test.name for cell in cells for test in cell.tests} == {"test"}


def test_conditions_are_told_apart_by_the_trait_of_the_items(tmp_path: Path) -> None:
    import taskloom as tl

    runs = tl.run(recipes=[recipe("quick")], learners=["majority"], evaluate=["test"], store=tmp_path, engine="here")
    scores: dict[str, list[float]] = {"iid": [], "ood": []}
    withheld = {f"taskbench/filter({predicate})" for predicate in UNSEEN}
    for row in runs.predictions().to_pylist():
        scores["ood" if row["task"] in withheld else "iid"].append(float(row["score"] == 1))
    arms, *_ = find_study("reinforcement")(runs)
    assert arms.table is not None
    means = {row["split"]: row["mean"] for row in arms.table}
    assert means == pytest.approx({name: sum(values) / len(values) for name, values in scores.items()})
    assert {len(values) for values in scores.values()} == {36, 12}
