"""How many examples a world has for each of some factual tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.labels import Collisions, name_predicate, name_relation
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import FactComposer

MINIMUM = 100
"""Examples that a task of the paper has at least."""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How many examples a world has for a task, as text.

    Attributes:
        task: The task's expression.
        examples: Inputs with an answer; of a sequence task the words that sequences are made of.
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
        """Give the number of examples that a fair dataset can have: for a predicate, half true and half false."""
        return self.examples if self.balanced is None else self.balanced


def survey(
    world: FactWorld, tasks: Iterable[str], minimum: int = MINIMUM, collisions: Collisions = "merge"
) -> list[TaskSize]:
    """Measure the size of each task, an expression, in this world; equal functions are composed once."""
    composer = FactComposer(world)
    known: dict[str, TaskSize] = {}
    sizes = []
    for task in tasks:
        name, function = composer.function(task)
        if name not in known:
            known[name] = _size(world, function, minimum, collisions)
        sizes.append(replace(known[name], task=task))
    return sizes


def _size(
    world: FactWorld, function: Relation | Predicate, minimum: int, collisions: Collisions
) -> TaskSize:
    if isinstance(function, Predicate):
        truth = name_predicate(world, function, collisions).truth
        true = sum(truth.values())
        return TaskSize(
            "", len(truth), true, 1.0, len(truth) >= minimum, 2 * min(true, len(truth) - true)
        )
    answers = name_relation(world, function, collisions).answers
    mean = sum(map(len, answers.values())) / len(answers) if answers else 0.0
    return TaskSize("", len(answers), None, mean, len(answers) >= minimum, None)
