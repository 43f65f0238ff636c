"""Drawing the train and iid splits.

For each length, the field `draw` decides the order of the expressions (see `graphs`). Training
takes expressions from the start of this order and skips those in iid or in a test split. Iid is a
keyed choice from the first expressions, as many as the paper's training set has, so that its rows
do not depend on the size of training. Test splits exclude all of these first expressions.
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

Parts = list[tuple[int, Callable[[Ints], Expressions]]]
"""Parts of a split: the size of each part, and a function from indices to expressions."""

Tested = Callable[[int], Iterable[Expressions]]
"""Function from a length to the expressions of that length in test splits."""


def equalise(
    n: int, possible: Mapping[int, int], fill: float = 1.0, fully: bool = False
) -> dict[int, int]:
    """Divide n among lengths as equally as the number of possible expressions allows.

    In ascending order of length, with n remaining and k lengths left, each length gets
    min(floor(fill x possible), ceil(n / k)). This is the paper's rule. The result may add up to
    less than n if a longer length has fewer possible expressions than a shorter one. With `fully`,
    lengths are processed in ascending order of `possible` instead, which avoids this.

    >>> equalise(301_000, {2: 4_096, 3: 65_536, 4: 1_048_576, 5: 16_777_216, 6: 268_435_456}, 0.5)
    {2: 2048, 3: 32768, 4: 88728, 5: 88728, 6: 88728}
    """
    quotas: dict[int, int] = {}
    left = n
    lengths = sorted(possible)
    if fully:
        lengths.sort(key=lambda length: possible[length])
    for i, length in enumerate(lengths):
        equal_share = -(-left // (len(lengths) - i))
        quotas[length] = min(share(fill, possible[length]), equal_share)
        left -= quotas[length]
    return dict(sorted(quotas.items()))


def share(fill: float, possible: int) -> int:
    """Return floor(fill x possible), exact even if `possible` is too large for a float."""
    numerator, denominator = fill.as_integer_ratio()
    return possible * numerator // denominator


def apportion(n: int, sizes: Mapping[int, int]) -> dict[int, int]:
    """Divide n in proportion to the sizes, rounding the running total down.

    >>> apportion(1_000, {3: 32_768, 4: 88_728, 5: 88_728, 6: 88_728})
    {3: 109, 4: 297, 5: 297, 6: 297}
    """
    parts: dict[int, int] = {}
    total = max(1, sum(sizes.values()))
    below = 0  # total size of the previous lengths
    for length, size in sizes.items():
        # Round running totals rather than parts, so that the parts add up to n.
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
    """Build the error for a split that requests more expressions than are available.

    Args:
        split: Name of the split.
        wanted: Number of expressions requested.
        possible: Number of expressions of each length.
        fill: Maximum share of them that the split may use.
        available: Number of expressions available to the split.
        taken: Number of expressions that belong to another split but are included in `wanted` and
            `available`. For training, these are the iid expressions.
    """
    parts = []
    for length, size in sorted(possible.items()):
        if fill < 1:
            parts.append(f"length {length}: {fill:g} x {size:,} = {share(fill, size):,}")
        else:
            parts.append(f"length {length}: {size:,}")
    raised = "max_length or fill" if fill < 1 else "max_length"
    shared = f", {taken:,} of them for iid" if taken else ""
    remedy = f"lower n, raise {raised}, or use more functions or symbols"
    return CapacityError(
        split,
        wanted - taken,
        max(0, available - taken),
        f"splits.{split}: {wanted:,} expressions are requested{shared}, but only {available:,} "
        f"can be drawn ({'; '.join(parts)}); {remedy}",
    )


class Pools:
    """The pools of expressions from which the splits of a recipe are drawn."""

    def __init__(self, fields: CtlFields, world: SymbolWorld, key: Key) -> None:
        self._fields = fields
        self._world = world
        self._key = key

    def train(self, length: int) -> Pool:
        """All expressions of a length that may occur in training."""
        if self._fields.variant == "length":
            return self._chains(length, reserved=False)
        return Pool(split_graph(self._world, self._fields.variant, "seen"), self._world, length)

    def test(self, split: str, length: int) -> Pool:
        """All expressions of a length that may occur in a test split or probe."""
        if split == "new-compositions":
            return self._chains(length, reserved=True)
        # The probe `pairs` enumerates what may occur in training.
        drawn_from = "seen" if split == "pairs" else split
        graph = split_graph(self._world, self._fields.variant, drawn_from)
        return Pool(graph, self._world, length)

    def _chains(self, length: int, reserved: bool) -> ChainPool:
        """Chains of `ctl/length`: those held out of training if `reserved`, otherwise all
        others.
        """
        known = self._world.groups["known"]
        chains = len(known) ** length
        kept_out = min(self._fields.reserved, chains // 4) if length >= 2 else 0
        order = self._key.permutation(chains, "chains", length)
        low, high = (0, kept_out) if reserved else (kept_out, chains)
        return ChainPool(self._world, known, length, order, low, high)


@dataclass(frozen=True)
class LengthDraw:
    """The draw for one length.

    Attributes:
        length: Number of functions.
        order: Order in which expressions are drawn.
        reserve: Number of leading positions of the order that test splits must not use. It equals
            the size of the paper's training and iid splits for this length.
        iid_order: Keyed permutation of these positions. Iid takes the first `iid_size`.
        iid_size: Number of expressions in iid.
        train: Number of expressions in training.
        tested: Returns the expressions of a length that are in test splits.
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
        """Positions of the iid expressions. Computed on demand, because shuffling takes 4 ms and
        reading rows of another length does not need them.
        """
        places: NDArray[np.int64] = self.iid_order(np.arange(self.iid_size))
        return places

    @cached_property
    def _withheld(self) -> NDArray[np.int64]:
        """Positions that training skips, in ascending order."""
        if self.train + self.iid_size <= self.reserve:
            # Training stays within the reserve, which contains no test expressions.
            return np.sort(self.iid)
        places = [self.iid, *(self.order.positions(e) for e in self.tested(self.length))]
        withheld = np.unique(np.concatenate(places))
        return withheld[withheld >= 0]

    def train_expressions(self, members: Ints) -> Expressions:
        """Return training expressions by index. Training consists of the first `train` positions
        that are not withheld.
        """
        withheld = self._withheld
        # If w is the k-th withheld position, w - k training expressions come before it. So the
        # position of an expression is its index plus the number of withheld positions with w - k <=
        # index.
        members_before = withheld - np.arange(len(withheld))
        before = np.searchsorted(members_before, members, side="right")
        return self.order.expressions(members + before)

    def iid_expressions(self, members: Ints) -> Expressions:
        """Return iid expressions by index."""
        return self.order.expressions(self.iid[members])

    def in_train(self, expressions: Expressions) -> NDArray[np.bool_]:
        """True for each expression that is in training."""
        places, withheld = self.order.positions(expressions), self._withheld
        before = np.searchsorted(withheld, places)
        free = ~np.isin(places, withheld)
        return np.asarray((places >= 0) & free & (places - before < self.train), dtype=bool)

    def reserved(self, expressions: Expressions) -> NDArray[np.bool_]:
        """True for each expression that test splits must exclude."""
        places = self.order.positions(expressions)
        return np.asarray((places >= 0) & (places < self.reserve), dtype=bool)


