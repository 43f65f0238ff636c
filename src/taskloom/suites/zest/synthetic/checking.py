"""What can be wrong with a domain: clauses that say two things, questions without the entity, kin that is not mutual."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taskloom.seeding import Random
from taskloom.suites.zest.files import CLASSIFICATION_WORDS, EXTRACTION_WORDS, first_word
from taskloom.suites.zest.synthetic.algebra import written
from taskloom.suites.zest.synthetic.domain import (
    PRONOUNS,
    Attribute,
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    full_name,
)
from taskloom.suites.zest.synthetic.groups import groups
from taskloom.suites.zest.synthetic.programs import VERBS, wordings
from taskloom.suites.zest.synthetic.reader import Pattern, grammar

LEAST_NAMES = 9
"""First names that a passage may need: three entities may each have three records of one kind, and no two alike."""


def faults(domain: Domain) -> list[str]:
    """Everything that is wrong with a domain, each as one sentence; empty when it can be used."""
    found = [*_of_names(domain), *_of_attributes(domain)]
    # The reader's grammar can be built only where all names lead somewhere.
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
    for what, lines in (("opens", domain.opens), ("fillers", domain.fillers)):
        if not lines:
            yield f"'{what}' is empty: a passage needs one"
    for text in domain.opens:
        if "{E}" not in text:
            yield f"the opening {text!r} does not name the entity: {{E}}"
    for text in domain.fillers:
        if not text.endswith("."):
            yield f"the filler {text!r} is not a sentence: it lacks a full stop"


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
    for stated in (*domain.attributes, *(f for r in domain.records for f in r.fields)):
        if isinstance(stated, Number | Measure) and not (stated.step > 0 and stated.low + stated.step <= stated.high):
            yield f"'{stated.name}' has no two values from {stated.low} to {stated.high} in steps of {stated.step}"
        for text in (t for kind in ("says", "yes", "no", "denies") for t in getattr(stated, kind, ())):
            if re.search(r"[{}]", re.sub(r"\{[EVN]\}", "", text)):
                yield f"the clause {text!r} has a brace that is not part of {{E}}, {{V}} or {{N}}"
    for r in domain.records:
        for f in r.fields:
            if f.verb not in VERBS:
                yield f"the verb '{f.verb}' of '{f.name}' is none of {', '.join(VERBS)}"
    for one, other in zip(domain.records[::2], domain.records[1::2], strict=False):
        if len(one.asks) != len(other.asks):
            yield f"'{one.name}' and '{other.name}' have not equally many questions: as flips they go in pairs"
    for rule in domain.rules:
        for name in (rule.when, rule.then):
            if name not in domain.by_name:
                yield f"a rule is about '{name}', which is no attribute"


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
    return {p.states for p in patterns if p.regex.fullmatch(clause) or p.regex.fullmatch(lowered)}


def clauses(domain: Domain) -> Iterator[str]:
    """Every clause of a domain, filled with its first values."""
    name = domain.named(full_name(domain.heads[0], domain.tails[0]))
    for a in domain.attributes:
        for template, value in _statements(a):
            yield template.replace("{E}", name).replace("{V}", value)
    for r in domain.records:
        own = full_name(r.heads[0], r.tails[0])
        for template in r.says:
            yield template.replace("{E}", name).replace("{N}", own)
        for f in r.fields:
            value = "" if isinstance(f, Feature) else f.text(f.low) if isinstance(f, Measure) else f.values[0]
            for template in f.yes + f.no if isinstance(f, Feature) else f.says:
                yield template.replace("{N}", own).replace("{V}", value)


def _statements(a: Attribute) -> Iterator[tuple[str, str]]:
    if isinstance(a, Flag):
        yield from ((t, "") for t in a.yes + a.no)
    elif isinstance(a, Members):
        yield from ((t, a.values[0]) for t in a.says + a.denies)
    else:
        value = a.text(a.low) if isinstance(a, Number) else a.values[0]
        yield from ((t, value) for t in a.says)


def _of_questions(domain: Domain) -> Iterator[str]:
    told: set[str] = set()
    for group in groups(domain, Random(0)):
        for program in group.programs:
            known = CLASSIFICATION_WORDS if program.yes_no else EXTRACTION_WORDS
            forms = wordings(domain, program)
            if len(set(forms)) < 2:
                told.add(f"the task {written(program)} has fewer than two wordings, so it has no paraphrase")
            for text in forms:
                if domain.this not in text:
                    told.add(f"the question {text!r} does not say {{this}}")
                if first_word(text) not in known:
                    told.add(
                        f"the question {text!r} begins with a word by which no one knows its type, such as {sorted(known)[:3]}"
                    )
    yield from sorted(told)
