"""Drafts: the contents of a passage, drawn so that a program gives the requested kind of answer.

The requested kind (yes, no, an answer, or n/a) is passed down to the leaves of the program. Each
leaf then states or withholds the facts that decide it. A draft that still gives another answer is
drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import Random
from taskloom.suites.zest.synthetic.algebra import NA, Facts, Record, Stated, answer, program_text
from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Feature,
    Field,
    Flag,
    Measure,
    Members,
    Number,
    Records,
    Text,
    full_name,
)
from taskloom.suites.zest.synthetic.flip_groups import parts_ways
from taskloom.suites.zest.synthetic.programs import Program, picked

Wanted = Literal["yes", "no", "answer", "na"]

IMPLIED = 0.5
"""Probability that a fact implied by a rule is not stated, so that it must be inferred."""
TEMPTING = 0.65
"""Probability that another entity in the passage has exactly the fact that the task asks for."""
TRIES = 100
"""Maximum number of drafts before giving up on the requested kind of answer."""
RIVAL_TRIES = 12
"""Maximum number of drafts of a flip to find one where its base task has a different answer. Most
flips need one or two.
"""


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much a passage states: number of facts about its entity, and about others."""

    facts: tuple[int, int]
    distractors: tuple[int, int]


@dataclass(slots=True)
class Draft:
    """The contents of a passage: the main entity followed by others, the rules, and what must not
    be stated about the main entity.
    """

    people: list[Facts]
    rules: list[Stated] = field(default_factory=list)
    locked: set[str] = field(default_factory=set)
    barred: set[tuple[str, str]] = field(default_factory=set)

    @property
    def main(self) -> Facts:
        """The entity that the passage is about."""
        return self.people[0]


def draw(
    domain: Domain,
    program: Program,
    wanted: Wanted,
    amounts: Amounts,
    rng: Random,
    rival: Program | None = None,
) -> tuple[Draft, str]:
    """Draw a draft for which the program gives the requested kind of answer. Return the draft and
    the answer.

    If there is a rival (the base task of a flip), drafts for which its answer differs are
    preferred.
    """
    tied = wanted == "na" and (rival is None or not parts_ways(program, rival))
    fitting: tuple[Draft, str] | None = None
    for turn in range(TRIES):
        draft = _Drawing(domain, rng, rival).draft(program, wanted, amounts)
        text = answer(domain, program, draft.main, draft.rules)
        if kind_of(program, text) == wanted and not contradictory(draft):
            fitting = draft, text
            if rival is None or tied or answer(domain, rival, draft.main, draft.rules) != text:
                return fitting
        if fitting and turn >= RIVAL_TRIES:
            return fitting
    if fitting:
        return fitting
    raise RecipeError(
        f"{domain.name}: {TRIES} drafts gave no answer of kind '{wanted}' for the program "
        f"{program_text(program)}"
    )


def contradictory(draft: Draft) -> bool:
    """True if a passage contradicts one of its own rules, for example if all parks in a district
    close, but one of them is open.
    """
    for stated in draft.rules:
        when, then = stated.rule.when, stated.rule.then
        for person in draft.people:
            applies = person.values.get(when) == stated.value
            # Without a stated value, the rule supplies it.
            if applies and person.values.get(then, stated.outcome) != stated.outcome:
                return True
    return False


def kind_of(program: Program, text: str) -> Wanted:
    """Return the kind of an answer."""
    if text == NA:
        return "na"
    if program.yes_no:
        return "yes" if text == "yes" else "no"
    return "answer"


