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
from dataclasses import asdict, dataclass, replace
from typing import Any

from taskloom.core.example import Example, Trait
from taskloom.core.plan import Variant

FORMAT, SCHEMA = "taskloom falsify", 1

SIGNIFICANCE = 0.05
"""Significance level, shared by all groups and conditions: the probability that a trait is named
although the failures have none in common.
"""

Traits = Mapping[str, Trait]

Asked = tuple[Traits, bool]
"""The traits of an item, and whether it was answered wrong."""


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
    neighbours: tuple[Variant, ...] = ()


@dataclass(frozen=True, slots=True)
class TraitRule:
    """A condition on a trait, and how many fresh items with and without it were answered wrong.

    The evidence at any moment is the probability of the answers if items with and without the
    condition are answered wrong at different rates (unknown, with Jeffreys' prior), divided by
    their greatest probability at a common rate. If there is a common rate, the probability that the
    evidence ever exceeds 1 / α is at most α (Ville's inequality), so it may be checked after every
    batch. The difference between the evidence of two conditions is a Bayes factor, which shows
    which of them explains the answers better.

    Attributes:
        trait: Name of the trait.
        relation: `=`, `≥`, `≤` or `has` (for traits that list parts, `GRAB+MOVE` or `b C n`).
        value: The value.
        wrong: Number of wrong items that meet the condition, of `of_wrong`.
        of_wrong: Number of fresh items that were answered wrong.
        right: Number of right items that meet the condition, of `of_right`.
        of_right: Number of fresh items that were answered right.
    """

    trait: str
    relation: str
    value: Trait
    wrong: int = 0
    of_wrong: int = 0
    right: int = 0
    of_right: int = 0

    def __str__(self) -> str:
        return f"{self.trait} {self.relation} {self.value}"

    def holds(self, traits: Traits) -> bool:
        """True if an item with these traits meets the condition."""
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

    def counting(self, batch: Iterable[Asked]) -> TraitRule:
        """Return the condition with the counts of a further batch."""
        counts = Counter((self.holds(traits), wrong) for traits, wrong in batch)
        wrong, right = counts[True, True], counts[True, False]
        return replace(
            self,
            wrong=self.wrong + wrong,
            of_wrong=self.of_wrong + wrong + counts[False, True],
            right=self.right + right,
            of_right=self.of_right + right + counts[False, False],
        )

    @property
    def evidence(self) -> float:
        """Logarithm of the evidence; 0 if items with the condition are not wrong more often."""
        with_it = (self.wrong, self.right)
        without = (self.of_wrong - self.wrong, self.of_right - self.right)
        if self.wrong * sum(without) <= without[0] * sum(with_it):
            return 0.0
        return _mixture(with_it) + _mixture(without) - _greatest((self.of_wrong, self.of_right))


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
    rules = _shared_conditions(minimal)
    if not rules:
        return None
    needed = -math.log(SIGNIFICANCE / (groups * len(rules)))
    best = rules[0]
    for batch in fresh:
        rules = [rule.counting(batch) for rule in rules]
        # Rules that hold for the same items have the same evidence; the first one is named.
        best = max(rules, key=lambda rule: rule.evidence)
        worse = [rule.evidence for rule in rules if rule.evidence < best.evidence]
        if best.evidence >= needed + max(worse, default=0.0):
            break
    return best if best.evidence >= needed else None


def _shared_conditions(items: Sequence[Traits]) -> list[TraitRule]:
    """Conditions that hold for all given items, in a fixed order."""
    rules: dict[TraitRule, None] = {}
    for traits in items:
        for name, value in traits.items():
            relations = ("=",) if isinstance(value, bool | str) else ("≥", "≤")
            rules.update({TraitRule(name, relation, value): None for relation in relations})
            if isinstance(value, str):
                rules.update({TraitRule(name, "has", part): None for part in _parts(value)})
    return [rule for rule in rules if all(map(rule.holds, items))]


def _parts(value: str) -> list[str]:
    """The parts that a trait lists."""
    return value.replace("+", " ").split()
