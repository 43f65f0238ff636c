"""From a CTL recipe to its splits.

Training and iid are one draw without replacement: a keyed order of the expressions of each length, of which the first
ones are drawn; a second keyed order mixes the lengths and gives its first members to iid. Test splits leave out
whatever was drawn and whatever an earlier test split has. Probes enumerate all pairs of a kind, and every row says
whether training has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from taskloom.errors import RecipeError
from taskloom.plan import Plan, Role, Split
from taskloom.scoring import exact
from taskloom.seeding import Key, Permutation
from taskloom.suites.ctl import graphs
from taskloom.suites.ctl.descriptions import with_tasks
from taskloom.suites.ctl.fields import PROBES, SPLITS, CtlFields
from taskloom.suites.ctl.graphs import ChainPool, Expressions, Graph, GroupedOrder, Ints, Pool
from taskloom.suites.ctl.rows import TRAITS, ExpressionRows, Renderer
from taskloom.suites.ctl.second_solver import solver
from taskloom.suites.ctl.world import SymbolWorld, build

CHUNK = 65_536
"""Rows rendered at once: their arrays fit into the processor's cache."""

DESCRIBE = {
    "train": "learned from",
    "iid": "drawn as training, never in it",
    "ood": "the compositions that training never shows",
    "valid": "one function longer than training",
    "all": "any composition, never in training",
    "self-loop": "all functions from one group, never in training",
    "overlap": "every second function a shared one, never in training",
    "cross-unseen-symbols": "shared functions on the symbols that training withholds",
    "unseen-pairs": "every stage-1/stage-2 pair that training withholds",
    "pairs": "every pair that training could show; `seen` says whether it does",
    "all-pairs": "every pair of functions; `seen` says whether training has it",
    "new-compositions": "chains that were kept out of training for every symbol",
    "new-primitives": "with functions that training shows only alone",
}


def plan(fields: CtlFields, key: Key) -> Plan:
    """Build the plan of a CTL recipe."""
    world = build(fields)
    draw = Draw(fields, world, key)
    render = Renderer(world, fields.order, f"ctl/{fields.variant}")
    splits = []
    for name in SPLITS[fields.variant]:
        if name not in fields.splits:
            continue
        n, rows, role = draw.split(name)
        splits.append(Split(name, n, _tables(rows, render), role, DESCRIBE[name]))
    answer = solver(world.names, world.images, fields.order)
    arrow = "from right to left" if fields.order == "right-to-left" else "from left to right"
    return with_tasks(
        Plan(
            tuple(splits),
            traits=TRAITS,
            describe=f"Apply the functions to the symbol, {arrow}, and give the resulting symbol.",
            scorer=exact,
            answer=answer,
            check=lambda example: answer(example.input).targets,
            shard_rows=100_000,
        ),
        world,
    )


