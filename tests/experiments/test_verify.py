"""`taskloom verify RUNS`: scores against predictions; files of a store with values of the wrong
type.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taskloom.cli.app import run as cli
from taskloom.experiments.files import PREDICTIONS, SCORES, StoreError, read_parquet
from taskloom.experiments.rescore import verify_runs
from taskloom.experiments.sources import runs
from taskloom.experiments.store import Store
from tests.experiments.made_up_runs import write
from tests.experiments.sweeps import fill, recipe


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return fill({"recipes": [recipe()], "learners": ["majority"]}, tmp_path / "runs").store


def edit(store: Store, change: Any) -> None:
    [run] = store.names()
    path = store.folder(run) / SCORES
    scores = json.loads(path.read_text())
    change(scores)
    path.write_text(json.dumps(scores))


def test_a_store_as_it_was_written_is_right(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    result = verify_runs(store.path)
    assert (result.runs, result.wrong, result.unscored) == (1, [], {})
    assert result.answers == 60
    assert cli(["verify", str(store.path)]) == 0
    assert "1 runs, 60 answers scored again: 0 differences" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s["splits"]["ood"].update(score=0.99), "ood: 'score' is 0.99 in scores.json"),
        (
            lambda s: s["splits"]["iid"].update(n=21),
            "iid: 'n' is 21 in scores.json, and 20 by the predictions",
        ),
        (lambda s: s["splits"].pop("iid"), "scores.json lacks the split 'iid'"),
        (lambda s: s["splits"]["iid"].update(scores={"C@90": 1.0}), "'scores' is"),
    ],
)
def test_edited_scores_are_found(
    store: Store, capsys: pytest.CaptureFixture[str], change: Any, sentence: str
) -> None:
    edit(store, change)
    assert cli(["verify", str(store.path)]) == 1
    assert sentence in capsys.readouterr().out


def test_edited_predictions_are_found(store: Store) -> None:
    [run] = store.names()
    path = store.folder(run) / PREDICTIONS
    table = read_parquet(path)
    place = table.column_names.index("prediction")
    right = [targets[0] for targets in table["targets"].to_pylist()]
    pq.write_table(table.set_column(place, "prediction", pa.array(right, pa.string())), path)
    result = verify_runs(store.path)
    assert len(result.wrong) == sum(score != 1 for score in table["score"].to_pylist()) > 0
    assert "the answer scores 1, and 0.0 is stored" in result.wrong[0]


def test_code_that_a_run_names_is_not_executed(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    mark = tmp_path / "executed"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')")
    write(store, {"iid": [1, 0]}, recipe=str(tmp_path / "evil.py"))
    result = verify_runs(store.path)
    assert not result.wrong
    assert "not executed" in next(iter(result.unscored.values()))
    assert not mark.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(seed="0"),
        lambda s: s.update(seed=True),
        lambda s: s.update(fields=[1]),
        lambda s: s.update(splits=[]),
        lambda s: s.update(recipe={"a": 1}),
        lambda s: s["splits"].update(iid=3),
        lambda s: s["splits"]["iid"].update(n="20"),
        lambda s: s["splits"]["iid"].update(n=-1),
        lambda s: s["splits"]["iid"].update(score="high"),
        lambda s: s["splits"]["iid"].update(scores={"C@90": "x"}),
        lambda s: s["splits"]["iid"].update(by_task=[]),
    ],
)
def test_wrong_types_in_scores_are_one_sentence(tmp_path: Path, change: Any) -> None:
    store = Store(tmp_path / "runs", create=True)
    write(store, {"iid": [1, 0]})
    edit(store, change)
    with pytest.raises(StoreError, match=r"scores.json is damaged \(.*delete .* and rerun"):
        runs(store.path)


def test_nested_json_and_tables_of_other_columns_are_one_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    run = write(store, {"iid": [1, 0]})
    folder = store.folder(run)
    table = read_parquet(folder / PREDICTIONS)
    for other in (
        table.drop_columns(["score"]),
        table.set_column(6, "score", pa.array(["a", "b"])),
    ):
        pq.write_table(other, folder / PREDICTIONS)
        with pytest.raises(StoreError, match=r"predictions.parquet is damaged \("):
            runs(store.path).accuracy()
    (folder / SCORES).write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(StoreError, match=r"scores.json is damaged"):
        runs(store.path)
