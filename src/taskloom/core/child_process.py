"""Run a Taskloom module in a separate interpreter: experiment workers, and the processes that the
viewer starts.

The child is a fresh interpreter. Forking is unsafe with the threads of Arrow and torch, and
multiprocessing's spawn would run the caller's script again. A child that calls `end_with_parent`
never outlives its parent, even if the parent is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

WATCH = 0.5
"""Seconds between checks that the parent is still alive."""


class ChildProcess:
    """A module running in a child process.

    Args:
        module: Name of the module, as for `python -m`.
        *arguments: Its command-line arguments.
        **how: Pipes, environment and inherited files, passed to `subprocess.Popen`.
    """

    def __init__(self, module: str, *arguments: str, **how: Any) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self.process: subprocess.Popen[bytes] = subprocess.Popen(command, **how)  # noqa: S603 - our own

    @property
    def is_running(self) -> bool:
        """True until the process has ended."""
        return self.process.poll() is None

    def communicate(self, seconds: float) -> tuple[bytes, bytes] | None:
        """Everything the process writes until it ends, or None if it was killed for taking too
        long.
        """
        try:
            return self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None

    def kill(self) -> None:
        """Kill the process without waiting. May be called from any thread."""
        self.process.kill()

    def end(self, patience: float = 0.0) -> int:
        """Wait for the process to end, and return its exit status.

        Args:
            patience: Seconds to wait before the process is killed.
        """
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):  # unsent input is lost with its reader
                    pipe.close()
        return self.process.returncode


def exit_reason(status: int) -> str:
    """Describe how a child process ended.

    >>> exit_reason(3), exit_reason(-9)
    ('ended with status 3', 'was killed by SIGKILL (out of memory?)')
    """
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def end_with_parent(stop: Connection | None = None) -> None:
    """End this process when its parent has ended, which a busy process would not notice by itself.

    Args:
        stop: Also end once this file is readable. Its content is never consumed, so that every
            waiting process sees it.
    """
    threading.Thread(target=_watch, args=(os.getppid(), stop), daemon=True).start()


def _watch(parent: int, stop: Connection | None) -> None:
    while os.getppid() == parent:
        if stop is None:
            time.sleep(WATCH)
        elif stop.poll(WATCH):
            break
    os._exit(1)
