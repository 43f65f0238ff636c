"""Changing a recipe before it is checked: what `extends:` builds on, and `--set key=value`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskloom.errors import RecipeError
from taskloom.recipe import yaml_files
from taskloom.recipe.yaml_files import RepeatedKeyError, YamlError


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The base with the changes in it; groups of fields are merged key by key."""
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def override(data: dict[str, Any], change: str) -> None:
    """Set one field, as `max_length=8` or `splits.train.n=1000` says."""
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise RecipeError(f"--set {change}: write key=value, e.g. --set max_length=8")
    try:
        value = _value(text)
    except RepeatedKeyError as error:
        raise RecipeError(f"--set {change}: the value {error}") from error
    except YamlError as error:
        raise RecipeError(f"--set {change}: the value {error}; quote it") from error
    *parents, last = path.strip().split(".")
    if (parents or [last])[0] in ("suite", "task", "extends"):
        raise RecipeError(
            f"--set {change}: '{path.strip()}' is what a recipe is, not a field; name another recipe instead"
        )
    here: Any = data
    for parent in parents:
        if isinstance(here, list):
            here = here[_index(here, parent, change)]
            continue
        here = here.setdefault(parent, {})
        if not isinstance(here, dict | list):
            raise RecipeError(f"--set {change}: '{parent}' is a value, not a group of fields")
    if isinstance(here, list):
        here[_index(here, last, change)] = value
    else:
        here[last] = value


def _index(items: list[Any], text: str, change: str) -> int:
    if not text.isdigit() or int(text) >= len(items):
        raise RecipeError(f"--set {change}: '{text}' is not a position from 0 to {len(items) - 1}")
    return int(text)


def _value(text: str) -> Any:
    if not text.startswith("@"):
        return yaml_files.parse(text)
    path = Path(text[1:])
    if not path.is_file():
        raise RecipeError(f"there is no file {path} (a value that starts with @ names a file)")
    value = yaml_files.load(path, RecipeError)
    if value is None:
        raise RecipeError(f"{path} is empty; it should hold the value of '{text}'")
    return value
