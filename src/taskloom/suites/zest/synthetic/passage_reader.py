"""The independent reader: parses a passage back into facts by the domain's grammar; `second_solver.py` answers programs on them.

It sees the text alone. Every sentence must be understood: one that no clause of the domain explains is an error, not skipped.
Pronouns refer to what the clause before is about, "the trail" to the last one mentioned, "the park" to the one that the passage
is about, which must also be the last one mentioned: where the two differ the text is ambiguous, and that is an error, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from taskloom.errors import InputError
from taskloom.suites.zest.synthetic.domain import (
    OPENERS,
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    Records,
    full_name,
)

_SENTENCES = re.compile(r"(?<=\.) ")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A clause as a regular expression, and what it states: (kind, name, field, truth)."""

    anchor: str
    regex: re.Pattern[str]
    states: tuple[str, ...]


@dataclass(slots=True)
class ReadEntity:
    """What was read about an entity or a record: stated texts by attribute; members as lists."""

    name: str
    kind: str
    stated: dict[str, Any] = field(default_factory=dict)
    owned: dict[str, list[ReadEntity]] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """Everything that a passage says; the first entity is the one that it is about."""

    entities: dict[str, ReadEntity] = field(default_factory=dict)
    rules: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def subject(self) -> ReadEntity:
        """Return the entity that the passage is about."""
        return next(iter(self.entities.values()))


_GRAMMARS: dict[int, tuple[Domain, tuple[list[Pattern], re.Pattern[str]]]] = {}


def grammar(domain: Domain) -> tuple[list[Pattern], re.Pattern[str]]:
    """Return the patterns of a domain's clauses, and the one of its fillers; kept, since compiling them takes a second."""
    if id(domain) not in _GRAMMARS:
        _GRAMMARS[id(domain)] = domain, _compile(domain)
    return _GRAMMARS[id(domain)][1]


def _compile(domain: Domain) -> tuple[list[Pattern], re.Pattern[str]]:
    patterns = [_pattern(domain, t, ("open",)) for t in domain.opens]
    for a in domain.attributes:
        if isinstance(a, Flag):
            patterns += [_pattern(domain, t, ("flag", a.name, "yes")) for t in a.affirms]
            patterns += [_pattern(domain, t, ("flag", a.name, "no")) for t in a.denies]
        elif isinstance(a, Members):
            patterns += [_pattern(domain, t, ("has", a.name), _list_of(a.values, "and")) for t in a.says]
            patterns += [_pattern(domain, t, ("lacks", a.name), _list_of(a.values, "or")) for t in a.denies]
        else:
            value = _number(a.unit) if isinstance(a, Number) else _any_of(a.values)
            patterns += [_pattern(domain, t, ("value", a.name), value) for t in a.says]
    for r in domain.records:
        patterns += _record_patterns(domain, r)
    for rule in domain.rules:
        ground = domain.by_name[rule.when]
        values = _any_of(getattr(ground, "values", ()))
        for outcome, templates in (("yes", rule.affirms), ("no", rule.denies)):
            patterns += [_pattern(domain, t, ("rule", rule.when, rule.then, outcome), values) for t in templates]
        then = domain.by_name[rule.then]
        outcomes = _number(then.unit) if isinstance(then, Number) else _any_of(getattr(then, "values", ()))
        patterns += [_pattern(domain, t, ("rule", rule.when, rule.then), values, implied=outcomes) for t in rule.says]
    return patterns, re.compile("|".join(_filler(text) for text in domain.fillers))


def _filler(text: str) -> str:
    """Return the regular expression of a filler, in which `[two|three]` stands for one of some words."""
    pieces = re.split(r"\[([^\]]*)\]", text)
    return "".join(f"(?:{_any_of(tuple(p.split('|')))})" if i % 2 else re.escape(p) for i, p in enumerate(pieces))


def _record_patterns(domain: Domain, records: Records) -> list[Pattern]:
    patterns = [_pattern(domain, t, ("own", records.name), records=records) for t in records.says]
    for f in records.fields:
        if isinstance(f, Feature):
            patterns += [
                _pattern(domain, t, ("field", records.name, f.name, "yes"), records=records) for t in f.affirms
            ]
            patterns += [_pattern(domain, t, ("field", records.name, f.name, "no"), records=records) for t in f.denies]
        else:
            value = _number(f.unit) if isinstance(f, Measure) else _any_of(f.values)
            patterns += [_pattern(domain, t, ("field", records.name, f.name), value, records) for t in f.says]
    return patterns


def _any_of(values: tuple[str, ...]) -> str:
    return "|".join(re.escape(v) for v in sorted(values, key=len, reverse=True))


def _list_of(values: tuple[str, ...], joiner: str) -> str:
    one = f"(?:{_any_of(values)})"
    return f"{one}(?:(?:, {one})* {joiner} {one})?"


def _number(unit: str) -> str:
    return r"\d[\d,]*" + (f" {re.escape(unit)}" if unit else "")


def _pattern(
    domain: Domain,
    template: str,
    states: tuple[str, ...],
    value: str = "",
    records: Records | None = None,
    implied: str = "",
) -> Pattern:
    pieces = re.split(r"(\{[EVNW]\})", template)
    names = "|".join(re.escape(domain.named(full_name(h, t))) for h, t in product(domain.heads, domain.tails))
    entity = f"(?P<E>{names}|the {domain.short}|{domain.pronoun})"
    record = f"(?P<N>{_names(records.heads, records.tails)}|the {records.one}|it)" if records else ""
    slots = {"{E}": entity, "{V}": f"(?P<V>{value})", "{N}": record, "{W}": f"(?P<W>{implied})"}
    text = "".join(slots.get(p) or re.escape(p) for p in pieces if p)
    # "the {N}" becomes "it" or "the law" as a whole.
    text = text.replace(r"the\ (?P<N>", "(?:the )?(?P<N>")
    literals = [p for p in pieces if p and not p.startswith("{")]
    anchor = max(literals, key=len).removeprefix("the ")
    return Pattern(anchor, re.compile(text), states)


