"""The form of a function: what is left when its constants are taken away.

Constants are the value of an `is`, also where it is part of an atom's name (`is_occupation_actor`, `is_pos_noun[eng]`), and the
number of a random relation.
"""

from __future__ import annotations

import re

from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.language.operators import Atom, Expression, Is, Operator

_CONSTANT = re.compile(r"(?<==)[^}]*(?=\})|(?<=\{)\d+(?=\})")
"""In the reference's notation: `is{occupation=Q33999}`, `random{0}[eng]`."""


def form(expression: Expression) -> str:
    """Return a function without its constants, in the reference's names of atoms.

    >>> from taskloom.suites.taskbench.language import read
    >>> form(read("lor(is_occupation_actor, is{father=Q42})"))
    'lor(is{father=…}, is{occupation=…})'
    """
    match expression:
        case Atom(name):
            known = atoms.known(name)
            return _CONSTANT.sub("…", known.reference) if known else name
        case Is(relation):
            return f"is{{{form(relation)}=…}}"
        case Operator(parts):
            forms = [form(part) for part in parts]
            return f"{expression.word}({', '.join(sorted(forms) if expression.symmetric else forms)})"
