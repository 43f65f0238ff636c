"""The purity contract on disk: the same bytes for every way of making them, and after every way of
being interrupted.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import taskloom as tl
from taskloom.cli import run
from taskloom.core import shards
from taskloom.core.errors import DataError, ParameterError, TaskloomError
from taskloom.core.progress import Progress
from taskloom.data import workers
from taskloom.data.workers import can_fork
from tests.slow import slow_except

RECIPES = ["ctl/A", "ctl/A-independent", "ctl/R", "ctl/S", "ctl/length"]
SMALL = ["splits.train.n=4000"]
"""Enough for several shards: they have at least a thousand rows."""
TRAIN = ["splits={train: {n: 4000}}"]
"""The same without drawing the other splits, which takes most of the time."""
COMMAND = [sys.executable, "-c", "from taskloom.cli import main; main()"]


WAYS = """
import sys, json, taskloom as tl
if __name__ == "__main__":
    name, folder, ways = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    for workers, rows in ways:
        out = f"{folder}/w{workers}-{rows}"
        made = tl.make(name, out, seed=1, set=["splits.train.n=4000"], workers=workers, shard_rows=rows)
        print(made.digest)
"""


def digests_in_another_process(
    name: str, folder: Path, hash_seed: str, ways: list[list[int | None]]
) -> list[str]:
    script = folder / "ways.py"
    script.write_text(WAYS)
    done = subprocess.run(
        [sys.executable, str(script), name, str(folder), json.dumps(ways)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    return done.stdout.split()


@pytest.mark.parametrize("name", slow_except(RECIPES, "ctl/S"))
def test_digests_do_not_depend_on_how(name: str, tmp_path: Path) -> None:
    """Memory, 1 and 2 workers, shard sizes, hash seeds: one digest, and one manifest but for the
    list of files.
    """
    wanted = tl.make(name, seed=1, set=SMALL).digest
    assert digests_in_another_process(name, tmp_path, "1", [[2, 1000], [1, 5000]]) == [wanted] * 2
    manifests = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/manifest.json"))]
    assert len(manifests) == 2
    for manifest in manifests:
        for entry in manifest["splits"].values():
            del entry["shards"]
        assert manifest == manifests[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in RECIPES if n != "ctl/S"])
def test_digests_do_not_depend_on_hash_seed_and_shard_size(name: str, tmp_path: Path) -> None:
    """The other recipes, without worker processes, whose start is most of the time of the test
    above.
    """
    wanted = tl.make(name, seed=1, set=SMALL).digest
    assert digests_in_another_process(name, tmp_path, "1", [[1, 2000]]) == [wanted]


GOLDEN = {
    "ctl/A": "fc9219363acc99d45724fd033b5ca4fa",
    "ctl/A-independent": "d780fefd891f7e69b0b6798da23e2635",
    "ctl/A-reference": "dcbc263793b84a28b267e58c8fec5c41",
    "ctl/R": "6fa5a07a76f5e7964aa405cf54c76682",
    "ctl/R-independent": "281ed6a48b5dd04d95a1f3fbaecb998a",
    "ctl/R-reference": "5b84854e2c5e2f5eda780ef8dc749558",
    "ctl/S": "9564626f365370cac7c46ecd31b53fe3",
    "ctl/S-independent": "a102adeddf18f6db999e045745f722ed",
    "ctl/S-reference": "81d44f187a3181dc34a46b922acc7c4c",
    "ctl/length": "0947e8f8457cc4faefb6e23d0b6e50ea",
}


@pytest.mark.parametrize("name", slow_except(GOLDEN, "ctl/A", "ctl/S", "ctl/length"))
def test_golden_digests(name: str) -> None:
    """The full recipes, seed 0. A change here means other data for everybody: raise the suite's
    version.
    """
    assert tl.make(name, seed=0).digest == GOLDEN[name]


def test_the_same_files_twice(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        tl.make("ctl/A", tmp_path / folder, set=TRAIN, jsonl=True)
    for path in sorted(p for p in (tmp_path / "a").rglob("*") if p.is_file()):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_shards(folder: Path, count: int) -> None:
    for _ in range(2_000):
        if len(list(folder.glob("*/*.parquet"))) >= count:
            return
        time.sleep(0.005)
    raise AssertionError("no shard appeared")


BIG = ["make", "ctl/A", "--set", "splits={train: {n: 60000}}", "--shard-rows", "1000"]
"""Enough shards that a signal after the first ones comes before the last."""


@pytest.fixture(scope="module")
def big_digest() -> str:
    return tl.make("ctl/A", set=["splits={train: {n: 60000}}"]).digest


@pytest.mark.parametrize(
    ("how", "status", "workers"),
    [
        (signal.SIGKILL, -9, "1"),
        (signal.SIGINT, 130, "2"),
        pytest.param(signal.SIGKILL, -9, "2", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, "1", marks=pytest.mark.slow),
    ],
)
def test_interrupted_and_resumed(
    tmp_path: Path, big_digest: str, workers: str, how: signal.Signals, status: int
) -> None:
    folder = tmp_path / "d"
    words = [*BIG, "-o", str(folder), "--workers", workers]
    process = start(*words)
    wait_for_shards(folder, 3)
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status
    if how == signal.SIGINT:
        assert "interrupted" in said
        assert "Traceback" not in said
        assert not list(folder.glob("*/.*")), "nothing half-written is left"
    assert not (folder / "manifest.json").exists(), "an unfinished dataset has no manifest"
    kept = {p: p.stat().st_mtime_ns for p in folder.glob("*/*.parquet")}
    assert kept
    for _ in range(600):  # orphans of a killed parent end when they notice
        if not any(Path(f"/proc/{child}").exists() for child in children):
            break
        time.sleep(0.1)
    assert run([*BIG, "-o", str(folder)]) == 0
    again = sum(p.stat().st_mtime_ns == t for p, t in kept.items())
    assert again >= len(kept) - 2, "whole shards are kept"
    assert tl.load(folder).digest == big_digest
    assert not list(folder.glob("*/.*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in RECIPES if n != "ctl/A"])
def test_every_recipe_resumes_after_a_kill(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "d"
    words = [
        "make",
        name,
        "--set",
        "splits.train.n=50000",
        "--shard-rows",
        "1000",
        "-o",
        str(folder),
    ]
    process = start(*words)
    wait_for_shards(folder, 3)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert not (folder / "manifest.json").exists()
    assert run(words) == 0
    assert tl.load(folder).digest == tl.make(name, set=["splits.train.n=50000"]).digest


def test_fresh_processes_make_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "can_fork", lambda: False)
    data = tl.make("ctl/A", tmp_path / "d", set=TRAIN, workers=2, shard_rows=1000)
    assert data.digest == tl.make("ctl/A", set=TRAIN).digest


def test_a_process_with_other_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in workers.UNFORKABLE:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])
    assert can_fork() == (
        sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    )
    other = threading.Thread(target=time.sleep, args=(0,))
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread(), other])
    assert not can_fork()


def test_a_process_with_a_library_of_native_threads_is_not_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.main_thread()])
    monkeypatch.setitem(sys.modules, "polars", ModuleType("polars"))
    assert not can_fork()


def test_a_killed_worker_is_one_sentence(tmp_path: Path, big_digest: str) -> None:
    folder = tmp_path / "d"
    words = [*BIG, "-o", str(folder), "--workers", "2"]
    process = start(*words)
    wait_for_shards(folder, 2)
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    assert children
    os.kill(int(children[-1]), signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "worker process was killed" in said
    assert "Traceback" not in said
    assert run([*BIG, "-o", str(folder)]) == 0
    assert tl.load(folder).digest == big_digest


@pytest.mark.parametrize("fault", ["truncated", "flipped", "gone", "foreign"])
def test_damaged_shards_are_named_and_made_again(
    tmp_path: Path, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "d"
    digest = tl.make("ctl/A", folder, set=TRAIN, shard_rows=1000).digest
    shard = folder / "train" / "00002.parquet"
    raw = shard.read_bytes()
    if fault == "truncated":
        shard.write_bytes(raw[: len(raw) // 2])
    elif fault == "flipped":
        at = len(raw) // 3
        shard.write_bytes(raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
    elif fault == "gone":
        shard.unlink()
    else:
        shard.write_bytes((folder / "train" / "00001.parquet").read_bytes())
    assert run(["verify", str(folder)]) == 2
    assert "make" in capsys.readouterr().err
    assert tl.make("ctl/A", folder, set=TRAIN, shard_rows=1000).digest == digest
    assert tl.verify(folder).wrong == ()


def test_another_recipe_in_the_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "d"
    tl.make("ctl/A", folder, set=TRAIN)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for words in (
        ["make", "ctl/R"],
        ["make", "ctl/A"],
        ["make", "ctl/A", "--set", TRAIN[0], "--seed", "1"],
    ):
        assert run([*words, "-o", str(folder)]) == 2
        assert "already holds another dataset" in capsys.readouterr().err
    (folder / "manifest.json").unlink()
    assert run(["make", "ctl/R", "-o", str(folder)]) == 2
    assert "already holds another dataset (unfinished, seed 0" in capsys.readouterr().err
    assert run(["verify", str(folder)]) == 2
    assert "is an unfinished dataset" in capsys.readouterr().err
    assert all(p.read_bytes() == raw for p, raw in before.items() if p.name != "manifest.json")


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "splits"', '{"format": 1, "recipe": 3}'])
def test_a_damaged_manifest_is_named_and_made_again(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "d"
    digest = tl.make("ctl/A", folder, set=TRAIN).digest
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="not a Taskloom manifest"):
        tl.load(folder)
    with pytest.raises(DataError, match="already holds another dataset"):
        tl.make("ctl/R", folder, set=TRAIN)
    assert tl.make("ctl/A", folder, set=TRAIN).digest == digest


def test_somebodys_own_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("my notes")
    with pytest.raises(DataError, match="is not a Taskloom dataset"):
        tl.make("ctl/A", tmp_path / "mine", set=TRAIN)
    assert (tmp_path / "mine" / "README.md").read_text() == "my notes"
    assert len(list((tmp_path / "mine").iterdir())) == 1


@pytest.mark.parametrize(
    "name", ["..", "../x", "/tmp/x", "", "a/b", "\x1b", "manifest.json", "a b"]
)
def test_split_names_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    task = tmp_path / "t.py"
    task.write_text(
        "import taskloom as tl\n@tl.task('a/b', describe='d')\ndef f(rng): return"
        " tl.Example(str(rng.random()), 'x')\n"
    )
    with pytest.raises(TaskloomError, match="cannot name a split"):
        tl.make(str(task), tmp_path / "out", set=["splits={" + json.dumps(name) + ": {n: 5}}"])
    assert not (tmp_path / "out").exists()
    with pytest.raises(TaskloomError, match="same name in other tools"):
        tl.make(str(task), set=["splits={a-b: {n: 5}, a_b: {n: 5}}"])
    with pytest.raises(TaskloomError, match="one dataset may hold"):
        tl.make(str(task), set=["splits={train: {n: 100000000000000000000}}"])


def test_two_seeds_never_mix(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    words = [
        "make",
        "ctl/A",
        "--set",
        "splits={train: {n: 15000}}",
        "--shard-rows",
        "1000",
        "-o",
        str(folder),
    ]
    both = [start(*words, "--seed", str(seed)) for seed in range(2)]
    statuses = []
    for process in both:
        process.communicate(timeout=120)
        statuses.append(process.returncode)
    assert sorted(statuses) == [0, 2]
    assert tl.verify(folder).wrong == ()


def test_a_change_of_shard_size_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    one = tl.make("ctl/A-independent", folder, set=TRAIN, shard_rows=1000).digest
    assert tl.make("ctl/A-independent", folder, set=TRAIN, shard_rows=2000).digest == one
    assert sorted(p.name for p in (folder / "train").iterdir()) == [
        "00000.parquet",
        "00001.parquet",
    ]


def _little_disk() -> None:
    """A real limit of the operating system on what a process may write."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))


