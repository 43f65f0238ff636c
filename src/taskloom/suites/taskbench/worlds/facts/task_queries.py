"""The SPARQL query of a factual task. Atoms and compositions alike are a single query, following
the paper's Table 2.

A relation becomes pairs of ?x and ?y. A predicate becomes inputs ?x with true or false as ?y. If
the paper's rules leave something open, the query does the same as the joins of `set_operators`:
values are entities (unknown values are not), subclasses of an occupation or class count, a
predicate is false only if the graph classifies all values, and a union has the inputs of either
operand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import assert_never

from taskloom.core.errors import InputError
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.language import Type, map_filter
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
    atoms_of,
)
from taskloom.suites.taskbench.worlds.facts.properties import (
    CLASS_PROPERTIES,
    ENTITY,
    LABEL,
    NAMELESS,
    PREDICATES,
    PROPERTY,
    ROOT,
    SUBCLASS_OF,
    Direction,
    check_language,
    direction,
    iri_term,
    is_id,
    property_term,
    text_term,
)
from taskloom.suites.taskbench.worlds.facts.set_operators import Domain, relation_name

Lines = list[str]
KEPT = "?kept"
"""Variable that is true if a filter keeps ?x."""


def is_factual(expression: Expression) -> bool:
    """True if a function uses only entities and no words."""
    known = [atoms.known(name) for name in atoms_of(expression)]
    return all(k is not None and k.family == "factual" and k.name != "label" for k in known)


def task_query(
    expression: Expression,
    kind: Type,
    union_domain: Domain = "either",
    language: str = "en",
) -> str:
    """Write a factual function (in normal form) as one SPARQL query.

    Args:
        expression: The function.
        kind: Its type. The query for a map gives the values for one entity, the query for a filter
            whether an entity is kept.
        union_domain: The inputs of unions.
        language: Language of the labels that `is{...}` may use for values.
    """
    if not is_factual(expression):
        raise InputError(
            f"{expression.notation} is about words, which are not in a graph of facts, so it has "
            "no SPARQL query"
        )
    writer = _QueryWriter(union_domain, check_language(language))
    variables = "?x ?y"
    match kind.form:
        case "relation":
            body = writer.relation(expression, "?x", "?y")
        case "predicate":
            body = writer.predicate(expression, "?x", "?y")
        case _:
            variables, body = writer.sequence(expression)
    text = "\n".join(_indented([*body, _is_entity("?x")]))
    return f"{_prefixes(text)}SELECT DISTINCT {variables} WHERE {{\n{text}\n}}\n"


class _QueryWriter:
    """Writes patterns. Each call of a rule uses its own variables."""

    def __init__(self, union_domain: Domain, language: str) -> None:
        self.union_domain = union_domain
        self.language = language
        self._numbers = count(1)

    def _new(self) -> str:
        return f"?v{next(self._numbers)}"

    def sequence(self, tree: Expression) -> tuple[str, Lines]:
        """Write the result for one item of a sequence: whether it is kept, and its values."""
        element, predicate = map_filter(tree)
        if predicate is None:
            assert element is not None
            return "?x ?y", self.relation(element, "?x", "?y")
        if element is None:
            return f"?x {KEPT}", self.predicate(predicate, "?x", KEPT)
        kept = self._decided(
            predicate, "?x", KEPT, "", ("?x", "?y"), self.relation(element, "?x", "?y")
        )
        dropped = self._decided(predicate, "?x", KEPT, "!", ("?x",))
        return f"?x {KEPT} ?y", _union(kept, dropped)

    def relation(self, tree: Expression, x: str, y: str) -> Lines:
        """Write that y is a value of a relation for x."""
        match tree:
            case Atom() | Inverse():
                return [_triple(x, direction(relation_name(tree)), y), _is_entity(y)]
            case Chain(parts):
                between = [self._new() for _ in parts[1:]]
                places = [x, *between, y]
                path: Lines = []
                for part, start, end in zip(reversed(parts), places[:-1], places[1:], strict=True):
                    path += self.relation(part, start, end)
                return path
            case Union(parts):
                # Variables are numbered in the order of these calls, so the order is part of the
                # query.
                both = [line for part in parts for line in self.relation(part, x, self._new())]
                lines = _union(*(self.relation(part, x, y) for part in parts))
                if self.union_domain == "common":
                    lines += both
                return lines
            case Intersection(parts):
                return [line for part in parts for line in self.relation(part, x, y)]
            case Difference():
                return [
                    *self.relation(tree.kept, x, y),
                    *_group("MINUS", self.relation(tree.removed, x, y)),
                ]
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {tree.notation}")
            case _:
                assert_never(tree)

    def predicate(self, tree: Expression, x: str, y: str) -> Lines:
        """Bind y to the truth of a predicate for x: one group of counts for all its atoms."""
        return self._decided(tree, x, y, None, (x,))

    def _decided(
        self,
        tree: Expression,
        of: str,
        y: str,
        only: str | None,
        groups: tuple[str, ...],
        given: Sequence[str] = (),
    ) -> Lines:
        """Bind y to the truth of a predicate, for each value of some variables.

        Args:
            tree: The predicate.
            of: Variable that the predicate is about.
            y: The variable for the truth value.
            only: "" to select values for which it is true, "!" for those for which it is false,
                None for both.
            groups: The variables.
            given: Patterns that also bind the variables. They are repeated in each pattern instead
                of being joined with the group of counts, because Virtuoso counts again for every
                row joined with a group, and runs out of memory on paths of classes.
        """
        test = self._test(tree, of)
        condition = test.known if only is None else f"({test.known}) && {only}{test.truth}"
        names = " ".join(groups)
        body = _union(*([*given, *lines] for lines in test.values))
        select = f"SELECT {names} ({test.truth} AS {y}) WHERE {{"
        return _group(
            "", [select, *_indented(body), "}", f"GROUP BY {names}", f"HAVING ({condition})"]
        )

    def _test(self, tree: Expression, x: str) -> _Test:
        match tree:
            case Atom(name):
                what = PREDICATES[name]
                return self._is(Atom(what.prop), what.object, x)
            case Is(relation, value):
                return self._is(relation, value, x)
            case Lnot():
                inner = self._test(tree.part, x)
                return _Test(f"(!{inner.truth})", inner.known, inner.values)
            case Land(parts) | Lor(parts):
                word = " && " if isinstance(tree, Land) else " || "
                tests = [self._test(part, x) for part in parts]
                return _Test(
                    f"({word.join(test.truth for test in tests)})",
                    " && ".join(test.known for test in tests),
                    [lines for test in tests for lines in test.values],
                )
            case Chain():
                return self._any(tree, x)
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {tree.notation}")
            case _:
                assert_never(tree)

    def _is(self, relation: Expression, value: str, x: str) -> _Test:
        """Write whether an entity, given by its id or its label, is among the values. For classes,
        its subclasses count too.
        """
        every, right = self._new(), self._new()
        known = self.relation(relation, x, every)
        wanted = _entity(value) if is_id(value) else self._new()
        named = [] if is_id(value) else [f"{wanted} <{LABEL}> {text_term(value)}@{self.language} ."]
        way = direction(relation_name(relation)) if isinstance(relation, Atom) else None
        if way is None or way.prop not in CLASS_PROPERTIES:
            holds = [*named, *self.relation(relation, x, right), f"FILTER({right} = {wanted})"]
            return _Test(_some(right), _some(every), [known, holds])
        placed = self._new()
        holds = [_triple(x, way, right), *_below(right, wanted, named)]
        above = [_triple(x, way, placed), *_below(placed, _entity(ROOT))]
        decided = f"{_some(every)} && ({_some(right)} || {_count(every)} = {_count(placed)})"
        return _Test(_some(right), decided, [known, holds, above])

    def _any(self, tree: Chain, x: str) -> _Test:
        """Write whether a predicate holds for any value of a relation. Its truth must be known for
        at least one value.
        """
        every, right = self._new(), self._new()
        parts = [
            self._decided(
                tree.head, value, self._new(), only, (x, value), self.relation(tree.rest, x, value)
            )
            for value, only in ((every, None), (right, ""))
        ]
        return _Test(_some(right), _some(every), parts)


@dataclass(frozen=True, slots=True)
class _Test:
    """A predicate as conditions on counts. With nested `NOT EXISTS` instead, servers would look up
    a path of subclasses for each row.

    Attributes:
        truth: Condition that it holds for an input.
        known: Condition that the graph states whether it holds.
        values: Patterns whose values are counted.
    """

    truth: str
    known: str
    values: list[Lines]


def _count(variable: str) -> str:
    return f"COUNT(DISTINCT {variable})"


def _some(variable: str) -> str:
    return f"({_count(variable)} > 0)"


def _below(narrow: str, broad: str, named: Sequence[str] = ()) -> Lines:
    """Write that one class is a kind of another, in a separate subquery, so that the path is
    followed once instead of for every row.
    """
    path = f"{narrow} {_property(SUBCLASS_OF)}* {broad} ."
    return _group("", [f"SELECT DISTINCT {narrow} WHERE {{", *_indented([*named, path]), "}"])


def _triple(x: str, way: Direction, y: str) -> str:
    start, end = (y, x) if way.inverse else (x, y)
    return f"{start} {_property(way.prop)} {end} ."


def _is_entity(variable: str) -> str:
    """Write that a variable is an entity rather than a value that is only known to exist."""
    return f'FILTER(isIRI({variable}) && !CONTAINS(STR({variable}), "{NAMELESS}"))'


def _union(*parts: Lines) -> Lines:
    lines: Lines = []
    for part in parts:
        lines += _group("UNION" if lines else "", part)
    return lines


def _group(word: str, lines: Lines) -> Lines:
    return [f"{word} {{".lstrip(), *_indented(lines), "}"]


def _indented(lines: Lines) -> Lines:
    return [f"  {line}" for line in lines]


def _property(prop: str) -> str:
    return property_term(prop).replace(f"<{PROPERTY}", "wdt:").removesuffix(">")


def _entity(id: str) -> str:
    term = iri_term(id)
    if term == f"<{ENTITY}{id}>":
        return f"wd:{id}"
    return term


def _prefixes(text: str) -> str:
    lines = ""
    for prefix, iri in (("wd:", ENTITY), ("wdt:", PROPERTY)):
        if re.search(rf"\b{prefix}", text):
            lines += f"PREFIX {prefix} <{iri}>\n"
    return lines
