"""Converts entities to text. A model sees labels, and several entities may share one.

In the real subset, one entity in sixteen shares its label with another. By default, entities with
the same name are merged: an answer is right if it is right for any of them, and a predicate is true
if it is true for any of them, because the text does not say which entity is meant. `drop` omits
ambiguous inputs instead. In either case, the affected inputs are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import FactComposer

Collisions = Literal["merge", "drop"]


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of entities that were merged or lost in the conversion to text.

    Attributes:
        unlabelled: Number of inputs omitted because they, or all of their answers, have no label.
        ambiguous: Number of input labels that belong to several entities.
        merged: Number of inputs whose row was merged with that of an entity with the same name.
        answers: Number of answers that have the same label as another answer to the same input.
    """

    unlabelled: int
    ambiguous: int
    merged: int
    answers: int


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation as text: maps sorted labels to sorted labels, and knows the entities behind each
    input.
    """

    answers: Mapping[str, tuple[str, ...]]
    entities: Mapping[str, tuple[str, ...]]
    counted: Counted


@dataclass(frozen=True, slots=True)
class NamedPredicate:
    """A predicate as text: maps labels to yes or no, and knows the entities behind each input."""

    truth: Mapping[str, bool]
    entities: Mapping[str, tuple[str, ...]]
    counted: Counted


def name_relation(
    world: FactWorld, relation: Relation, collisions: Collisions = "merge"
) -> NamedRelation:
    """Convert a relation to text. Entities without a label are omitted from inputs and outputs."""
    relation = _with_namesakes(world, relation)
    labels = world.labels(relation.keys() | relation.outputs())
    before, after = 0, 0
    answers: dict[str, set[str]] = {}
    kept: dict[str, list[str]] = {}
    for x, ys in relation.items():
        if x not in labels:
            continue
        if len(ys) == 1 and ys[0] in labels and labels[x] not in kept:
            # This is the case for most rows. Avoiding sets and lists for a single label halves the
            # time.
            kept[labels[x]] = [x]
            answers[labels[x]] = {labels[ys[0]]}
            before, after = before + 1, after + 1
            continue
        named = [labels[y] for y in ys if y in labels]
        if named:
            kept.setdefault(labels[x], []).append(x)
            different = set(named)
            before, after = before + len(named), after + len(different)
            answers.setdefault(labels[x], set()).update(different)
    entities, ambiguous = _resolve(world, kept, collisions)
    return NamedRelation(
        {label: tuple(sorted(answers[label])) for label in entities},
        entities,
        _count(len(relation), kept, entities, ambiguous, before - after),
    )


def name_predicate(
    world: FactWorld, predicate: Predicate, collisions: Collisions = "merge"
) -> NamedPredicate:
    """Convert a predicate to text."""
    if predicate.partial:
        truths = world.namesakes(world.labels(predicate).values())
        predicate = predicate.at({*predicate, *(x for xs in truths.values() for x in xs)})
    labels = world.labels(predicate)
    kept: dict[str, list[str]] = {}
    for x in predicate:
        if x in labels:
            kept.setdefault(labels[x], []).append(x)
    entities, ambiguous = _resolve(world, kept, collisions)
    true = set(predicate.positives)
    truth = {label: not true.isdisjoint(xs) for label, xs in entities.items()}
    return NamedPredicate(truth, entities, _count(len(predicate), kept, entities, ambiguous, 0))


def _with_namesakes(world: FactWorld, relation: Relation) -> Relation:
    """Expand a sample to entities with the same names as its inputs, because their answers are
    right for the same text.
    """
    if not relation.partial:
        return relation
    namesakes = world.namesakes(world.labels(relation).values())
    return relation.at({*relation, *(x for xs in namesakes.values() for x in xs)})


def _resolve(
    world: FactWorld, kept: Mapping[str, list[str]], collisions: Collisions
) -> tuple[dict[str, tuple[str, ...]], int]:
    """Return the inputs to keep, in order, and the number of ambiguous labels.

    For `drop`, a label is ambiguous if any two entities of the world share it. For `merge`, only if
    both have answers here, because a namesake without answers adds none.
    """
    shared = {label for label, xs in kept.items() if len(xs) > 1}
    if collisions == "drop":
        shared |= {label for label, xs in world.namesakes(kept).items() if len(xs) > 1}
    stay: Iterable[str] = sorted(kept.keys() - shared if collisions == "drop" else kept)
    return {label: tuple(kept[label]) for label in stay}, len(shared)


def _count(
    inputs: int,
    kept: Mapping[str, list[str]],
    entities: Mapping[str, tuple[str, ...]],
    ambiguous: int,
    answers: int,
) -> Counted:
    named = sum(map(len, kept.values()))
    return Counted(
        inputs - named, ambiguous, sum(map(len, entities.values())) - len(entities), answers
    )


# Number of examples that a world provides for a task, with entities as text

MINIMUM = 100
"""Minimum number of examples of a task in the paper."""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """Number of examples that a world provides for a task, as text.

    Attributes:
        task: The task's expression.
        examples: Number of inputs with an answer. For a sequence task, number of words from which
            sequences are made.
        true: Number of inputs for which a predicate is true. None for a relation.
        answers: Mean number of acceptable answers. 1 for a predicate.
        enough: True if the task reaches the minimum.
        balanced: Maximum number of examples such that half are true and half are false. None for a
            relation.
    """

    task: str
    examples: int
    true: int | None
    answers: float
    enough: bool
    balanced: int | None

    @property
    def room(self) -> int:
        """Number of examples in a balanced dataset. For a predicate, half of them are true."""
        return self.examples if self.balanced is None else self.balanced


def survey(
    world: FactWorld, tasks: Iterable[str], minimum: int = MINIMUM, collisions: Collisions = "merge"
) -> list[TaskSize]:
    """Measure the size of each task in this world. Tasks are expressions; functions that occur
    several times are composed once.
    """
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
