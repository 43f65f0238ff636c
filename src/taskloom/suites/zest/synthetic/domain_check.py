"""What can be wrong with a whole domain: clauses that say two things, questions with two meanings, kin that is not mutual."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from taskloom.core.errors import TaskloomError
from taskloom.core.seeding import Random
from taskloom.suites.zest.synthetic.algebra import expression, program_text
from taskloom.suites.zest.synthetic.domain import (
    Attribute,
    Domain,
    Feature,
    Field,
    Flag,
    Measure,
    Members,
    Number,
    Records,
    Rule,
    Text,
    full_name,
)
from taskloom.suites.zest.synthetic.flip_groups import groups
from taskloom.suites.zest.synthetic.passage_reader import Pattern, grammar
from taskloom.suites.zest.synthetic.programs import Program, wordings
from taskloom.suites.zest.synthetic.second_solver import parse_program
from taskloom.suites.zest.task_files import CLASSIFICATION_WORDS, EXTRACTION_WORDS, first_word

LEAST_NAMES = 9
"""First names that a passage may need: three entities may each have three records of one kind, and no two alike."""


def problems(domain: Domain) -> list[str]:
    """List everything that is wrong with a domain, each as one sentence; empty when it can be used."""
    # The reader's grammar can be built only where all names lead somewhere.
    basic = [
        *_names(domain),
        *_slots(domain),
        *_records(domain),
        *_rules(domain),
        *_attributes(domain),
    ]
    return basic or [*_clauses(domain), *_questions(domain)]


def _names(domain: Domain) -> Iterator[str]:
    for owner, heads in (("domain", domain.heads), *((r.name, r.heads) for r in domain.records)):
        if len(set(heads)) < LEAST_NAMES:
            yield f"'{owner}' has fewer than {LEAST_NAMES} heads: passages name several things and no two alike"
    for name in _repeated([a.name for a in domain.attributes] + [r.name for r in domain.records]):
        yield f"two attributes or records are called '{name}'"
    if domain.short in {r.one for r in domain.records}:
        yield f"'the {domain.short}' would mean the entity and a record: choose another short"
    for text in domain.fillers:
        if not text.endswith("."):
            yield f"the filler {text!r} is not a sentence: it lacks a full stop"
        if ". " in text:
            yield f"the filler {text!r} is more than one sentence: make them fillers of their own"


def _slots(domain: Domain) -> Iterator[str]:
    for kind, texts in (
        ("opening", domain.opens),
        ("filler", domain.fillers),
        ("opener", domain.openers),
        ("closer", domain.closers),
    ):
        for text in texts:
            if re.search(
                r"[\[\]|]", re.sub(r"\[(?:\d+\.\.\d+|[^\[\]|]+(?:\|[^\[\]|]+)+)\]", "", text)
            ):
                yield f"the {kind} {text!r} has a bracket that is not of the form [two|three] or [10..90]"
    yield from (
        f"the closer {text!r} does not begin with a comma"
        for text in domain.closers
        if text[0] != ","
    )


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _records(domain: Domain) -> Iterator[str]:
    for records in domain.records:
        for name in _repeated([f.name for f in records.fields]):
            yield f"records '{records.name}': two fields are called '{name}'"
        for f in records.fields:
            for key, opposite in (("more", "less"), ("most", "least"), ("being", "not_being")):
                if hasattr(f, opposite) and len(getattr(f, key)) != len(getattr(f, opposite)):
                    yield f"'{f.name}' has not as many phrases for {key} as for {opposite}: as flips they go in pairs"
        for name in _repeated([records.column, *(f.column for f in records.fields)]):
            yield f"records '{records.name}': two columns are called '{name}'"
    for one, other in zip(domain.records[::2], domain.records[1::2], strict=False):
        if len(one.asks) != len(other.asks):
            yield f"'{one.name}' and '{other.name}' do not have equally many questions: as flips they go in pairs"


def _rules(domain: Domain) -> Iterator[str]:
    for rule in domain.rules:
        when, then = domain.by_name.get(rule.when), domain.by_name.get(rule.then)
        yield from (
            f"a rule is about '{name}', which is not an attribute"
            for name in (rule.when, rule.then)
            if name not in domain.by_name
        )
        if when is None or then is None:
            continue
        title = f"rule from '{rule.when}' to '{rule.then}'"
        if not isinstance(when, Text) or isinstance(then, Members) or when is then:
            yield f"{title}: a rule leads from a text to another attribute that is not of type members"
        for key in ("affirms", "denies") if isinstance(then, Flag) else ("says",):
            if not getattr(rule, key):
                yield f"{title}: {key} is empty, and '{rule.then}' needs it"


def _attributes(domain: Domain) -> Iterator[str]:
    for a in domain.attributes:
        if a.kin and (a.kin not in domain.by_name or domain.by_name[a.kin].kin != a.name):
            yield f"'{a.name}' names '{a.kin}' as its kin, which does not name it back"
        elif a.kin and type(domain.by_name[a.kin]) is not type(a):
            yield f"'{a.name}' and its kin '{a.kin}' are of different types"
        elif a.kin and len(a.asks) != len(domain.by_name[a.kin].asks):
            yield f"'{a.name}' and its kin '{a.kin}' do not have equally many questions: as flips they go in pairs"
        if isinstance(a, Number) and len(a.more) != len(a.less):
            yield f"'{a.name}' has {len(a.more)} questions for more and {len(a.less)} for less: they go in pairs"


def _clauses(domain: Domain) -> Iterator[str]:
    patterns, _ = grammar(domain)
    for clause in clauses(domain):
        meanings = _meanings(clause, patterns)
        if len(meanings) != 1:
            what = (
                "nothing"
                if not meanings
                else "both " + " and ".join(" ".join(m) for m in sorted(meanings))
            )
            yield f"the clause {clause!r} says {what} to the reader"
    for filler in sorted({variant for text in domain.fillers for variant in _variants(text)}):
        if _meanings(filler.removesuffix("."), patterns):
            yield f"the filler {filler!r} states a fact"


def _variants(filler: str) -> Iterator[str]:
    """Yield sentences of a filler in which every alternative occurs: the first of each, the second of each, …"""
    choices = [re.split(r"\||\.\.", choice) for choice in re.findall(r"\[([^\]]*)\]", filler)]
    for turn in range(max(map(len, choices), default=1)):
        picks = iter([choice[turn % len(choice)] for choice in choices])
        yield re.sub(r"\[[^\]]*\]", lambda _, picks=picks: next(picks), filler)  # type: ignore[misc]


def _meanings(clause: str, patterns: Iterable[Pattern]) -> set[tuple[str, ...]]:
    lowered = clause[0].lower() + clause[1:]
    near = (p for p in patterns if p.anchor in lowered)
    return {p.states for p in near if p.regex.fullmatch(clause) or p.regex.fullmatch(lowered)}


def clauses(domain: Domain) -> Iterator[str]:
    """Yield every clause of a domain, with each of its values (of numbers the smallest)."""
    name = domain.named(full_name(domain.heads[0], domain.tails[0]))
    for template in domain.opens:
        yield from _variants(template.replace("{E}", name))
    for part in domain.attributes:
        for template, value in _statements(part):
            yield template.replace("{E}", name).replace("{V}", value)
    for records in domain.records:
        yield from _record_clauses(records, name)
    for rule in domain.rules:
        yield from _rule_clauses(domain, rule)


def _record_clauses(records: Records, owner: str) -> Iterator[str]:
    name = full_name(records.heads[0], records.tails[0])
    for template in records.says:
        yield template.replace("{E}", owner).replace("{N}", name)
    for field in records.fields:
        for template, value in _statements(field):
            yield template.replace("{N}", name).replace("{V}", value)


def _rule_clauses(domain: Domain, rule: Rule) -> Iterator[str]:
    outcome = _values(domain.by_name[rule.then])[0]
    templates = (*rule.affirms, *rule.denies, *rule.says)
    for template, value in product(templates, _values(domain.by_name[rule.when])):
        yield template.replace("{V}", value).replace("{W}", outcome)


def _statements(part: Attribute | Field) -> Iterator[tuple[str, str]]:
    if isinstance(part, Flag | Feature):
        templates = part.affirms + part.denies
    else:
        templates = part.says + part.denies if isinstance(part, Members) else part.says
    return product(templates, _values(part))


def _values(part: Attribute | Field) -> tuple[str, ...]:
    if isinstance(part, Number | Measure):
        return (part.text(part.low),)
    return ("",) if isinstance(part, Flag | Feature) else part.values


def _questions(domain: Domain) -> Iterator[str]:
    faults: set[str] = set()
    programs: dict[str, Program] = {}
    for group in groups(domain, Random(0)):
        for program in group.programs:
            faults.update(_unreadable(domain, program))
            known = CLASSIFICATION_WORDS if program.yes_no else EXTRACTION_WORDS
            questions = wordings(domain, program)
            if len(set(questions)) < 2:
                faults.add(
                    f"the task {program_text(program)} has fewer than two wordings, so it has no paraphrase"
                )
            for question in questions:
                first = programs.setdefault(question, program)
                if first != program:
                    faults.add(
                        f"the question {question!r} asks for {program_text(first)} and for {program_text(program)}"
                    )
                if first_word(question) not in known:
                    faults.add(
                        f"the question {question!r} must begin with a word that shows its type, such as {sorted(known)[:3]}"
                    )
    yield from sorted(faults)


def _unreadable(domain: Domain, program: Program) -> Iterator[str]:
    """Yield a problem if a program is not read back to itself: a name that is an operator, a value with the language's marks."""
    try:
        same = parse_program(domain, program_text(program)) == expression(program)
    except TaskloomError:
        same = False
    if not same:
        yield f"the task {program_text(program)} cannot be written in the language of functions: choose other names or values"
