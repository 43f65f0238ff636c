"""Minimal failures of a model, and what groups of them have in common.

A group has an edit that repairs its failures, and the condition on a trait that they have in
common. Shrinking makes every failure short, so failures have something in common even if no trait
is the cause. Each condition is therefore tested on fresh items, which were not chosen by their
answers: they are drawn, half of them cut to a random length, and asked in turn until one condition
is confirmed and explains the answers clearly better than the others, or the questions are spent.
The test is valid even if it is evaluated after every batch. Over all conditions, the probability of
naming a trait by chance is at most 5 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from taskloom.core.example import Example, Trait

FORMAT, SCHEMA = "taskloom falsify", 1

SIGNIFICANCE = 0.05
"""Significance level, shared by all groups and conditions: the probability that failures without a
common trait are given one.
"""

Traits = Mapping[str, Trait]

Asked = tuple[Traits, bool]
"""The traits of an item, and whether it was answered wrong."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A variant of a minimal item that the model gets right.

    Attributes:
        kind: `simpler`, `flip` or `keep`.
        edit: Name of the edit.
        before: Text that the edit replaced.
        after: Text that replaced it.
    """

    kind: str
    edit: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that a model gets wrong, and the smallest one that it was shrunk to.

    Attributes:
        drawn: The item as it was drawn.
        minimal: The smallest item that the model still gets wrong.
        answer: The model's answer to it.
        edits: Edits that led from one to the other, in order.
        proved: True if the model gets every simpler variant right. False if the allowed questions
            did not suffice, or if there are no variants.
        neighbours: Variants of the minimal item that the model gets right.
    """

    drawn: Example
    minimal: Example
    answer: str
    edits: tuple[str, ...] = ()
    proved: bool = False
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a trait.

    Attributes:
        trait: Name of the trait.
        relation: `=`, `≥`, `≤` or `has` (for traits that list parts, `GRAB+MOVE` or `b C n`).
        value: The value.
    """

    trait: str
    relation: str
    value: Trait

    def __str__(self) -> str:
        return f"{self.trait} {self.relation} {self.value}"

    def holds(self, traits: Traits) -> bool:
        """True if an item with these traits meets it."""
        own = traits.get(self.trait)
        if own is None:
            return False
        if self.relation == "has":
            return self.value in _parts(str(own))
        if self.relation == "=":
            return own == self.value
        if isinstance(own, str) or isinstance(self.value, str):
            return False
        return own >= self.value if self.relation == "≥" else own <= self.value


@dataclass(frozen=True, slots=True)
class TraitRule(Condition):
    """A condition that fresh items confirm.

    Attributes:
        wrong: Number of wrong items that meet it, of `of_wrong`.
        of_wrong: Number of fresh items that were answered wrong.
        right: Number of right items that meet it, of `of_right`.
        of_right: Number of fresh items that were answered right.
    """

    wrong: int
    of_wrong: int
    right: int
    of_right: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Minimal failures that one edit repairs.

    Attributes:
        edit: The edit, with its kind: `flip: another room`; empty if none is known.
        trait: The condition that these failures have in common; None if fresh items confirm none.
        failures: Positions in `Falsification.failures`.
    """

    edit: str
    trait: TraitRule | None
    failures: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Falsification:
    """Result of a search for a model's failures.

    Attributes:
        model: Name of the model.
        recipe: Name of the recipe.
        split: The split that was drawn from.
        items: Number of items that were drawn and asked.
        wrong: Number of them that the model certainly gets wrong.
        questions: Number of questions that the model was asked in all, repetitions included.
        failures: The minimal failures, each once.
        groups: The failures in groups, the largest first.
        varied: True if the suite has variants, so that items could be shrunk.
    """

    model: str
    recipe: str
    split: str
    items: int
    wrong: int
    questions: int
    failures: tuple[Failure, ...] = ()
    groups: tuple[FailureGroup, ...] = ()
    varied: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {"format": FORMAT, "schema": SCHEMA, **asdict(self)}


