"""From a CTL recipe to its splits.

Training and iid are drawn by `draw`. A test split takes the first expressions of a keyed order that
neither training of the paper's size nor an earlier test split has. Probes enumerate all pairs of a
kind, and every row says whether training has it. Each chain of functions is a task, whose
description names the functions in order of application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.errors import CapacityError, RecipeError
from taskloom.core.plan import Level, Plan, Role, Split, Tasks, Withheld
from taskloom.core.scoring import exact
from taskloom.core.seeding import Key, Permutation
from taskloom.suites.ctl.draw import Pools, TrainingDraw, equalise, refuse
from taskloom.suites.ctl.fields import PAPER_TEST, PROBES, SPLITS, CtlFields, drawn_tests
from taskloom.suites.ctl.graphs import Expressions, Ints, Pool
from taskloom.suites.ctl.rows import TRAITS, ExpressionRows, Renderer
from taskloom.suites.ctl.second_solver import follower, solver
from taskloom.suites.ctl.world import (
    MOST_REGROUPED,
    SymbolWorld,
    build,
    compared_groups,
    group_distance,
)

Rows = Callable[[int, int], ExpressionRows]

SEARCHED = 1 << 20
"""Expressions of a test split's space up to which a refusal says exactly how many are left for it:
a second's work. Of larger spaces it says how many there are.
"""

MOST_TESTED = 20_000_000
"""Maximum examples of a test split: their ranks are searched for at once, a million in 0.5 s and 8 MB.
"""

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
    render = Renderer(world, fields.order, f"ctl/{fields.variant}")
    try:
        drawn = Splits(fields, world, key)
        splits = drawn.all(render)
    except CapacityError:
        # No room for splits of the paper's sizes beside each other; for those that are asked for
        # there may be.
        drawn = Splits(fields, world, key, tight=True)
        splits = drawn.all(render)
    # Checking needs the last symbol alone: the steps of a derivation would be half of its time.
    follow = follower(world.names, world.images, fields.order)
    arrow = "from right to left" if fields.order == "right-to-left" else "from left to right"
    return with_tasks(
        Plan(
            splits,
            traits=TRAITS,
            describe=f"Apply the functions to the symbol, {arrow}, and give the resulting symbol.",
            scorer=exact,
            answer=solver(world.names, world.images, fields.order),
            check=lambda example: (follow(example.input)[1][-1],),
            shard_rows=100_000,
            warnings=drawn.warnings(),
            facts=_facts(fields, world),
        ),
        world,
    )


def _facts(fields: CtlFields, world: SymbolWorld) -> dict[str, float]:
    """What the fields alone do not say of the world: how differently its groups act."""
    groups = compared_groups(fields, world.functions) if fields.variant != "length" else []
    if len(groups) < 2 or max(world.images.shape) > MOST_REGROUPED:
        return {}
    return {"group_distance": round(group_distance(world.images, groups), 6)}


def _tables(rows: Rows, render: Renderer) -> Callable[[int, int], pa.Table]:
    def make(start: int, stop: int) -> pa.Table:
        cuts = [(low, min(low + CHUNK, stop)) for low in range(start, max(stop, start + 1), CHUNK)]
        return pa.concat_tables([render.table(low, rows(low, high)) for low, high in cuts])

    return make


class Splits:
    """The splits of one recipe.

    Args:
        tight: Keep only as much for each split as the recipe asks for. In a small world that is the
            only way to meet a request, at the price that the size of one split moves the rows of
            others.
    """

    def __init__(
        self, fields: CtlFields, world: SymbolWorld, key: Key, tight: bool = False
    ) -> None:
        self._fields = fields
        self._key = key
        self._tight = tight
        self._pools = Pools(fields, world, key)
        self._training = TrainingDraw(fields, world, key, self._pools, self._tested, tight)
        self._test_names = drawn_tests(fields.variant)

    def all(self, render: Renderer) -> tuple[Split, ...]:
        """Return the splits that the recipe asks for."""
        splits = []
        for name in SPLITS[self._fields.variant]:
            if name in self._fields.splits:
                n, rows, role = self.split(name)
                splits.append(Split(name, n, _tables(rows, render), role, DESCRIBE[name]))
        return tuple(splits)

    def warnings(self) -> tuple[str, ...]:
        """Return what a person should know of the data."""
        if self._training.added is None:
            return ()
        pairs = (
            f"all {self._training.added.size:,} two-function expressions are added to the drawn"
            " rows of training"
        )
        return (
            (
                f"{pairs}, as in the public code: those that were drawn are there twice, and audit"
                " counts them as duplicates"
            ),
        )

    def split(self, name: str) -> tuple[int, Rows, Role]:
        """Return size, rows and role of a split."""
        if name == "train":
            return (
                self._training.size,
                self._rows(name, self._training.train_parts(), seen=True),
                "train",
            )
        if name == "iid":
            return (
                self._size(name),
                self._rows(name, self._training.iid_parts(), seen=False),
                "test",
            )
        if name in PROBES:
            return self._probe(name)
        return self._size(name), self._rows(name, self._chosen(name), seen=False), "test"

    def _size(self, split: str) -> int:
        n = self._fields.splits[split].n if split in self._fields.splits else 0
        assert n != "every"
        return n

    def _rows(
        self, name: str, parts: Sequence[tuple[int, Callable[[Ints], Expressions]]], seen: bool
    ) -> Rows:
        """Return the rows of a split that consists of these parts, in a keyed order."""
        ends = np.cumsum([0, *(size for size, _ in parts)])
        order: Permutation = self._key.permutation(int(ends[-1]), "shuffle", name)

        def rows(start: int, stop: int) -> ExpressionRows:
            places = order(np.arange(start, stop))
            part_of = np.searchsorted(ends, places, side="right") - 1
            pieces = []
            for i, (_, expressions) in enumerate(parts):
                at = np.flatnonzero(part_of == i)
                if len(at):
                    pieces.append((at, expressions(places[at] - ends[i])))
            return ExpressionRows(pieces, np.full(stop - start, seen))

        return rows

    def _probe(self, name: str) -> tuple[int, Rows, Role]:
        pool = self._pools.test(name, 2)
        size = self._fields.splits[name].n
        n = pool.size if size == "every" else size
        if n > pool.size:
            raise refuse(name, n, {2: pool.size}, 1.0, pool.size)
        order = self._key.permutation(pool.size, name)

        def rows(start: int, stop: int) -> ExpressionRows:
            e = pool.unrank(order(np.arange(start, stop)))
            return ExpressionRows([(np.arange(stop - start), e)], self._training.in_train(2, e))

        return n, rows, "probe"

    def _lengths(self, name: str) -> range:
        longest = self._fields.max_length
        if self._fields.variant == "length" and name == "valid":
            return range(longest + 1, longest + 2)
        if self._fields.variant == "length" and name == "ood":
            return range(longest + min(2, self._fields.deeper), longest + self._fields.deeper + 1)
        return range(max(2, self._fields.min_length), longest + 1)

    def _chosen(self, name: str) -> list[tuple[int, Callable[[Ints], Expressions]]]:
        """Choose the parts of a test split, per length as evenly as possible: the first ones of
        those kept for it.
        """
        wanted = left = self._size(name)
        kept = self._kept(name)
        chosen: list[tuple[int, Callable[[Ints], Expressions]]] = []
        for i, part in enumerate(kept):
            size = part.size if self._tight else min(part.size, -(-left // (len(kept) - i)))
            chosen.append((size, part.expressions))
            left -= size
        if left > 0:
            possible = {part.pool.length: part.size for part in kept}
            raise refuse(name, wanted, possible, 1.0, sum(possible.values()))
        return chosen

    @cache  # noqa: B019 - splits live as long as their plan
    def _kept(self, name: str) -> list[Kept]:
        """Return what is kept for a test split, per length: at least as many as the paper's split
        has, if there are.

        They are in a keyed order, without what is reserved for training or kept for an earlier test
        split.
        """
        wanted = self._size(name)
        pools = {k: self._pools.test(name, k) for k in self._lengths(name)}
        pools = {k: pool for k, pool in pools.items() if pool.size}
        sizes = {k: pool.size for k, pool in pools.items()}
        space = sum(sizes.values())
        # A small space is searched all the same, for the exact number that is left of it.
        searched = self._tight and space <= SEARCHED
        if wanted > space and not searched:
            raise refuse(name, wanted, sizes, 1.0, space)
        if wanted > MOST_TESTED:
            raise RecipeError(
                f"splits.{name}.n is {wanted:,}; a test split has at most {MOST_TESTED:,} examples"
            )
        if self._tight:
            return self._just_enough(name, pools)
        left = max(PAPER_TEST, wanted)
        kept: list[Kept] = []
        for i, (length, pool) in enumerate(pools.items()):
            quota = -(-left // (len(pools) - i))
            part = Kept(pool, partial(self._fresh, name, length, pool, quota))
            if pool.size - self._at_most_taken(name, length) >= quota:
                part.size = quota  # known before the search, which waits until a row is asked for
            kept.append(part)
            left -= part.size
        return kept

    def _at_most_taken(self, name: str, length: int) -> int:
        """Return how many expressions of a length a test split may have to leave out, at most."""
        earlier = self._test_names[: self._test_names.index(name)]
        return self._training.most_reserved(length) + sum(
            max(PAPER_TEST, self._size(other)) for other in earlier
        )

    def _just_enough(self, name: str, pools: Mapping[int, Pool]) -> list[Kept]:
        """Return as many as a test split asks for; each length makes up for those that have too
        few.
        """
        wanted = self._size(name)
        fresh = {length: self._fresh(name, length, pool, wanted) for length, pool in pools.items()}
        quotas = equalise(
            wanted, {length: len(ranks) for length, ranks in fresh.items()}, fully=True
        )
        return [
            Kept(pool, partial(_first, fresh[length], quotas[length]))
            for length, pool in pools.items()
        ]

    def _fresh(self, name: str, length: int, pool: Pool, quota: int) -> Ints:
        order = self._key.permutation(pool.size, "test", name, length)
        earlier = self._test_names[: self._test_names.index(name)]
        kept: list[Ints] = []
        count = low = 0
        while count < quota and low < pool.size:
            high = min(pool.size, low + min(max(1_024, 2 * (quota - count)), 1 << 20))
            ranks = order(
                np.array(range(low, high), dtype=object if pool.size > 1 << 62 else np.int64)
            )
            e = pool.unrank(ranks)
            fresh: NDArray[np.bool_] = ~self._training.reserved(length, e)
            for other, taken in self._of_length(length, earlier):
                fresh &= ~np.isin(other.rank(e.symbols, e.functions), taken)
            kept.append(ranks[fresh][: quota - count])
            count += len(kept[-1])
            low = high
        return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)

    def _of_length(self, length: int, names: Sequence[str]) -> Iterator[tuple[Pool, Ints]]:
        for name in names:
            yield from (
                (part.pool, part.ranks) for part in self._kept(name) if part.pool.length == length
            )

    def _tested(self, length: int) -> list[Expressions]:
        """Return the expressions of a length that are kept for test splits."""
        return [pool.unrank(ranks) for pool, ranks in self._of_length(length, self._test_names)]


class Kept:
    """Expressions of one length that are kept for a test split.

    Attributes:
        pool: The space that they are of.
        ranks: Their ranks in it, searched for when they are first needed.
        size: How many there are.
    """

    def __init__(self, pool: Pool, search: Callable[[], Ints]) -> None:
        self.pool = pool
        self._search = search

    @cached_property
    def ranks(self) -> Ints:
        """Search for the ranks."""
        return self._search()

    @cached_property
    def size(self) -> int:
        """Count the ranks."""
        return len(self.ranks)

    def expressions(self, members: Ints) -> Expressions:
        """Return some of the expressions."""
        return self.pool.unrank(self.ranks[members])


def _first(ranks: Ints, count: int) -> Ints:
    return ranks[:count]


def with_tasks(plan: Plan, world: SymbolWorld) -> Plan:
    """Return the plan with its chains of functions as tasks. Single functions make up the chains
    and are never withheld.
    """

    def without(withheld: Withheld) -> Plan:
        from taskloom.core.descriptions import withhold

        return withhold(described, unseen_chains)(withheld)

    names = frozenset(world.names)
    tasks = Tasks(
        "functions",
        partial(_describe, world),
        possible=lambda chain: names.issuperset(chain.split(" ")),
        always=lambda chain: " " not in chain,
        without=without,
    )
    described = replace(plan, tasks=tasks)
    return described


def _describe(world: SymbolWorld, chain: str, level: Level) -> str:
    names = chain.split()
    steps = [f"the function {names[0]}", *names[1:]]
    instruction = f"Apply {', then '.join(steps)} to the symbol and give the resulting symbol."
    if level == "instruction":
        return instruction
    symbols = " ".join(str(s) for s in range(world.symbols))
    place = {name: f for f, name in enumerate(world.names)}
    tables = [
        f"{n} turns {symbols} into {' '.join(map(str, world.images[place[n]]))}"
        for n in dict.fromkeys(names)
    ]
    return f"{instruction} Of the symbols, in order, {'; '.join(tables)}."


def unseen_chains(split: Split, withheld: Withheld) -> Split:
    """Return the split with the trait `seen` set to false for what training no longer has."""

    def rows(start: int, stop: int) -> pa.Table:
        from taskloom.core.descriptions import task_column, with_trait

        table = split.rows(start, stop)
        assert isinstance(table, pa.Table)
        free = pa.array(
            [not withheld(chain) for chain in task_column(table, "functions").to_pylist()],
            pa.bool_(),
        )
        return with_trait(table, "seen", pc.and_(task_column(table, "seen"), free))

    return split if split.role == "train" else replace(split, rows=rows)
