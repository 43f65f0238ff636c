"""Turns a draft into a passage: orders and joins its clauses, uses pronouns where they are
unambiguous, and adds fillers. Wordings are drawn from decks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, perm, prod
from typing import Any, NamedTuple, TypeVar

from taskloom.core.seeding import Key, Random, pick
from taskloom.suites.zest.synthetic.algebra import Facts, Record, Stated
from taskloom.suites.zest.synthetic.domain import (
    OPENERS,
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    Records,
    Text,
)
from taskloom.suites.zest.synthetic.draft import Draft

SLOT = re.compile(r"\[([^\]]*)\]")
"""A slot with alternative words, or with the ends of a range of numbers."""


TURNS = 2
"""Number of times that a task uses the same text with different fillings. The paper's twenty
passages use ten to twelve texts. The number does not depend on the recipe's number of passages, so
that adding passages does not change the first ones.
"""

DETAILED = 20
"""Number of passages per task in the paper. Each task reserves the fillings of every detail for
this many passages. Later passages use those of the next task.
"""


@lru_cache(maxsize=1024)
def slots(text: str) -> tuple[str | Sequence[str] | range, ...]:
    """Divide a text into its words and the options of its slots. A domain has about a hundred such
    texts.
    """
    parts: list[str | Sequence[str] | range] = []
    for i, part in enumerate(SLOT.split(text)):
        low, dots, high = part.partition("..")
        if i % 2 == 0:  # the pattern has one group, so words and slots alternate
            parts.append(part)
        elif dots:
            parts.append(range(int(low), int(high) + 1))
        else:
            parts.append(tuple(part.split("|")))
    return tuple(parts)


def ways(text: str) -> int:
    """Count the ways to fill the slots of a text."""
    return prod([len(part) for part in slots(text) if not isinstance(part, str)])


@dataclass(frozen=True, slots=True)
class Card:
    """A text with slots, and the order in which its fillings are used: each is `stride` positions
    after the previous one.

    A stride that has no common divisor with the number of fillings visits all of them before
    repeating one.
    """

    text: str
    size: int
    start: int
    stride: int

    def filling(self, turn: int) -> str:
        """Return the text with the filling for this turn."""
        at = (self.start + turn * self.stride) % self.size
        words = []
        for part in slots(self.text):
            if not isinstance(part, str):
                at, chosen = divmod(at, len(part))
                part = str(part[chosen])
            words.append(part)
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Deck:
    """The texts of one kind. The passages of a task use them in turn, and every task has different
    fillings.
    """

    cards: tuple[Card, ...]

    def deal(self, task: int, passage: int, extra: int = 0) -> str:
        """Return the text for a passage of a task, both given by number. `extra` skips that many
        texts.

        The text after the skipped ones belongs to another passage, so its fillings are skipped too.
        """
        turn, at = divmod(passage, len(self.cards))
        card = self.cards[(task + at + extra) % len(self.cards)]
        return card.filling(task * TURNS + turn + extra * (card.size // 3))


@dataclass(frozen=True, slots=True)
class Decks:
    """The decks of a domain. A passage uses each detail at most once, in any order."""

    opens: Deck
    fillers: Deck
    details: tuple[Card, ...]

    def detail(self, card: Card, task: int, passage: int) -> str:
        """Return a detail with its slots filled, for a passage of a task, both given by number."""
        return card.filling(task * DETAILED + passage)


def decks(key: Key, domain: Domain) -> Decks:
    """Return the decks of a domain for a key."""
    details = key.child("details")
    return Decks(
        _deck(key.child("opens"), domain.opens),
        _deck(key.child("fillers"), domain.fillers),
        tuple(_card(details, text) for text in (*domain.openers, *domain.closers)),
    )


def _deck(key: Key, texts: Sequence[str]) -> Deck:
    mixed = list(texts)
    key.random().shuffle(mixed)
    return Deck(tuple(_card(key, text) for text in mixed))


def _card(key: Key, text: str) -> Card:
    size, rng = ways(text), key.random(text)
    stride = rng.randrange(1, size + 1)
    while gcd(stride, size) > 1:
        stride = rng.randrange(1, size + 1)
    return Card(text, size, rng.randrange(size), stride)


T = TypeVar("T")

JOINS = ("{a}, and {b}", "{a}; {b}")
CONTRASTS = ("While {a}, {b}", "{a}, whereas {b}", "{a}, while {b}")
"""Templates for two clauses. Joined clauses are about one entity; contrasted clauses state the same
kind of fact about two. "X covers 9 acres, whereas Y has a hospital" would not be a contrast.
"""

PLANS = ("mixed", "portrait", "setting", "framed", "things last", "things first")
"""Orders of a passage: everything mixed; the entity first, then the others and the rules; the
reverse; the others in the middle; the entity's own attributes before its records, or after them.
"""

JOINED, ADDED, CROSSED = 0.98, 0.6, 0.8
"""Probabilities of joining a clause with the next one, of adding a third clause, and of joining a
clause with one about another entity.
"""

ALONE, TOGETHER, OF_RECORDS = 20_000, 10_000, 40_000
"""Minimum numbers of wordings for which a sentence is distinctive without an opener or closer: for
one clause, for several joined clauses, and for clauses about records.

