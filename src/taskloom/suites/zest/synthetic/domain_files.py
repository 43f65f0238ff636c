"""Domain files: YAML, checked and read into the dataclasses of `domain.py`.

Here each part is checked by itself; `domain_check.py` then checks the whole.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from taskloom.core.errors import RecipeError, nearest
from taskloom.core.files import digest
from taskloom.recipe.yaml_files import load
from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    Quality,
    Records,
    Rule,
    Text,
)
from taskloom.suites.zest.synthetic.domain_check import problems

FOLDER = Path(__file__).parents[1] / "domains"
"""The domains of this package."""

LARGEST = 1_000_000
"""Bytes of a domain file; the largest of this package has 20,000."""

MOST_VALUES = 100_000
"""Values in a domain file: a few nested aliases stand for more than any memory holds."""

TYPES: dict[str, type] = {
    "number": Number,
    "text": Text,
    "members": Members,
    "flag": Flag,
    "measure": Measure,
    "quality": Quality,
    "feature": Feature,
}
"""The parts that a file chooses by the key `type`: four kinds of attributes, three of a record's fields."""

_LISTS: dict[str, type] = {"records": Records, "rules": Rule}

UNKNOWN_KEY = "unexpected_keyword_argument"
"""Pydantic's name of the error for a key that a dataclass lacks."""


def read_domain(path: Path, *, ours: bool = False) -> Domain:
    """Read a domain file and check each of its parts; nothing that it names is imported or executed.

    Args:
        path: The file.
        ours: Whether it is a file of this package, which is read fast.

    Raises:
        RecipeError: One sentence with the file and the key of the first problem.
    """
    if path.stat().st_size > LARGEST:
        raise RecipeError(
            f"{path} has more than {LARGEST:,} bytes; a domain file is a few hundred lines"
        )
    given = load(path, RecipeError, ours=ours)
    if _is_huge(given):
        raise RecipeError(
            f"{path} has more than {MOST_VALUES:,} values, its aliases counted where they stand; write fewer"
        )
    if not isinstance(given, dict):
        raise RecipeError(
            f"{path} must be a mapping with name, noun, attributes, records, … of a domain"
        )
    try:
        return _reader().validate_python(_with_text_keys(given))
    except ValidationError as error:
        raise RecipeError(f"{path}: {_explain(error, given)}") from error


@cache
def _reader() -> TypeAdapter[Domain]:
    return TypeAdapter(Domain)


def _is_huge(given: Any) -> bool:
    """Return whether there are too many values, counting what an alias stands for each time; stops when there are."""
    waiting, count = [given], 0
    while waiting and count <= MOST_VALUES:
        value = waiting.pop()
        inner: Any = ()
        if isinstance(value, dict):
            inner = value.values()
        elif isinstance(value, list):
            inner = value
        count += 1 + len(inner)
        if count <= MOST_VALUES:
            waiting.extend(inner)
    return count > MOST_VALUES


def _with_text_keys(given: Any) -> Any:
    """Return the mappings of a file with texts for keys: YAML takes an unquoted `yes` for true, also as a key."""
    if isinstance(given, list):
        return [_with_text_keys(item) for item in given]
    if not isinstance(given, dict):
        return given
    spelled = {True: "yes", False: "no"}
    return {spelled.get(key, str(key)): _with_text_keys(value) for key, value in given.items()}


def _explain(error: ValidationError, given: Any) -> str:
    """Build one sentence for the first problem, and how many more there are; a misspelt key comes before the missing one."""
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != UNKNOWN_KEY)
    problem, path = problems[0], problems[0]["loc"]
    if problem["type"] == UNKNOWN_KEY:
        place, part = _place(path[:-1], given)
        text = f"unknown key '{path[-1]}'; {nearest(str(path[-1]), _keys(part))}"
    else:
        place, _ = _place(path, given)
        text = _fault(problem)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place}: {text}{more}" if place else f"{text}{more}"


def _fault(problem: ErrorDetails) -> str:
    """Report what is wrong with one value."""
    kind, value = problem["type"], problem["input"]
    if kind == "missing":
        return "this key is missing"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        of_records = "fields" in problem["loc"]
        known = [name for name, part in TYPES.items() if ("column" in _keys(part)) == of_records]
        return f"type must be one of {', '.join(known)}"
    if kind == "dataclass_type":
        return f"must be a valid dictionary, not {value!r:.60}"
    text = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if kind == "value_error":
        return text
    quotes = (
        "; put it in quotes"
        if kind == "string_type" and isinstance(value, bool | int | float)
        else ""
    )
    return f"{text}, not {value!r:.60}{quotes}"


def _place(path: tuple[int | str, ...], given: Any) -> tuple[str, type]:
    """Name a place in a file by the names of its parts, `attributes.height.says`, and return the part that is there."""
    part: type = Domain
    words = []
    for step in path:
        if step in TYPES:  # pydantic names the type that it tried
            part = TYPES[str(step)]
            continue
        try:
            given = given[step]
        except (KeyError, IndexError, TypeError):
            given = None
        named = given.get("name") if isinstance(given, dict) else None
        words.append(str(step) if named is None else str(named))
        if isinstance(given, list):
            part = _LISTS.get(str(step), part)
    return ".".join(words), part


def _keys(part: type) -> list[str]:
    return [field.name for field in fields(part)]


# The catalog: domains of this package go by name, a person's own by the path of its file.

SUFFIXES = (".yaml", ".yml")


@cache
def domain_names() -> tuple[str, ...]:
    """List the domains of this package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


_LOADED: dict[str, tuple[str, Domain, Path]] = {}
"""Domains from files that recipes name by path, with a digest of the file, so that the reader finds them by name again."""


def is_file_name(name: str) -> bool:
    """Return whether a recipe's `domains` names a file rather than a domain of this package."""
    return name.endswith(SUFFIXES)


def find_domain(name: str, path: Path | None = None) -> Domain:
    """Return the domain of that name, or the one in that file; `path` says where the file is, if not where its name says."""
    if is_file_name(name):
        return load_domain(path or Path(name))[1]
    if name in _LOADED:
        return _LOADED[name][1]
    if name not in domain_names():
        own = (
            "a domain file is YAML"
            if name.endswith(".py")
            else "your own is given by its file, ./castles.yaml"
        )
        raise RecipeError(f"there is no domain '{name}'; {nearest(name, domain_names())}; {own}")
    return _packaged(name)


@cache
def _packaged(name: str) -> Domain:
    return read_domain(FOLDER / f"{name}.yaml", ours=True)


def load_domain(path: Path) -> tuple[str, Domain]:
    """Read and check a domain file; return the digest of its bytes and the domain."""
    if not path.is_file():
        raise RecipeError(f"there is no domain file {path} (seen from the folder {Path.cwd()})")
    content = digest(path.read_bytes())
    for known, domain, _place in _LOADED.values():
        if known == content:
            return known, domain
    domain = read_domain(path)
    place = path.resolve()
    # The same file may be edited and loaded again, in a notebook for example.
    if domain.name in domain_names() or (
        domain.name in _LOADED and _LOADED[domain.name][2] != place
    ):
        raise RecipeError(
            f"{path}: the name '{domain.name}' is taken by another domain; rename yours"
        )
    faults = problems(domain)
    if faults:
        raise RecipeError(
            f"{path}: {faults[0]}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")
        )
    _LOADED[domain.name] = content, domain, place
    return content, domain
