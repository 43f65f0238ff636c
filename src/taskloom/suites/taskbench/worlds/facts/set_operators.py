"""The paper's word-level compositions (Table 2, Table 5) as set operations on relations and predicates.

Every operator first widens its operands to the inputs that matter (`at`), so that it is right on whole relations and on samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation

Domain = Literal["either", "common"]
"""Which inputs a binary composition has: those that either operand knows, or only those that both know."""


def chain(outer: Relation, inner: Relation) -> Relation:
    """The outer relation of every output of the inner one.

    >>> father = Relation({"c": ["b"], "b": ["a"]})
    >>> dict(chain(father, father))
    {'c': ('a',)}
    """
    known = outer.at(inner.outputs())
    rows = {x: set().union(*(known.get(y, ()) for y in ys)) for x, ys in inner.items()}
    return Relation(rows, (lambda ids: chain(outer, inner.at(ids))) if inner.partial else None)


def union(a: Relation, b: Relation, domain: Domain = "either") -> Relation:
    """The outputs of both relations.

    Args:
        a: One relation.
        b: The other.
        domain: `either`, as the paper's Table 2 says; `common` keeps the inputs that have both, as the published reference does.
    """
    a_at, b_at = _widened(a, b)
    inputs = a_at.keys() | b_at.keys() if domain == "either" else a_at.keys() & b_at.keys()
    rows = {x: {*a_at.get(x, ()), *b_at.get(x, ())} for x in inputs}
    return Relation(rows, _asker(a, b, lambda p, q: union(p, q, domain)))


def intersection(a: Relation, b: Relation) -> Relation:
    """The outputs that both relations give; inputs without a common output are outside the domain."""
    a_at, b_at = _widened(a, b)
    rows = {x: set(a_at[x]) & set(b_at[x]) for x in a_at.keys() & b_at.keys()}
    return Relation(rows, _asker(a, b, intersection))


def inverse(relation: Relation) -> Relation:
    """From outputs to inputs."""
    return relation.inverse()


def land(p: Predicate, q: Predicate, domain: Domain = "common") -> Predicate:
    """Both are true.

    Args:
        p: One predicate.
        q: The other.
        domain: `common`: entities of which both are known (the paper joins both patterns); `either`: also those that one known
            falsehood decides.
    """
    return _logic(p, q, all, False, domain, land)


def lor(p: Predicate, q: Predicate, domain: Domain = "common") -> Predicate:
    """At least one is true; with the domain `either` one known truth decides."""
    return _logic(p, q, any, True, domain, lor)


def lnot(p: Predicate) -> Predicate:
    """True where the predicate is false; what is unknown stays unknown."""
    ask = (lambda ids: {x: not true for x, true in p.at(ids).items()}) if p.partial else None
    return Predicate({x: not true for x, true in p.items()}, ask, p.classes)


def _widened(a: Relation, b: Relation) -> tuple[Relation, Relation]:
    """Each relation also on the other's domain, which changes nothing unless one is a sample."""
    return (a.at(a.keys() | b.keys()) if a.partial else a), (b.at(a.keys() | b.keys()) if b.partial else b)


def _asker(
    a: Relation, b: Relation, operator: Callable[[Relation, Relation], Relation]
) -> Callable[[list[str]], Relation] | None:
    return (lambda ids: operator(a.at(ids), b.at(ids))) if a.partial or b.partial else None


def _logic(
    p: Predicate,
    q: Predicate,
    combine: Callable[[list[bool]], bool],
    decisive: bool,
    domain: Domain,
    operator: Callable[[Predicate, Predicate, Domain], Predicate],
) -> Predicate:
    """Three-valued logic in one place: `decisive` is the truth value that settles the matter alone (false for and, true for or)."""
    everyone = p.keys() | q.keys()
    p_at, q_at = p.at(everyone), q.at(everyone)
    truth = {x: combine([p_at[x], q_at[x]]) for x in p_at.keys() & q_at.keys()}
    if domain == "either":
        truth |= {x: decisive for x, true in (*p_at.items(), *q_at.items()) if true is decisive}

    def ask(ids: list[str]) -> Mapping[str, bool]:
        return operator(p.at(ids), q.at(ids), domain)

    return Predicate(truth, ask if p.partial or q.partial else None, {*p.classes, *q.classes})
