"""The answer to a single input, with all values of each step, as shown by `taskloom apply`.

The rows of datasets instead contain the one path that leads to their official answer.
`derivation_columns.py` finds it for whole columns, 9 to 115 times as fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, assert_never

from taskloom.core.errors import InputError
from taskloom.core.example import Answer, Step
from taskloom.suites.taskbench.language import Type, map_filter, show
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

BETWEEN = " | "
"""Separator of the members of a set in a step's value. No word contains it."""

SEPARATOR = "#"
"""Separator between the items of a sequence, if separators are enabled."""


def items(text: str, separators: bool | None = None) -> list[str]:
    """Split a sequence into its items, at separators or otherwise at spaces."""
    if separators is None:
        separators = SEPARATOR in text
    if not separators:
        return text.split()
    parts = [item.strip() for item in text.split(SEPARATOR)]
    return [item for item in parts if item]


def join(texts: Iterable[str], separators: bool) -> str:
    """Join the items of a sequence to a text."""
    between = f" {SEPARATOR} " if separators else " "
    return between.join(texts)


class Space(Protocol):
    """The items for which atoms have values: words, entities, or both."""

    def enter(self, text: str, kind: str) -> tuple[str, ...]:
        """Return the items that a text may refer to: one word, or every entity with that name.
        Raises an error if there are none.
        """

    def look(self, name: str, item: str, inverse: bool = False) -> tuple[str, ...]:
        """Return the values of a relation, or of its inverse, for one item."""

    def holds(self, name: str, item: str) -> bool:
        """True if a predicate holds of one item."""

    def decides(self, name: str, item: str) -> bool:
        """True if the truth of a predicate is known for one item."""

    def matches(self, relation: Expression, value: str, items: tuple[str, ...]) -> bool | None:
        """True if a value, as written in an expression, is among the values of a relation for these
        items. None if this is unknown.
        """

    def show(self, items: Iterable[str]) -> tuple[str, ...]:
        """Return the items as written in examples."""


