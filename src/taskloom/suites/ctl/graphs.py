"""Sampling graphs as automata, with exact counts and a numbering of all their expressions.

A graph says which function may come next. Together with the current symbol it is a deterministic automaton, so the
number of expressions of a length is a sum over states, and every expression has a rank. `Pool.unrank` and `Pool.rank`
convert whole arrays in both directions, so drawing without replacement permutes ranks, and membership in training is
a look-up.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.core.seeding import WORD_LIMIT, Permutation
from taskloom.suites.ctl.world import SymbolWorld

Ints = NDArray[Any]
"""int64, or Python integers (object) where a space is larger than the machine's integers."""


@dataclass(frozen=True, slots=True)
class Graph:
    """`step[node, symbol, function]` is the next node, or -1 where the function may not come there; node 0 is the start."""

    step: NDArray[np.int64]
    accept: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Expressions:
    """Many expressions of one length: start symbols, functions in order of application, and the value after each."""

    symbols: NDArray[np.int64]
    functions: NDArray[np.int64]
    values: NDArray[np.int64]


def _empty(world: SymbolWorld, nodes: int) -> NDArray[np.int64]:
    return np.full((nodes, world.symbols, world.functions), -1, dtype=np.int64)


def anything(world: SymbolWorld, members: tuple[int, ...] | None = None) -> Graph:
    """Build the graph that allows any function after any function."""
    step = _empty(world, 1)
    step[0][:, list(members) if members is not None else slice(None)] = 0
    return Graph(step, (True,))


def repeating(world: SymbolWorld) -> Graph:
    """Build the graph that takes all functions from one group: training of R, test of A."""
    groups = list(world.groups.values())
    step = _empty(world, len(groups) + 1)
    for node, members in enumerate(groups, 1):
        step[0][:, list(members)] = node
        step[node][:, list(members)] = node
    return Graph(step, (True,) * (len(groups) + 1))


def alternating(world: SymbolWorld) -> Graph:
    """Build the graph that takes each function from another group than the one before: training of A, test of R."""
    groups = list(world.groups.values())
    step = _empty(world, len(groups) + 1)
    for node, members in enumerate(groups, 1):
        for before in range(len(groups) + 1):
            if before != node:
                step[before][:, list(members)] = node
    return Graph(step, (True,) * (len(groups) + 1))


def staged(world: SymbolWorld, kind: str) -> Graph:
    """Build a graph of S: stage 1, then stage 2, repeatedly; `kind` says which stage-2 functions may follow.

    seen: the path's own, or a shared one on an allowed symbol (training). cross: the other path's (test). overlap: any shared one.
    unseen-symbols: a shared one on a symbol that is not allowed. unseen: cross or unseen-symbols. any: all of stage 2.
    """
    g = world.groups
    step = _empty(world, 3)
    for path, (first, own, other) in enumerate((("a1", "a2", "b2"), ("b1", "b2", "a2"))):
        node = path + 1
        step[0][:, list(g[first])] = node
        if kind in ("seen", "any"):
            step[node][:, list(g[own])] = 0
        if kind in ("cross", "unseen", "any"):
            step[node][:, list(g[other])] = 0
        assert world.allowed is not None
        for i, f in enumerate(g["o"]):
            allowed = world.allowed[path, i]
            if kind in ("overlap", "any"):
                step[node][:, f] = 0
            elif kind == "seen":
                step[node][allowed, f] = 0
            elif kind in ("unseen", "unseen-symbols"):
                step[node][~allowed, f] = 0
    return Graph(step, (True, False, False))


def with_new(world: SymbolWorld) -> Graph:
    """Build the graph of chains with at least one function that training shows only alone (`ctl/length`)."""
    step = _empty(world, 2)
    step[0][:, list(world.groups["known"])] = 0
    step[0][:, list(world.groups["new"])] = 1
    step[1] = 1
    return Graph(step, (False, True))


def split_graph(world: SymbolWorld, variant: str, split: str) -> Graph:
    """Build the graph that a split of a variant is drawn from; `seen` is that of training."""
    if split == "all" or (split == "all-pairs" and variant != "S"):
        return anything(world)
    if split == "new-primitives":
        return with_new(world)
    if variant == "length":
        return anything(world, world.groups["known"])
    if variant == "S":
        kinds = {
            "ood": "cross",
            "cross-unseen-symbols": "unseen-symbols",
            "unseen-pairs": "unseen",
            "all-pairs": "any",
        }
        return repeating(world) if split == "self-loop" else staged(world, kinds.get(split, split))
    same = (variant == "R") == (split == "seen")
    return repeating(world) if same or split == "self-loop" else alternating(world)