def equalise(n: int, possible: Mapping[int, int], fill: float = 1.0) -> dict[int, int]:
    """Return numbers per length that are as equal as the spaces allow.

    In rising order of length, with n still to place and k lengths left: min(floor(fill x possible), ceil(n / k)).

    >>> equalise(301_000, {2: 4_096, 3: 65_536, 4: 1_048_576, 5: 16_777_216, 6: 268_435_456}, 0.5)
    {2: 2048, 3: 32768, 4: 88728, 5: 88728, 6: 88728}
    """
    quotas: dict[int, int] = {}
    left = n
    lengths = sorted(possible)
    for i, length in enumerate(lengths):
        quotas[length] = min(share(fill, possible[length]), -(-left // (len(lengths) - i)))
        left -= quotas[length]
    return quotas


def share(fill: float, possible: int) -> int:
    """Compute floor(fill x possible), exactly even for spaces beyond floating point."""
    numerator, denominator = fill.as_integer_ratio()
    return possible * numerator // denominator


def refuse(split: str, wanted: int, possible: Mapping[int, int], fill: float, available: int) -> RecipeError:
    """Return the error for a split that wants more expressions than there are."""
    if fill < 1:
        parts = [f"length {k}: {fill:g} x {v:,} = {share(fill, v):,}" for k, v in sorted(possible.items())]
    else:
        parts = [f"length {k}: {v:,}" for k, v in sorted(possible.items())]
    remedy = "lower n, raise max_length" + (" or fill" if fill < 1 else "") + ", or use more functions or symbols"
    return RecipeError(
        f"splits.{split}: {wanted:,} expressions are wanted, but only {available:,} can be drawn ({'; '.join(parts)}); {remedy}"
    )


def _tables(rows: Callable[[int, int], ExpressionRows], render: Renderer) -> Callable[[int, int], pa.Table]:
    def make(start: int, stop: int) -> pa.Table:
        cuts = [(low, min(low + CHUNK, stop)) for low in range(start, max(stop, start + 1), CHUNK)]
        return pa.concat_tables([render.table(low, rows(low, high)) for low, high in cuts])

    return make


class Draw:
    """The draw of one recipe: what is in training, what is in iid, and what may be in a test split."""

    def __init__(self, fields: CtlFields, world: SymbolWorld, key: Key) -> None:
        self.fields = fields
        self.world = world
        self.key = key
        self.train_n = self._size("train")
        self.iid_n = self._size("iid") if "iid" in fields.splits else 0
        self.forced = self._forced_pools()
        self.forced_n = sum(pool.size for pool in self.forced.values())
        lengths = [k for k in range(fields.min_length, fields.max_length + 1) if k not in self.forced]
        self.pools = {k: pool for k in lengths if (pool := self._train_pool(k)).size}
        self.quotas = self._quotas()
        self.drawn_n = sum(self.quotas.values())
        self.orders = {k: self._order(k, pool) for k, pool in self.pools.items()}
        self.mixed = key.permutation(self.drawn_n, "mixed")
        self.shuffled = key.permutation(self.train_n, "train")
        self.starts = np.concatenate([[0], np.cumsum([self.quotas[k] for k in self.pools])]).astype(np.int64)

    def _order(self, length: int, pool: Pool) -> Permutation | GroupedOrder:
        """Return the keyed order in which the expressions of a length are drawn."""
        if self.fields.symbols_per_chain > 1:
            key = self.key.child("draw", length)
            return GroupedOrder(key, pool.size, self.world.symbols, self.fields.symbols_per_chain)
        return self.key.permutation(pool.size, "draw", length)

    def _size(self, split: str) -> int:
        n = self.fields.splits[split].n
        assert n != "every"
        return n

    def _forced_pools(self) -> dict[int, Pool]:
        """Return the lengths that are in training whole: single applications and, as in the reference, pairs."""
        pools: dict[int, Pool] = {}
        if self.fields.include_singles:
            pools[1] = Pool(graphs.anything(self.world), self.world, 1)
        if self.fields.include_pairs:
            pools[2] = self._train_pool(2)
        return pools

    def _train_pool(self, length: int) -> Pool:
        if self.fields.variant == "length":
            return self._chain_pool(length, reserved=False)
        return Pool(self._graph("seen"), self.world, length)

    def _chain_pool(self, length: int, reserved: bool) -> ChainPool:
        known = self.world.groups["known"]
        chains = len(known) ** length
        kept_out = min(self.fields.reserved, chains // 4) if length >= 2 else 0
        order = self.key.permutation(chains, "chains", length)
        low, high = (0, kept_out) if reserved else (kept_out, chains)
        return ChainPool(self.world, known, length, order, low, high)

    @cache  # noqa: B019 - a draw lives as long as its plan
    def _graph(self, kind: str) -> Graph:
        world, variant = self.world, self.fields.variant
        if kind == "all" or (kind == "all-pairs" and variant != "S"):
            return graphs.anything(world)
        if kind == "new-primitives":
            return graphs.with_new(world)
        if variant == "length":
            return graphs.anything(world, world.groups["known"])
        if variant == "S":
            stage = {
                "ood": "cross",
                "cross-unseen-symbols": "unseen-symbols",
                "unseen-pairs": "unseen",
                "all-pairs": "any",
            }
            if kind == "self-loop":
                return graphs.repeating(world)
            return graphs.staged(world, stage.get(kind, kind))
        same = (variant == "R") == (kind == "seen")
        return graphs.repeating(world) if same or kind == "self-loop" else graphs.alternating(world)

    def _quotas(self) -> dict[int, int]:
        if self.forced_n > self.train_n:
            forced = " + ".join(f"{pool.size:,} of length {k}" for k, pool in self.forced.items())
            raise RecipeError(
                f"splits.train: {self.train_n:,} examples cannot contain what is always in training ({forced} = "
                f"{self.forced_n:,}); raise splits.train.n, or set include_singles or include_pairs to false"
            )
        wanted = self.train_n - self.forced_n + self.iid_n
        possible = {k: pool.size for k, pool in self.pools.items()}
        quotas = equalise(wanted, possible, self.fields.fill)
        if sum(quotas.values()) < wanted:
            available = self.forced_n + sum(quotas.values())
            raise refuse("train", self.train_n + self.iid_n, possible, self.fields.fill, available)
        return quotas

    def split(self, name: str) -> tuple[int, Callable[[int, int], ExpressionRows], Role]:
        """Return size, rows and role of a split."""
        if name == "train":
            return self.train_n, self._train_rows, "train"
        if name == "iid":
            return self.iid_n, self._iid_rows, "test"
        if name in PROBES:
            return self._probe(name, Pool(self._graph("seen" if name == "pairs" else name), self.world, 2))
        self._chosen(name)  # refuses now what could not be drawn later
        return self._size(name), self._test_rows(name), "test"

    def _train_rows(self, start: int, stop: int) -> ExpressionRows:
        places = self.shuffled(np.arange(start, stop))
        forced = places < self.forced_n
        parts = []
        low = 0
        for pool in self.forced.values():
            here = np.flatnonzero((places >= low) & (places < low + pool.size))
            if len(here):
                parts.append((here, pool.unrank(places[here] - low)))
            low += pool.size
        free = np.flatnonzero(~forced)
        parts += [(free[at], e) for at, e in self._drawn(places[free] - self.forced_n + self.iid_n)]
        return ExpressionRows(parts, np.ones(stop - start, dtype=bool))

    def _iid_rows(self, start: int, stop: int) -> ExpressionRows:
        return ExpressionRows(self._drawn(np.arange(start, stop)), np.zeros(stop - start, dtype=bool))

    def _drawn(self, members: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], Expressions]]:
        """Return members of the draw, by length."""
        if not len(members):
            return []
        mixed = self.mixed(members)
        bucket = np.searchsorted(self.starts, mixed, side="right") - 1
        parts = []
        for i, (length, pool) in enumerate(self.pools.items()):
            at = np.flatnonzero(bucket == i)
            if len(at):
                parts.append((at, pool.unrank(self.orders[length](mixed[at] - self.starts[i]))))
        return parts

    def membership(self, length: int, e: Expressions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which expressions training has, and which the draw (training and iid) has."""
        none = np.zeros(len(e.symbols), dtype=bool)
        if length in self.forced:
            inside = (self.forced[length].rank(e.symbols, e.functions) >= 0).astype(bool)
            return inside, inside
        if length not in self.pools:
            return none, none
        ranks = self.pools[length].rank(e.symbols, e.functions)
        at = np.flatnonzero(ranks >= 0)
        position = self.orders[length].inverse(ranks[at])
        start = int(self.starts[list(self.pools).index(length)])
        was = (position < self.quotas[length]).astype(bool)
        drawn, train = none.copy(), none.copy()
        drawn[at[was]] = True
        members = self.mixed.inverse((position[was] + start).astype(np.int64))
        train[at[was]] = members >= self.iid_n
        return train, drawn

    def _probe(self, name: str, pool: Pool) -> tuple[int, Callable[[int, int], ExpressionRows], Role]:
        size = self.fields.splits[name].n
        n = pool.size if size == "every" else size
        if n > pool.size:
            raise refuse(name, n, {2: pool.size}, 1.0, pool.size)
        order = self.key.permutation(pool.size, name)

        def rows(start: int, stop: int) -> ExpressionRows:
            e = pool.unrank(order(np.arange(start, stop)))
            return ExpressionRows([(np.arange(stop - start), e)], self.membership(2, e)[0])

        return n, rows, "probe"

    def _lengths(self, name: str) -> range:
        longest = self.fields.max_length
        if self.fields.variant == "length" and name == "valid":
            return range(longest + 1, longest + 2)
        if self.fields.variant == "length" and name == "ood":
            return range(longest + min(2, self.fields.deeper), longest + self.fields.deeper + 1)
        return range(max(2, self.fields.min_length), longest + 1)

    def _test_pool(self, name: str, length: int) -> Pool:
        if name == "new-compositions":
            return self._chain_pool(length, reserved=True)
        return Pool(self._graph(name), self.world, length)

    @cache  # noqa: B019
    def _chosen(self, name: str) -> list[tuple[Pool, Ints]]:
        """Choose the ranks of a test split, per length: in a keyed order, without what was drawn or is in an earlier test split."""
        wanted = left = self._size(name)
        pools = {k: pool for k in self._lengths(name) if (pool := self._test_pool(name, k)).size}
        possible = {length: pool.size for length, pool in pools.items()}
        if wanted > sum(possible.values()):
            raise refuse(name, wanted, possible, 1.0, sum(possible.values()))
        chosen: list[tuple[Pool, Ints]] = []
        counts: dict[int, int] = {}
        for i, (length, pool) in enumerate(pools.items()):
            ranks = self._fresh(name, length, pool, -(-left // (len(pools) - i)))
            chosen.append((pool, ranks))
            counts[length] = len(ranks)
            left -= len(ranks)
        if left > 0:
            raise refuse(name, wanted, counts, 1.0, sum(counts.values()))
        return chosen

    def _fresh(self, name: str, length: int, pool: Pool, quota: int) -> Ints:
        order = self.key.permutation(pool.size, "test", name, length)
        kept: list[Ints] = []
        count = low = 0
        while count < quota and low < pool.size:
            high = min(pool.size, low + min(max(1_024, 2 * (quota - count)), 1 << 20))
            ranks = order(np.array(range(low, high), dtype=object if pool.size > 1 << 62 else np.int64))
            e = pool.unrank(ranks)
            fresh = ~self.membership(length, e)[1]
            for earlier in self._earlier(name):
                for other, taken in self._chosen(earlier):
                    if other.length == length:
                        fresh &= ~np.isin(other.rank(e.symbols, e.functions), taken)
            kept.append(ranks[fresh][: quota - count])
            count += len(kept[-1])
            low = high
        return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)

    def _earlier(self, name: str) -> list[str]:
        names = [n for n in SPLITS[self.fields.variant] if n in self.fields.splits]
        return [n for n in names[: names.index(name)] if n not in ("train", "iid", *PROBES)]

    def _test_rows(self, name: str) -> Callable[[int, int], ExpressionRows]:
        def rows(start: int, stop: int) -> ExpressionRows:
            chosen = self._chosen(name)
            ends = np.cumsum([0, *(len(ranks) for _, ranks in chosen)])
            order: Permutation = self.key.permutation(int(ends[-1]), "shuffle", name)
            places: Any = order(np.arange(start, stop))
            parts = []
            for i, (pool, ranks) in enumerate(chosen):
                at = np.flatnonzero((places >= ends[i]) & (places < ends[i + 1]))
                if len(at):
                    parts.append((at, pool.unrank(ranks[places[at] - ends[i]])))
            return ExpressionRows(parts, np.zeros(stop - start, dtype=bool))

        return rows
