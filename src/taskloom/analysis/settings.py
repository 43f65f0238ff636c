"""Settings of studies: what `--set KEY=VALUE` may be, by the annotation of the parameter or by what
the runs have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError

from taskloom.core.errors import TaskloomError, nearest

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

ShareSetting = Annotated[float, Field(ge=0, le=1)]
"""A score, or a share of something."""

CountSetting = Annotated[int, Field(ge=1)]
"""A number of things, of which there must be one."""

NumberSetting = Annotated[int, Field(ge=0)]
"""A place, counted from 0, or a number of things of which there may be none."""

MOST_CHOICES = 12
"""Choices that one sentence names; of more it names the nearest."""


class StudyError(TaskloomError):
    """A study that does not exist, or that these runs cannot answer."""


def checked_setting(analyse: Callable[..., Any], name: str, value: Any, study: str) -> Any:
    """Return a setting as the type that its parameter is annotated with; as it is where it has no
    annotation.

    Args:
        analyse: The function that has the parameter.
        name: Of the parameter.
        value: What was given.
        study: The name of the study, for the error.
    """
    kind = annotation_of(analyse, name)
    reader = _reader(kind)
    problem: ValidationError | None = None
    for given in (
        (value, "") if value is None else (value,)
    ):  # `--set split=` is YAML's null, and means no text
        try:
            return reader.validate_python(given)
        except ValidationError as error:
            problem = error
    what = "nothing" if value is None else f"'{value}'"
    raise StudyError(
        f"the setting '{name}' of the study '{study}' must be {kind_of_value(kind)}, not {what}"
    ) from problem


def annotation_of(analyse: Callable[..., Any], name: str) -> Any:
    """Return the annotation of one parameter, whatever those of the others are; Any where only type
    checkers can read it.
    """
    alone = SimpleNamespace(__annotations__={name: analyse.__annotations__.get(name, Any)})
    try:
        return get_type_hints(alone, getattr(analyse, "__globals__", {}), include_extras=True)[name]
    except (NameError, SyntaxError):
        return Any


def _reader(kind: Any) -> TypeAdapter[Any]:
    """Return what reads values of an annotation; those of a class that pydantic does not know must
    be its instances.
    """
    try:
        return TypeAdapter(
            kind, config=ConfigDict(coerce_numbers_to_str=True, arbitrary_types_allowed=True)
        )
    except PydanticUserError:  # a dataclass or a model, which brings its own config
        return TypeAdapter(kind)


KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "nothing",
    Any: "any value",
}
"""What an error calls the types of settings."""

BOUNDS = {"ge": "of at least {:g}", "gt": "above {:g}", "le": "of at most {:g}", "lt": "below {:g}"}


def kind_of_value(kind: Any) -> str:
    """Return what an error calls the values of an annotation.

    >>> kind_of_value(ShareSetting), kind_of_value(Literal["A", "R"]), kind_of_value(int | None)
    ('a number from 0 to 1', "'A' or 'R'", 'a whole number or nothing')
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return joined_choices([f"'{choice}'" for choice in parts if choice != ""])
    if origin in (Union, UnionType):
        return joined_choices([kind_of_value(part) for part in parts])
    if origin is Annotated:
        return " ".join([kind_of_value(parts[0]), *_range(parts[1:])])
    return KINDS.get(kind, str(kind))


def _range(fields: Sequence[Any]) -> list[str]:
    """Return the bounds of a number in words."""
    constraints = [constraint for field in fields for constraint in getattr(field, "metadata", ())]
    bounds = {name: getattr(c, name) for c in constraints for name in BOUNDS if hasattr(c, name)}
    if set(bounds) == {"ge", "le"}:
        return [f"from {bounds['ge']:g} to {bounds['le']:g}"]
    return [BOUNDS[name].format(bound) for name, bound in bounds.items()]


def joined_choices(choices: Sequence[str]) -> str:
    """Return choices as a sentence has them.

    >>> joined_choices(["a", "b", "c"]), joined_choices(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def check_choice(runs: Runs, name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a setting that is not among what the runs have.

    Args:
        runs: The runs, which the error names.
        name: Of the setting.
        value: What was given.
        choices: What the runs have.
    """
    known = sorted(set(choices))
    if value in known:
        return
    path = runs.path
    if not known:
        raise StudyError(f"the setting '{name}' is '{value}', and {path} has none to choose from")
    if len(known) > MOST_CHOICES:
        raise StudyError(
            f"the setting '{name}' is '{value}', which {path} does not have;"
            f" {nearest(value, known)}"
        )
    options = joined_choices([f"'{choice}'" for choice in known])
    raise StudyError(f"the setting '{name}' must be {options} for {path}, not '{value}'")


def check_split(runs: Runs, split: str) -> None:
    """Refuse a split that no run answered; empty: any.

    Args:
        runs: The runs.
        split: Its name, with or without its recipe (`mix`, `babi/mix-T7:mix`).
    """
    if split and split not in runs.splits:
        check_choice(runs, "split", split, (full.rpartition(":")[2] for full in runs.splits))