def _names(heads: tuple[str, ...], tails: tuple[str, ...]) -> str:
    return "|".join(re.escape(full_name(h, t)) for h, t in product(heads, tails))


class _PassageReader:
    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.patterns, self.fillers = grammar(domain)
        self.reading = Reading()
        self.focus: ReadEntity | None = None
        self.last: dict[str, ReadEntity] = {}

    def read(self, text: str) -> Reading:
        for sentence in _SENTENCES.split(text.strip()):
            if self.fillers.fullmatch(sentence):
                continue
            bare = sentence.removesuffix(".").replace(f", {self.domain.aside},", "")
            if not self._sentence(bare):
                raise InputError(f"the reader does not understand this sentence about {self.domain.name}: {sentence!r}")
        if not self.reading.entities:
            raise InputError("the passage is about nothing that the reader knows")
        return self.reading

    def _sentence(self, text: str) -> bool:
        for opener in OPENERS:
            text = text.removeprefix(opener)
        if self._clauses([text]):
            return True
        if self._relative_clause(text):
            return True
        inner = text.removeprefix("While ")
        marks = (", ",) if inner is not text and text.startswith("While ") else (", and ", "; ", ", whereas ")
        for mark in marks:
            at = inner.find(mark)
            while at >= 0:
                if self._clauses([inner[:at], inner[at + len(mark) :]]):
                    return True
                at = inner.find(mark, at + 1)
        return False

    def _relative_clause(self, text: str) -> bool:
        """Try to read a name, a clause about it between commas, and another one: two clauses with the same subject."""
        name, mark, rest = text.partition(f", {self.domain.relative} ")
        at = rest.find(", ") if mark else -1
        while at >= 0:
            if self._clauses([f"{name} {rest[:at]}", f"{name} {rest[at + 2 :]}"]):
                return True
            at = rest.find(", ", at + 1)
        return False

    def _clauses(self, texts: list[str]) -> bool:
        """Take in all of the clauses, or none."""
        matches = [self._match(t) for t in texts]
        if any(m is None for m in matches):
            return False
        for m in matches:
            if m is not None:
                self._take(*m)
        return True

    def _match(self, text: str) -> tuple[Pattern, re.Match[str]] | None:
        lowered = text[:1].lower() + text[1:]
        for pattern in self.patterns:
            if pattern.anchor in lowered:
                match = pattern.regex.fullmatch(lowered) or pattern.regex.fullmatch(text)
                if match:
                    return pattern, match
        return None

    def _take(self, pattern: Pattern, match: re.Match[str]) -> None:
        groups = match.groupdict()
        kind, *names = pattern.states
        if kind == "rule":
            self.reading.rules.append((names[0], groups["V"], names[1], groups.get("W") or names[2]))
            return
        entity = self._resolve(groups["E"]) if "E" in groups else None
        if kind in ("own", "field"):
            record = self._record(groups["N"], names[0], entity)
            if kind == "field":
                record.stated[names[1]] = groups.get("V") or names[2]
            self.focus = self.last[names[0]] = record
            return
        assert entity is not None
        self.focus = entity
        if kind == "value":
            entity.stated[names[0]] = groups["V"]
        elif kind == "flag":
            entity.stated[names[0]] = names[1]
        elif kind in ("has", "lacks"):
            attribute = self.domain.by_name[names[0]]
            assert isinstance(attribute, Members)
            # A value may itself contain "and" or "or", so the list is not cut at them.
            entity.stated.setdefault(f"{kind} {names[0]}", []).extend(
                re.findall(_any_of(attribute.values), groups["V"])
            )

    def _resolve(self, text: str) -> ReadEntity:
        if text == self.domain.pronoun:
            if self.focus is None or self.focus.kind != "entity":
                raise InputError(f"the pronoun '{text}' refers to no {self.domain.noun}")
            thing = self.focus
        elif text == f"the {self.domain.short}":
            thing = self.last["entity"]
            if thing is not self.reading.subject:
                raise InputError(f"'{text}' could be {thing.name} or {self.reading.subject.name}")
        else:
            thing = self.reading.entities.setdefault(text, ReadEntity(text, "entity"))
        self.last["entity"] = thing
        return thing

    def _record(self, text: str, kind: str, owner: ReadEntity | None) -> ReadEntity:
        records = self.domain.records_by_name[kind]
        if owner is not None:
            thing = ReadEntity(text, kind)
            owner.owned.setdefault(kind, []).append(thing)
            return thing
        if text == "it":
            if self.focus is None or self.focus.kind != kind:
                raise InputError(f"the pronoun 'it' refers to no {records.one}")
            return self.focus
        if text == f"the {records.one}":
            return self.last[kind]
        for entity in self.reading.entities.values():
            for thing in entity.owned.get(kind, []):
                if thing.name == text:
                    return thing
        raise InputError(f"the {records.one} {text} belongs to nobody in the passage")


def read(domain: Domain, text: str) -> Reading:
    """Read what a passage says."""
    return _PassageReader(domain).read(text)
