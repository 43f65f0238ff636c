"""The study of reinforcement on made-up answers, and its experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from taskloom.analysis import StudyError, find_study
from taskloom.analysis.reproduction import experiments_of
from taskloom.experiments.sources.score_files import open_runs, write_scores
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.table import Runs
from taskloom.papers.reinforcement import UNSEEN, recipe
from tests.analysis.made_up_scores import group, made_up

START = {"steps": 100, "batch": 64, "rate": 3e-4}
NOUN = "taskbench/filter(is_pos_noun[eng])"
VERB = "taskbench/filter(is_pos_verb[eng])"
WITHHELD = f"taskbench/filter({next(iter(UNSEEN))})"
TRAITS = ["answer", "unseen_task", "task"]
KINDS = [["a", "false", NOUN], ["a", "false", VERB], ["a", "true", WITHHELD]]
ITEMS = {"traits": TRAITS, "kinds": KINDS, "of": [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]}
"""Three items of each of two seen compositions, then four of an unseen one."""


def arm(learner: str, steps: int, *answers: str, **more: Any) -> dict[str, Any]:
    """Return an arm with the scores of its items, a digit each, for every seed."""
    n = len(answers[0])
    settings = {f"learner.{key}": value for key, value in more.items()}
    fields = {"learner.steps": steps, **settings}
    scored = group("taskbench/english", learner, {"test": [0.5] * len(answers)}, fields)
    scores = {
        str(seed): {"test": {"scores": digits, "predictions": [0] * n}}
        for seed, digits in enumerate(answers)
    }
    return {
        **scored,
        "n": {"test": n},
        "items": {"test": "items"},
        "texts": ["a"],
        "answers": scores,
    }


def runs_of(folder: Path, *arms: dict[str, Any]) -> Runs:
    return open_runs(write_scores(arms, folder / "scores.json", {"items": ITEMS}))


def gains_of(runs: Runs) -> list[dict[str, Any]]:
    [gains] = [f for f in find_study("reinforcement")(runs) if f.title.startswith("What further")]
    assert gains.table is not None
    return gains.table.to_dicts()


def test_gains_are_paired_by_seed_and_composition(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        arm("fine-tune", 100, "1110000000", "0001110000"),
        arm("fine-tune", 300, "1111100000", "0111110000"),
        arm("grpo", 200, "1111000010", "0011110001", supervised=START),
        arm("grpo", 300, "0000000000", "0000000000"),
    )
    arms, *_ = find_study("reinforcement")(runs)
    assert arms.table is not None
    means = {(row["arm"], row["split"]): row["mean"] for row in arms.table}
    names = list(dict.fromkeys(name for name, _ in means))
    assert names == ["SFT 100", "SFT 300", "SFT 100, GRPO 200", "GRPO 300"]
    assert means["SFT 100", "iid"] == pytest.approx(3 / 6)
    assert means["SFT 100, GRPO 200", "ood"] == pytest.approx(1 / 4)
    rows = {(row["from"], row["to"], row["split"]): row for row in gains_of(runs)}
    assert rows["SFT 100", "SFT 100, GRPO 200", "iid"]["gain"] == pytest.approx(1 / 6)
    assert rows["SFT 100", "SFT 300", "iid"]["gain"] == pytest.approx(2 / 6)
    assert rows["SFT 300", "SFT 100, GRPO 200", "iid"]["gain"] == pytest.approx(-1 / 6)
    only = rows["SFT 100", "SFT 100, GRPO 200", "ood"]
    assert only["gain"] == pytest.approx(1 / 4)
    assert (only["compositions"], only["low"], only["outcome"]) == (1, None, "inconclusive")


def planted(folder: Path, gains: Sequence[int], start: int = 4, items: int = 60) -> dict[str, Any]:
    """Return the contrast of two arms on unseen compositions, of which each gains so many of its
    items.
    """
    kinds = [["a", "true", f"composition {number}"] for number in range(len(gains))]
    table = {
        "traits": TRAITS,
        "kinds": kinds,
        "of": [n for n in range(len(gains)) for _ in range(items)],
    }
    before = "".join("1" * start + "0" * (items - start) for _ in gains)
    after = "".join("1" * (start + gain) + "0" * (items - start - gain) for gain in gains)
    arms = [arm("fine-tune", 100, before), arm("grpo", 200, after, supervised=START)]
    [row] = gains_of(open_runs(write_scores(arms, folder / "scores.json", {"items": table})))
    return row


@pytest.mark.parametrize("compositions", [3, 12])
def test_an_effect_in_one_composition_only_is_inconclusive(
    tmp_path: Path, compositions: int
) -> None:
    row = planted(tmp_path, [50] + [0] * (compositions - 1))
    assert row["compositions"] == compositions
    assert row["gain"] == pytest.approx(50 / 60 / compositions)
    assert row["low"] < 0 < row["high"]
    assert row["outcome"] == "inconclusive"


def test_a_consistent_effect_over_twelve_compositions_is_found(tmp_path: Path) -> None:
    row = planted(tmp_path, [5, 8, 6, 9, 3, 7, 5, 8, 6, 4, 7, 6])
    assert 0 < row["low"] < row["gain"] < row["high"]
    assert row["outcome"] == "higher"
    worse = planted(tmp_path, [-3, -4, -2, -4, -1, -3, -4, -3, -2, -4, -3, -2])
    assert worse["high"] < 0
    assert worse["outcome"] == "lower"


def test_equal_gains_have_no_interval(tmp_path: Path) -> None:
    """Two compositions that both stay as they were do not prove that a third would."""
    same = "1110001000", "0011100010"
    rows = gains_of(
        runs_of(tmp_path, arm("fine-tune", 100, *same), arm("grpo", 200, *same, supervised=START))
    )
    for row in rows:
        assert row["gain"] == pytest.approx(0)
        assert row["low"] is None
        assert row["outcome"] == "inconclusive"


def test_contrasts_are_corrected_for_their_number(tmp_path: Path) -> None:
    """p-values of one table are Holm's: the smallest of two is doubled."""
    kinds = [["a", str(n >= 6).lower(), f"composition {n}"] for n in range(12)]
    table = {"traits": TRAITS, "kinds": kinds, "of": [n for n in range(12) for _ in range(20)]}
    gains = [2, 0, 3, 1, 2, 0, 1, -1, 2, 0, 1, -2]
    before = ("1" * 5 + "0" * 15) * 12
    after = "".join("1" * (5 + gain) + "0" * (15 - gain) for gain in gains)
    arms = [arm("fine-tune", 100, before), arm("grpo", 200, after, supervised=START)]
    rows = gains_of(open_runs(write_scores(arms, tmp_path / "scores.json", {"items": table})))
    iid = next(row for row in rows if row["split"] == "iid")
    stats = pytest.importorskip("scipy.stats")
    alone = stats.ttest_1samp([gain / 20 for gain in gains[:6]], 0).pvalue
    assert iid["p"] == pytest.approx(2 * alone)


