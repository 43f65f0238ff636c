"""Mixes: one model learns from several recipes or files at given rates, and is evaluated on each;
own data under `evaluate`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from taskloom.core.errors import TaskloomError
from taskloom.experiments.execute.predictions import training_rows
from taskloom.experiments.rescore import rescore, verify_runs
from taskloom.experiments.spec.cell_data import CellData, RecipeMix
from taskloom.experiments.spec.cells import Cell, expand
from taskloom.experiments.spec.experiment import check, read
from taskloom.experiments.table import Runs
from tests.experiments.spec.test_own_data import COLUMNS, save
from tests.experiments.sweeps import SMALL, fill, recipe

BABI = {"recipe": "babi/1", "set": {"splits": {"train": {"n": 30}, "test": {"n": 12}}}}
ZEST = {
    "recipe": "zest/synthetic",
    "set": {"tasks": {"train": 12, "dev": 24, "test": 0}, "passages": 3},
}


def mixed(parts: list[Any], **more: Any) -> dict[str, Any]:
    return {"mix": parts, **more}


def experiment(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"recipes": list(blocks), "learners": ["majority"], **more}


def only(plain: dict[str, Any]) -> Cell:
    [cell] = expand(check(plain, "test"))
    return cell


def mix_of(sizes: list[int], rates: tuple[float, ...] = (), rows: int = 0) -> list[tuple[int, int]]:
    part: Any = CellData.__new__(CellData)
    mix = RecipeMix((part,) * len(sizes), rates, rows)
    mix.__dict__["key"] = "a key"
    return list(mix.order(sizes))


def test_without_rates_every_row_comes_once_in_a_shuffled_order() -> None:
    places = mix_of([5, 3])
    assert sorted(places) == [*((0, i) for i in range(5)), *((1, i) for i in range(3))]
    assert places != sorted(places)
    assert places == mix_of([5, 3])


def test_rates_are_shares_of_the_rows_and_small_parts_are_repeated() -> None:
    places = mix_of([90, 10], (1.0, 1.0))
    assert Counter(part for part, _ in places) == {0: 50, 1: 50}
    assert Counter(places)[1, 0] == 5  # ten rows, five times each
    assert {row for part, row in places if part == 0} == set(range(50))
    assert Counter(part for part, _ in mix_of([90, 10], (3.0, 1.0), rows=40)) == {0: 30, 1: 10}


def test_one_model_learns_from_a_recipe_and_own_data_and_is_evaluated_on_each(
    tmp_path: Path,
) -> None:
    own = {"recipe": str(save(tmp_path / "mine", "csv")), "columns": COLUMNS}
    plain = experiment(mixed([recipe(), own], rates=[1, 3], rows=40))
    cell = only(plain)
    assert cell.data.name == "ctl/A+mine"
    assert [test.name for test in cell.tests] == ["ctl/A:iid", "ctl/A:ood", "mine:test"]
    assert only(cell.config()).run == cell.run
    outcome = fill(plain, tmp_path / "runs")
    assert not outcome.state.failed
    assert Counter(e.task for e in training_rows(outcome.store, cell)) == {"ctl/A": 10, "": 30}
    [prediction] = set(outcome.store.predictions()["prediction"].to_pylist())
    assert prediction == "yes"  # the majority of what is mixed in three times as often
    scores = outcome.store.scores(cell.run)
    assert scores["splits"]["mine:test"]["score"] == 0.5
    assert scores["scorer"] == "any-of+exact"
    assert verify_runs(outcome.store.path).wrong == []
    assert not verify_runs(outcome.store.path).unscored
    assert {change.changed for change in rescore(outcome.store.path, "own")} == {0}


def test_rates_and_fields_of_the_parts_are_other_runs_and_columns() -> None:
    grid = {"rates": [[1, 1], [1, 2]], "splits.train.n": [100, 200]}
    block = mixed(
        [{"recipe": "ctl/A", "set": SMALL}, {"recipe": "ctl/R", "set": SMALL}],
        grid=grid,
        name="both",
    )
    cells = expand(check(experiment(block), "test"))
    assert len({cell.run for cell in cells}) == len(cells) == 8
    assert {cell.data.name for cell in cells} == {"both"}
    assert len({json.dumps(cell.fields) for cell in cells}) == 8
    assert all(only(cell.config()).run == cell.run for cell in cells)


def test_zest_in_a_mix_of_tasks_keeps_its_own_scores(tmp_path: Path) -> None:
    outcome = fill(
        experiment(mixed([ZEST, BABI], rates=[1, 1]), tasks="together", keep={"model": False}),
        tmp_path / "runs",
    )
    assert not outcome.state.failed
    [run] = outcome.runs
    splits = outcome.store.scores(run)["splits"]
    assert set(splits["zest/synthetic:dev"]["scores"]) >= {"mean", "C@75", "C@90", "consistency"}
    assert splits["babi/1:test"]["n"] == 12
    inputs = outcome.store.predictions([run], ["split", "input"]).to_pylist()
    told = {row["split"]: row["input"].splitlines()[0] for row in inputs}
    assert told["babi/1:test"].startswith(
        "Say where the person is"
    )  # the description; a question of zest tells its task itself


def test_patience_stops_a_mix_by_the_dev_rows_of_its_parts(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    learner = {
        "learner": "encoder-decoder",
        "state": 16,
        "layers": 1,
        "heads": 2,
        "feed_forward": 16,
        "longest": 1024,
        "steps": 4,
        "batch": 4,
        "rate": 1e-3,
        "warmup": 0,
        "evaluate_every": 2,
        "patience": 10,
        "longest_answer": 8,
        "cut_answers": True,
    }
    plain = {
        "recipes": [mixed([ZEST, BABI], rates=[1, 1])],
        "tasks": "together",
        "learners": [learner],
        "keep": {"model": False},
    }
    outcome = fill(plain, tmp_path / "runs")
    assert not outcome.state.failed
    [run] = outcome.runs
    scores = outcome.store.scores(run)
    assert scores["chosen"]["by"] == "dev"
    assert scores["chosen"]["step"] in (2, 4)
    assert set(scores["splits"]) == {"zest/synthetic:dev", "babi/1:test"}


def test_a_task_without_dev_rows_is_trained_to_the_end(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = tmp_path / "mine"
    folder.mkdir()
    for split, tasks in {"train": "ab", "dev": "a", "test": "ab"}.items():
        rows = [
            {"input": f"{task} {i}", "target": task, "task": task} for task in tasks for i in "123"
        ]
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    learner = {
        "learner": "encoder-decoder",
        "state": 16,
        "layers": 1,
        "heads": 2,
        "feed_forward": 16,
        "steps": 2,
        "batch": 2,
        "evaluate_every": 1,
        "patience": 1,
        "longest_answer": 8,
    }
    plain = {
        "recipes": [str(folder)],
        "tasks": "each",
        "learners": [learner],
        "evaluate": ["test"],
        "keep": {"model": False},
    }
    outcome = fill(plain, tmp_path / "runs")
    assert not outcome.state.failed
    assert len(outcome.runs) == 2


def test_splits_of_a_mix_are_chosen_by_their_own_name_or_with_their_recipe() -> None:
    block = mixed([recipe("ctl/A"), recipe("ctl/R")])
    assert [t.name for t in only(experiment(block, evaluate=["iid"])).tests] == [
        "ctl/A:iid",
        "ctl/R:iid",
    ]
    assert [t.name for t in only(experiment(block, evaluate=["ctl/R:ood"])).tests] == ["ctl/R:ood"]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_own_data_of_every_format_is_evaluated_on(tmp_path: Path, kind: str) -> None:
    own = {"recipe": str(save(tmp_path / "mine", kind)), "columns": COLUMNS}
    cell = only(experiment(BABI, evaluate=["test", own]))
    assert [(test.name, test.data.name) for test in cell.tests] == [
        ("mine:test", "mine"),
        ("test", "babi/1"),
    ]
    assert only(cell.config()).run == cell.run
    if kind == "csv":
        outcome = fill(experiment(BABI, evaluate=[own]), tmp_path / "runs")
        assert [row["n"] for row in Runs(outcome.store).table.to_pylist()] == [6]


def test_files_beside_the_experiment_are_mixed_and_evaluated_on(tmp_path: Path) -> None:
    for name in ("mine", "yours"):
        (tmp_path / name).mkdir()
        for split in ("train", "test"):
            (tmp_path / name / f"{split}.jsonl").write_text('{"input": "a", "target": "b"}\n')
    (tmp_path / "experiment.yaml").write_text(
        "recipes: [{mix: [./mine, babi/1]}]\nlearners: [majority]\nevaluate: [./yours,"
        " babi/2:test]\n"
    )
    [cell] = expand(read(tmp_path / "experiment.yaml"))
    assert [(test.name, test.data.name) for test in cell.tests] == [
        ("babi/2:test", "babi/2"),
        ("yours:test", "yours"),
    ]
    [cell] = expand(
        check(
            {**cell.config(), "evaluate": [{"recipe": str(tmp_path / "yours"), "only": ["train"]}]},
            "x",
        )
    )
    assert [test.name for test in cell.tests] == ["train"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"mix": ["ctl/A"]}, "a mix names at least two recipes"),
        (
            {"mix": ["ctl/A", "ctl/R"], "rate": [1, 2]},
            "a mix has no key 'rate'; did you mean 'rates'",
        ),
        ({"mix": ["ctl/A", "ctl/R"], "rates": [1]}, "a number above 0 for each of the 2 parts"),
        ({"mix": ["ctl/A", "ctl/R"], "rates": [1, 0]}, "a number above 0 for each of the 2 parts"),
        ({"mix": ["ctl/A", "ctl/R"], "rows": -1}, "rows of a mix must be a whole number"),
        ({"mix": ["ctl/A", "ctl/Q"]}, "ctl/Q"),
    ],
)
def test_mixes_that_cannot_be(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TaskloomError, match=sentence):
        only(experiment(more))


def test_a_part_whose_tasks_no_input_tells_apart_is_refused_unless_asked_for(
    tmp_path: Path,
) -> None:
    for split in ("train", "test"):
        rows = [
            {"input": f"{split}{i}", "target": "ab"[i % 2], "task": "AB"[i % 2]} for i in range(4)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    block = mixed([str(tmp_path), BABI])
    with pytest.raises(TaskloomError, match="has 2 tasks"):
        only(experiment(block))
    assert only(experiment(block, tasks="mixed")).config()["tasks"] == "mixed"


def test_tasks_of_a_mix_have_no_models_of_their_own() -> None:
    with pytest.raises(TaskloomError, match="is one training on several recipes"):
        only(experiment(mixed([recipe("ctl/A"), recipe("ctl/R")]), tasks="each"))
    with pytest.raises(TaskloomError, match=r"babi/1 has no split 'tset'.*did you mean 'test'"):
        only(experiment(BABI, evaluate=[{**BABI, "only": ["tset"]}]))
