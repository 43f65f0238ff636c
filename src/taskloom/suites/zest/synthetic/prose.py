"""From a draft to a passage: clauses in some order, pronouns where they are clear, sentences of several plans, fillers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from taskloom.seeding import Random
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
from taskloom.suites.zest.synthetic.facts import Facts, Record, Stated

JOINS = ("{a}, and {b}", "{a}, and {b}", "{a}; {b}")
RELATIVE = "{E}, which {a}, {b}"
CONTRASTS = ("While {a}, {b}", "{a}, whereas {b}")
"""Sentence plans for two clauses: about the same entity (RELATIVE where both begin with it), or that say the same kind of thing
about different ones (CONTRASTS): "X covers 9 acres, whereas Y has a hospital" would be no contrast."""

PLANS = ("mixed", "portrait", "setting", "framed")
"""Orders of a passage: all mixed; the entity, then others and rules; the other way round; others in the middle."""

OPENED = 0.2
"""How often a sentence of one clause begins with an opener, such as "Moreover,"; more would read as a list of them."""

CHOICE = re.compile(r"\[([^\]]*)\]")
"""Words of a filler of which one is taken."""

SHORTEST, LONGEST = 60, 180
"""Words of a passage."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A template with its value and what it is about: an entity of the passage (by number), and perhaps one of its records.

    `says` names the attribute, or the records and their field. A rule is about no entity.
    """

    template: str
    value: str = ""
    entity: int = -1
    record: Record | None = None
    records: Records | None = None
    says: tuple[str, ...] = ()


Unit = list[Clause]
"""Clauses that stay together."""


def passage(domain: Domain, draft: Draft, rng: Random) -> str:
    """Write the text of a draft, at least 60 words; longer than 180 when the draft says too much."""
    return _Writer(domain, draft, rng).write()


def listing(items: list[str], joiner: str) -> str:
    """Join items: elk; elk and wolves; elk, wolves and moose."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" {joiner} {items[-1]}"