With these minimums, eight whole training splits (8,220 passages each) contain three pairs of
sentences that are equal except for names, and a thousand passages contain none. With 20,000, 2,500
and 8,000, there were three to seven pairs per split. With larger numbers, nearly every sentence
would name a source. Records need more wordings because their clauses recur more often.
"""

OPENED = 0.12
"""Probability of an opener such as "Moreover," before a sentence that does not need one. With a
higher one, passages read like lists.
"""

FILLED = 0.1
"""Probability of a filler in a passage that is already long enough."""

SHORTEST, LONGEST = 60, 180
"""Minimum and maximum number of words in a passage."""


class Clause(NamedTuple):
    """A template with its value and its subject, which is an entity of the passage (by number) or
    one of its records.

    `says` names the attribute, or the records and their field. Yes/no facts have the value "True"
    or "False", which does not appear in their template. Rules have no entity. `ways` is the number
    of possible wordings: templates times values. This is a named tuple because a passage has about
    twenty clauses, and creating one is four times as fast as creating a frozen dataclass.
    """

    template: str
    value: str = ""
    entity: int = -1
    record: Record | None = None
    records: Records | None = None
    says: tuple[str, ...] = ()
    ways: int = 1

    @property
    def subject(self) -> str:
        """The placeholder at the beginning of the template, if it is the subject."""
        template = self.template
        starts = ("{E} ",) if self.record is None else ("{N} ", "the {N} ")
        for start in starts:
            if template.startswith(start):
                return start
        return ""


Unit = list[Clause]
"""Clauses that stay together."""


def passage(domain: Domain, draft: Draft, rng: Random, decks: Decks, place: tuple[int, int]) -> str:
    """Write the text of a draft, with at least 60 words, and with more than 180 only if the draft
    has too much content. The numbers of the task and of the passage determine which opening and
    fillers of the domain's decks are used.
    """
    return _Writer(domain, draft, rng, decks, place).write()


def listing(items: list[str], joiner: str) -> str:
    """Join items: elk; elk and wolves; elk, wolves and moose."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" {joiner} {items[-1]}"


def _common(clauses: list[Clause]) -> bool:
    """True if another passage may well have the same sentence made of these clauses."""
    enough = TOGETHER
    if len(clauses) == 1:
        enough = ALONE
    elif all(clause.record for clause in clauses):
        enough = OF_RECORDS
    # Count each value once. What other entities share with this one was not drawn independently, so
    # it does not make the sentence rarer.
    return prod({(clause.says, clause.value): clause.ways for clause in clauses}.values()) < enough


