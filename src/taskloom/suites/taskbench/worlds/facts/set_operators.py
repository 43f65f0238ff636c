"""The paper's word-level compositions (Table 2, Table 5) as set operations on relations and
predicates.

Every operator first extends its operands to the relevant inputs (`at`), so that it is correct for
complete relations and for samples. `FactComposer` evaluates expressions with these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Literal, assert_never

from taskloom.core.errors import InputError
from taskloom.suites.taskbench.language import ExpressionError, Type, map_filter, read_typed
from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Difference,
    Expression,
    Intersection,
    Inverse,
    Is,
    Land,
    Lnot,
    Lor,
    PredicateOperator,
    RelationOperator,
    SequenceOperator,
    Union,
)
from taskloom.suites.taskbench.worlds.facts.properties import is_id
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation

if TYPE_CHECKING:
    from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld

Domain = Literal["either", "common"]
"""Inputs of a binary composition: those that either operand knows, or only those that both know."""


MOST_PATHS = 20_000_000
"""Maximum number of paths through a chain, from inputs through intermediate values to answers. This
many take about 7 seconds and 2 GB. `chain(inverse(sex_or_gender), sex_or_gender)` connects
everybody with everybody, while the largest chain in the paper's list has 12,000 paths.
"""


def chain(outer: Relation, inner: Relation, *, text: str = "the chain") -> Relation:
    """Apply the outer relation to every output of the inner one. Raises an error before it starts
    if there would be too many paths.

    Args:
        outer: Relation that is applied to the outputs.
        inner: Relation whose inputs are those of the chain.
        text: Name of the chain in error messages.

    >>> father = Relation({"c": ["b"], "b": ["a"]})
    >>> dict(chain(father, father))
    {'c': ('a',)}
    """
    # Plain dicts of rows, because look-ups in a Mapping would double the time of a chain.
    known = dict(outer.at(inner.outputs()).items())
    rows = dict(inner.items())
    counts = {y: len(ys) for y, ys in known.items()}
    paths = sum(counts.get(y, 0) for ys in rows.values() for y in ys)
    if paths > MOST_PATHS:
        raise ExpressionError(
            f"{text} has {paths:,} paths from inputs to answers, more than the maximum of "
            f"{MOST_PATHS:,}; chain functions with fewer answers, or narrow one of them by an "
            "intersection"
        )
    reached: dict[str, Iterable[str]] = {}
    for x, ys in rows.items():
        if len(ys) == 1:  # most rows
            reached[x] = known.get(ys[0], ())
        else:
            reached[x] = set().union(*(known.get(y, ()) for y in ys))
    if not inner.partial:
        return Relation(reached)
    # A sample of the inner relation can be asked for more inputs, and so can the chain.
    return Relation(reached, lambda ids: chain(outer, inner.at(ids), text=text))


def union(a: Relation, b: Relation, domain: Domain = "either") -> Relation:
    """Return the outputs of either relation.

    Args:
        a: The first relation.
        b: The second relation.
        domain: `either` as in the paper's Table 2. `common` keeps the inputs that have both, as the
            published reference does.
    """
    a_at, b_at = _widened(a, b)
    inputs = a_at.keys() | b_at.keys() if domain == "either" else a_at.keys() & b_at.keys()
    rows = {x: {*a_at.get(x, ()), *b_at.get(x, ())} for x in inputs}
    return Relation(rows, _asker(a, b, lambda p, q: union(p, q, domain)))


def intersection(a: Relation, b: Relation) -> Relation:
    """Return the common outputs of two relations. Inputs without a common output are outside the
    domain.
    """
    a_at, b_at = _widened(a, b)
    rows = {x: set(a_at[x]) & set(b_at[x]) for x in a_at.keys() & b_at.keys()}
    return Relation(rows, _asker(a, b, intersection))


def difference(a: Relation, b: Relation) -> Relation:
    """Return the outputs of the first relation that the second does not have. Inputs without such
    outputs are outside the domain.
    """
    a_at, b_at = _widened(a, b)
    rows = {x: set(ys) - set(b_at.get(x, ())) for x, ys in a_at.items()}
    return Relation(rows, _asker(a, b, difference))


def inverse(relation: Relation) -> Relation:
    """Return the inverse relation, from outputs to inputs."""
    return relation.inverse()


def land(p: Predicate, q: Predicate, domain: Domain = "common") -> Predicate:
    """Return the conjunction of two predicates.

    Args:
        p: The first predicate.
        q: The second predicate.
        domain: `common` for entities whose truth is known for both (the paper joins both patterns).
            `either` adds those for which one predicate is known to be false.
    """
    return _logic(p, q, all, False, domain, land)


def lor(p: Predicate, q: Predicate, domain: Domain = "common") -> Predicate:
    """Return the disjunction of two predicates. With the domain `either`, one known truth value is
    enough.
    """
    return _logic(p, q, any, True, domain, lor)


def lnot(p: Predicate) -> Predicate:
    """Negate a predicate. Unknown inputs remain unknown."""
    ask = (lambda ids: {x: not true for x, true in p.at(ids).items()}) if p.partial else None
    return Predicate({x: not true for x, true in p.items()}, ask, p.classes)


def _widened(a: Relation, b: Relation) -> tuple[Relation, Relation]:
    """Extend each relation to the other's domain. This only affects samples."""
    inputs = a.keys() | b.keys()
    return (a.at(inputs) if a.partial else a), (b.at(inputs) if b.partial else b)


