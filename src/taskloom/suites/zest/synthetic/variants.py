"""Variants of a passage: with one sentence removed, a different value, or an added sentence without
facts.

An edit is made in the text, and the edited passage is read again. It is used only if the reader
finds exactly this difference, because a pronoun may otherwise have changed its antecedent. The
answer is computed by the generator's algebra from the facts that were read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.plan import Variant, VariantKind
from taskloom.core.seeding import Key, Random
from taskloom.suites.zest.fields import context, question
from taskloom.suites.zest.synthetic.algebra import Facts, Record, Stated, answer
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    Quality,
    Text,
)
from taskloom.suites.zest.synthetic.draft import Draft, contradictory
from taskloom.suites.zest.synthetic.passage_reader import ReadEntity, Reading, read, sentences
from taskloom.suites.zest.synthetic.task_world import TaskWorld

Statement = tuple[str, ...]
"""A statement of a passage: its subject, its attribute, and the value as written."""

OTHERS = 4
"""Maximum number of other values that are tried in place of a value."""


class PassageVariants:
    """Generates the candidates of `Plan.variants` for the tasks of a recipe."""

    def __init__(self, world: TaskWorld) -> None:
        self._world = world
        tasks = [task for members in world.splits.values() for task in members]
        self._by_id = {task.id: task for task in tasks}
        self._by_question = {task.question: task for task in tasks}

    def __call__(self, example: Example) -> Iterator[Variant]:
        """Yield candidates: first simpler ones, then flips, then keeps."""
        task = self._by_id.get(example.task) or self._by_question.get(question(example.input))
        if task is None:
            raise InputError(f"the question {example.question!r} is not a task of this recipe")
        number = int(example.traits.get("instance", 0))
        text = context(example.input)
        domain = task.domain
        original = read(domain, text)
        told = _statements(original)
        rng = Key("zest/variants", example.input).random()
        parts = sentences(text)
        # At the threshold of a comparison, "more than" and "at least" would differ.
        args = [arg for leaf in task.program.leaves for arg in leaf.args]
        borders = {arg for arg in args if type(arg) is int}
        for kind, edit, new, before, after in _edits(domain, parts, told, rng):
            digits = after.partition(" ")[0].replace(",", "")
            if digits.isdecimal() and int(digits) in borders:
                continue
            try:
                reading = read(domain, new)
            except (InputError, KeyError):  # another sentence refers to the removed one
                continue
            if not _differs_by(kind, edit, told, _statements(reading)):
                continue
            if _refers_anew(original, reading):
                continue
            varied = self._example(task, number, new, reading)
            if varied is not None:
                yield Variant(kind, edit, varied, before, after)

    def _example(
        self, task: DescribedTask, number: int, text: str, reading: Reading
    ) -> Example | None:
        """Build an instance of a task with another passage, or None if the passage contradicts
        itself.
        """
        domain = task.domain
        people = [_facts(domain, entity) for entity in reading.entities.values()]
        drafted = Draft(people, [_rule(domain, *rule) for rule in reading.rules])
        if contradictory(drafted):
            return None
        target = answer(domain, task.program, drafted.main, drafted.rules)
        return self._world.instance(task, number, text, drafted, target)


PassageEdit = tuple[VariantKind, str, str, str, str]
"""Kind and name of an edit, the edited passage, and the text before and after the edit."""


def _edits(
    domain: Domain, parts: list[str], told: Counter[Statement], rng: Random
) -> Iterator[PassageEdit]:
    # The first sentence introduces the topic of the passage.
    removals = [(part, " ".join(parts[:i] + parts[i + 1 :])) for i, part in enumerate(parts)][1:]
    for part, rest in removals:
        yield "simpler", "sentence removed", rest, part, ""
    for i, part in enumerate(parts):
        for value, other in _other_values(domain, part, told, rng):
            changed = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", other, part, count=1)
            passage = " ".join([*parts[:i], changed, *parts[i + 1 :]])
            yield "flip", "another value", passage, value, other
    for part, rest in removals:
        yield "keep", "irrelevant sentence removed", rest, part, ""
    for filler in rng.sample(domain.fillers, min(OTHERS, len(domain.fillers))):
        sentence = _filled(filler, rng)
        yield "keep", "irrelevant sentence", " ".join([*parts, sentence]), "", sentence


def _differs_by(
    kind: VariantKind, edit: str, told: Counter[Statement], now: Counter[Statement]
) -> bool:
    """True if the edited passage states the same facts, except for the edit."""
    if kind == "flip":
        return (told - now).total() == 1 and (now - told).total() == 1
    if edit == "irrelevant sentence":
        return told == now
    return not now - told


def _refers_anew(original: Reading, reading: Reading) -> bool:
    """True if a sentence that was not edited has a different subject than before, because its
    pronoun changed its antecedent.

    The facts may nevertheless be equal, if the sentence is true of both subjects.
    """
    before = Counter(original.about)
    kept = {sentence for sentence, _ in original.about}
    return any(
        before[clause] < count and clause[0] in kept
        for clause, count in Counter(reading.about).items()
    )


def _other_values(
    domain: Domain, part: str, told: Counter[Statement], rng: Random
) -> Iterator[tuple[str, str]]:
    """Yield each value that a sentence states, with other values of the same attribute."""
    met: set[str] = set()
    # Values that already occur are excluded, because two records might then share the highest
    # value.
    taken = {statement[-1] for statement in told}
    for *_, name, value in told:
        if value in met or value not in part:
            continue
        met.add(value)
        for other in _values(domain, name, rng):
            if other not in taken:
                yield value, other


def _values(domain: Domain, name: str, rng: Random) -> list[str]:
    """Draw values of an attribute, or of a field of records, as written in passages."""
    name = name.removeprefix("has ").removeprefix("lacks ")
    attribute: Any = domain.by_name.get(name)
    if attribute is None:
        fields = {field.name: field for records in domain.records for field in records.fields}
        attribute = fields.get(name)
    if isinstance(attribute, Number | Measure):
        steps = range(attribute.low, attribute.high + 1, attribute.step)
        return [attribute.text(rng.choice(steps)) for _ in range(OTHERS)]
    if isinstance(attribute, Text | Members | Quality):
        return rng.sample(attribute.values, min(OTHERS, len(attribute.values)))
    return []


def _filled(text: str, rng: Random) -> str:
    """Return a filler with one choice for each slot, such as `[two|three]` or `[1950..2019]`."""

    def word(match: re.Match[str]) -> str:
        low, dots, high = match[1].partition("..")
        if dots and low.isdecimal():
            return str(rng.randint(int(low), int(high)))
        words: list[str] = match[1].split("|")
        return rng.choice(words)

    return re.sub(r"\[([^\]]*)\]", word, text)


# Conversion of the reader's facts to the generator's facts


def _statements(reading: Reading) -> Counter[Statement]:
    """Return everything that a passage states."""
    found: Counter[Statement] = Counter()
    for entity in reading.entities.values():
        found[entity.name, "is", "named"] += 1
        found.update(_of_thing(entity, (entity.name,)))
        for kind, records in entity.owned.items():
            for record in records:
                found[entity.name, kind, record.name] += 1
                found.update(_of_thing(record, (entity.name, kind, record.name)))
    found.update(("rule", *rule) for rule in reading.rules)
    found["subject", reading.subject.name] += 1
    return found


def _of_thing(thing: ReadEntity, of: tuple[str, ...]) -> Iterator[Statement]:
    for name, value in thing.stated.items():
        for text in value if isinstance(value, list) else [value]:
            yield (*of, name, text)


def _facts(domain: Domain, entity: ReadEntity) -> Facts:
    facts = Facts(entity.name)
    for name, value in entity.stated.items():
        how, _, members = name.partition(" ")
        if how == "has" and isinstance(value, list):
            facts.has[members] = value
        elif how == "lacks" and isinstance(value, list):
            facts.lacks[members] = value
        else:
            facts.values[name] = _typed(domain.by_name[name], value)
    for kind, owned in entity.owned.items():
        records = domain.records_by_name[kind]
        for thing in owned:
            fields = {n: _typed(records.field(n), v) for n, v in thing.stated.items()}
            facts.records.setdefault(kind, []).append(Record(thing.name, kind, fields))
    return facts


def _rule(domain: Domain, when: str, value: str, then: str, outcome: str) -> Stated:
    rule = next(r for r in domain.rules if r.when == when and r.then == then)
    return Stated(rule, value, _typed(domain.by_name[then], outcome))


def _typed(attribute: Any, text: str) -> Any:
    """Convert a text to the generator's value: a number, a boolean or a text."""
    if isinstance(attribute, Number | Measure):
        digits = re.match(r"[\d,]+", text)
        assert digits is not None
        return int(digits[0].replace(",", ""))
    return text == "yes" if isinstance(attribute, Flag | Feature) else text
