"""Sampling graphs as automata, with exact counts and ranks of all their expressions.

A graph defines which functions may come next. Together with the current symbol it forms a
deterministic automaton, so the number of expressions of a length is a sum over states, and every
expression has a rank. `Pool.unrank` and `Pool.rank` convert whole arrays in either direction.
Drawing without replacement is then a permutation of ranks, and membership in training is a look-up.

Training takes the first expressions of an order (`DrawOrder`), which converts positions to
expressions and back. `PoolOrder` does this without storing expressions, by a keyed permutation of a
pool. `DrawnOrder` stores the drawn expressions in arrays, for draws in which an expression depends
on earlier ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import WORD_LIMIT, Key, Permutation
from taskloom.suites.ctl.world import SymbolWorld

Ints = NDArray[Any]
"""int64, or Python integers (dtype object) if a space is too large for machine integers."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A sampling graph. `step[node, symbol, function]` is the next node, or -1 if the function is
    not allowed there. Node 0 is the start.
    """

    step: NDArray[np.int64]
    accept: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Expressions:
    """Many expressions of one length: start symbols, functions in order of application, and the
    value after each function.
    """

    symbols: NDArray[np.int64]
    functions: NDArray[np.int64]
    values: NDArray[np.int64]


def applied(world: SymbolWorld, symbols: Ints, functions: Ints) -> Expressions:
    """Expressions of these functions on these symbols, with the values that the tables give."""
    values = np.empty_like(functions)
    value = symbols
    for i in range(functions.shape[1]):
        value = world.images[functions[:, i], value]
        values[:, i] = value
    return Expressions(symbols, functions, values)


def _empty(world: SymbolWorld, nodes: int) -> NDArray[np.int64]:
    return np.full((nodes, world.symbols, world.functions), -1, dtype=np.int64)


def anything(world: SymbolWorld, members: tuple[int, ...] | None = None) -> Graph:
    """Build the graph that allows every sequence of functions."""
    step = _empty(world, 1)
    step[0][:, list(members) if members is not None else slice(None)] = 0
    return Graph(step, (True,))


def repeating(world: SymbolWorld) -> Graph:
    """Build the graph whose functions all belong to one group. Used for training in R and for
    testing in A.
    """
    groups = list(world.groups.values())
    step = _empty(world, len(groups) + 1)
    for node, members in enumerate(groups, 1):
        step[0][:, list(members)] = node
        step[node][:, list(members)] = node
    return Graph(step, (True,) * (len(groups) + 1))


def alternating(world: SymbolWorld) -> Graph:
    """Build the graph in which each function belongs to a different group than the previous one.
    Used for training in A and for testing in R.
    """
    groups = list(world.groups.values())
    step = _empty(world, len(groups) + 1)
    for node, members in enumerate(groups, 1):
        for before in range(len(groups) + 1):
            if before != node:
                step[before][:, list(members)] = node
    return Graph(step, (True,) * (len(groups) + 1))


def staged(world: SymbolWorld, kind: str) -> Graph:
    """Build a graph of S, which alternates between stages 1 and 2. `kind` selects the stage-2
    functions that may follow a stage-1 function.

    seen (training): functions of the same path, or shared ones on an allowed symbol. cross (test):
    functions of the other path. overlap: shared functions. unseen-symbols: shared functions on a
    symbol that is not allowed. unseen: cross or unseen-symbols. any: all functions of stage 2.
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
    """Build the graph of chains with at least one function that training shows only on its own
    (`ctl/length`).
    """
    step = _empty(world, 2)
    step[0][:, list(world.groups["known"])] = 0
    step[0][:, list(world.groups["new"])] = 1
    step[1] = 1
    return Graph(step, (False, True))


