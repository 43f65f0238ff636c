"""An audit hook that notices what no input may bring about: writes outside a folder, code from
data, processes, connections.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskloom.core.files import cache_folder

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
}
"""Audit events that change the file system: which arguments are paths, and which the folders that
these are relative to.
"""
STARTING = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "pickle.find_class",
    "socket.connect",
}
"""Audit events that no input of a target may cause at all."""


class Sentinel:
    """What one input is watched for.

    Attributes:
        writable: Folders that may be written to.
        data: Folders whose files are data: their code must never run.
        violations: What was seen.
    """

    def __init__(self) -> None:
        self.writable: tuple[str, ...] = ()
        self.data: tuple[str, ...] = ()
        self.violations: list[str] = []
        self.watching = False
        sys.addaudithook(
            self._audit
        )  # it stays until the process ends, and does nothing unless it watches

    @contextmanager
    def watch(self, writable: Path, data: Path) -> Iterator[list[str]]:
        """Watch a block; yield the list that violations are appended to."""
        # The cache is for compiled words and relations: what an input makes the package compile may
        # be kept there.
        self.writable = (os.path.realpath(writable), os.path.realpath(cache_folder()), os.devnull)
        self.data = (os.path.realpath(data),)
        self.violations = []
        self.watching = True
        try:
            yield self.violations
        finally:
            self.watching = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            self._opened(*arguments)
        elif event in CHANGING:
            for path, base in CHANGING[event]:
                self._changes(event, arguments[path], arguments[base] if base is not None else None)
        elif event in STARTING:
            self.violations.append(f"{event} {str(arguments)[:200]}")
        elif event == "exec":
            self._runs(event, getattr(arguments[0], "co_filename", ""))
        elif event in ("compile", "import"):
            self._runs(event, arguments[1])

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        if (
            isinstance(path, str | bytes | os.PathLike)
            and isinstance(flags, int)
            and flags & WRITING
        ):
            self._changes("open", path)

    def _changes(self, event: str, path: Any, base: Any = None) -> None:
        if isinstance(path, int):
            return
        name = os.fsdecode(path)
        if isinstance(base, int) and base >= 0:
            name = os.path.join(os.readlink(f"/proc/self/fd/{base}"), name)
        place = os.path.realpath(name)
        if not any(
            place == folder or place.startswith(folder + os.sep) for folder in self.writable
        ):
            self.violations.append(f"{event} outside the folder: {place[:200]}")

    def _runs(self, event: str, path: Any) -> None:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and os.path.isabs(path):
            place = os.path.realpath(path)
            if any(place.startswith(folder + os.sep) for folder in self.data):
                self.violations.append(f"{event} of code from data: {place[:200]}")


SENTINEL = Sentinel()
