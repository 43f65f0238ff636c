"""What pydantic found wrong with a person's file, as one sentence."""

from __future__ import annotations

import re
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from taskloom.core.errors import TaskloomError, echo, nearest

M = TypeVar("M", bound=BaseModel)


PLAINLY = {
    "missing": "is required",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "bool_parsing": "should be true or false",
}
"""What we say of problems that pydantic describes in words of its own, by their types."""

MOST_PROBLEMS = 4
"""Problems that one sentence names: a file of another kind has a wrong key on every line."""


def validated(model: type[M], data: Any, where: str, error: type[TaskloomError]) -> M:
    """Return the data as a model; raise one sentence where they do not fit it.

    Args:
        model: What the data should be.
        data: Plain values.
        where: The file or the thing that they come from, which the sentence names.
        error: What is raised.
    """
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        raise error(explain(problem, model, where)) from problem
    except UnicodeEncodeError:  # pydantic writes names as UTF-8
        raise error(f"{where}: a name has half of a character (a lone surrogate); write it whole") from None


def explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """Explain what pydantic found in one sentence: place, problem, remedy."""
    parts: dict[str, list[str]] = {}
    for item in error.errors():
        # Where a field takes one of several kinds, pydantic ends the place with the kind that it tried.
        path = tuple(p for p in item["loc"] if not re.fullmatch(r"constrained-\w+|literal\[.*\]|function-.*", str(p)))
        place = ".".join(str(p) for p in path)
        if item["type"] == "extra_forbidden":
            known = _known(model, path[:-1])
            parts.setdefault(f"\0{place}", []).append(f"unknown key '{place}'; {nearest(str(path[-1]), known)}")
            continue
        message = PLAINLY.get(item["type"]) or item["msg"].removeprefix("Value error, ").replace(
            "Input should", "should"
        )
        if item["type"] == "model_type":  # pydantic would name a class of ours, which nobody outside knows
            known = _known(model, path)
            message = f"should be a mapping, e.g. {{{known[0]}: …}}" if known else "should be a mapping"
        given = "" if item["type"] in ("value_error", "missing") else f", not {echo(item['input'])}"
        parts.setdefault(place, []).append(message + given if not parts.get(place) else message)
    sentences = [
        "; ".join(messages) if place[:1] in ("", "\0") else f"{place}: {' or '.join(messages)}"
        for place, messages in parts.items()
    ]
    more = [f"and {len(sentences) - MOST_PROBLEMS} more problems"] if len(sentences) > MOST_PROBLEMS + 1 else []
    return f"{where}: " + "; ".join([*sentences[: MOST_PROBLEMS if more else None], *more])


def _known(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the field names at a place inside a model, as far as types tell."""
    here: Any = model
    for step in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = here.model_fields[str(step)].annotation if str(step) in here.model_fields else None
        else:
            inner = [a for a in get_args(here) if isinstance(a, type) and issubclass(a, BaseModel)]
            here = inner[0] if inner else None
    types = [here, *get_args(here)]
    return sorted({name for m in types if isinstance(m, type) and issubclass(m, BaseModel) for name in m.model_fields})
