"""Set-valued maps between entities, and predicates on entities.

A factual task is a function from an entity to a set of entities (a relation) or to yes or no (a
predicate). Relations and predicates are plain read-only mappings, ordered by id, so that nothing
depends on how a source stores its facts.

A relation from a file or from the synthetic world is complete: a pair that it does not list does
not exist. A relation from a large endpoint is known only for a sample of its domain. It has a
function `ask`, with which `at` requests the rows of other ids. The operators only use `at`, so
compositions are correct in either case.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping

Rows = Mapping[str, tuple[str, ...]]
"""Map from an input id to its output ids, sorted and never empty."""


class Relation(Mapping[str, tuple[str, ...]]):
    """A set-valued map between entity ids.

    >>> parent = Relation.of_pairs([("ann", "bob"), ("ann", "cid"), ("dan", "bob")])
    >>> parent["ann"], parent.of("zoe"), parent.inverse()["bob"]
    (('bob', 'cid'), (), ('ann', 'dan'))
    """

    __slots__ = ("_ask", "_flip", "_rows")

    def __init__(
        self,
        rows: Mapping[str, Iterable[str]],
        ask: Callable[[list[str]], Rows] | None = None,
        flip: Callable[[], Relation] | None = None,
    ) -> None:
        """Store rows, given in any order.

        Args:
            rows: Map from input to outputs. Empty rows are omitted, because an input without an
                answer is outside the domain.
            ask: Requests the rows of other ids, if only a sample of the relation is known.
            flip: Builds the inverse, if it cannot be computed from the known rows.
        """
        # Most rows have a single value and need no sorting. Checking this first makes all
        # compositions a third faster.
        self._rows = {
            x: ys if type(ys) is tuple and len(ys) == 1 else tuple(sorted(set(ys)))
            for x, ys in sorted(rows.items())
            if ys
        }
        self._ask = ask
        self._flip = flip

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]]) -> Relation:
        """Build the relation that consists of exactly these pairs."""
        rows: dict[str, list[str]] = {}
        for x, y in pairs:
            rows.setdefault(x, []).append(y)
        return cls(rows)

    def __getitem__(self, x: str) -> tuple[str, ...]:
        return self._rows[x]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[str, tuple[str, ...]]:
        """Inputs with their outputs, in order."""
        return self._rows.items()

    def keys(self) -> KeysView[str]:
        """Inputs, in order."""
        return self._rows.keys()

    def __repr__(self) -> str:
        return (
            f"Relation({len(self)} inputs, {self.size} pairs{', a sample' if self.partial else ''})"
        )

    @property
    def partial(self) -> bool:
        """True if only a sample of the domain is listed and `at` may find more."""
        return self._ask is not None

    @property
    def size(self) -> int:
        """Number of pairs."""
        return sum(map(len, self._rows.values()))

    def of(self, x: str) -> tuple[str, ...]:
        """Return the outputs for an input, or an empty tuple. If only a sample is known, unknown
        inputs are requested.
        """
        # Called thousands of times per second. A single look-up answers most calls.
        row = self._rows.get(x)
        if row is not None or self._ask is None:
            return row or ()
        return self.at((x,)).get(x, ())

    def outputs(self) -> set[str]:
        """All outputs of all inputs."""
        return set().union(*self._rows.values())

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every input with every output, in order."""
        for x, ys in self._rows.items():
            for y in ys:
                yield x, y

    def at(self, ids: Iterable[str]) -> Relation:
        """Return the complete relation for these inputs. Unknown rows are requested in one
        batch.
        """
        wanted = set(ids)
        rows = {x: self._rows[x] for x in wanted if x in self._rows}
        if self._ask is not None and len(rows) < len(wanted):
            rows.update(self._ask(sorted(wanted - rows.keys())))
        return Relation(rows, self._ask, self._flip)

    def inverse(self) -> Relation:
        """Return the relation from outputs to inputs."""
        if self._flip is not None:
            return self._flip()
        return Relation.of_pairs((y, x) for x, y in self.pairs())


class Predicate(Mapping[str, bool]):
    """True or False for every entity of a domain. Entities outside the domain are unknown, not
    false.

    >>> actor = Predicate.matching(Relation({"ann": ["actor", "poet"], "bob": ["poet"]}), "actor")
    >>> actor["ann"], actor["bob"], "cid" in actor
    (True, False, False)
    """

    __slots__ = ("_ask", "_truth", "classes")

    def __init__(
        self,
        truth: Mapping[str, bool],
        ask: Callable[[list[str]], Mapping[str, bool]] | None = None,
        classes: Iterable[str] = (),
    ) -> None:
        """Store truth values, given in any order.

        Args:
            truth: Maps entities to True or False.
            ask: Requests the truth for other ids, if the domain is a sample.
            classes: The classes in question, if the predicate is based on "is an instance of".
                Negatives come from similar classes.
        """
        self._truth = dict(sorted(truth.items()))
        self._ask = ask
        self.classes = tuple(sorted(set(classes)))

    @classmethod
    def matching(cls, relation: Relation, *values: str) -> Predicate:
        """Build the predicate that is true if any output is one of the values, and false if there
        are outputs but none is one of the values.

        The published reference instead keeps one arbitrary output of a relation with several, so an
        actor who is also a politician may be labelled as not an actor.
        """
        wanted = frozenset(values)
        return cls.of_rows(
            relation, lambda rows: {x: not wanted.isdisjoint(ys) for x, ys in rows.items()}
        )

    @classmethod
    def of_rows(
        cls,
        relation: Relation,
        truth: Callable[[Rows], Mapping[str, bool]],
        classes: Iterable[str] = (),
    ) -> Predicate:
        """Build a predicate whose truth follows from the outputs of a relation.

        Args:
            relation: Relation whose inputs form the domain, if their truth is known.
            truth: Maps rows of the relation to True or False. Omitted inputs are unknown.
            classes: The classes in question, if the predicate is based on "is an instance of".
        """

        def ask(ids: list[str]) -> Mapping[str, bool]:
            return truth(relation.at(ids))

        return cls(truth(relation), ask if relation.partial else None, classes)

    def __getitem__(self, x: str) -> bool:
        return self._truth[x]

    def __iter__(self) -> Iterator[str]:
        return iter(self._truth)

    def __len__(self) -> int:
        return len(self._truth)

    def items(self) -> ItemsView[str, bool]:
        """Entities with their truth, in order."""
        return self._truth.items()

    def keys(self) -> KeysView[str]:
        """Entities, in order."""
        return self._truth.keys()

    def __repr__(self) -> str:
        return (
            f"Predicate({len(self.positives)} true of"
            f" {len(self)}{', a sample' if self.partial else ''})"
        )

    @property
    def partial(self) -> bool:
        """True if only a sample of the domain is listed and `at` may find more."""
        return self._ask is not None

    @property
    def positives(self) -> tuple[str, ...]:
        """Entities for which it is true."""
        return tuple(x for x, true in self._truth.items() if true)

    @property
    def negatives(self) -> tuple[str, ...]:
        """Entities for which it is false."""
        return tuple(x for x, true in self._truth.items() if not true)

    def at(self, ids: Iterable[str]) -> Predicate:
        """Return the predicate for those of these entities that are in its domain."""
        wanted = set(ids)
        truth = {x: self._truth[x] for x in wanted if x in self._truth}
        if self._ask is not None and len(truth) < len(wanted):
            truth.update(self._ask(sorted(wanted - truth.keys())))
        return Predicate(truth, self._ask, self.classes)
