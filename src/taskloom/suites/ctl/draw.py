"""What training and iid have.

The expressions of each length are in an order that the recipe's `draw` decides (`graphs`). Training
takes the first ones, except those that iid or a test split has. Iid is a keyed choice among as many
of the first ones as the paper's training has, so that its rows do not depend on the size of
training; test splits choose none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from taskloom.core.errors import CapacityError, RecipeError
from taskloom.core.seeding import WORD_LIMIT, Key, Permutation
from taskloom.suites.ctl.fields import PAPER_TEST, PAPER_TRAIN, CtlFields, drawn_tests
from taskloom.suites.ctl.graphs import (
    ChainPool,
    DrawnOrder,
    DrawOrder,
    Expressions,
    GroupedOrder,
    Ints,
    Pool,
    PoolOrder,
    anything,
    code_limit,
    split_graph,
    whole_chains,
)
from taskloom.suites.ctl.published_draw import published_count, published_draw
from taskloom.suites.ctl.world import SymbolWorld

Tested = Callable[[int], Iterable[Expressions]]
"""The expressions of a length that test splits have."""


def equalise(
    n: int, possible: Mapping[int, int], fill: float = 1.0, fully: bool = False
) -> dict[int, int]:
    """Return numbers per length that are as equal as the spaces allow.

    In rising order of length, with n still to place and k lengths left: min(floor(fill x possible),
    ceil(n / k)). That may leave some of n over where a longer length has less room than a shorter
    one; `fully` goes in rising order of room, which does not.

    >>> equalise(301_000, {2: 4_096, 3: 65_536, 4: 1_048_576, 5: 16_777_216, 6: 268_435_456}, 0.5)
    {2: 2048, 3: 32768, 4: 88728, 5: 88728, 6: 88728}
    """
    quotas: dict[int, int] = {}
    left = n
    lengths = sorted(possible, key=lambda k: (possible[k], k) if fully else k)
    for i, length in enumerate(lengths):
        quotas[length] = min(share(fill, possible[length]), -(-left // (len(lengths) - i)))
        left -= quotas[length]
    return dict(sorted(quotas.items()))


def share(fill: float, possible: int) -> int:
    """Compute floor(fill x possible), exactly even for spaces beyond floating point."""
    numerator, denominator = fill.as_integer_ratio()
    return possible * numerator // denominator


def apportion(n: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """Divide n in proportion to the sizes, rounding the running total down.

    >>> apportion(1_000, {3: 32_768, 4: 88_728, 5: 88_728, 6: 88_728})
    {3: 109, 4: 297, 5: 297, 6: 297}
    """
    parts: dict[int, int] = {}
    total, below = max(1, sum(sizes.values())), 0
    for length, size in sizes.items():
        parts[length] = n * (below + size) // total - n * below // total
        below += size
    return parts


def refuse(
    split: str,
    wanted: int,
    possible: Mapping[int, int],
    fill: float,
    available: int,
    taken: int = 0,
) -> CapacityError:
    """Return the error for a split that wants more expressions than there are.

    Args:
        taken: How many of those that are wanted and available are for another split, as those of
            iid are beside training.
    """
    if fill < 1:
        parts = [
            f"length {k}: {fill:g} x {v:,} = {share(fill, v):,}"
            for k, v in sorted(possible.items())
        ]
    else:
        parts = [f"length {k}: {v:,}" for k, v in sorted(possible.items())]
    remedy = (
        "lower n, raise max_length"
        + (" or fill" if fill < 1 else "")
        + ", or use more functions or symbols"
    )
    return CapacityError(
        split,
        wanted - taken,
        max(0, available - taken),
        f"splits.{split}: {wanted:,} expressions are wanted, but only {available:,} can be drawn"
        f" ({'; '.join(parts)}); {remedy}",
    )


class Pools:
    """The spaces that the splits of a recipe are drawn from."""

    def __init__(self, fields: CtlFields, world: SymbolWorld, key: Key) -> None:
        self._fields = fields
        self._world = world
        self._key = key

    def train(self, length: int) -> Pool:
        """Return all expressions of a length that training may show."""
        if self._fields.variant == "length":
            return self._chains(length, reserved=False)
        return Pool(split_graph(self._world, self._fields.variant, "seen"), self._world, length)

    def test(self, split: str, length: int) -> Pool:
        """Return all expressions of a length that a test split or probe is drawn from."""
        if split == "new-compositions":
            return self._chains(length, reserved=True)
        graph = split_graph(
            self._world, self._fields.variant, "seen" if split == "pairs" else split
        )
        return Pool(graph, self._world, length)

    def _chains(self, length: int, reserved: bool) -> ChainPool:
        known = self._world.groups["known"]
        chains = len(known) ** length
        kept_out = min(self._fields.reserved, chains // 4) if length >= 2 else 0
        order = self._key.permutation(chains, "chains", length)
        low, high = (0, kept_out) if reserved else (kept_out, chains)
        return ChainPool(self._world, known, length, order, low, high)


@dataclass(frozen=True)
class LengthDraw:
    """The draw of one length.

    Attributes:
        order: The order in which its expressions are drawn.
        reserve: First places of the order, which no test split has: as many as the paper's training
            and iid take.
        iid_order: The keyed order of those places whose first ones iid has.
        iid_size: Number of expressions that iid has.
        train: Number of expressions that training has.
        tested: The expressions of this length that test splits have.
    """

    length: int
    order: DrawOrder
    reserve: int
    iid_order: Permutation
    iid_size: int
    train: int
    tested: Tested

    @cached_property
    def iid(self) -> NDArray[np.int64]:
        """Return the places that iid has; shuffling them takes 4 ms, which a few rows of another
        length do not need.
        """
        places: NDArray[np.int64] = self.iid_order(np.arange(self.iid_size))
        return places

    @cached_property
    def _withheld(self) -> NDArray[np.int64]:
        """Return the places that training leaves out, in rising order."""
        if self.train + self.iid_size <= self.reserve:
            return np.sort(self.iid)
        places = [self.iid, *(self.order.positions(e) for e in self.tested(self.length))]
        withheld = np.unique(np.concatenate(places))
        return withheld[withheld >= 0]

    def train_expressions(self, members: Ints) -> Expressions:
        """Return members of training: those at the first places that are not withheld."""
        withheld = self._withheld
        before = np.searchsorted(withheld - np.arange(len(withheld)), members, side="right")
        return self.order.expressions(members + before)

    def iid_expressions(self, members: Ints) -> Expressions:
        """Return members of iid."""
        return self.order.expressions(self.iid[members])

    def in_train(self, expressions: Expressions) -> NDArray[np.bool_]:
        """Return which expressions training has."""
        places, withheld = self.order.positions(expressions), self._withheld
        before = np.searchsorted(withheld, places)
        free = ~np.isin(places, withheld)
        return np.asarray((places >= 0) & free & (places - before < self.train), dtype=bool)

    def reserved(self, expressions: Expressions) -> NDArray[np.bool_]:
        """Return which expressions test splits must leave out."""
        places = self.order.positions(expressions)
        return np.asarray((places >= 0) & (places < self.reserve), dtype=bool)


class TrainingDraw:
    """What training and iid have, length by length.

    Attributes:
        whole: Lengths that training has whole, as part of its n: single applications and, where
            asked for, pairs.
        added: Pairs beside the n drawn rows.
        lengths: The draw of each other length.
    """

    def __init__(
        self,
        fields: CtlFields,
        world: SymbolWorld,
        key: Key,
        pools: Pools,
        tested: Tested,
        tight: bool = False,
    ) -> None:
        """Draw training and iid.

        Args:
            tight: Take no more than the recipe asks for, and keep no room for splits of the paper's
                sizes.
        """
        self._fields = fields
        self._world = world
        self._key = key
        self._pools = pools
        self._tight = tight
        self.whole: dict[int, Pool] = {}
        if fields.include_singles:
            self.whole[1] = Pool(anything(world), world, 1)
        if fields.include_pairs is True:
            self.whole[2] = pools.train(2)
        self.added = pools.train(2) if fields.include_pairs == "added" else None
        self.lengths = self._draw(tested)

    @property
    def size(self) -> int:
        """Return the number of rows of training."""
        sizes = [pool.size for pool in self._whole_pools()]
        return sum(sizes) + sum(draw.train for draw in self.lengths.values())

    def _whole_pools(self) -> list[Pool]:
        return [*self.whole.values(), *([self.added] if self.added else [])]

    def _draw(self, tested: Tested) -> dict[int, LengthDraw]:
        fields = self._fields
        lengths = [
            k for k in range(fields.min_length, fields.max_length + 1) if k not in self.whole
        ]
        pools = {k: pool for k in lengths if (pool := self._pools.train(k)).size}
        possible = {k: self._possible(pool) for k, pool in pools.items()}
        if self._tight:
            iid, train = self._tight_quotas(pools, possible)
            reserve = {k: iid[k] + train[k] for k in pools}
        else:
            reserve = equalise(PAPER_TRAIN + PAPER_TEST, possible, fields.fill)
            iid = self._iid_quotas(reserve)
            train = self._train_quotas(pools, possible, reserve, iid)
        draws = {}
        for k, pool in pools.items():
            taken = train[k] + iid[k]
            counts = (
                [taken, reserve[k]]
                if taken <= reserve[k]
                else [min(pool.size, taken + self._room_for_tests())]
            )
            places = self._key.permutation(reserve[k], "iid", k)
            draws[k] = LengthDraw(
                k, self._order(pool, counts), reserve[k], places, iid[k], train[k], tested
            )
        return draws

    def _tight_quotas(
        self, pools: Mapping[int, Pool], possible: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Return the numbers of iid and of training by length; any length makes up for the
        others.
        """
        room = {
            k: min(share(self._fields.fill, possible[k]), pool.size) for k, pool in pools.items()
        }
        whole = {pool.length for pool in self._whole_pools()}
        wanted, open_room = (
            self._size("iid"),
            {k: 0 if k in whole else size for k, size in room.items()},
        )
        iid = equalise(wanted, open_room, fully=True)
        if sum(iid.values()) < wanted:
            raise refuse("iid", wanted, open_room, 1.0, sum(iid.values()))
        always, n = self._always(), self._size("train")
        train = equalise(n - always, {k: size - iid[k] for k, size in room.items()}, fully=True)
        available = always + sum(train.values())
        if available < n:
            raise refuse(
                "train", n + wanted, possible, self._fields.fill, available + wanted, wanted
            )
        return iid, train

    def _possible(self, pool: Pool) -> int:
        """Return the number of expressions by which lengths are equalised: for the published draw
        of S the public code's.
        """
        if self._fields.draw == "published" and self._fields.variant == "S":
            return min(
                published_count(self._world, pool.length), int(pool.size / self._fields.fill)
            )
        return pool.size

    def _size(self, split: str) -> int:
        n = self._fields.splits[split].n if split in self._fields.splits else 0
        assert n != "every"
        return n

    def _room_for_tests(self) -> int:
        least = 0 if self._tight else PAPER_TEST
        return sum(max(least, self._size(name)) for name in drawn_tests(self._fields.variant))

    def _iid_quotas(self, reserve: Mapping[int, int]) -> dict[int, int]:
        """Return the numbers of iid by length, in proportion to the paper's training; none of a
        length that training has whole.
        """
        whole = {pool.length for pool in self._whole_pools()}
        n, sizes = self._size("iid"), {k: 0 if k in whole else size for k, size in reserve.items()}
        if n > sum(sizes.values()):
            raise refuse("iid", n, sizes, 1.0, sum(sizes.values()))
        return apportion(n, sizes)

    def _train_quotas(
        self,
        pools: Mapping[int, Pool],
        possible: Mapping[int, int],
        reserve: Mapping[int, int],
        iid: Mapping[int, int],
    ) -> dict[int, int]:
        n, whole = self._size("train"), self._always()
        fill = self._fields.fill
        room = {
            k: (
                min(share(fill, possible[k]), max(reserve[k], pool.size - self._room_for_tests()))
                - iid[k]
            )
            for k, pool in pools.items()
        }
        quotas = equalise(n - whole, room)
        if sum(quotas.values()) < n - whole:
            taken = sum(iid.values())
            raise refuse(
                "train", n + taken, possible, fill, whole + sum(quotas.values()) + taken, taken
            )
        return quotas

    def _always(self) -> int:
        """Return the number of examples that training has in any case as part of its n."""
        n, whole = self._size("train"), sum(pool.size for pool in self.whole.values())
        if whole > n:
            parts = " + ".join(f"{pool.size:,} of length {k}" for k, pool in self.whole.items())
            raise RecipeError(
                f"splits.train: {n:,} examples cannot contain what is always in training ({parts} ="
                f" {whole:,}); raise splits.train.n, or set include_singles or include_pairs to"
                " false"
            )
        return whole

    def _order(self, pool: Pool, counts: Sequence[int]) -> DrawOrder:
        """Return the order in which the expressions of a length are drawn; `counts` says how many
        may be needed.
        """
        fields, world, length = self._fields, self._world, pool.length
        key = self._key.child("draw", length)
        if fields.draw == "independent":
            return PoolOrder(pool, key.permutation(pool.size))
        if fields.draw == "chains" and fields.variant != "S":
            return PoolOrder(
                pool,
                GroupedOrder(
                    key, pool.size, world.symbols, fields.symbols_per_chain or world.symbols
                ),
            )
        if code_limit(world, length) >= WORD_LIMIT:
            raise RecipeError(
                f"draw: '{fields.draw}' cannot number the expressions of length {length}; lower"
                " max_length, or use draw: independent"
            )
        if fields.draw == "chains":
            return DrawnOrder(world, partial(whole_chains, world, pool, key), counts)
        graph = split_graph(world, fields.variant, "seen")
        words = self._key.child("published")
        return DrawnOrder(
            world, partial(published_draw, graph, world, pool, words, fields.processes), counts
        )

    def train_parts(self) -> list[tuple[int, Callable[[Ints], Expressions]]]:
        """Return the parts that training consists of, each with its size."""
        whole = [(pool.size, pool.unrank) for pool in self._whole_pools()]
        return [*whole, *((draw.train, draw.train_expressions) for draw in self.lengths.values())]

    def iid_parts(self) -> list[tuple[int, Callable[[Ints], Expressions]]]:
        """Return the parts that iid consists of, each with its size."""
        return [(draw.iid_size, draw.iid_expressions) for draw in self.lengths.values()]

    def in_train(self, length: int, expressions: Expressions) -> NDArray[np.bool_]:
        """Return which expressions of a length training has."""
        return self._member(length, expressions, LengthDraw.in_train)

    def reserved(self, length: int, expressions: Expressions) -> NDArray[np.bool_]:
        """Return which expressions of a length test splits must leave out."""
        return self._member(length, expressions, LengthDraw.reserved)

    def most_reserved(self, length: int) -> int:
        """Return how many expressions of a length test splits must leave out, at most."""
        whole = sum(pool.size for pool in self._whole_pools() if pool.length == length)
        return whole + (self.lengths[length].reserve if length in self.lengths else 0)

    def _member(
        self,
        length: int,
        e: Expressions,
        member: Callable[[LengthDraw, Expressions], NDArray[np.bool_]],
    ) -> NDArray[np.bool_]:
        inside = np.zeros(len(e.symbols), dtype=bool)
        for pool in self._whole_pools():
            if pool.length == length:
                inside |= (pool.rank(e.symbols, e.functions) >= 0).astype(bool)
        if length in self.lengths:
            inside |= member(self.lengths[length], e)
        return inside
