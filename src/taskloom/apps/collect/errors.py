"""Errors of a collection project by HTTP status, and the texts of errors and pages.

All texts are in phrases.yaml, next to this module.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from taskloom.core.errors import TaskloomError


class CollectError(TaskloomError):
    """A request that cannot be carried out because of a mistake in a form or the project file.

    Attributes:
        status: The HTTP status under which the server reports it.
    """

    status = 422


class ConflictError(CollectError):
    """Someone else saved the same record in the meantime."""

    status = 409


class ForbiddenError(CollectError):
    """A page or an action that needs another role."""

    status = 403


class UnknownError(CollectError):
    """A task, an item or a person that does not exist."""

    status = 404


class DiskError(CollectError):
    """The database cannot be written. Nothing in the request was saved."""

    status = 507


@cache
def _sections() -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = yaml.safe_load(
        (files("taskloom.apps.collect") / "phrases.yaml").read_text(encoding="utf-8")
    )
    return sections


def page_phrases() -> dict[str, Any]:
    """Texts for the templates, by name."""
    return _sections()["pages"]


def phrase(rule: str, /, **values: object) -> str:
    """Return the text of a rule with its values filled in.

    >>> phrase("question_length", fewest=4, most=40, count=3)
    'A question has 4 to 40 words; this one has 3.'
    """
    sentence: str = _sections()["rules"][rule]
    return sentence.format(**values)
