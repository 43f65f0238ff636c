"""Output structures: the parts of an answer, compiled to the JSON form that annotators fill in and
models write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.apps.collect.corpus import clean_line
from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.records import NA

MOST_WORDS = 4
"""Maximum words of a name, as in ZEST's form."""

MOST_ATTRIBUTES = 3

MOST_OBJECTS = 30
"""Maximum objects in one answer. A passage of 300 words lists fewer."""


@dataclass(frozen=True, slots=True)
class StructureAttribute:
    """An attribute: its name, its allowed values, and whether other values are excluded."""

    name: str
    values: tuple[str, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class OutputStructure:
    """The main object of an answer and the requested attributes."""

    main: str
    attributes: tuple[StructureAttribute, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of an answer's objects in order, because the official evaluation compares keys by
        position.
        """
        return (self.main, *(a.name for a in self.attributes))

    def to_json(self) -> dict[str, Any]:
        """JSON form that the task stores."""
        rows = [
            {"name": a.name, "values": list(a.values), "complete": a.complete}
            for a in self.attributes
        ]
        return {"main": self.main, "attributes": rows}

    def preview(self) -> str:
        """Preview of an answer's form, shown to writers while they edit."""
        example = {self.main: "…"} | {a.name: " or ".join(a.values) or "…" for a in self.attributes}
        return json.dumps([example], ensure_ascii=False)


def from_form(form: Mapping[str, Any]) -> OutputStructure:
    """Build a structure from its JSON form."""
    rows = tuple(
        StructureAttribute(row["name"], tuple(row["values"]), bool(row["complete"]))
        for row in form["attributes"]
    )
    return OutputStructure(form["main"], rows)


def compile_structure(
    main: str, rows: Sequence[tuple[str, str, bool]], entity: str
) -> OutputStructure:
    """Check and compile a writer's input.

    Args:
        main: The name of the main object.
        rows: For each attribute its name, its allowed values separated by commas, and whether the
            list of values is complete.
        entity: The domain's place-holder, which must not be the main object.
    """
    main = _name(main, phrase("main_object"))
    if main.lower() in (entity.lower(), entity.lower().removeprefix("this ")):
        raise CollectError(phrase("structure_entity", entity=entity))
    attributes = []
    for name, values, complete in rows:
        if not name.strip() and not values.strip():
            continue
        parts = tuple(
            dict.fromkeys(v for v in (clean_line(part) for part in values.split(",")) if v)
        )
        for part in parts:
            _plain(part, phrase("value"))
        if complete and len(parts) < 2:
            raise CollectError(phrase("values_complete", name=clean_line(name)))
        attributes.append(StructureAttribute(_name(name, phrase("attribute")), parts, complete))
    if not 1 <= len(attributes) <= MOST_ATTRIBUTES:
        raise CollectError(
            phrase("structure_attributes", most=MOST_ATTRIBUTES, count=len(attributes))
        )
    structure = OutputStructure(main, tuple(attributes))
    if len({k.lower() for k in structure.keys}) < len(structure.keys):
        raise CollectError(phrase("structure_names"))
    return structure


def _name(text: str, what: str) -> str:
    name = clean_line(text)
    if not 1 <= len(name.split()) <= MOST_WORDS:
        raise CollectError(
            phrase("structure_name_words", what=what, most=MOST_WORDS, name=name[:60])
        )
    return _plain(name, what)


def _plain(text: str, what: str) -> str:
    if any(c in text for c in '|{}[]"\\') or len(text) > 100:
        raise CollectError(phrase("structure_marks", what=what, text=text[:60]))
    return text


def compile_answer(
    structure: OutputStructure, objects: Sequence[Mapping[str, str]], passage: str
) -> str:
    """Check the objects that an annotator entered, and return them in the format of ZEST's files:
    JSON text, or n/a.

    Values are quotations from the passage (with several parts joined by a bar) or one of the listed
    values. Empty values become n/a.
    """
    rows: list[dict[str, str]] = []
    for entered in objects[:MOST_OBJECTS]:
        row = {key: _value(structure, key, entered.get(key, ""), passage) for key in structure.keys}
        if row[structure.main] == NA and any(v != NA for v in row.values()):
            raise CollectError(phrase("object_unnamed", main=structure.main))
        if row[structure.main] != NA:
            rows.append(row)
    names = [r[structure.main] for r in rows]
    if len(set(names)) < len(names):
        raise CollectError(
            phrase("object_twice", name=next(n for n in names if names.count(n) > 1))
        )
    return json.dumps(rows, ensure_ascii=False) if rows else NA


def _value(structure: OutputStructure, key: str, text: str, passage: str) -> str:
    attribute = next((a for a in structure.attributes if a.name == key), None)
    listed = attribute.values if attribute else ()
    parts = [clean_line(part) for part in text.split("|") if clean_line(part)]
    if not parts or [p.lower() for p in parts] == [NA]:
        return NA
    words = " ".join(passage.split())
    for part in parts:
        if part in listed:
            continue
        if attribute is not None and attribute.complete:
            raise CollectError(
                phrase("value_unlisted", text=part[:60], key=key, values=", ".join(listed))
            )
        _refuse_marks(part)
        if part not in words:
            raise CollectError(phrase("quote_or_empty", text=part[:60]))
    return "|".join(parts)


def _refuse_marks(text: str) -> None:
    if "{" in text or "}" in text:
        raise CollectError(phrase("answer_braces", text=text[:60]))
