"""A form for the recipes of a suite, generated from the model of its fields: kinds, defaults,
meaning, choices.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from taskloom.core.errors import RecipeError
from taskloom.recipe.field_table import meaning
from taskloom.recipe.fields import Kind, walk
from taskloom.recipe.yaml_files import YamlError, parse

KINDS: dict[Kind, str] = {
    "draw": "Which examples a split has",
    "world": "What is true in the world",
    "presentation": "How an example is written",
}
"""The parts of the form, by the kind of the fields in them."""

LONGEST = 20_000
"""Characters of one value; a recipe with more is written in an editor."""

MOST_OPEN = 12
"""Maximum fields at their default of a form that folds nothing away."""

MISSING: Any = object()
"""Stands for a field that a recipe does not give; `null` is a value."""

Control = Literal["choice", "choices", "flag", "number", "yaml"]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the form.

    Attributes:
        path: Its dotted name.
        kind: What it is about.
        control: How it is entered; `yaml` for everything that is not one value.
        help: Its meaning.
        default: What it is unless given, as YAML; empty where it must be given.
        options: The values to choose from.
        members: The fields of what it holds, each with its meaning, where it is a list or a mapping
            of groups.
        value: What was entered, as text; empty for the default.
        chosen: What was chosen, where several values may be.
    """

    path: str
    kind: Kind
    control: Control
    help: str
    default: str
    options: tuple[str, ...] = ()
    members: tuple[tuple[str, str], ...] = ()
    value: str = ""
    chosen: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        """True if it was entered, or has no default."""
        return bool(self.value or self.chosen or not self.default)

    @property
    def rows(self) -> int:
        """The lines of a text area that hold the value."""
        return min(16, max(1 if self.control != "yaml" else 2, self.value.count("\n") + 1))


@dataclass(frozen=True, slots=True)
class RecipeForm:
    """A form with what was entered into it.

    Attributes:
        suite: The suite.
        fields: Its fields, in the order of the model.
        data: The recipe, as far as it can be read.
        problems: Sentences on what cannot be read, by the path of the field.
    """

    suite: str
    fields: tuple[FormField, ...]
    data: dict[str, Any]
    problems: dict[str, str] = field(default_factory=dict)

    def parts(self, folded: bool = False) -> list[tuple[str, list[FormField]]]:
        """Return the fields by kind, with a heading each.

        Args:
            folded: Those that a long form folds away: YAML fields with their default and no problem.
        """
        at_default = [f for f in self.fields if not f.given and f.path not in self.problems]
        yaml_fields = [f for f in at_default if f.control == "yaml"]
        hidden = yaml_fields if len(at_default) > MOST_OPEN else []
        shown = [f for f in self.fields if (f in hidden) == folded]
        grouped = [(title, [f for f in shown if f.kind == kind]) for kind, title in KINDS.items()]
        return [(title, fields) for title, fields in grouped if fields]

    def yaml(self) -> str:
        """Return the recipe as a file."""
        return as_yaml(self.data) + "\n"

    def field_of(self, sentence: str) -> str:
        """Return the path of the field that an error is about; empty where it is not about one."""
        rest = sentence.removeprefix("the recipe: ")
        for one in sorted(self.fields, key=lambda f: -len(f.path)):
            if rest.startswith((f"{one.path}:", f"{one.path}.")):
                return one.path
        return ""


def form_of(suite: str, model: type[BaseModel], entered: Mapping[str, Sequence[str]]) -> RecipeForm:
    """Build the form of a suite with what was entered.

    Args:
        suite: The suite's name.
        model: The model of its fields.
        entered: Texts by the dotted names of fields.
    """
    data: dict[str, Any] = {"suite": suite}
    problems: dict[str, str] = {}
    fields = []
    for one in _fields(model):
        texts = [text.strip() for text in entered.get(one.path, ()) if text.strip()]
        if texts:
            try:
                _put(data, one.path, _value(one, texts))
            except RecipeError as error:
                problems[one.path] = str(error)
        fields.append(_with_value(one, texts))
    return RecipeForm(suite, tuple(fields), data, problems)


