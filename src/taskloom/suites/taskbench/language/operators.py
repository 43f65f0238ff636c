"""Nodes of expressions: atoms, `is`, and one class for each operator.

Each class defines everything that the language knows about its operator: its name, number of
operands, type rule, normal form, notation and English. Values are computed by the interpreters: the
evaluator, the second solver, facts and derivations. They match on these classes and end in
`assert_never`, so mypy reports every place where a new operator is still missing.

To add an operator, write a class here and add it to `AnyOperator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, get_args

from taskloom.suites.taskbench.language.types import Type

if TYPE_CHECKING:
    from taskloom.suites.taskbench.language.parser import Checker


Span = tuple[int, int]
"""Location of an expression in the text: the index of its first character, and of the character
after its last.
"""

_NOWHERE: Span = (0, 0)

MANY = 99
"""Maximum number of operands. In effect this is unlimited, because longer expressions exceed the
limits on length and nesting.
"""

ONE, ALL = 0, 1
"""Grammatical number of a noun phrase: one value of a relation, or all of them."""


class Phrases(Protocol):
    """The English phrases for atoms."""

    def phrases(self, name: str) -> tuple[str, str]:
        """Return the phrases for one value and for all values. For a predicate, return its positive
        and its negative claim.
        """

    def inverse_phrases(self, name: str) -> tuple[str, str] | None:
        """Return the phrases for the inverse of an atom, if it has its own wording."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A function with a name in the world, such as `synonyms[eng]`, `father` or
    `is_pos_noun[eng]`.
    """

    name: str
    span: Span = field(default=_NOWHERE, compare=False, repr=False)

    @property
    def notation(self) -> str:
        """The expression in our notation."""
        return self.name

    def infer(self, checker: Checker) -> Type:
        """Return the declared type."""
        declared = checker.signatures(self.name)
        if declared is None:
            raise checker.fail(self, f"unknown atom '{self.name}'")
        return declared

    def normal(self) -> Expression:
        """Return the atom itself."""
        return self

    def inverted(self) -> Expression:
        """Return the inverse, in normal form."""
        return Inverse((self,))

    def value(self, x: str, number: int, words: Phrases) -> str:
        """Describe one value or all values for x."""
        return words.phrases(self.name)[number].format(x=x)

    def claim(self, true: bool, words: Phrases) -> str:
        """State that the predicate holds, or that it does not."""
        return words.phrases(self.name)[0 if true else 1]


@dataclass(frozen=True, slots=True)
class Is:
    """Predicate that is true if `value` is among the values of `relation` for x."""

    relation: Expression
    value: str
    span: Span = field(default=_NOWHERE, compare=False, repr=False)

    @property
    def notation(self) -> str:
        """The expression in our notation, which supports `is` only for atoms."""
        if not isinstance(self.relation, Atom):
            raise ValueError(f"is{{…={self.value}}} needs an atom, not {self.relation.notation}")
        return f"is{{{self.relation.name}={self.value}}}"

    def infer(self, checker: Checker) -> Type:
        """Return the type of a predicate on the relation's inputs."""
        return Type("predicate", checker.want(self.relation, "relation", "is").source)

    def normal(self) -> Expression:
        """Return the predicate itself."""
        return self

    def claim(self, true: bool, words: Phrases) -> str:
        """State that the value is among the relation's values, or that it is not."""
        phrase = as_relation(self.relation).value("it", ONE, words)
        if phrase.endswith(" of it"):
            return (
                f"{'has' if true else 'does not have'} {self.value} as"
                f" {phrase.removesuffix(' of it')}"
            )
        return f"is such that {self.value} {'is' if true else 'is not'} {phrase}"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator applied to its operands.

    Attributes:
        word: Name of the operator in the language.
        least: Minimum number of operands.
        most: Maximum number of operands.
        symmetric: True if the order and repetition of operands have no effect.
    """

    parts: tuple[Expression, ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)

    word: ClassVar[str]
    least: ClassVar[int] = 2
    most: ClassVar[int] = MANY
    symmetric: ClassVar[bool] = False

    @property
    def notation(self) -> str:
        """The expression in our notation."""
        return f"{self.word}({', '.join(part.notation for part in self.parts)})"


class RelationOperator(Operator):
    """An operator whose result is a relation. A chain may also be a predicate."""

    __slots__ = ()


class PredicateOperator(Operator):
    """An operator whose result is a predicate."""

    __slots__ = ()


class SequenceOperator(Operator):
    """An operator whose result is a sequence function.

    Its optional second operand is the sequence function applied first: `map(f, filter(p))` filters,
    then maps.
    """

    __slots__ = ()

    least = 1
    most = 2

    @property
    def element(self) -> Expression:
        """The function applied to single words."""
        return self.parts[0]

    @property
    def before(self) -> Expression | None:
        """The sequence function that is applied first, or None."""
        return self.parts[1] if len(self.parts) > 1 else None


MOST_STEPS = 32
"""Maximum number of functions in a chain, because each is applied to all values of the previous
one. The paper's chains have 2.
"""


@dataclass(frozen=True, slots=True)
class Chain(RelationOperator):
    """`chain(f, g)` applies f after g, as in the paper."""

    word = "chain"

    @property
    def steps(self) -> int:
        """Number of functions, including those of nested chains."""
        return sum(part.steps if isinstance(part, Chain) else 1 for part in self.parts)

    @classmethod
    def of(cls, parts: Iterable[Expression]) -> Expression:
        """Build a chain without nested chains. A single part is returned unchanged."""
        flat: list[Expression] = []
        for part in parts:
            flat.extend(part.parts if isinstance(part, Chain) else (part,))
        return cls(tuple(flat)) if len(flat) > 1 else flat[0]

    @property
    def head(self) -> Expression:
        """The outermost part, which is applied last."""
        return self.parts[0]

    @property
    def rest(self) -> Expression:
        """The chain without its head."""
        return Chain.of(self.parts[1:])

    @property
    def inner(self) -> Expression:
        """The innermost part, which is applied first."""
        return self.parts[-1]

    @property
    def outer(self) -> Expression:
        """The chain without its innermost part."""
        return Chain.of(self.parts[:-1])

    def infer(self, checker: Checker) -> Type:
        """Check the parts from last to first. Only the first may be a predicate, because truth
        values are not words.
        """
        if self.steps > MOST_STEPS:
            raise checker.fail(
                self,
                f"this chain has {self.steps} functions, but at most {MOST_STEPS} are supported",
            )
        start = checker.want(self.inner, "relation", self.word)
        reached = start
        for position in range(len(self.parts) - 2, -1, -1):
            part = self.parts[position]
            after = checker.check(part)
            if after.form == "sequence":
                raise checker.fail(
                    part,
                    f"chain expects a relation here, but this is {after}; write map(f, filter(p))",
                )
            if after.form == "predicate" and position > 0:
                raise checker.fail(part, f"chain expects a relation here, but this is {after}")
            checker.fit(part, after.source, reached.target)
            reached = after
        return Type(reached.form, start.source, reached.target)

    def normal(self) -> Expression:
        """Flatten nested chains."""
        return Chain.of(part.normal() for part in self.parts)

    def inverted(self) -> Expression:
        """Chain the inverses in the opposite order."""
        return Chain.of(as_relation(part).inverted() for part in reversed(self.parts))

    def value(self, x: str, number: int, words: Phrases) -> str:
        """Describe a value, as in "an antonym of a hyponym of x"."""
        for part in reversed(self.parts):
            x = as_relation(part).value(x, number, words)
        return x

    def claim(self, true: bool, words: Phrases) -> str:
        """State the claim, as in "has among the synonyms of it one that can be a noun"."""
        among = as_relation(self.rest).value("it", ALL, words)
        return (
            f"has among {among} {'one' if true else 'none'} that"
            f" {as_predicate(self.head).claim(True, words)}"
        )


@dataclass(frozen=True, slots=True)
class Union(RelationOperator):
    """`union(f, g)`: the values of any of the operands."""

    word = "union"
    symmetric = True

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are relations of one type."""
        return checker.alike(self, "relation")

    def normal(self) -> Expression:
        """Sort the operands, merge nested ones, and list each once."""
        return commuted(Union, (part.normal() for part in self.parts))

    def inverted(self) -> Expression:
        """Invert each operand."""
        return commuted(Union, (as_relation(part).inverted() for part in self.parts))

    def value(self, x: str, number: int, words: Phrases) -> str:
        """Describe a value, as in "a synonym of x or an antonym of x"."""
        return (" or ", " and ")[number].join(
            as_relation(part).value(x, number, words) for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class Intersection(RelationOperator):
    """`intersection(f, g)`: the values that all operands have in common."""

    word = "intersection"
    symmetric = True

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are relations of one type."""
        return checker.alike(self, "relation")

    def normal(self) -> Expression:
        """Sort the operands, merge nested ones, and list each once."""
        return commuted(Intersection, (part.normal() for part in self.parts))

    def inverted(self) -> Expression:
        """Invert each operand."""
        return commuted(Intersection, (as_relation(part).inverted() for part in self.parts))

    def value(self, x: str, number: int, words: Phrases) -> str:
        """Describe a value, as in "something that is both a synonym of x and an antonym of x"."""
        both = " and ".join(as_relation(part).value(x, ONE, words) for part in self.parts)
        return f"something that is both {both}"


@dataclass(frozen=True, slots=True)
class Difference(RelationOperator):
    """`difference(f, g)`: the values of f that are not values of g."""

    word = "difference"
    most = 2

    @property
    def kept(self) -> Expression:
        """The relation whose values are kept."""
        return self.parts[0]

    @property
    def removed(self) -> Expression:
        """The relation whose values are removed."""
        return self.parts[1]

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are relations of one type."""
        return checker.alike(self, "relation")

    def normal(self) -> Expression:
        """Merge nested differences: remove the union of all removed values."""
        kept, removed = (part.normal() for part in self.parts)
        if isinstance(kept, Difference):
            return Difference((kept.kept, commuted(Union, [kept.removed, removed])))
        return Difference((kept, removed))

    def inverted(self) -> Expression:
        """Invert each operand."""
        return Difference(tuple(as_relation(part).inverted() for part in self.parts))

    def value(self, x: str, number: int, words: Phrases) -> str:
        """Describe a value, as in "a synonym of x that is not a hyponym of x"."""
        kept, removed = (as_relation(part).value(x, number, words) for part in self.parts)
        return f"{kept} {('that is not', 'except')[number]} {removed}"


@dataclass(frozen=True, slots=True)
class Inverse(RelationOperator):
    """`f.inv`: maps the values of f to the inputs that have them. In normal form, f is an atom."""

    word = "inverse"
    least = 1
    most = 1

    @property
    def part(self) -> Expression:
        """The relation to invert."""
        return self.parts[0]

    @property
    def atom(self) -> str:
        """Name of the inverted atom, in normal form."""
        if not isinstance(self.part, Atom):
            raise ValueError(f"{self.notation} is not in normal form")
        return self.part.name

    @property
    def notation(self) -> str:
        """The expression in our notation."""
        if isinstance(self.part, Atom):
            return f"{self.part.name}.inv"
        return f"{self.word}({self.part.notation})"

    def infer(self, checker: Checker) -> Type:
        """Swap the relation's source and target types."""
        inner = checker.want(self.part, "relation", self.word)
        return Type("relation", inner.target, inner.source)

    def normal(self) -> Expression:
        """Move the inverse down to the atoms, where double inverses cancel out."""
        return as_relation(self.part.normal()).inverted()

    def inverted(self) -> Expression:
        """Return the relation to invert."""
        return self.part

    def value(self, x: str, number: int, words: Phrases) -> str:
        """Describe the inverse, in its own wording if it has one ("a child of x")."""
        phrases = words.inverse_phrases(self.atom)
        if phrases is not None:
            return phrases[number].format(x=x)
        return (
            f"{('something', 'everything')[number]} that has {x} among"
            f" {as_relation(self.part).value('it', ALL, words)}"
        )


@dataclass(frozen=True, slots=True)
class Land(PredicateOperator):
    """`land(p, q)`: true if all operands are true."""

    word = "land"
    symmetric = True

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are predicates of one type."""
        return checker.alike(self, "predicate")

    def normal(self) -> Expression:
        """Sort the operands, merge nested ones, and list each once."""
        return commuted(Land, (part.normal() for part in self.parts))

    def claim(self, true: bool, words: Phrases) -> str:
        """State "both p and q", or its negation by De Morgan's law."""
        return _joined(self.parts, true, true, words)


@dataclass(frozen=True, slots=True)
class Lor(PredicateOperator):
    """`lor(p, q)`: true if at least one operand is true."""

    word = "lor"
    symmetric = True

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are predicates of one type."""
        return checker.alike(self, "predicate")

    def normal(self) -> Expression:
        """Sort the operands, merge nested ones, and list each once."""
        return commuted(Lor, (part.normal() for part in self.parts))

    def claim(self, true: bool, words: Phrases) -> str:
        """State "either p or q", or its negation by De Morgan's law."""
        return _joined(self.parts, true, not true, words)


@dataclass(frozen=True, slots=True)
class Lnot(PredicateOperator):
    """`lnot(p)`: true if p is false."""

    word = "lnot"
    least = 1
    most = 1

    @property
    def part(self) -> Expression:
        """The predicate that is negated."""
        return self.parts[0]

    def infer(self, checker: Checker) -> Type:
        """Check that the operand is a predicate."""
        return checker.want(self.part, "predicate", self.word)

    def normal(self) -> Expression:
        """Remove double negation."""
        inner = self.part.normal()
        return inner.part if isinstance(inner, Lnot) else Lnot((inner,))

    def claim(self, true: bool, words: Phrases) -> str:
        """State the opposite."""
        return as_predicate(self.part).claim(not true, words)


@dataclass(frozen=True, slots=True)
class Map(SequenceOperator):
    """`map(f)`: applies f to each word of a sequence."""

    word = "map"

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are a relation and a sequence function that returns the
        relation's inputs.
        """
        own = checker.want(self.element, "relation", self.word)
        return checker.sequence(self, own.source, own.target)

    def normal(self) -> Expression:
        """Return one map after at most one filter, by the paper's rules (5) to (7)."""
        return _fused(*self.map_filter())

    def map_filter(self) -> tuple[Expression | None, Expression | None]:
        """Return (fM, fF) with map{fM}(filter{fF}) equal to this function."""
        function, predicate = _before(self)
        own = self.element.normal()
        return (own if function is None else Chain.of([own, function])), predicate


@dataclass(frozen=True, slots=True)
class Filter(SequenceOperator):
    """`filter(p)`: keeps the words of a sequence for which p is true."""

    word = "filter"

    def infer(self, checker: Checker) -> Type:
        """Check that the operands are a predicate and a sequence function that returns the
        predicate's inputs.
        """
        own = checker.want(self.element, "predicate", self.word)
        return checker.sequence(self, own.source, own.source)

    def normal(self) -> Expression:
        """Return one map after at most one filter, by the paper's rules (5) to (7)."""
        return _fused(*self.map_filter())

    def map_filter(self) -> tuple[Expression | None, Expression | None]:
        """Return (fM, fF) with map{fM}(filter{fF}) equal to this function."""
        function, predicate = _before(self)
        own = self.element.normal()
        on_input = own if function is None else Chain.of([own, function])
        return function, on_input if predicate is None else commuted(Land, [predicate, on_input])


AnyOperator = Chain | Union | Intersection | Difference | Inverse | Land | Lor | Lnot | Map | Filter
"""Every operator of the language."""

Expression = Atom | Is | AnyOperator

OPERATORS: dict[str, type[AnyOperator]] = {
    operator.word: operator for operator in get_args(AnyOperator)
}
"""Maps the name of every operator to its class."""


def as_relation(
    expression: Expression,
) -> Atom | Chain | Union | Intersection | Difference | Inverse:
    """Return the expression if it may be a relation, otherwise raise `ValueError`."""
    if isinstance(expression, (Is, PredicateOperator, SequenceOperator)):
        raise ValueError(f"not a relation: {expression.notation}")
    return expression


def as_predicate(expression: Expression) -> Atom | Is | Chain | Land | Lor | Lnot:
    """Return the expression if it may be a predicate, otherwise raise `ValueError`."""
    if isinstance(expression, Chain):
        return expression
    if isinstance(expression, (RelationOperator, SequenceOperator)):
        raise ValueError(f"not a predicate: {expression.notation}")
    return expression


def atoms_of(expression: Expression) -> Iterator[str]:
    """Yield the names of the atoms of an expression from left to right, including repeats."""
    match expression:
        case Atom(name):
            yield name
        case Is(relation):
            yield from atoms_of(relation)
        case Operator(parts):
            for part in parts:
                yield from atoms_of(part)


def depth(expression: Expression) -> int:
    """Maximum number of operators on a path down to an atom."""
    match expression:
        case Atom():
            return 0
        case Is(relation):
            return depth(relation)
        case Operator(parts):
            return 1 + max(depth(part) for part in parts)


def commuted(
    operator: type[Union | Intersection | Land | Lor], parts: Iterable[Expression]
) -> Expression:
    """Build a symmetric operator with its operands flattened, sorted by their notation, and listed
    once.
    """
    flat: dict[str, Expression] = {}
    for part in parts:
        inner = part.parts if isinstance(part, operator) else (part,)
        flat.update({one.notation: one for one in inner})
    if len(flat) == 1:
        return next(iter(flat.values()))
    return operator(tuple(flat[text] for text in sorted(flat)))


def _joined(parts: tuple[Expression, ...], true: bool, both: bool, words: Phrases) -> str:
    claims = [as_predicate(part).claim(true, words) for part in parts]
    return f"both {' and '.join(claims)}" if both else f"either {' or '.join(claims)}"


def _before(expression: Map | Filter) -> tuple[Expression | None, Expression | None]:
    before = expression.before
    if before is None:
        return None, None
    assert isinstance(before, Map | Filter)
    return before.map_filter()


def _fused(function: Expression | None, predicate: Expression | None) -> Expression:
    if predicate is None:
        assert function is not None
        return Map((function,))
    kept = Filter((predicate,))
    return kept if function is None else Map((function, kept))


# The normal form gives equal tasks equal names
#
# Nested maps and filters become one map after one filter, by the paper's rules (5) to (7). Chains
# are flattened. The operands of symmetric operators are flattened, sorted and listed once. Inverses
# are moved down to the atoms. Double inverses and double negations cancel out. Each operator has
# its own rule above. No rule changes the values of a function, which the tests verify on random
# expressions over a small world.


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

    None represents the identity, or the predicate that is always true.
    """
    assert isinstance(expression, Map | Filter)
    return expression.map_filter()
