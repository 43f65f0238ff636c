"""Parameters of tests of which only some run by default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_except(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Mark all values `slow` except the quick ones, which show every day what the others repeat.

    Tuples are values of several parameters, as in `pytest.mark.parametrize`. A quick value that is
    not among the values is an error, so that renaming a recipe cannot silently leave a test without
    its daily case.
    """
    listed = list(values)
    unknown = [value for value in quick if value not in listed]
    if unknown:
        raise ValueError(f"{unknown} are not among the values {listed}")
    return [
        _param(value) if value in quick else _param(value, pytest.mark.slow) for value in listed
    ]


def _param(value: Any, *marks: pytest.MarkDecorator) -> Any:
    several = value if isinstance(value, tuple) else (value,)
    return pytest.param(*several, marks=marks)
