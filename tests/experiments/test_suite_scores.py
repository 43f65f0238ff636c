"""Scores that suites compute of whole splits: the same as their own evaluation, and columns of
runs, results and reports.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskloom.analysis.report.run_report import report
from taskloom.experiments.execute.predictions import data_folder
from taskloom.experiments.rescore import rescore
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from tests.experiments.sweeps import fill
from tests.shell_lines import in_process

ZEST = {
    "recipe": "zest/synthetic",
    "set": {"tasks": {"train": 12, "dev": 24, "test": 0}, "passages": 4},
}


@pytest.fixture(scope="module")
def zest(tmp_path_factory: pytest.TempPathFactory) -> Store:
    experiment = {
        "recipes": [ZEST],
        "learners": ["majority", "nearest-neighbour"],
        "evaluate": ["dev"],
    }
    outcome = fill(experiment, tmp_path_factory.mktemp("zest") / "runs")
    assert not outcome.state.failed
    return outcome.store


@pytest.mark.parametrize(("mode", "head"), [("corrected", ""), ("official", "official ")])
def test_scores_of_zest_equal_its_evaluation(
    zest: Store, tmp_path: Path, mode: str, head: str
) -> None:
    [folder] = (zest.path / "data").iterdir()
    for run in zest.names():
        scores = zest.scores(run)["splits"]["dev"]["scores"]
        lines = [json.dumps(p) + "\n" for p in zest.predictions([run])["prediction"].to_pylist()]
        (tmp_path / "predictions.txt").write_text("".join(lines))
        arguments = [
            "--gold",
            str(folder),
            "--split",
            "dev",
            "--pred",
            "predictions.txt",
            "--mode",
            mode,
            "--json",
        ]
        result = in_process(["score", "zest", *arguments], tmp_path)
        assert result.status == 0, result.errors
        evaluation = json.loads(result.output)
        expected = {"mean": "mean", "C@75": "75", "C@90": "90"}
        assert {k: scores[head + k] for k in expected} == {
            k: evaluation["overall"][v] for k, v in expected.items()
        }
        assert scores[f"{head}consistency"] == evaluation["by_type"]["paraphrase"]["mean"]


def test_they_are_columns_of_runs_results_comparisons_and_reports(
    zest: Store, tmp_path: Path
) -> None:
    runs = Runs(zest)
    assert {"score.mean", "score.C@75", "score.C@90", "score.consistency"} <= set(runs.suite_scores)
    assert not set(runs.fields) & set(runs.suite_scores)
    table = {row["learner"]: row for row in runs.table.to_pylist()}
    for over in ("seeds+items", "seeds"):
        for row in runs.accuracy(over=over):
            own = table[row["learner"]]
            assert (row["score.mean"], row["C@75"]) == (own["score.mean"], own["score.C@75"])
            assert row["mean"] == pytest.approx(own["score"])
    [row] = runs.compare("majority", "nearest-neighbour")
    assert row["a score.mean"] == table["majority"]["score.mean"]
    assert row["b C@90"] == table["nearest-neighbour"]["score.C@90"]
    assert "C@75" in report(zest.path, tmp_path / "report.html").read_text()
    assert (
        "C@75" not in runs.accuracy(by="domain").columns
    )  # a score of the whole says nothing about its parts


def test_rescoring_computes_them_again_and_another_scorer_leaves_them(zest: Store) -> None:
    before = {run: zest.scores(run) for run in zest.names()}
    rescore(zest.path, "any-of")
    for run, old in before.items():
        assert zest.scores(run)["splits"]["dev"]["scores"] == old["splits"]["dev"]["scores"]
    rescore(zest.path, "own")
    assert {run: zest.scores(run) for run in zest.names()} == before


def test_sequences_have_scores_by_position_and_as_a_whole(tmp_path: Path) -> None:
    functions = {
        "functions": ["antonyms[eng]", "map(antonyms[eng])"],
        "sequences.n": 200,
        "lexicon": "synthetic",
    }
    block = {"recipe": "taskbench/english", "set": functions}
    experiment = {"recipes": [block], "learners": ["nearest-neighbour"], "evaluate": ["test"]}
    outcome = fill({**experiment, "tasks": "each"}, tmp_path / "runs")
    fill({**experiment, "tasks": "together"}, tmp_path / "runs")
    assert len(list((tmp_path / "runs" / "data").iterdir())) == 2
    words, sequences = (outcome.store.scores(cell.run)["splits"]["test"] for cell in outcome.cells)
    assert "scores" not in words
    assert sequences["scores"]["per-position"] >= sequences["scores"]["whole-sequence"]
    assert sequences["scores"]["per-position"] == pytest.approx(sequences["score"], abs=0.1)
    assert data_folder(outcome.store, outcome.cells[0].data.key).is_dir()
    # Described inputs are scored by the bare ones, which the store's dataset has and the
    # predictions have not.
    assert {change.changed for change in rescore(tmp_path / "runs", "own")} == {0}
