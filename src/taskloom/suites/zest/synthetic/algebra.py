"""Programs as expressions of the function language (`taskbench.language`), and their evaluation on
the statements of a passage.

The passage is the world: attributes and records are relations of the entity, and the fields of a
record are relations of the record.

| program | expression |
| --- | --- |
| value, members, names | `area`, `mammals`, `trail` |
| flag, is, has | `is{open=yes}`, `is{region=Lakeland}`, `is{mammals=elk}` |
| more, less | `above{area=5000}`, `below{area=5000}` |
| where, over, under | `filter(is{surface=gravel}, trail)`, `filter(above{length=5}, trail)` |
| any, any_over, any_under | `chain(is{surface=gravel}, trail)`: some trail is |
| most, least; top, bottom | `chain(most{length}, trail)`; `chain(length, most{length}, trail)` |
| and, or, both | `land(p, q)`, `lor(p, q)`, `union(f, g)` |
| when | `map(f, filter(p))`: f of the entity, given that p |
| table, pick | `map(union(length, surface), trail)`, `map(length, filter(p, trail))`: one object for each |

A passage does not state everything, so a predicate is true, false or unknown. *land* and *lor*
follow Kleene's logic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from taskloom.suites.taskbench.language import show
from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Expression,
    Filter,
    Is,
    Land,
    Lor,
    Map,
    Operator,
    Union,
)
from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Measure,
    Members,
    Number,
    Records,
    Rule,
    Text,
)
from taskloom.suites.zest.synthetic.programs import Program, picked

# The statements of a passage about one entity, for the generator. The independent reader has its
# own facts and evaluator (`passage_reader.py`, `second_solver.py`) and shares only the programs and
# the domain.

NA = "n/a"


@dataclass(slots=True)
class Record:
    """A thing that belongs to an entity, with the fields that are stated."""

    name: str
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """Statements about one entity. Lists keep the order of the passage."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    has: dict[str, list[str]] = field(default_factory=dict)
    lacks: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stated:
    """A rule as stated in a passage, for one value of its attribute and with one outcome."""

    rule: Rule
    value: str
    outcome: Any


def known(name: str, facts: Facts, rules: list[Stated]) -> Any:
    """Return the stated value, or the one implied by a rule whose condition is stated. None if
    there is neither.
    """
    if name in facts.values:
        return facts.values[name]
    for stated in rules:
        if stated.rule.then == name and facts.values.get(stated.rule.when) == stated.value:
            return stated.outcome
    return None


def yes_no(value: bool) -> str:
    """Return yes, no or n/a as the answer to a classification task."""
    return "yes" if value else "no"


_OPERATORS: dict[str, type[Land | Lor | Union]] = {"and": Land, "or": Lor, "both": Union}


def program_text(program: Program) -> str:
    """Format a program in the notation of the function language, as in the trait `program`.

    >>> program_text(Program("any", ("trail", "surface", "gravel")))
    'chain(is{surface=gravel}, trail)'
    """
    return show(expression(program))


@lru_cache(maxsize=8192)
def expression(program: Program) -> Expression:
    """Convert a program to an expression."""
    op, args = program.op, program.args
    if op in _OPERATORS:
        return _OPERATORS[op](tuple(expression(p) for p in args))
    if op == "when":
        condition, question = (expression(p) for p in args)
        return Map((question, Filter((condition,))))
    subject = Atom(args[0])
    if op in ("value", "members", "names"):
        return subject
    if op in ("flag", "is", "has", "more", "less"):
        return _predicate(op, args[0], args[1] if op != "flag" else "yes")
    if op == "table":
        return Map((_columns(args[1:]), subject))
    if op == "pick":
        return Map((_columns(args[4:]), expression(picked(program))))
    if op in ("most", "least", "top", "bottom"):
        word = "most" if op in ("most", "top") else "least"
        extreme = Atom(f"{word}{{{args[1]}}}")
        if op in ("top", "bottom"):
            return Chain((Atom(args[1]), extreme, subject))
        return Chain((extreme, subject))
    test = _predicate(op.removeprefix("any_"), *args[1:])
    if op.startswith("any"):
        return Chain((test, subject))
    return Filter((test, subject))


