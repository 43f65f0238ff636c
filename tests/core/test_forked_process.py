"""Processes of our own: what a fork keeps, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from taskloom.core.child_process import ForkedProcess, exit_reason
from taskloom.data.workers import can_fork, forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def forked(function: object, kept: int) -> ForkedProcess:
    if not can_fork():
        pytest.skip("another test has started threads in this process")
    with forking():
        return ForkedProcess(function, kept, {"SEEN_BY": "child"})  # type: ignore[arg-type]


def test_a_fork_keeps_one_file_and_gets_its_environment(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    other = (tmp_path / "locked").open("w")

    def child(kept: int) -> None:
        os.write(other.fileno(), b"from the child")
        os.write(kept, os.environ["SEEN_BY"].encode() + b", input " + os.read(0, 100))

    process = forked(child, theirs.fileno())
    theirs.close()
    assert ours.recv(100) == b"child, input "
    assert not (tmp_path / "locked").read_bytes()
    assert process.end(patience=60) == 0
    assert ours.recv(100) == b""  # nobody else holds the other end
    assert "SEEN_BY" not in os.environ
    other.close()


def test_a_fork_that_does_not_end_is_killed() -> None:
    ours, theirs = socket.socketpair()
    process = forked(lambda kept: time.sleep(600), theirs.fileno())
    assert process.is_running
    status = process.end(patience=0.01)
    assert status == -signal.SIGKILL
    assert "SIGKILL" in exit_reason(status)
    ours.close()
    theirs.close()


def test_objects_of_the_parent_that_are_collected_close_no_file_of_the_child(
    tmp_path: Path,
) -> None:
    ours, theirs = socket.socketpair()
    opened = [(tmp_path / "parent").open("w")]

    def child(kept: int) -> None:
        # One of these files would get the number of the parent's.
        numbers = range(opened[0].fileno() + 1)
        files = [os.open(tmp_path / "child", os.O_WRONLY | os.O_CREAT) for _ in numbers]
        opened.clear()
        for file in files:
            os.write(file, b"text")
        os.write(kept, b"done")

    process = forked(child, theirs.fileno())
    theirs.close()
    assert ours.recv(100) == b"done"
    assert process.end(patience=60) == 0
    assert (tmp_path / "child").read_bytes() == b"text"


def test_a_fork_ends_where_the_system_collects_children() -> None:
    ours, theirs = socket.socketpair()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = forked(lambda kept: None, theirs.fileno())
        theirs.close()
        assert ours.recv(100) == b""
        assert process.end(patience=60) == 0
        process.kill()
    finally:
        signal.signal(signal.SIGCHLD, before)
