"""Variants of passages, checked without any reader: the generator's own record of what each sentence
states gives the facts of an edited passage.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from taskloom.core.example import Example
from taskloom.core.plan import Variant
from taskloom.recipe import read
from taskloom.suites.zest.fields import ZestFields, context
from taskloom.suites.zest.synthetic import prose
from taskloom.suites.zest.synthetic.algebra import Record, Stated, acceptable, answer
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.domain import Domain, Flag, Measure, Number
from taskloom.suites.zest.synthetic.draft import Draft
from taskloom.suites.zest.synthetic.prose import Clause, listing
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world

SHORT = 60
MANY = 2_000
"""Passages that are varied in the quick and in the slow test."""


class Told:
    """One sentence as the generator wrote it: its clauses, and what a pronoun after it means."""

    def __init__(self, text: str, clauses: list[Clause], writer: prose._Writer) -> None:
        self.text, self.clauses = text, clauses
        self.focus = writer.last_entity if writer.focus is None else writer.focus


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """The sentences of the passage that was written last."""
    told: list[Told] = []
    write, sentence = prose._Writer.write, prose._Writer._sentence

    def recording_write(writer: prose._Writer) -> str:
        told.clear()
        return write(writer)

    def recording_sentence(writer: prose._Writer, plan: str, *more: Any, **named: Any) -> str:
        clauses = list(more[2])
        text = sentence(writer, plan, *more, **named)
        if told and told[-1].clauses == clauses:  # said again, by name
            told.pop()
        told.append(Told(text, clauses, writer))
        return text

    monkeypatch.setattr(prose._Writer, "write", recording_write)
    monkeypatch.setattr(prose._Writer, "_sentence", recording_sentence)
    return told


def rule_texts(stated: Stated, domain: Domain) -> set[str]:
    """All wordings of a rule as a passage states it."""
    attribute = domain.by_name[stated.rule.then]
    if isinstance(attribute, Flag):
        return set(stated.rule.affirms if stated.outcome else stated.rule.denies)
    outcome = str(stated.outcome)
    if isinstance(attribute, Number):
        outcome = attribute.text(stated.outcome)
    return {text.replace("{W}", outcome) for text in stated.rule.says}


def is_rule(clause: Clause, stated: Stated, domain: Domain) -> bool:
    return stated.value == clause.value and clause.template in rule_texts(stated, domain)


def twin(drafted: Draft, clause: Clause) -> Record:
    """The record of a copied draft that a clause of the original is about."""
    assert clause.record is not None
    owned = drafted.people[clause.entity].records[clause.says[0]]
    return next(record for record in owned if record.name == clause.record.name)


def remove(drafted: Draft, clauses: list[Clause], domain: Domain) -> None:
    """Remove what some clauses state from a draft."""
    unnamed = []
    for clause in clauses:
        if clause.entity < 0:
            [rule] = [s for s in drafted.rules if is_rule(clause, s, domain)]
            drafted.rules.remove(rule)
            continue
        facts, name = drafted.people[clause.entity], clause.says[0]
        if clause.record is not None and len(clause.says) == 1:
            unnamed.append((facts.records[name], twin(drafted, clause)))
        elif clause.record is not None:
            del twin(drafted, clause).fields[clause.says[1]]
        elif name in facts.values:
            del facts.values[name]
        elif clause.value == listing(facts.has.get(name, [""]), "and"):
            del facts.has[name]
        else:
            assert clause.value == listing(facts.lacks[name], "or")
            del facts.lacks[name]
    for owned, record in unnamed:
        assert not record.fields, "a sentence is left about something that no sentence introduces"
        owned.remove(record)


def change(drafted: Draft, clause: Clause, before: str, after: str, domain: Domain) -> None:
    """Change the value that a clause states in a draft."""
    if clause.entity < 0:
        [i] = [i for i, s in enumerate(drafted.rules) if is_rule(clause, s, domain)]
        old = drafted.rules[i]
        if old.value == before:
            drafted.rules[i] = Stated(old.rule, after, old.outcome)
        else:
            outcome = typed(domain.by_name[old.rule.then], after)
            drafted.rules[i] = Stated(old.rule, old.value, outcome)
        return
    facts, name = drafted.people[clause.entity], clause.says[0]
    if clause.record is not None:
        kind = domain.records_by_name[name].field(clause.says[1])
        twin(drafted, clause).fields[clause.says[1]] = typed(kind, after)
    elif name in facts.values:
        facts.values[name] = typed(domain.by_name[name], after)
    else:
        joined = clause.value == listing(facts.has.get(name, [""]), "and")
        members = (facts.has if joined else facts.lacks)[name]
        members[members.index(before)] = after


def typed(attribute: Any, text: str) -> Any:
    if isinstance(attribute, Number | Measure):
        return int(re.sub(r"\D", "", text.split()[0]))
    return text


def has(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def by_pronoun(one: Told, domain: Domain) -> bool:
    """True if the first clause of a sentence has a pronoun for what it is about."""
    clause = one.clauses[0]
    start = re.match(r"\{E\}|(the )?\{N\}", clause.template)
    if start is None:
        return False
    said = clause.template[start.end() :].replace("{V}", clause.value)
    # A later clause of the sentence may be worded alike.
    before = one.text.partition(said)[0].lower()
    pronoun = domain.pronoun if clause.record is None else "it"
    return re.search(rf"(?<!\w){pronoun}$", before) is not None


def pronouns_still_refer(left: list[Told], domain: Domain) -> None:
    """After an edit, a sentence with a pronoun follows one that leaves it the same antecedent."""
    for one, other in pairwise(left):
        if by_pronoun(other, domain):
            clause = other.clauses[0]
            meant = clause.entity if clause.record is None else clause.record
            assert one.focus == meant, (one.text, other.text)


def expected(
    told: list[Told], variant: Variant, drafted: Draft, domain: Domain, passage: str
) -> Draft | None:
    """The facts of a variant's passage; None if two clauses of a sentence state the old value."""
    new = copy.deepcopy(drafted)
    if variant.edit == "irrelevant sentence":
        assert context(variant.example.input) == f"{passage} {variant.after}"
        return new
    if variant.kind != "flip":
        gone = [one for one in told if one.text == variant.before]
        rest = [one for one in told if one.text != variant.before]
        if not gone:  # a filler
            assert variant.before in passage
            assert all(one.text not in variant.before for one in told)
            return new
        [removed] = gone
        remove(new, removed.clauses, domain)
        pronouns_still_refer(rest, domain)
        return new
    for one in told:
        pattern = rf"(?<!\w){re.escape(variant.before)}(?!\w)"
        text = re.sub(pattern, variant.after, one.text, count=1)
        changed = passage.replace(one.text, text, 1)
        if text == one.text or changed != context(variant.example.input):
            continue
        stating = [c for c in one.clauses if has(f"{c.template} {c.value}", variant.before)]
        if len(stating) != 1:
            return None
        change(new, stating[0], variant.before, variant.after, domain)
        return new
    raise AssertionError(f"no sentence of the passage has {variant.before!r}")


