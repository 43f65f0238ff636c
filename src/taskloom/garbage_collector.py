"""Python's garbage collector, paused where many objects are built that last."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pauses:
    """The blocks that pause the collector now, in all threads, and whether it worked before the first of them."""

    def __init__(self) -> None:
        self._lock, self._blocks, self._worked = Lock(), 0, False

    def begin(self) -> None:
        with self._lock:
            if not self._blocks:
                self._worked = gc.isenabled()
            self._blocks += 1
            gc.disable()

    def end(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks and self._worked:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector during the block: it would look through what is being built again and again, and none is garbage.

    Threads may pause it at the same time; it works again when the last of their blocks has ended.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