class _Writer:
    """Keeps track of what a pronoun would refer to."""

    def __init__(self, domain: Domain, draft: Draft, rng: Random) -> None:
        self.domain = domain
        self.draft = draft
        self.rng = rng
        self.focus: int | Record | None = None
        self.last_entity = -1
        self.last_record: dict[str, Record] = {}
        self.met: set[int] = set()
        self.pointing = {domain.pronoun, "it", domain.short, *(r.one for r in domain.records)}
        self.openers = list(OPENERS)

    def write(self) -> str:
        rng = self.rng
        first = [Clause(rng.choice(self.domain.opens), entity=0)]
        units = self._ordered(*self._units())
        sentences = self._sentences([first, *units])
        fillers = list(rng.sample(self.domain.fillers, len(self.domain.fillers)))
        words = sum(s.count(" ") + 1 for s in sentences)
        many = rng.randint(0, 2)
        # A filler goes only before a sentence that starts with a name, so that no pronoun has to reach across it.
        places = [i for i in range(1, len(sentences)) if not self._reaches_back(sentences[i])] + [len(sentences)]
        while fillers and (many > 0 or words < SHORTEST):
            filler = CHOICE.sub(lambda m: rng.choice(m[1].split("|")), fillers.pop())
            longer = words + filler.count(" ") + 1
            if longer > LONGEST:
                break
            sentences.insert(place := rng.choice(places), filler)
            places = [p + (p >= place) for p in places]
            words = longer
            many -= 1
        return " ".join(sentences)

    def _reaches_back(self, sentence: str) -> bool:
        words = set(sentence.lower().replace(";", " ").replace(",", " ").split())
        return not words.isdisjoint(self.pointing)

    def _units(self) -> tuple[list[Unit], list[Unit], list[Unit]]:
        """Return what there is to say about the entity, about others (each as a whole), and in general."""
        own = self._attribute_units(0, self.draft.main)
        others: list[Unit] = []
        for number, facts in enumerate(self.draft.people[1:], start=1):
            theirs = self._attribute_units(number, facts)
            self.rng.shuffle(theirs)
            others += [[clause for unit in theirs for clause in unit]] if theirs else []
        return own, others, [[Clause(self._rule_text(s), s.value)] for s in self.draft.rules]

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
        outcome = attribute.text(stated.outcome) if isinstance(attribute, Number) else str(stated.outcome)
        return self._pick(stated.rule.says).replace("{W}", outcome)

    def _attribute_units(self, number: int, facts: Facts) -> list[Unit]:
        units: list[Unit] = [[self._value_clause(number, name, value)] for name, value in facts.values.items()]
        for name, members in facts.has.items():
            units.append([Clause(self._pick(self._members(name).says), listing(members, "and"), number, says=(name,))])
        for name, members in facts.lacks.items():
            units.append([Clause(self._pick(self._members(name).denies), listing(members, "or"), number, says=(name,))])
        for name, listed in facts.records.items():
            records = self.domain.records_by_name[name]
            # The records of one kind follow each other, so that the passage tells them in the order of the answer.
            # Each is introduced in other words than the one before.
            turn = self.rng.randrange(len(records.says))
            unit: Unit = []
            for i, record in enumerate(listed, start=turn):
                unit += self._record_clauses(number, records, record, records.says[i % len(records.says)])
            units.append(unit)
        return units

    def _pick(self, templates: tuple[str, ...]) -> str:
        return self.rng.choice(templates)

    def _members(self, name: str) -> Members:
        attribute = self.domain.by_name[name]
        assert isinstance(attribute, Members)
        return attribute

    def _value_clause(self, number: int, name: str, value: Any) -> Clause:
        attribute = self.domain.by_name[name]
        if isinstance(attribute, Flag):
            return Clause(self._pick(attribute.affirms if value else attribute.denies), "", number, says=(name,))
        assert isinstance(attribute, Number | Text)
        text = attribute.text(value) if isinstance(attribute, Number) else str(value)
        return Clause(self._pick(attribute.says), text, number, says=(name,))

    def _record_clauses(self, number: int, records: Records, record: Record, template: str) -> Unit:
        clauses = [Clause(template, "", number, record, records, (records.name,))]
        for name, value in record.fields.items():
            kind = records.field(name)
            if isinstance(kind, Feature):
                template, text = self._pick(kind.affirms if value else kind.denies), ""
            elif isinstance(kind, Measure):
                template, text = self._pick(kind.says), kind.text(value)
            else:
                template, text = self._pick(kind.says), str(value)
            clauses.append(Clause(template, text, number, record, records, (records.name, name)))
        return clauses

    def _sentences(self, units: list[Unit]) -> list[str]:
        clauses = [clause for unit in units for clause in unit]
        sentences: list[str] = []
        at = 0
        while at < len(clauses):
            plan = self._plan(clauses, at)
            opener = ""
            if not plan and at > 0 and self.openers and self.rng.random() < OPENED:
                opener = self.openers.pop(self.rng.randrange(len(self.openers)))
            chosen = clauses[at : at + 2] if plan else clauses[at : at + 1]
            text = self._sentence(plan, opener, chosen)
            if text in sentences:
                # "The trail is steep." of a second trail: by name, or it would seem to say the same again.
                text = self._sentence(plan, opener, chosen, by_name=True)
            sentences.append(text)
            at += len(chosen)
        return sentences

    def _sentence(self, plan: str, opener: str, clauses: list[Clause], by_name: bool = False) -> str:
        if plan == RELATIVE:
            text = self._relative(*clauses)
        elif plan:
            # In "While it ..., Echo Basin ..." the pronoun would point forward: there the first clause says the name.
            start = self._say(clauses[0], by_name or plan.startswith("While"))
            text = plan.replace("{a}", start).replace("{b}", self._say(clauses[1], again=True))
        else:
            text = opener + self._say(clauses[0], by_name)
        return f"{text[0].upper()}{text[1:]}."

    def _plan(self, clauses: list[Clause], at: int) -> str:
        """Choose how this clause and the next one become one sentence; empty when they do not."""
        if at == 0 or at + 1 == len(clauses) or self.rng.random() > 0.4:
            return ""
        one, other = clauses[at], clauses[at + 1]
        if one.entity < 0 or other.entity < 0:
            return ""
        if one.entity != other.entity:
            return self.rng.choice(CONTRASTS) if one.says == other.says else ""
        subject = all(c.record is None and c.template.startswith("{E} ") for c in (one, other))
        return RELATIVE if subject and self.rng.random() < 0.7 else self.rng.choice(JOINS)

    def _relative(self, one: Clause, other: Clause) -> str:
        """Join two clauses: "Echo Basin, which covers 9,000 acres, was opened in 1911"."""
        first, second = (c.template.replace("{V}", c.value).removeprefix("{E} ") for c in (one, other))
        name = self._name_entity("{E}", one.entity, by_name=True)
        self.focus = self.last_entity = one.entity
        return f"{name}, {self.domain.relative} {first}, {second}"

    def _say(self, clause: Clause, by_name: bool = False, again: bool = False) -> str:
        """Write the clause in words; `again` after another one in the same sentence, and then by a pronoun if it can be.

        What it is about may be a pronoun in the next clause only where this one begins with it (or, for a record that is
        introduced, ends with it): after "the top of Larch Woods" an "it" could be the top.
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
        """Put the entity into a text by pronoun, noun or name.

        "The park" is only ever the park that the passage is about, and only while no other one has come between, so that
        nearness and topic agree.
        """
        name = self.domain.named(self.draft.people[entity].name)
        chance = 1.0 if by_name else 0.0 if again else self.rng.random()
        if text.startswith("{E}") and self.focus == entity and chance < 0.5:
            return self.domain.pronoun + text[3:]
        if self.last_entity == entity == 0 and chance < 0.75:
            return text.replace("{E}", f"the {self.domain.short}")
        if entity > 0 and entity not in self.met and text.startswith("{E} "):
            name = f"{name}, {self.domain.aside},"
        self.met.add(entity)
        return text.replace("{E}", name)

    def _name_record(self, text: str, record: Record, records: Records, by_name: bool, again: bool) -> str:
        chance = 1.0 if by_name else 0.0 if again else self.rng.random()
        for start in ("{N}", "the {N}"):
            if text.startswith(start) and self.focus is record and chance < 0.45:
                return "it" + text[len(start) :]
            if text.startswith(start) and self.last_record.get(records.name) is record and chance < 0.65:
                return f"the {records.one}" + text[len(start) :]
        return text.replace("{N}", record.name)
