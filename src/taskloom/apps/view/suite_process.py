"""A process beside the server that runs the code of suites: pictures of examples, and previews of recipes.

What a recipe asks for may take minutes or all memory. The process has limits; one that exceeds them is ended, and the page says
so. Requests and answers are JSON, one a line.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from taskloom.core.errors import TaskloomError

PATIENCE = 20.0
"""Seconds for one request; the first one also pays for the imports."""

MEMORY = 6 * 2**30
"""Bytes of address space; a world of the largest recipe of ours takes a third."""


class SuiteProcessError(TaskloomError):
    """A request that took too long or too much memory."""


class SuiteProcess:
    """A process that is started with the first request, and again after one that had to be ended.

    Args:
        patience: Seconds for one request.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def request(self, what: str, **values: Any) -> Mapping[str, Any]:
        """Send a request and return its answer; raise a `TaskloomError` with the answer's own sentence, or on time running out."""
        with self._lock:
            process = self._running()
            try:
                assert process.stdin is not None
                process.stdin.write(json.dumps({"what": what, **values}).encode() + b"\n")
                process.stdin.flush()
                line = self._line(process)
            except OSError:
                line = b""
            if not line:
                self._end()
                raise SuiteProcessError("it takes more memory or stopped by itself; ask for less")
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise TaskloomError(str(answer["error"]))
        return answer

    def start(self) -> None:
        """Start the process before it is needed."""
        with suppress(TaskloomError):
            self.request("ready")

    def close(self) -> None:
        """End the process, also in the middle of a request."""
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-m", "taskloom.apps.view.suite_requests", str(MEMORY)]
            # In a session of its own: Ctrl-C in the terminal is for the viewer, which then closes its standard input.
            self._process = subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return the answer, a line; raise where it does not come in time."""
        assert process.stdout is not None
        end = time.monotonic() + self.patience
        parts: list[bytes] = []
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self._end()
                raise SuiteProcessError(f"it takes longer than {self.patience:.0f} s; ask for less")
            part = os.read(process.stdout.fileno(), 1 << 16)
            parts.append(part)
            if not part or part.endswith(b"\n"):
                return b"".join(parts) if part else b""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent is lost with its reader
                    pipe.close()
