"""The types of the language."""

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
        form: A relation gives a set of words or entities, a predicate true or false, a sequence
            function a sequence of sets.
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
    """Return the code of the language of a kind, `eng` of `word[eng]`; empty for entities."""
    return kind[len("word[") : -1] if kind.startswith("word[") else ""


def kind_name(kind: str) -> str:
    """Name one thing of a kind: `word[eng]` is an English word."""
    return _KINDS.get(kind, kind)


def plural(kind: str) -> str:
    """Name several things of a kind: `word[eng]` are English words."""
    return _PLURALS.get(kind, kind)


Signatures = Callable[[str], Type | None]
"""Maps an atom's name to its type, or to None if there is no such atom."""