@dataclass(frozen=True, slots=True)
class _Drawing:
    domain: Domain
    rng: Random
    rival: Program | None = None
    used: set[tuple[str, str]] = field(default_factory=set)

    def draft(self, program: Program, wanted: Wanted, amounts: Amounts) -> Draft:
        rng = self.rng
        draft = Draft([Facts(name) for name in self._names(1 + rng.randint(1, 2))])
        for leaf, kind in self._aims(program, wanted):
            self._steer(draft, draft.main, leaf, kind)
            draft.locked.add(leaf.args[0])
        self._answer_rival(draft, program, wanted)
        budget = rng.randint(*amounts.distractors)
        for other in draft.people[1:]:
            if budget > 0:
                self._distract(draft, other, program)
            self._fill(draft, other, budget // (len(draft.people) - 1))
        # State at least as much about the passage's own entity as about any other, so that its
        # topic is clear.
        others = [_size(p) for p in draft.people[1:]]
        self._fill(draft, draft.main, max(rng.randint(*amounts.facts), *others))
        draft.people = [p for p in draft.people if p is draft.main or _size(p)]
        self._add_rule(draft)
        return draft

    def _answer_rival(self, draft: Draft, program: Program, wanted: Wanted) -> None:
        """If a flip has no answer and asks about another attribute or record than its base task,
        give the base task an answer.
        """
        rival = self.rival
        if rival is None or wanted != "na":
            return
        name = rival.args[0]
        if name != program.args[0] and name not in draft.locked:
            self._steer(draft, draft.main, rival, self._some_answer(rival))
            draft.locked.add(name)

    def _some_answer(self, leaf: Program) -> Wanted:
        """Draw a kind of answer other than n/a."""
        if leaf.yes_no:
            return self.rng.choice(("yes", "no"))
        return "answer"

    def _names(self, count: int) -> list[str]:
        heads = self.rng.sample(self.domain.heads, count)
        return [full_name(head, self.rng.choice(self.domain.tails)) for head in heads]

    def _aims(self, program: Program, wanted: Wanted) -> list[tuple[Program, Wanted]]:
        """Return the kind of answer that each leaf needs for the whole program to give the
        requested kind.
        """
        rng, parts = self.rng, program.args
        if program.op in ("and", "or"):
            decisive: Wanted = "no" if program.op == "and" else "yes"
            other: Wanted = "yes" if program.op == "and" else "no"
            chosen = rng.randrange(len(parts))
            kinds: list[Wanted] = [other] * len(parts)
            if wanted == decisive:
                kinds = [rng.choice(("yes", "no", "na")) for _ in parts]
                kinds[chosen] = decisive
            elif wanted == "na":
                kinds = [rng.choice((other, "na")) for _ in parts]
                kinds[chosen] = "na"
        elif program.op == "both":
            kinds = ["na"] * len(parts)
            if wanted == "answer":
                kinds = ["answer" if rng.random() < 0.8 else "na" for _ in parts]
                kinds[rng.randrange(len(parts))] = "answer"
        elif program.op == "when":
            # The condition, then the question. If there is no answer, the question lacks one or,
            # more often, the condition does not hold.
            if wanted == "answer":
                kinds = ["yes", "answer"]
            elif rng.random() < 0.3:
                kinds = ["yes", "na"]
            else:
                kinds = [rng.choice(("no", "na")), "answer"]
        else:
            return [(program, wanted)]
        aims = []
        for part, kind in zip(parts, kinds, strict=True):
            aims += self._aims(part, kind)
        return aims

    def _steer(self, draft: Draft, facts: Facts, leaf: Program, wanted: Wanted) -> None:
        name = leaf.args[0]
        if name in self.domain.records_by_name:
            self._steer_records(facts, self.domain.records_by_name[name], leaf, wanted)
        elif leaf.op == "members":
            attribute = self.domain.by_name[name]
            assert isinstance(attribute, Members)
            if wanted == "answer":
                facts.has[name] = self.rng.sample(attribute.values, self.rng.randint(1, 4))
            elif self.rng.random() < 0.3:
                facts.lacks[name] = self.rng.sample(attribute.values, self.rng.randint(1, 2))
        elif leaf.op == "has":
            self._steer_member(draft, facts, leaf, wanted)
        elif leaf.op == "flag" and wanted != "na":
            self._state(draft, facts, name, wanted == "yes")
        elif wanted != "na":
            self._state(draft, facts, name, self._value(name, leaf, wanted))

    def _steer_member(self, draft: Draft, facts: Facts, leaf: Program, wanted: Wanted) -> None:
        name, value = leaf.args
        attribute = self.domain.by_name[name]
        assert isinstance(attribute, Members)
        others = [v for v in attribute.values if v != value]
        some = self.rng.sample(others, self.rng.randint(0, 3))
        if self.rival is not None and wanted != "yes" and facts is draft.main:
            other = self.rival.args[-1]
            some = [v for v in some if v != other]
            some.insert(self.rng.randint(0, len(some)), other)
        if wanted == "yes":
            some.insert(self.rng.randint(0, len(some)), value)
        elif wanted == "no":
            free = [v for v in others if v not in some]
            absent = [value, *self.rng.sample(free, self.rng.randint(0, 1))]
            facts.lacks[name] = self.rng.sample(absent, len(absent))
        elif facts is draft.main:
            draft.barred.add((name, value))
        if some:
            facts.has[name] = some

    def _state(self, draft: Draft, facts: Facts, name: str, value: Any) -> None:
        """State a value. For the main entity, sometimes state only a rule and its condition, which
        imply the value.
        """
        rules = [r for r in self.domain.rules if r.then == name and r.when not in draft.locked]
        if facts is not draft.main or not rules or self.rng.random() > IMPLIED:
            facts.values[name] = value
            return
        rule = self.rng.choice(rules)
        ground = self.domain.by_name[rule.when]
        assert isinstance(ground, Text)
        condition = facts.values.setdefault(rule.when, self.rng.choice(ground.values))
        draft.rules.append(Stated(rule, condition, value))
        draft.locked |= {rule.when, name}

    def _value(self, name: str, leaf: Program | None = None, wanted: Wanted = "answer") -> Any:
        attribute = self.domain.by_name[name]
        rng = self.rng
        if isinstance(attribute, Number):
            low, high = attribute.low, attribute.high
            if leaf is not None and leaf.op in ("more", "less"):
                # Values never equal the threshold, where "more than" and "at least" would differ.
                above = (leaf.op == "more") == (wanted == "yes")
                bound = leaf.args[1]
                if above:
                    low = bound + attribute.step
                else:
                    high = bound - attribute.step
            return rng.randrange(low, high + 1, attribute.step)
        if isinstance(attribute, Flag):
            return rng.random() < 0.5
        assert isinstance(attribute, Text)
        if leaf is None or leaf.op != "is":
            return rng.choice(attribute.values)
        if wanted == "yes":
            return leaf.args[1]
        # A flip gets the answer "no" from the value for which its base task says "yes".
        if self.rival is not None and self.rival.args[0] == name:
            return self.rival.args[1]
        return rng.choice([v for v in attribute.values if v != leaf.args[1]])

    def _steer_records(self, facts: Facts, records: Records, leaf: Program, wanted: Wanted) -> None:
        rng = self.rng
        if wanted == "na" and rng.random() < 0.4:
            return
        if leaf.op in ("names", "table"):
            if wanted != "na":
                fields = leaf.args[1:] if leaf.op == "table" else ()
                facts.records[records.name] = self._records(
                    records, rng.randint(1, 3), often=fields
                )
            return
        often: tuple[str, ...] = ()
        if leaf.op == "pick":
            leaf, often = picked(leaf), leaf.args[4:]
        name = leaf.args[1]
        kind = records.field(name)
        count = rng.randint(1, 3)
        if leaf.op in ("most", "least", "top", "bottom"):
            if wanted != "na":
                count = max(2, count)
            drawn = self._records(records, count, without=name)
            if wanted != "na":
                assert isinstance(kind, Measure)
                # All values are distinct, so that exactly one record has the highest and one the
                # lowest.
                values = rng.sample(range(kind.low, kind.high + 1, kind.step), len(drawn))
                for record, value in zip(drawn, values, strict=True):
                    record.fields[name] = value
        else:
            drawn = self._records(records, count, without=name, often=often)
            self._steer_field(drawn, kind, leaf, wanted)
        facts.records[records.name] = drawn

    def _steer_field(self, drawn: list[Record], kind: Field, leaf: Program, wanted: Wanted) -> None:
        """Set a field of the records so that a program about it has the requested kind of answer.

        A single record decides. The others match at random, unless a match would prevent a "no" or
        "n/a". The answer to "does any record match?" is "no" only if all values are known, and n/a
        if one is unknown.
        """
        rng = self.rng
        fitting = wanted in ("yes", "answer")
        sure = rng.randrange(len(drawn))
        for i, record in enumerate(drawn):
            if wanted == "na" and leaf.yes_no and i == sure:
                continue
            if i == sure or wanted == "no" or rng.random() < 0.5:
                fits = fitting and (i == sure or rng.random() < 0.5)
                record.fields[kind.name] = self._field(kind, leaf, fits)

    def _records(
        self, records: Records, count: int, without: str = "", often: tuple[str, ...] = ()
    ) -> list[Record]:
        # Records in a passage have distinct first parts of names, so that each name identifies one
        # record.
        heads = self.rng.sample(
            [h for h in records.heads if (records.name, h) not in self.used], count
        )
        self.used.update((records.name, h) for h in heads)
        drawn = []
        for head in heads:
            record = Record(full_name(head, self.rng.choice(records.tails)), records.name)
            for kind in records.fields:
                if kind.name == without:
                    continue
                share = 0.75 if kind.name in often else 0.35
                if self.rng.random() < share:
                    record.fields[kind.name] = self._field(kind)
            drawn.append(record)
        return drawn

    def _field(self, kind: Field, leaf: Program | None = None, fitting: bool = True) -> Any:
        """Draw a value for a record's field. With a program, draw one that satisfies it, or one
        that does not. It is never equal to the threshold.
        """
        rng = self.rng
        if isinstance(kind, Measure):
            low, high = kind.low, kind.high
            if leaf is not None:
                bound = leaf.args[2]
                above = (leaf.op in ("over", "any_over")) == fitting
                if above:
                    low = bound + kind.step
                else:
                    high = bound - kind.step
            return rng.randrange(low, high + 1, kind.step)
        if isinstance(kind, Feature):
            if leaf is None:
                return rng.random() < 0.5
            return (leaf.args[2] == "yes") == fitting
        if leaf is None:
            return rng.choice(kind.values)
        if fitting:
            return leaf.args[2]
        if self.rival is not None and self.rival.args[:2] == leaf.args[:2]:
            return self.rival.args[2]
        return rng.choice([v for v in kind.values if v != leaf.args[2]])

    def _distract(self, draft: Draft, other: Facts, program: Program) -> None:
        """Give another entity the fact that the task asks for."""
        if self.rng.random() < TEMPTING:
            leaf = self.rng.choice(program.leaves)
            self._steer(draft, other, leaf, self._some_answer(leaf))

    def _fill(self, draft: Draft, facts: Facts, many: int) -> None:
        """State further facts until there are enough, but none about the main entity that are
        locked.
        """
        closed = draft.locked if facts is draft.main else frozenset()
        names = [*self.domain.by_name, *self.domain.records_by_name]
        size = _size(facts)
        for name in self.rng.sample(names, len(names)):
            if size >= many:
                return
            if name in closed or _states(facts, name):
                continue
            if name in self.domain.records_by_name:
                records = self._records(self.domain.records_by_name[name], self.rng.randint(1, 2))
                facts.records[name] = records
                size += sum([1 + len(record.fields) for record in records])
                continue
            size += 1
            attribute = self.domain.by_name[name]
            if isinstance(attribute, Members):
                free = list(attribute.values)
                if facts is draft.main:
                    free = [v for v in free if (name, v) not in draft.barred]
                facts.has[name] = self.rng.sample(free, self.rng.randint(1, 4))
            else:
                facts.values[name] = self._value(name)

    def _add_rule(self, draft: Draft) -> None:
        """Sometimes add a rule that does not apply to the main entity."""
        if not self.domain.rules or self.rng.random() > 0.35:
            return
        rule = self.rng.choice(self.domain.rules)
        ground = self.domain.by_name[rule.when]
        assert isinstance(ground, Text)
        # A second rule for the same value would contradict the first, and a rule for the entity's
        # own value would apply to it.
        taken = [s.value for s in draft.rules if s.rule is rule]
        taken.append(draft.main.values.get(rule.when, ""))
        value = self.rng.choice([v for v in ground.values if v not in taken])
        draft.rules.append(Stated(rule, value, self._value(rule.then)))


def _states(facts: Facts, name: str) -> bool:
    return name in facts.values or name in facts.has or name in facts.lacks or name in facts.records


def _size(facts: Facts) -> int:
    """Return the number of statements about an entity. A record counts as one together with its
    fields.
    """
    listed = sum([1 + len(r.fields) for rs in facts.records.values() for r in rs])
    return len(facts.values) + len(facts.has) + len(facts.lacks) + listed
