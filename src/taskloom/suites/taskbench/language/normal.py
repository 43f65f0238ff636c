"""The normal form: equal tasks get equal names.

Nested maps and filters become one map after one filter, by the paper's rules (5) to (7); chains are flattened; the operands of
symmetric operators are flattened, sorted and listed once; inverses are pushed down to the atoms, where two of them cancel, as two
negations do. No rule changes what a function does, which the tests prove on random expressions over a small world.
"""

from __future__ import annotations

from collections.abc import Iterable

from taskloom.suites.taskbench.language.nodes import Atom, Call, Expression, Is
from taskloom.suites.taskbench.language.printer import show

SYMMETRIC = ("union", "intersection", "land", "lor")


def normal(expression: Expression) -> Expression:
    """The normal form of a well-typed expression.

    >>> show(normal(Call("union", (Atom("mother"), Atom("father"), Atom("mother")))))
    'union(father, mother)'
    """
    match expression:
        case Atom():
            return expression
        case Is():
            return expression
        case Call("chain", parts):
            return _chain(map(normal, parts))
        case Call("inverse", (part,)):
            return _inverse(normal(part))
        case Call("lnot", (part,)):
            inner = normal(part)
            return inner.parts[0] if isinstance(inner, Call) and inner.operator == "lnot" else Call("lnot", (inner,))
        case Call(("map" | "filter"), _):
            function, predicate = map_filter(expression)
            kept = [] if predicate is None else [Call("filter", (predicate,))]
            return kept[0] if function is None else Call("map", (function, *kept))
        case Call(operator, parts):
            return _symmetric(operator, map(normal, parts))


def name(expression: Expression) -> str:
    """The name of a task: its normal form in our notation."""
    return show(normal(expression))


def map_filter(expression: Expression) -> tuple[Expression | None, Expression | None]:
    """A sequence function as (fM, fF) with map-filter{fM, fF} = map{fM}(filter{fF}); None stands for the identity and for true."""
    assert isinstance(expression, Call)
    own = normal(expression.parts[0])
    function, predicate = map_filter(expression.parts[1]) if len(expression.parts) > 1 else (None, None)
    if expression.operator == "map":
        return (own if function is None else _chain([own, function])), predicate
    on_input = own if function is None else _chain([own, function])
    return function, on_input if predicate is None else _symmetric("land", [predicate, on_input])


def _chain(parts: Iterable[Expression]) -> Expression:
    flat: list[Expression] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Call) and part.operator == "chain" else (part,))
    return Call("chain", tuple(flat)) if len(flat) > 1 else flat[0]


def _symmetric(operator: str, parts: Iterable[Expression]) -> Expression:
    assert operator in SYMMETRIC
    flat: dict[str, Expression] = {}
    for part in parts:
        inner = part.parts if isinstance(part, Call) and part.operator == operator else (part,)
        flat.update({show(one): one for one in inner})
    if len(flat) == 1:
        return next(iter(flat.values()))
    return Call(operator, tuple(flat[text] for text in sorted(flat)))


def _inverse(part: Expression) -> Expression:
    match part:
        case Call("inverse", (inner,)):
            return inner
        case Call("chain", parts):
            return _chain([_inverse(p) for p in reversed(parts)])
        case Call(("union" | "intersection") as operator, parts):
            return _symmetric(operator, [_inverse(p) for p in parts])
        case _:
            return Call("inverse", (part,))