def _predicate(op: str, name: str, value: Any) -> Expression:
    if op in ("more", "over"):
        return Atom(f"above{{{name}={value}}}")
    if op in ("less", "under"):
        return Atom(f"below{{{name}={value}}}")
    return Is(Atom(name), value)


def _columns(names: tuple[str, ...]) -> Expression:
    return Union(tuple(map(Atom, names))) if len(names) > 1 else Atom(names[0])


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a relation, and its form in passages and answers."""

    raw: Any
    text: str


Thing = Facts | Record
"""Subject of a relation: the entity or one of its records."""


def answer(domain: Domain, program: Program, facts: Facts, rules: list[Stated]) -> str:
    """Compute the answer of a program, in the form used in the dataset."""
    tree = expression(program)
    passage = Passage(domain, facts, rules)
    if program.yes_no:
        verdict = passage.holds(tree, facts)
        return NA if verdict is None else yes_no(verdict)
    match tree:
        case Map((columns, (Atom() | Filter((_, _))) as rows)):
            return passage.table(columns, rows)
        case _:
            values = passage.values(tree, facts)
            texts = [v.name if isinstance(v, Record) else v.text for v in values]
            return "|".join(dict.fromkeys(texts)) or NA


def acceptable(domain: Domain, program: Program, target: str) -> tuple[str, ...]:
    """Return acceptable forms of an answer, like those that annotators give: a number without its
    unit, or a person's surname.
    """
    if target == NA or program.op not in ("value", "top", "bottom"):
        return (target,)
    if program.op == "value":
        attribute: Any = domain.by_name[program.args[0]]
    else:
        attribute = domain.records_by_name[program.args[0]].field(program.args[1])
    if isinstance(attribute, Number | Measure) and attribute.unit:
        return target, target.removesuffix(f" {attribute.unit}")
    if isinstance(attribute, Text) and attribute.asks[0].startswith("Who ") and " " in target:
        return target, target.rpartition(" ")[2]
    return (target,)


@dataclass(frozen=True, slots=True)
class Passage:
    """The statements of a passage as a world in which expressions have values."""

    domain: Domain
    entity: Facts
    rules: list[Stated]

    def values(self, function: Expression, of: Thing) -> list[Value | Record]:
        """Return the known values of a relation. Empty if the passage states none."""
        match function:
            case Atom(name):
                return self._stated(name, of)
            case Union(parts):
                return [value for part in parts for value in self.values(part, of)]
            case Filter((test, rows)):
                return [row for row in self._records(rows, of) if self.holds(test, row)]
            case Map((question, Filter((condition,)))):
                return self.values(question, of) if self.holds(condition, of) else []
            case Chain((Atom(name), *rest)):
                records = self._records(Chain.of(rest), of)
                extreme = _argument(name)
                if extreme is None:
                    return [value for row in records for value in self._stated(name, row)]
                return [*_extremes(records, *extreme)]
            case _:
                raise ValueError(f"not a relation: {function}")

    def holds(self, predicate: Expression, of: Thing) -> bool | None:
        """Return True or False if the passage decides a predicate, otherwise None."""
        match predicate:
            case Is(Atom(name), wanted):
                if isinstance(of, Facts) and isinstance(self.domain.by_name.get(name), Members):
                    return _has_member(of, name, wanted)
                value = self._first(name, of)
                return None if value is None else value.text == wanted
            case Atom(name):
                return self._compares(name, of)
            case Land(parts):
                return _all_hold([self.holds(part, of) for part in parts])
            case Lor(parts):
                return _any_holds([self.holds(part, of) for part in parts])
            case Chain():
                rows = self._records(predicate.rest, of)
                # A passage that mentions no trail does not rule out that a trail is gravel.
                if not rows:
                    return None
                return _any_holds([self.holds(predicate.head, row) for row in rows])
            case _:
                raise ValueError(f"not a predicate: {predicate}")

    def _compares(self, name: str, of: Thing) -> bool | None:
        """Decide `above{area=5000}` or `below{area=5000}`."""
        at = _argument(name)
        assert at is not None
        field, _, bound = at[1].partition("=")
        value = self._first(field, of)
        if value is None:
            return None
        if at[0] == "above":
            return bool(value.raw > int(bound))
        return bool(value.raw < int(bound))

    def _first(self, name: str, of: Thing) -> Value | None:
        """Return the first value of an atom, or None if the passage states none."""
        for value in self._stated(name, of):
            if isinstance(value, Value):
                return value
        return None

    def table(self, columns: Expression, rows: Expression) -> str:
        """Return one JSON object per record, with its name and the known value of each column."""
        parts = columns.parts if isinstance(columns, Operator) else (columns,)
        names = [part.name for part in parts if isinstance(part, Atom)]
        objects = []
        for row in self._records(rows, self.entity):
            kind = self._kind_of(rows)
            cells = {kind.column: row.name}
            for name in names:
                texts = [v.text for v in self._stated(name, row) if isinstance(v, Value)]
                cells[kind.field(name).column] = texts[0] if texts else NA
            objects.append(cells)
        return json.dumps(objects) if objects else NA

    def _records(self, rows: Expression, of: Thing) -> list[Record]:
        return [row for row in self.values(rows, of) if isinstance(row, Record)]

    def _kind_of(self, rows: Expression) -> Records:
        while isinstance(rows, Operator):
            rows = rows.parts[-1]
        assert isinstance(rows, Atom)
        return self.domain.records_by_name[rows.name]

    def _stated(self, name: str, of: Thing) -> list[Value | Record]:
        """Return the values of an atom that are stated or, for the entity, implied by a rule."""
        if isinstance(of, Record):
            if name not in of.fields:
                return []
            kind = self.domain.records_by_name[of.kind].field(name)
            return [_value(of.fields[name], kind if isinstance(kind, Measure) else None)]
        if name in self.domain.records_by_name:
            return list(of.records.get(name, []))
        attribute = self.domain.by_name[name]
        if isinstance(attribute, Members):
            return [Value(v, v) for v in of.has.get(name, [])]
        value = known(name, of, self.rules)
        if value is None:
            return []
        return [_value(value, attribute if isinstance(attribute, Number) else None)]


def _extremes(records: list[Record], which: str, field: str) -> list[Record]:
    """Return the records with the highest or lowest value of a field. Records without a stated
    value are ignored.
    """
    measured = [row for row in records if field in row.fields]
    pick = max if which == "most" else min
    best = pick((row.fields[field] for row in measured), default=None)
    return [row for row in measured if row.fields[field] == best]


def _has_member(facts: Facts, name: str, member: str) -> bool | None:
    if member in facts.has.get(name, []):
        return True
    return False if member in facts.lacks.get(name, []) else None


def _all_hold(verdicts: list[bool | None]) -> bool | None:
    """Kleene conjunction: a single False decides, even if other parts are unknown.

    >>> _all_hold([True, None]), _all_hold([False, None])
    (None, False)
    """
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _any_holds(verdicts: list[bool | None]) -> bool | None:
    """Kleene disjunction: a single True decides, even if other parts are unknown.

    >>> _any_holds([True, None]), _any_holds([False, None])
    (True, None)
    """
    if True in verdicts:
        return True
    return None if None in verdicts else False


def _value(raw: Any, number: Number | Measure | None) -> Value:
    if number is not None:
        return Value(raw, number.text(raw))
    return Value(raw, yes_no(raw) if isinstance(raw, bool) else str(raw))


def _argument(name: str) -> tuple[str, str] | None:
    """Split `above{area=5000}` into ("above", "area=5000"). Return None for a plain name."""
    head, brace, inside = name.partition("{")
    return (head, inside.removesuffix("}")) if brace else None
