"""The types of the language, and the checker that gives every expression one or says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from taskloom.suites.taskbench.language.errors import ExpressionError
from taskloom.suites.taskbench.language.nodes import OPERATORS, Atom, Call, Expression, Is

Form = Literal["relation", "predicate", "sequence"]

_KINDS = {"word[eng]": "an English word", "word[spa]": "a Spanish word", "entity": "an entity"}
_PLURALS = {"word[eng]": "English words", "word[spa]": "Spanish words", "entity": "entities"}


@dataclass(frozen=True, slots=True)
class Type:
    """What a function takes and gives.

    Attributes:
        form: A relation gives a set of words or entities, a predicate true or false, a sequence function a sequence of sets.
        source: The kind of thing it takes: `word[eng]`, `word[spa]` or `entity`.
        target: The kind of thing it gives; empty for predicates.
    """

    form: Form
    source: str
    target: str = ""

    def __str__(self) -> str:
        taken = _PLURALS.get(self.source, self.source)
        if self.form == "predicate":
            return f"a predicate of {taken}"
        given = _PLURALS.get(self.target, self.target)
        if self.form == "sequence":
            return f"a function from sequences of {taken} to sequences of {given}"
        return f"a relation from {taken} to {given}"


def kind_name(kind: str) -> str:
    """A kind in words: `word[eng]` is an English word."""
    return _KINDS.get(kind, kind)


Signatures = Callable[[str], Type | None]
"""From an atom's name to its type, or None where there is no such atom."""


def type_of(expression: Expression, signatures: Signatures, text: str = "") -> Type:
    """The type of an expression; an `ExpressionError` that points at the place where there is none.

    Args:
        expression: What to check.
        signatures: The types of the atoms.
        text: The text it was read from, echoed by the error.
    """
    return _Checker(signatures, text).check(expression)


class _Checker:
    def __init__(self, signatures: Signatures, text: str) -> None:
        self.signatures = signatures
        self.text = text

    def fail(self, at: Expression, why: str) -> ExpressionError:
        return ExpressionError(why, self.text, at.span)

    def check(self, expression: Expression) -> Type:
        match expression:
            case Atom(name):
                found = self.signatures(name)
                if found is None:
                    raise self.fail(expression, f"unknown atom '{name}'")
                return found
            case Is(relation, _):
                inner = self.want(relation, "relation", "is")
                return Type("predicate", inner.source)
            case Call(operator, parts):
                low, high = OPERATORS[operator]
                if not low <= len(parts) <= high:
                    few = f"{low}" if low == high else f"{low} or more" if high == 99 else f"{low} or {high}"
                    raise self.fail(
                        expression,
                        f"{operator} takes {few} operand{'' if few == '1' else 's'}, here it has {len(parts)}",
                    )
                return self.operator(operator, parts)

    def want(self, expression: Expression, form: Form, by: str) -> Type:
        found = self.check(expression)
        if found.form != form:
            article = "a sequence function" if form == "sequence" else f"a {form}"
            raise self.fail(expression, f"{by} expects {article} here, and this is {found}")
        return found

    def operator(self, operator: str, parts: tuple[Expression, ...]) -> Type:
        match operator:
            case "chain":
                return self.chain(parts)
            case "union" | "intersection":
                return self.alike(operator, parts, "relation")
            case "land" | "lor":
                return self.alike(operator, parts, "predicate")
            case "lnot":
                return self.want(parts[0], "predicate", operator)
            case "inverse":
                found = self.want(parts[0], "relation", operator)
                return Type("relation", found.target, found.source)
            case _:
                return self.sequence(operator, parts)

    def chain(self, parts: tuple[Expression, ...]) -> Type:
        """The last part is applied first; only the first may be a predicate, since truth values are no words."""
        inner = self.want(parts[-1], "relation", "chain")
        reached = inner
        for position in range(len(parts) - 2, -1, -1):
            part = parts[position]
            outer = self.check(part)
            if outer.form == "sequence":
                raise self.fail(part, f"chain expects a relation here, and this is {outer}; write map(f, filter(p))")
            if outer.form == "predicate" and position > 0:
                raise self.fail(part, f"chain expects a relation here, and this is {outer}")
            self.fits(part, outer.source, reached.target)
            reached = outer
        return Type(reached.form, inner.source, reached.target)

    def fits(self, part: Expression, taken: str, given: str) -> None:
        if taken != given:
            remedy = "; put label between them" if (taken, given) == ("word[eng]", "entity") else ""
            raise self.fail(
                part,
                f"this takes {kind_name(taken)}, and what comes before it gives {_PLURALS.get(given, given)}{remedy}",
            )

    def alike(self, operator: str, parts: tuple[Expression, ...], form: Form) -> Type:
        first = self.want(parts[0], form, operator)
        for part in parts[1:]:
            other = self.want(part, form, operator)
            if other != first:
                raise self.fail(
                    part, f"the operands of {operator} must have one type: the first is {first}, this is {other}"
                )
        return first

    def sequence(self, operator: str, parts: tuple[Expression, ...]) -> Type:
        own = self.want(parts[0], "relation" if operator == "map" else "predicate", operator)
        target = own.target if operator == "map" else own.source
        if len(parts) == 1:
            return Type("sequence", own.source, target)
        before = self.want(parts[1], "sequence", operator)
        self.fits(parts[0], own.source, before.target)
        return Type("sequence", before.source, target)
