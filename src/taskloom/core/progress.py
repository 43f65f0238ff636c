"""Where progress is shown: a bar on a terminal, one line that is rewritten in a notebook, a line
now and then in a log.

Bars on terminals are Rich's. In a notebook the line is an HTML element of its own (`display_id`),
which needs no widgets and stays in the saved notebook.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Literal

Place = Literal["notebook", "terminal", "log"]

ShowCount = Callable[[str, int, int], None]
"""Shows progress: in words, the number done, and the total."""

LOG_EVERY = 5.0
"""Seconds between two lines of a log."""

NOTEBOOK_EVERY = 0.25
"""Seconds between two changes in a notebook: each is a message to the browser."""

NOTEBOOK_AFTER = 1.0
"""Seconds before anything appears in a notebook, because short work needs no bar."""


def place() -> Place:
    """Where this process writes."""
    if in_notebook():
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"


def in_notebook() -> bool:
    """True if a notebook's kernel runs this process. IPython's prompt is a terminal."""
    shell = sys.modules.get("IPython")
    current = shell.get_ipython() if shell is not None else None
    return current is not None and getattr(current, "kernel", None) is not None


def wanted(choice: bool | None) -> bool:
    """True if progress is to be shown. By default it is in notebooks, which show nothing else of
    running work.
    """
    return in_notebook() if choice is None else choice


@contextmanager
def notebook_line() -> Iterator[ShowCount]:
    """Yield a function that shows a bar with words below a notebook's cell; the last state stays
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
