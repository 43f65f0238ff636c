"""Reads YAML for recipes, experiments, values of `set` and run configurations.

Texts may come from untrusted sources, so their size, nesting and number of values are limited
before any values are constructed. PyYAML silently drops the first value of a repeated key, so
repeated keys are reported as errors with their line number. `validated` checks the values against a
model and converts pydantic's errors to one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, Tag, ValidationError

from taskloom.core.errors import TaskloomError, echo, nearest
from taskloom.core.files import MOST_NESTED, read_utf8

READER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if PyYAML has it, because it is five to seven times as fast as the Python
one.
"""

KEYS_OF_YAML = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
"""`<<` and `=`: keys with a special meaning in YAML."""


MOST_BYTES = 10_000_000
"""Maximum size of a text in bytes. The largest file in Taskloom has 30,000."""

MOST_VALUES = 500_000
"""Maximum number of values, with aliases expanded. Reading this many takes 3 s and 0.3 GB. An alias
bomb of nine lines expands to more.
"""

MOST_DIRECTIVES = 100
"""Maximum number of lines that begin with `%`, because libyaml's time grows with the square of
their number.
"""


class YamlError(TaskloomError):
    """Text that is not valid YAML, or that would lose a value. The message continues a sentence
    that begins with the location: `is not YAML: …`.

    Attributes:
        line: Line number from 1, or None if unknown.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class RepeatedKeyError(YamlError):
    """A repeated key, whose first value would be lost."""


def load(path: Path, error: type[TaskloomError]) -> Any:
    """Load the value in a file. Raises an `error` that names the file and line of the problem."""
    try:
        return parse(read_utf8(path, error, most=MOST_BYTES))
    except YamlError as cause:
        raise error(f"{path}{f':{cause.line}' if cause.line else ''} {cause}") from cause


def parse(text: str) -> Any:
    """Parse a YAML or JSON text from any source."""
    if len(text) > MOST_BYTES:
        raise YamlError(f"has {len(text):,} characters, more than the maximum of {MOST_BYTES:,}")
    if text.count("\n%") > MOST_DIRECTIVES:
        raise YamlError(f"has more than {MOST_DIRECTIVES} lines that begin with %; remove them")
    try:
        try:
            return _read(text, READER)
        except yaml.YAMLError:
            # libyaml rejects a few texts that PyYAML reads: surrogate pairs, as in JSON, and blocks
            # that begin with a tab.
            return _read(text, yaml.SafeLoader)
    except yaml.YAMLError as cause:
        mark = getattr(cause, "problem_mark", None)
        problem = getattr(cause, "problem", None) or cause
        raise YamlError(f"is not YAML: {problem}", mark.line + 1 if mark else None) from cause
    except RecursionError as cause:
        raise YamlError(NESTED) from cause
    except (
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
    ) as cause:  # PyYAML's own: `!!int ''`, `!!bool x`, `!!omap x`
        raise YamlError(
            f"contains a value that cannot be read ({str(cause).partition(chr(10))[0]})"
        ) from cause


NESTED = f"is nested too deeply; at most {MOST_NESTED} levels are read"


def _read(text: str, reader: Any) -> Any:
    _refuse_shape(text, reader)
    loader = reader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        # Check this first, because the following steps join surrogates in texts and construct the
        # values of keys.
        _refuse_expansion(root)
        _refuse_keys_given_twice(root, loader)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _refuse_shape(text: str, reader: Any) -> None:
    """Reject deep nesting and too many values by counting parser events.

    libyaml's composer recurses in C without a limit, so 100,000 opening brackets end the process
    with SIGSEGV. Its events arrive one by one and need no recursion. Reading them first takes a
    seventh longer.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=reader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.NodeEvent):
            values += 1
        if depth > MOST_NESTED:
            raise YamlError(NESTED, event.start_mark.line + 1)
        if values > MOST_VALUES:
            raise YamlError(f"has more than {MOST_VALUES:,} values; write fewer")


