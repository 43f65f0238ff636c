"""The normal form: equal tasks get equal names.

Nested maps and filters become one map after one filter, by the paper's rules (5) to (7); chains are flattened; the operands of
symmetric operators are flattened, sorted and listed once; inverses are pushed down to the atoms, where two of them cancel, as two
negations do. Each operator has its own rule in `operators.py`. No rule changes what a function does, which the tests prove on
random expressions over a small world.
"""

from __future__ import annotations

from taskloom.suites.taskbench.language.operators import Expression, Filter, Map


def normal(expression: Expression) -> Expression:
    """Return the normal form of a well-typed expression.

    >>> from taskloom.suites.taskbench.language.operators import Atom, Union
    >>> normal(Union((Atom("mother"), Atom("father"), Atom("mother")))).notation
    'union(father, mother)'
    """
    return expression.normal()


def name(expression: Expression) -> str:
    """Return the name of a task: its normal form in our notation."""
    return expression.normal().notation


def map_filter(expression: Expression) -> tuple[Expression | None, Expression | None]:
    """Split a sequence function into (fM, fF) with map-filter{fM, fF} = map{fM}(filter{fF}).

    None stands for the identity and for the predicate that always holds.
    """
    assert isinstance(expression, Map | Filter)
    return expression.map_filter()
