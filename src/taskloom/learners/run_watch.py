"""Progress callbacks for learners, passed through context variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from taskloom.learners.interface import Progress, Report

Answered = Callable[[int, int], None]
"""Called with how many inputs are answered, and of how many."""

_steps: ContextVar[Report | None] = ContextVar("steps", default=None)
_answers: ContextVar[Answered | None] = ContextVar("answers", default=None)


@contextmanager
def watched(steps: Report, answers: Answered) -> Iterator[None]:
    """Report the training steps and answers of everything that is called in the block."""
    tokens = _steps.set(steps), _answers.set(answers)
    try:
        yield
    finally:
        _steps.reset(tokens[0])
        _answers.reset(tokens[1])


def report_step(progress: Progress) -> None:
    """Report that a training step is done."""
    report = _steps.get()
    if report is not None:
        report(progress)


def report_answers(done: int, total: int) -> None:
    """Report how many inputs of a call are answered."""
    report = _answers.get()
    if report is not None:
        report(done, total)
