"""Factual functions by composition and operands, as the published list of tasks has them."""

from __future__ import annotations

from dataclasses import dataclass

from taskloom.suites.taskbench.worlds.facts import FactComposer, FactWorld, Predicate, Relation


@dataclass(frozen=True, slots=True)
class FactTask:
    """One task; of a sequence task `composition` and `operands` are those of the relation."""

    expression: str
    composition: str
    operands: tuple[str, ...]


def compose(world: FactWorld, composition: str, operands: tuple[str, ...]) -> Relation | Predicate:
    text = operands[0] if composition == "atomic" else f"{composition}({', '.join(operands)})"
    return FactComposer(world).function(text)[1]
