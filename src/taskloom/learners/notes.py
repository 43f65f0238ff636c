"""Sentences for the person who waits for a learner, such as "the endpoint asks to wait"."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Note = Callable[[str], None]
"""Called with a sentence, from any thread."""

_notes: ContextVar[Note | None] = ContextVar("notes", default=None)


@contextmanager
def noted(report: Note) -> Iterator[None]:
    """Report the notes of everything that is called in the block."""
    token = _notes.set(report)
    try:
        yield
    finally:
        _notes.reset(token)


def noting() -> Note:
    """Return the function that reports notes, also for other threads, which have no context. Each
    note is printed on standard error as well, which in a run is its log.
    """
    report = _notes.get()

    def note(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        if report is not None:
            report(text)

    return note
