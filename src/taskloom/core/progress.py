"""Progress of countable work: a bar on a terminal, a line that is updated in a notebook, an
occasional line in a log.

Bars on terminals use Rich. In a notebook the line is a separate HTML element (`display_id`), which
needs no widgets and stays in the saved notebook.

Experiments show a table of running jobs with losses and GPUs. This display is in
`experiments.execute.progress`, because the core does not depend on runs, but it uses `place` and
`notebook_line`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

Place = Literal["notebook", "terminal", "log"]

ShowCount = Callable[[str, int, int], None]
"""Callback that shows progress: description, number done, total."""

LOG_EVERY = 5.0
"""Seconds between lines in a log."""

NOTEBOOK_EVERY = 0.25
"""Seconds between updates in a notebook, because each update is a message to the browser."""

NOTEBOOK_AFTER = 1.0
"""Seconds before a progress bar appears in a notebook. Short jobs need none."""


def place() -> Place:
    """Return the kind of output that this process writes to."""
    if in_notebook():
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"


def in_notebook() -> bool:
    """True in a notebook's kernel, False at IPython's prompt."""
    shell = sys.modules.get("IPython")
    current = shell.get_ipython() if shell is not None else None
    return current is not None and getattr(current, "kernel", None) is not None


def wanted(choice: bool | None) -> bool:
    """True if progress should be shown. By default it is only shown in notebooks, which have no
    other indication of running work.
    """
    return in_notebook() if choice is None else choice


@contextmanager
def notebook_line() -> Iterator[ShowCount]:
    """Yield a function that shows a bar and a text below a notebook cell. The last state remains
    there.
    """
    from IPython.display import HTML, display

    handle: Any = None
    began = last = time.monotonic()
    shown = latest = ""

    def draw(html: str) -> None:
        nonlocal handle, shown
        if handle is None:
            handle = display(HTML(html), display_id=True)
        elif html != shown:
            handle.update(HTML(html))
        shown = html

    def show(words: str, done: int, total: int) -> None:
        nonlocal last, latest
        latest = f'<progress value="{done}" max="{max(1, total)}"></progress> {escape(words)}'
        now = time.monotonic()
        if now - began >= NOTEBOOK_AFTER and now - last >= NOTEBOOK_EVERY:
            last = now
            draw(latest)

    try:
        yield show
    finally:
        if handle is not None:
            draw(latest)


@dataclass(frozen=True, slots=True)
class Progress:
    """State of some countable work.

    Attributes:
        part: Most recent part: a split, or a step of an audit.
        done: Number of units done.
        total: Total number of units.
        seconds: Seconds since the start.
        unit: Name of the unit.
    """

    part: str
    done: int
    total: int
    seconds: float
    unit: str = "rows"

    @property
    def split(self) -> str:
        """The most recent part. Alias for `make` and `verify`, whose parts are splits."""
        return self.part

    def __str__(self) -> str:
        if self.done >= self.total:
            unit = self.unit.removesuffix("s") if self.total == 1 else self.unit
            return f"{self.total:,} {unit} in {self.seconds:.0f} s"
        left = self.seconds / self.done * (self.total - self.done) if self.done else 0
        return f"{self.part}: {self.done:,} of {self.total:,} {self.unit}, about {left:.0f} s left"


ShowProgress = Callable[[Progress], None]


class WorkCounter:
    """Counts finished work, and shows the count after every part."""

    def __init__(self, total: int, show: ShowProgress | None, unit: str = "rows") -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.show = show
        self.unit = unit

    def add(self, part: str, count: int = 1) -> None:
        """Add finished units of one part."""
        self.done += count
        if self.show is not None:
            seconds = time.monotonic() - self.start
            self.show(Progress(part, self.done, self.total, seconds, self.unit))


@contextmanager
def shown(progress: ShowProgress | bool | None = True) -> Iterator[ShowProgress | None]:
    """Yield a function that shows progress on standard error or below a notebook cell.

    Args:
        progress: True to show progress. Default: only in notebooks. A function is yielded
            unchanged.
    """
    if callable(progress):
        yield progress
        return
    if not wanted(progress):
        yield None
        return
    displays = {"notebook": _notebook, "terminal": _terminal, "log": _log}
    with displays[place()]() as show:
        yield show


@contextmanager
def _notebook() -> Iterator[ShowProgress]:
    with notebook_line() as show:
        yield lambda p: show(str(p), p.done, p.total)


@contextmanager
def _terminal() -> Iterator[ShowProgress]:
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("", total=None)
        yield lambda p: bar.update(line, description=p.part, completed=p.done, total=p.total)


@contextmanager
def _log() -> Iterator[ShowProgress]:
    last = time.monotonic()

    def show(p: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_EVERY:
            last = time.monotonic()
            print(p, file=sys.stderr, flush=True)

    yield show
