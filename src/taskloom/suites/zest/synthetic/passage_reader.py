"""The independent reader parses a passage back into facts, using the domain's grammar.
`second_solver.py` evaluates programs on these facts.

The reader only uses the text. Every sentence must match a clause of the domain, or an error is
raised. Pronouns refer to the subject of the previous clause, and "the trail" to the last trail
mentioned. "The park" refers to the topic of the passage, which must also be the last park
mentioned. If the two differ, the text is ambiguous, which is also an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from taskloom.core.errors import InputError
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
    """A clause as a regular expression, with the fact it states: (kind, name, field, truth)."""

    anchor: str
    regex: re.Pattern[str]
    states: tuple[str, ...]


Match = tuple[Pattern, re.Match[str]]
"""A clause that was parsed."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Regular expressions for text around the facts: whole sentences, and phrases before or after
    other sentences.
    """

    fillers: re.Pattern[str]
    openers: re.Pattern[str]
    closers: re.Pattern[str]
    asides: re.Pattern[str]


@dataclass(slots=True)
class ReadEntity:
    """Facts read about an entity or a record: texts by attribute, members as lists."""

    name: str
    kind: str
    stated: dict[str, Any] = field(default_factory=dict)
    owned: dict[str, list[ReadEntity]] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """The facts read from a passage. The first entity is its topic.

    `about` lists, for each clause, its sentence and the name of its subject.
    """

    entities: dict[str, ReadEntity] = field(default_factory=dict)
    rules: list[tuple[str, str, str, str]] = field(default_factory=list)
    about: list[tuple[str, str]] = field(default_factory=list)

    @property
    def subject(self) -> ReadEntity:
        """Entity that the passage is about."""
        return next(iter(self.entities.values()))


_GRAMMARS: dict[int, tuple[Domain, tuple[list[Pattern], Frame]]] = {}


def grammar(domain: Domain) -> tuple[list[Pattern], Frame]:
    """Return the patterns for a domain's clauses and for the text around them. They are cached,
    because compiling them takes a second.
    """
    if id(domain) not in _GRAMMARS:
        _GRAMMARS[id(domain)] = domain, (_compile(domain), _frame(domain))
    return _GRAMMARS[id(domain)][1]


def _compile(domain: Domain) -> list[Pattern]:
    patterns = [_pattern(domain, t, ("open",)) for t in domain.opens]
    for a in domain.attributes:
        if isinstance(a, Flag):
            patterns += [_pattern(domain, t, ("flag", a.name, "yes")) for t in a.affirms]
            patterns += [_pattern(domain, t, ("flag", a.name, "no")) for t in a.denies]
        elif isinstance(a, Members):
            patterns += [
                _pattern(domain, t, ("has", a.name), _list_of(a.values, "and")) for t in a.says
            ]
            patterns += [
                _pattern(domain, t, ("lacks", a.name), _list_of(a.values, "or")) for t in a.denies
            ]
        else:
            value = _number(a.unit) if isinstance(a, Number) else _any_of(a.values)
            patterns += [_pattern(domain, t, ("value", a.name), value) for t in a.says]
    for r in domain.records:
        patterns += _record_patterns(domain, r)
    for rule in domain.rules:
        ground = domain.by_name[rule.when]
        values = _any_of(getattr(ground, "values", ()))
        for outcome, templates in (("yes", rule.affirms), ("no", rule.denies)):
            patterns += [
                _pattern(domain, t, ("rule", rule.when, rule.then, outcome), values)
                for t in templates
            ]
        then = domain.by_name[rule.then]
        outcomes = (
            _number(then.unit) if isinstance(then, Number) else _any_of(getattr(then, "values", ()))
        )
        patterns += [
            _pattern(domain, t, ("rule", rule.when, rule.then), values, implied=outcomes)
            for t in rule.says
        ]
    return patterns


def _frame(domain: Domain) -> Frame:
    openers = [re.escape(text) for text in OPENERS] + [
        _slotted(text) + " " for text in domain.openers
    ]
    closers = [_slotted(text) for text in domain.closers] or ["(?!)"]
    return Frame(
        fillers=re.compile("|".join(_slotted(text) for text in domain.fillers)),
        openers=re.compile("|".join(openers)),
        closers=re.compile(f"(?:{'|'.join(closers)})$"),
        asides=re.compile("|".join(f", {re.escape(text)}," for text in domain.aside)),
    )


def _slotted(text: str) -> str:
    """Build a regular expression from a text in which `[two|three]` means either word and
    `[10..90]` a number.
    """
    pieces = re.split(r"\[([^\]]*)\]", text)
    return "".join(_slot(p) if i % 2 else re.escape(p) for i, p in enumerate(pieces))


def _slot(inside: str) -> str:
    return (
        r"\d+"
        if re.fullmatch(r"\d+\.\.\d+", inside)
        else f"(?:{_any_of(tuple(inside.split('|')))})"
    )


def _record_patterns(domain: Domain, records: Records) -> list[Pattern]:
    patterns = [_pattern(domain, t, ("own", records.name), records=records) for t in records.says]
    for f in records.fields:
        if isinstance(f, Feature):
            patterns += [
                _pattern(domain, t, ("field", records.name, f.name, "yes"), records=records)
                for t in f.affirms
            ]
            patterns += [
                _pattern(domain, t, ("field", records.name, f.name, "no"), records=records)
                for t in f.denies
            ]
        else:
            value = _number(f.unit) if isinstance(f, Measure) else _any_of(f.values)
            patterns += [
                _pattern(domain, t, ("field", records.name, f.name), value, records) for t in f.says
            ]
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
    entity = f"(?P<E>{_named(domain)}|the {domain.short}|{domain.pronoun})"
    record = (
        f"(?P<N>{_names(records.heads, records.tails)}|the {records.one}|it)" if records else ""
    )
    slots = {"{E}": entity, "{V}": f"(?P<V>{value})", "{N}": record, "{W}": f"(?P<W>{implied})"}
    text = "".join(slots.get(p) or _slotted(p) for p in pieces if p)
    # Replace the whole phrase "the {N}" by "it" or "the law".
    text = text.replace(r"the\ (?P<N>", "(?:the )?(?P<N>")
    # Look for the longest literal text first, because `in` is much faster than the regular
    # expression.
    literals: list[str] = []
    for piece in pieces:
        if not piece.startswith("{"):
            literals += re.split(r"\[[^\]]*\]", piece)
    anchor = max(literals, key=len).removeprefix("the ")
    return Pattern(anchor, re.compile(text), states)


def _named(domain: Domain) -> str:
    article = f"{re.escape(domain.article)} " if domain.article else ""
    return article + _names(domain.heads, domain.tails)


def _names(heads: tuple[str, ...], tails: tuple[str, ...]) -> str:
    """Build a regular expression for every head with every tail. Heads and tails are separate
    groups, because a list of all names would be long and slow.
    """
    ends = "|".join(re.escape(full_name("", tail)) for tail in tails)
    return f"(?:{_any_of(heads)})(?:{ends})"


def _parted(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """Yield the text before and after each occurrence of a separator."""
    at = text.find(mark)
    while at >= 0:
        yield text[:at], text[at + len(mark) :]
        at = text.find(mark, at + 1)


class _PassageReader:
    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.patterns, self.frame = grammar(domain)
        self.reading = Reading()
        self.focus: ReadEntity | None = None
        self.last: dict[str, ReadEntity] = {}
        self.sentence = ""

    def read(self, text: str) -> Reading:
        for sentence in sentences(text):
            if self.frame.fillers.fullmatch(sentence):
                continue
            self.sentence = sentence
            if not self._sentence(self.frame.asides.sub("", sentence.removesuffix("."))):
                raise InputError(
                    f"the reader does not understand this sentence about {self.domain.name}:"
                    f" {sentence!r}"
                )
        if not self.reading.entities:
            raise InputError("the reader finds no topic in the passage")
        return self.reading

    def _sentence(self, text: str) -> bool:
        """Record the clauses of a sentence: all of them, or none if one cannot be parsed."""
        opener = self.frame.openers.match(text)
        text = text[opener.end() :] if opener else text
        matches = self._clauses(self.frame.closers.sub("", text))
        for pattern, match in matches:
            self._take(pattern, match)
        return bool(matches)

    def _clauses(self, text: str) -> list[Match]:
        """Return the clauses of a text in order, or an empty list if it cannot be parsed."""
        one = self._match(text)
        if one:
            return [one]
        for mark in ("; ", ", whereas ", ", while ", ", and "):
            for left, right in _parted(text, mark):
                first = self._clauses(left)
                then = self._clauses(right) if first else []
                if then:
                    return first + then
        if text.startswith("While "):
            for left, right in _parted(text.removeprefix("While "), ", "):
                matches = [self._match(left), self._match(right)]
                if all(matches):
                    return [m for m in matches if m]
        return self._relative_clause(text) or self._same_subject(text)

    def _relative_clause(self, text: str) -> list[Match]:
        """Try to parse a name, a clause about it between commas, and another clause; or a clause
        that ends with a name, and another clause about it.
        """
        name, mark, rest = text.partition(f", {self.domain.relative} ")
        for left, right in _parted(rest, ", ") if mark else ():
            matches = [self._match(f"{name} {left}"), self._match(f"{name} {right}")]
            if all(matches):
                return [m for m in matches if m]
        name, mark, rest = text.partition(", which ")
        first = self._match(name) if mark else None
        if first and "N" in first[1].groupdict() and first[1].end("N") == len(name):
            then = self._match(f"{first[1]['N']} {rest}")
            return [first, then] if then else []
        return []

    def _same_subject(self, text: str) -> list[Match]:
        """Try to parse two clauses that share their first words, the subject."""
        for left, right in _parted(text, " and "):
            first = self._match(left)
            groups = first[1].groupdict() if first else {}
            for group in ("N", "E"):
                if first and groups.get(group) and first[1].start(group) in (0, len("the ")):
                    then = self._match(f"{left[: first[1].end(group)]} {right}")
                    if then:
                        return [first, then]
        return []

    def _match(self, text: str) -> Match | None:
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
            self.reading.rules.append(
                (names[0], groups["V"], names[1], groups.get("W") or names[2])
            )
            return
        entity = self._resolve(groups["E"]) if "E" in groups else None
        if kind in ("own", "field"):
            record = self._record(groups["N"], names[0], entity)
            if kind == "field":
                record.stated[names[1]] = groups.get("V") or names[2]
            self.reading.about.append((self.sentence, record.name))
            self.focus = self.last[names[0]] = record
            return
        assert entity is not None
        self.reading.about.append((self.sentence, entity.name))
        self.focus = entity
        if kind == "value":
            entity.stated[names[0]] = groups["V"]
        elif kind == "flag":
            entity.stated[names[0]] = names[1]
        elif kind in ("has", "lacks"):
            attribute = self.domain.by_name[names[0]]
            assert isinstance(attribute, Members)
            # A value may itself contain "and" or "or", so the list is not split there.
            entity.stated.setdefault(f"{kind} {names[0]}", []).extend(
                re.findall(_any_of(attribute.values), groups["V"])
            )

    def _resolve(self, text: str) -> ReadEntity:
        if text == self.domain.pronoun:
            if self.focus is None or self.focus.kind != "entity":
                raise InputError(f"the pronoun '{text}' does not refer to any {self.domain.noun}")
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
                raise InputError(f"the pronoun 'it' does not refer to any {records.one}")
            return self.focus
        if text == f"the {records.one}":
            return self.last[kind]
        for entity in self.reading.entities.values():
            for thing in entity.owned.get(kind, []):
                if thing.name == text:
                    return thing
        raise InputError(f"the {records.one} {text} does not belong to any entity of the passage")


def sentences(text: str) -> list[str]:
    """Split a passage into its sentences."""
    return _SENTENCES.split(text.strip())


def read(domain: Domain, text: str) -> Reading:
    """Parse a passage."""
    return _PassageReader(domain).read(text)
