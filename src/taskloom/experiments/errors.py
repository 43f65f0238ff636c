"""The error of questions about runs."""

from __future__ import annotations

from taskloom.core.errors import TaskloomError


class RunsError(TaskloomError):
    """A question that the runs at hand cannot answer."""
