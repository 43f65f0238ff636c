"""The store: whole runs or none, one sentence for what is wrong."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from taskloom.experiments.files import CURVE_COLUMNS, SCHEMA, SCORES, StoreError, write_run
from taskloom.experiments.store import Store

RUN = "ab" + "0" * 30


def finished(
    folder: Path, run: str = RUN, fields: dict[str, object] | None = None, score: float = 0.5
) -> None:
    said = {
        "schema": SCHEMA,
        "run": run,
        "kind": "k",
        "recipe": "r",
        "learner": "l",
        "seed": int(run[2:4], 16),
        "fields": fields or {},
        "scorer": "exact",
        "data": "d",
        "splits": {"test": {"n": 2, "score": score}},
    }
    write_run(folder, {}, said, CURVE_COLUMNS.empty_table(), None, {"seconds": 1.5}, b"")


def test_a_run_is_there_or_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    beside = tmp_path / "runs" / "work" / ".tmp-x"
    finished(beside)
    assert RUN not in store
    assert store.names() == []
    assert store.publish(RUN, beside)
    assert RUN in store
    assert store.names() == [RUN]
    finished(beside, score=0.9)
    assert not store.publish(RUN, beside)  # the first wins
    assert not beside.exists()
    assert store.scores(RUN)["splits"]["test"]["score"] == 0.5


def test_many_publish_at_once_and_one_wins(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    won = []

    def publish(number: int) -> None:
        beside = tmp_path / "runs" / f".tmp-{number}"
        finished(beside, score=number / 10)
        if store.publish(RUN, beside):
            won.append(number)

    threads = [threading.Thread(target=publish, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1
    assert store.scores(RUN)["splits"]["test"]["score"] == won[0] / 10


def test_a_store_of_an_older_version(tmp_path: Path) -> None:
    Store(tmp_path / "runs", create=True)
    (tmp_path / "runs" / "store.json").write_text(
        json.dumps({"format": "taskloom runs", "schema": 0})
    )
    with pytest.raises(StoreError, match="made by an older version of taskloom"):
        Store(tmp_path / "runs", create=True)
    (tmp_path / "runs" / "store.json").write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        Store(tmp_path / "runs")


def test_folders_that_are_no_store(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"there is no folder .*none; runs are made by 'taskloom run'"
    ):
        Store(tmp_path / "none")
    (tmp_path / "scores.json").write_text("{}")
    with pytest.raises(StoreError, match="is a file and not a run store; 'taskloom study' reads"):
        Store(tmp_path / "scores.json")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"is not empty \(thesis.tex\)"):
        Store(tmp_path / "mine", create=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file; a run store is a folder"):
        Store(tmp_path / "file", create=True)


def test_damaged_scores_name_the_file_and_the_remedy(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    finished(tmp_path / "runs" / "t")
    store.publish(RUN, tmp_path / "runs" / "t")
    for text in ("{", "[]", json.dumps({"schema": SCHEMA}), ""):
        (store.folder(RUN) / SCORES).write_text(text)
        with pytest.raises(StoreError, match=r"is damaged .* delete .* and rerun the experiment"):
            store.runs()


def test_folders_that_were_renamed_by_hand_are_not_counted_as_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for name in (RUN, f"{RUN}-old"):
        finished(tmp_path / "runs" / "t")
        store.publish(name, tmp_path / "runs" / "t")
    assert store.names() == [RUN]
    other = "ab" + "1" * 30
    store.folder(RUN).rename(store.folder(other))
    with pytest.raises(StoreError, match="its folder was renamed"):
        store.runs()


def test_a_run_that_lost_its_scores_is_run_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    beside = tmp_path / "runs" / "work" / ".tmp-x"
    finished(beside)
    store.publish(RUN, beside)
    (store.folder(RUN) / SCORES).unlink()
    assert store.names() == []
    finished(beside)
    assert store.publish(RUN, beside)
    assert store.names() == [RUN]
    assert not list((tmp_path / "runs" / "work").iterdir())
