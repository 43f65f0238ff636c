"""Printing an expression in our notation, the paper's and the reference's."""

from __future__ import annotations

from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Expression,
    Inverse,
    Is,
    Operator,
    SequenceOperator,
)


def show(expression: Expression) -> str:
    """Print an expression in our notation, which `read` reads back to the same expression.

    >>> show(Chain((Atom("father"), Inverse((Atom("child"),)))))
    'chain(father, child.inv)'
    """
    return expression.notation


def show_paper(expression: Expression) -> str:
    """Print an expression as the paper's tables do: f(g) for a chain, map{λx. f(x)}(filter{λx. p(x)}) for sequences."""
    return _foreign(expression, _Paper())


def show_reference(expression: Expression) -> str:
    """Print an expression as the reference's task files do: f(g(0)), map{f(0)}(filter{p(0)}(S))."""
    return _foreign(expression, _Reference())


class _Paper:
    word = ""
    sequence = ""

    def atom(self, name: str) -> str:
        from taskloom.suites.taskbench import atoms

        known = atoms.known(name)
        return known.paper if known else name

    def inverse(self, name: str) -> str:
        return f"{self.atom(name)}[inv]"

    def element(self, function: str) -> str:
        return f"λx. {function}"


class _Reference:
    word = "(0)"
    sequence = "(S)"

    def atom(self, name: str) -> str:
        from taskloom.suites.taskbench import atoms

        known = atoms.known(name)
        return known.reference if known else name

    def inverse(self, name: str) -> str:
        return f"{self.atom(name)}[inv]"

    def element(self, function: str) -> str:
        return function


def _foreign(expression: Expression, style: _Paper | _Reference, input_text: str | None = None) -> str:
    """Print `expression` applied to `input_text`, the text of what comes before it."""
    given = style.word if input_text is None else input_text
    match expression:
        case Atom(name):
            return style.atom(name) + given
        case Is():
            return expression.notation + given
        case Inverse():
            return style.inverse(expression.atom) + given
        case Chain(parts):
            text = given
            for part in reversed(parts[1:]):
                text = f"({_foreign(part, style, text)})"
            return _foreign(parts[0], style, text)
        case SequenceOperator():
            inner = "(x)" if isinstance(style, _Paper) else style.word
            function = style.element(_foreign(expression.element, style, inner))
            before = style.sequence if expression.before is None else f"({_foreign(expression.before, style)})"
            return f"{expression.word}{{{function}}}{before}"
        case Operator(parts):
            # The operands are functions of the same input; what comes before is written once, after them.
            own = style.word if given in ("", style.word) else ("(x)" if given == "(x)" else style.word)
            shown = ", ".join(_foreign(part, style, own) for part in parts)
            return f"{expression.word}({shown})" + ("" if given in ("", "(x)", style.word) else given)
