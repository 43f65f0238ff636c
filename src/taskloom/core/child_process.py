"""Runs a Taskloom module in a separate interpreter: experiment workers, the driver of a Ray
cluster, and the processes started by the viewer.

The child is a fresh interpreter, because multiprocessing's spawn would run the caller's script
again. `ForkedProcess` is for callers that have checked that a fork is safe. A child that calls
`end_with_parent` never outlives its parent, even if the parent is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any

from taskloom.core.errors import TaskloomError

WATCH = 0.5
"""Seconds between checks that the parent is still alive."""

ENDING = 10.0
"""Seconds for a child to exit after its connection broke."""


LOOK = 0.005
"""Interval in seconds at which to check whether a forked process has ended."""


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
        """Return everything that the process writes until it ends, or None if it was killed for
        taking too long.
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


class ChildObject:
    """An object in a child process. Its methods are called here and run there.

    Meant for libraries that end the whole process when something goes wrong. Here that would end a
    notebook or a command without an error message.

    Args:
        name: Name of the child in the error that is raised if it ends.
        remedy: Possible reason and remedy, for the same error.
        make: Class of the object, or another function that returns it. The child imports it.
        *arguments: Arguments of `make`.
    """

    def __init__(self, name: str, remedy: str, make: Callable[..., Any], *arguments: Any) -> None:
        ours, theirs = socket.socketpair()
        self.name, self.remedy = name, remedy
        self.process = ChildProcess(
            __name__,
            str(theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        try:
            self.connection.send((make, arguments))
            self._answer()
        except BaseException:
            self.close(ENDING)
            raise

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object. Its errors are raised here."""
        with suppress(OSError):  # the child has ended, which `_answer` reports
            self.connection.send((method, arguments))
        return self._answer()

    def close(self, patience: float) -> None:
        """Let the child call the object's `close`, if it has one, and end.

        Args:
            patience: Seconds to wait before the child is killed.
        """
        self.connection.close()
        self.process.end(patience)

    def _answer(self) -> Any:
        try:
            error, value = self.connection.recv()
        except (EOFError, OSError):
            status = self.process.end(ENDING)
            raise TaskloomError(f"{self.name} {exit_reason(status)}: {self.remedy}") from None
        if error is not None:
            raise error
        return value


def _serve_object(connection: Connection) -> None:
    """Main loop of the child of a `ChildObject`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    end_with_parent()
    made: Any = None
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            asked, arguments = connection.recv()
            function = asked if made is None else getattr(made, asked)
            try:
                value = function(*arguments)
            except Exception as error:
                connection.send((error, None))
                continue
            if made is None:
                made, value = value, None
            connection.send((None, value))
    if hasattr(made, "close"):
        made.close()


class ForkedProcess:
    """A function running in a fork of this process, which starts without importing anything.

    The child keeps only its output streams and one file. Locks and connections that the parent
    has open, or opens to other children, end with the parent. Its standard input is empty.

    Args:
        function: Called with the kept file's number.
        kept: Number of the file that the child keeps open.
        environment: Environment variables of the child.
    """

    def __init__(
        self, function: Callable[[int], None], kept: int, environment: Mapping[str, str]
    ) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(function, kept, environment)

    @property
    def is_running(self) -> bool:
        """True until the process has ended."""
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # SIGCHLD is ignored, so the system has collected the child and its status.
                self._status = 0
                return False
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is None

    def kill(self) -> None:
        """Kill the process without waiting."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)

    def end(self, patience: float = 0.0) -> int:
        """Wait for the process to end, and return its exit status.

        Args:
            patience: Seconds to wait before the process is killed.
        """
        deadline = time.monotonic() + patience
        while self.is_running:
            if time.monotonic() > deadline:
                self.kill()
            time.sleep(LOOK)
        assert self._status is not None
        return self._status


def _be_child(function: Callable[[int], None], kept: int, environment: Mapping[str, str]) -> None:
    """Run a function in a process that was just forked, and end it."""
    status = 1
    try:
        _disconnect(kept)
        os.environ.update(environment)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # The parent's streams may belong to a progress bar whose lock was held by another thread.
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until this process ends
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        function(kept)
        status = 0
    finally:
        # Not `sys.exit`, which would continue with the parent's code.
        with suppress(OSError):
            if sys.exception() is not None:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _disconnect(kept: int) -> None:
    """Replace standard input and all open files by an empty one, except the output streams and one
    file.

    They are not closed: the parent's objects still exist in a fork, and one that is collected would
    close the file that has its number by then. Only open files are listed, because the limit on
    their number may be a billion.
    """
    empty = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        file = int(name)
        if file not in (1, 2, kept, empty):
            with suppress(OSError):  # the list itself was open while it was read
                os.fstat(file)
                os.dup2(empty, file, inheritable=file == 0)


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
    """End this process when its parent ends. A busy process would not notice this by itself.

    Args:
        stop: Also end when this file becomes readable. Its content is never consumed, so that every
            waiting process sees it.
    """
    known = parent_process()
    # If the parent has already been killed, this process has a new parent.
    parent = os.getppid() if known is None else known.pid
    threading.Thread(target=_watch, args=(parent, stop), daemon=True).start()


def _watch(parent: int, stop: Connection | None) -> None:
    while os.getppid() == parent:
        if stop is None:
            time.sleep(WATCH)
        elif stop.poll(WATCH):
            break
    os._exit(1)


if __name__ == "__main__":
    _serve_object(Connection(int(sys.argv[1])))
