"""A form for the recipes of a suite, generated from the model of its fields: kinds, defaults,
meaning, choices.

What is entered arrives as texts by dotted names. A list or mapping of groups of fields is entered
member by member (`groups.0.events`); the name of a member of a mapping is `splits.0.`. A value that
the form cannot show in this way, such as a split with groups of its own, is entered as YAML.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from taskloom.core.errors import RecipeError
from taskloom.recipe.field_table import meaning
from taskloom.recipe.fields import Choices, Kind, Span, models_in, walk
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

MOST_MEMBERS = 50
"""Maximum groups, or splits, that are entered one by one."""

MEMBER = re.compile(r"[0-9]{1,3}")
"""The index of a member in a dotted name."""

Control = Literal[
    "choice", "choices", "flag", "number", "span", "weights", "words", "members", "yaml"
]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the form.

    Attributes:
        path: Its dotted name.
        kind: What it is about.
        control: How it is entered; `yaml` for everything that has no control of its own.
        help: Its meaning.
        default: What it is unless given, as YAML; empty if it must be given.
        options: The values to choose from, each with a few words on it.
        slider: What its slider is about: `size`, `share`, or the two ends of a range.
        members: The fields of what it holds, each with its meaning, if it is a list or a mapping of
            groups.
        value: What was entered, as text; empty for the default.
        chosen: What was chosen, if several values may be.
        weights: The weights of chosen names, as texts, if they are not all 1.
        entries: The members that were entered.
    """

    path: str
    kind: Kind
    control: Control
    help: str
    default: str
    options: tuple[tuple[str, str], ...] = ()
    slider: str = ""
    members: tuple[tuple[str, str], ...] = ()
    value: str = ""
    chosen: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    entries: tuple[FormMember, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its dotted name."""
        return self.path.rpartition(".")[2]

    @property
    def label(self) -> str:
        """Its name for people.

        >>> FormField("splits.n", "draw", "number", "", "1").label
        'Number of examples'
        """
        return LABELS.get(self.name) or self.name.replace("_", " ").capitalize()

    @property
    def given(self) -> bool:
        """True if it was entered, or has no default."""
        return bool(self.value or self.chosen or self.entries or not self.default)

    @property
    def ticked(self) -> tuple[str, ...]:
        """The options that are ticked: those that were chosen, or the default."""
        if self.chosen or self.value:
            return self.chosen
        default = parse_or(self.default)
        return tuple(map(str, default)) if isinstance(default, list | dict) else ()

    @property
    def rows(self) -> int:
        """The lines of a text area that hold the value."""
        return min(16, max(1 if self.control != "yaml" else 2, self.value.count("\n") + 1))


LABELS = {"n": "Number of examples"}
"""Labels of fields whose names are abbreviations."""


@dataclass(frozen=True, slots=True)
class FormMember:
    """A group of fields in a list or a mapping, such as a group of stories or a split.

    Attributes:
        path: Its dotted name, with its index.
        key: Its name, if it is a member of a mapping; None in a list.
        shown: The fields that are open.
        folded: The fields that are folded away, all at their default.
    """

    path: str
    key: str | None
    shown: tuple[FormField, ...]
    folded: tuple[FormField, ...]

    @property
    def title(self) -> str:
        """What it is called: its name, and what was entered of it."""
        values = [_in_title(one) for one in self.shown]
        parts = [self.key or "", *values[:TITLE_PARTS]]
        return " · ".join(text for text in parts if text and len(text) <= TITLE)


def _in_title(one: FormField) -> str:
    """What was entered, with the name of the field if it is a number."""
    text = one.value or ", ".join(one.chosen)
    return f"{one.name} {text}" if text and one.control in ("number", "span") else text


TITLE_PARTS = 4
"""Maximum values that the title of a member repeats."""

TITLE = 40
"""Maximum characters of a value that the title of a member repeats."""


@dataclass(frozen=True, slots=True)
class RecipeForm:
    """A form with what was entered into it.

    Attributes:
        suite: The suite.
        fields: Its fields, in the order of the model.
        data: The recipe, as far as it can be read.
        problems: Sentences on what cannot be read, by the path of the field.
        foremost: The names of the fields that are never folded away.
    """

    suite: str
    fields: tuple[FormField, ...]
    data: dict[str, Any]
    problems: dict[str, str] = field(default_factory=dict)
    foremost: tuple[str, ...] = ()

    @property
    def ease(self) -> tuple[int, int]:
        """How well the form shows what was entered: fields as YAML (negative), then groups of
        fields that are entered one by one.
        """
        as_yaml = sum(bool(f.value) and f.control in ("yaml", "members") for f in self.fields)
        return -as_yaml, sum(bool(f.entries) for f in self.fields)

    def parts(self, folded: bool = False) -> list[tuple[str, list[FormField]]]:
        """The fields by kind, with a heading each.

        Args:
            folded: Those that a long form folds away: at their default, without a problem, and not
                among the foremost ones of the suite.
        """
        at_default = [f for f in self.fields if not f.given and f.path not in self.problems]
        hidden = at_default if len(at_default) > MOST_OPEN else []
        hidden = [f for f in hidden if f.path.partition(".")[0] not in self.foremost]
        shown = [f for f in self.fields if (f in hidden) == folded]
        grouped = [(title, [f for f in shown if f.kind == kind]) for kind, title in KINDS.items()]
        return [(title, fields) for title, fields in grouped if fields]

    def yaml(self) -> str:
        """Return the recipe as a file."""
        return as_yaml(self.data) + "\n"

    def field_of(self, sentence: str) -> str:
        """The path of the field that an error is about; empty if it is about none of them."""
        rest = sentence.removeprefix("the recipe: ")
        paths = {one.path: one.path for one in self.fields}
        for one in self.fields:
            for member in one.entries:
                # An error calls a split by its name, the form by its index.
                named = member.path if member.key is None else f"{one.path}.{member.key}"
                inner = (*member.shown, *member.folded)
                paths |= {f"{named}.{f.name}": f.path for f in inner} | {named: member.path}
                # A rule over several fields is broken by the whole group, and names one of them.
                paths |= {f"{named}: {f.name}": f.path for f in inner}
        for path in sorted(paths, key=len, reverse=True):
            if rest.startswith((f"{path}:", f"{path}.")):
                return paths[path]
        return ""


Entered = Mapping[str, Sequence[str]]
"""Texts by the dotted names of fields."""


def form_of(suite: str, model: type[BaseModel], entered: Entered) -> RecipeForm:
    """Build the form of a suite with what was entered.

    Args:
        suite: The suite's name.
        model: The model of its fields.
        entered: Texts by the dotted names of fields.
    """
    data: dict[str, Any] = {"suite": suite}
    problems: dict[str, str] = {}
    fields = _filled(model, entered, data, problems)
    foremost = getattr(model, "foremost", ())
    return RecipeForm(suite, tuple(fields), data, problems, foremost)


def _filled(
    model: type[BaseModel],
    entered: Entered,
    data: dict[str, Any],
    problems: dict[str, str],
    within: str = "",
) -> list[FormField]:
    """The fields of a model with what was entered; their values go into `data`.

    Args:
        model: The model.
        entered: Texts by dotted names.
        data: Gets the values that were entered.
        problems: Gets a sentence for every field that cannot be read.
        within: The dotted name of the member that has these fields, with a dot at its end.
    """
    fields = []
    for one in _fields(model):
        path = within + one.path
        indices = _indices(entered, path) if one.control == "members" else []
        if indices:
            values, filled = _members(model, replace(one, path=path), entered, indices, problems)
        else:
            texts = [text.strip() for text in entered.get(path, ()) if text.strip()]
            filled = _with_value(replace(one, path=path), texts, entered)
            try:
                values = _value(filled, texts, path in entered)
            except RecipeError as error:
                problems[path] = str(error)
                values = MISSING
        if values is not MISSING:
            _put(data, one.path, values)
        fields.append(filled)
    return fields


def _indices(entered: Entered, path: str) -> list[int]:
    """The indices of the members that were entered, in order."""
    starts = [name.removeprefix(f"{path}.") for name in entered if name.startswith(f"{path}.")]
    heads = {head for head, dot, _ in (start.partition(".") for start in starts) if dot}
    return sorted(int(head) for head in heads if MEMBER.fullmatch(head))


def _members(
    model: type[BaseModel],
    one: FormField,
    entered: Entered,
    indices: Sequence[int],
    problems: dict[str, str],
) -> tuple[Any, FormField]:
    """What was entered of a list or a mapping of groups, and its field of the form."""
    name = one.path
    if len(indices) > MOST_MEMBERS:
        problems[name] = f"{name}: at most {MOST_MEMBERS} are entered here; write a file for more"
        return MISSING, one
    info = model.model_fields[one.path]
    inner, mapped = _member_model(info)
    assert inner is not None
    foremost = getattr(inner, "foremost", ())
    listed, named, entries = [], {}, []
    for place, index in enumerate(indices):
        within = f"{name}.{index}."
        data: dict[str, Any] = {}
        fields = _filled(inner, entered, data, problems, within)
        key = "".join(entered.get(within, ())).strip() if mapped else None
        if mapped and (not key or key in named):
            problems[name] = f"{name}: every member needs a name of its own"
        open_ = [f for f in fields if f.given or f.name in foremost or f.path in problems]
        open_.sort(key=lambda f: foremost.index(f.name) if f.name in foremost else len(foremost))
        folded = tuple(f for f in fields if f not in open_)
        entries.append(FormMember(f"{name}.{index}", key, tuple(open_), folded))
        listed.append(data)
        named[key or str(place)] = data
    return named if mapped else listed, replace(one, entries=tuple(entries))


def entered_by(
    model: type[BaseModel], data: Mapping[str, Any], within: str = ""
) -> dict[str, list[str]]:
    """The texts that a form would have for a recipe that is given as data."""
    entered: dict[str, list[str]] = {}
    for one in _fields(model):
        here = _get(data, one.path)
        if here is MISSING:
            continue
        path = within + one.path
        members = _member_texts(model, one, here, path) if one.control == "members" else None
        if members is not None:
            entered |= members
        elif one.control in ("choices", "words") and isinstance(here, list):
            entered[path] = [_text(value) for value in here]
        elif one.control == "weights" and isinstance(here, dict | list):
            entered |= _weight_texts(path, here)
        else:
            entered[path] = [_text(here)]
    return entered


def _member_texts(
    model: type[BaseModel], one: FormField, here: Any, path: str
) -> dict[str, list[str]] | None:
    """The texts of a list or a mapping of groups; None if it is better entered as YAML."""
    inner, mapped = _member_model(model.model_fields[one.path])
    if inner is None or not isinstance(here, dict if mapped else list):
        return None
    if not 0 < len(here) <= MOST_MEMBERS:
        return None
    entered: dict[str, list[str]] = {}
    items = here.items() if isinstance(here, dict) else enumerate(here)
    for index, (key, value) in enumerate(items):
        group = {"n": value} if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(group, dict) or not group.keys() <= inner.model_fields.keys():
            return None
        if mapped:
            entered[f"{path}.{index}."] = [str(key)]
        entered |= entered_by(inner, group, f"{path}.{index}.") or {f"{path}.{index}.n": [""]}
    return entered


def _weight_texts(path: str, here: Mapping[Any, Any] | Sequence[Any]) -> dict[str, list[str]]:
    """The texts of names, or of names with weights."""
    entered = {path: [_text(name) for name in here]}
    if isinstance(here, Mapping) and any(weight != 1 for weight in here.values()):
        entered[f"{path}.weighted"] = ["on"]
        entered |= {f"{path}.{_text(name)}": [_text(weight)] for name, weight in here.items()}
    return entered


def changed(entered: Entered, add: str = "", remove: str = "") -> dict[str, Sequence[str]]:
    """What was entered, with a member more or less.

    Args:
        entered: Texts by dotted names.
        add: The list or mapping that gets a copy of its last member.
        remove: The dotted name of the member to leave out.
    """
    texts = dict(entered)
    indices = _indices(texts, add) if add else []
    if indices and len(indices) < MOST_MEMBERS:
        last, new = f"{add}.{indices[-1]}.", f"{add}.{indices[-1] + 1}."
        copied = {name: texts[name] for name in texts if name.startswith(last)}
        # A copy is another group: what it is called is left to the writer.
        unnamed = {last: [f"split-{indices[-1] + 2}"], f"{last}name": [""]}
        for name, value in (copied | {n: v for n, v in unnamed.items() if n in copied}).items():
            texts[new + name.removeprefix(last)] = value
    if remove:
        texts = {name: value for name, value in texts.items() if not name.startswith(f"{remove}.")}
    return texts


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


@cache
def _fields(model: type[BaseModel]) -> tuple[FormField, ...]:
    """The fields of a model; a group of fields is entered field by field."""
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
                _slider(path, control, info),
                own,
            )
        )
    return tuple(fields)


def is_group(info: FieldInfo) -> bool:
    """True if a field is a group of fields and nothing else: one that may also be a text or
    nothing is entered as YAML.
    """
    kinds = _alternatives(info.annotation)
    return len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)


def _list_control(
    info: FieldInfo, inner: Sequence[Any]
) -> tuple[Control, tuple[tuple[str, str], ...]] | None:
    """The control of a list of `inner`, and its options; None if only YAML fits."""
    if not inner:
        return None
    if get_origin(inner[0]) is Literal:
        return "choices", _options(inner[0])
    if inner[0] is str and not info.is_required() and _few_words(info):
        words = info.get_default(call_default_factory=True)
        return "words", tuple((word, "") for word in words)
    return None


def _control(info: FieldInfo) -> tuple[Control, tuple[tuple[str, str], ...]]:
    """The control that a field is entered with, and its options; YAML unless something simpler
    fits.
    """
    kinds = [kind for kind in _alternatives(info.annotation) if kind is not NoneType]
    offered = _choices(info)
    if offered is not None:
        weighted = any(get_origin(kind) is dict for kind in kinds)
        return "weights" if weighted else "choices", offered.names
    if kinds == [bool]:
        return "flag", _options(bool)
    if kinds in ([int], [float]):
        return "number", ()
    if kinds == [Span]:
        return "span", ()
    if kinds and all(map(_is_listed, kinds)):
        return "choice", tuple(option for kind in kinds for option in _options(kind))
    if len(kinds) == 1 and get_origin(kinds[0]) in (list, tuple):
        listed = _list_control(info, get_args(kinds[0]))
        if listed is not None:
            return listed
    if _member_model(info)[0] is not None:
        return "members", ()
    return "yaml", ()


def _few_words(info: FieldInfo) -> bool:
    """True if the default of a field is a list of words that can be ticked."""
    words = info.get_default(call_default_factory=True)
    return isinstance(words, list | tuple) and 0 < len(words) <= MOST_TICKED


MOST_TICKED = 40
"""Maximum words of a default that are ticked one by one."""


def _choices(info: FieldInfo) -> Choices | None:
    """The names that a field offers, if it says so."""
    found = [one for one in info.metadata if isinstance(one, Choices)]
    for part in get_args(info.annotation):
        if get_origin(part) is Annotated:
            found += [one for one in get_args(part) if isinstance(one, Choices)]
    return found[0] if found else None


def _member_model(info: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The model of the members of a list or a mapping of groups, and whether they have names."""
    kinds = [get_origin(kind) for kind in _alternatives(info.annotation) if kind is not NoneType]
    inside = [model for model, within in models_in(info.annotation) if within]
    if len(kinds) != 1 or kinds[0] not in (list, tuple, dict) or not inside:
        return None, False
    return inside[0], kinds[0] is dict


def _slider(path: str, control: Control, info: FieldInfo) -> str:
    """What a slider of a field goes over; empty if it gets none."""
    if control not in ("number", "span"):
        return ""
    if path.rpartition(".")[2] == "n":
        return "size"
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if control == "span":
        return f"1 {max(SPAN, 2 * default.high)}" if default else f"1 {SPAN}"
    low = None
    for bound in info.metadata:
        if low is None:
            low = getattr(bound, "ge", getattr(bound, "gt", None))
    high = next((one.le for one in info.metadata if hasattr(one, "le")), None)
    if (low, high) == (0, 1):
        return "share"
    if low is None or not isinstance(default, int):
        return ""
    return f"{low} {min(high or 10**9, max(10, 4 * default))}"


SPAN = 15
"""The end of the slider of a range whose field has no default, such as the size of a support."""


def _is_listed(kind: Any) -> bool:
    """True if all values of a kind can be listed."""
    return kind is bool or get_origin(kind) is Literal


def _options(kind: Any) -> tuple[tuple[str, str], ...]:
    """The values of a truth value or a `Literal`, as texts, with nothing to say of them."""
    if kind is bool:
        return ("true", ""), ("false", "")
    return tuple((_text(value), "") for value in get_args(kind))


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
    if isinstance(default, Span):
        return str(default)
    try:
        return _flow(to_jsonable_python(default, fallback=str))
    except yaml.YAMLError:
        return str(default)


def _with_value(one: FormField, texts: Sequence[str], entered: Entered) -> FormField:
    """A field of the form with what was entered."""
    if one.control not in ("choices", "words", "weights"):
        return replace(one, value=texts[0][:LONGEST] if texts else "")
    names = [part.strip() for text in texts for part in _parts(one, text)]
    known = [name for name, _ in one.options]
    others = tuple((name, "") for name in dict.fromkeys(names) if name and name not in known)
    weights = {}
    if "on" in entered.get(f"{one.path}.weighted", ()):
        weights = {name: "".join(entered.get(f"{one.path}.{name}", ())) for name in names}
    return replace(
        one,
        options=(*one.options, *others),
        chosen=tuple(dict.fromkeys(name for name in names if name)),
        weights=weights,
    )


def _parts(one: FormField, text: str) -> list[str]:
    """The names in a text: words may be typed with commas between them."""
    return text.split(",") if one.control == "words" else [text]


def _value(one: FormField, texts: Sequence[str], sent: bool) -> Any:
    """The value that was entered; missing if that is the default.

    Args:
        one: The field, with what was entered.
        texts: The texts.
        sent: True if the form had the field: then nothing ticked is nothing, not the default.
    """
    if one.control not in ("choices", "words", "weights"):
        return _parsed(one, texts[0]) if texts else MISSING
    default = parse_or(one.default)
    if not one.chosen:
        return [] if sent and default and one.default != "null" else MISSING
    if one.control == "words":
        return MISSING if list(one.chosen) == default else list(one.chosen)
    names = [_parsed(one, text) for text in one.chosen]
    if one.control == "choices":
        return MISSING if names == default else names
    if len(names) == 1 and isinstance(names[0], dict | list):  # a mapping that was typed as YAML
        return names[0]
    weights = [_parsed(one, one.weights.get(text) or "1") for text in one.chosen]
    try:
        weighted = dict(zip(names, weights, strict=True))
    except TypeError:
        raise RecipeError(f"{one.path}: write names, not {one.chosen[0][:80]}") from None
    if weighted == default:
        return MISSING
    return names if all(weight == 1 for weight in weights) else weighted


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
