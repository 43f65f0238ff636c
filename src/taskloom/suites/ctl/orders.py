"""Orders in which the expressions of one length are drawn: training takes the first ones.

An order turns positions into expressions and expressions into positions. A keyed permutation of a pool does both without
memory (`PoolOrder`). Where an expression depends on those drawn before it, the drawn ones are kept in arrays (`DrawnOrder`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import WORD_LIMIT, Key, Permutation
from taskloom.suites.ctl.graphs import Expressions, Ints, Pool
from taskloom.suites.ctl.world import SymbolWorld


class DrawOrder(Protocol):
    """An order of expressions of one length."""

    def expressions(self, positions: Ints) -> Expressions:
        """Return the expressions at these positions."""
        ...

    def positions(self, expressions: Expressions) -> Ints:
        """Return the positions of these expressions; -1 for those that the order does not have."""
        ...


class PoolOrder:
    """A keyed order of all expressions of a pool."""

    def __init__(self, pool: Pool, order: Permutation | GroupedOrder) -> None:
        self._pool = pool
        self._order = order

    def expressions(self, positions: Ints) -> Expressions:
        """Return the expressions at these positions."""
        return self._pool.unrank(self._order(positions))

    def positions(self, expressions: Expressions) -> Ints:
        """Return the positions of these expressions; -1 for those that the pool does not have."""
        ranks = self._pool.rank(expressions.symbols, expressions.functions)
        inside = np.flatnonzero(ranks >= 0)
        positions = np.full_like(ranks, -1)
        positions[inside] = self._order.inverse(ranks[inside])
        return positions


class GroupedOrder:
    """An order of a pool in which every chain of functions comes with several start symbols, one after the other.

    For graphs that do not look at the symbol, whose ranks are therefore symbol * chains + chain.
    """

    def __init__(self, key: Key, size: int, symbols: int, group: int) -> None:
        if symbols % group:
            raise RecipeError(
                f"symbols_per_chain: {group} does not divide the {symbols} symbols; use a divisor"
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
    """The first expressions of a draw, kept in arrays.

    Args:
        draw: Draws the first so many expressions, each once: their start symbols and functions.
        counts: How many to draw, in rising order; the first of these that suffices is drawn when it is needed.
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
        """Compute the codes of all drawn expressions in rising order, and the position of each."""
        self._at_least(self._counts[-1])
        code = codes(self._world, self._symbols, self._functions)
        order = np.argsort(code)
        return code[order], order

    def expressions(self, positions: Ints) -> Expressions:
        """Return the expressions at these positions."""
        self._at_least(int(positions.max()) + 1 if len(positions) else 0)
        chosen = self._functions[positions].astype(np.int64)
        start = value = self._symbols[positions]
        values = np.empty_like(chosen)
        for i in range(chosen.shape[1]):
            value = self._world.images[chosen[:, i], value]
            values[:, i] = value
        return Expressions(start, chosen, values)

    def positions(self, expressions: Expressions) -> Ints:
        """Return the positions of these expressions; -1 for those that were not drawn."""
        code, order = self._by_code
        if not len(code):
            return np.full(len(expressions.symbols), -1)
        wanted = codes(self._world, expressions.symbols, expressions.functions)
        place = np.minimum(np.searchsorted(code, wanted), len(code) - 1)
        return np.where(code[place] == wanted, order[place], -1)


def codes(
    world: SymbolWorld, symbols: NDArray[np.int64], functions: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Compute a different number for every expression of a length."""
    code = symbols.astype(np.int64)
    for i in range(functions.shape[1]):
        code = code * world.functions + functions[:, i]
    return code


def code_limit(world: SymbolWorld, length: int) -> int:
    """Return the number that all codes of a length are below."""
    limit: int = world.symbols * world.functions**length
    return limit


def first_places(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return the place at which each number occurs first, in rising order; `limit` is above all numbers."""
    bits = max(1, len(numbers) - 1).bit_length()
    if limit << bits >= WORD_LIMIT:
        return np.sort(np.unique(numbers, return_index=True)[1])
    # Number and place in one integer: sorting integers is several times as fast as sorting places by their numbers.
    both = np.sort((numbers << bits) | np.arange(len(numbers)))
    number = both >> bits
    is_first = np.zeros(len(numbers), dtype=bool)
    is_first[both[np.append(True, number[1:] != number[:-1])] & ((1 << bits) - 1)] = True
    return np.flatnonzero(is_first)


def whole_chains(
    world: SymbolWorld, pool: Pool, key: Key, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw independent chains of functions, each with all start symbols that the graph allows, until there are `count`.

    For graphs that look at the symbol; a chain is drawn in proportion to the number of start symbols that it has.
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
