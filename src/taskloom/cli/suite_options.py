"""Options that suites add to commands.

A command that takes them has a parameter `given`, a mapping from the options' names to what was
typed. The command line shows the options of every suite that is installed, and of the suite whose
path is on the line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from taskloom.core.errors import TaskloomError

GIVEN = "given"
NOTHING: Mapping[str, str] = {}


def command_of(
    name: str, function: Callable[..., None], arguments: list[str]
) -> Callable[..., None]:
    """Return the function of a command with suites' options in the place of its parameter `given`.

    Args:
        name: The command.
        function: What it calls.
        arguments: The command line. Suites are imported only where it calls this very command with
            `--help` or an option that the command itself does not have: importing all of them takes
            a third of a second.
    """
    signature = inspect.signature(function)
    if GIVEN not in signature.parameters:
        return function
    hints = get_type_hints(function, include_extras=True)
    helps = (
        _helps(name, arguments) if arguments[:1] == [name] and _wants_more(hints, arguments) else {}
    )
    kind: Any = bool if name == "show" else str | None  # Views are flags.
    added = {
        option: Annotated[kind, typer.Option(f"--{option.replace('_', '-')}", help=help)]
        for option, help in helps.items()
    }

    @functools.wraps(function)
    def call(**values: Any) -> None:
        given = {option: values.pop(option) for option in added}
        function(
            **values,
            given={option: value for option, value in given.items() if value not in (None, False)},
        )

    own = [p.replace(annotation=hints[n]) for n, p in signature.parameters.items() if n != GIVEN]
    unset = False if kind is bool else None
    more = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=unset, annotation=a)
        for n, a in added.items()
    ]
    call.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    call.__annotations__ = {**{n: h for n, h in hints.items() if n != GIVEN}, **added}
    return call


def _wants_more(hints: Mapping[str, Any], arguments: list[str]) -> bool:
    """Return whether a command line has an option that is not among a command's own."""
    own = {
        name for hint in hints.values() for part in get_args(hint) for name in _option_names(part)
    }
    return any(word.startswith("-") and word.partition("=")[0] not in own for word in arguments[1:])


def _option_names(part: Any) -> list[str]:
    """Return the names of an option; Typer takes the first of them for the default until it reads
    the annotation.
    """
    names = [getattr(part, "default", None), *(getattr(part, "param_decls", None) or ())]
    return [name for name in names if isinstance(name, str) and name.startswith("-")]


def _helps(command: str, arguments: list[str]) -> dict[str, str]:
    """Return the options of a command with their help; options of one name in several suites are
    one option.
    """
    from taskloom.core.registry import SUITES, is_python, load_file

    written = {
        arguments[place + 1] for place, word in enumerate(arguments[:-1]) if word in ("-o", "--out")
    }
    for word in (word for word in arguments if is_python(word) and word not in written):
        with suppress(
            TaskloomError
        ):  # what is wrong with the file is reported by the command itself
            load_file(Path(word.partition("::")[0]))
    helps: dict[str, list[str]] = {}
    for suite in SUITES:
        for option in suite.options:
            if option.command == command:
                helps.setdefault(option.name, []).append(f"{suite.name}: {option.help}")
        for view, shown in suite.views.items() if command == "show" else ():
            helps.setdefault(view, []).append(f"{suite.name}: {shown.help}")
    return {name: " ".join(texts) for name, texts in helps.items()}


def as_changes(given: Mapping[str, str], command: str) -> dict[str, Any]:
    """Return options of `make` or `apply` as changes of the recipe's fields."""
    from taskloom.core.registry import SUITES
    from taskloom.recipe.overrides import from_file

    files = (
        {o.name for suite in SUITES for o in suite.options if o.command == command and o.file}
        if given
        else set()
    )
    return {
        name: from_file(Path(value)) if name in files else value for name, value in given.items()
    }


def of_suite(given: Mapping[str, str], command: str, suite: str) -> Mapping[str, str]:
    """Return the options of `solve` or `score` after checking that the suite has them."""
    from taskloom.core.registry import SUITES

    owner = SUITES.find(suite)
    known = (
        {option.name for option in owner.options if option.command == command} if owner else set()
    )
    for name in given:
        if name not in known:
            owners = [
                s.name
                for s in SUITES
                if any(o.name == name and o.command == command for o in s.options)
            ]
            raise TaskloomError(
                f"--{name.replace('_', '-')} is for {' and '.join(owners)}, not for {suite}"
            )
    return given
