"""Whose folder it is, and when a run is saved besides its regular checkpoints: after minutes without one, and at Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from taskloom.core.files import locked
from taskloom.learners.interface import LearnerError
from taskloom.learners.training.checkpoint import clear, prepare

MOST_LOST = 120.0
"""Seconds of work that a kill may cost: slow steps may be few between two regular checkpoints."""

COST = 0.05
"""The share of the time that goes into such checkpoints at the most."""

PATIENCE = 5.0
"""Seconds to wait for the owner of a folder to end: the worker of a killed experiment needs a moment."""


class Watch:
    """Tells a loop when to save."""

    def __init__(self, pressed: Callable[[], bool] = lambda: False) -> None:
        self._pressed = pressed
        self._last, self._cost = time.monotonic(), 0.0

    def due(self) -> bool:
        """Return whether the run should be saved now."""
        return self._pressed() or time.monotonic() - self._last > max(MOST_LOST, self._cost / COST)

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Measure a save, which starts the time anew."""
        began = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - began

    def end(self, done: int, steps: int) -> None:
        """Stop the run after the save of a step where Ctrl-C was pressed."""
        if self._pressed():
            raise KeyboardInterrupt(
                f"the run is saved after step {done} of {steps}; repeat the call to resume it"
            )


@contextlib.contextmanager
def watching(folder: Path | None) -> Iterator[Watch]:
    """Make the folder this run's own, and let Ctrl-C wait for the end of a step; without a folder there is nothing to save."""
    if folder is None:
        yield Watch()
        return
    prepare(folder)
    with _held(folder) as alone, _interrupts() as pressed:
        if alone:
            clear(folder)
        yield Watch(pressed)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Lock a folder, where the file system can: elsewhere two runs cannot be distinguished."""
    with contextlib.ExitStack() as stack:
        try:
            alone = stack.enter_context(locked(folder, PATIENCE))
        except TimeoutError:
            raise LearnerError(
                f"another process trains in the folder {folder}; wait for its end, or use another folder"
            ) from None
        yield alone


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Give whether Ctrl-C was pressed: in the middle of a step nothing could be saved. Pressed again, it ends the run at once."""
    seen = False

    def note(*_: object) -> None:
        nonlocal seen
        if seen:
            raise KeyboardInterrupt
        seen = True

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if seen:  # in the very last step: the run is done, but whoever called it should stop
        raise KeyboardInterrupt
