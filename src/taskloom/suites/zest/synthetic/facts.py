"""What a passage states about one entity, on the generator's side; `algebra.py` has what programs answer on it.

The independent reader has its own facts and its own evaluator (`passage_reader.py`, `second_solver.py`); nothing but the
programs and the domain is shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from taskloom.suites.zest.synthetic.domain import Rule

NA = "n/a"


@dataclass(slots=True)
class Record:
    """A thing that belongs to an entity, with those of its fields that are stated."""

    name: str
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """What is stated about one entity. Lists keep the order in which the passage says things."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    has: dict[str, list[str]] = field(default_factory=dict)
    lacks: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, list[Record]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stated:
    """A rule as a passage states it: for one value of its attribute, with one outcome."""

    rule: Rule
    value: str
    outcome: Any


def known(name: str, facts: Facts, rules: list[Stated]) -> Any:
    """Return a value that is stated, or else implied by a rule whose condition is stated; None if neither."""
    if name in facts.values:
        return facts.values[name]
    for stated in rules:
        if stated.rule.then == name and facts.values.get(stated.rule.when) == stated.value:
            return stated.outcome
    return None


def yes_no(value: bool) -> str:
    """Format the answer of a classification task."""
    return "yes" if value else "no"