def split_graph(world: SymbolWorld, variant: str, split: str) -> Graph:
    """Return the graph for a split of a variant. `seen` is the graph for training."""
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
    """All expressions of one length that a graph allows, ranked from 0."""

    def __init__(self, graph: Graph, world: SymbolWorld, length: int) -> None:
        self.length = length
        self.world = world
        nodes, symbols, functions = graph.step.shape
        self._symbols = symbols
        # A state is a node and a symbol. From (node, s), function f leads to (step[node, s, f],
        # images[f, s]).
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
        """True if all numbers in the search fit into machine integers."""
        return self.size * len(self._next) < WORD_LIMIT

    @cached_property
    def _flat(self) -> list[tuple[NDArray[np.int64], int]]:
        """For each step, the cumulative counts of all states in one ascending array. Each state is
        offset to start above the previous one.
        """
        lifted = []
        for through in self._through:
            height = int(through[:, -1].max())
            base = (np.arange(len(through), dtype=np.int64) * height)[:, None]
            lifted.append(((through.astype(np.int64) + base).ravel(), height))
        return lifted

    def unrank(self, ranks: Ints) -> Expressions:
        """Return the expressions with these ranks."""
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
        """Return the ranks of expressions, or -1 for those that the graph does not allow."""
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
    """Expressions whose chains are at positions low to high of a keyed order of all chains. The
    graph must allow every sequence of functions.

    `ctl/length` excludes some chains from training, with every start symbol. Training chains and
    excluded chains are then two ranges of one permutation.
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
        """Return the expressions with these ranks."""
        symbols = (ranks % self._symbols).astype(np.int64)
        chain = self._order(ranks // self._symbols + self._low)
        functions = np.empty((len(ranks), self.length), dtype=np.int64)
        for i in range(self.length):
            functions[:, i] = self._members[(chain % len(self._members)).astype(np.int64)]
            chain = chain // len(self._members)
        return applied(self.world, symbols, functions)

    def rank(self, symbols: NDArray[np.int64], functions: NDArray[np.int64]) -> Ints:
        """Return the ranks of expressions, or -1 for those outside the range."""
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


class DrawOrder(Protocol):
    """An order of the expressions of one length."""

    def expressions(self, positions: Ints) -> Expressions:
        """Return the expressions at these positions."""
        ...

    def positions(self, expressions: Expressions) -> Ints:
        """Return the positions of expressions, or -1 for those that are not in the order."""
        ...


class PoolOrder:
    """A pool in a keyed random order."""

    def __init__(self, pool: Pool, order: Permutation | GroupedOrder) -> None:
        self._pool = pool
        self._order = order

    def expressions(self, positions: Ints) -> Expressions:
        """Return the expressions at these positions."""
        return self._pool.unrank(self._order(positions))

    def positions(self, expressions: Expressions) -> Ints:
        """Return the positions of expressions, or -1 for those that are not in the pool."""
        ranks = self._pool.rank(expressions.symbols, expressions.functions)
        inside = np.flatnonzero(ranks >= 0)
        positions = np.full_like(ranks, -1)
        positions[inside] = self._order.inverse(ranks[inside])
        return positions


class GroupedOrder:
    """An order of a pool in which every chain of functions appears with several start symbols in a
    row.

    Requires a graph that does not depend on the symbol, so that ranks are symbol * chains + chain.
    """

    def __init__(self, key: Key, size: int, symbols: int, group: int) -> None:
        if symbols % group:
            raise RecipeError(
                f"symbols_per_chain: {group} is not a divisor of the {symbols} symbols; use one "
                "of its divisors"
            )
        self._symbols, self._group, self._chains = symbols, group, size // symbols
        self._order = key.permutation(self._chains, "chain")
        self._first = key.permutation(self._chains, "first symbol")

    def __call__(self, positions: Ints) -> Ints:
        """Return the ranks at these positions."""
        turn, within = (
            positions // (self._chains * self._group),
            positions % (self._chains * self._group),
        )
        chain = self._order(within // self._group)
        symbol = (self._first(chain) + turn * self._group + within % self._group) % self._symbols
        ranks: Ints = symbol * self._chains + chain
        return ranks

    def inverse(self, ranks: Ints) -> Ints:
        """Return the positions of these ranks."""
        symbol, chain = ranks // self._chains, ranks % self._chains
        turn, step = np.divmod((symbol - self._first(chain)) % self._symbols, self._group)
        positions: Ints = (
            turn * (self._chains * self._group) + self._order.inverse(chain) * self._group + step
        )
        return positions


class DrawnOrder:
    """The first expressions of a draw, stored in arrays.

    Args:
        draw: Draws a given number of distinct expressions and returns their start symbols and
            functions.
        counts: Numbers of expressions that can be drawn, in ascending order. On demand, the first
            sufficient number is drawn.
    """

    def __init__(
        self,
        world: SymbolWorld,
        draw: Callable[[int], tuple[NDArray[np.int64], NDArray[np.integer]]],
        counts: Sequence[int],
    ) -> None:
        self._world = world
        self._draw = draw
        self._counts = counts
        self._symbols: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._functions: NDArray[np.integer] = np.zeros((0, 0), dtype=np.int64)

    def _at_least(self, count: int) -> None:
        if len(self._symbols) < count:
            self._symbols, self._functions = self._draw(next(c for c in self._counts if c >= count))

    @cached_property
    def _by_code(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Codes of all drawn expressions in ascending order, and their positions in the draw."""
        self._at_least(self._counts[-1])
        code = codes(self._world, self._symbols, self._functions)
        order = np.argsort(code)
        return code[order], order

    def expressions(self, positions: Ints) -> Expressions:
        """Return the expressions at these positions."""
        self._at_least(int(positions.max()) + 1 if len(positions) else 0)
        chosen = self._functions[positions].astype(np.int64)
        return applied(self._world, self._symbols[positions], chosen)

    def positions(self, expressions: Expressions) -> Ints:
        """Return the positions of expressions, or -1 for those that were not drawn."""
        code, order = self._by_code
        if not len(code):
            return np.full(len(expressions.symbols), -1)
        wanted = codes(self._world, expressions.symbols, expressions.functions)
        place = np.minimum(np.searchsorted(code, wanted), len(code) - 1)
        return np.where(code[place] == wanted, order[place], -1)