def test_an_item_counts_only_where_all_of_it_is_right(tmp_path: Path) -> None:
    half = arm("fine-tune", 100, "1" * 10)
    half["answers"]["0"]["test"]["scores"] = [0.5] * 5 + [1.0] + [0.5] * 4
    arms, *_ = find_study("reinforcement")(runs_of(tmp_path, half))
    assert arms.table is not None
    assert {row["split"]: row["mean"] for row in arms.table} == pytest.approx(
        {"iid": 1 / 6, "ood": 0}
    )


def test_the_reward_in_training_is_drawn_where_runs_kept_it(tmp_path: Path) -> None:
    one = arm("grpo", 200, "1" * 10, "0" * 10)
    one["curves"] = {
        "0": [[10, "train", 0.2], [20, "train", 0.4]],
        "1": [[10, "train", 0.4], [20, "test", 0.9]],
    }
    *_, rewards = find_study("reinforcement")(runs_of(tmp_path, one))
    [figure] = rewards.figures
    assert {row["step"]: (row["reward"], row["seeds"]) for row in figure.data} == {
        10: (pytest.approx(0.3), 2),
        20: (pytest.approx(0.4), 1),
    }


def test_accuracy_by_composition(tmp_path: Path) -> None:
    one = arm("fine-tune", 100, "1110000000", "1100001000")
    _, finding = find_study("reinforcement")(runs_of(tmp_path, one))
    assert finding.table is not None
    rows = {row["kept"]: row["SFT 100"] for row in finding.table}
    assert rows["noun"] == pytest.approx(5 / 6)
    assert rows["verb"] == 0
    assert rows["not an adjective"] == pytest.approx(1 / 8)
    assert rows["adverb"] is None


def test_where_nothing_is_right_there_is_no_table_of_compositions(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, arm("fine-tune", 100, "0" * 10, "0" * 10))
    assert [finding.title for finding in find_study("reinforcement")(runs)] == [
        "Accuracy of each arm"
    ]


def test_runs_of_something_else_are_refused(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("zest/synthetic", "majority", {"test": [0.5]}))
    with pytest.raises(StudyError, match="tested on seen and unseen compositions; make some"):
        find_study("reinforcement")(runs)


@pytest.mark.parametrize("scale", ["quick", "gpu", "paper"])
def test_the_experiment_has_every_arm_for_every_seed(scale: str) -> None:
    [experiment] = experiments_of(find_study("reinforcement"), scale)
    cells = expand(experiment)
    assert len(experiment.learners) == 5
    assert len(cells) >= 4 * len(experiment.seed_list)
    assert {test.name for cell in cells for test in cell.tests} == {"test"}


def test_conditions_are_told_apart_by_the_trait_of_the_items(tmp_path: Path) -> None:
    import taskloom as tl

    runs = tl.run(
        recipes=[recipe("quick")],
        learners=["majority"],
        evaluate=["test"],
        store=tmp_path,
        engine="here",
    )
    scores: dict[str, list[float]] = {"iid": [], "ood": []}
    withheld = {f"taskbench/filter({predicate})" for predicate in UNSEEN}
    for row in runs.predictions().to_pylist():
        scores["ood" if row["task"] in withheld else "iid"].append(float(row["score"] == 1))
    arms, *_ = find_study("reinforcement")(runs)
    assert arms.table is not None
    means = {row["split"]: row["mean"] for row in arms.table}
    assert means == pytest.approx(
        {name: sum(values) / len(values) for name, values in scores.items()}
    )
    assert {len(values) for values in scores.values()} == {36, 12}
