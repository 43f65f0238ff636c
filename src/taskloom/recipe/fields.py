"""Building blocks for recipe fields: the base model of suites' fields, sizes, ranges, `described`
and `parts`.

Every field has a kind: it defines the world, the draw of a split, or the presentation of an item.
Random streams depend only on world fields, so changing the presentation gives the same items in
another form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from taskloom.core.errors import RecipeError, echo
from taskloom.core.files import LATER, json_digest, later_defaults, path_of
from taskloom.core.plan import Level, Plan, Split
from taskloom.core.seeding import Key, Random

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = (int, float, int | None, float | None)

M = TypeVar("M", bound=BaseModel)

Kind = Literal["world", "draw", "presentation"]
"""Kind of a field. It determines what is true (`world`), which items a split has (`draw`), or how
an item is written (`presentation`).
"""


Paths = Literal["all", "marked"]
"""Which texts of a field are file paths: all of them, or only those with a dot, a slash or `~`. The
others are names.
"""


def world(default: Any = ..., **arguments: Any) -> Any:
    """Declare a field that defines what is true. Changing it changes every item. Accepts the
    arguments of pydantic's `Field`.
    """
    return declare("world", default, **arguments)


def draw(default: Any = ..., **arguments: Any) -> Any:
    """Declare a field that selects the items of a split. Changing it does not affect other
    splits.
    """
    return declare("draw", default, **arguments)


def presentation(default: Any = ..., **arguments: Any) -> Any:
    """Declare a field that defines how items are written. Changing it does not change the items
    themselves.
    """
    return declare("presentation", default, **arguments)


def declare(kind: Kind, default: Any = ..., paths: Paths | None = None, **arguments: Any) -> Any:
    """Declare a field whose kind is known only at run time, such as a knob of a task.

    Args:
        kind: Kind of the field.
        default: Default value.
        paths: Which of its texts are paths: `all`, or those `marked` by a dot, a slash or `~`.
            Default: none.
        arguments: Arguments of pydantic's `Field`.
    """
    extra: dict[str, Any] = {"kind": kind}
    if paths:
        extra["paths"] = paths
    if "default_factory" in arguments:
        return Field(json_schema_extra=extra, **arguments)
    return Field(default, json_schema_extra=extra, **arguments)


def split_key(key: Key, split: str, own: Mapping[str, Any] | None = None) -> Key:
    """Return the key of a split's stream. It depends on the world, the seed, the split's name and
    the split's own draw fields.

    Args:
        key: The key passed to a suite's `weave`, made from the world fields and the seed.
        split: The split's name.
        own: Draw fields of this split that change the distribution of its items. Never include its
            size, so that a smaller split is a prefix of a larger one.
    """
    return key.child("split", split, json_digest(own)) if own else key.child("split", split)


class Fields(BaseModel):
    """Base class for the recipe fields of all suites. Unknown keys are errors, and values are never
    converted silently.
    """

    foremost: ClassVar[tuple[str, ...]] = ()
    """Fields that a form shows first. Other fields stay folded while they have their defaults."""

    # Validators are built on first use, because most commands import several suites but read
    # recipes of only one.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, given: Any) -> Any:
        """Reject booleans for numbers, which pydantic would convert to 1 and 0."""
        for name, value in given.items() if isinstance(given, dict) else ():
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field is not None and field.annotation in _NUMBERS:
                raise ValueError(f"{name}: write a number, not {str(value).lower()}")
        return given

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        left_out = later_defaults(self)
        return {name: value for name, value in values.items() if name not in left_out}

    _files: dict[str, str] = PrivateAttr(default_factory=dict)

    def place_files(self, files: Mapping[str, str]) -> None:
        """Set the locations of the files named by these fields. They are not part of any digest,
        because the same files may be stored elsewhere.
        """
        self._files.update(files)

    def find_file(self, text: str) -> Path:
        """Resolve a path named by a field: to its location if one was set, otherwise relative to
        the working folder, with `~` expanded.
        """
        return path_of(self._files.get(text, text))

    def file_names(self) -> list[str]:
        """Return the texts of fields that are declared as paths."""
        names: list[str] = []
        for name, field in type(self).model_fields.items():
            paths = _declared(field, "paths")
            if not paths:
                continue
            for text in texts(getattr(self, name)):
                file = text.partition("#")[0]
                is_url = "://" in file
                if file and not is_url and (paths == "all" or is_marked(file)):
                    names.append(file)
        return names

    @classmethod
    def field_kinds(cls, *, members: bool = False) -> dict[str, Kind]:
        """Return the kind of every field by its dotted name. A nested field has its group's kind
        unless it declares its own.

        Args:
            members: True to include the fields of groups inside lists and mappings, as
                `groups.*.events`.
        """
        return {path: kind for path, _, _, kind in walk(cls, members=members) if kind is not None}

    def key_fields(self) -> dict[str, Any]:
        """Return the fields that determine the random streams: the world fields, or all fields if a
        suite declares no kinds.
        """
        values = self.model_dump(mode="json")
        kinds = self.field_kinds()
        return _world_part(values, kinds) if kinds else values

    def plainly(self) -> Self:
        """Return these fields with presentation fields at their defaults, for the same items in
        their default form.
        """
        return _plainly(self, None)


def _declared(field: FieldInfo, name: str) -> Any:
    """What `declare` recorded of a field: its `kind` or its `paths`. None for other fields."""
    extra = field.json_schema_extra
    return extra.get(name) if isinstance(extra, dict) else None


def _plainly(model: M, within: Any) -> M:
    """A model with its presentation fields at their defaults.

    Args:
        model: The fields, or a nested group of them.
        within: Kind of the group, which is that of its fields unless they declare their own.
    """
    changes: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        kind, value = _declared(field, "kind") or within, getattr(model, name)
        if kind == "presentation" and not field.is_required():
            changes[name] = field.get_default(call_default_factory=True)
        elif isinstance(value, BaseModel):
            changes[name] = _plainly(value, kind)
    changes = {name: value for name, value in changes.items() if value != getattr(model, name)}
    return model.model_copy(update=changes) if changes else model


def is_marked(text: str) -> bool:
    """True if a text looks like a path rather than a name.

    >>> is_marked("./castles"), is_marked("castles.yaml"), is_marked("castles")
    (True, True, False)
    """
    return "/" in text or "." in text or text.startswith("~")


def texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, a list or the values of a mapping."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts(part)


Place = tuple[str, type[BaseModel], FieldInfo, Kind | None]
"""A field: its dotted name, the model that defines it, pydantic's information about it, and its
declared kind, if any.
"""


def walk(model: type[BaseModel], *, members: bool) -> Iterator[Place]:
    """Yield all fields of a model and of its nested groups.

    Args:
        model: The model of a suite's fields.
        members: True to include groups inside lists and mappings, each model once.
    """
    return _walk(model, members, "", None, {model})


def _walk(
    model: type[BaseModel],
    members: bool,
    prefix: str,
    within: Kind | None,
    entered: set[type[BaseModel]],
) -> Iterator[Place]:
    for name, field in model.model_fields.items():
        kind: Any = _declared(field, "kind") or within
        yield prefix + name, model, field, kind
        for inner, inside in models_in(field.annotation):
            if inside and (not members or inner in entered):
                continue
            entered.add(inner)
            yield from _walk(
                inner,
                members,
                f"{prefix}{name}.*." if inside else f"{prefix}{name}.",
                kind,
                entered,
            )


def models_in(annotation: Any, inside: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """Yield the models that a field may contain, each with True if it is inside a list or
    mapping.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, inside
        return
    container = get_origin(annotation) not in (None, Union, UnionType, Annotated)
    for part in get_args(annotation):
        yield from models_in(part, inside or container)


