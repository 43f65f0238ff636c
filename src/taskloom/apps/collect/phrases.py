"""The sentences that people meet, all from one file: phrases.yaml beside this module."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def _sections() -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = yaml.safe_load(
        (files("taskloom.apps.collect") / "phrases.yaml").read_text(encoding="utf-8")
    )
    return sections


def page_phrases() -> dict[str, Any]:
    """Return the words of the templates by name."""
    return _sections()["pages"]


def phrase(rule: str, /, **values: object) -> str:
    """Return a sentence of a rule with its values filled in.

    >>> phrase("question_length", fewest=4, most=40, count=3)
    'A question has 4 to 40 words; this one has 3.'
    """
    sentence: str = _sections()["rules"][rule]
    return sentence.format(**values)
