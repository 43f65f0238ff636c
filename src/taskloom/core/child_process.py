"""A module of Taskloom in an interpreter of its own: workers of experiments, and what the viewer
starts beside its server.

The child is a fresh interpreter. It is not a fork, because the threads of Arrow and torch do not
survive one, and not multiprocessing's spawn, which would run the caller's script again. A child that
calls `end_with_parent` does not outlive its parent, however that ends.
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
"""Seconds between two looks at whether the parent still lives."""


class ChildProcess:
    """A running module.

    Args:
        module: What `python -m` runs.
        *arguments: Its command line.
        **how: Pipes, environment and inherited files, as `subprocess.Popen` takes them.
    """

    def __init__(self, module: str, *arguments: str, **how: Any) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self.process: subprocess.Popen[bytes] = subprocess.Popen(command, **how)  # noqa: S603 - our own

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self.process.poll() is None

    def communicate(self, seconds: float) -> tuple[bytes, bytes] | None:
        """What it writes until it ends; None if that takes too long, and it was killed."""
        try:
            return self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None

    def kill(self) -> None:
        """Kill it without waiting; from another thread, too."""
        self.process.kill()

    def end(self, patience: float = 0.0) -> int:
        """End it, and return its exit status.

        Args:
            patience: Seconds in which it may end by itself before it is killed.
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
    """How a child ended, in words.

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
    """End this process when its parent has ended, which a process in the middle of its work would
    not notice.

    Args:
        stop: End as soon as there is something to read here, too. Nobody reads it, so it is there
            for all processes that wait for it.
    """
    threading.Thread(target=_watch, args=(os.getppid(), stop), daemon=True).start()


def _watch(parent: int, stop: Connection | None) -> None:
    while os.getppid() == parent:
        if stop is None:
            time.sleep(WATCH)
        elif stop.poll(WATCH):
            break
    os._exit(1)