class Deriver:
    """Answers single inputs of one function (in normal form)."""

    def __init__(
        self, expression: Expression, kind: Type, space: Space, separators: bool = False
    ) -> None:
        self.expression = expression
        self.type = kind
        self.space = space
        self.separators = separators

    def __call__(self, text: str) -> Answer:
        """Return the acceptable answers to an input, and their derivation.

        A step refers to the steps it uses by their index in `steps`. Every method below appends its
        own steps to this list.
        """
        if self.type.form == "sequence":
            return self._sequence(text)
        given = self.space.enter(text, self.type.source)
        steps: list[Step] = []
        if self.type.form == "predicate":
            given = self._decided(self.expression, given)
            if not given:
                raise InputError(
                    f"'{text.strip()}' is outside the domain of {show(self.expression)}: nothing "
                    "is known about it"
                )
            return Answer((_truth(self._holds(self.expression, given, steps)),), tuple(steps))
        values, _ = self._values(self.expression, given, None, steps)
        shown = self.space.show(values)
        if not shown:
            raise InputError(
                f"'{text.strip()}' is outside the domain of {show(self.expression)}, which has no "
                "value for it"
            )
        return Answer(shown, tuple(steps))

    @classmethod
    def values(cls, function: Expression, item: str, space: Space) -> tuple[str, ...]:
        """Return the values of a relation for one item, without the steps."""
        return cls(function, Type("relation", ""), space)._values(function, (item,), None, [])[0]

    def decided(self, given: tuple[str, ...]) -> tuple[str, ...]:
        """Return the items for which it is known whether the predicate holds."""
        return self._decided(self.expression, given)

    def holds(self, given: tuple[str, ...]) -> bool:
        """True if the predicate holds for any of the items."""
        return self._holds(self.expression, given, [])

    def _add(self, steps: list[Step], rule: str, values: Iterable[str], of: tuple[int, ...]) -> int:
        steps.append(Step(rule, BETWEEN.join(self.space.show(values)), of))
        return len(steps) - 1

    def _values(
        self, function: Expression, given: tuple[str, ...], source: int | None, steps: list[Step]
    ) -> tuple[tuple[str, ...], int]:
        """Return the values of a relation for the given texts, and the index of the step that
        produced them. `source` is the step that produced the texts.
        """
        of = () if source is None else (source,)
        match function:
            case Atom(name):
                reached = _joined(self.space.look(name, x) for x in given)
                return reached, self._add(steps, name, reached, of)
            case Inverse():
                name = function.atom
                reached = _joined(self.space.look(name, x, inverse=True) for x in given)
                return reached, self._add(steps, function.notation, reached, of)
            case Chain(parts):
                for part in reversed(parts):
                    given, source = self._values(part, given, source, steps)
                assert source is not None
                return given, source
            case Union(parts):
                both = [self._values(part, given, source, steps) for part in parts]
                reached = _joined(values for values, _ in both)
                return reached, self._add(steps, "union", reached, tuple(step for _, step in both))
            case Intersection() | Difference():
                return self._pointwise(function, given, source, steps)
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {function.notation}")
            case _:
                assert_never(function)

    def _pointwise(
        self,
        function: Intersection | Difference,
        given: tuple[str, ...],
        source: int | None,
        steps: list[Step],
    ) -> tuple[tuple[str, ...], int]:
        """Combine the operands for each item separately. A value of one operand for one item and of
        another operand for a second item is not a value of both operands.
        """
        combine = set.intersection if isinstance(function, Intersection) else set.difference
        rows: list[tuple[str, ...]] = []
        for x in given:
            sets = [set(self._values(part, (x,), None, [])[0]) for part in function.parts]
            rows.append(tuple(combine(*sets)))
        operands = tuple(self._values(part, given, source, steps)[1] for part in function.parts)
        values = _joined(rows)
        return values, self._add(steps, function.word, values, operands)

    def _decided(self, predicate: Expression, given: tuple[str, ...]) -> tuple[str, ...]:
        """Return the items for which the truth of the predicate is known. For example, the graph
        does not state whether a river is an actor. For words everything is known: a word without
        synonyms has no synonym that is a noun.
        """
        if self.type.source != "entity":
            return given
        match predicate:
            case Atom(name):
                return tuple(x for x in given if self.space.decides(name, x))
            case Is(relation, value):
                rows = {x: self._values(relation, (x,), None, [])[0] for x in given}
                return tuple(
                    x for x in given if self.space.matches(relation, value, rows[x]) is not None
                )
            case Chain():
                head, rest = predicate.head, predicate.rest
                return tuple(
                    x for x in given if self._decided(head, self._values(rest, (x,), None, [])[0])
                )
            case PredicateOperator(parts):
                for part in parts:
                    given = self._decided(part, given)
                return given
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {predicate.notation}")
            case _:
                assert_never(predicate)

    def _holds(self, predicate: Expression, given: tuple[str, ...], steps: list[Step]) -> bool:
        """True if a predicate holds for any of the items that the input may refer to."""
        match predicate:
            case Atom(name):
                true = any(self.space.holds(name, x) for x in given)
                steps.append(Step(name, _truth(true), ()))
            case Is(relation, value):
                values, step = self._values(relation, given, None, steps)
                true = bool(self.space.matches(relation, value, values))
                steps.append(Step(show(predicate), _truth(true), (step,)))
            case Chain():
                values, step = self._values(predicate.rest, given, None, steps)
                matching = [y for y in values if self._holds(predicate.head, (y,), [])]
                kept = self._add(steps, f"those that {show(predicate.head)}", matching, (step,))
                true = bool(matching)
                steps.append(Step("any", _truth(true), (kept,)))
            case Land() | Lor() | Lnot():
                true = self._logic(predicate, given, steps)
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {predicate.notation}")
            case _:
                assert_never(predicate)
        return true

    def _logic(
        self, predicate: Land | Lor | Lnot, given: tuple[str, ...], steps: list[Step]
    ) -> bool:
        """Evaluate each item separately: if one of two entities with the same name satisfies only
        the first half of a conjunction and the other only the second, neither satisfies the
        conjunction.
        """
        of = []
        for part in predicate.parts:
            self._holds(part, given, steps)
            of.append(len(steps) - 1)
        true = any(
            self._combined(predicate, [self._holds(part, (x,), []) for part in predicate.parts])
            for x in given
        )
        steps.append(Step(predicate.word, _truth(true), tuple(of)))
        return true

    def _combined(self, predicate: Land | Lor | Lnot, truths: list[bool]) -> bool:
        match predicate:
            case Land():
                return all(truths)
            case Lor():
                return any(truths)
            case Lnot():
                return not any(truths)
            case _:
                assert_never(predicate)

    def _sequence(self, text: str) -> Answer:
        given = [(item, self.space.enter(item, self.type.source)) for item in items(text)]
        if not given:
            raise InputError("the sequence is empty; give words separated by spaces or by #")
        function, predicate = map_filter(self.expression)
        steps: list[Step] = []
        if predicate is not None:
            given = [(item, xs) for item, xs in given if self._kept(predicate, xs)]
            steps.append(
                Step(f"filter({show(predicate)})", BETWEEN.join(item for item, _ in given), ())
            )
        if function is None:
            results = [item for item, _ in given]
        else:
            results = self._mapped(function, given, steps)
        return Answer((join(results, self.separators),), tuple(steps))

    def _kept(self, predicate: Expression, given: tuple[str, ...]) -> bool:
        return self._holds(predicate, self._decided(predicate, given), [])

    def _mapped(
        self, function: Expression, given: list[tuple[str, tuple[str, ...]]], steps: list[Step]
    ) -> list[str]:
        # All items come from the filter's step, if there is one.
        source = len(steps) - 1 if steps else None
        last: list[int] = []
        chosen: list[str] = []
        for item, xs in given:
            values, step = self._values(function, xs, source, steps)
            shown = self.space.show(values)
            if not shown:
                raise InputError(
                    f"'{item}' is outside the domain of {show(function)}, which has no value for it"
                )
            last.append(step)
            chosen.append(shown[0])
        steps.append(Step("map", BETWEEN.join(chosen), tuple(last)))
        return chosen

    def positions(self, text: str) -> list[tuple[str, ...]]:
        """Return the acceptable answers at each position of a sequence function's result, as
        written in examples.
        """
        function, predicate = map_filter(self.expression)
        answers = []
        for item in items(text):
            xs = self.space.enter(item, self.type.source)
            if predicate is None or self._kept(predicate, xs):
                values = xs if function is None else self._values(function, xs, None, [])[0]
                answers.append(self.space.show(values))
        return answers


def _joined(rows: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the distinct values of all rows, sorted."""
    return tuple(sorted(set().union(*rows)))


def _truth(true: bool) -> str:
    return "true" if true else "false"