def _world_part(
    values: Mapping[str, Any], kinds: Mapping[str, Kind], prefix: str = ""
) -> dict[str, Any]:
    """Return the values of world fields, including those in nested groups."""
    part: dict[str, Any] = {}
    for name, value in values.items():
        path = prefix + name
        grouped = any(other.startswith(f"{path}.") for other in kinds)
        if isinstance(value, dict) and grouped:
            inner = _world_part(value, kinds, f"{path}.")
            if inner:
                part[name] = inner
        elif kinds.get(path, "world") == "world":
            part[name] = value
    return part


@dataclasses.dataclass(frozen=True, slots=True)
class Choices:
    """Metadata of a field that contains names, or names with weights: the possible names.

    Forms list them. The field itself validates them.

    Attributes:
        names: Each name with a short explanation, or with an empty text if the name explains
            itself.
    """

    names: tuple[tuple[str, str], ...]


class Size(Fields):
    """The size of a split."""

    n: int = Field(ge=0, strict=True)


class Described(Fields):
    """Inputs that begin with the description of their task: `described: true`, or a mapping with
    details.
    """

    level: Level = Field(
        "instruction",
        description="instruction: what to do; explicit: also what the names in it mean",
    )
    unseen: Annotated[float, Field(ge=0, lt=1)] | tuple[str, ...] = Field(
        0.0, description="Share of the tasks to withhold from training, or their names"
    )
    alone: Annotated[bool, LATER] = Field(
        False, description="Omit the input, to test what the description alone reveals"
    )

    @field_validator("unseen", mode="wrap")
    @classmethod
    def _share_or_names(cls, value: Any, read: Callable[[Any], Any]) -> Any:
        """Raise a single error instead of one for each alternative of the union."""
        try:
            if not isinstance(value, bool):
                return read(value)
        except ValueError:
            pass
        raise ValueError(
            f"write a share of at least 0 and below 1, or a list of task names, not {echo(value)}"
        )


