"""Reading YAML: the one way in for recipes, experiments, values of `set` and the configurations of runs.

YAML's own readers let a key that is given twice lose its first value; here that is an error like any other, with its line.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from taskloom.core.errors import TaskloomError
from taskloom.core.files import read_utf8

OURS: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Seven times faster, but 100,000 brackets in a row make it crash: for what we wrote ourselves."""

KEYS_OF_YAML = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
"""`<<` and `=`: keys that YAML gives a meaning, and no value of their own."""


MOST_VALUES = 10_000_000
"""With its aliases written out. A file of this many values has a hundred megabytes; an alias bomb of nine lines has more."""


class YamlError(TaskloomError):
    """A text that is not YAML, or would lose a value. The message continues after the place: `is not YAML: …`.

    Attributes:
        line: Where, from 1; None where that is not known.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class RepeatedKeyError(YamlError):
    """A key that is given twice, so that its first value would be lost."""


def load(path: Path, error: type[TaskloomError], *, ours: bool = False) -> Any:
    """Load the value in a file, `ours` if this package brings it; raise an `error` that names file and line of what is wrong."""
    try:
        return parse(read_utf8(path, error), ours=ours)
    except YamlError as cause:
        raise error(f"{path}{f':{cause.line}' if cause.line else ''} {cause}") from cause


def parse(text: str, *, ours: bool = False) -> Any:
    """Parse a text.

    Args:
        text: YAML; JSON is a part of it.
        ours: Whether we wrote it: then it is read fast, and trusted not to be nested without end.
    """
    try:
        loader = (OURS if ours else yaml.SafeLoader)(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _refuse_expansion(root)  # first: it makes texts whole, and comparing keys makes their values
            _refuse_keys_given_twice(root, loader)
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as cause:
        mark = getattr(cause, "problem_mark", None)
        problem = getattr(cause, "problem", None) or cause
        raise YamlError(f"is not YAML: {problem}", mark.line + 1 if mark else None) from cause
    except RecursionError as cause:
        raise YamlError("is nested too deeply") from cause
    except (
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
    ) as cause:  # PyYAML's own: `!!int ''`, `!!bool x`, `!!omap x`
        raise YamlError(f"holds a value that cannot be read ({str(cause).partition(chr(10))[0]})") from cause


def _refuse_expansion(root: yaml.Node) -> None:
    """Refuse aliases that stand for more values than anybody writes, before something copies or prints them all."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, counted = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            node.value = _whole_text(node)
            continue
        if sizes.get(id(node), 0) > 0:
            continue
        inner = [p for pair in node.value for p in pair] if isinstance(node, yaml.MappingNode) else node.value
        if not counted:
            if id(node) in sizes:  # it is being counted already
                raise YamlError("has a value that contains itself; write it out", node.start_mark.line + 1)
            sizes[id(node)] = 0
            waiting.append((node, True))
            waiting += [(part, False) for part in inner]
            continue
        sizes[id(node)] = 1 + sum(sizes.get(id(part), 1) for part in inner)
        if sizes[id(node)] > MOST_VALUES:
            raise YamlError(f"has aliases that stand for more than {MOST_VALUES:,} values", node.start_mark.line + 1)


def _whole_text(node: yaml.ScalarNode) -> str:
    """Return a scalar with its surrogate pairs joined, as JSON writes what is beyond 16 bits; refuse half of a pair."""
    text: str = node.value
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise YamlError("has half of a character (a lone surrogate)", node.start_mark.line + 1) from None
    return text


def _refuse_keys_given_twice(root: yaml.Node, loader: Any) -> None:
    """Refuse a key that is given twice, before values are made: merging writes keys twice into a mapping, as it should."""
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
            continue  # no key that Python can hold: refused when values are made
        value, line = key.value if key.tag in KEYS_OF_YAML else loader.construct_object(key), key.start_mark.line + 1
        if value in lines:
            before = f", first in line {lines[value]}" if lines[value] != line else ""
            raise RepeatedKeyError(f"gives '{key.value}' twice{before}; keep one", line)
        lines[value] = line
