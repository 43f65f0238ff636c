"""The answer to one input, with the value at each step: what `taskloom apply` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from taskloom.errors import InputError
from taskloom.example import Answer, Step
from taskloom.suites.taskbench.language import Atom, Call, Expression, Is, Type, map_filter, show

if TYPE_CHECKING:
    from taskloom.suites.taskbench.words import Words

BETWEEN = " | "
"""Stands between the members of a set in a step's value; no word contains it."""

SEPARATOR = "#"
"""Stands between the items of a sequence where separators are on."""


def items(text: str, separators: bool | None = None) -> list[str]:
    """The items of a sequence: what lies between separators, or else between blanks."""
    split = SEPARATOR in text if separators is None else separators
    found = [item.strip() for item in text.split(SEPARATOR)] if split else text.split()
    return [item for item in found if item]


def join(texts: Iterable[str], separators: bool) -> str:
    """A sequence as text."""
    return (f" {SEPARATOR} " if separators else " ").join(texts)


class Deriver:
    """Answers single inputs of one function (in normal form)."""

    def __init__(self, expression: Expression, found: Type, words: Words, separators: bool = False) -> None:
        self.expression = expression
        self.type = found
        self.words = words
        self.separators = separators

    def __call__(self, text: str) -> Answer:
        """The acceptable answers to one input and how they come about."""
        if self.type.form == "sequence":
            return self._sequence(text)
        given = self.words.known_text(text, self.type.source)
        steps: list[Step] = []
        if self.type.form == "predicate":
            return Answer((_truth(self._holds(self.expression, given, steps)),), tuple(steps))
        values, _ = self._values(self.expression, (given,), None, steps)
        if not values:
            raise InputError(
                f"'{text.strip()}' lies outside the domain of {show(self.expression)}: it has no value there"
            )
        return Answer(self._shown(values), tuple(steps))

    def _shown(self, values: Iterable[str]) -> tuple[str, ...]:
        return tuple([v.replace("_", " ").strip() for v in values])

    def _add(self, steps: list[Step], rule: str, values: Iterable[str], of: tuple[int, ...]) -> int:
        steps.append(Step(rule, BETWEEN.join(self._shown(values)), of))
        return len(steps) - 1

    def _values(
        self, function: Expression, given: tuple[str, ...], source: int | None, steps: list[Step]
    ) -> tuple[tuple[str, ...], int]:
        """The values of a relation at a set of texts, and the step that gave them; `source` is the step the texts came from."""
        of = () if source is None else (source,)
        match function:
            case Atom(name):
                found = _all(lambda x: self.words.look(name, x), given)
                return found, self._add(steps, name, found, of)
            case Call("inverse", (Atom(name),)):
                found = _all(lambda x: self.words.look(name, x, inverse=True), given)
                return found, self._add(steps, f"{name}.inv", found, of)
            case Call("chain", parts):
                for part in reversed(parts):
                    given, source = self._values(part, given, source, steps)
                assert source is not None
                return given, source
            case Call("union", parts):
                both = [self._values(part, given, source, steps) for part in parts]
                found = _all(lambda x: x, [values for values, _ in both])
                return found, self._add(steps, "union", found, tuple(step for _, step in both))
            case Call("intersection", parts):
                return self._intersection(parts, given, source, steps)
            case _:
                raise ValueError(f"no relation: {function}")

    def _intersection(
        self, parts: tuple[Expression, ...], given: tuple[str, ...], source: int | None, steps: list[Step]
    ) -> tuple[tuple[str, ...], int]:
        """Taken at each text by itself: what two texts share only together is no value of either."""
        shared: list[tuple[str, ...]] = []
        for x in given:
            each = [set(self._values(part, (x,), None, [])[0]) for part in parts]
            shared.append(tuple(set.intersection(*each)))
        operands = tuple(self._values(part, given, source, steps)[1] for part in parts)
        found = _all(lambda x: x, shared)
        return found, self._add(steps, "intersection", found, operands)

    def _holds(self, predicate: Expression, text: str, steps: list[Step]) -> bool:
        match predicate:
            case Atom(name):
                true = self.words.holds(name, text)
                steps.append(Step(name, _truth(true), ()))
            case Is(relation, value):
                found, step = self._values(relation, (text,), None, steps)
                true = value.replace(" ", "_") in found
                steps.append(Step(show(predicate), _truth(true), (step,)))
            case Call("chain", (head, *rest)):
                inner = rest[0] if len(rest) == 1 else Call("chain", tuple(rest))
                found, step = self._values(inner, (text,), None, steps)
                matching = [y for y in found if self._holds(head, y, [])]
                kept = self._add(steps, f"those that {show(head)}", matching, (step,))
                true = bool(matching)
                steps.append(Step("any", _truth(true), (kept,)))
            case Call(operator, parts):
                truths, of = [], []
                for part in parts:
                    truths.append(self._holds(part, text, steps))
                    of.append(len(steps) - 1)
                true = {"land": all(truths), "lor": any(truths), "lnot": not truths[0]}[operator]
                steps.append(Step(operator, _truth(true), tuple(of)))
        return true

    def _sequence(self, text: str) -> Answer:
        given = [self.words.known_text(item, self.type.source) for item in items(text)]
        if not given:
            raise InputError("the sequence is empty; give words separated by blanks or by #")
        function, predicate = map_filter(self.expression)
        steps: list[Step] = []
        kept = given if predicate is None else [x for x in given if self._holds(predicate, x, [])]
        if predicate is not None:
            self._add(steps, f"filter({show(predicate)})", kept, ())
        results = self._mapped(function, kept, steps) if function is not None else kept
        return Answer((join(self._shown(results), self.separators),), tuple(steps))

    def _mapped(self, function: Expression, kept: list[str], steps: list[Step]) -> list[str]:
        source = len(steps) - 1
        last: list[int] = []
        chosen: list[str] = []
        for x in kept:
            values, step = self._values(function, (x,), source if source >= 0 else None, steps)
            if not values:
                shown = x.replace("_", " ")
                raise InputError(f"'{shown}' lies outside the domain of {show(function)}: it has no value there")
            last.append(step)
            chosen.append(values[0])
        self._add(steps, "map", chosen, tuple(last))
        return chosen

    def positions(self, text: str) -> list[tuple[str, ...]]:
        """For a sequence function the acceptable words at each position of the result, as they are written in examples."""
        function, predicate = map_filter(self.expression)
        found = []
        for item in items(text, self.separators):
            x = self.words.known_text(item, self.type.source)
            if predicate is None or self._holds(predicate, x, []):
                values = (x,) if function is None else self._values(function, (x,), None, [])[0]
                found.append(self._shown(values))
        return found


def _all(look: Callable[..., tuple[str, ...]], given: Iterable[object]) -> tuple[str, ...]:
    """All values at all members of a set, sorted."""
    rows = [look(x) for x in given]
    if len(rows) == 1:
        return tuple(sorted(rows[0]))
    return tuple(sorted({value for row in rows for value in row}))


def _truth(true: bool) -> str:
    return "true" if true else "false"
