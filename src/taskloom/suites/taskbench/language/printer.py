"""Printing an expression in our notation, the paper's and the reference's, and without its
constants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Expression,
    Inverse,
    Is,
    Operator,
    SequenceOperator,
)


@dataclass(frozen=True, slots=True)
class _Style:
    """How others write expressions.

    Attributes:
        names: The attribute of known atoms that has their name.
        word: What stands after a function of words.
        sequence: What stands after a function of sequences that none comes before.
        variable: What the function in braces is applied to.
        binder: What stands before that function.
    """

    names: str
    word: str
    sequence: str
    variable: str
    binder: str

    def atom(self, name: str) -> str:
        """Return the name of an atom."""
        from taskloom.suites.taskbench import atoms

        known = atoms.known(name)
        return getattr(known, self.names) if known else name


PAPER = _Style("paper", word="", sequence="", variable="(x)", binder="λx. ")
REFERENCE = _Style("reference", word="(0)", sequence="(S)", variable="(0)", binder="")


def show(expression: Expression) -> str:
    """Print an expression in our notation, which `read` reads back to the same expression.

    >>> show(Chain((Atom("father"), Inverse((Atom("child"),)))))
    'chain(father, child.inv)'
    """
    return expression.notation


def show_paper(expression: Expression) -> str:
    """Print an expression as the paper's tables do: f(g) for a chain, map{λx. f(x)}(filter{λx.
    p(x)}) for sequences.
    """
    return _foreign(expression, PAPER)


def show_reference(expression: Expression) -> str:
    """Print an expression as the reference's task files do: f(g(0)), map{f(0)}(filter{p(0)}(S))."""
    return _foreign(expression, REFERENCE)


def _foreign(expression: Expression, style: _Style, input_text: str | None = None) -> str:
    """Print `expression` applied to `input_text`, the text of what comes before it."""
    given = style.word if input_text is None else input_text
    match expression:
        case Atom(name):
            return style.atom(name) + given
        case Is():
            return expression.notation + given
        case Inverse():
            return f"{style.atom(expression.atom)}[inv]{given}"
        case Chain(parts):
            text = given
            for part in reversed(parts[1:]):
                text = f"({_foreign(part, style, text)})"
            return _foreign(parts[0], style, text)
        case SequenceOperator():
            function = style.binder + _foreign(expression.element, style, style.variable)
            before = (
                style.sequence
                if expression.before is None
                else f"({_foreign(expression.before, style)})"
            )
            return f"{expression.word}{{{function}}}{before}"
        case Operator(parts):
            # The operands are functions of the same input; what comes before is written once, after
            # them.
            own = given if given == style.variable else style.word
            shown = ", ".join(_foreign(part, style, own) for part in parts)
            return f"{expression.word}({shown})" + (
                "" if given in ("", style.variable, style.word) else given
            )


_CONSTANT = re.compile(r"(?<==)[^}]*(?=\})|(?<=\{)\d+(?=\})")
"""In the reference's notation: `is{occupation=Q33999}`, `random{0}[eng]`."""


def form(expression: Expression) -> str:
    """Print a function without its constants, in the reference's names of atoms.

    Constants are the value of an `is`, also if it is part of an atom's name (`is_occupation_actor`,
    `is_pos_noun[eng]`), and the number of a random relation.

    >>> from taskloom.suites.taskbench.language import read
    >>> form(read("lor(is_occupation_actor, is{father=Q42})"))
    'lor(is{father=…}, is{occupation=…})'
    """
    from taskloom.suites.taskbench import atoms

    match expression:
        case Atom(name):
            known = atoms.known(name)
            return _CONSTANT.sub("…", known.reference) if known else name
        case Is(relation):
            return f"is{{{form(relation)}=…}}"
        case Operator(parts):
            forms = [form(part) for part in parts]
            if expression.symmetric:
                forms.sort()
            return f"{expression.word}({', '.join(forms)})"
