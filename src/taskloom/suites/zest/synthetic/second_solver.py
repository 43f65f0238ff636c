"""The independent solver answers a program from the text of a passage alone, using the facts found
by the reader.

It shares the syntax of programs with the generator, but not their evaluation. Values are compared
as texts, as written in the passage.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from taskloom.suites.taskbench.language import parse
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
from taskloom.suites.zest.synthetic.domain import Domain, Members
from taskloom.suites.zest.synthetic.passage_reader import ReadEntity, Reading, read


def solve(domain: Domain, program: str, text: str) -> tuple[str, ...]:
    """Answer a program (in the function language) from the text alone. Returns all acceptable
    answers, the full one first.
    """
    parsed = parse_program(domain, program)
    full = _answer(domain, parsed, read(domain, text))
    if isinstance(parsed, Atom | Chain) and re.fullmatch(r"[\d,]+ \D+", full):
        return full, full.partition(" ")[0]
    if isinstance(parsed, Atom) and _is_person(domain, parsed.name) and len(full.split()) > 1:
        return full, full.split()[-1]
    return (full,)


def _is_person(domain: Domain, name: str) -> bool:
    """True if questions about an attribute begin with "Who"."""
    attribute = domain.by_name.get(name)
    return attribute is not None and attribute.asks[0].split()[0] == "Who"


def parse_program(domain: Domain, program: str) -> Expression:
    """Parse a program as an expression over the names of a domain."""
    return _parsed(domain.atoms, program)


@lru_cache(maxsize=8192)
def _parsed(atoms: frozenset[str], program: str) -> Expression:
    def atom(spelling: str) -> str | None:
        head, _, inside = spelling.partition("{")
        name = (
            inside.removesuffix("}").partition("=")[0]
            if head in ("above", "below", "most", "least")
            else spelling
        )
        return spelling if name in atoms else None

    return parse(program, atom)


def _answer(domain: Domain, program: Expression, reading: Reading) -> str:
    match program:
        case Land(parts) | Lor(parts):
            # Kleene's logic as minimum and maximum of no < n/a < yes.
            ranked = [("no", "n/a", "yes").index(_answer(domain, p, reading)) for p in parts]
            return ("no", "n/a", "yes")[min(ranked) if isinstance(program, Land) else max(ranked)]
        case Union(parts):
            answers: list[str] = []
            for part in parts:
                answers += _answer(domain, part, reading).split("|")
            known = [answer for answer in dict.fromkeys(answers) if answer != "n/a"]
            return "|".join(known) or "n/a"
        case Map((question, Filter((condition,)))):
            if _answer(domain, condition, reading) == "yes":
                return _answer(domain, question, reading)
            return "n/a"
        case Map((columns, rows)):
            return _structure(domain, columns, rows, reading.subject)
        case Chain((*tests, Atom(kind))):
            return _of_some(tests, reading.subject.owned.get(kind, []))
        case Filter():
            return "|".join(t.name for t in _rows(program, reading.subject)) or "n/a"
        case Atom(name) if name in domain.records_by_name:
            return "|".join(t.name for t in _rows(program, reading.subject)) or "n/a"
        case _:
            return _about_entity(domain, program, reading)


def _test(program: Expression) -> tuple[str, str, str]:
    """Return what an atom or predicate tests: the name, the test (is, above, below, most, least, or
    nothing), and the value.
    """
    if isinstance(program, Is):
        assert isinstance(program.relation, Atom)
        return program.relation.name, "is", program.value
    assert isinstance(program, Atom)
    head, brace, inside = program.name.partition("{")
    name, _, value = inside.removesuffix("}").partition("=")
    return (name, head, value) if brace else (head, "", "")


def _meets(text: str, how: str, value: str) -> bool:
    if how == "is":
        return text == value
    return _amount(text) > int(value) if how == "above" else _amount(text) < int(value)


def _about_entity(domain: Domain, program: Expression, reading: Reading) -> str:
    thing = reading.subject
    name, how, value = _test(program)
    if isinstance(domain.by_name[name], Members):
        if not how:
            return "|".join(thing.stated.get(f"has {name}", [])) or "n/a"
        for key, verdict in (("has", "yes"), ("lacks", "no")):
            if value in thing.stated.get(f"{key} {name}", []):
                return verdict
        return "n/a"
    text = thing.stated.get(name)
    if text is None:
        implied = [
            outcome
            for when, v, then, outcome in reading.rules
            if then == name and thing.stated.get(when) == v
        ]
        if not implied:
            return "n/a"
        text = implied[0]
    if not how:
        return str(text)
    return "yes" if _meets(text, how, value) else "no"


def _amount(text: str) -> int:
    digits = re.match(r"[\d,]+", text)
    assert digits is not None
    return int(digits.group().replace(",", ""))


def _rows(program: Expression, thing: ReadEntity) -> list[ReadEntity]:
    """Return the records of a kind, or those that match."""
    if isinstance(program, Atom):
        return thing.owned.get(program.name, [])
    assert isinstance(program, Operator)
    test, kind = program.parts
    name, how, value = _test(test)
    return [
        t for t in _rows(kind, thing) if name in t.stated and _meets(t.stated[name], how, value)
    ]


def _of_some(tests: list[Expression], records: list[ReadEntity]) -> str:
    """Answer whether a record matches, which records have the highest or lowest value, or what that
    value is.
    """
    name, how, value = _test(tests[-1])
    stated = [t for t in records if name in t.stated]
    if not stated:
        return "n/a"
    if how not in ("most", "least"):
        if any(_meets(t.stated[name], how, value) for t in stated):
            return "yes"
        return "no" if len(stated) == len(records) else "n/a"
    best = sorted(stated, key=lambda t: _amount(t.stated[name]), reverse=how == "most")[0].stated[
        name
    ]
    return best if len(tests) == 2 else "|".join(t.name for t in stated if t.stated[name] == best)


def _structure(domain: Domain, columns: Expression, rows: Expression, thing: ReadEntity) -> str:
    kind = rows
    while isinstance(kind, Operator):
        kind = kind.parts[-1]
    assert isinstance(kind, Atom)
    records = domain.records_by_name[kind.name]
    names = [_test(c)[0] for c in (columns.parts if isinstance(columns, Operator) else (columns,))]
    objects = [
        {records.column: t.name} | {records.field(n).column: t.stated.get(n, "n/a") for n in names}
        for t in _rows(rows, thing)
    ]
    return json.dumps(objects) if objects else "n/a"
