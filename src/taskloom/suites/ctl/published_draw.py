"""The draw of the public CTL++ code, including two accidental properties that its results depend on
(docs/papers/ctlpp.md).

The public code draws in forked processes that all inherit one generator of random words, and starts
again from the same words for every length. So all processes draw the same functions, each with its
own start symbols, and in A and R chain k of length l is made of words k*l to k*l + l - 1. A
function is chosen by masking a word to the smallest power of two that is large enough; a word that
is then too large is skipped. In A and R with the paper's sizes, no word is skipped. In S the number
of allowed functions depends on the symbol, so that processes with other symbols skip other words
and diverge.

Every process returns its expressions in rounds of 100. The rounds are collected process by process,
without duplicates, until there are enough expressions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskloom.core.seeding import Key
from taskloom.suites.ctl.graphs import Graph, Pool, code_limit, codes, first_places
from taskloom.suites.ctl.world import SymbolWorld

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

ROUND = 100
"""Number of expressions that a process of the public code returns per round."""

BLOCK = 32
"""Rounds drawn per batch. A batch takes a megabyte and fits into the processor's cache, which saves
a third of the time.
"""

PATIENCE = 50
"""Maximum draws per requested expression. The remaining expressions are then taken in a keyed
order, because duplicates become ever more frequent when nearly all expressions of a length are
requested. The public code would run for hours, or forever if its walks cannot reach an expression.
"""


@dataclass(frozen=True, slots=True)
class Choices:
    """The functions that may be chosen in each state.

    A state is a node of the graph, combined with the current symbol if the graph depends on it.

    Attributes:
        options: `options[state, i]` is the i-th function that may be chosen.
        following: `following[state, i]` is the state after this function.
        count: Number of functions that may be chosen in each state.
        starts: Number of start states: one per symbol, or 1 if the graph does not depend on the
            symbol.
    """

    options: I64
    following: I64
    count: I64
    starts: int


def choices(graph: Graph, world: SymbolWorld) -> Choices:
    """List the functions that may be chosen in each state, in the public code's order: functions
    that every symbol allows come first.
    """
    step = graph.step
    by_symbol = bool((step != step[:, :1]).any())
    always = np.broadcast_to((step >= 0).all(axis=1, keepdims=True), step.shape)
    following = step * world.symbols + world.images.T[None, :, :] if by_symbol else step[:, :1]
    step, always = (step, always) if by_symbol else (step[:, :1], always[:, :1])
    order = np.argsort(np.where(step < 0, 2, np.where(always, 0, 1)), axis=2, kind="stable")
    nodes, starts, functions = step.shape
    return Choices(
        order.reshape(nodes * starts, functions),
        np.take_along_axis(following, order, axis=2).reshape(nodes * starts, functions),
        (step >= 0).sum(axis=2).ravel(),
        starts,
    )


class Walk:
    """Processes that read the same stream of words. Each chain starts where the previous one of its
    process ended.

    If words are skipped, a chain can only be located after all chains before it. So for each word
    and start state, the words up to the next start state are decoded in one batch, and the
    processes are then followed by table look-ups.
    """

    def __init__(self, choices: Choices, key: Key, length: int, processes: int) -> None:
        self._choices = choices
        self._key = key
        self._length = length
        self._at = np.zeros(processes, dtype=np.int64)
        live = np.maximum(choices.count, 1)
        self._mask = np.array([(1 << (int(n) - 1).bit_length()) - 1 for n in live], dtype=np.int32)
        self._words_per_function = float(((self._mask + 1) / live).mean())
        self._leg = self._find_leg()

    def _find_leg(self) -> int:
        """Return the number of functions after which a chain is in a start state again: 2 in S, or
        the whole length if this never happens.
        """
        states = set(range(self._choices.starts))
        for steps in range(1, self._length):
            states = {
                int(s)
                for state in states
                for s in self._choices.following[state, : self._choices.count[state]]
            }
            if max(states) < self._choices.starts and self._length % steps == 0:
                return steps
        return self._length

    def chains(self, starts: I64) -> NDArray[np.int16]:
        """Return the next chains of all processes as `[chain, process, function]`, for start states
        `[chain, process]`.
        """
        if self._words_per_function == 1 and self._choices.starts == 1:
            return self._aligned(len(starts))
        parts = []
        done = 0
        while done < len(starts):
            needed = int((len(starts) - done) * self._length * self._words_per_function)
            low, high = int(self._at.min()), int(self._at.max()) + needed + 64
            states = self._choices.starts
            at = np.repeat(np.arange(high - low + 1, dtype=np.int32), states)
            legs, at, state = self._decode(
                low, high, at, np.tile(np.arange(states, dtype=np.int32), high - low + 1)
            )
            hop = at.astype(np.int64) * states + (state if self._leg < self._length else 0)
            ends = hop
            for _ in range(self._length // self._leg - 1):
                ends = hop[ends]
            visited = self._follow(starts[done:], ends // states, low)
            parts.append(self._join(legs, hop, visited))
            done += len(visited)
        return np.concatenate(parts)

    def _aligned(self, count: int) -> NDArray[np.int16]:
        """Return the next chains if no word is skipped and all processes draw the same chains:
        chain k begins at word k * length.
        """
        low = int(self._at[0])
        high = low + count * self._length
        at = np.arange(0, high - low, self._length, dtype=np.int32)
        self._at[:] = high
        return self._decode(low, high, at, np.zeros(count, dtype=np.int32))[0][:, None]

    def _decode(
        self, low: int, high: int, at: I32, state: I32
    ) -> tuple[NDArray[np.int16], I32, I32]:
        """Decode one leg from each of these positions in the words low..high, beginning in each of
        these states.

        Returns the functions, and the position and state after each leg. If the words run out, the
        position is the last one.
        """
        words = (
            np.append(self._key.words(low, high), np.uint64(0)).astype(np.int64).astype(np.int32)
        )
        beyond = high - low
        sizes = sorted({int(n) for n in self._choices.count if n})
        skip = np.concatenate([_accepted(words, n) for n in sizes])
        base = (np.searchsorted(sizes, self._choices.count) * (beyond + 1)).astype(np.int32)
        width = self._choices.options.shape[1]
        options = self._choices.options.ravel().astype(np.int16)
        following = self._choices.following.ravel().astype(np.int32)
        functions = np.empty((len(at), self._leg), dtype=np.int16)
        for i in range(self._leg):
            at = skip[base[state] + at]
            choice = state * width + (words[at] & self._mask[state])
            functions[:, i] = options[choice]
            state = following[choice]
            at = np.minimum(at + 1, beyond)
        return functions, at, state

    def _join(self, legs: NDArray[np.int16], hop: I64, visited: I64) -> NDArray[np.int16]:
        chains = np.empty((*visited.shape, self._length), dtype=np.int16)
        for low in range(0, self._length, self._leg):
            visited = visited if low == 0 else hop.take(visited)
            chains[..., low : low + self._leg] = legs.take(visited, axis=0)
        return chains

    def _follow(self, starts: I64, ends: I64, low: int) -> I64:
        """Return the decoded positions that the processes visit before the words run out, and
        advance the processes.
        """
        states = self._choices.starts
        beyond = len(ends) // states - 1
        visited = np.empty(starts.shape, dtype=np.int64)
        following = ends * states
        at = (self._at - low) * states
        for k, start in enumerate(starts):
            at = following.take(np.add(at, start, out=visited[k]))
        short = np.flatnonzero((ends[visited] >= beyond).any(axis=1))
        whole = int(short[0]) if len(short) else len(starts)
        if whole:
            self._at = ends[visited[whole - 1]] + low
        return visited[:whole]


def _accepted(words: I32, n: int) -> I32:
    """For each position, find the first word at or after it that selects one of n functions.
    Returns the last position if there is no such word.
    """
    beyond = len(words) - 1
    mask = (1 << (n - 1).bit_length()) - 1
    places = np.arange(beyond + 1, dtype=np.int32)
    if n == mask + 1:
        return places
    places = np.where((words & mask) < n, places, np.int32(beyond))
    places[beyond] = beyond
    return np.minimum.accumulate(places[::-1])[::-1]


def published_draw(
    graph: Graph, world: SymbolWorld, pool: Pool, key: Key, processes: int, count: int
) -> tuple[I64, NDArray[np.int16]]:
    """Draw `count` distinct expressions like the public code with this number of processes. Returns
    their start symbols and functions.

    Args:
        key: Key of the draw. All lengths read the same words, but each draws its own start symbols.
    """
    rounds = Rounds(graph, world, pool.length, key, processes)
    wanted = rounds.estimate(pool.size, count)
    while True:
        while wanted > 0:
            rounds.draw(min(wanted, BLOCK))
            wanted -= BLOCK
        places = rounds.different()
        if len(places) >= count:
            return rounds.expressions(places[:count])
        if rounds.drawn * ROUND * processes > PATIENCE * count + 100_000:
            return _filled_up(world, pool, key, rounds.expressions(places), count)
        # Estimate the additional rounds from the current rate, plus a margin, because duplicates
        # become more frequent.
        wanted = int(1.2 * (count - len(places)) / len(places) * rounds.drawn) + 1


def _filled_up(
    world: SymbolWorld, pool: Pool, key: Key, drawn: tuple[I64, NDArray[np.int16]], count: int
) -> tuple[I64, NDArray[np.int16]]:
    """Append expressions that the draw did not reach, in a keyed order, until there are `count`."""
    symbols, functions = drawn
    order = key.permutation(pool.size, "rest", pool.length)
    known = codes(world, symbols, functions)
    low = 0
    while len(symbols) < count and low < pool.size:
        high = min(pool.size, low + BLOCK * ROUND)
        e = pool.unrank(order(np.arange(low, high)))
        new = np.flatnonzero(~np.isin(codes(world, e.symbols, e.functions), known))[
            : count - len(symbols)
        ]
        symbols = np.append(symbols, e.symbols[new])
        functions = np.append(functions, e.functions[new].astype(np.int16), axis=0)
        low = high
    return symbols, functions


class Rounds:
    """All expressions returned by the processes, in the order in which they are collected.

    Attributes:
        drawn: Number of rounds drawn so far.
    """

    def __init__(
        self, graph: Graph, world: SymbolWorld, length: int, key: Key, processes: int
    ) -> None:
        options = choices(graph, world)
        self.drawn = 0
        self._world = world
        self._length = length
        self._processes = processes
        # If the graph does not depend on the symbol, all processes draw the same chains, so
        # simulating one of them is enough.
        self._shared = options.starts == 1
        self._walkers = 1 if self._shared else processes
        self._walk = Walk(options, key.child("words"), length, self._walkers)
        self._symbol_key = key.child("symbols", length)
        self._symbols: list[I64] = []
        self._chain_of: list[I64] = []
        self._chains: list[NDArray[np.int16]] = []
        self._chain_count = 0

    def estimate(self, possible: int, count: int) -> int:
        """Estimate the number of rounds needed to draw `count` of the possible expressions."""
        symbols = self._world.symbols
        draws = -math.log1p(-min(count / possible, 0.999)) * possible
        if not self._shared:
            # Until processes diverge, they produce the same chains. Measured: this takes 1.6 to 1.9
            # times as many draws.
            return int(1.8 * draws / (ROUND * self._processes)) + 1
        met = symbols * (1 - (1 - 1 / symbols) ** self._processes)
        return int(1.02 * draws / (ROUND * met)) + 1

    def draw(self, rounds: int) -> None:
        """Draw more rounds, and append their expressions without the duplicates within each
        chain.
        """
        shape = (rounds, self._processes, ROUND)
        first = self.drawn * self._processes * ROUND
        words = self._symbol_key.words(first, first + math.prod(shape))
        symbols = (words % np.uint64(self._world.symbols)).astype(np.int64).reshape(shape)
        by_chain = symbols.transpose(0, 2, 1)
        starts = (
            np.zeros((rounds * ROUND, 1), dtype=np.int64)
            if self._shared
            else by_chain.reshape(rounds * ROUND, -1)
        )
        chains = self._walk.chains(starts).reshape(-1, self._length)
        # Chains are drawn in the order (chain, process), but expressions are collected in the order
        # (round, process, chain).
        place = np.arange(len(chains)).reshape(rounds, ROUND, self._walkers).transpose(0, 2, 1)
        chain_of = np.broadcast_to(place, shape).ravel()
        number = chain_of * self._world.symbols + symbols.ravel()
        new = _first(number, len(chains) * self._world.symbols) if self._shared else slice(None)
        self._symbols.append(symbols.ravel()[new])
        self._chain_of.append(chain_of[new] + self._chain_count)
        self._chains.append(chains)
        self._chain_count += len(chains)
        self.drawn += rounds

    def different(self) -> I64:
        """Return the index of the first occurrence of each distinct expression."""
        world, chains = self._world, np.concatenate(self._chains)
        code = codes(world, np.zeros(len(chains), dtype=np.int64), chains)
        chain_of, symbols = np.concatenate(self._chain_of), np.concatenate(self._symbols)
        self._chains, self._chain_of, self._symbols = (
            [chains],
            [chain_of],
            [symbols],
        )  # join once for all callers
        if self._shared:
            # There are few distinct chains with many symbols each. Give equal chains one id, so
            # that only the ids are sorted.
            different, same = np.unique(code, return_inverse=True)
            return _first(same[chain_of] * world.symbols + symbols, len(different) * world.symbols)
        return first_places(
            code[chain_of] * world.symbols + symbols, code_limit(world, self._length)
        )

    def expressions(self, places: I64) -> tuple[I64, NDArray[np.int16]]:
        """Return the start symbols and functions of the expressions at these indices from
        `different`.
        """
        (chains,), (chain_of,), (symbols,) = self._chains, self._chain_of, self._symbols
        return symbols[places], chains[chain_of[places]]


def _first(numbers: I64, limit: int) -> I64:
    """Return the index of the first occurrence of each number, in ascending order of index. Uses a
    look-up table, for limits not far above the number of values.
    """
    places = np.arange(len(numbers), dtype=np.int32)  # half the memory of int64
    # If several values are assigned to one index, NumPy keeps the last. In reverse order, that is
    # the first occurrence.
    first = np.empty(limit, dtype=np.int32)
    first[numbers[::-1]] = places[::-1]
    return np.flatnonzero(first[numbers] == places)


def published_count(world: SymbolWorld, length: int) -> int:
    """Number of training expressions of S according to the public code's formula, which is too high
    for lengths of 4 and more.

    The formula follows sequences of groups, with the set of symbols that some function of the group
    can produce. It then counts each sequence of groups with all symbols in its set.
    """
    if length % 2:
        return 0
    assert world.allowed is not None
    images, allowed = world.images.tolist(), world.allowed.tolist()

    def union(functions: Iterable[int], symbols: frozenset[int]) -> frozenset[int]:
        return frozenset(images[f][s] for f in functions for s in symbols)

    ways = {frozenset(range(world.symbols)): 1}
    for _ in range(length // 2):
        following: Counter[frozenset[int]] = Counter()
        for symbols, count in ways.items():
            for path, (first, second) in enumerate((("a1", "a2"), ("b1", "b2"))):
                middle = union(world.groups[first], symbols)
                through = count * len(world.groups[first])
                following[union(world.groups[second], middle)] += through * len(
                    world.groups[second]
                )
                for i, f in enumerate(world.groups["o"]):
                    following[union((f,), frozenset(s for s in middle if allowed[path][i][s]))] += (
                        through
                    )
        ways = following
    return sum(len(symbols) * count for symbols, count in ways.items())
