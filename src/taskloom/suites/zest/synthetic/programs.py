"""Tasks as symbolic programs over the facts of a passage, and what they are called in English.

A program is an operation with arguments. On one fact: `value`, `more`, `less`, `is`, `members`, `has`, `flag`. On records:
`names`, `where`, `over`, `under`, `most`, `least`, `top`, `bottom`, and the yes/no forms `any`, `any_over`, `any_under`. Of
other programs: `and`, `or`, `both`, `when`. With structured output: `table`, and `pick` for a table of records that fit.
Each is an expression of the language of functions, by which it is written down and evaluated (`algebra.py`); here are the question
forms, flips and leaves that the words of a domain give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Feature,
    Field,
    Flag,
    Measure,
    Members,
    Number,
    Records,
    Text,
)

YES_NO = frozenset({"more", "less", "is", "has", "flag", "any", "any_over", "any_under", "and", "or"})
"""Operations that answer yes, no or n/a."""

JOINING = frozenset({"and", "or", "both", "when"})
"""Operations on programs."""


@dataclass(frozen=True, slots=True)
class Program:
    """An operation and its arguments: names, values, or programs."""

    op: str
    args: tuple[Any, ...]

    @property
    def yes_no(self) -> bool:
        """Whether it is a classification task."""
        return self.op in YES_NO

    @property
    def leaves(self) -> tuple[Program, ...]:
        """The programs that look at facts themselves."""
        if self.op not in JOINING:
            return (self,)
        return tuple(leaf for a in self.args for leaf in a.leaves)


def wordings(domain: Domain, program: Program) -> list[str]:
    """The question forms of a program, the plainest first; flips of one another keep their order."""
    found = _joined(domain, program) if program.op in JOINING else _simple(domain, program)
    return [text.replace("{this}", domain.this) for text in found]


def _simple(domain: Domain, program: Program) -> list[str]:
    name = program.args[0]
    if name in domain.records_by_name:
        return _of_records(domain.records_by_name[name], program)
    attribute = domain.by_name[name]
    if isinstance(attribute, Number) and program.op in ("more", "less"):
        value = attribute.text(program.args[1])
        return [t.replace("{V}", value) for t in (attribute.more if program.op == "more" else attribute.less)]
    if isinstance(attribute, Text) and program.op == "is":
        return [t.replace("{V}", program.args[1]) for t in attribute.confirm]
    if isinstance(attribute, Members) and program.op == "has":
        return [t.replace("{V}", program.args[1]) for t in attribute.has]
    return list(attribute.asks)


def _of_records(records: Records, program: Program) -> list[str]:
    one, many, where = records.one, records.many, records.where
    op = program.op
    if op == "table":
        return _of_table(records, [records.field(f) for f in program.args[1:]])
    if op == "pick":
        rule = picked(program)
        return _of_table(
            records, [records.field(f) for f in program.args[4:]], _being(records.field(rule.args[1]), rule)
        )
    if op == "names":
        return [
            f"What {many} are there {where}?",
            f"Which {many} can be found {where}?",
            f"What are the {many} {where}?",
        ]
    field = records.field(program.args[1])
    if op in ("most", "least", "top", "bottom"):
        assert isinstance(field, Measure)
        extreme = field.most if op in ("most", "top") else field.least
        if op in ("most", "least"):
            return [
                f"Which {one} {where} is the {extreme}?",
                f"What is the {extreme} {one} {where}?",
                f"Which is the {extreme} {one} {where}?",
            ]
        return [
            f"{field.how} is the {extreme} {one} {where}?",
            f"What is the {field.column} of the {extreme} {one} {where}?",
            f"What {field.column} does the {extreme} {one} {where} have?",
        ]
    being = _being(field, program)
    if program.yes_no:
        return [
            f"Is any {one} {where} {being}?",
            f"Is there {article(one)} {one} {where} that is {being}?",
            f"Are any {many} {where} {being}?",
        ]
    return [
        f"Which {many} {where} are {being}?",
        f"What {many} {where} are {being}?",
        f"Which of the {many} {where} are {being}?",
    ]


def _being(field: Field, program: Program) -> str:
    value = program.args[2]
    if isinstance(field, Measure):
        return f"{field.more if program.op in ('over', 'any_over') else field.less} {field.text(value)}"
    if isinstance(field, Feature):
        return field.being if value == "yes" else field.not_being
    return field.being.replace("{V}", value)


def picked(program: Program) -> Program:
    """The program that says which records a `pick` shows: its arguments are records, operation, field, value, columns."""
    records, op, field, value = program.args[:4]
    return Program(op, (records, field, value))


def _of_table(records: Records, fields: list[Field], being: str = "") -> list[str]:
    parts = [f"are they {f.being}" if isinstance(f, Feature) else f"what is their {f.column}" for f in fields]
    asked = ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "and " + parts[0]
    if being:
        return [
            f"What {records.many} {records.where} are {being}, {asked}?",
            f"Which of the {records.many} {records.where} are {being}, {asked}?",
        ]
    return [
        f"What {records.many} are there {records.where}, {asked}?",
        f"Which {records.many} can be found {records.where}, {asked}?",
    ]


def article(noun: str) -> str:
    """a or an."""
    return "an" if noun[0] in "aeiou" else "a"


def _joined(domain: Domain, program: Program) -> list[str]:
    asked = [wordings(domain, p) for p in program.args]
    count = max(len(a) for a in asked)
    found = []
    for i in range(count):
        texts = [a[i % len(a)] for a in asked]
        rest = [_again(domain, t) for t in texts[1:]]
        if program.op == "when":
            found.append(f"In case {condition(domain, program.args[0])}, {rest[0]}")
        else:
            joiner = " or " if program.op == "or" else " and "
            found.append(joiner.join([texts[0][:-1], *(t[:-1] for t in rest)]) + "?")
    return list(dict.fromkeys(found))


def _again(domain: Domain, question: str) -> str:
    """A question that follows another one about the same entity."""
    text = question[0].lower() + question[1:]
    return text.replace(domain.this, "it") if domain.pronoun == "it" else text


def condition(domain: Domain, program: Program) -> str:
    """A yes/no program as a statement; only those that `conditional` names have one."""
    attribute = domain.by_name[program.args[0]]
    if isinstance(attribute, Flag):
        clause = attribute.yes[0]
    else:
        assert isinstance(attribute, Text | Members)
        clause = attribute.says[0].replace("{V}", program.args[1])
    return clause.replace("{E}", domain.this)


def conditional(program: Program) -> bool:
    """Whether a yes/no program can be the condition of another one."""
    return program.op in ("flag", "is", "has")