def _asker(
    a: Relation, b: Relation, operator: Callable[[Relation, Relation], Relation]
) -> Callable[[list[str]], Relation] | None:
    """How the result is extended to more inputs, if an operand is a sample that can be asked for
    them.
    """
    if not (a.partial or b.partial):
        return None
    return lambda ids: operator(a.at(ids), b.at(ids))


def _logic(
    p: Predicate,
    q: Predicate,
    combine: Callable[[list[bool]], bool],
    decisive: bool,
    domain: Domain,
    operator: Callable[[Predicate, Predicate, Domain], Predicate],
) -> Predicate:
    """Combine by three-valued logic. `decisive` is the truth value that decides the result by
    itself (False for and, True for or).
    """
    everyone = p.keys() | q.keys()
    p_at, q_at = p.at(everyone), q.at(everyone)
    truth = {x: combine([p_at[x], q_at[x]]) for x in p_at.keys() & q_at.keys()}
    if domain == "either":
        truth |= {x: decisive for x, true in (*p_at.items(), *q_at.items()) if true is decisive}

    def ask(ids: list[str]) -> Mapping[str, bool]:
        return operator(p.at(ids), q.at(ids), domain)

    return Predicate(truth, ask if p.partial or q.partial else None, {*p.classes, *q.classes})


class FactComposer:
    """Evaluates expressions (in normal form) as relations and predicates of a world. Each is
    composed only once.

    Args:
        world: World that provides the atoms.
        union_domain: The inputs of unions.
    """

    def __init__(self, world: FactWorld, union_domain: Domain = "either") -> None:
        self.world = world
        self.union = partial(union, domain=union_domain)
        self._relations: dict[str, Relation] = {}

    def function(self, text: str) -> tuple[str, Relation | Predicate]:
        """Return the function that a text describes, with its normal name. For a map or a filter,
        return the function of a single entity.

        >>> from taskloom.suites.taskbench.worlds.facts import open_world
        >>> FactComposer(open_world("synthetic#people=200")).function("map(union(mother, father))")[0]
        'union(father, mother)'
        """
        tree, kind = read_typed(text)
        if kind.form == "sequence":
            element, predicate = map_filter(tree)
            kind = Type("predicate" if element is None else "relation", kind.source)
            tree = element or predicate or tree
        tree = tree.normal()
        if kind.form == "predicate":
            return tree.notation, self.predicate(tree)
        return tree.notation, self.relation(tree)

    def relation(self, tree: Expression) -> Relation:
        """Return the relation that an expression describes."""
        key = tree.notation
        if key not in self._relations:
            self._relations[key] = self._compose(tree)
        return self._relations[key]

    def _compose(self, tree: Expression) -> Relation:
        match tree:
            case Atom() | Inverse():
                return self.world.relation(relation_name(tree))
            case Chain(parts):
                name = tree.notation
                return reduce(
                    lambda inner, outer: chain(outer, inner, text=name),
                    map(self.relation, reversed(parts)),
                )
            case Union(parts):
                return reduce(self.union, map(self.relation, parts))
            case Intersection(parts):
                return reduce(intersection, map(self.relation, parts))
            case Difference(parts):
                return reduce(difference, map(self.relation, parts))
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {tree.notation}")
            case _:
                assert_never(tree)

    def predicate(self, tree: Expression) -> Predicate:
        """Return the predicate that an expression describes."""
        match tree:
            case Atom(name):
                return self.world.predicate(name)
            case Is(relation, value):
                return self._matching(relation, self._entities(value))
            case Lnot():
                return lnot(self.predicate(tree.part))
            case Land(parts):
                return reduce(land, map(self.predicate, parts))
            case Lor(parts):
                return reduce(lor, map(self.predicate, parts))
            case Chain():
                reached = self.relation(tree.rest)
                known = self.predicate(tree.head).at(reached.outputs())
                truths = {x: [known[y] for y in ys if y in known] for x, ys in reached.items()}
                return Predicate({x: any(row) for x, row in truths.items() if row})
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {tree.notation}")
            case _:
                assert_never(tree)

    def _entities(self, value: str) -> list[str]:
        """Return the entities that a value in a predicate may refer to: those with that id or that
        name.
        """
        entities = [x for x in dict.fromkeys((value, *self.world.ids(value))) if is_id(x)]
        if not entities:
            raise InputError(
                f"'{value}' is not an entity of this world; use a label as written in the world, "
                "or an id"
            )
        return entities

    def _matching(self, relation: Expression, values: list[str]) -> Predicate:
        """Return the predicate that any of these entities is among the values. For atoms, the world
        itself can find rare ones.
        """
        if isinstance(relation, Atom | Inverse):
            return self.world.matching(relation_name(relation), *values)
        return Predicate.matching(self.relation(relation), *values)


def relation_name(relation: Atom | Inverse) -> str:
    """Return the world's name for an atom or its inverse. `instance of` is named by its
    property.
    """
    name, suffix = (relation.name, "") if isinstance(relation, Atom) else (relation.atom, ".inv")
    return ("P31" if name == "instance_of" else name) + suffix
