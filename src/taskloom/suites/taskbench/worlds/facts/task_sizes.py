"""The factual tasks of the catalogue, by composition and operands, and how many examples a world has for each.

This is all that a list of tasks needs; the expression language composes the same operators to any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskloom.errors import InputError, nearest
from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.labels import Collisions, name_predicate, name_relation
from taskloom.suites.taskbench.worlds.facts.properties import PREDICATES
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import Domain, chain, intersection, land, lnot, lor, union

MINIMUM = 100
"""Examples that a task of the paper has at least."""


@dataclass(frozen=True, slots=True)
class FactTask:
    """One task: `FactTask("chain(mother, father)", "chain", ("mother", "father"))`.

    For tasks over sequences, which are made of the words of a relation, `composition` is that of the relation.
    """

    expression: str
    composition: str
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How many examples a world has for a task, as text.

    Attributes:
        task: The task's expression.
        examples: Inputs with an answer.
        true: Of a predicate's inputs those that it holds of; None for a relation.
        answers: Mean number of acceptable answers; 1 for a predicate.
        enough: Whether it reaches the minimum.
        balanced: The most examples of which half are true and half are false; None for a relation.
    """

    task: str
    examples: int
    true: int | None
    answers: float
    enough: bool
    balanced: int | None

    @property
    def room(self) -> int:
        """How many examples a fair dataset can have: for a predicate, half true and half false."""
        return self.examples if self.balanced is None else self.balanced


def compose(
    world: FactWorld, composition: str, operands: Sequence[str], domain: Domain = "either"
) -> Relation | Predicate:
    """The function of a task: an atom, or a composition of two.

    Args:
        world: Where the atoms come from.
        composition: `atomic`, `chain` (outer first), `union`, `intersection`, `land`, `lor` or `lnot`.
        operands: Names of relations, or of predicates for the last three.
        domain: Of unions.
    """
    if composition == "atomic":
        return world.predicate(operands[0]) if operands[0] in PREDICATES else world.relation(operands[0])
    if composition == "lnot":
        return lnot(world.predicate(operands[0]))
    if composition in ("land", "lor"):
        p, q = (world.predicate(name) for name in operands)
        return land(p, q) if composition == "land" else lor(p, q)
    if composition not in ("chain", "union", "intersection"):
        known = ["atomic", "chain", "union", "intersection", "land", "lor", "lnot"]
        raise InputError(f"facts are not composed by '{composition}'; {nearest(composition, known)}")
    a, b = (world.relation(name) for name in operands)
    if composition == "chain":
        return chain(a, b)
    return union(a, b, domain) if composition == "union" else intersection(a, b)


def survey(
    world: FactWorld, tasks: Iterable[FactTask], minimum: int = MINIMUM, collisions: Collisions = "merge"
) -> list[TaskSize]:
    """The size of each task in this world; equal functions are composed once."""
    known: dict[tuple[str, tuple[str, ...]], TaskSize] = {}
    sizes = []
    for task in tasks:
        function = (task.composition, task.operands)
        if function not in known:
            known[function] = _size(world, compose(world, *function), minimum, collisions)
        found = known[function]
        sizes.append(TaskSize(task.expression, found.examples, found.true, found.answers, found.enough, found.balanced))
    return sizes


def _size(world: FactWorld, function: Relation | Predicate, minimum: int, collisions: Collisions) -> TaskSize:
    if isinstance(function, Predicate):
        truth = name_predicate(world, function, collisions).truth
        true = sum(truth.values())
        return TaskSize("", len(truth), true, 1.0, len(truth) >= minimum, 2 * min(true, len(truth) - true))
    answers = name_relation(world, function, collisions).answers
    mean = sum(map(len, answers.values())) / len(answers) if answers else 0.0
    return TaskSize("", len(answers), None, mean, len(answers) >= minimum, None)
