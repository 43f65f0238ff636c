"""The factual world: one interface to facts from all sources.

`RdfWorld` (files), `EndpointWorld` (a SPARQL server) and `synthetic_world` (invented facts) all
implement `FactWorld`. Entities are identified by id: `Q84`, or the whole IRI outside Wikidata. They
are written as labels, and the module `labels` handles entities that share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Protocol

from taskloom.core.plan import Source
from taskloom.suites.taskbench.worlds.facts.properties import (
    CLASS_PROPERTIES,
    INSTANCE_OF,
    PREDICATES,
    RELATIONS,
    ROOT,
    SUBCLASS_OF,
    Direction,
    asked,
    direction,
)
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation


class ClassPaths:
    """Decides whether a class is a kind of another, from the graph's "subclass of" paths.

    A film actor is an actor, because a path of subclasses leads from one to the other. A class with
    a path to the root of all classes, but none to the class in question, is known to be something
    else. If no path reaches the root, the answer is unknown: the Wikidata subset does not state
    what a stage actor is a kind of, so stage actors count neither as actors nor as non-actors.

    Classes are queried one level at a time, so that a server gets few requests.
    """

    def __init__(self, subclass_of: Relation) -> None:
        self._subclass_of = subclass_of
        self._met: set[str] = set()
        self._below: dict[str, list[str]] = {}
        self._kinds: dict[tuple[str, ...], frozenset[str]] = {}

    def truth(
        self, rows: Mapping[str, tuple[str, ...]], classes: tuple[str, ...]
    ) -> dict[str, bool]:
        """Return True for each input with a value that is a kind of one of the classes, False for
        the others. Inputs for which this is unknown are omitted.

        Args:
            rows: Maps inputs to their values, which are classes or occupations.
            classes: The requested classes.
        """
        self._learn({y for ys in rows.values() for y in ys})
        kinds, placed = self._kinds_of(classes), self._kinds_of((ROOT,))
        truth = {}
        for x, ys in rows.items():
            if not kinds.isdisjoint(ys):
                truth[x] = True
            elif placed.issuperset(ys):
                truth[x] = False
        return truth

    def _kinds_of(self, classes: tuple[str, ...]) -> frozenset[str]:
        """Return these classes, and all their subclasses encountered so far."""
        if classes not in self._kinds:
            seen = set(classes)
            stack = list(classes)
            while stack:
                new = [c for c in self._below.get(stack.pop(), ()) if c not in seen]
                seen.update(new)
                stack += new
            self._kinds[classes] = frozenset(seen)
        return self._kinds[classes]

    def _learn(self, classes: Iterable[str]) -> None:
        frontier = set(classes) - self._met
        if frontier:
            self._kinds.clear()
        while frontier:
            self._met |= frontier
            rows = self._subclass_of.at(frontier)
            for c, above in rows.items():
                for broader in above:
                    self._below.setdefault(broader, []).append(c)
            frontier = rows.outputs() - self._met


class FactWorld(Protocol):
    """Facts about entities."""

    def relations(self) -> tuple[str, ...]:
        """Names of the catalog's relations."""

    def predicates(self) -> tuple[str, ...]:
        """Names of the catalog's predicates."""

    def relation(self, name: str) -> Relation:
        """Return the relation with that name (`father`, `father.inv`, or a property id such as
        `P26`).
        """

    def predicate(self, name: str) -> Predicate:
        """Return the predicate with that name (`is_occupation_actor`)."""

    def matching(self, relation: str, *values: str) -> Predicate:
        """Return the predicate that is true if any of these values is among the values of a
        relation.

        `matching("occupation", "Q33999")` asks for actors. If the values of the relation are
        classes, a subclass counts too.
        """

    def label(self, id: str) -> str | None:
        """Return the label of an entity, or None if it has none."""

    def labels(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the labels of many entities in one go. Entities without a label are omitted."""

    def ids(self, label: str) -> tuple[str, ...]:
        """Return every entity with that label."""

    def namesakes(self, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return entities by label, for many labels in one go."""

    def sources(self) -> tuple[Source, ...]:
        """Sources of the facts, by digest."""


class CatalogueWorld:
    """Base class of all worlds: provides the catalog's names, and relations and predicates that are
    computed on first use.

    Subclasses implement `_pairs_of`, which returns the facts of a property.
    """

    def __init__(self) -> None:
        self._relations: dict[Direction, Relation] = {}
        self._predicates: dict[tuple[Direction, tuple[str, ...]], Predicate] = {}

    def relations(self) -> tuple[str, ...]:
        """Names of the catalog's relations."""
        return RELATIONS

    def predicates(self) -> tuple[str, ...]:
        """Names of the catalog's predicates."""
        return tuple(PREDICATES)

    def relation(self, name: str) -> Relation:
        """Return the relation with that name (`father`, `father.inv`, or a property id such as
        `P26`).
        """
        return self._relation(direction(name))

    def predicate(self, name: str) -> Predicate:
        """Return the predicate with that name."""
        what = asked(name)
        return self.matching(what.prop, what.object)

    def matching(self, relation: str, *values: str) -> Predicate:
        """Return the predicate that is true if any of these values, or a subclass if they are
        classes, is among the values of a relation.
        """
        way = direction(relation)
        if (way, values) not in self._predicates:
            self._predicates[way, values] = self._matching(
                self._relation_with(way, values), way, values
            )
        return self._predicates[way, values]

    def _relation(self, way: Direction) -> Relation:
        if way not in self._relations:
            self._relations[way] = self._compute_relation(way)
        return self._relations[way]

    def _compute_relation(self, way: Direction) -> Relation:
        if way.inverse:
            return self._relation(way.flipped).inverse()
        return Relation.of_pairs(self._pairs_of(way))

    def _pairs_of(self, way: Direction) -> Iterable[tuple[str, str]]:
        """Return all pairs of a property, in its own direction."""
        raise NotImplementedError

    def _relation_with(self, way: Direction, values: tuple[str, ...]) -> Relation:
        """Return the relation in which a predicate looks for values."""
        return self._relation(way)

    def _matching(self, relation: Relation, way: Direction, values: tuple[str, ...]) -> Predicate:
        if way.inverse or way.prop not in CLASS_PROPERTIES:
            return Predicate.matching(relation, *values)
        classes = self._classes
        asked_classes = values if way.prop == INSTANCE_OF else ()
        return Predicate.of_rows(relation, lambda rows: classes.truth(rows, values), asked_classes)

    @cached_property
    def _classes(self) -> ClassPaths:
        return ClassPaths(self._relation(Direction(SUBCLASS_OF)))


class TableWorld(CatalogueWorld):
    """A world whose facts are all local. Each property is a table of pairs that is read on first
    use.
    """

    def __init__(
        self,
        read: Callable[[str], Iterable[tuple[str, str]]],
        read_labels: Callable[[], Iterable[tuple[str, str]]],
        sources: Callable[[], tuple[Source, ...]],
    ) -> None:
        """Set up the world.

        Args:
            read: Reads all pairs of a property id.
            read_labels: Reads all pairs of entity and label. If an entity has several labels, the
                first in code-point order is used, so that the order of the file has no effect.
                Blank labels are ignored.
            sources: Sources of the tables.
        """
        super().__init__()
        self._read = read
        self._read_labels = read_labels
        self._sources = sources

    def _pairs_of(self, way: Direction) -> Iterable[tuple[str, str]]:
        return self._read(way.prop)

    def label(self, id: str) -> str | None:
        """Return the label of an entity."""
        return self._labels.get(id)

    def labels(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the labels of many entities. Entities without a label are omitted."""
        known = self._labels
        return {x: known[x] for x in ids if x in known}

    def ids(self, label: str) -> tuple[str, ...]:
        """Return every entity with that label."""
        return self._ids.get(label, ())

    def namesakes(self, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return every entity with each of these labels."""
        return {label: self.ids(label) for label in labels}

    def sources(self) -> tuple[Source, ...]:
        """The files, or the settings of a synthetic world, by digest."""
        return self._sources()

    @cached_property
    def _labels(self) -> dict[str, str]:
        labels: dict[str, str] = {}
        for x, label in self._read_labels():
            if label.strip() and (x not in labels or label < labels[x]):
                labels[x] = label
        return labels

    @cached_property
    def _ids(self) -> Relation:
        return Relation.of_pairs((label, x) for x, label in self._labels.items())
