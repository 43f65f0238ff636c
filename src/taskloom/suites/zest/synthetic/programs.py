"""Tasks as symbolic programs over the facts of a passage, and their questions in English.

A program is an operation with arguments. The operations are:

- on one fact: `value`, `more`, `less`, `is`, `members`, `has`, `flag`;
- on records: `names`, `where`, `over`, `under`, `most`, `least`, `top`, `bottom`, and the yes/no
  forms `any`, `any_over`, `any_under`;
- on other programs: `and`, `or`, `both`, `when`;
- with structured output: `table`, and `pick` for a table of the records that match.

Programs have a single language, the function language: they are formatted and evaluated as its
expressions (`algebra.py`). The operation is stored in addition to the expression, because it cannot
be recovered from it: `value`, `members` and `names` all become an atom, and `is`, `has` and `flag`
all become `is{…}`. This concerns 532 of the 1,187 base programs of the five domains. Operations are
also used as data (the trait `operation`, the rules of derivations), and they determine question
forms, flips and drafts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    Quality,
    Records,
    Text,
)

YES_NO = frozenset(
    {"more", "less", "is", "has", "flag", "any", "any_over", "any_under", "and", "or"}
)
"""Operations that answer yes, no or n/a."""

PRESENCE = frozenset({"has", "flag", "any"})
"""The yes/no operations that ask for the presence of something."""

JOINING = frozenset({"and", "or", "both", "when"})
"""Operations that combine programs."""

PLAIN = 3
"""Number of the plainest wordings from which joined questions and output structures choose."""


@dataclass(frozen=True, slots=True)
class Program:
    """An operation and its arguments, which are names, values or programs."""

    op: str
    args: tuple[Any, ...]

    @property
    def yes_no(self) -> bool:
        """True if it is a classification task."""
        return self.op in YES_NO

    @property
    def leaves(self) -> tuple[Program, ...]:
        """The programs that use facts directly."""
        if self.op not in JOINING:
            return (self,)
        return tuple(leaf for a in self.args for leaf in a.leaves)


def wordings(domain: Domain, program: Program) -> list[str]:
    """Return the question forms of a program, the plainest first. Programs that are flips of each
    other have the same order.
    """
    if program.op in JOINING:
        return [text.replace("{this}", domain.this) for text in _joined(domain, program)]
    return [text for alike in by_predicate(domain, program) for text in alike]


def by_predicate(domain: Domain, program: Program) -> list[list[str]]:
    """Return the question forms of a program that reads facts, grouped by the wording of their
    predicate, such as "is longer than".
    """
    known = domain.worded.get(program)
    if known is not None:
        return known
    records = domain.records_by_name.get(program.args[0])
    if records:
        forms = _of_records(records, program)
    else:
        forms = [[text] for text in _of_attribute(domain, program)]
    worded = [[text.replace("{this}", domain.this) for text in alike] for alike in forms]
    return domain.worded.setdefault(program, worded)


def _of_attribute(domain: Domain, program: Program) -> list[str]:
    name = program.args[0]
    attribute = domain.by_name[name]
    if isinstance(attribute, Number) and program.op in ("more", "less"):
        value = attribute.text(program.args[1])
        compared = attribute.more if program.op == "more" else attribute.less
        return [t.replace("{V}", value) for t in compared]
    if isinstance(attribute, Text) and program.op == "is":
        return [t.replace("{V}", program.args[1]) for t in attribute.confirm]
    if isinstance(attribute, Members) and program.op == "has":
        return [t.replace("{V}", program.args[1]) for t in attribute.has]
    return list(attribute.asks)


NAMED = (
    "What are the {many} {where}?",
    "What are the names of the {many} {where}?",
    "What are the {many} {where} called?",
    "Which {many} {where} are mentioned?",
    "Could you name the {many} {where}?",
    "Could you give me a list of the {many} {where}?",
    "Could you tell me what the {many} {where} are called?",
    "What {many} {where} does the text name?",
)
FITTING = (
    "Which {many} {where} {are}?",
    "What {many} {where} {are}?",
    "What are the {many} {where} {that_are}?",
    "Which of the {many} {where} {are}?",
    "Which are the {many} {where} {that_are}?",
    "What are the names of the {many} {where} {that_are}?",
    "Could you name the {many} {where} {that_are}?",
    "Could you tell me which {many} {where} {are}?",
)
SOME_FITS = (
    "{Does} any {one} {where} {fit}?",
    "{Is} there {a_one} {where} {that_is}?",
    "{Do} any {many} {where} {fit}?",
    "{Are} there any {many} {where} {that_are}?",
    "{Does} at least one {one} {where} {fit}?",
    "{Does} one of the {many} {where} {fit}?",
    "Can you tell me whether any {one} {where} {is}?",
    "Is it true that at least one of the {many} {where} {is}?",
)
EXTREME = (
    "Which {one} {where} {is_most}?",
    "What {verb} {X}?",
    "Which {verb} {X}?",
    "Which of the {many} {where} {is_most}?",
    "What {verb} {X} called?",
    "What {verb} the name of {X}?",
    "Could you name {X}?",
    "Could you tell me which {one} {where} {is_most}?",
)
"""Questions about records: all of them, those that match, whether one matches, and which has the
highest or lowest value.
"""


def _of_records(records: Records, program: Program) -> list[list[str]]:
    op = program.op
    if op == "names":
        return [[text] for text in _of_names(records)]
    if op == "table":
        return [_of_table(_of_names(records)[:PLAIN], [records.field(f) for f in program.args[1:]])]
    if op == "pick":
        questions = _of_records(records, picked(program))[0][:2]
        return [_of_table(questions, [records.field(f) for f in program.args[4:]])]
    words = {"{one}": records.one, "{many}": records.many, "{where}": records.where}
    field = records.field(program.args[1])
    if op in ("most", "least", "top", "bottom"):
        assert isinstance(field, Measure)
        verb = words["{verb}"] = VERBS["was" if field.verb == "was" else "is"][0]
        extremes = field.most if op in ("most", "top") else field.least
        phrases = [_extreme(records, verb, most) for most in extremes]
        frames = field.how if op in ("top", "bottom") else EXTREME
    else:
        phrases = [_fitting(records, field, phrase) for phrase in _phrases(field, program)]
        frames = SOME_FITS if program.yes_no else FITTING
    return [[_filled(frame, words | phrase) for frame in frames] for phrase in phrases]


_SLOT = re.compile(r"\{\w+\}")
_HAVING = re.compile("^that (?:has|have) (?=more|fewer)")
_BEING = re.compile("^that (?:is|are|was|were) ")


def _filled(frame: str, words: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda slot: words.get(slot[0], slot[0]), frame)


def _extreme(records: Records, verb: str, most: str) -> dict[str, str]:
    """Build phrases such as "the longest trail in this park" or "the trail in this park with the
    greatest length".
    """
    if most.startswith("with "):
        return {
            "{X}": f"the {records.one} {records.where} {most}",
            "{is_most}": f"{verb} the one {most}",
        }
    return {"{X}": f"the {most} {records.one} {records.where}", "{is_most}": f"{verb} the {most}"}


def _fitting(records: Records, field: Field, phrase: str) -> dict[str, str]:
    """Build the forms of a predicate for one record and for several, as a clause and after a
    noun.
    """
    does, do = (verb.capitalize() for verb in VERBS[field.verb])
    one, many = said_of_one(field.verb, phrase), _said_of_many(field.verb, phrase)
    past = field.verb == "was"
    return {
        "{a_one}": f"{article(records.one)} {records.one}",
        "{fit}": phrase,
        "{is}": one,
        "{are}": many,
        "{that_is}": _relative(field, one),
        "{that_are}": _relative(field, many),
        "{Does}": does,
        "{Do}": do,
        "{Is}": "Was" if past else "Is",
        "{Are}": "Were" if past else "Are",
    }


def _of_names(records: Records) -> list[str]:
    words = {"{many}": records.many, "{where}": records.where}
    framed = [_filled(frame, words) for frame in NAMED]
    return [*records.asks[:1], *framed[:2], *records.asks[1:], *framed[2:]]


def said_of_one(verb: str, phrase: str) -> str:
    """Join a field's verb and phrase in the singular.

    >>> said_of_one("has", "won more than 5 titles"), said_of_one("does", "have 8 sites"), said_of_one("does", "not go far")
    ('has won more than 5 titles', 'has 8 sites', 'does not go far')
    """
    if verb != "does" or phrase.startswith("not "):
        return f"{VERBS[verb][0]} {phrase}"
    first, _, rest = phrase.partition(" ")
    if first == "have":
        return f"has {rest}"
    ending = "es" if first.endswith("o") else "s"
    return f"{first}{ending} {rest}"


def _relative(field: Field, predicate: str) -> str:
    """Build a relative clause, such as "that has open fires". For measures it is shorter: "with
    more than 8 sites", "longer than 5 miles".

    Without "that is", "a champion of this breed from Frome" could be read as a breed from Frome.
    """
    if not isinstance(field, Measure):
        return f"that {predicate}"
    return _BEING.sub("", _HAVING.sub("with ", f"that {predicate}"))


def _said_of_many(verb: str, phrase: str) -> str:
    if verb == "does" and not phrase.startswith("not "):
        return phrase
    return f"{VERBS[verb][1]} {phrase}"


def _phrases(field: Field, program: Program) -> list[str]:
    value = program.args[2]
    if isinstance(field, Feature):
        return list(field.being if value == "yes" else field.not_being)
    if isinstance(field, Quality):
        return [text.replace("{V}", value) for text in field.being]
    number = field.text(value)
    compared = field.more if program.op in ("over", "any_over") else field.less
    # E.g. "more than {V} sites", or "longer than" with the number at the end.
    whole = [text if "{V}" in text else f"{text} {{V}}" for text in compared]
    return [text.replace("{V}", number) for text in whole]


def picked(program: Program) -> Program:
    """Return the program that selects the records of a `pick`. The arguments of a `pick` are
    records, operation, field, value, columns.
    """
    records, op, field, value = program.args[:4]
    return Program(op, (records, field, value))


def _of_table(questions: list[str], fields: list[Field]) -> list[str]:
    """Build the question for a table, such as "What trails are there in this park, how long are
    they and are they open to bicycles?".
    """
    parts = [_each(f) for f in fields]
    return [", ".join([text[:-1], *parts[:-1]]) + f" and {parts[-1]}?" for text in questions]


def _each(field: Field) -> str:
    if field.each:
        return field.each
    verb = VERBS[field.verb][1]
    if isinstance(field, Feature):
        return f"{verb} they {field.being[0]}"
    return f"what {'was' if field.verb == 'was' else 'is'} their {field.column}"


def article(noun: str) -> str:
    """Return the indefinite article for a noun."""
    return "an" if noun[0] in "aeiou" else "a"


def _joined(domain: Domain, program: Program) -> list[str]:
    forms = [wordings(domain, p)[:PLAIN] for p in program.args]
    questions = []
    for i in range(max(len(a) for a in forms)):
        first, *others = [a[i % len(a)] for a in forms]
        if program.op == "when":
            questions.append(_conditional(domain, program, others[0]))
            continue
        rest = []
        for j, text in enumerate(others):
            before = " ".join([first, *others[:j]])
            rest.append(again(domain, _lowered(text), before)[:-1])
        joiner = "or" if program.op == "or" else "and"
        questions.append(", ".join([first[:-1], *rest[:-1]]) + f" {joiner} {rest[-1]}?")
    return list(dict.fromkeys(questions))


def _conditional(domain: Domain, program: Program, question: str) -> str:
    given = condition(domain, program.args[0])
    if program.args[1].op == "both":
        # After "..., if it is old?" it would be unclear whether the condition applies to both
        # questions or only to the last.
        return f"On condition that {given}, {again(domain, _lowered(question), given)}"
    return f"{question[:-1]}, if {again(domain, given, question)}?"


def _lowered(question: str) -> str:
    return question[0].lower() + question[1:]


def again(domain: Domain, text: str, before: str) -> str:
    """Rewrite a question or condition that follows another one about the same entity: "the age of
    this dog" becomes "its age".

    After a question about a trail, "it" could mean the trail, so "the park" is used instead.
    """
    this, its = domain.this, domain.possessive
    if domain.pronoun == "it" and any(re.search(rf"\b{r.one}\b", before) for r in domain.records):
        return text.replace(this, f"the {domain.short}")
    for r in domain.records:
        text = text.replace(
            f"there {article(r.one)} {r.one} of {this} that", f"there one among {its} {r.many} that"
        )
        text = re.sub(rf"any (?:{r.one}|{r.many}) of {this}", f"any of {its} {r.many}", text)
        text = re.sub(
            rf"^(?:which|what) (?:{r.one}|{r.many}) of {this}", f"which of {its} {r.many}", text
        )
    text = re.sub(rf"\bthe ((?:[\w-]+ ){{0,2}}[\w-]+) of {this}\b", rf"{its} \1", text)
    text = text.replace(f"{this}'s", its)
    text = re.sub(rf"(^|\b(?:did|does|do|was|is|has|can) ){this}\b", rf"\1{domain.pronoun}", text)
    return text.replace(this, domain.objective)


def condition(domain: Domain, program: Program) -> str:
    """Write a yes/no program as a statement. Only programs accepted by `conditional` have one."""
    attribute = domain.by_name[program.args[0]]
    if isinstance(attribute, Flag):
        clause = attribute.affirms[0]
    else:
        assert isinstance(attribute, Text | Members)
        clause = attribute.says[0].replace("{V}", program.args[1])
    return clause.replace("{E}", domain.this)


def conditional(program: Program) -> bool:
    """True if a yes/no program can be the condition of another program."""
    return program.op in ("flag", "is", "has")