def codes(
    world: SymbolWorld, symbols: NDArray[np.int64], functions: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return a unique integer code for each expression of a length."""
    code = symbols.astype(np.int64)
    for i in range(functions.shape[1]):
        code = code * world.functions + functions[:, i]
    return code


def code_limit(world: SymbolWorld, length: int) -> int:
    """Upper bound (exclusive) of the codes of a length."""
    limit: int = world.symbols * world.functions**length
    return limit


def first_places(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the index of the first occurrence of each distinct number, in ascending order. `limit`
    is greater than all numbers.
    """
    bits = max(1, len(numbers) - 1).bit_length()
    if limit << bits >= WORD_LIMIT:
        return np.sort(np.unique(numbers, return_index=True)[1])
    # Pack number and index into one integer, because sorting integers is several times as fast as
    # an argsort.
    both = np.sort((numbers << bits) | np.arange(len(numbers)))
    number = both >> bits
    is_first = np.zeros(len(numbers), dtype=bool)
    is_first[both[np.append(True, number[1:] != number[:-1])] & ((1 << bits) - 1)] = True
    return np.flatnonzero(is_first)


def whole_chains(
    world: SymbolWorld, pool: Pool, key: Key, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw independent chains of functions, each with all start symbols that the graph allows,
    until there are `count` expressions.

    For graphs that depend on the symbol. The probability of a chain is proportional to its number
    of allowed start symbols.
    """
    order = key.permutation(pool.size)
    symbols = np.zeros(0, dtype=np.int64)
    functions = np.zeros((0, pool.length), dtype=np.int64)
    low = 0
    while len(symbols) < count and low < pool.size:
        high = min(pool.size, low + max(1_024, (count - len(symbols)) // 4))
        chains = pool.unrank(order(np.arange(low, high))).functions
        every = np.tile(np.arange(world.symbols), len(chains))
        each = np.repeat(chains, world.symbols, axis=0)
        allowed = pool.rank(every, each) >= 0
        symbols, functions = (
            np.append(symbols, every[allowed]),
            np.append(functions, each[allowed], axis=0),
        )
        first = first_places(codes(world, symbols, functions), code_limit(world, pool.length))
        symbols, functions = symbols[first], functions[first]
        low = high
    return symbols[:count], functions[:count]
