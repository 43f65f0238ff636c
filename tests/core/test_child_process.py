"""Objects in child processes: their methods, their errors, and what is said when a child dies."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from taskloom.core.child_process import ChildObject
from taskloom.core.errors import CapacityError, MissingExtra, ParameterError, TaskloomError


class Counter:
    """An object that a test puts into a child."""

    def __init__(self, start: int, folder: Path) -> None:
        if start < 0:
            raise ParameterError("start", "must be at least 0")
        self.number, self.folder = start, folder

    def add(self, number: int) -> int:
        self.number += number
        return self.number

    def fail(self) -> None:
        raise ParameterError("number", "is odd")

    def die(self, number: int) -> None:
        os.kill(os.getpid(), number)

    def process(self) -> int:
        return os.getpid()

    def close(self) -> None:
        (self.folder / "closed").write_text(str(self.number))


def child(start: int, folder: Path) -> ChildObject:
    return ChildObject("the counter", "count again", Counter, start, folder)


def test_methods_run_in_the_child_and_errors_arrive_here(tmp_path: Path) -> None:
    counter = child(1, tmp_path)
    assert counter.call("process") != os.getpid()
    assert [counter.call("add", 2), counter.call("add", 3)] == [3, 6]
    with pytest.raises(ParameterError, match="number is odd") as failed:
        counter.call("fail")
    assert failed.value.problem == "is odd"
    assert counter.call("add", 1) == 7
    counter.close(patience=10)
    assert (tmp_path / "closed").read_text() == "7"
    with pytest.raises(ParameterError, match="start must be at least 0"):
        child(-1, tmp_path)


def test_a_child_that_dies_is_one_sentence(tmp_path: Path) -> None:
    counter = child(1, tmp_path)
    with pytest.raises(TaskloomError, match=r"the counter was killed by SIGKILL .*: count again"):
        counter.call("die", signal.SIGKILL)
    with pytest.raises(TaskloomError, match="count again"):
        counter.call("add", 1)
    counter.close(patience=10)


def test_ctrl_c_is_left_to_the_parent(tmp_path: Path) -> None:
    counter = child(1, tmp_path)
    counter.call("die", signal.SIGINT)
    assert counter.call("add", 1) == 2
    counter.close(patience=10)


@pytest.mark.parametrize(
    "error",
    [ParameterError("n", "is odd"), CapacityError("train", 2, 1), MissingExtra("x", "y", "z")],
)
def test_errors_survive_the_way_from_another_process(error: TaskloomError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_process_whose_parent_died_before_it_looked_ends() -> None:
    late = "\n".join(
        [
            "import time, types",
            "from taskloom.core import child_process",
            "child_process.parent_process = lambda: types.SimpleNamespace(pid=2**22 + 1)",
            "child_process.end_with_parent()",
            "time.sleep(60)",
        ]
    )
    assert subprocess.run([sys.executable, "-c", late], timeout=30).returncode == 1
