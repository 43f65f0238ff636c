"""Printing an expression in our notation, the paper's and the reference's."""

from __future__ import annotations

from taskloom.suites.taskbench.language.nodes import Atom, Call, Expression, Is


def show(expression: Expression) -> str:
    """Our notation, which `read` reads back to the same expression.

    >>> show(Call("chain", (Atom("father"), Call("inverse", (Atom("child"),)))))
    'chain(father, child.inv)'
    """
    match expression:
        case Atom(name):
            return name
        case Is(Atom(name), value):
            return f"is{{{name}={value}}}"
        case Is(relation, value):
            raise ValueError(f"a value is asked of an atom, not of {show(relation)} (for {value})")
        case Call("inverse", (Atom(name),)):
            return f"{name}.inv"
        case Call(operator, parts):
            return f"{operator}({', '.join(map(show, parts))})"


def show_paper(expression: Expression) -> str:
    """The notation of the paper's tables: f(g) for a chain, map{λx. f(x)}(filter{λx. p(x)}) for sequences."""
    return _foreign(expression, _Paper())


def show_reference(expression: Expression) -> str:
    """The notation of the reference's task files: f(g(0)), map{f(0)}(filter{p(0)}(S))."""
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
            return show(expression) + given
        case Call("inverse", (Atom(name),)):
            return style.inverse(name) + given
        case Call("chain", parts):
            text = given
            for part in reversed(parts[1:]):
                text = f"({_foreign(part, style, text)})"
            return _foreign(parts[0], style, text)
        case Call(("map" | "filter") as operator, parts):
            inner = "(x)" if isinstance(style, _Paper) else style.word
            function = style.element(_foreign(parts[0], style, inner))
            before = f"({_foreign(parts[1], style)})" if len(parts) > 1 else style.sequence
            return f"{operator}{{{function}}}{before}"
        case Call(operator, parts):
            # The operands are functions of the same input; what comes before is written once, after them.
            own = style.word if given in ("", style.word) else ("(x)" if given == "(x)" else style.word)
            shown = ", ".join(_foreign(part, style, own) for part in parts)
            return f"{operator}({shown})" + ("" if given in ("", "(x)", style.word) else given)