def entered_by(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts that a form would have for a recipe that is given as data."""
    entered: dict[str, list[str]] = {}
    for one in _fields(model):
        here = _get(data, one.path)
        if here is MISSING:
            continue
        several = one.control == "choices" and isinstance(here, list)
        entered[one.path] = [_text(v) for v in here] if several else [_text(here)]
    return entered


def command(form: RecipeForm, base: str, base_data: Mapping[str, Any]) -> str:
    """Return the command that makes this recipe from another one without a file; empty where that
    one has fields this one lacks.
    """
    changes = []
    for one in form.fields:
        here, there = _get(form.data, one.path), _get(base_data, one.path)
        if here == there:
            continue
        if here is MISSING:
            return ""
        changes.append(f"--set {shlex.quote(f'{one.path}={_flow(here)}')}")
    return " ".join(
        [
            "taskloom make",
            shlex.quote(base),
            *changes,
            "-o",
            shlex.quote(f"data/{base.replace('/', '-')}"),
        ]
    )


class _Written(yaml.SafeDumper):
    """Writes a value that occurs twice twice: `*id001` is for programs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(value: Any) -> str:
    """Return a value as people write it in a recipe."""
    text: str = yaml.dump(
        value,
        Dumper=_Written,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )
    return text.strip()


def _flow(value: Any) -> str:
    text = yaml.safe_dump(
        value, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**6
    ).strip()
    return text.removesuffix("\n...").strip()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value if parse_or(value) == value else _flow(value)
    return as_yaml(value).removesuffix("\n...").strip()


def parse_or(text: str) -> Any:
    """Return what a text is as YAML; None where it is not YAML."""
    try:
        return parse(text)
    except YamlError:
        return None


def _fields(model: type[BaseModel]) -> list[FormField]:
    """Return the fields of a model; a group of fields is entered field by field."""
    places = list(walk(model, members=False))
    groups = [path for path, _, info, _ in places if is_group(info)]
    members = [
        (path, meaning(owner, path.rpartition(".")[2], info))
        for path, owner, info, _ in walk(model, members=True)
        if ".*." in path
    ]
    fields = []
    for path, owner, info, kind in places:
        above = path.rpartition(".")[0]
        if path in groups or (above and above not in groups):
            continue
        inner = f"{path}.*."
        own = tuple(
            (other.removeprefix(inner), text) for other, text in members if other.startswith(inner)
        )
        control, options = _control(info)
        fields.append(
            FormField(
                path,
                kind or "draw",
                control,
                meaning(owner, path.rpartition(".")[2], info),
                _default(info),
                options,
                members=own,
            )
        )
    return fields


def is_group(info: FieldInfo) -> bool:
    """True if a field is a group of fields and nothing else: one that may also be a text or
    nothing is entered as YAML.
    """
    kinds = _alternatives(info.annotation)
    return len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)


def _control(info: FieldInfo) -> tuple[Control, tuple[str, ...]]:
    """The control that a field is entered with, and its options; YAML unless something simpler
    fits.
    """
    kinds = [kind for kind in _alternatives(info.annotation) if kind is not NoneType]
    if kinds == [bool]:
        return "flag", _options(bool)
    if kinds in ([int], [float]):
        return "number", ()
    if kinds and all(map(_is_listed, kinds)):
        return "choice", tuple(option for kind in kinds for option in _options(kind))
    if len(kinds) == 1 and get_origin(kinds[0]) in (list, tuple):
        inner = get_args(kinds[0])
        if inner and get_origin(inner[0]) is Literal:
            return "choices", _options(inner[0])
    return "yaml", ()


def _is_listed(kind: Any) -> bool:
    """True if all values of a kind can be listed."""
    return kind is bool or get_origin(kind) is Literal


def _options(kind: Any) -> tuple[str, ...]:
    """The values of a truth value or a `Literal`, as texts."""
    if kind is bool:
        return "true", "false"
    return tuple(_text(value) for value in get_args(kind))


def _alternatives(annotation: Any) -> list[Any]:
    """Return the kinds of value that an annotation allows."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _alternatives(part)]
    return [annotation]


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return ""
    default = (
        info.get_default(call_default_factory=True)
        if not info.default_factory_takes_validated_data
        else None
    )
    if default is PydanticUndefined or default is None:
        return "null"
    try:
        return _flow(to_jsonable_python(default, fallback=str))
    except yaml.YAMLError:
        return str(default)


def _with_value(one: FormField, texts: Sequence[str]) -> FormField:
    several = one.control == "choices"
    return FormField(
        one.path,
        one.kind,
        one.control,
        one.help,
        one.default,
        one.options,
        one.members,
        "" if several or not texts else texts[0][:LONGEST],
        tuple(texts) if several else (),
    )


def _value(one: FormField, texts: Sequence[str]) -> Any:
    if one.control == "choices":
        return [_parsed(one, text) for text in texts]
    return _parsed(one, texts[0])


def _parsed(one: FormField, text: str) -> Any:
    if len(text) > LONGEST:
        raise RecipeError(
            f"{one.path}: a value has at most {LONGEST:,} characters here; write the recipe in a"
            " file"
        )
    try:
        value = parse(text)
        json.dumps(to_jsonable_python(value))
    except YamlError as error:
        raise RecipeError(f"{one.path}: the value {error}") from error
    except (ValueError, TypeError, RecursionError) as error:  # bytes, or a key that is no text
        raise RecipeError(
            f"{one.path}: the value is not text, a number, a list or a mapping"
        ) from error
    return value


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *groups, last = path.split(".")
    for group in groups:
        data = data.setdefault(group, {})
    data[last] = value


def _get(data: Mapping[str, Any], path: str) -> Any:
    here: Any = data
    for part in path.split("."):
        here = here.get(part, MISSING) if isinstance(here, Mapping) else MISSING
    return here
