"""The shape of an expression: atoms, and operators applied to expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]
"""Where in the text an expression was read: first character and the one after the last."""

_NOWHERE: Span = (0, 0)

OPERATORS: dict[str, tuple[int, int]] = {
    "chain": (2, 99),
    "union": (2, 99),
    "intersection": (2, 99),
    "land": (2, 99),
    "lor": (2, 99),
    "lnot": (1, 1),
    "inverse": (1, 1),
    "map": (1, 2),
    "filter": (1, 2),
}
"""Every operator with the least and the greatest number of its operands."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A function that the world knows by name: `synonyms[eng]`, `father`, `is_pos_noun[eng]`."""

    name: str
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Is:
    """The predicate that holds of x when `value` is among the values of `relation` at x."""

    relation: Expression
    value: str
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator applied to its operands.

    `chain(f, g)` is f after g, as in the paper. `map(f)` and `filter(p)` may take the sequence function that comes before them as
    a second operand: `map(f, filter(p))` filters first.
    """

    operator: str
    parts: tuple[Expression, ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


Expression = Atom | Is | Call


def atoms_of(expression: Expression) -> Iterator[str]:
    """The names of the atoms of an expression, from left to right, repeated ones repeated."""
    match expression:
        case Atom(name):
            yield name
        case Is(relation, _):
            yield from atoms_of(relation)
        case Call(_, parts):
            for part in parts:
                yield from atoms_of(part)


def depth(expression: Expression) -> int:
    """How many operators lie on the longest way down to an atom."""
    match expression:
        case Atom():
            return 0
        case Is(relation, _):
            return depth(relation)
        case Call(_, parts):
            return 1 + max(depth(part) for part in parts)