class _Writer:
    """Writes sentences and keeps track of what a pronoun would refer to."""

    def __init__(
        self, domain: Domain, draft: Draft, rng: Random, decks: Decks, place: tuple[int, int]
    ) -> None:
        self.domain = domain
        self.decks = decks
        self.place = place
        self.draft = draft
        self.rng = rng
        self.focus: int | Record | None = None
        self.last_entity = -1
        self.last_record: dict[str, Record] = {}
        self.met: set[int] = set()
        self.openers = list(OPENERS)
        self.details = list(decks.details)

    def write(self) -> str:
        first = [Clause(self.decks.opens.deal(*self.place), entity=0, ways=ALONE)]
        units = self._ordered(*self._units())
        sentences = self._sentences([first, *units])
        words = sum(s.count(" ") + 1 for s in sentences)
        if words < SHORTEST or self.rng.random() < FILLED:
            sentences = self._with_fillers(sentences, words)
        return " ".join(sentences)

    def _with_fillers(self, sentences: list[str], words: int) -> list[str]:
        """Insert fillers: one, or as many as the passage needs to reach its minimum length."""
        rng = self.rng
        # Insert a filler only before a sentence that starts with a name, so that no pronoun refers
        # across it.
        places = [i for i in range(1, len(sentences)) if not self._reaches_back(sentences[i])]
        places.append(len(sentences))
        for extra in range(len(self.domain.fillers)):
            filler = self.decks.fillers.deal(*self.place, extra)
            words += filler.count(" ") + 1
            if words > LONGEST:
                break
            place = rng.choice(places)
            sentences.insert(place, filler)
            places = [p + 1 if p >= place else p for p in places]
            if words >= SHORTEST:
                break
        return sentences

    def _reaches_back(self, sentence: str) -> bool:
        words = set(sentence.lower().replace(";", " ").replace(",", " ").split())
        return not words.isdisjoint(
            {self.domain.pronoun, "it", self.domain.short, *(r.one for r in self.domain.records)}
        )

    def _units(self) -> tuple[list[Unit], list[Unit], list[Unit]]:
        """Return the clauses about the entity, about other entities (each kept together), and about
        rules.
        """
        own = self._attribute_units(0, self.draft.main)
        others: list[Unit] = []
        for number, facts in enumerate(self.draft.people[1:], start=1):
            theirs = self._attribute_units(number, facts)
            self.rng.shuffle(theirs)
            if theirs:
                others.append([clause for unit in theirs for clause in unit])
        rules = [[Clause(self._rule_text(s), s.value, ways=10)] for s in self.draft.rules]
        return own, others, rules

    def _ordered(self, own: list[Unit], others: list[Unit], rules: list[Unit]) -> list[Unit]:
        """Order the units by one of the discourse plans."""
        rng = self.rng
        plan = rng.choice(PLANS)
        for units in (own, others, rules):
            rng.shuffle(units)
        if plan == "portrait":
            return own + others + rules
        if plan == "setting":
            return rules + others + own
        if plan == "things first":
            own.sort(key=lambda unit: unit[0].record is None)
            return rules + own + others
        if plan == "things last":
            own.sort(key=lambda unit: unit[0].record is not None)
            return own + rules + others
        if plan == "framed":
            half = len(own) // 2
            return own[:half] + rules + others + own[half:]
        units = own + others + rules
        rng.shuffle(units)
        return units

    def _rule_text(self, stated: Stated) -> str:
        attribute = self.domain.by_name[stated.rule.then]
        if isinstance(attribute, Flag):
            return self._pick(stated.rule.affirms if stated.outcome else stated.rule.denies)
        outcome = str(stated.outcome)
        if isinstance(attribute, Number):
            outcome = attribute.text(stated.outcome)
        return self._pick(stated.rule.says).replace("{W}", outcome)

    def _attribute_units(self, number: int, facts: Facts) -> list[Unit]:
        units: list[Unit] = [
            [self._value_clause(number, name, value)] for name, value in facts.values.items()
        ]
        for name, members in facts.has.items():
            kind = self._members(name)
            ways = len(kind.says) * perm(len(kind.values), len(members))
            template, value = self._pick(kind.says), listing(members, "and")
            units.append([Clause(template, value, number, says=(name,), ways=ways)])
        for name, members in facts.lacks.items():
            kind = self._members(name)
            ways = len(kind.denies) * perm(len(kind.values), len(members))
            template, value = self._pick(kind.denies), listing(members, "or")
            units.append([Clause(template, value, number, says=(name,), ways=ways)])
        for name, listed in facts.records.items():
            records = self.domain.records_by_name[name]
            # Keep records of one kind together and in the order of the answer. Introduce each with
            # different words than the previous one.
            turn = self.rng.randrange(len(records.says))
            unit: Unit = []
            for i, record in enumerate(listed, start=turn):
                unit += self._record_clauses(
                    number, records, record, records.says[i % len(records.says)]
                )
            units.append(unit)
        return units

    def _pick(self, texts: Sequence[T]) -> T:
        return pick(self.rng, texts)

    def _members(self, name: str) -> Members:
        attribute = self.domain.by_name[name]
        assert isinstance(attribute, Members)
        return attribute

    def _value_clause(self, number: int, name: str, value: Any) -> Clause:
        attribute = self.domain.by_name[name]
        if isinstance(attribute, Flag):
            templates = attribute.affirms if value else attribute.denies
            return Clause(
                self._pick(templates), str(value), number, says=(name,), ways=2 * len(templates)
            )
        assert isinstance(attribute, Number | Text)
        if isinstance(attribute, Number):
            text = attribute.text(value)
            many = (attribute.high - attribute.low) // attribute.step + 1
        else:
            text, many = str(value), len(attribute.values)
        return Clause(
            self._pick(attribute.says), text, number, says=(name,), ways=many * len(attribute.says)
        )

    def _record_clauses(self, number: int, records: Records, record: Record, template: str) -> Unit:
        clauses = [
            Clause(template, "", number, record, records, (records.name,), len(records.says))
        ]
        for name, value in record.fields.items():
            kind = records.field(name)
            if isinstance(kind, Feature):
                template = self._pick(kind.affirms if value else kind.denies)
                text, many = str(value), 2
            elif isinstance(kind, Measure):
                template, text = self._pick(kind.says), kind.text(value)
                many = (kind.high - kind.low) // kind.step + 1
            else:
                template, text = self._pick(kind.says), str(value)
                many = len(kind.values)
            clauses.append(
                Clause(template, text, number, record, records, (records.name, name), 2 * many)
            )
        return clauses

    def _sentences(self, units: list[Unit]) -> list[str]:
        clauses = [clause for unit in units for clause in unit]
        sentences: list[str] = []
        at = 0
        while at < len(clauses):
            plan, chosen = self._plan(clauses, at)
            opener, closer = self._details(chosen)
            # After "a librarian holds that", a pronoun could refer to the librarian.
            text = self._sentence(plan, opener, closer, chosen, by_name=opener.endswith("that "))
            if text in sentences:
                # If a second trail is also steep, use its name: "The trail is steep." would seem to
                # repeat the first sentence.
                text = self._sentence(plan, opener, closer, chosen, by_name=True)
            sentences.append(text)
            at += len(chosen)
        return sentences

    def _details(self, clauses: list[Clause]) -> tuple[str, str]:
        """Choose the opener and closer of a sentence: distinctive ones if the sentence has few
        possible wordings.
        """
        if _common(clauses) and self.details:
            card = self.details.pop(self.rng.randrange(len(self.details)))
            detail = self.decks.detail(card, *self.place)
            return ("", detail) if detail.startswith(",") else (detail + " ", "")
        # The first sentence of a passage has `ways` ALONE and no opener, because there is nothing
        # before it to add to.
        if len(clauses) > 1 or clauses[0].ways == ALONE:
            return "", ""
        # Draw the number even if no opener is left, because the random stream is part of the data.
        if self.rng.random() < OPENED and self.openers:
            return self.openers.pop(self.rng.randrange(len(self.openers))), ""
        return "", ""

    def _plan(self, clauses: list[Clause], at: int) -> tuple[str, list[Clause]]:
        """Choose the clauses of the next sentence, and how its first two clauses are joined."""
        one, *rest = clauses[at : at + 3]
        if at == 0 or not rest:
            return "", [one]
        # Draw the number before inspecting the clauses, because the random stream is part of the
        # data.
        alone = self.rng.random() > JOINED
        if alone or one.entity < 0 or rest[0].entity < 0:  # a rule is not about an entity
            return "", [one]
        if one.entity != rest[0].entity:
            # "X was founded in 1911, while Y was founded in 1911" would not be a contrast.
            if one.says == rest[0].says and (not one.value or one.value != rest[0].value):
                return self._pick(CONTRASTS), [one, rest[0]]
            if self.rng.random() < CROSSED:
                return "{a}; {b}", [one, rest[0]]
            return "", [one]
        plan = self._joined(one, rest[0])
        if len(rest) == 1 or rest[1].entity != one.entity:
            return plan, [one, rest[0]]
        third = _common([one, rest[0]]) or (plan not in JOINS and self.rng.random() < ADDED)
        if third:
            return plan, [one, *rest]
        return plan, [one, rest[0]]

    def _joined(self, one: Clause, other: Clause) -> str:
        """Choose how to join two clauses about the same entity. If they begin with the same
        subject, state it only once.
        """
        same = one.record is other.record and one.subject and one.subject == other.subject
        if same and self.rng.random() < 0.8:
            if one.record is None:
                return self._pick(("shared", "relative"))
            return "shared"
        trailing = one.template.endswith("{N}") and other.record is one.record and other.subject
        if trailing and self.rng.random() < 0.8:
            return "trailing"
        return self._pick(JOINS)

    def _sentence(
        self, plan: str, opener: str, closer: str, clauses: list[Clause], by_name: bool = False
    ) -> str:
        one, *rest = clauses
        if not plan:
            text = self._say(one, by_name)
        elif plan == "relative":
            text = self._relative(one, rest.pop(0))
        elif plan in ("shared", "trailing"):
            other = rest.pop(0)
            link = " and " if plan == "shared" else ", which "
            predicate = other.template.removeprefix(other.subject).replace("{V}", other.value)
            text = f"{self._say(one, by_name)}{link}{predicate}"
            self.focus = one.entity if one.record is None else one.record
        else:
            # In "While it ..., Echo Basin ..." the pronoun would refer forward, so the first clause
            # uses the name.
            start = self._say(one, by_name or plan.startswith("While"))
            text = plan.replace("{a}", start).replace("{b}", self._say(rest.pop(0), again=True))
        for clause in rest:
            text = f"{text}; {self._say(clause, again=True)}"
        text = f"{opener}{text}{closer}"
        return f"{text[0].upper()}{text[1:]}."

    def _relative(self, one: Clause, other: Clause) -> str:
        """Join two clauses by a relative clause, as in "Echo Basin, which covers 9,000 acres, was
        opened in 1911".
        """
        first, second = (
            c.template.replace("{V}", c.value).removeprefix("{E} ") for c in (one, other)
        )
        name = self._name_entity("{E}", one.entity, by_name=True)
        self.focus = self.last_entity = one.entity
        return f"{name}, {self.domain.relative} {first}, {second}"

    def _say(self, clause: Clause, by_name: bool = False, again: bool = False) -> str:
        """Write a clause. `again` means that it follows another clause about the same subject in
        the sentence, so a pronoun is used if possible.

        The next clause may refer to this one's subject by a pronoun only if this clause begins with
        it, or ends with it when introducing a record. After "the top of Larch Woods", "it" could
        mean the top.
        """
        template = clause.template
        text = template.replace("{V}", clause.value)
        focus: int | Record | None = None
        if "{E}" in text:
            text = self._name_entity(text, clause.entity, by_name, again)
            self.last_entity = clause.entity
            focus = clause.entity if template.startswith("{E}") else None
        if clause.record is not None and clause.records is not None:
            text = self._name_record(text, clause.record, clause.records, by_name, again)
            self.last_record[clause.records.name] = clause.record
            first = template.startswith(("{N}", "the {N}"))
            focus = clause.record if first or (template.endswith("{N}") and focus is None) else None
        self.focus = focus
        return text

    def _name_entity(self, text: str, entity: int, by_name: bool, again: bool = False) -> str:
        """Insert the entity into a text by pronoun, noun or name.

        "The park" always means the topic of the passage, and is only used if no other park was
        mentioned in between, so that the nearest park and the topic agree.
        """
        name = self.domain.named(self.draft.people[entity].name)
        chance = self._chance(by_name, again)
        if text.startswith("{E}") and self.focus == entity and chance < 0.6:
            return self.domain.pronoun + text[3:]
        if self.last_entity == entity == 0 and chance < 0.75:
            return text.replace("{E}", f"the {self.domain.short}")
        if entity > 0 and entity not in self.met and text.startswith("{E} "):
            name = f"{name}, {self._pick(self.domain.aside)},"
        self.met.add(entity)
        return text.replace("{E}", name)

    def _chance(self, by_name: bool, again: bool) -> float:
        """Draw how briefly something is named, from 0 (a pronoun if possible) to 1 (its name).

        If there is no choice, no number is drawn. The random stream is part of the data, so this
        must not change.
        """
        if by_name:
            return 1.0
        return 0.0 if again else self.rng.random()

    def _name_record(
        self, text: str, record: Record, records: Records, by_name: bool, again: bool
    ) -> str:
        chance = self._chance(by_name, again)
        for start in ("{N}", "the {N}"):
            if text.startswith(start) and self.focus is record and chance < 0.45:
                return "it" + text[len(start) :]
            if (
                text.startswith(start)
                and self.last_record.get(records.name) is record
                and chance < 0.65
            ):
                return f"the {records.one}" + text[len(start) :]
        return text.replace("{N}", record.name)