def varied(
    world: TaskWorld, variants: Any, recorded: list[Told], most: int
) -> Iterator[tuple[DescribedTask, Example, Variant, Draft, str, list[Told]]]:
    tasks = [task for members in world.splits.values() for task in members]
    for i in range(most):
        task, number = tasks[i * 37 % len(tasks)], i % world.passages
        passage, drafted = world.passage(task, number)
        told = list(recorded)
        example = world.example(task, number)
        for variant in variants(example):
            yield task, example, variant, drafted, passage, told


@pytest.mark.parametrize("passages", [SHORT, pytest.param(MANY, marks=pytest.mark.slow)])
def test_variants_are_right_by_the_generators_own_facts(
    passages: int, recorded: list[Told]
) -> None:
    recipe = read("zest/synthetic")
    plan = recipe.plan()
    assert isinstance(recipe.fields, ZestFields)
    world = task_world(recipe.fields, recipe.key())
    counts: Counter[str] = Counter()
    for task, example, variant, drafted, passage, told in varied(
        world, plan.variants, recorded, passages
    ):
        facts = expected(told, variant, drafted, task.domain, passage)
        if facts is None:
            counts["two clauses"] += 1
            continue
        counts[variant.edit] += 1
        target = answer(task.domain, task.program, facts.main, facts.rules)
        right = set(acceptable(task.domain, task.program, target))
        assert set(variant.example.targets) == right, (variant.edit, variant.before, variant.after)
        if variant.kind == "flip":
            assert right.isdisjoint(example.targets)
        if variant.kind == "keep":
            assert right == set(example.targets)
    print(dict(counts))
    edits = {"sentence removed", "another value", "irrelevant sentence removed"}
    assert edits | {"irrelevant sentence"} <= set(counts)
    assert counts["two clauses"] < counts.total() / 20
