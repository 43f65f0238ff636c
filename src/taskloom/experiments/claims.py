"""Claims: who works on which run, among processes and machines that share nothing but a file system.

A claim is a symbolic link that leads to its owner's name: made in one step, whole, and by one of many. Every owner
counts up a number in a file of its own now and then. Whoever wants a claimed run watches that number by its own
monotonic clock: an owner whose number has not changed for a while is gone, whatever the clocks of the machines say.
On one machine a dead process is seen at once.

Claims only spare double work. Two drivers that did run the same cell would write the same bytes, and the first rename
wins.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from taskloom import files
from taskloom.experiments.run_files import StoreError, writing
from taskloom.files import atomic

BEAT = 5.0
"""Seconds between two counts of a live owner: a twelfth of the lease, so that a slow file system loses no claim."""

LEASE = 60.0
"""Seconds without a new count after which an owner on another machine is taken for gone."""


def place() -> str:
    """Name the set of processes that this one can see: host, boot and process namespace."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def born(pid: int) -> str:
    """Return when a process was started, in the kernel's own count, which tells it from a later one of the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def alive(pid: int, start: str) -> bool:
    """Return whether that very process still runs here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not start or born(pid) == start


class Claims:
    """The claims of one driver on one store.

    Args:
        folder: Where claims lie.
        beat: Seconds between counts.
        lease: Seconds after which a silent owner is gone.
    """

    def __init__(self, folder: Path, beat: float = BEAT, lease: float = LEASE) -> None:
        self.folder, self.beat, self.lease = folder, beat, lease
        self.owner = uuid.uuid4().hex
        self.taken: set[str] = set()
        self._seen: dict[str, tuple[int, float]] = {}
        self._count = 0
        self._over = threading.Event()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._write()
        self._thread = threading.Thread(target=self._keep_counting, daemon=True)
        self._thread.start()

    def take(self, name: str) -> bool:
        """Take the claim of a name; return False where a live owner has it."""
        for _ in range(2):
            with writing(self.folder):
                try:
                    os.symlink(self.owner, self.folder / name)
                except FileExistsError:
                    if not self._free(name):
                        return False
                    continue
            self.taken.add(name)
            return True
        return False

    def drop(self, name: str) -> None:
        """Give a claim back."""
        self.taken.discard(name)
        with contextlib.suppress(OSError):
            (self.folder / name).unlink()

    def close(self) -> None:
        """Give everything back."""
        self._over.set()
        self._thread.join()
        for name in list(self.taken):
            self.drop(name)
        with contextlib.suppress(OSError):
            self._file(self.owner).unlink()

    def _file(self, owner: str) -> Path:
        return self.folder / f".owner-{owner}"

    def _write(self) -> None:
        beat = {"place": place(), "pid": os.getpid(), "born": born(os.getpid()), "count": self._count}
        with atomic(self._file(self.owner), StoreError) as beside:
            beside.write_text(json.dumps(beat), encoding="utf-8")

    def _keep_counting(self) -> None:
        while not self._over.wait(self.beat):
            self._count += 1
            # A full disk: the work continues, at worst repeated by another driver.
            with contextlib.suppress(StoreError):
                self._write()

    def _free(self, name: str) -> bool:
        """Remove a claim whose owner is gone; False while the owner lives, or may live."""
        path = self.folder / name
        try:
            owner = os.readlink(path)
        except FileNotFoundError:
            return True
        except OSError:
            owner = ""  # no link: the store was copied, and nobody works on the copy
        if owner and self.lives(owner):
            return False
        aside = self.folder / f".gone-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):
            files.rename(path, aside)
            other = os.readlink(aside) if aside.is_symlink() else ""
            if other != owner:
                # Somebody was faster and has claimed it anew: put that claim back.
                with contextlib.suppress(OSError):
                    os.symlink(other, path)
            aside.unlink()
        return True

    def lives(self, owner: str) -> bool:
        """Return whether an owner still works, as far as can be known."""
        if owner == self.owner:
            return True
        try:
            beat: dict[str, Any] = json.loads(self._file(owner).read_text(encoding="utf-8"))
            count = int(beat["count"])
        except (OSError, ValueError, KeyError, TypeError):
            if not self._file(owner).exists():
                return False  # it has ended
            beat, count = {}, -1
        if beat.get("place") == place():
            return alive(int(beat["pid"]), str(beat["born"]))
        now = time.monotonic()
        before = self._seen.get(owner)
        if before is None or before[0] != count:
            self._seen[owner] = (count, now)
            return True
        return now - before[1] < self.lease