def test_a_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    words = ["make", "ctl/A", "--set", TRAIN[0], "-o", str(folder)]
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, preexec_fn=_little_disk
    )
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "rerun the command" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.rglob("*.tmp")), "nothing half-written"
    assert run(words) == 0
    assert tl.load(folder).digest == tl.make("ctl/A", set=TRAIN).digest


def test_two_processes_may_make_the_same_dataset_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    words = [
        "make",
        "ctl/A",
        "--set",
        "splits={train: {n: 20000}}",
        "--shard-rows",
        "1000",
        "-o",
        str(folder),
    ]
    other = start(*words)
    wait_for_shards(folder, 1)
    assert run(words) == 0
    _, errors = other.communicate(timeout=120)
    assert other.returncode == 0, errors
    assert tl.verify(folder).wrong == ()
    assert tl.load(folder).digest == tl.make("ctl/A", set=["splits={train: {n: 20000}}"]).digest


def test_unusable_folders_and_numbers(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file"):
        tl.make("ctl/A", tmp_path / "file", set=TRAIN)
    with pytest.raises(DataError, match="cannot make the folder"):
        tl.make("ctl/A", tmp_path / "file" / "below", set=TRAIN)
    with pytest.raises(TaskloomError, match="multiple of 1000"):
        tl.make("ctl/A", tmp_path / "d", set=TRAIN, shard_rows=1500)
    with pytest.raises(TaskloomError, match="at least 1"):
        tl.make("ctl/A", tmp_path / "d", set=TRAIN, workers=0)
    assert not (tmp_path / "d").exists()


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    seen: list[Progress] = []
    tl.make("ctl/A", tmp_path / "d", set=TRAIN, shard_rows=1000, progress=seen.append)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (
        seen[-1].done
        == seen[-1].total
        == sum(
            tl.load(tmp_path / "d").manifest["splits"][s]["n"]
            for s in tl.load(tmp_path / "d").splits
        )
    )


@pytest.mark.parametrize("check", [tl.verify, tl.audit])
def test_progress_of_checks_reaches_the_end(check: Callable[..., Any]) -> None:
    seen: list[Progress] = []
    check(
        tl.make("ctl/A", set={"splits": {"train": {"n": 50}, "iid": {"n": 20}}}),
        progress=seen.append,
    )
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert seen[-1].done == seen[-1].total > 1


def test_content_digests_see_every_value() -> None:
    table = tl.make("ctl/A-independent", set=["splits={train: {n: 2000}}"]).table("train")
    digests = shards.block_digests(table)
    assert len(digests) == 2
    for column in ("input", "targets", "traits", "derivation", "index"):
        rows = table.to_pylist()
        other = next(row[column] for row in rows if row[column] != rows[1500][column])
        rows[1500] = {**rows[1500], column: other}
        changed = shards.block_digests(type(table).from_pylist(rows, schema=table.schema))
        assert changed[0] == digests[0]
        assert changed[1] != digests[1], column


def test_every_spelling_of_a_number_is_one_number(tmp_path: Path) -> None:
    small = ["splits={train: {n: 500}}"]
    wanted = tl.make("ctl/A", seed=1, set=small).digest
    for number, seed in enumerate((np.int64(1), np.uint8(1), "1")):
        made = tl.make(
            "ctl/A",
            tmp_path / str(number),
            seed=seed,  # type: ignore[arg-type]
            set={"splits": {"train": {"n": np.int32(500)}}},
        )
        assert made.digest == wanted
        assert made.manifest["seed"] == 1
        assert tl.load(tmp_path / str(number)).digest == wanted
        assert tl.verify(tmp_path / str(number)).wrong == ()


@pytest.mark.parametrize("seed", [1.5, 1.0, True, "1.5", "one", np.float64(1), [1]])
def test_a_seed_that_is_not_a_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(TaskloomError, match="seed must be a whole number, not"):
        tl.make("ctl/A", seed=seed, set=["splits={train: {n: 500}}"])


def test_numbers_of_processes_and_rows_are_whole_numbers(tmp_path: Path) -> None:
    for arguments in ({"workers": 1.5}, {"shard_rows": 1000.5}):
        with pytest.raises(TaskloomError, match=f"{next(iter(arguments))} must be a whole number"):
            tl.make("ctl/A", tmp_path / "d", set=TRAIN, **arguments)  # type: ignore[arg-type]


def test_a_recipe_file_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("extends: ctl/A\nsplits: {train: {n: 500}}\n")
    assert tl.make(tmp_path / "r.yaml").digest == tl.make(str(tmp_path / "r.yaml")).digest


@pytest.mark.parametrize("workers", [0, 10_001, 10**26])
def test_numbers_of_workers_have_limits(tmp_path: Path, workers: int) -> None:
    with pytest.raises(ParameterError, match="workers must be at"):
        tl.make("ctl/A", tmp_path / "d", workers=workers)


def test_rows_of_a_file_have_a_limit(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"shard_rows.*50,000,000"):
        tl.make("babi/1", tmp_path / "d", shard_rows=10**9)


def test_a_number_of_files_has_a_limit(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"shard_rows.*1,000,000"):
        tl.make("babi/1", tmp_path / "d", set=["splits.train.n=90000000000"], shard_rows=1_000)
    assert not (tmp_path / "d").exists()
