"""The type checker: gives every expression its type, or says what is wrong with it and where."""

from __future__ import annotations

from taskloom.core.errors import RecipeError
from taskloom.suites.taskbench.language.operators import MANY, Expression, Filter, Map, Operator
from taskloom.suites.taskbench.language.types import Form, Signatures, Type, kind_name, plural


class ExpressionError(RecipeError):
    """An expression that cannot be read or has no type. The message echoes it and points at the
    place.

    Attributes:
        why: What is wrong, in one sentence.
        text: The expression as it was written.
        span: The place in it.
    """

    def __init__(self, why: str, text: str = "", span: tuple[int, int] = (0, 0)) -> None:
        self.why = why
        self.text = text
        self.span = span
        super().__init__(f"{why}\n{point(text, span)}" if text else why)


def point(text: str, span: tuple[int, int], width: int = 100) -> str:
    """Print the text on one line with carets below the span. Long texts are cut around it.

    >>> print(point("chain(fathr, mother)", (6, 11)))
      chain(fathr, mother)
            ^^^^^
    """
    flat = "".join(" " if c.isspace() else c for c in text)
    start = min(span[0], len(flat))
    stop = min(max(span[1], start + 1), len(flat) + 1)
    left = max(0, start - width // 2) if len(flat) > width else 0
    shown = flat[left : left + width]
    head, tail = ("…" if left else ""), ("…" if left + width < len(flat) else "")
    carets = "^" * max(1, min(stop - start, len(shown) - (start - left)))
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + start - left)}{carets}"


def type_of(expression: Expression, signatures: Signatures, text: str = "") -> Type:
    """Infer the type of an expression. Raise an `ExpressionError` that points at the fault if it
    has none.

    Args:
        expression: What to check.
        signatures: The types of the atoms.
        text: The text it was read from, echoed by the error.
    """
    return Checker(signatures, text).check(expression)


class Checker:
    """Context of the operators' type rules: the types of atoms and operands, and the errors to
    raise.
    """

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
                few = f"{low}"
                if low != high:
                    few += " or more" if high == MANY else f" or {high}"
                operands = "operand" if few == "1" else "operands"
                raise self.fail(
                    expression, f"{expression.word} takes {few} {operands}, here it has {given}"
                )
        return expression.infer(self)

    def want(self, expression: Expression, form: Form, by: str) -> Type:
        """Return the type of an operand, which must have the given form."""
        inner = self.check(expression)
        if inner.form != form:
            article = "a sequence function" if form == "sequence" else f"a {form}"
            raise self.fail(expression, f"{by} expects {article} here, and this is {inner}")
        return inner

    def fit(self, part: Expression, taken: str, given: str) -> None:
        """Raise unless a part takes what the part before it gives."""
        if taken != given:
            remedy = "; put label between them" if (taken, given) == ("word[eng]", "entity") else ""
            raise self.fail(
                part,
                f"this takes {kind_name(taken)}, and what comes before it gives"
                f" {plural(given)}{remedy}",
            )

    def alike(self, operator: Operator, form: Form) -> Type:
        """Return the type that all operands of an operator share."""
        first = self.want(operator.parts[0], form, operator.word)
        for part in operator.parts[1:]:
            other = self.want(part, form, operator.word)
            if other != first:
                raise self.fail(
                    part,
                    f"the operands of {operator.word} must have one type: the first is {first},"
                    f" this is {other}",
                )
        return first

    def sequence(self, operator: Map | Filter, source: str, target: str) -> Type:
        """Return the type of a sequence operator whose function of one word leads from source to
        target.
        """
        if operator.before is None:
            return Type("sequence", source, target)
        before = self.want(operator.before, "sequence", operator.word)
        self.fit(operator.element, source, before.target)
        return Type("sequence", before.source, target)
