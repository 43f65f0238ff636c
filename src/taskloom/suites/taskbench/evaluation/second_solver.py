"""The independent second solver: evaluates an expression for a single text, using plain sets and
following WordNet's links.

It shares nothing with the fast evaluator: no closures, sense tables, array operations or normal
forms. It finds senses by morphology in the index of lemmas, follows links one by one, and computes
random pairs with integers.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, assert_never

from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.language import type_of
from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Difference,
    Expression,
    Filter,
    Intersection,
    Inverse,
    Is,
    Land,
    Lnot,
    Lor,
    Map,
    PredicateOperator,
    RelationOperator,
    SequenceOperator,
    Union,
)
from taskloom.suites.taskbench.worlds import random_relations
from taskloom.suites.taskbench.worlds.words.wordnet import POS

if TYPE_CHECKING:
    from taskloom.suites.taskbench.tables import Table
    from taskloom.suites.taskbench.worlds.words import Words

_TAGS = {"noun": "n", "verb": "v", "adjective": "a", "adverb": "r"}
_SIGNS = {"positive": 1, "negative": -1, "neutral": 0}


class PlainSolver:
    """Evaluates expressions as sets of texts."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.lexicon = words.lexicon
        self.rules = words.lexical.rules
        self._held: dict[tuple[str, str], set[str]] = {}
        self._lists: dict[str, list[list[int]]] = {}
        self._turned: dict[str, dict[str, set[str]]] = {}
        self._backward: dict[str, dict[int, list[int]]] = {}
        self._meant: dict[str, dict[int, list[str]]] = {}

    def relation(self, expression: Expression, text: str) -> set[str]:
        """Return the values of a relation for a text."""
        match expression:
            case Atom(name):
                return self.values(name, text)
            case Inverse((Atom(name),)):
                return self._inverse(name, text)
            case Inverse():
                # The inverse is found by trying every word of the language.
                tried = self._language(type_of(expression.part, atoms.signature).language)
                return {x for x in tried if text in self.relation(expression.part, x)}
            case Chain(parts):
                reached = {text}
                for part in reversed(parts):
                    reached = {y for x in reached for y in self.relation(part, x)}
                return reached
            case Union(parts):
                return set().union(*(self.relation(part, text) for part in parts))
            case Intersection(parts):
                return set.intersection(*(self.relation(part, text) for part in parts))
            case Difference():
                removed = self.relation(expression.removed, text)
                return {y for y in self.relation(expression.kept, text) if y not in removed}
            case Is() | PredicateOperator() | SequenceOperator():
                raise ValueError(f"not a relation: {expression.notation}")
            case _:
                assert_never(expression)

    def predicate(self, expression: Expression, text: str) -> bool:
        """True if a predicate holds for a text."""
        match expression:
            case Atom(name):
                return self.holds(name, text)
            case Is(relation, value):
                return value.replace(" ", "_") in self.relation(relation, text)
            case Lnot():
                return not self.predicate(expression.part, text)
            case Land(parts):
                return all(self.predicate(part, text) for part in parts)
            case Lor(parts):
                return any(self.predicate(part, text) for part in parts)
            case Chain():
                return any(
                    self.predicate(expression.head, y) for y in self.relation(expression.rest, text)
                )
            case RelationOperator() | SequenceOperator():
                raise ValueError(f"not a predicate: {expression.notation}")
            case _:
                assert_never(expression)

    def sequence(self, expression: Expression, texts: list[str]) -> list[set[str]]:
        """Acceptable words at each position of a sequence function's result."""
        return [
            images for _, images in self._sequence(expression, [(text, {text}) for text in texts])
        ]

    def _sequence(
        self, expression: Expression, items: list[tuple[str, set[str]]]
    ) -> list[tuple[str, set[str]]]:
        assert isinstance(expression, Map | Filter)
        own, before = expression.element, expression.before
        if before is not None:
            items = self._sequence(before, items)
        match expression:
            case Map():
                return [(x, set().union(*(self.relation(own, y) for y in ys))) for x, ys in items]
            case Filter():
                return [(x, ys) for x, ys in items if any(self.predicate(own, y) for y in ys)]
            case _:
                assert_never(expression)

    def _language(self, code: str) -> list[str]:
        known = self._list(f"written {code}", self.lexicon.written[code])
        return [text for text, senses in zip(self.lexicon.texts, known, strict=True) if senses]

    def values(self, name: str, text: str) -> set[str]:
        """Return the values of an atom for a text."""
        known = self._held.get((name, text))
        if known is None:
            known = self._held[name, text] = self._find(name, text)
        return known

    def _find(self, name: str, text: str) -> set[str]:
        known = atoms.known(name)
        assert known is not None
        if known.family == "own":
            return atoms.call(known, text)
        if known.family == "random":
            language = random_relations.parts(name)[1]
            partner = random_relations.image(
                name, text, self._vocabulary[language], self.words.pairing
            )
            return set() if partner is None else {partner}
        match = re.fullmatch(r"(\w+)\[(\w+)(?:->(\w+))?\]", name)
        assert match is not None
        source, target = match[2], match[3] or match[2]
        senses = self._senses(text, source)
        if self.rules.senses == "first":
            senses = senses[:1]
        reached = (
            set(senses) if match[1] in ("synonyms", "translate") else self._linked(match[1], senses)
        )
        texts = self.lexicon.texts
        written = self._list(f"lemmas {target}", self.lexicon.lemmas[target])
        lemmas = {texts[i] for s in reached for i in written[s]}
        return {y for y in lemmas if y.lower() != text.lower() and self._allowed(text, y, target)}

    def _inverse(self, name: str, text: str) -> set[str]:
        """Return the words that have a text among their values. Lexical links are followed
        backwards; for other relations every word is tried.
        """
        known = atoms.known(name)
        assert known is not None
        match = re.fullmatch(r"(\w+)\[(\w+)(?:->(\w+))?\]", name)
        if known.family != "lexical" or match is None:
            if name not in self._turned:
                turned = self._turned[name] = {}
                for x in self._language(known.type.language):
                    for y in self.values(name, x):
                        turned.setdefault(y, set()).add(x)
            return self._turned[name].get(text, set())
        source, target = match[2], match[3] or match[2]
        number = self.lexicon.numbers.get(text)
        ends = [] if number is None else self._senses_by(target, number)
        link = "" if match[1] in ("synonyms", "translate") else match[1]
        starts = {s for end in ends for s in (self._led_to(link, end) if link else {end})}
        texts = {x for s in starts for x in self._meaning(source).get(s, ())}
        return {x for x in texts if x.lower() != text.lower() and self._allowed(x, text, target)}

    def _led_to(self, link: str, end: int) -> set[int]:
        """Return the senses from which one link (antonyms) or any number of links lead to a
        sense.
        """
        if link not in self._backward:
            backward = self._backward[link] = {}
            for s, targets in enumerate(self._list(link, self.lexicon.links[link])):
                for t in targets:
                    backward.setdefault(t, []).append(s)
        table = self._backward[link]
        reached: set[int] = set()
        frontier = {end}
        while frontier:
            frontier = {s for t in frontier for s in table.get(t, ())} - reached
            reached |= frontier
            if link == "antonyms":
                break
        return reached - {end}

    def _meaning(self, language: str) -> dict[int, list[str]]:
        """Return the words for each sense, found by looking up every word of the language once."""
        if language not in self._meant:
            meant = self._meant[language] = {}
            for x in self._language(language):
                senses = self._senses(x, language)
                for s in dict.fromkeys(senses[:1] if self.rules.senses == "first" else senses):
                    meant.setdefault(s, []).append(x)
        return self._meant[language]

    def _allowed(self, text: str, value: str, language: str) -> bool:
        if self.rules.outputs == "vocabulary" and value not in self._vocabulary_sets[language]:
            return False
        if not self.rules.inflections and language == "eng":
            for form, other in ((text, value), (value, text)):
                if any(other.lower() in forms for forms in self.lexicon.bases(form).values()):
                    return False
        return True

    @cached_property
    def _vocabulary(self) -> dict[str, list[str]]:
        return {
            code: [self.lexicon.texts[i] for i in row.tolist()]
            for code, row in self.words.vocabulary.items()
        }

    @cached_property
    def _vocabulary_sets(self) -> dict[str, set[str]]:
        return {code: set(row) for code, row in self._vocabulary.items()}

    def _senses(self, text: str, language: str) -> list[int]:
        """Return the senses of a text, found by morphology from the lemmas of each sense rather
        than from the table of senses.
        """
        if language == "eng" and self.rules.senses == "all":
            senses: list[int] = []
            for pos, forms in self.lexicon.bases(text).items():
                words = [word for form in forms for word in self.lexicon.base_forms[pos][form]]
                for word in words:
                    of_word = self._senses_by("eng", word)
                    senses += [s for s in of_word if POS[self.lexicon.pos[s]] == pos]
            return senses
        return list(self.lexicon.find(text, language))

    def _linked(self, link: str, senses: list[int]) -> set[int]:
        """Return the senses at the end of one link (antonyms) or of any number of links. In a
        cycle, no sense leads to itself.
        """
        table = self._list(link, self.lexicon.links[link])
        ends: set[int] = set()
        for sense in senses:
            reached: set[int] = set()
            frontier = {sense}
            while frontier:
                frontier = {t for s in frontier for t in table[s]} - reached
                reached |= frontier
                if link == "antonyms":
                    break
            ends |= reached - {sense}
        return ends

    def holds(self, name: str, text: str) -> bool:
        """True if a predicate atom holds for one text."""
        known = atoms.known(name)
        assert known is not None
        if known.family == "own":
            return "true" in self.values(name, text)
        match = re.fullmatch(r"is_(pos|sentiment)_(\w+)\[(\w+)\]", name)
        assert match is not None
        number = self.lexicon.numbers.get(text)
        if number is None:
            return False
        senses = self._senses_by(match[3], number)
        if match[1] == "pos":
            return any(POS[self.lexicon.pos[s]] == _TAGS[match[2]] for s in senses)
        assert self.lexicon.sentiment is not None
        return any(self.lexicon.sentiment[s] == _SIGNS[match[2]] for s in senses)

    def _senses_by(self, language: str, number: int) -> list[int]:
        return self._list(f"written {language}", self.lexicon.written[language])[number]

    def _list(self, name: str, table: Table) -> list[list[int]]:
        """Convert a table to plain lists, which are many times as fast when read one by one."""
        if name not in self._lists:
            flat, bounds = table.values.tolist(), table.starts.tolist()
            self._lists[name] = [flat[a:b] for a, b in pairwise(bounds)]
        return self._lists[name]
