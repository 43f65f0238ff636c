"""All minimal supporting sets.

A set of sentences supports an answer when the answer is true in every world in which those
sentences are true. Of a sentence outside the set the reader knows whom and what it is about (or
nobody could ever trust that somebody stayed where they were), but not what it says: whoever it
places may be anywhere afterwards; the object it is about may be where it was, anywhere else, or
with anybody it names. A sentence with a pronoun counts only together with the sentence that names
its subject. More sentences can only add knowledge, so "supports" is monotone, and a set that
supports an answer also entails it when read as a story of its own.

Sets of sentences are bit masks: bit i is sentence i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.events import Event

Test = Callable[[int], bool]
"""Whether a set of sentences (a bit mask) supports the answer."""


def needs(events: Sequence[Event]) -> list[int]:
    """Return, for each sentence, the set that must be read to understand it: itself, and back to
    the last one without a pronoun.
    """
    masks: list[int] = []
    before, own = 0, 1
    for event in events:
        before = own | before if event.pronoun else own
        masks.append(before)
        own <<= 1
    return masks


def bits(mask: int) -> list[int]:
    """List the positions of the ones in a mask, ascending."""
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions


def minimal_sets(universe: int, supports: Test) -> list[int]:
    """Find all minimal sets within a universe that pass a monotone test; none if the whole universe
    fails.

    Reiter's hitting-set tree: each set that was found is excluded by leaving out each of its
    members in turn, so every other minimal set avoids at least one of them and is reached.
    """
    minimal: list[int] = []
    open_nodes, seen = [0], {0}
    while open_nodes:
        without = open_nodes.pop()
        chosen = next((m for m in minimal if not m & without), 0)
        if not chosen:
            rest = universe & ~without
            if not supports(rest):
                continue
            chosen = _shrink(rest, supports)
            minimal.append(chosen)
            if not chosen:
                return [0]  # the answer needs no sentence at all
        for i in bits(chosen):
            node = without | (1 << i)
            if node not in seen:
                seen.add(node)
                open_nodes.append(node)
    return minimal


def _shrink(mask: int, supports: Test) -> int:
    """Reduce a set to a minimal one that still passes; late sentences are tried first, so that the
    earliest survive.
    """
    for i in reversed(bits(mask)):
        without = mask & ~(1 << i)
        if supports(without):
            mask = without
    return mask


def in_order(masks: Iterable[int]) -> list[tuple[int, ...]]:
    """Sort sets as tuples of sentences, shortest first, then earliest: the first is the official
    one.
    """
    sets = [tuple(bits(m)) for m in masks]
    return sets if len(sets) < 2 else sorted(sets, key=lambda t: (len(t), t))


class Located:
    """The supports of statements about one variable: which places it may have, by a set of
    sentences alone.
    """

    __slots__ = ("_everywhere", "_nodes", "_variable", "universe")

    def __init__(self, knowledge: Knowledge, variable: int, need: Sequence[int]) -> None:
        self._variable = variable
        self._everywhere = knowledge.everywhere
        # For each variable that is tied to this one: what narrows it, and which it is equal to, by
        # what must be read.
        self._nodes: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        self.universe = 0
        variables = [variable]
        for here in variables:  # grows on the way
            narrowings = [(need[s], mask) for mask, s in knowledge.narrowings[here]]
            links: list[tuple[int, int]] = []
            for needed, _ in narrowings:
                self.universe |= needed
            for other, sentences in knowledge.links.get(here, ()):
                needed = 0
                for s in sentences:
                    needed |= need[s]
                links.append((needed, other))
                self.universe |= needed
                if other not in variables:
                    variables.append(other)
            self._nodes[here] = narrowings, links

    def domain(self, read: int) -> int:
        """Return the places the variable may have when only those sentences are read."""
        mask, nodes = self._everywhere, self._nodes
        variables = [self._variable]
        for here in variables:  # grows on the way
            narrowings, links = nodes[here]
            for needed, allowed in narrowings:
                if needed & read == needed:
                    mask &= allowed
            for needed, other in links:
                if needed & read == needed and other not in variables:
                    variables.append(other)
        return mask

    def sets(self, wanted: Callable[[int], bool]) -> list[int]:
        """Find all minimal sets under which the domain is as wanted; `wanted` must stay true when
        the domain shrinks.
        """
        return minimal_sets(self.universe, lambda read: wanted(self.domain(read)))


def product(*alternatives: Sequence[int]) -> list[int]:
    """Return the minimal unions of one set from each group of alternatives."""
    unions = {0}
    for group in alternatives:
        unions = {u | m for u in unions for m in group}
    if len(unions) == 1:
        return list(unions)
    return [u for u in unions if not any(v != u and v & u == v for v in unions)]
