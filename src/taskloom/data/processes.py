"""Processes beside the caller's, which never run its script again, so that `make` with several workers needs no `__main__` guard.

A forked one has the plan at once, and costs milliseconds; a fresh one has to import the suite and to build the plan.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from taskloom.core.errors import ParameterError

FORKABLE_THREADS = ("rich.live",)
"""Modules of threads that may run beside a fork: the one that redraws the progress bar holds no lock that a worker takes."""

WATCH = 0.5
"""Seconds between two looks at whether the parent still lives."""

_GUARD = re.compile(r"^if\s+__name__\b", re.MULTILINE)
_swap = threading.Lock()


class MainlessProcess(SpawnProcess):
    """A spawned process that does not import the main module of its parent."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name that multiprocessing calls
        # What a child imports is read off the main module when it is started; nothing that is sent to it is defined there.
        with _swap:
            main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
            try:
                return SpawnProcess._Popen(process_obj)
            finally:
                sys.modules["__main__"] = main


class MainlessContext(SpawnContext):
    """Where executors get such processes from."""

    Process = MainlessProcess


def context_for(module: str) -> SpawnContext:
    """Return how to start workers for a suite or task of this module; refuse where they would run a script again.

    A task that the running script itself defines is known to a worker only if it imports that script, which is safe only if
    what the script does stands under a `__main__` guard.
    """
    if module != "__main__":
        return MainlessContext()
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or not _GUARD.search(Path(file).read_text(encoding="utf-8", errors="replace")):
        raise ParameterError(
            "workers",
            "must be 1 for a task that the running script defines: others would run the script again; move the task to a file "
            "of its own, or what the script does under if __name__ == '__main__'",
        )
    return SpawnContext()


def can_fork() -> bool:
    """Return whether this process can be copied safely: on Linux, by its main thread, with no other that might hold a lock.

    Threads of Arrow and of BLAS are no obstacle, since both see to forks. Those of torch are not looked into.
    """
    if (
        sys.platform != "linux"
        or "torch" in sys.modules
        or threading.current_thread() is not threading.main_thread()
    ):
        return False
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    ]
    return all(type(thread).__module__ in FORKABLE_THREADS for thread in others)


@contextmanager
def forking() -> Iterator[None]:
    """Silence Python's warning about forks beside native threads, which `can_fork` has thought of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*use of fork\\(\\).*", DeprecationWarning)
        yield


def end_with_parent(stop: Connection | None = None) -> None:
    """End this process when its parent has ended, which a process in the middle of its work would not notice.

    Args:
        stop: End as soon as there is something to read here, too. Nobody reads it, so it is there for all
            processes that wait for it.
    """
    threading.Thread(target=_watch, args=(os.getppid(), stop), daemon=True).start()


def _watch(parent: int, stop: Connection | None) -> None:
    while os.getppid() == parent:
        if stop is None:
            time.sleep(WATCH)
        elif stop.poll(WATCH):
            break
    os._exit(1)


def refuse_while_importing_main() -> None:
    """Raise in a worker that is importing the caller's script: what it calls there, its parent is doing already."""
    if getattr(current_process(), "_inheriting", False):
        raise ParameterError(
            "workers",
            "must be 1 where a script calls make at its top: move the call under if __name__ == '__main__'",
        )