def grouped(failures: Sequence[Failure]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield groups: an edit, and the failures that it repairs; the most frequent edit first.

    A flip or keep explains more than a removal, which repairs every minimal item in some way, so
    removals only group failures that nothing else repairs.
    """
    left = dict(enumerate(failures))
    while left:
        edit = _most_common_edit(left.values())
        members = [i for i, failure in left.items() if not edit or edit in _repairs(failure)]
        for i in members:
            del left[i]
        yield edit, tuple(members)


def _repairs(failure: Failure) -> set[str]:
    return {f"{one.kind}: {one.edit}" for one in failure.neighbours}


def _most_common_edit(failures: Iterable[Failure]) -> str:
    counts = Counter(edit for failure in failures for edit in sorted(_repairs(failure)))
    if not counts:
        return ""
    telling = {e: n for e, n in counts.items() if not e.startswith("simpler")} or counts
    # Ties go to a keep: a flip also repairs a model that always gives the same answer.
    return max(sorted(telling), key=lambda edit: (telling[edit], edit.startswith("keep")))


@dataclass(slots=True)
class ConditionTest:
    """Compares how often items with a condition and items without it are answered wrong.

    The evidence at any moment is the probability of the answers if both are answered wrong at rates
    of their own (unknown, with Jeffreys' prior), divided by their greatest probability at a common
    rate. If the rate is common, the evidence ever exceeds 1 / α with probability at most α (Ville's
    inequality), so one may look after every batch. The difference of two conditions' evidence is a
    Bayes factor: which of them explains the answers better.

    Attributes:
        condition: The condition.
        counts: Number of items, by whether they meet it and whether they were answered wrong.
    """

    condition: Condition
    counts: Counter[tuple[bool, bool]] = field(default_factory=Counter)

    def add(self, batch: Iterable[Asked]) -> None:
        """Take further items."""
        self.counts.update((self.condition.holds(traits), wrong) for traits, wrong in batch)

    @property
    def evidence(self) -> float:
        """Logarithm of the evidence; 0 if items with the condition are not wrong more often."""
        rule = self.rule
        with_it = (rule.wrong, rule.right)
        without = (rule.of_wrong - rule.wrong, rule.of_right - rule.right)
        if rule.wrong * sum(without) <= without[0] * sum(with_it):
            return 0.0
        return _mixture(with_it) + _mixture(without) - _greatest((rule.of_wrong, rule.of_right))

    @property
    def rule(self) -> TraitRule:
        """The condition with what was counted."""
        wrong, right = self.counts[True, True], self.counts[True, False]
        return TraitRule(
            self.condition.trait,
            self.condition.relation,
            self.condition.value,
            wrong,
            wrong + self.counts[False, True],
            right,
            right + self.counts[False, False],
        )


def _mixture(counts: Sequence[int]) -> float:
    """Log probability of a sequence with these counts under Jeffreys' prior, a Beta(1/2, 1/2)."""
    parts = sum(math.lgamma(count + 0.5) for count in counts)
    return parts - math.lgamma(sum(counts) + 1) - math.log(math.pi)


def _greatest(counts: Sequence[int]) -> float:
    """Log probability of a sequence with these counts if their shares are the true ones."""
    return sum(count * math.log(count / sum(counts)) for count in counts if count)


def common_trait(
    minimal: Sequence[Traits], fresh: Iterable[Sequence[Asked]], groups: int = 1
) -> TraitRule | None:
    """Find the condition that minimal failures share and that explains best which items are wrong.

    Args:
        minimal: Traits of the minimal failures of a group.
        fresh: Batches of items that were not chosen by their answers; read until a condition is
            confirmed and no other one explains them nearly as well.
        groups: Number of groups that share the significance level.

    >>> fresh = [[({"n": 9}, True), ({"n": 2}, False)]] * 30
    >>> print(common_trait([{"n": 9}, {"n": 9}], fresh))
    n ≥ 9
    """
    conditions = _shared_conditions(minimal)
    if not conditions:
        return None
    needed = -math.log(SIGNIFICANCE / (groups * len(conditions)))
    tests = [ConditionTest(condition) for condition in conditions]
    best = tests[0]
    for batch in fresh:
        for test in tests:
            test.add(batch)
        best = max(tests, key=lambda test: test.evidence)
        # Conditions that hold for the same items have the same evidence; the first one is named.
        next_best = max((t.evidence for t in tests if t.evidence < best.evidence), default=0.0)
        if best.evidence >= needed + next_best:
            break
    return best.rule if best.evidence >= needed else None


def _shared_conditions(items: Sequence[Traits]) -> list[Condition]:
    """Conditions that hold for all of some items."""
    conditions: dict[Condition, None] = {}
    for traits in items:
        for name, value in traits.items():
            relations = ("=",) if isinstance(value, bool | str) else ("≥", "≤")
            conditions.update({Condition(name, relation, value): None for relation in relations})
            if isinstance(value, str):
                conditions.update({Condition(name, "has", part): None for part in _parts(value)})
    return [condition for condition in conditions if all(map(condition.holds, items))]


def _parts(value: str) -> list[str]:
    """The parts that a trait lists."""
    return value.replace("+", " ").split()
