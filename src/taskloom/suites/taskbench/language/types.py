"""Types of the function language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Form = Literal["relation", "predicate", "sequence"]

_KINDS = {"word[eng]": "an English word", "word[spa]": "a Spanish word", "entity": "an entity"}
_PLURALS = {"word[eng]": "English words", "word[spa]": "Spanish words", "entity": "entities"}


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a function.

    Attributes:
        form: Relations return a set of words or entities, predicates true or false, and sequence
            functions a sequence of sets.
        source: Kind of its inputs: `word[eng]`, `word[spa]` or `entity`.
        target: Kind of its values; empty for predicates.
    """

    form: Form
    source: str
    target: str = ""

    @property
    def language(self) -> str:
        """Language code of its inputs, `eng` or `spa`. Empty for entities."""
        return language_of(self.source)

    def __str__(self) -> str:
        taken = plural(self.source)
        if self.form == "predicate":
            return f"a predicate of {taken}"
        given = plural(self.target)
        if self.form == "sequence":
            return f"a function from sequences of {taken} to sequences of {given}"
        return f"a relation from {taken} to {given}"


def language_of(kind: str) -> str:
    """Return the language code in a kind, such as `eng` for `word[eng]`, or an empty text."""
    return kind[len("word[") : -1] if kind.startswith("word[") else ""


def kind_name(kind: str) -> str:
    """Describe a single item of a kind: `word[eng]` becomes an English word."""
    return _KINDS.get(kind, kind)


def plural(kind: str) -> str:
    """Describe several items of a kind: `word[eng]` becomes English words."""
    return _PLURALS.get(kind, kind)


Signatures = Callable[[str], Type | None]
"""Maps an atom's name to its type, or to None if there is no such atom."""
