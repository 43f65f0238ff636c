"""Runs that are broken off: by Ctrl-C, by a kill between two checkpoints, by a second process in
the same folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from taskloom.learners import LearnerError, Progress  # noqa: E402
from taskloom.learners.config import read  # noqa: E402
from taskloom.learners.training import checkpoint  # noqa: E402

DATA = [("a 1", "1"), ("b 1", "2"), ("a 2", "2"), ("b 2", "1")]


def lstm() -> Any:
    block = {
        "learner": "bilstm",
        "state": 8,
        "batch": 4,
        "steps": 6,
        "warmup": 0,
        "evaluate_every": 1,
    }
    return read(block)


def writer() -> Any:
    small = {
        "state": 8,
        "layers": 1,
        "heads": 2,
        "feed_forward": 8,
        "longest_answer": 2,
        "dropout": 0.0,
    }
    loop = {"batch": 4, "steps": 6, "warmup": 0, "evaluate_every": 3}
    return read({"learner": "decoder", **small, **loop})


both = pytest.mark.parametrize("made", [lstm, writer])


@pytest.fixture
def as_in_a_terminal() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(*steps: int) -> Callable[[Progress], None]:
    def told(progress: Progress) -> None:
        for _ in range(steps.count(progress.step)):
            os.kill(os.getpid(), signal.SIGINT)

    return told


def done(folder: Path) -> int:
    found = checkpoint.read(folder)
    assert found is not None
    return int(found[1]["done"])


@both
@pytest.mark.usefixtures("as_in_a_terminal")
def test_ctrl_c_saves_the_step_and_the_same_call_goes_on(made: Any, tmp_path: Path) -> None:
    whole = made().fit(DATA)
    with pytest.raises(
        KeyboardInterrupt, match="saved after step 4 of 6; repeat the call to resume"
    ):
        made().fit(DATA, folder=tmp_path, progress=press(4))
    assert done(tmp_path) == 4  # five thousand steps stand between two regular checkpoints
    rest = made().fit(DATA, folder=tmp_path)
    assert rest.curve == whole.curve
    assert rest.logprob(["a 1"], [["1", "2"]]) == whole.logprob(["a 1"], [["1", "2"]])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@both
@pytest.mark.usefixtures("as_in_a_terminal")
def test_ctrl_c_twice_or_without_a_folder_ends_at_once(made: Any, tmp_path: Path) -> None:
    for folder, steps in ((tmp_path, (3, 3)), (None, (3,))):
        seen: list[int] = []

        def told(progress: Progress, steps: Any = steps, seen: list[int] = seen) -> None:
            press(*steps)(progress)
            seen.append(progress.step)

        with pytest.raises(KeyboardInterrupt):
            made().fit(DATA, folder=folder, progress=told)
        assert seen == [1, 2]
    assert checkpoint.read(tmp_path) is None


@both
@pytest.mark.usefixtures("as_in_a_terminal")
def test_ctrl_c_in_the_last_step_is_not_swallowed(made: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        made().fit(DATA, folder=tmp_path, progress=press(6))
    assert done(tmp_path) == 6


@both
def test_a_thread_may_train(made: Any, tmp_path: Path) -> None:
    """Signals belong to the main thread."""
    fitted: list[Any] = []
    thread = threading.Thread(target=lambda: fitted.append(made().fit(DATA, folder=tmp_path)))
    thread.start()
    thread.join()
    assert fitted[0].answer(["a 1"])


@both
def test_minutes_without_a_checkpoint_bring_one(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made().fit(DATA)
    monkeypatch.setattr(checkpoint, "MOST_LOST", 0.0)
    monkeypatch.setattr(checkpoint, "COST", 1e9)

    def killed(progress: Progress) -> None:
        if progress.step == 4:
            raise SystemExit  # what comes closest to a kill: nothing is saved any more

    with pytest.raises(SystemExit):
        made().fit(DATA, folder=tmp_path, progress=killed)
    assert done(tmp_path) == 3
    assert made().fit(DATA, folder=tmp_path).curve == whole.curve


def test_saving_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    some = checkpoint.Watch()
    now = checkpoint.MOST_LOST + 1
    assert some.due()
    with some.saving():
        now += 100.0  # a huge model, a slow disk
    assert not some.due()
    now += 100.0 / checkpoint.COST - 1
    assert not some.due()
    now += 2
    assert some.due()


OTHER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@both
def test_a_folder_has_one_run_at_a_time(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PATIENCE", 0.2)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", OTHER, str(tmp_path)], **pipes) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            LearnerError, match=r"another process is training in the folder .*use another folder"
        ):
            made().fit(DATA, folder=tmp_path)
        other.kill()
        other.wait()
    assert made().fit(DATA, folder=tmp_path).answer(["a 1"])  # the dead let go
    assert made().fit(DATA, folder=tmp_path).answer(["a 1"])


def test_a_folder_is_let_go_even_where_a_child_has_a_copy_of_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PATIENCE", 0.2)
    copies: list[int] = []
    close = os.close

    def closing(handle: int) -> None:
        copies.append(os.dup(handle))  # what a fork leaves
        close(handle)

    with monkeypatch.context() as patch:
        patch.setattr("os.close", closing)
        with checkpoint.watching(tmp_path):
            pass
    with checkpoint.watching(tmp_path):
        assert copies
    for copy in copies:
        close(copy)


@both
def test_what_a_killed_run_had_half_written_is_removed(made: Any, tmp_path: Path) -> None:
    (tmp_path / f".{checkpoint.NAME}.4711").write_bytes(b"half")
    made().fit(DATA, folder=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [checkpoint.NAME]


@both
def test_what_stands_in_a_checkpoint_s_place_is_seen_before_the_first_step(
    made: Any, tmp_path: Path
) -> None:
    (tmp_path / checkpoint.NAME).mkdir()
    with pytest.raises(LearnerError, match=r"is a folder there.*choose another"):
        made().fit(DATA, folder=tmp_path)


@both
def test_the_training_split_may_be_measured_itself(made: Any) -> None:
    curve = made().fit(DATA, {"train": DATA}).curve
    assert len({(p.step, p.split) for p in curve}) == len(curve)
    fitted = made().fit(DATA, {"again": DATA})
    assert [p.score for p in curve] == [p.score for p in fitted.curve if p.split == "again"]
