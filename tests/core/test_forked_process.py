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
        try:
            os.fstat(other.fileno())
            seen = b"open"
        except OSError:
            seen = b"closed"
        os.write(kept, seen + b" " + os.environ["SEEN_BY"].encode())

    process = forked(child, theirs.fileno())
    theirs.close()
    assert ours.recv(100) == b"closed child"
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