class CurriculumFields(Fields):
    """Curriculum for reinforcement learning, from easy to hard examples: `curriculum: {trait:
    length, bounds: [3, 4, 5]}`.
    """

    trait: str = Field(description="Numeric trait that determines the difficulty")
    bounds: tuple[float, ...] = Field(
        (),
        description="Maximum of the trait at each level; empty: one level for each of its values",
    )
    threshold: float = Field(
        0.8, gt=0, le=1, description="Mean score at which the next level begins"
    )
    window: int = Field(64, ge=1, description="Number of answers over which the mean is computed")
    frontier: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Share of examples above the previous level's bound; by default, examples are "
        "drawn in proportion to their numbers",
    )

    @field_validator("bounds")
    @classmethod
    def _rising(cls, bounds: tuple[float, ...]) -> tuple[float, ...]:
        if list(bounds) != sorted(set(bounds)):
            raise ValueError(f"must increase from level to level, not {echo(list(bounds))}")
        return bounds


class Span:
    """A range of integers, written `2..6`, or a single integer. Both ends are included."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        if low > high:
            raise ValueError(
                f"the range {low}..{high} is empty, because its first number is larger than "
                "its second"
            )
        self.low = low
        self.high = high

    @classmethod
    def read(cls, value: Any) -> Span:
        """Parse `3`, `"2..6"` or another span."""
        if isinstance(value, Span):
            return value
        if isinstance(value, bool):
            raise ValueError("expected a whole number or a range such as 2..6")
        if isinstance(value, int):
            return cls(value, value)
        low, dots, high = str(value).partition("..")
        try:
            return cls(int(low), int(high if dots else low))
        except ValueError as error:
            if "empty" in str(error):
                raise
            raise ValueError(
                f"expected a whole number or a range such as 2..6, not {echo(value)}"
            ) from None

    def draw(self, rng: Random) -> int:
        """Draw an integer from the range uniformly."""
        return self.low + int(rng.random() * (self.high - self.low + 1))

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def __iter__(self) -> Any:
        return iter(range(self.low, self.high + 1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda s: s.low if s.low == s.high else str(s)
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "integer"},
                {"type": "string", "pattern": r"^\s*-?\d+\s*(\.\.\s*-?\d+\s*)?$"},
            ]
        }


Parts = Literal["both", "question", "context"]
"""Parts of an input to keep."""

NOTE = (
    "inputs are the {part} alone, so that different examples may have the same input: the "
    "audit counts them as overlaps"
)


class InputParts(Fields):
    """Recipe fields for inputs with two parts: a question and its context.

    `parts` removes a part from the inputs. Examples keep their answers, traits and derivations, but
    a model only sees the question or the context.
    """

    parts: Annotated[Parts, LATER] = presentation(
        "both", description="both parts of an input, or only the question or the context"
    )

    def divide(self, text: str, question: str) -> tuple[str, str]:
        """Split an input into the question and the context."""
        if not question or not text.endswith(question) or text == question:
            raise RecipeError(
                f"parts: the input {text[:60]!r} has only one part; write parts: both"
            )
        return question, text.removesuffix(question).rstrip()


def keep_part(plan: Plan, fields: InputParts) -> Plan:
    """Return a plan with only one of the two parts in its inputs. The second solver cannot run on
    such inputs, so answers are verified by regeneration.
    """
    if fields.parts == "both":
        return plan

    # imported here, because commands that only check recipes do not need Arrow
    from taskloom.core import shards

    def rows(split: Split, start: int, stop: int) -> pa.Table:
        return _ablated(shards.to_table(split.rows(start, stop), start, plan.traits), fields)

    def part_of(split: Split) -> Split:
        return dataclasses.replace(split, rows=lambda start, stop: rows(split, start, stop))

    return dataclasses.replace(
        plan,
        splits=tuple(part_of(split) for split in plan.splits),
        answer=None,
        check=None,
        show=None,
        variants=None,
        warnings=(*plan.warnings, NOTE.format(part=fields.parts)),
    )


def _ablated(table: pa.Table, fields: InputParts) -> pa.Table:
    """Return rows with one part of their inputs. Their key remains the content that decides their
    split.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = table.column("input")
    questions = table.column("question").to_pylist()
    divided = [
        fields.divide(text, question or "")
        for text, question in zip(whole.to_pylist(), questions, strict=True)
    ]
    columns = {
        "input": pa.array(
            [q if fields.parts == "question" else c for q, c in divided], pa.string()
        ),
        "question": pa.nulls(table.num_rows, pa.string()),
        "key": pc.coalesce(table.column("key"), whole),
    }
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table
