"""Finding a recipe by its name, its file, or the Python file or folder that defines it; before it is checked.

A name is `suite/recipe`, an expression of a suite whose names are a language, or a task. Python code is named by its path,
`FILE.py` or `FOLDER`, and where it defines several things by `PATH::NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from taskloom.core.arguments import path_of, plain
from taskloom.core.errors import RecipeError, TaskloomError, echo, nearest
from taskloom.core.registry import SUITES, TASKS, is_python, load_file
from taskloom.recipe import yaml_files
from taskloom.recipe.overrides import merge


def load_definitions(name: str) -> None:
    """Import the Python file that a recipe's name refers to, so that its task or suite is known.

    A worker process does this before it rebuilds a recipe that a person named. Never for a name that only data give.
    """
    if is_python(name):
        find(name)
    elif is_yaml(name):
        # It may extend a recipe of a Python file. The recipe itself is known already: its file need not be there any more.
        with suppress(TaskloomError):
            find(name)


class RawRecipe(NamedTuple):
    """The data of a recipe, unchecked.

    Attributes:
        data: Its keys and values.
        where: The name or file that defines it.
        folders: Of its file and of the files that it extends: where its relative paths are looked for.
    """

    data: dict[str, Any]
    where: str
    folders: tuple[Path, ...] = ()


def find(name: str) -> RawRecipe:
    """Return the data of a recipe, unchecked, and where it is defined."""
    if is_yaml(name):
        return _load_yaml(path_of(name))
    if is_python(name):
        return _in_python(name)
    head, _, rest = name.partition("/")
    suite = SUITES.find(head)
    if suite is not None:
        files = suite.recipe_files()
        if name in files:
            return RawRecipe(_load_yaml(files[name], ours=True).data, name)
        fields = suite.resolve(rest) if suite.resolve and rest else None
        if fields is not None:
            return RawRecipe({"suite": head, **fields}, name)
    if TASKS.find(name) is not None:
        return RawRecipe({"task": name}, name)
    if name.startswith((".", "/", "~")) or name.endswith("/"):
        raise RecipeError(
            f"there is no file or folder {name}; a recipe file ends in .yaml, a task file in .py"
        )
    raise RecipeError(
        f"no recipe is called '{name}'; {nearest(name, names())} (A file is given by its path, e.g. ./my-recipe.yaml)"
    )


def is_yaml(name: str) -> bool:
    """Return whether a name is that of a recipe file."""
    return name.endswith((".yaml", ".yml"))


def _in_python(name: str) -> RawRecipe:
    path, _, wanted = name.partition("::")
    tasks = load_file(Path(path))
    if wanted not in tasks and SUITES.find(wanted.partition("/")[0]) is not None:
        # The file defines a suite, or adds something to one, such as an atom, and the recipe is one of that suite.
        return RawRecipe(find(wanted).data, name)
    if wanted and wanted not in tasks:
        raise RecipeError(f"{path} has no task '{wanted}'; {nearest(wanted, tasks)}")
    if not wanted and len(tasks) != 1:
        names = ", ".join(tasks) or "none (use @tl.task)"
        raise RecipeError(
            f"{path} must define one task, or say which: {path}::NAME; it defines: {names}"
        )
    return RawRecipe({"task": wanted or tasks[0]}, path)


def names() -> list[str]:
    """Return every recipe that can be made by name."""
    return sorted(
        [*(name for suite in SUITES for name in suite.recipe_files()), *TASKS.names()],
        key=counting_order,
    )


def descriptions() -> list[tuple[str, str]]:
    """Return every recipe that has a file, with the line about it; the rest of the recipe is not checked."""
    files = {name: file for suite in SUITES for name, file in suite.recipe_files().items()}
    rows = []
    for name in sorted(files, key=counting_order):
        data = yaml_files.load(files[name], RecipeError, ours=True)
        own = isinstance(data, dict) and "describe" in data
        rows.append((name, str((data if own else find(name).data).get("describe", "")).strip()))
    return rows


def counting_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key under which names come as people count: 2 before 10.

    >>> sorted(["babi/10", "babi/2", "babi/mix"], key=counting_order)
    ['babi/2', 'babi/10', 'babi/mix']
    """
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), part) if part.isdecimal() else (-1, part) for part in parts if part]


def _load_yaml(path: Path, within: tuple[Path, ...] = (), *, ours: bool = False) -> RawRecipe:
    if not path.is_file():
        raise RecipeError(f"there is no recipe file {path}")
    if path.resolve() in within:
        raise RecipeError(
            f"{path} extends itself, by way of {' and '.join(p.name for p in within)}; break the circle"
        )
    data = yaml_files.load(path, RecipeError, ours=ours)
    if not isinstance(data, dict):
        raise RecipeError(
            f"{path} must be a mapping with 'suite:' and its fields, not {type(data).__name__}"
        )
    data, folders = _extended(data, path.parent, (*within, path.resolve()), ours=ours)
    return RawRecipe(data, str(path), (path.parent, *folders))


def _extended(
    data: dict[str, Any], folder: Path, within: tuple[Path, ...], *, ours: bool = False
) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """Return the data of a recipe on top of what it extends, and the folders of the files that it extends."""
    if "extends" not in data:
        return data, ()
    parent = str(data.pop("extends"))
    file, separator, wanted = parent.partition("::")
    beside = folder / path_of(file)
    if is_yaml(parent) and beside.is_file():
        base = _load_yaml(beside, within, ours=ours)
    elif is_python(parent) and beside.exists():
        base = find(f"{beside}{separator}{wanted}")
    else:
        base = find(parent)
    return merge(base.data, data), base.folders


def from_mapping(recipe: Mapping[str, Any]) -> RawRecipe:
    """Return the data of a recipe that is given by its keys and values, as a YAML file would have them."""
    for key in recipe:
        if not isinstance(key, str):
            raise RecipeError(f"a recipe's keys are names, as in {{'suite': …}}, not {echo(key)}")
    data, folders = _extended({key: plain(value) for key, value in recipe.items()}, Path(), ())
    return RawRecipe(data, "the recipe", folders)
