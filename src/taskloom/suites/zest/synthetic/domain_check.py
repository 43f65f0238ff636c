"""What can be wrong with a domain: clauses that say two things, questions without the entity, kin that is not mutual."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from taskloom.errors import TaskloomError
from taskloom.seeding import Random
from taskloom.suites.zest.synthetic.algebra import expression, written
from taskloom.suites.zest.synthetic.domain import (
    PRONOUNS,
    Attribute,
    Domain,
    Feature,
    Field,
    Flag,
    Measure,
    Members,
    Number,
    full_name,
)
from taskloom.suites.zest.synthetic.domain_form import malformed
from taskloom.suites.zest.synthetic.flip_groups import groups
from taskloom.suites.zest.synthetic.passage_reader import Pattern, grammar
from taskloom.suites.zest.synthetic.programs import VERBS, Program, wordings
from taskloom.suites.zest.synthetic.second_solver import parse_in
from taskloom.suites.zest.task_files import CLASSIFICATION_WORDS, EXTRACTION_WORDS, first_word

LEAST_NAMES = 9
"""First names that a passage may need: three entities may each have three records of one kind, and no two alike."""


def faults(domain: Domain) -> list[str]:
    """Everything that is wrong with a domain, each as one sentence; empty when it can be used."""
    # The reader's grammar can be built only of parts that have their form, and where all names lead somewhere.
    found = malformed(domain) or [*_of_names(domain), *_of_attributes(domain)]
    return found or [*_of_clauses(domain), *_of_questions(domain)]


def _of_names(domain: Domain) -> Iterator[str]:
    for what, found in (("domain", domain.heads), *((r.name, r.heads) for r in domain.records)):
        if len(set(found)) < LEAST_NAMES:
            yield f"'{what}' has fewer than {LEAST_NAMES} heads: passages name several things and no two alike"
    every = [a.name for a in domain.attributes] + [r.name for r in domain.records]
    for name in sorted({n for n in every if every.count(n) > 1}):
        yield f"two attributes or records are called '{name}'"
    if domain.pronoun not in PRONOUNS:
        yield f"the pronoun '{domain.pronoun}' is none of {', '.join(PRONOUNS)}"
    if domain.short in {r.one for r in domain.records}:
        yield f"'the {domain.short}' would mean the entity and a record: choose another short"
    for text in domain.fillers:
        if not text.endswith("."):
            yield f"the filler {text!r} is not a sentence: it lacks a full stop"
        if ". " in text:
            yield f"the filler {text!r} is more than one sentence: make them fillers of their own"


def _of_attributes(domain: Domain) -> Iterator[str]:
    for a in domain.attributes:
        if a.kin and (a.kin not in domain.by_name or domain.by_name[a.kin].kin != a.name):
            yield f"'{a.name}' names '{a.kin}' as its kin, which does not name it back"
        elif a.kin and type(domain.by_name[a.kin]) is not type(a):
            yield f"'{a.name}' and its kin '{a.kin}' are of different types"
        elif a.kin and len(a.asks) != len(domain.by_name[a.kin].asks):
            yield f"'{a.name}' and its kin '{a.kin}' have not equally many questions: as flips they go in pairs"
        if isinstance(a, Number) and len(a.more) != len(a.less):
            yield f"'{a.name}' has {len(a.more)} questions for more and {len(a.less)} for less: they go in pairs"
    for r in domain.records:
        for f in r.fields:
            if f.verb not in VERBS:
                yield f"the verb '{f.verb}' of '{f.name}' is none of {', '.join(VERBS)}"
    for one, other in zip(domain.records[::2], domain.records[1::2], strict=False):
        if len(one.asks) != len(other.asks):
            yield f"'{one.name}' and '{other.name}' have not equally many questions: as flips they go in pairs"


def _of_clauses(domain: Domain) -> Iterator[str]:
    patterns, fillers = grammar(domain)
    for clause in clauses(domain):
        found = _meanings(clause, patterns)
        if len(found) != 1:
            many = "nothing" if not found else "both " + " and ".join(" ".join(f) for f in sorted(found))
            yield f"the clause {clause!r} says {many} to the reader"
    for filler in sorted(fillers):
        if _meanings(filler.removesuffix("."), patterns):
            yield f"the filler {filler!r} states a fact"


def _meanings(clause: str, patterns: list[Pattern]) -> set[tuple[str, ...]]:
    lowered = clause[0].lower() + clause[1:]
    near = (p for p in patterns if p.anchor in lowered)
    return {p.states for p in near if p.regex.fullmatch(clause) or p.regex.fullmatch(lowered)}


def clauses(domain: Domain) -> Iterator[str]:
    """Every clause of a domain, with each of its values (of numbers the smallest)."""
    name = domain.named(full_name(domain.heads[0], domain.tails[0]))
    for template in domain.opens:
        yield template.replace("{E}", name)
    for part in domain.attributes:
        for template, value in _statements(part):
            yield template.replace("{E}", name).replace("{V}", value)
    for r in domain.records:
        own = full_name(r.heads[0], r.tails[0])
        for template in r.says:
            yield template.replace("{E}", name).replace("{N}", own)
        for field in r.fields:
            for template, value in _statements(field):
                yield template.replace("{N}", own).replace("{V}", value)
    for rule in domain.rules:
        implied = _values(domain.by_name[rule.then])[0]
        for template, value in product((*rule.yes, *rule.no, *rule.says), _values(domain.by_name[rule.when])):
            yield template.replace("{V}", value).replace("{W}", implied)


def _statements(part: Attribute | Field) -> Iterator[tuple[str, str]]:
    if isinstance(part, Flag | Feature):
        templates = part.yes + part.no
    else:
        templates = part.says + part.denies if isinstance(part, Members) else part.says
    return product(templates, _values(part))


def _values(part: Attribute | Field) -> tuple[str, ...]:
    if isinstance(part, Number | Measure):
        return (part.text(part.low),)
    return ("",) if isinstance(part, Flag | Feature) else part.values


def _of_questions(domain: Domain) -> Iterator[str]:
    told: set[str] = set()
    asked: dict[str, Program] = {}
    for group in groups(domain, Random(0)):
        for program in group.programs:
            told.update(_unlike_itself(domain, program))
            known = CLASSIFICATION_WORDS if program.yes_no else EXTRACTION_WORDS
            forms = wordings(domain, program)
            if len(set(forms)) < 2:
                told.add(f"the task {written(program)} has fewer than two wordings, so it has no paraphrase")
            for text in forms:
                if asked.setdefault(text, program) != program:
                    told.add(f"the question {text!r} asks for {written(asked[text])} and for {written(program)}")
                if first_word(text) not in known:
                    told.add(
                        f"the question {text!r} begins with a word by which no one knows its type, such as {sorted(known)[:3]}"
                    )
    yield from sorted(told)


def _unlike_itself(domain: Domain, program: Program) -> Iterator[str]:
    """Programs are kept as text: a name that is an operator of the language, or a value with its marks, would be lost."""
    try:
        same = parse_in(domain, written(program)) == expression(program)
    except TaskloomError:
        same = False
    if not same:
        yield f"the task {written(program)} cannot be written in the language of functions: choose other names or values"
