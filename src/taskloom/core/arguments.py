"""Arguments in one form: whichever way a caller spells `1`, it is the same `1` inside."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from taskloom.core.errors import ParameterError, TaskloomError, echo


def whole(value: Any, parameter: str, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number as an `int`: digests of `1`, `np.int64(1)` and `"1"` are then those of
    one number.

    Args:
        value: A whole number of any library, or its digits as text.
        parameter: Its name, for the error.
        least: The smallest that it may be.
        most: The largest that it may be.
    """
    number = _integer(value)
    if number is None:
        raise ParameterError(parameter, f"must be a whole number, not {echo(value)}")
    if least is not None and number < least:
        raise ParameterError(parameter, f"must be at least {least}, not {number}")
    if most is not None and number > most:
        raise ParameterError(parameter, f"must be at most {most:,}, not {number:,}")
    return number


def _integer(value: Any) -> int | None:
    """A whole number in any spelling as an `int`; None for anything else."""
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal() and len(value) <= 40:
        return int(value)
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


LONGEST_NAME = 255
"""Maximum number of bytes in one part of a path, on all common file systems."""

LONGEST_PATH = 4_096
"""Maximum number of bytes in a path, on Linux."""


def path_of(value: str | PathLike[str]) -> Path:
    """A path with `~` expanded, as a shell does."""
    if not isinstance(value, str | PathLike) or "\0" in fspath(value):
        raise TaskloomError(f"a path is text or a pathlib.Path, not {echo(value)}")
    path = Path(value)
    parts = [len(part.encode("utf-8", "replace")) for part in path.parts]
    if max(parts, default=0) > LONGEST_NAME or sum(parts) + len(parts) > LONGEST_PATH:
        raise TaskloomError(
            f"{echo(str(path))} is too long for a path: at most {LONGEST_PATH:,} bytes, and"
            f" {LONGEST_NAME} between two slashes"
        )
    try:
        return path.expanduser()
    except RuntimeError:
        raise TaskloomError(
            f"{path}: there is no such user's home folder; write the path in full"
        ) from None


MOST_NESTED = 100
"""Maximum depth of lists and mappings in each other, in YAML as in Python values."""


def plain(value: Any, levels: int = MOST_NESTED) -> Any:
    """Copy a value with the types that YAML has, so that Python's spellings of one recipe are one
    recipe.

    Args:
        value: A value of any type.
        levels: Maximum depth of the lists and mappings in it.
    """
    if isinstance(value, Mapping | list | tuple) and levels == 0:
        raise TaskloomError(f"a value is nested too deeply; at most {MOST_NESTED} levels are read")
    if isinstance(value, Mapping):
        return {str(k): plain(v, levels - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, levels - 1) for v in value]
    if isinstance(value, PathLike):
        return fspath(value)
    # NumPy's numbers, truth values, texts and arrays.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), levels)
    return value


LATER = "later"
"""Marks a field that was added later: `Annotated[bool, LATER]`, or for a setting of a learner
`later_setting`. Left at its default it is not part of a digest, so that the digests of older
recipes and runs stay what they are.
"""


def later_defaults(values: Any) -> set[str]:
    """Names of the `LATER` fields of a pydantic model or dataclass that have their default."""
    # Training must not need pydantic, so a model is recognised by its attribute, not its class.
    declared: dict[str, Any] | None = getattr(type(values), "model_fields", None)
    if declared is None:
        declared = {field.name: field for field in dataclasses.fields(values)}
    return {
        name
        for name, field in declared.items()
        if LATER in field.metadata and getattr(values, name) == field.default
    }
