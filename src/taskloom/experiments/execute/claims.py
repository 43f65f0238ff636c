"""Claims: which driver works on which run, among processes and machines that share a file system.

A claim is a file that is named after its run and contains the name of its owner. Every owner holds a
lock on a file of its own. The system releases that lock when the process ends, however it ends, so
the claims of a killed driver are free at once.

Claims only spare double work. Two drivers that ran the same cell would write the same bytes, and the
first rename wins.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from taskloom.experiments.files import writing

if TYPE_CHECKING:
    from filelock import FileLock

OWNER = re.compile(r"[0-9a-f]{32}")
"""Names of owners. Anything else in a claim's place has no owner."""


class Claims:
    """The claims of one driver on one store.

    One lock for each driver, not for each run: a driver on a cluster has thousands of runs at a time,
    which would be more open files than a process may have.

    Args:
        folder: Where claims lie. It exists afterwards.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = uuid.uuid4().hex
        self.taken: set[str] = set()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._life = _lock(_owner_file(folder, self.owner))
            self._life.acquire()
        # Beside the folder, since its other files come and go and this one has to stay.
        self._changing = _lock(folder.with_suffix(".lock"))

    def take(self, name: str) -> bool:
        """Take the claim of a run. False if a live owner has it."""
        path = self.folder / name
        with writing(self.folder), self._changing:
            owner = owner_of(path)
            if owner is not None and owner != self.owner and lives(self.folder, owner):
                return False
            path.unlink(missing_ok=True)  # writing through a link would write elsewhere
            path.write_text(self.owner, encoding="utf-8")
        self.taken.add(name)
        return True

    def drop(self, name: str) -> None:
        """Give a claim back."""
        self.taken.discard(name)
        (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Give everything back."""
        for name in list(self.taken):
            self.drop(name)
        _owner_file(self.folder, self.owner).unlink(missing_ok=True)
        self._life.release()

    def sweep(self) -> None:
        """Remove the files of owners that have ended."""
        for path in self.folder.glob(".owner-*"):
            owner = path.name.removeprefix(".owner-")
            if owner != self.owner and not lives(self.folder, owner):
                path.unlink(missing_ok=True)


def owner_of(path: Path) -> str | None:
    """Name of the owner of a claim. None if there is no claim, or it is damaged."""
    if path.is_symlink():  # of a version that claimed by links, or planted to lead elsewhere
        return None
    try:
        owner = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return owner if OWNER.fullmatch(owner) else None


def lives(folder: Path, owner: str) -> bool:
    """True if the owner still works: somebody holds its lock."""
    from filelock import Timeout

    path = _owner_file(folder, owner)
    if not path.exists():  # the lock would create it
        return False
    try:
        with _lock(path).acquire(blocking=False):
            return False
    except (Timeout, PermissionError):
        return True


def _owner_file(folder: Path, owner: str) -> Path:
    return folder / f".owner-{owner}"


def _lock(path: Path) -> FileLock:
    from filelock import (
        FileLock,
    )  # 0.05 s, which the pages of the viewer that only list runs do without

    return FileLock(path, thread_local=False)
