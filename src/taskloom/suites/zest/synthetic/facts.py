"""What a passage states about one entity, and what a program answers on it: the generator's side.

The independent reader has its own evaluator (`reader.py`); nothing but the programs and the domain is shared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from taskloom.suites.zest.synthetic.domain import Domain, Feature, Measure, Number, Records, Rule
from taskloom.suites.zest.synthetic.programs import Program, picked

NA = "n/a"


@dataclass(slots=True)
class Record:
    """A thing that belongs to an entity, with those of its fields that are stated."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """What is stated about one entity. Lists keep the order in which the passage says things."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    has: dict[str, list[str]] = field(default_factory=dict)
    lacks: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stated:
    """A rule as a passage states it: for one value of its attribute, with one outcome."""

    rule: Rule
    value: str
    outcome: Any


def answer(domain: Domain, program: Program, facts: Facts, rules: list[Stated]) -> str:
    """The answer of a program, as the dataset writes it."""
    if program.op in _JOINED:
        return _JOINED[program.op]([answer(domain, p, facts, rules) for p in program.args])
    name = program.args[0]
    if name in domain.records_by_name:
        return _of_records(domain.records_by_name[name], program, facts.records.get(name, []))
    return _of_attribute(domain, program, facts, rules)


def _of_attribute(domain: Domain, program: Program, facts: Facts, rules: list[Stated]) -> str:
    name = program.args[0]
    if program.op == "members":
        return "|".join(facts.has.get(name, [])) or NA
    if program.op == "has":
        wanted = program.args[1]
        if wanted in facts.has.get(name, []):
            return "yes"
        return "no" if wanted in facts.lacks.get(name, []) else NA
    value = known(name, facts, rules)
    if value is None:
        return NA
    if program.op == "flag":
        return yes_no(value)
    if program.op == "value":
        attribute = domain.by_name[name]
        return attribute.text(value) if isinstance(attribute, Number) else str(value)
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "more": lambda a, b: a > b,
        "less": lambda a, b: a < b,
        "is": lambda a, b: a == b,
    }
    return yes_no(compare[program.op](value, program.args[1]))


def known(name: str, facts: Facts, rules: list[Stated]) -> Any:
    """A value that is stated, or else implied by a rule whose condition is stated; None if neither."""
    if name in facts.values:
        return facts.values[name]
    for stated in rules:
        if stated.rule.then == name and facts.values.get(stated.rule.when) == stated.value:
            return stated.outcome
    return None


def yes_no(value: bool) -> str:
    """The answer of a classification task."""
    return "yes" if value else "no"


def _of_records(records: Records, program: Program, found: list[Record]) -> str:
    if program.op == "names":
        return "|".join(r.name for r in found) or NA
    if program.op == "table":
        return _table(records, program.args[1:], found)
    if program.op == "pick":
        rule = picked(program)
        name = rule.args[1]
        fitting = [r for r in found if name in r.fields and fits(rule, r.fields[name])]
        return _table(records, program.args[4:], fitting)
    name = program.args[1]
    known = [r for r in found if name in r.fields]
    if not known:
        return NA
    if program.op in ("most", "least", "top", "bottom"):
        measure = records.field(name)
        assert isinstance(measure, Measure)
        pick = max if program.op in ("most", "top") else min
        extreme = pick(r.fields[name] for r in known)
        if program.op in ("top", "bottom"):
            return measure.text(extreme)
        return "|".join(r.name for r in known if r.fields[name] == extreme)
    right = [r.name for r in known if fits(program, r.fields[name])]
    return yes_no(bool(right)) if program.yes_no else "|".join(right) or NA


def fits(program: Program, value: Any) -> bool:
    """Whether a record's field meets what a program asks for."""
    wanted = program.args[2]
    if program.op in ("over", "any_over"):
        return bool(value > wanted)
    if program.op in ("under", "any_under"):
        return bool(value < wanted)
    return bool((yes_no(value) if isinstance(value, bool) else value) == wanted)


def _table(records: Records, names: tuple[str, ...], found: list[Record]) -> str:
    rows = []
    for record in found:
        row = {records.column: record.name}
        for name in names:
            row[records.field(name).column] = _cell(records, name, record)
        rows.append(row)
    return json.dumps(rows) if rows else NA


def _cell(records: Records, name: str, record: Record) -> str:
    if name not in record.fields:
        return NA
    value = record.fields[name]
    kind = records.field(name)
    if isinstance(kind, Measure):
        return kind.text(value)
    return yes_no(value) if isinstance(kind, Feature) else str(value)


def _and(answers: list[str]) -> str:
    return "no" if "no" in answers else NA if NA in answers else "yes"


def _or(answers: list[str]) -> str:
    return "yes" if "yes" in answers else NA if NA in answers else "no"


def _both(answers: list[str]) -> str:
    return "|".join(a for a in answers if a != NA) or NA


def _when(answers: list[str]) -> str:
    return answers[1] if answers[0] == "yes" else NA


_JOINED: dict[str, Callable[[list[str]], str]] = {"and": _and, "or": _or, "both": _both, "when": _when}