class TrainingDraw:
    """The expressions of the train and iid splits, by length.

    Attributes:
        whole: Pools of which training contains every expression, counted towards its n: single
            applications and, if the recipe requests them, pairs. Keys are lengths.
        added: Pairs added on top of the n training rows, or None.
        lengths: Draws for all other lengths.
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
        """Draw the train and iid splits.

        Args:
            fields: The recipe.
            world: Symbols and functions.
            key: Key derived from the recipe and its seed.
            pools: Pools to draw from.
            tested: Returns the expressions of a length that are in test splits.
            tight: Reserve only what the recipe requests, instead of splits of the paper's sizes.
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
        """Number of rows in training."""
        sizes = [pool.size for pool in self._whole_pools()]
        return sum(sizes) + sum(draw.train for draw in self.lengths.values())

    def _whole_pools(self) -> list[Pool]:
        pools = list(self.whole.values())
        if self.added is not None:
            pools.append(self.added)
        return pools

    def _draw(self, tested: Tested) -> dict[int, LengthDraw]:
        fields = self._fields
        pools = {}
        for length in range(fields.min_length, fields.max_length + 1):
            if length not in self.whole:
                pool = self._pools.train(length)
                if pool.size:
                    pools[length] = pool
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
            if taken <= reserve[k]:
                counts = [taken, reserve[k]]
            else:
                # Training skips test expressions, so it may extend further by their number.
                counts = [min(pool.size, taken + self._room_for_tests())]
            places = self._key.permutation(reserve[k], "iid", k)
            draws[k] = LengthDraw(
                k, self._order(pool, counts), reserve[k], places, iid[k], train[k], tested
            )
        return draws

    def _tight_quotas(
        self, pools: Mapping[int, Pool], possible: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Divide iid and training among the lengths. If a length has too few expressions, the
        others make up for it.
        """
        fill = self._fields.fill
        room = {k: min(share(fill, possible[k]), pool.size) for k, pool in pools.items()}
        wanted = self._size("iid")
        open_room = self._without_whole(room)
        iid = equalise(wanted, open_room, fully=True)
        if sum(iid.values()) < wanted:
            raise refuse("iid", wanted, open_room, 1.0, sum(iid.values()))
        always, n = self._always(), self._size("train")
        train = equalise(n - always, {k: size - iid[k] for k, size in room.items()}, fully=True)
        available = always + sum(train.values())
        if available < n:
            raise refuse("train", n + wanted, possible, fill, available + wanted, wanted)
        return iid, train

    def _without_whole(self, sizes: Mapping[int, int]) -> dict[int, int]:
        """Return the sizes with 0 for lengths of which training contains every expression, because
        nothing remains for iid.
        """
        whole = {pool.length for pool in self._whole_pools()}
        return {k: 0 if k in whole else size for k, size in sizes.items()}

    def _possible(self, pool: Pool) -> int:
        """Number of expressions of a length, used to balance the lengths."""
        if self._fields.draw != "published" or self._fields.variant != "S":
            return pool.size
        # For S, the public code overestimates this number. Use its estimate, capped so that the
        # quota never exceeds the expressions that exist.
        counted = published_count(self._world, pool.length)
        return min(counted, int(pool.size / self._fields.fill))

    def _size(self, split: str) -> int:
        n = self._fields.splits[split].n if split in self._fields.splits else 0
        assert n != "every"
        return n

    def _room_for_tests(self) -> int:
        """Maximum number of expressions of one length in all test splits together."""
        least = 0 if self._tight else PAPER_TEST
        return sum(max(least, self._size(name)) for name in drawn_tests(self._fields.variant))

    def _iid_quotas(self, reserve: Mapping[int, int]) -> dict[int, int]:
        """Divide iid among the lengths in proportion to the paper's training set."""
        n = self._size("iid")
        sizes = self._without_whole(reserve)
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
        """Divide training among the lengths, subject to the fill factor and the space needed by
        test splits.
        """
        n, whole = self._size("train"), self._always()
        fill = self._fields.fill
        room = {}
        for k, pool in pools.items():
            beside_tests = max(reserve[k], pool.size - self._room_for_tests())
            room[k] = min(share(fill, possible[k]), beside_tests) - iid[k]
        quotas = equalise(n - whole, room)
        available = whole + sum(quotas.values())
        if available < n:
            taken = sum(iid.values())
            raise refuse("train", n + taken, possible, fill, available + taken, taken)
        return quotas

    def _always(self) -> int:
        """Return the number of expressions that are always in training, counted towards its n."""
        n, whole = self._size("train"), sum(pool.size for pool in self.whole.values())
        if whole > n:
            parts = " + ".join(f"{pool.size:,} of length {k}" for k, pool in self.whole.items())
            raise RecipeError(
                f"splits.train: {n:,} examples are too few for what is always in training "
                f"({parts} = {whole:,}); raise splits.train.n, or set include_singles or "
                "include_pairs to false"
            )
        return whole

    def _order(self, pool: Pool, counts: Sequence[int]) -> DrawOrder:
        """Build the order in which expressions of a length are drawn. `counts` lists, in ascending
        order, how many expressions may be needed.
        """
        fields, world, length = self._fields, self._world, pool.length
        key = self._key.child("draw", length)
        if fields.draw == "independent":
            return PoolOrder(pool, key.permutation(pool.size))
        if fields.draw == "chains" and fields.variant != "S":
            per_chain = fields.symbols_per_chain or world.symbols
            return PoolOrder(pool, GroupedOrder(key, pool.size, world.symbols, per_chain))
        # In S and in published draws, an expression depends on earlier draws. Drawn expressions are
        # stored as integer codes, which must fit into 64 bits.
        if code_limit(world, length) >= WORD_LIMIT:
            raise RecipeError(
                f"draw: '{fields.draw}' cannot encode expressions of length {length} in 64 bits; "
                "lower max_length, or use draw: independent"
            )
        if fields.draw == "chains":
            return DrawnOrder(world, partial(whole_chains, world, pool, key), counts)
        graph = split_graph(world, fields.variant, "seen")
        words = self._key.child("published")
        return DrawnOrder(
            world, partial(published_draw, graph, world, pool, words, fields.processes), counts
        )

    def train_parts(self) -> Parts:
        """Parts of the training split."""
        parts: Parts = [(pool.size, pool.unrank) for pool in self._whole_pools()]
        parts += [(draw.train, draw.train_expressions) for draw in self.lengths.values()]
        return parts

    def in_train(self, length: int, expressions: Expressions) -> NDArray[np.bool_]:
        """True for each expression of this length that is in training."""
        return self._member(length, expressions, LengthDraw.in_train)

    def reserved(self, length: int, expressions: Expressions) -> NDArray[np.bool_]:
        """True for each expression of this length that test splits must exclude."""
        return self._member(length, expressions, LengthDraw.reserved)

    def most_reserved(self, length: int) -> int:
        """Return the maximum number of expressions of this length that test splits must exclude."""
        most = sum(pool.size for pool in self._whole_pools() if pool.length == length)
        if length in self.lengths:
            most += self.lengths[length].reserve
        return most

    def most_excluded(self, length: int) -> int:
        """Maximum number of expressions of one length that are reserved, in training or in iid."""
        most = self.most_reserved(length)
        if length in self.lengths:
            draw = self.lengths[length]
            most += max(0, draw.train + draw.iid_size - draw.reserve)
        return most

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