class Pool:
    """All expressions of one length that a graph allows, numbered from 0."""

    def __init__(self, graph: Graph, world: SymbolWorld, length: int) -> None:
        self.length = length
        self.world = world
        nodes, symbols, functions = graph.step.shape
        self._symbols = symbols
        # A state is a node and a symbol; the successor of (node, s) by f is (step[node, s, f], images[f, s]).
        following = graph.step * symbols + world.images.T[None, :, :]
        self._next = np.where(graph.step >= 0, following, -1).reshape(nodes * symbols, functions)
        ways: Ints = np.repeat(np.array(graph.accept, dtype=object), symbols).astype(object) + 0
        self._through: list[Ints] = []
        for _ in range(length):
            branch = np.where(self._next >= 0, ways[self._next], 0)
            self._through.append(np.cumsum(branch, axis=1))
            ways = self._through[-1][:, -1]
        self._through.reverse()
        self._start = np.cumsum(ways[:symbols])
        self.size = int(self._start[-1])

    @cached_property
    def _narrow(self) -> bool:
        """Return whether all numbers that the search needs fit into machine integers."""
        return self.size * len(self._next) < WORD_LIMIT

    @cached_property
    def _flat(self) -> list[tuple[NDArray[np.int64], int]]:
        """Compute, per step, the running counts of all states in one rising array, each state lifted above the one before."""
        lifted = []
        for through in self._through:
            height = int(through[:, -1].max())
            base = (np.arange(len(through), dtype=np.int64) * height)[:, None]
            lifted.append(((through.astype(np.int64) + base).ravel(), height))
        return lifted

    def unrank(self, ranks: Ints) -> Expressions:
        """Return the expressions of these ranks."""
        if not self._narrow:
            return self._unrank_wide(ranks)
        rest = np.asarray(ranks, dtype=np.int64)
        start = self._start.astype(np.int64)
        state = np.searchsorted(start, rest, side="right")
        rest = rest - np.where(state > 0, start[state - 1], 0)
        symbols = state
        width = self._next.shape[1]
        functions = np.empty((len(rest), self.length), dtype=np.int64)
        values = np.empty_like(functions)
        successor = self._next.ravel()
        for i, (flat, height) in enumerate(self._flat):
            place = np.searchsorted(flat, rest + state * height, side="right")
            f = place - state * width
            before = np.where(f > 0, flat[place - 1] - state * height, 0)
            rest = rest - before
            state = successor[place]
            functions[:, i] = f
            values[:, i] = state % self._symbols
        return Expressions(symbols, functions, values)

    def _unrank_wide(self, ranks: Ints) -> Expressions:
        start = [int(x) for x in self._start]
        through = [[[int(x) for x in row] for row in step] for step in self._through]
        symbols = np.empty(len(ranks), dtype=np.int64)
        functions = np.empty((len(ranks), self.length), dtype=np.int64)
        values = np.empty_like(functions)
        for row, given in enumerate(ranks):
            rest = int(given)
            state = bisect_right(start, rest)
            rest -= start[state - 1] if state else 0
            symbols[row] = state
            for i in range(self.length):
                counts = through[i][state]
                f = bisect_right(counts, rest)
                rest -= counts[f - 1] if f else 0
                state = int(self._next[state, f])
                functions[row, i] = f
                values[row, i] = state % self._symbols
        return Expressions(symbols, functions, values)

    def rank(self, symbols: NDArray[np.int64], functions: NDArray[np.int64]) -> Ints:
        """Return the ranks of expressions; -1 for those that the graph does not allow."""
        kind: Any = np.int64 if self._narrow else object
        state = symbols.copy()
        inside = np.ones(len(symbols), dtype=bool)
        start, through = self._start.astype(kind), [t.astype(kind) for t in self._through]
        ranks = np.where(state > 0, start[state - 1], 0).astype(kind)
        for i in range(self.length):
            f = functions[:, i]
            ranks = ranks + np.where(f > 0, through[i][state, f - 1], 0)
            width = through[i][state, f] - np.where(f > 0, through[i][state, f - 1], 0)
            inside &= (self._next[state, f] >= 0) & (width > 0).astype(bool)
            state = np.where(inside, self._next[state, f], 0)
        return np.where(inside, ranks, -1)


class ChainPool(Pool):
    """The expressions of a free graph whose chain of functions lies in positions low..high of a keyed order of all chains.

    `ctl/length` keeps some chains out of training for every start symbol; both sides are then a range of one permutation.
    """

    def __init__(
        self,
        world: SymbolWorld,
        members: tuple[int, ...],
        length: int,
        order: Permutation,
        low: int,
        high: int,
    ) -> None:
        super().__init__(anything(world, members), world, length)
        self._members = np.array(members, dtype=np.int64)
        self._order = order
        self._low = low
        self._high = high
        self.size = (high - low) * world.symbols

    def unrank(self, ranks: Ints) -> Expressions:
        """Return the expressions of these ranks."""
        symbols = (ranks % self._symbols).astype(np.int64)
        chain = self._order(ranks // self._symbols + self._low)
        functions = np.empty((len(ranks), self.length), dtype=np.int64)
        values = np.empty_like(functions)
        state = symbols
        for i in range(self.length):
            functions[:, i] = self._members[(chain % len(self._members)).astype(np.int64)]
            chain = chain // len(self._members)
            state = self.world.images[functions[:, i], state]
            values[:, i] = state
        return Expressions(symbols, functions, values)

    def rank(self, symbols: NDArray[np.int64], functions: NDArray[np.int64]) -> Ints:
        """Return the ranks of expressions; -1 for those outside."""
        place = np.full(self.world.functions, -1, dtype=np.int64)
        place[self._members] = np.arange(len(self._members))
        digits = place[functions]
        inside = (digits >= 0).all(axis=1)
        kind: Any = object if self._order.size > WORD_LIMIT else np.int64
        chain = np.zeros(len(symbols), dtype=kind)
        for i in reversed(range(self.length)):
            chain = chain * len(self._members) + np.where(inside, digits[:, i], 0)
        position = self._order.inverse(chain)
        inside &= ((position >= self._low) & (position < self._high)).astype(bool)
        return np.where(inside, (position - self._low) * self._symbols + symbols, -1)