def _refuse_expansion(root: yaml.Node) -> None:
    """Reject aliases that expand to too many values, before anything copies or prints them."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, counted = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            node.value = _whole_text(node)
            continue
        if sizes.get(id(node), 0) > 0:
            continue
        inner = (
            [p for pair in node.value for p in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        if not counted:
            if id(node) in sizes:  # this node is already being counted
                raise YamlError(
                    "has a value that contains itself; write it out", node.start_mark.line + 1
                )
            sizes[id(node)] = 0
            waiting.append((node, True))
            waiting += [(part, False) for part in inner]
            continue
        sizes[id(node)] = 1 + sum(sizes.get(id(part), 1) for part in inner)
        if sizes[id(node)] > MOST_VALUES:
            raise YamlError(
                f"has aliases that expand to more than {MOST_VALUES:,} values",
                node.start_mark.line + 1,
            )


def _whole_text(node: yaml.ScalarNode) -> str:
    """Join surrogate pairs (JSON's escape for code points above U+FFFF) in a scalar. Raises an
    error for a lone surrogate.
    """
    text: str = node.value
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise YamlError("contains half of a surrogate pair", node.start_mark.line + 1) from None
    return text


def _refuse_keys_given_twice(root: yaml.Node, loader: Any) -> None:
    """Reject repeated keys before values are constructed, because merging (`<<`) repeats keys
    legitimately.
    """
    waiting, met = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        inner = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            _refuse_twice(node, loader)
            inner = [part for pair in node.value for part in pair]
        fresh = [part for part in inner if id(part) not in met]
        met.update(map(id, fresh))
        waiting += reversed(fresh)


def _refuse_twice(node: yaml.MappingNode, loader: Any) -> None:
    lines: dict[Hashable, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue  # not hashable: rejected when values are constructed
        value, line = (
            key.value if key.tag in KEYS_OF_YAML else loader.construct_object(key),
            key.start_mark.line + 1,
        )
        if value in lines:
            before = f", first in line {lines[value]}" if lines[value] != line else ""
            raise RepeatedKeyError(f"gives '{key.value}' twice{before}; keep one", line)
        lines[value] = line


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
"""Taskloom's wording for some of pydantic's errors, by error type."""

MOST_PROBLEMS = 4
"""Maximum number of problems in one error. A file of another kind has an unknown key on every
line.
"""


def validated(model: type[M], data: Any, where: str, error: type[TaskloomError]) -> M:
    """Convert data to a model. Raises an error with one sentence if the data do not fit.

    Args:
        model: Model of the data.
        data: Plain values.
        where: Source of the data, for the error.
        error: Type of the error.
    """
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        raise error(explain(problem, model, where)) from problem
    except UnicodeEncodeError:  # pydantic writes names as UTF-8
        raise error(
            f"{where}: a name contains half of a surrogate pair; write it in full"
        ) from None


def explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """Explain pydantic's errors in one sentence: location, problem, remedy."""
    parts: dict[str, list[str]] = {}
    for item in error.errors():
        # For a union, pydantic appends the alternative that it tried to the location.
        path = tuple(
            p
            for p in item["loc"]
            if not re.fullmatch(r"constrained-\w+|literal\[.*\]|function-.*", str(p))
        )
        place = ".".join(str(p) for p in path)
        if item["type"] == "extra_forbidden":
            known = _known(model, item["loc"][:-1])
            parts.setdefault(f"\0{place}", []).append(
                f"unknown key '{place}'; {nearest(str(path[-1]), known)}"
            )
            continue
        message = PLAINLY.get(item["type"]) or item["msg"].removeprefix("Value error, ").replace(
            "Input should", "should"
        )
        if (
            item["type"] == "model_type"
        ):  # pydantic would name an internal class, which users do not know
            known = _known(model, item["loc"])
            message = (
                f"should be a mapping, e.g. {{{known[0]}: …}}" if known else "should be a mapping"
            )
        given = "" if item["type"] in ("value_error", "missing") else f", not {echo(item['input'])}"
        parts.setdefault(place, []).append(message + given if not parts.get(place) else message)
    sentences = [
        "; ".join(messages) if place[:1] in ("", "\0") else f"{place}: {' or '.join(messages)}"
        for place, messages in parts.items()
    ]
    more = (
        [f"and {len(sentences) - MOST_PROBLEMS} more problems"]
        if len(sentences) > MOST_PROBLEMS + 1
        else []
    )
    return f"{where}: " + "; ".join([*sentences[: MOST_PROBLEMS if more else None], *more])


def _known(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the field names at a location inside a model, as far as types determine them.

    A location consists of field names, mapping keys, list indices, and tags of the union member
    that pydantic chose.
    """
    parts = [*_parts(model)]
    for step in place:
        inside: list[Any] = []
        for part in parts:
            if _tag(part) == step:
                inside += _parts(part)
            elif _is_model(part) and step in part.model_fields:
                inside += _parts(part.model_fields[step].annotation)
        # A key or an index leads to one of the item types.
        parts = inside or parts
    names: set[str] = set()
    for part in parts:
        if _is_model(part):
            names |= part.model_fields.keys()
    return sorted(names)


def _parts(kind: Any) -> Iterator[Any]:
    """Yield a type and all types inside it: members of unions, items of lists and mappings."""
    yield kind
    for part in get_args(kind):
        yield from _parts(part)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _tag(kind: Any) -> str | None:
    """Return the tag of a union member, or None for other types."""
    for one in getattr(kind, "__metadata__", ()):
        if isinstance(one, Tag):
            return one.tag
    return None
