"""Tasks as symbolic programs over the facts of a passage, and what they are called in English.

A program is an operation with arguments. On one fact: `value`, `more`, `less`, `is`, `members`, `has`, `flag`. On records:
`names`, `where`, `over`, `under`, `most`, `least`, `top`, `bottom`, and the yes/no forms `any`, `any_over`, `any_under`. Of
other programs: `and`, `or`, `both`, `when`. With structured output: `table`, and `pick` for a table of records that fit.
Each is an expression of the language of functions, by which it is written down and evaluated (`algebra.py`); here are the question
forms, flips and leaves that the words of a domain give it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from taskloom.suites.zest.synthetic.domain import (
    VERBS,
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

PRESENCE = frozenset({"has", "flag", "any"})
"""Those among them that ask whether something is there, or done."""

JOINING = frozenset({"and", "or", "both", "when"})
"""Operations on programs."""


@dataclass(frozen=True, slots=True)
class Program:
    """An operation and its arguments: names, values, or programs."""

    op: str
    args: tuple[Any, ...]

    @property
    def yes_no(self) -> bool:
        """Return whether it is a classification task."""
        return self.op in YES_NO

    @property
    def leaves(self) -> tuple[Program, ...]:
        """Return the programs that look at facts themselves."""
        if self.op not in JOINING:
            return (self,)
        return tuple(leaf for a in self.args for leaf in a.leaves)


def wordings(domain: Domain, program: Program) -> list[str]:
    """Return the question forms of a program, the plainest first; flips of one another keep their order."""
    templates = _joined(domain, program) if program.op in JOINING else _simple(domain, program)
    return [text.replace("{this}", domain.this) for text in templates]


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
    if op == "names":
        return _of_names(records)
    if op == "table":
        return _of_table(_of_names(records), [records.field(f) for f in program.args[1:]])
    if op == "pick":
        return _of_table(_of_records(records, picked(program))[:2], [records.field(f) for f in program.args[4:]])
    field = records.field(program.args[1])
    if op in ("most", "least", "top", "bottom"):
        assert isinstance(field, Measure)
        extreme = f"the {field.most if op in ('most', 'top') else field.least} {one} {where}"
        if op in ("top", "bottom"):
            return [text.replace("{X}", extreme) for text in field.how]
        verb = VERBS["was" if field.verb == "was" else "is"][0]
        return [
            f"Which {one} {where} {verb} {extreme.removesuffix(f' {one} {where}')}?",
            f"What {verb} {extreme}?",
            f"Which {verb} {extreme}?",
        ]
    phrase = _phrase(field, program)
    plural = _said_of_many(field.verb, phrase)
    if program.yes_no:
        ask_one, ask_many = (v.capitalize() for v in VERBS[field.verb])
        there = "Was" if field.verb == "was" else "Is"
        relative = _relative(field, said_of_one(field.verb, phrase))
        return [
            f"{ask_one} any {one} {where} {phrase}?",
            f"{there} there {article(one)} {one} {where} {relative}?",
            f"{ask_many} any {many} {where} {phrase}?",
        ]
    return [
        f"Which {many} {where} {plural}?",
        f"What {many} {where} {plural}?",
        f"What are the {many} {where} {_relative(field, plural)}?",
    ]


def _of_names(records: Records) -> list[str]:
    return [
        *records.asks,
        f"What are the {records.many} {records.where}?",
        f"What are the names of the {records.many} {records.where}?",
    ]


def said_of_one(verb: str, phrase: str) -> str:
    """Join a field's verb and phrase, as said of one record.

    >>> said_of_one("has", "won more than 5 titles"), said_of_one("does", "have 8 sites"), said_of_one("does", "not go far")
    ('has won more than 5 titles', 'has 8 sites', 'does not go far')
    """
    if verb != "does" or phrase.startswith("not "):
        return f"{VERBS[verb][0]} {phrase}"
    first, _, rest = phrase.partition(" ")
    return f"{'has' if first == 'have' else first + ('es' if first.endswith('o') else 's')} {rest}"


def _relative(field: Field, predicate: str) -> str:
    """Build "that has open fires"; for a measure shorter: "with more than 8 sites", "longer than 5 miles".

    Without "that is" one could take "a champion of this breed from Frome" for a breed from Frome.
    """
    if not isinstance(field, Measure):
        return f"that {predicate}"
    return re.sub(
        "^that (?:is|are|was|were) ", "", re.sub("^that (?:has|have) (?=more|fewer)", "with ", f"that {predicate}")
    )


def _said_of_many(verb: str, phrase: str) -> str:
    return phrase if verb == "does" and not phrase.startswith("not ") else f"{VERBS[verb][1]} {phrase}"


def _phrase(field: Field, program: Program) -> str:
    value = program.args[2]
    if isinstance(field, Measure):
        return f"{field.more if program.op in ('over', 'any_over') else field.less} {field.text(value)}"
    if isinstance(field, Feature):
        return field.being if value == "yes" else field.not_being
    return field.being.replace("{V}", value)


def picked(program: Program) -> Program:
    """Return the program that says which records a `pick` shows: its arguments are records, operation, field, value, columns."""
    records, op, field, value = program.args[:4]
    return Program(op, (records, field, value))


def _of_table(questions: list[str], fields: list[Field]) -> list[str]:
    """Build "What trails are there in this park, how long are they and are they open to bicycles?"."""
    parts = [_each(f) for f in fields]
    return [", ".join([text[:-1], *parts[:-1]]) + f" and {parts[-1]}?" for text in questions]


def _each(field: Field) -> str:
    if field.each:
        return field.each
    verb = VERBS[field.verb][1]
    if isinstance(field, Feature):
        return f"{verb} they {field.being}"
    return f"what {'was' if field.verb == 'was' else 'is'} their {field.column}"


def article(noun: str) -> str:
    """Return a or an."""
    return "an" if noun[0] in "aeiou" else "a"


def _joined(domain: Domain, program: Program) -> list[str]:
    forms = [wordings(domain, p) for p in program.args]
    questions = []
    for i in range(max(len(a) for a in forms)):
        first, *others = [a[i % len(a)] for a in forms]
        if program.op == "when":
            questions.append(_conditional(domain, program, others[0]))
            continue
        rest = [again(domain, _lowered(t), " ".join([first, *others[:j]]))[:-1] for j, t in enumerate(others)]
        joiner = "or" if program.op == "or" else "and"
        questions.append(", ".join([first[:-1], *rest[:-1]]) + f" {joiner} {rest[-1]}?")
    return list(dict.fromkeys(questions))


def _conditional(domain: Domain, program: Program, question: str) -> str:
    given = condition(domain, program.args[0])
    if program.args[1].op == "both":
        # After "..., if it is old?" one could not tell whether both questions or the last one depend on it.
        return f"On condition that {given}, {again(domain, _lowered(question), given)}"
    return f"{question[:-1]}, if {again(domain, given, question)}?"


def _lowered(question: str) -> str:
    return question[0].lower() + question[1:]


def again(domain: Domain, text: str, before: str) -> str:
    """Rewrite a question or condition after others about the same entity: "the age of this dog" becomes "its age".

    After one about a trail "it" could be the trail, and then it is "the park" again.
    """
    this, its = domain.this, domain.possessive
    if domain.pronoun == "it" and any(re.search(rf"\b{r.one}\b", before) for r in domain.records):
        return text.replace(this, f"the {domain.short}")
    for r in domain.records:
        text = text.replace(f"there {article(r.one)} {r.one} of {this} that", f"there one among {its} {r.many} that")
        text = re.sub(rf"any (?:{r.one}|{r.many}) of {this}", f"any of {its} {r.many}", text)
        text = re.sub(rf"^(?:which|what) (?:{r.one}|{r.many}) of {this}", f"which of {its} {r.many}", text)
    text = re.sub(rf"\bthe ((?:[\w-]+ ){{0,2}}[\w-]+) of {this}\b", rf"{its} \1", text)
    text = re.sub(rf"(^|\b(?:did|does|do|was|is|has|can) ){this}\b", rf"\1{domain.pronoun}", text)
    return text.replace(this, domain.objective)


def condition(domain: Domain, program: Program) -> str:
    """Write a yes/no program as a statement; only those that `conditional` accepts have one."""
    attribute = domain.by_name[program.args[0]]
    if isinstance(attribute, Flag):
        clause = attribute.affirms[0]
    else:
        assert isinstance(attribute, Text | Members)
        clause = attribute.says[0].replace("{V}", program.args[1])
    return clause.replace("{E}", domain.this)


def conditional(program: Program) -> bool:
    """Return whether a yes/no program can be the condition of another one."""
    return program.op in ("flag", "is", "has")
