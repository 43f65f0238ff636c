"""What a class counts as, by the graph's "subclass of" paths.

A film actor is an actor, because a path of subclasses leads from one to the other. A class from which a path leads to the root of
all classes, and none to the asked one, is known to be something else. Where no path reaches the root, the graph is silent: the
Wikidata subset does not say what a stage actor is a kind of, so whoever is one counts neither as an actor nor as no actor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taskloom.suites.taskbench.worlds.facts.properties import ROOT
from taskloom.suites.taskbench.worlds.facts.relation import Relation


class ClassPaths:
    """The classes above those that were met so far; more are learnt a level at a time, so that a server is asked seldom."""

    def __init__(self, subclass_of: Relation) -> None:
        self._subclass_of = subclass_of
        self._met: set[str] = set()
        self._below: dict[str, list[str]] = {}
        self._kinds: dict[tuple[str, ...], frozenset[str]] = {}

    def truth(self, rows: Mapping[str, tuple[str, ...]], classes: tuple[str, ...]) -> dict[str, bool]:
        """Decide of each input whether any of its values is a kind of any of the classes; where the graph is silent, leave it out.

        Args:
            rows: From an input to its values, which are classes or occupations.
            classes: What is asked for.
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
        """Return these classes and all below them that were met."""
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
