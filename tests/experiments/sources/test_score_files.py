"""Files of scores in place of a run store."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import taskloom as tl
from taskloom.analysis.published_numbers import conditions_of
from taskloom.analysis.report.run_report import report
from taskloom.core.errors import DataError
from taskloom.experiments.files import StoreError
from taskloom.experiments.record import RunsError
from taskloom.experiments.sources.score_files import open_runs, score_groups, write_scores
from taskloom.experiments.sources.scored_items import pack_answers
from taskloom.experiments.table import Runs
from taskloom.recipe.yaml_files import parse
from tests.analysis.made_up_scores import group, made_up
from tests.experiments.sweeps import baselines, fill


def test_a_file_of_scores_answers_like_a_store(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path, group("ctl/A", "bilstm", {"iid": [1.0, 1.0, 0.9], "ood": [0.9, 0.8, 0.7]})
    )
    assert len(runs) == 3
    (row,) = runs.accuracy(split="ood", over="seeds")
    assert row["mean"] == pytest.approx(0.8)
    assert row["seeds"] == 3
    assert len(runs.where("ood > 0.75")) == 2


def test_what_a_store_has_is_the_same_after_a_file(tmp_path: Path) -> None:
    outcome = fill(baselines(), tmp_path / "runs")
    stored = open_runs(outcome.store.path)
    groups, items = score_groups(stored)
    assert not items
    again = open_runs(write_scores(groups, tmp_path / "scores.json"))

    def rows(runs: object) -> list[tuple[object, ...]]:
        table = runs.table.to_pylist()  # type: ignore[attr-defined]
        return sorted(
            (r["recipe"], r["learner"], r["seed"], r["split"], r["n"], r["score"]) for r in table
        )

    assert rows(again) == rows(stored)


def test_a_folder_with_a_file_of_scores_is_read_as_that_file(tmp_path: Path) -> None:
    made_up(tmp_path, group("ctl/A", "bilstm", {"ood": [0.9, 0.8]}))
    assert len(open_runs(tmp_path)) == len(tl.runs(tmp_path)) == 2
    outcome = fill(baselines(), tmp_path / "runs")
    for read in (open_runs, tl.runs):  # a run has scores as well, of another kind
        with pytest.raises(StoreError, match="is not a run store"):
            read(outcome.store.folder(outcome.runs[0]))


def test_conditions_have_the_settings_of_presets_and_the_recipes_defaults(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/A", "ndr", {"ood": [0.9]}, {"learner.steps": 36_000}))
    conditions = conditions_of(runs, runs.names[0])
    assert conditions["learner.steps"] == 36_000
    assert conditions["learner.feed_forward"] == 512
    assert conditions["recipe.functions"] == 32
    assert conditions["recipe.splits.train.n"] == 300_000


def test_steps_of_a_training_by_epochs_are_those_that_its_epochs_amount_to(tmp_path: Path) -> None:
    """Steps that are set don't count if epochs are. A limit is about test items, and leaves the
    training as it is.
    """
    for used in ({}, {"recipe.limit": 3_200}):
        settings = {"learner.preset": "dyna-babi", **used}
        runs = made_up(tmp_path, group("babi/concat-T7", "stm", {"mix": [0.9]}, settings))
        assert conditions_of(runs, runs.names[0])["learner.steps"] == 393_750


def test_how_a_recipe_was_used_is_not_taken_for_its_fields(tmp_path: Path) -> None:
    used = {"recipe.limit": 3_000, "recipe.task": "ab", "learner.best_of": 4}
    runs = made_up(tmp_path, group("ctl/A", "ndr", {"ood": [0.9]}, used))
    conditions = conditions_of(runs, runs.names[0])
    assert conditions["recipe.splits.train.n"] == 300_000
    assert conditions["learner.feed_forward"] == 512
    config = parse(runs.config(runs.names[0]))
    assert (config["limit"], config["tasks"], config["best_of"]) == (3_000, ["ab"], {"seeds": 4})


def test_code_that_a_store_names_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    runs = made_up(tmp_path, group(str(trap), str(trap), {"ood": [0.9]}))
    conditions_of(runs, runs.names[0])
    assert not (tmp_path / "ran").exists()


def test_there_are_no_predictions_in_it(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"ood": [0.9, 0.8]}))
    assert runs.predictions().num_rows == 0
    with pytest.raises((StoreError, RunsError)):
        runs.accuracy(by="length")


def kept(stored: Runs, folder: Path, traits: tuple[str, ...]) -> Runs:
    groups, items = score_groups(stored, traits)
    return open_runs(write_scores(groups, folder / "scores.json", items))


def test_accuracy_by_a_trait_is_the_same_after_a_file(tmp_path: Path) -> None:
    stored = open_runs(fill(baselines(), tmp_path / "runs").store.path)
    again = kept(stored, tmp_path, ("length",))
    ours, theirs = (
        [
            [
                row[c]
                for c in (
                    "recipe",
                    "learner",
                    "split",
                    "length",
                    "mean",
                    "low",
                    "high",
                    "n",
                    "seeds",
                )
            ]
            for row in table
        ]
        for table in (runs.accuracy(by="length") for runs in (stored, again))
    )
    assert ours == theirs
    assert [row["method"] for row in again.accuracy()] == [
        row["method"] for row in stored.accuracy()
    ]
    assert len({row[3] for row in ours}) > 1
    twice = kept(again, tmp_path / "again", ("length",))
    assert (tmp_path / "again" / "scores.json").read_text() == (
        tmp_path / "scores.json"
    ).read_text()
    assert twice.predictions().num_rows == stored.predictions().num_rows


def test_answers_to_items_are_kept_with_them(tmp_path: Path) -> None:
    stored = open_runs(fill(baselines(1), tmp_path / "runs").store.path)
    again = kept(stored, tmp_path, ("length",))

    def rows(runs: Runs) -> list[tuple[str, ...]]:
        table = runs.predictions(columns=["split", "targets", "prediction", "score"]).to_pylist()
        key = ("recipe", "learner", "seed", "split", "prediction", "score")
        return sorted((*(str(row[k]) for k in key), row["targets"][0]) for row in table)

    assert rows(again) == rows(stored)


def test_answers_that_do_not_fit_their_items_are_refused(tmp_path: Path) -> None:
    stored = open_runs(fill(baselines(1), tmp_path / "runs").store.path)
    groups, items = score_groups(stored, ("length",))
    split = next(iter(groups[0]["answers"]["0"].values()))
    split["scores"] = split["scores"][1:]
    with pytest.raises(DataError, match="do not fit 'items'"):
        open_runs(write_scores(groups, tmp_path / "scores.json", items))


def test_scores_between_0_and_1_are_kept_as_numbers() -> None:
    rows = pa.table({"score": [0.5, 1.0], "prediction": ["a", "b"]})
    assert pack_answers(rows, {}) == {"scores": [0.5, 1.0], "predictions": [0, 1]}


def test_curves_and_further_numbers_are_the_same_after_a_file(tmp_path: Path) -> None:
    one = group("ctl/A", "bilstm", {"ood": [0.5]})
    one |= {
        "further": {"0": {"ood": {"whole-sequence": 0.25}}},
        "curves": {"0": [[100, "ood", 0.1], [200, "ood", 0.5]]},
    }
    runs = made_up(tmp_path, one)
    assert runs.table["score.whole-sequence"].to_pylist() == [0.25]
    assert [(p["step"], p["split"], p["score"]) for p in runs.curves().to_pylist()] == [
        (100, "ood", 0.1),
        (200, "ood", 0.5),
    ]
    groups, items = score_groups(runs, curves=True)
    again = open_runs(write_scores(groups, tmp_path / "again.json", items))
    assert again.curves() == runs.curves()
    assert again.table == runs.table
    assert "curves" not in score_groups(runs)[0][0]


def test_a_run_on_one_task_has_the_conditions_of_its_recipe(tmp_path: Path) -> None:
    fields = {
        "recipe.task": "taskbench/father",
        "recipe.labels": "permuted",
        "learner.preset": None,
    }
    one = group("taskbench/500", "majority", {"test": [0.5]}, fields)
    del one["fields"]["learner.preset"]
    runs = made_up(tmp_path, one)
    conditions = conditions_of(runs, runs.names[0])
    assert (conditions["recipe.labels"], conditions["recipe.sequences.length"]) == ("permuted", 8)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a file of scores"),
        ('{"format": "taskloom scores", "schema": 9}', "schema 9"),
        ('{"format": "taskloom scores", "schema": 1, "groups": [{"recipe": "ctl/A"}]}', "learner"),
    ],
)
def test_a_bad_file_is_refused_with_one_sentence(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text(text)
    with pytest.raises(DataError, match=problem):
        open_runs(path)


def test_a_seed_twice_is_refused(tmp_path: Path) -> None:
    same = group("ctl/A", "bilstm", {"ood": [0.9]})
    with pytest.raises(DataError, match="twice"):
        made_up(tmp_path, same, same)


@pytest.mark.parametrize("seed", ["²", "٣", "-1", "1e3", "", "9" * 5000])
def test_a_seed_that_is_no_whole_number_is_refused(seed: str, tmp_path: Path) -> None:
    bad = {**group("ctl/A", "bilstm", {"ood": [0.9]}), "seeds": {seed: {"ood": 0.9}}}
    with pytest.raises(DataError, match="of ctl/A, bilstm: a seed is a whole number from 0"):
        made_up(tmp_path, bad)


def test_a_point_of_a_curve_that_is_no_share_is_refused(tmp_path: Path) -> None:
    bad = {**group("ctl/A", "bilstm", {"ood": [0.9]}), "curves": {"0": [[1, "ood", float("nan")]]}}
    with pytest.raises(DataError, match=r"curves.0.0.2: should be a finite number"):
        made_up(tmp_path, bad)


@pytest.mark.parametrize("sizes", [{}, {"ood": 0}])
def test_a_split_without_a_size_is_refused(sizes: dict[str, int], tmp_path: Path) -> None:
    bad = {**group("ctl/A", "bilstm", {"ood": [0.9]}), "n": sizes}
    with pytest.raises(DataError, match="a score on 'ood'; 'n' must give the number of examples"):
        made_up(tmp_path, bad)


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    path = write_scores([group("ctl/A", "bilstm", {"ood": [0.9]})], tmp_path / "scores.json")
    assert json.loads(path.read_text())["groups"][0]["seeds"] == {"0": {"ood": 0.9}}


def test_predictions_for_a_suite_that_makes_its_rows_in_columns(tmp_path: Path) -> None:
    size = {
        "symbols": 4,
        "functions": 8,
        "max_length": 4,
        "splits": {"train": {"n": 50}, "ood": {"n": 20}},
    }
    answers = [example.target for example in tl.make("ctl/A", set=size)["ood"]]
    (tmp_path / "ood.txt").write_text("\n".join([*answers[:15], *["no"] * 5]) + "\n")
    file = tmp_path / "mine.yaml"
    file.write_text(
        json.dumps(
            {
                "recipe": "ctl/A",
                "set": size,
                "predictions": [{"model": "m", "split": "ood", "file": "ood.txt"}],
            }
        )
    )
    (row,) = open_runs(file).table.to_pylist()
    assert (row["n"], row["score"]) == (20, 0.75)


def test_a_report_on_predictions_from_elsewhere_shows_the_examples(tmp_path: Path) -> None:
    size = {
        "symbols": 4,
        "functions": 8,
        "max_length": 4,
        "splits": {"train": {"n": 50}, "ood": {"n": 20}},
    }
    answers = [example.target for example in tl.make("ctl/A", set=size)["ood"]]
    rows = []
    for seed in range(2):
        (tmp_path / f"{seed}.txt").write_text("\n".join([*answers[:15], *["no"] * 5]) + "\n")
        rows.append({"model": "m", "split": "ood", "seed": seed, "file": f"{seed}.txt"})
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"recipe": "ctl/A", "set": size, "predictions": rows}))
    page = report(open_runs(file), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "seeds × items" in page
    assert "0.750" in page
    assert "answered: no" in page
    assert "config.yaml" not in page, "nothing of ours can run it again"


def test_items_of_many_runs_in_one_file_are_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = open_runs(fill(baselines(2), tmp_path / "runs").store.path)
    groups, items = score_groups(stored, traits=["task"])
    monkeypatch.setattr("taskloom.experiments.index.FEW", 1)
    again = open_runs(write_scores(groups, tmp_path / "scores.json", items))
    assert [row["mean"] for row in again.accuracy()] == [row["mean"] for row in stored.accuracy()]
