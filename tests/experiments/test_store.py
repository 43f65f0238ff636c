"""The store: whole runs or none, one sentence for what is wrong."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from taskloom.experiments.claims import Claims
from taskloom.experiments.run_files import CURVE_COLUMNS, LOG, SCHEMA, SCORES, StoreError
from taskloom.experiments.run_writer import write_run
from taskloom.experiments.store import Store

RUN = "ab" + "0" * 30


def finished(folder: Path, run: str = RUN, fields: dict[str, object] | None = None, score: float = 0.5) -> None:
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


@pytest.mark.parametrize("links", [True, False])
def test_the_log_of_a_job_becomes_that_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    printed = tmp_path / "printed.txt"
    printed.write_text("step 1")
    logs: tuple[Path | bytes, ...] = (printed, tmp_path / "missing.txt", b"step 1")
    for number, log in enumerate(logs):
        write_run(tmp_path / str(number), {}, {}, None, None, {}, log)
    assert [(tmp_path / str(number) / LOG).read_bytes() for number in range(3)] == [b"step 1", b"", b"step 1"]
    assert printed.stat().st_nlink == 1 + links


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


def test_field_columns_keep_their_kind(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    values = [{"a": 1, "b": "x", "c": 1}, {"a": 2, "b": "y", "c": "z", "d": [1, 2]}, {"a": 3, "c": 0.5}]
    for number, fields in enumerate(values):
        run = f"ab{number:02x}" + "0" * 28
        finished(tmp_path / "runs" / "t", run, fields)  # type: ignore[arg-type]
        store.publish(run, tmp_path / "runs" / "t")
    table = store.runs(seconds=True)
    by_seed = {row["seed"]: row for row in table.to_pylist()}
    assert [by_seed[i]["a"] for i in range(3)] == [1, 2, 3]
    assert [by_seed[i]["b"] for i in range(3)] == ["x", "y", None]
    assert [by_seed[i]["c"] for i in range(3)] == ["1", "z", "0.5"]
    assert by_seed[1]["d"] == "[1, 2]"
    assert by_seed[0]["seconds"] == 1.5


def test_a_store_of_an_older_version(tmp_path: Path) -> None:
    Store(tmp_path / "runs", create=True)
    (tmp_path / "runs" / "store.json").write_text(json.dumps({"format": "taskloom runs", "schema": 0}))
    with pytest.raises(StoreError, match="made by an older version of taskloom"):
        Store(tmp_path / "runs", create=True)
    (tmp_path / "runs" / "store.json").write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        Store(tmp_path / "runs")


def test_folders_that_are_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no folder .*none; runs are made by 'taskloom run'"):
        Store(tmp_path / "none")
    (tmp_path / "scores.json").write_text("{}")
    with pytest.raises(StoreError, match="is a file and not a run store; 'taskloom study' reads"):
        Store(tmp_path / "scores.json")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"is not empty \(thesis.tex\)"):
        Store(tmp_path / "mine", create=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot write to"):
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


def test_one_of_many_gets_a_claim(tmp_path: Path) -> None:
    many = [Claims(tmp_path / "claims") for _ in range(4)]
    assert sum(c.take("run") for c in many) == 1
    holder = next(c for c in many if c.taken)
    holder.drop("run")
    other = next(c for c in many if c is not holder)
    assert other.take("run")
    for c in many:
        c.close()
    assert not list((tmp_path / "claims").iterdir())


def test_the_claim_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        Claims(tmp_path / "claims").take("run")
        os._exit(0)  # like a kill: nothing is given back
    os.waitpid(child, 0)
    assert os.path.islink(tmp_path / "claims" / "run")
    mine = Claims(tmp_path / "claims")
    assert mine.take("run")
    mine.close()


def test_a_claim_that_is_a_plain_file_is_nobodys(tmp_path: Path) -> None:
    """As in a store that was copied by a tool that knows no links."""
    mine = Claims(tmp_path / "claims")
    (tmp_path / "claims" / "run").write_text("")
    assert mine.take("run")
    mine.close()
    assert not list((tmp_path / "claims").iterdir())


def test_an_owner_on_another_machine_is_gone_when_its_count_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its clock says: only the count is looked at, by our own monotonic clock."""
    now = [1000.0]
    monkeypatch.setattr("taskloom.experiments.claims.time.monotonic", lambda: now[0])
    theirs = Claims(tmp_path / "claims", beat=1e6)
    assert theirs.take("run")
    file = tmp_path / "claims" / f".owner-{theirs.owner}"
    said = json.loads(file.read_text())

    def count(number: int) -> None:
        file.write_text(json.dumps({**said, "place": "another machine", "count": number}))
        os.utime(file, (10**9, 10**9))  # a clock that is years behind

    mine = Claims(tmp_path / "claims", beat=1e6, lease=60)
    for number in range(5):
        count(number)
        assert not mine.take("run")
        now[0] += 50
    assert not mine.take("run")
    now[0] += 59
    assert mine.take("run")  # 109 seconds without a new count
    mine.close()
    theirs.close()
