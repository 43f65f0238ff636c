"""Set-valued maps between entities, and predicates over them.

A factual task is a function from an entity to a set of entities (a relation) or to yes and no (a
predicate). Both are plain read-only mappings here, in the order of the ids, so that nothing depends
on how a source happened to store its facts.

A relation from a file or from the synthetic world is whole: what it does not list does not exist.
One from a large endpoint is known on a sample of its domain only, and then carries `ask`, by which
`at` learns the rows of further ids. The operators use nothing but `at`, so the same composition is
right on both.
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
        """Take rows in any order.

        Args:
            rows: From input to outputs; empty rows are left out, since an input without an answer
                is outside the domain.
            ask: Where the relation is known on a sample only: the rows of further ids.
            flip: Where the inverse cannot be had by turning the known rows round: how to get it.
        """
        # Most rows are one value that is in order already: looking first makes all compositions a
        # third faster.
        self._rows = {
            x: ys if type(ys) is tuple and len(ys) == 1 else tuple(sorted(set(ys)))
            for x, ys in sorted(rows.items())
            if ys
        }
        self._ask = ask
        self._flip = flip

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]]) -> Relation:
        """Return the relation that holds of exactly these pairs."""
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
        """Return inputs with their outputs, in order."""
        return self._rows.items()

    def keys(self) -> KeysView[str]:
        """Return the inputs, in order."""
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
        """Outputs of one input, empty if there are none. If only a sample is known, further inputs
        are queried.
        """
        # Single inputs come by the thousand a second; most are answered by one look.
        row = self._rows.get(x)
        if row is not None or self._ask is None:
            return row or ()
        return self.at((x,)).get(x, ())

    def outputs(self) -> set[str]:
        """All outputs of all inputs."""
        return set().union(*self._rows.values())

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Return every input with every output, in order."""
        for x, ys in self._rows.items():
            for y in ys:
                yield x, y

    def at(self, ids: Iterable[str]) -> Relation:
        """Return the relation on these inputs, complete: what is not known yet is asked for, all at
        once.
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
        """Take truth values in any order.

        Args:
            truth: From entity to yes or no.
            ask: Where the domain is a sample: the truth for further ids.
            classes: The classes that it asks about, where it is made of "is an instance of":
                negatives come from near them.
        """
        self._truth = dict(sorted(truth.items()))
        self._ask = ask
        self.classes = tuple(sorted(set(classes)))

    @classmethod
    def matching(cls, relation: Relation, *values: str) -> Predicate:
        """Build the predicate that is true where any output is one of the values, and false where
        there are outputs and none is.

        The published reference keeps one arbitrary output of a many-valued relation instead, so
        that an actor who is also a politician may be labelled as no actor.
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
        """Build the predicate whose truth follows from the outputs of a relation.

        Args:
            relation: Its inputs are the domain, as far as their truth is known.
            truth: From rows of the relation to yes and no; inputs that it leaves out are unknown.
            classes: The classes that it asks about, where it is made of "is an instance of".
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
        """Return entities with their truth, in order."""
        return self._truth.items()

    def keys(self) -> KeysView[str]:
        """Return the entities, in order."""
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
        """The predicate on those of these entities that are in its domain."""
        wanted = set(ids)
        truth = {x: self._truth[x] for x in wanted if x in self._truth}
        if self._ask is not None and len(truth) < len(wanted):
            truth.update(self._ask(sorted(wanted - truth.keys())))
        return Predicate(truth, self._ask, self.classes)
