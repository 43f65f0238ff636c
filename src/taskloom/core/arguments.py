"""The one form that arguments have inside: whatever a person's Python spells `1` as, it is `1` from the door on."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from taskloom.core.errors import ParameterError, TaskloomError, echo


def whole(value: Any, parameter: str, least: int | None = None) -> int:
    """Return a whole number as an `int`: digests of `1`, `np.int64(1)` and `"1"` are then those of one number.

    Args:
        value: A whole number of any library, or its digits as text.
        parameter: Its name, for the error.
        least: The smallest that it may be.
    """
    number = _integer(value)
    if number is None:
        raise ParameterError(parameter, f"must be a whole number, not {echo(value)}")
    if least is not None and number < least:
        raise ParameterError(parameter, f"must be at least {least}, not {number}")
    return number


def _integer(value: Any) -> int | None:
    """Return a whole number in any of its spellings as an `int`; None for anything else."""
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal() and len(value) <= 40:
        return int(value)
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def path_of(value: str | PathLike[str]) -> Path:
    """Return a path with `~` expanded, as a shell would have done."""
    if not isinstance(value, str | PathLike) or "\0" in fspath(value):
        raise TaskloomError(f"a path is text or a pathlib.Path, not {echo(value)}")
    path = Path(value)
    try:
        return path.expanduser()
    except RuntimeError:
        raise TaskloomError(
            f"{path}: there is no such user's home folder; write the path in full"
        ) from None


def plain(value: Any) -> Any:
    """Copy a value with the types that YAML has, so that Python's spellings of one recipe are one recipe."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, PathLike):
        return fspath(value)
    if type(value).__module__ == "numpy" and hasattr(
        value, "tolist"
    ):  # its numbers, truth values, texts and arrays
        return plain(value.tolist())
    return value
