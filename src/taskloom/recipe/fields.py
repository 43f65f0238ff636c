"""What recipe fields are made of: the model that suites derive theirs from, sizes, ranges, and `described`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from taskloom.plan import Level

_NUMBERS = (int, float, int | None, float | None)


class Fields(BaseModel):
    """What every suite's recipe fields derive from: unknown keys are errors, values are never silently changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, given: Any) -> Any:
        """Refuse true and false for numbers, which pydantic takes for 1 and 0."""
        for name, value in given.items() if isinstance(given, dict) else ():
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field is not None and field.annotation in _NUMBERS:
                raise ValueError(f"{name}: write a number, not {str(value).lower()}")
        return given


class Size(Fields):
    """The size of a split."""

    n: int = Field(ge=0, strict=True)


class Described(Fields):
    """Inputs that begin with the description of their task: `described: true`, or how."""

    level: Level = Field("instruction", description="instruction: what to do; explicit: also what its words mean")
    unseen: Annotated[float, Field(ge=0, lt=1)] | tuple[str, ...] = Field(
        0.0, description="Share of the tasks that training lacks, or their names"
    )

    @field_validator("unseen", mode="wrap")
    @classmethod
    def _share_or_names(cls, value: Any, read: Callable[[Any], Any]) -> Any:
        """Raise one sentence instead of one for each kind that it might have been."""
        try:
            if not isinstance(value, bool):
                return read(value)
        except ValueError:
            pass
        raise ValueError(f"write a share from 0 to below 1, or a list of task names, not {value!r}")


class Span:
    """A range of whole numbers, written `2..6`, or one number; both ends belong to it."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        if low > high:
            raise ValueError(f"the range {low}..{high} is empty: its first number is the larger one")
        self.low = low
        self.high = high

    @classmethod
    def read(cls, value: Any) -> Span:
        """Read `3`, `"2..6"` or another span."""
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
            raise ValueError(f"expected a whole number or a range such as 2..6, not {value!r}") from None

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
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda s: s.low if s.low == s.high else str(s)
            ),
        )
