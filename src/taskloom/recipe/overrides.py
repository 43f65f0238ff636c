"""Changes to a recipe before it is checked: `extends:`, which names a base recipe, and `set`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from taskloom.core.errors import ParameterError, RecipeError, echo
from taskloom.core.files import path_of, plain
from taskloom.core.registry import SUITES
from taskloom.recipe import yaml_files
from taskloom.recipe.yaml_files import RepeatedKeyError, YamlError

Changes = Mapping[str, Any] | Iterable[str] | None
"""Fields with new values, `{"splits.train.n": 500}`, or the same as text, `["splits.train.n=500"]`.
None means no changes.

A new value replaces the old one completely. A dotted key addresses a field inside groups and lists.
In text form a value is YAML, or `@FILE` to read it from a JSON or YAML file.
"""


class ChangeError(ParameterError, RecipeError):
    """A change that cannot be applied to a recipe."""

    def __init__(self, change: str, problem: str) -> None:
        super().__init__("set", f"{change}: {problem}")


def given_changes(changes: Changes, set: Changes) -> Changes:
    """Return the changes passed to a function as `changes`, or as `set`, the command line's name
    for them.
    """
    if _given(changes) and _given(set):
        raise ParameterError(
            "changes", "and set are two names for the same argument; use only one of them"
        )
    return changes if _given(changes) else set


def _given(changes: Changes) -> bool:
    # Compare with None instead of testing truth, because 0 must be reported as an invalid value.
    return changes is not None and changes != ()


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return the base with changes applied. Groups of fields are merged key by key."""
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        merged[key] = (
            merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def override(
    data: dict[str, Any], changes: Changes, fields_model: type[BaseModel] | None = None
) -> None:
    """Set fields of a recipe's data.

    Args:
        data: Data of the recipe, changed in place.
        changes: The fields and their values.
        fields_model: Model of the fields. If a dotted key changes part of a group that the recipe
            does not set, the rest of the group has the model's defaults.
    """
    for path, value in changed_fields(changes).items():
        _assign(data, str(path), plain(value), fields_model)


def changed_fields(changes: Changes) -> Mapping[str, Any]:
    """Convert changes in any form to fields and values."""
    if isinstance(changes, Mapping):
        return changes
    if changes is None:
        return {}
    if not isinstance(changes, Iterable):
        raise ChangeError(echo(changes), 'write fields with values, e.g. {"max_length": 8}')
    return parse_changes(changes)


def parse_changes(changes: Iterable[str]) -> dict[str, Any]:
    """Parse changes given as text. If a field is changed twice, the last change counts."""
    if isinstance(changes, str):
        raise ChangeError(changes, f"write a list of changes, [{changes!r}], or fields with values")
    fields: dict[str, Any] = {}
    for change in changes:
        if not isinstance(change, str):
            raise ChangeError(echo(change), "write key=value, e.g. max_length=8")
        path, equals, text = change.partition("=")
        if not equals or not path.strip():
            raise ChangeError(change, "write key=value, e.g. max_length=8")
        fields.pop(path.strip(), None)  # a later change moves to the end
        fields[path.strip()] = _parse(text, change)
    return fields


def from_file(path: Path) -> Any:
    """Read a value from a JSON or YAML file."""
    if not path.exists():
        raise RecipeError(f"there is no file {path} (a value that starts with @ names a file)")
    value = yaml_files.load(path, RecipeError)
    if value is None:
        raise RecipeError(f"{path} is empty; it should contain a value")
    return value


def option_changes(given: Mapping[str, str], command: str) -> dict[str, Any]:
    """Return changes to a recipe's fields from options that suites add to `make` and `apply`.

    Args:
        given: Options given on the command line, by name.
        command: Name of the command.
    """
    if not given:
        return {}  # without importing any suite
    files = set()
    for suite in SUITES:
        files |= {o.name for o in suite.options if o.command == command and o.file}
    return {
        name: from_file(Path(value)) if name in files else value for name, value in given.items()
    }


def _parse(text: str, change: str) -> Any:
    if text.startswith("@"):
        return from_file(path_of(text[1:]))
    try:
        value = yaml_files.parse(text)
    except RepeatedKeyError as error:
        raise ChangeError(change, f"the value {error}") from error
    except YamlError as error:
        raise ChangeError(change, f"the value {error}; quote it") from error
    if key := _glued_key(value):
        raise ChangeError(
            change, f"'{key}' needs a space after its colon: {key.replace(':', ': ', 1)}"
        )
    return value


def _glued_key(value: Any) -> str:
    """Return a key such as `n:60`, which YAML reads as a name without a value. Empty if there is
    none.
    """
    if isinstance(value, list):
        return next(filter(None, map(_glued_key, value)), "")
    if not isinstance(value, dict):
        return ""
    for key, inner in value.items():
        if inner is None and isinstance(key, str) and ":" in key:
            return key
        if found := _glued_key(inner):
            return found
    return ""


def _assign(data: dict[str, Any], path: str, value: Any, model: type[BaseModel] | None) -> None:
    *parents, last = path.split(".")
    if (parents or [last])[0] in ("suite", "task", "extends"):
        raise ChangeError(
            path,
            f"'{path}' identifies the recipe and is not a field; name another recipe instead",
        )
    here: Any = data
    for parent in parents:
        if isinstance(here, list):
            here = here[_index(here, parent, path)]
            continue
        field = model.model_fields.get(parent) if model is not None else None
        if parent not in here:
            here[parent] = _default_group(field)
        here = here[parent]
        if not isinstance(here, dict | list):
            raise ChangeError(path, f"'{parent}' is a value, not a group of fields")
        if field is not None:
            model = _model_within(field.annotation)
    if isinstance(here, list):
        here[_index(here, last, path)] = value
    else:
        here[last] = value


def _default_group(field: FieldInfo | None) -> Any:
    """Return the default of a group of fields or a list, as written in a recipe. An empty group if
    there is none.
    """
    default = (
        None
        if field is None or field.is_required()
        else field.get_default(call_default_factory=True)
    )
    group = to_jsonable_python(default)
    return group if isinstance(group, dict | list) else {}


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a group, or of the members of a list or mapping. None if there is no
    unique one.
    """
    waiting, models = [annotation], []
    while waiting:
        part = waiting.pop()
        if isinstance(part, type) and issubclass(part, BaseModel):
            models.append(part)
        waiting += get_args(part)
    return models[0] if len(models) == 1 else None


def _index(items: list[Any], text: str, path: str) -> int:
    if not text.isdigit() or int(text) >= len(items):
        raise ChangeError(path, f"'{text}' is not an index from 0 to {len(items) - 1}")
    return int(text)
