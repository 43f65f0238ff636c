"""Tables of recipe fields with their kinds, defaults and meanings, and JSON schemas for editors."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema, to_jsonable_python

from taskloom.recipe.fields import Described, Fields, walk

SHOWN = 60
"""Maximum characters shown of a default."""


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field of a recipe.

    Attributes:
        name: Dotted name, with `*` for the members of a list or mapping.
        kind: `world`, `draw` or `presentation`: what changing the field affects.
        default: Default as written in a recipe. None if the field is required or has no default.
        required: True if a recipe must set it.
        meaning: Description in one sentence.
    """

    name: str
    kind: str
    default: Any
    required: bool
    meaning: str

    @property
    def shown_default(self) -> str:
        """The default as text, cut if it is long."""
        if self.required:
            return "required"
        if self.default in ({}, [], "", None):
            return "none"
        text = (
            self.default
            if isinstance(self.default, str)
            else json.dumps(self.default, ensure_ascii=False)
        )
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 2]} …"


def field_rows(model: type[BaseModel]) -> list[FieldRow]:
    """Build one row for every field of a suite's or task's model, including the fields of nested
    groups.
    """
    return [
        FieldRow(
            path,
            kind or "world",
            None if field.is_required() else _default(field),
            field.is_required(),
            meaning(owner, path.rpartition(".")[2], field),
        )
        for path, owner, field, kind in walk(model, members=True)
    ]


def _default(field: FieldInfo) -> Any:
    return to_jsonable_python(field.get_default(call_default_factory=True), fallback=str)


def meaning(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    """Return the meaning of a field: its description, its line in the docstring of its model, or
    the first sentence of that docstring.
    """
    if field.description:
        return field.description
    text = _docstring(model, name)
    lines = re.search(rf"^    {name}: (.+(?:\n        .+)*)", text, re.M)
    if lines:
        return " ".join(lines[1].split())
    return " ".join(text.partition("\n\n")[0].split())


def _docstring(model: type[BaseModel], field: str) -> str:
    """Return the docstring of a model, or of its nearest base that also has the field. Empty if
    none of them has one.
    """
    owners = (kind for kind in model.__mro__ if field in getattr(kind, "model_fields", ()))
    return next(
        (inspect.cleandoc(text) for kind in owners if (text := kind.__dict__.get("__doc__"))), ""
    )


class _RecipeSchema(GenerateJsonSchema):
    """Schema generator that also accepts the short forms that validators convert before pydantic
    checks types.
    """

    def function_before_schema(
        self, schema: core_schema.BeforeValidatorFunctionSchema
    ) -> dict[str, Any]:
        return self._lenient(schema, super().function_before_schema(schema))

    def function_wrap_schema(
        self, schema: core_schema.WrapValidatorFunctionSchema
    ) -> dict[str, Any]:
        return self._lenient(schema, super().function_wrap_schema(schema))

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> dict[str, Any]:
        union = super().tagged_union_schema(schema)
        # "oneOf" would fail, because lenient members overlap
        return {"anyOf": union["oneOf"]} if "oneOf" in union else union

    def _lenient(self, schema: Any, strict: dict[str, Any]) -> dict[str, Any]:
        name = getattr(schema["function"]["function"], "__name__", "")
        # The last alternative accepts everything, but editors still suggest values from the first.
        return strict if name == Fields._numbers_are_numbers.__name__ else {"anyOf": [strict, {}]}


def recipe_schema(kind: str, name: str, model: type[BaseModel]) -> dict[str, Any]:
    """Build the JSON schema of recipe files, which editors use for completion and checks.

    Args:
        kind: `suite` or `task`.
        name: Name of the suite or task.
        model: Model of its fields.
    """
    schema = model.model_json_schema(schema_generator=_RecipeSchema)
    described = Described.model_json_schema()
    kinds = {"type": "array", "items": {"enum": ["flip", "keep"]}, "minItems": 1}
    own: dict[str, Any] = {
        kind: {"const": name, "description": f"The {kind} of the recipe."},
        "extends": {
            "type": "string",
            "description": "A recipe, by name or file, that this one changes.",
        },
        "describe": {"type": "string", "description": "One line for people."},
        "seed": {"type": "integer", "default": 0, "description": "The default seed."},
        "described": {
            "anyOf": [{"type": "boolean"}, described],
            "default": False,
            "description": "Whether and how inputs begin with the description of their task.",
        },
        "twins": {
            "anyOf": [kinds, {"type": "object", "additionalProperties": kinds}],
            "description": "Variants of each test item, of all test splits or by split.",
        },
    }
    properties = {**own, **schema.get("properties", {})}
    for row in field_rows(model):
        if row.name in properties and "." not in row.name:
            properties[row.name].setdefault("description", row.meaning)
    # A recipe that extends another one need not repeat its required fields.
    schema.pop("required", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": f"A recipe of the {kind} {name}",
        "properties": properties,
        "anyOf": [{"required": [kind]}, {"required": ["extends"]}],
        "additionalProperties": False,
    }
