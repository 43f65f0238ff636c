"""Own data in the place of a recipe: every format gives the same rows, columns by name, digests of
content.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

import taskloom as tl
from taskloom.core.errors import TaskloomError
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import check, read
from taskloom.experiments.table import Runs
from tests.experiments.sweeps import fill

ROWS = {
    "train": [
        {"question": f"q{i}", "answer": "yes" if i % 3 else "no", "length": i % 2} for i in range(9)
    ],
    "test": [
        {"question": f"t{i}", "answer": "yes" if i % 2 else "no", "length": i % 2} for i in range(6)
    ],
}
COLUMNS = {"input": "question", "target": "answer"}


def save(folder: Path, kind: str) -> Path:
    folder.mkdir()
    for split, rows in ROWS.items():
        table = pa.Table.from_pylist(rows)
        if kind == "jsonl":
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif kind == "csv":
            pyarrow.csv.write_csv(table, folder / f"{split}.csv")
        elif kind == "parquet":
            pq.write_table(table, folder / f"{split}.parquet")
        else:  # as `datasets` saves a dictionary of splits
            (folder / split).mkdir()
            with pa.ipc.new_stream(
                str(folder / split / "data-00000-of-00001.arrow"), table.schema
            ) as writer:
                writer.write_table(table)
    return folder


def experiment(path: Path, **more: Any) -> dict[str, Any]:
    return {
        "recipes": [{"recipe": str(path), "columns": COLUMNS}],
        "learners": ["majority"],
        **more,
    }


def test_every_format_is_the_same_run(tmp_path: Path) -> None:
    runs = set()
    for kind in ("jsonl", "csv", "parquet", "arrow"):
        outcome = fill(experiment(save(tmp_path / kind, kind)), tmp_path / "runs")
        assert not outcome.state.failed
        runs |= set(outcome.runs)
    assert len(runs) == 1
    [row] = Runs(outcome.store).table.to_pylist()
    assert (row["n"], row["score"], row["recipe"]) == (6, 0.5, "jsonl")
    by = Runs(outcome.store).accuracy(by="length")
    assert {r["length"]: r["mean"] for r in by} == {"0": 0.0, "1": 1.0}


def test_other_rows_are_another_run_and_a_run_knows_how_to_be_made_again(tmp_path: Path) -> None:
    path = save(tmp_path / "mine", "jsonl")
    [cell] = expand(check(experiment(path), "test"))
    assert expand(check(cell.config(), "test"))[0].run == cell.run
    with (path / "test.jsonl").open("a") as file:
        file.write('{"question": "new", "answer": "no", "length": 3}\n')
    assert expand(check(experiment(path), "test"))[0].run != cell.run


def test_a_dataset_of_taskloom_and_a_path_beside_the_experiment(tmp_path: Path) -> None:
    tl.make("babi/1", tmp_path / "mine", set={"splits": {"train": {"n": 20}, "test": {"n": 10}}})
    (tmp_path / "experiment.yaml").write_text(
        yaml.safe_dump({"recipes": ["./mine"], "learners": ["majority"]})
    )
    [cell] = expand(read(tmp_path / "experiment.yaml"))
    assert {s.name: s.n for s in cell.data.parts[0].plan.splits} == {"train": 20, "test": 10}
    assert cell.data.name == "mine"


def test_tasks_of_own_data_are_run_each_or_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.mkdir()
    for split in ROWS:
        rows = [
            {"input": f"{split}{i}", "targets": ["ab"[i % 2]], "task": "AB"[i % 2]}
            for i in range(8)
        ]
        (path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = {"recipes": [str(path)], "learners": ["majority"]}
    with pytest.raises(TaskloomError, match="mine has 2 tasks"):
        expand(check(plain, "test"))
    outcome = fill({**plain, "tasks": "each"}, tmp_path / "runs")
    assert [outcome.store.scores(run)["splits"]["test"]["score"] for run in outcome.runs] == [
        1.0,
        1.0,
    ]
    outcome = fill({**plain, "tasks": "together"}, tmp_path / "runs")
    assert not outcome.state.failed
    assert "A\ntest0" in outcome.store.predictions(outcome.runs)["input"].to_pylist()


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({"columns": {"input": "qestion", "target": "answer"}}, "did you mean 'question'"),
        ({"columns": {"inptu": "question", "target": "answer"}}, "did you mean 'input'"),
        ({"set": {"n": 3}}, "is data, which has no 'set'"),
        ({}, "needs the columns 'input' and 'target'"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    tmp_path: Path, block: dict[str, Any], sentence: str
) -> None:
    path = save(tmp_path / "mine", "jsonl")
    with pytest.raises(TaskloomError, match=sentence):
        expand(
            check({"recipes": [{"recipe": str(path), **block}], "learners": ["majority"]}, "test")
        )


def test_a_folder_without_rows_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(TaskloomError, match="holds no JSONL, CSV, Parquet or Arrow file"):
        expand(check({"recipes": [str(tmp_path / "mine")], "learners": ["majority"]}, "test"))
