"""Variants: items that differ from a given item in exactly one thing.

Suites derive the answer of any item, so they can also derive the answer of any variation of it.
A *simpler* variant has something less (a distractor, a person, a step). A *flip* is one edit that
changes the answer, a *keep* one that must not. `Plan.variants` lists the variants of an item; the
second solver (`Plan.check`) proves their answers like those of any other item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from taskloom.core.example import Example

VariantKind = Literal["simpler", "flip", "keep"]


@dataclass(frozen=True, slots=True)
class Variant:
    """An item that differs from another one in one thing.

    Attributes:
        kind: `simpler`, `flip` (the answer changes) or `keep` (it stays).
        edit: Name of the edit, such as `another room`. It is the same for all items, so that
            failures can be grouped by it.
        example: The varied item, with its derived answer.
        before: Text of the original that the edit replaced; empty for an insertion.
        after: Text that replaced it; empty for a removal.
    """

    kind: VariantKind
    edit: str
    example: Example
    before: str = ""
    after: str = ""
