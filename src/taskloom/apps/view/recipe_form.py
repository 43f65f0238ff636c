"""A form for the recipes of a suite, generated from the pydantic model of its fields (kinds,
defaults, help, choices). Input arrives as texts by dotted names. A list or mapping of field groups
is entered member by member (`groups.0.events`); `splits.0.` holds the name of a mapping's member.
Values that the form cannot show in this way, such as a split with nested groups, are entered as
YAML.
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
from taskloom.core.registry import SUITES
from taskloom.recipe.field_table import meaning
from taskloom.recipe.fields import Choices, Kind, Span, models_in, walk
from taskloom.recipe.yaml_files import YamlError, parse

KINDS: dict[Kind, str] = {
    "draw": "Examples",
    "world": "The world",
    "presentation": "Presentation",
}
"""Headings of the form's sections, by the kind of their fields."""

LONGEST = 20_000
"""Maximum characters of one value. Longer recipes are written in an editor."""

MOST_OPEN = 12
"""Maximum fields at their defaults before a form folds them away."""

MISSING: Any = object()
"""Marks a field that a recipe does not set. None cannot, because `null` is a value."""

MOST_MEMBERS = 50
"""Maximum members of a list or mapping, such as splits, that are entered one by one."""

MEMBER = re.compile(r"[0-9]{1,3}")
"""Index of a member in a dotted name."""

Control = Literal[
    "choice", "choices", "flag", "number", "span", "weights", "words", "members", "yaml"
]


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the form.

    Attributes:
        path: Its dotted name.
        kind: Its kind, which decides its section of the form.
        control: Its form control; `yaml` for values that no other control fits.
        help: Its help text.
        default: Its default as YAML; empty if it is required.
        options: The values to choose from, each with a short description.
        slider: Scale of its slider: `size`, `share`, or the two ends of a range; empty: no slider.
        members: For a list or a mapping of groups, the fields of a member, each with its help text.
        value: The entered text; empty for the default.
        chosen: The chosen options, if there may be several.
        weights: The weights of the chosen options, as texts, unless all are 1.
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
        """Its name as shown in the form.

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
        """The ticked options: those chosen, or the default."""
        if self.chosen or self.value:
            return self.chosen
        default = parse_or(self.default)
        return tuple(map(str, default)) if isinstance(default, list | dict) else ()

    @property
    def rows(self) -> int:
        """Height of its text area in lines."""
        return min(16, max(1 if self.control != "yaml" else 2, self.value.count("\n") + 1))


LABELS = {"n": "Number of examples"}
"""Labels of fields whose names are abbreviations."""


@dataclass(frozen=True, slots=True)
class FormMember:
    """A group of fields in a list or a mapping, such as a group of stories or a split.

    Attributes:
        path: Its dotted name, with its index.
        key: Its name, if it is a member of a mapping; None in a list.
        shown: The fields that are shown at once.
        folded: The fields that are folded away, all at their default.
    """

    path: str
    key: str | None
    shown: tuple[FormField, ...]
    folded: tuple[FormField, ...]

    @property
    def title(self) -> str:
        """Its title: its name and the entered values."""
        values = [_in_title(one) for one in self.shown]
        parts = [self.key or "", *values[:TITLE_PARTS]]
        return " · ".join(text for text in parts if text and len(text) <= TITLE)


def _in_title(one: FormField) -> str:
    """The entered value, with the name of the field if it is a number."""
    text = one.value or ", ".join(one.chosen)
    if one.name == "n" and text.isdecimal():
        return f"{int(text):,} examples"
    return f"{one.name} {text}" if text and one.control in ("number", "span") else text


TITLE_PARTS = 4
"""Maximum values in the title of a member."""

TITLE = 40
"""Maximum characters of a value in the title of a member."""


@dataclass(frozen=True, slots=True)
class RecipeForm:
    """A form with its input.

    Attributes:
        suite: The suite.
        fields: Its fields, in the order of the model.
        data: The recipe, without values that cannot be read.
        problems: Error messages for values that cannot be read, by the path of the field.
        foremost: The names of the fields that are never folded away.
    """

    suite: str
    fields: tuple[FormField, ...]
    data: dict[str, Any]
    problems: dict[str, str] = field(default_factory=dict)
    foremost: tuple[str, ...] = ()

    @property
    def ease(self) -> tuple[int, int]:
        """Sort key for how well the form shows its input: minus the number of fields that are
        entered as YAML, then the number of fields that are entered member by member.
        """
        as_yaml = sum(bool(f.value) and f.control in ("yaml", "members") for f in self.fields)
        return -as_yaml, sum(bool(f.entries) for f in self.fields)

    def parts(self, folded: bool = False) -> list[tuple[str, list[FormField]]]:
        """The sections of the form: headings with their fields.

        Args:
            folded: True to return the fields that a long form folds away, instead of the others:
                those at their defaults, without a problem, and not among the suite's foremost ones.
        """
        at_default = [f for f in self.fields if not f.given and f.path not in self.problems]
        hidden = at_default if len(at_default) > MOST_OPEN else []
        hidden = [f for f in hidden if f.path.partition(".")[0] not in self.foremost]
        shown = [f for f in self.fields if (f in hidden) == folded]
        grouped = [(title, [f for f in shown if f.kind == kind]) for kind, title in KINDS.items()]
        return [(title, fields) for title, fields in grouped if fields]

    def yaml(self) -> str:
        """Text of the recipe file."""
        return as_yaml(self.data) + "\n"

    def field_of(self, sentence: str) -> str:
        """Path of the field that an error message is about; empty if there is none."""
        rest = sentence.removeprefix("the recipe: ")
        paths = {one.path: one.path for one in self.fields}
        for one in self.fields:
            for member in one.entries:
                # Errors identify a split by its name, the form by its index.
                named = member.path if member.key is None else f"{one.path}.{member.key}"
                inner = (*member.shown, *member.folded)
                paths |= {f"{named}.{f.name}": f.path for f in inner} | {named: member.path}
                # An error about several fields is reported for the whole group and names one of
                # them.
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
    """The fields of a model with their input. Adds their values to `data`.

    Args:
        model: The model.
        entered: Texts by dotted names.
        data: Mapping to which the entered values are added.
        problems: Mapping to which a message for every unreadable field is added.
        within: Dotted name of the member with these fields, with a trailing dot; empty at the top
            level.
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
    """Sorted indices of the entered members."""
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
    """The entered value of a list or mapping of groups, and its form field."""
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
    """The form input that corresponds to the data of a recipe."""
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
    """The form input of a list or mapping of groups; None if it has to be entered as YAML."""
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
        texts = entered_by(inner, group, f"{path}.{index}.")
        # A member without any value needs one empty text, so that the form shows the member.
        entered |= texts or {f"{path}.{index}.n": [""]}
    return entered


