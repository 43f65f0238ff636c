"""Errors of a collection project by HTTP status, and the sentences of errors and pages.

All sentences are in phrases.yaml, next to this module.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from taskloom.core.errors import TaskloomError


class CollectError(TaskloomError):
    """A request that cannot be carried out: a form or a project file with a mistake.

    Attributes:
        status: The HTTP status under which the server reports it.
    """

    status = 422


class ConflictError(CollectError):
    """Someone else saved the same thing in the meantime."""

    status = 409


class ForbiddenError(CollectError):
    """A page or an action that needs another role."""

    status = 403


class UnknownError(CollectError):
    """A task, an item or a person that does not exist."""

    status = 404


class DiskError(CollectError):
    """A database that cannot be written. Nothing of the request was saved."""

    status = 507


@cache
def _sections() -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = yaml.safe_load(
        (files("taskloom.apps.collect") / "phrases.yaml").read_text(encoding="utf-8")
    )
    return sections


def page_phrases() -> dict[str, Any]:
    """Texts of the templates by name."""
    return _sections()["pages"]


def phrase(rule: str, /, **values: object) -> str:
    """Text of a rule with its values filled in.

    >>> phrase("question_length", fewest=4, most=40, count=3)
    'A question has 4 to 40 words; this one has 3.'
    """
    sentence: str = _sections()["rules"][rule]
    return sentence.format(**values)
