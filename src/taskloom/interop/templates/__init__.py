"""Texts of the files that exports write, one folder per tool, with `$name` for values."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any


def fill(template: str, values: Mapping[str, Any]) -> str:
    """A template with its values filled in; a name without a value raises a `KeyError`."""
    text = files(__name__).joinpath(template).read_text(encoding="utf-8")
    return Template(text).substitute(values)