def _weight_texts(path: str, here: Mapping[Any, Any] | Sequence[Any]) -> dict[str, list[str]]:
    """The form input of names, or of names with weights."""
    entered = {path: [_text(name) for name in here]}
    if isinstance(here, Mapping) and any(weight != 1 for weight in here.values()):
        entered[f"{path}.weighted"] = ["on"]
        entered |= {f"{path}.{_text(name)}": [_text(weight)] for name, weight in here.items()}
    return entered


def changed(entered: Entered, add: str = "", remove: str = "") -> dict[str, Sequence[str]]:
    """The input after adding or removing a member.

    Args:
        entered: Texts by dotted names.
        add: The list or mapping to which a copy of its last member is added.
        remove: The dotted name of the member to remove.
    """
    texts = dict(entered)
    indices = _indices(texts, add) if add else []
    if indices and len(indices) < MOST_MEMBERS:
        last, new = f"{add}.{indices[-1]}.", f"{add}.{indices[-1] + 1}."
        copied = {name: texts[name] for name in texts if name.startswith(last)}
        # A copy is a different group, so its name is left empty for the user.
        unnamed = {last: [f"split-{indices[-1] + 2}"], f"{last}name": [""]}
        for name, value in (copied | {n: v for n, v in unnamed.items() if n in copied}).items():
            texts[new + name.removeprefix(last)] = value
    if remove:
        texts = {name: value for name, value in texts.items() if not name.startswith(f"{remove}.")}
    return texts


def command(form: RecipeForm, base: str, base_data: Mapping[str, Any]) -> str:
    """The command that makes this recipe from another one without a file; empty if the other one
    has fields that this one lacks.
    """
    # The form writes some values in a different way than the file, such as weights that are all
    # equal.
    fields = SUITES.get(form.suite).fields
    untouched = form_of(form.suite, fields, entered_by(fields, base_data)).data
    changes = []
    for one in form.fields:
        here, there = _get(form.data, one.path), _get(untouched, one.path)
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
    """YAML writer that repeats values instead of referring to them by aliases such as `*id001`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(value: Any) -> str:
    """Format a value as YAML in the style of recipe files."""
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
    """Parse a text as YAML; None if it is not valid YAML."""
    try:
        return parse(text)
    except YamlError:
        return None


@cache
def _fields(model: type[BaseModel]) -> tuple[FormField, ...]:
    """Form fields of a model. The fields of a nested group become fields of the form."""
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
                path=path,
                kind=kind or "draw",
                control=control,
                help=meaning(owner, path.rpartition(".")[2], info),
                default=_default(info),
                options=options,
                slider=_slider(path, control, info),
                members=own,
            )
        )
    return tuple(fields)


def is_group(info: FieldInfo) -> bool:
    """True if the value of a field is always a group of fields. One that may also be a text or null
    is entered as YAML.
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
    """The control of a field and its options; YAML unless a simpler one fits."""
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
    """True if the default of a field is a list of words that can be shown as check boxes."""
    words = info.get_default(call_default_factory=True)
    return isinstance(words, list | tuple) and 0 < len(words) <= MOST_TICKED


MOST_TICKED = 40
"""Maximum words of a default that are shown as check boxes."""


def _choices(info: FieldInfo) -> Choices | None:
    """The declared choices of a field, if any."""
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
    """Scale of a field's slider; empty for no slider."""
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
"""Upper end of the slider of a range without a default, such as the size of a support."""


def _is_listed(kind: Any) -> bool:
    """True if all values of a kind can be listed."""
    return kind is bool or get_origin(kind) is Literal


def _options(kind: Any) -> tuple[tuple[str, str], ...]:
    """The values of a boolean or a `Literal` as texts, without descriptions."""
    if kind is bool:
        return ("true", ""), ("false", "")
    return tuple((_text(value), "") for value in get_args(kind))


def _alternatives(annotation: Any) -> list[Any]:
    """The types that an annotation allows."""
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
    """A form field with its input."""
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
    """The names in the texts, which may be separated by commas."""
    return text.split(",") if one.control == "words" else [text]


def _value(one: FormField, texts: Sequence[str], sent: bool) -> Any:
    """The entered value; `MISSING` for the default.

    Args:
        one: The field with its input.
        texts: The texts.
        sent: True if the submitted form had the field. Then no ticked box means an empty list, not
            the default.
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
    except (ValueError, TypeError, RecursionError) as error:  # bytes, or a key that is not text
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
