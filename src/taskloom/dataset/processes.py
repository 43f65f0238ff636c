"""Fresh processes that do not run the caller's script again, so that `make` with several workers needs no `__main__` guard."""

from __future__ import annotations

import re
import sys
import threading
from multiprocessing import current_process
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from taskloom.errors import ParameterError

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


def refuse_while_importing_main() -> None:
    """Raise in a worker that is importing the caller's script: what it calls there, its parent is doing already."""
    if getattr(current_process(), "_inheriting", False):
        raise ParameterError(
            "workers", "must be 1 where a script calls make at its top: move the call under if __name__ == '__main__'"
        )
