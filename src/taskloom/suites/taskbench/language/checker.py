"""The type checker: gives every expression its type, or says what is wrong with it and where."""

from __future__ import annotations

from taskloom.suites.taskbench.language.errors import ExpressionError
from taskloom.suites.taskbench.language.operators import MANY, Expression, Filter, Map, Operator
from taskloom.suites.taskbench.language.types import Form, Signatures, Type, kind_name, plural


def type_of(expression: Expression, signatures: Signatures, text: str = "") -> Type:
    """Return the type of an expression; raise an `ExpressionError` that points at the place where there is none.

    Args:
        expression: What to check.
        signatures: The types of the atoms.
        text: The text it was read from, echoed by the error.
    """
    return Checker(signatures, text).check(expression)


class Checker:
    """What the type rules of the operators are given: the types of atoms and of operands, and the ways to fail."""

    def __init__(self, signatures: Signatures, text: str) -> None:
        self.signatures = signatures
        self.text = text

    def fail(self, at: Expression, why: str) -> ExpressionError:
        """Build the error that points at an expression."""
        return ExpressionError(why, self.text, at.span)

    def check(self, expression: Expression) -> Type:
        """Return the type of an expression or raise."""
        if isinstance(expression, Operator):
            low, high, given = expression.least, expression.most, len(expression.parts)
            if not low <= given <= high:
                few = f"{low}" if low == high else f"{low} or more" if high == MANY else f"{low} or {high}"
                operands = "operand" if few == "1" else "operands"
                raise self.fail(expression, f"{expression.word} takes {few} {operands}, here it has {given}")
        return expression.infer(self)

    def want(self, expression: Expression, form: Form, by: str) -> Type:
        """Return the type of an operand, which must have the given form."""
        inner = self.check(expression)
        if inner.form != form:
            article = "a sequence function" if form == "sequence" else f"a {form}"
            raise self.fail(expression, f"{by} expects {article} here, and this is {inner}")
        return inner

    def fit(self, part: Expression, taken: str, given: str) -> None:
        """Raise unless a part takes what comes before it gives."""
        if taken != given:
            remedy = "; put label between them" if (taken, given) == ("word[eng]", "entity") else ""
            raise self.fail(
                part, f"this takes {kind_name(taken)}, and what comes before it gives {plural(given)}{remedy}"
            )

    def alike(self, operator: Operator, form: Form) -> Type:
        """Return the type that all operands of an operator share."""
        first = self.want(operator.parts[0], form, operator.word)
        for part in operator.parts[1:]:
            other = self.want(part, form, operator.word)
            if other != first:
                raise self.fail(
                    part, f"the operands of {operator.word} must have one type: the first is {first}, this is {other}"
                )
        return first

    def sequence(self, operator: Map | Filter, source: str, target: str) -> Type:
        """Return the type of a sequence operator whose function of one word leads from source to target."""
        if operator.before is None:
            return Type("sequence", source, target)
        before = self.want(operator.before, "sequence", operator.word)
        self.fit(operator.element, source, before.target)
        return Type("sequence", before.source, target)
