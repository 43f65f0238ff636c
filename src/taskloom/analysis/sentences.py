"""Sentences from Jinja templates: code chooses the numbers, the words are in a file beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from taskloom.core.errors import MissingExtra

FILE = "sentences.j2"
"""The file of macros, one for each sentence."""


class Sentences:
    """The sentences of a package.

    Args:
        package: Where `sentences.j2` lies: `taskloom.analysis.report`.
        **filters: Functions that the templates use to format values.
    """

    def __init__(self, package: str, **filters: Callable[..., str]) -> None:
        self._package = package
        self._filters = filters

    def __call__(self, macro: str, **facts: Any) -> str:
        """Write a sentence.

        Args:
            macro: Its name in the file.
            **facts: What it says.
        """
        template = _template(self._package, tuple(self._filters.items()))
        return str(getattr(template, macro)(**facts))


@cache
def _template(package: str, filters: tuple[tuple[str, Callable[..., str]], ...]) -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise MissingExtra("a report", "jinja2", "report") from error
    # Sentences are plain text: terminals print them as they are, and pages escape them.
    environment = Environment(autoescape=False, undefined=StrictUndefined)  # noqa: S701
    own: Mapping[str, Callable[..., str]] = dict(filters)
    environment.filters.update(own)
    text = files(package).joinpath(FILE).read_text(encoding="utf-8")
    return environment.from_string(text).module
