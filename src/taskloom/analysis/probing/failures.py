"""Minimal failures of a model, and what groups of them have in common.

A group has an edit that repairs its failures, and the condition on a trait that best separates them
from items that the model gets right. Shrinking makes every failure short, so minimal failures differ
from other items even if no trait is to blame. A condition is therefore named only if it also holds
more often for wrong than for right items among those that were drawn at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from taskloom.core.example import Example, Trait

FORMAT, SCHEMA = "taskloom falsify", 1

SIGNIFICANCE = 0.05
"""Probability that a group of failures without a common trait gets one. All conditions that are
tried share it.
"""


Candidate = tuple[str, str, Trait]
"""Trait, relation and value of a condition, as in `TraitRule`."""


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
        proved: True if the model gets every simpler variant right. False if the questions that were
            granted did not suffice, or there are no variants.
        neighbours: Variants of the minimal item that the model gets right.
    """

    drawn: Example
    minimal: Example
    answer: str
    edits: tuple[str, ...] = ()
    proved: bool = False
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True)
class TraitRule:
    """A condition on a trait that separates items answered wrong from items answered right.

    Attributes:
        trait: Name of the trait.
        relation: `=`, `≥`, `≤` or `has` (for traits such as `GRAB+MOVE` that list parts).
        value: The value.
        wrong: Number of wrong items for which it holds, of `of_wrong`.
        right: Number of right items for which it holds, of `of_right`.
    """

    trait: str
    relation: str
    value: Trait
    wrong: int
    of_wrong: int
    right: int
    of_right: int

    def __str__(self) -> str:
        return f"{self.trait} {self.relation} {self.value}"

    @property
    def separation(self) -> float:
        """Share of wrong items for which the rule holds minus the share of right ones."""
        return self.wrong / max(1, self.of_wrong) - self.right / max(1, self.of_right)


@dataclass(frozen=True, slots=True)
class DrawnTraits:
    """Traits of the items that were drawn at random, before any was shrunk.

    Attributes:
        wrong: Of the items that the model gets wrong.
        right: Of all others.
    """

    wrong: Sequence[Mapping[str, Trait]]
    right: Sequence[Mapping[str, Trait]]

    def confirm(self, candidate: Candidate, tried: int) -> bool:
        """True if a condition holds more often for wrong items than chance explains.

        Args:
            candidate: The condition.
            tried: Number of conditions that share the significance level.
        """
        from scipy.stats import fisher_exact

        wrong = sum(_holds(candidate, traits) for traits in self.wrong)
        right = sum(_holds(candidate, traits) for traits in self.right)
        counts = [[wrong, len(self.wrong) - wrong], [right, len(self.right) - right]]
        return bool(fisher_exact(counts, alternative="greater").pvalue * tried <= SIGNIFICANCE)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Minimal failures that one edit repairs.

    Attributes:
        edit: The edit, with its kind: `flip: another room`; empty if none is known.
        trait: The trait that best separates these failures from items answered right; None if the
            drawn items confirm none.
        failures: Positions in `Falsification.failures`.
    """

    edit: str
    trait: TraitRule | None
    failures: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Falsification:
    """What was found out about a model.

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


def grouped(
    failures: Sequence[Failure], right: Sequence[Mapping[str, Trait]], drawn: DrawnTraits
) -> Iterator[FailureGroup]:
    """Group failures by the edit that repairs them, the edit that repairs most of them first.

    A flip or keep explains more than a removal, which repairs every minimal item in some way, so
    removals only group failures that nothing else repairs.
    """
    left = dict(enumerate(failures))
    while left:
        edit = _most_common_edit(left.values())
        members = [i for i, failure in left.items() if not edit or edit in _repairs(failure)]
        for i in members:
            del left[i]
        traits = [failures[i].minimal.traits for i in members]
        yield FailureGroup(edit, separating_trait(traits, right, drawn), tuple(members))


def _repairs(failure: Failure) -> set[str]:
    return {f"{one.kind}: {one.edit}" for one in failure.neighbours}


def _most_common_edit(failures: Iterable[Failure]) -> str:
    counts = Counter(edit for failure in failures for edit in sorted(_repairs(failure)))
    if not counts:
        return ""
    telling = {e: n for e, n in counts.items() if not e.startswith("simpler")} or counts
    return max(sorted(telling), key=lambda edit: telling[edit])


def separating_trait(
    wrong: Sequence[Mapping[str, Trait]],
    right: Sequence[Mapping[str, Trait]],
    drawn: DrawnTraits,
) -> TraitRule | None:
    """The condition on a trait that best separates wrong items from right ones, of those that the
    drawn items confirm.

    >>> long, short = [{"n": 9}, {"n": 10}], [{"n": 8}, {"n": 3}]
    >>> rule = separating_trait(long, short, DrawnTraits(4 * long, 4 * short))
    >>> str(rule), rule.separation
    ('n ≥ 9', 1.0)
    """
    candidates = _candidates(wrong)
    rules = [
        TraitRule(
            *candidate,
            sum(_holds(candidate, traits) for traits in wrong),
            len(wrong),
            sum(_holds(candidate, traits) for traits in right),
            len(right),
        )
        for candidate in candidates
        if drawn.confirm(candidate, len(candidates))
    ]
    best = max(rules, key=lambda rule: rule.separation, default=None)
    return best if best is not None and best.separation > 0 else None


def _candidates(items: Sequence[Mapping[str, Trait]]) -> list[Candidate]:
    """Conditions that hold for at least one of some items."""
    candidates: dict[Candidate, None] = {}
    for traits in items:
        for name, value in traits.items():
            if isinstance(value, bool | str):
                candidates[name, "=", value] = None
            else:
                candidates[name, "≥", value] = None
                candidates[name, "≤", value] = None
            if isinstance(value, str) and "+" in value:
                candidates.update({(name, "has", part): None for part in value.split("+")})
    return list(candidates)


def _holds(candidate: Candidate, traits: Mapping[str, Trait]) -> bool:
    name, relation, value = candidate
    own = traits.get(name)
    if own is None:
        return False
    if relation == "has":
        return value in str(own).split("+")
    if relation == "=":
        return own == value
    if isinstance(own, str) or isinstance(value, str):
        return False
    return own >= value if relation == "≥" else own <= value
