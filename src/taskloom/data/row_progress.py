"""The progress of `make`: rows done, and the time that is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from taskloom.core import progress as progress_display

if TYPE_CHECKING:
    from taskloom.data.workers import MakeProgress

ShowRows = Callable[["MakeProgress"], None]


@contextmanager
def shown_rows(progress: ShowRows | bool | None = True) -> Iterator[ShowRows | None]:
    """Yield a function that shows how far a `make` is, on standard error or below a notebook's cell.

    Args:
        progress: Whether to show it; by default in notebooks only. Or a function of your own, which is yielded as it is.
    """
    if callable(progress):
        yield progress
    elif not progress_display.wanted(progress):
        yield None
    else:
        with {"notebook": _notebook, "terminal": _terminal, "log": _log}[progress_display.place()]() as show:
            yield show


@contextmanager
def _notebook() -> Iterator[ShowRows]:
    with progress_display.notebook_line() as show:
        yield lambda p: show(_line(p), p.done, p.total)


@contextmanager
def _terminal() -> Iterator[ShowRows]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("making", total=None)
        yield lambda p: bar.update(line, description=p.split, completed=p.done, total=p.total)


@contextmanager
def _log() -> Iterator[ShowRows]:
    last = time.monotonic()

    def show(p: MakeProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= progress_display.LOG_EVERY:
            last = time.monotonic()
            print(_line(p), file=sys.stderr, flush=True)

    yield show


def _line(p: MakeProgress) -> str:
    rows = f"{p.split}: {p.done:,} of {p.total:,} rows"
    if p.done >= p.total:
        return f"{p.total:,} rows in {p.seconds:.0f} s"
    left = p.seconds / p.done * (p.total - p.done) if p.done else 0
    return f"{rows}, about {left:.0f} s left"
