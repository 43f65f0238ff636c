"""The splits of a CTL recipe, and their rows.

Training and iid are drawn in `draw`. A test split takes the first expressions, in a keyed order,
that are neither in a training set of the paper's size nor in an earlier test split. Probes
enumerate all pairs of a kind, and the trait `seen` of each row states whether it is in training.
Each chain of functions is a task, whose description names the functions in order of application.

The last part of this module renders expressions as text. In `graphs`, an expression is a start
symbol, its functions in order of application and the value after each, all as integers. `Renderer`
looks their names up in tables of phrases and joins them with Arrow's kernels, so no text is built
in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import numbers, repeated, strings
from taskloom.core.errors import CapacityError, RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import Level, Plan, Role, Split, Tasks, Variant, Withheld, in_rounds
from taskloom.core.seeding import Key, Permutation
from taskloom.core.shards import STEP, schema
from taskloom.suites.ctl.draw import LengthDraw, Parts, Pools, TrainingDraw, equalise, refuse
from taskloom.suites.ctl.fields import PAPER_TEST, PROBES, SPLITS, CtlFields, drawn_tests
from taskloom.suites.ctl.graphs import Expressions, Ints, Pool
from taskloom.suites.ctl.world import SymbolWorld


@dataclass(frozen=True, slots=True)
class ExpressionRows:
    """Rows of a split, grouped by length.

    Attributes:
        parts: Expressions of one length, with their positions among the rows.
        seen: True for each row that is in training.
    """

    parts: list[tuple[NDArray[np.int64], Expressions]]
    seen: NDArray[np.bool_]


Rows = Callable[[int, int], ExpressionRows]
"""Function that returns rows start..stop of a split."""

SEARCHED = 1 << 20
"""Maximum number of expressions that are searched to state in an error exactly how many are left,
which takes a second. For larger spaces, the error states the size of the whole space.
"""

MOST_TESTED = 20_000_000
"""Maximum examples of a test split. All their ranks are searched for in one go, which takes 0.5 s
and 8 MB per million.
"""

COUNTED = 1 << 13
"""Maximum size of a space whose free expressions are counted while planning, in a millisecond. Of
larger ones only a lower bound is known.
"""

LARGEST_BATCH = 1 << 20
"""Maximum ranks tested in one batch when searching for the expressions of a test split."""

CHUNK = 65_536
"""Rows rendered per batch, so that their arrays fit into the processor's cache."""

DESCRIBE = {
    "train": "learned from",
    "iid": "drawn like training, but never in it",
    "ood": "the compositions that training never shows",
    "valid": "one function longer than in training",
    "all": "any composition that is not in training",
    "self-loop": "all functions from one group, never in training",
    "overlap": "every second function is shared, never in training",
    "cross-unseen-symbols": "shared functions on symbols that are held out of training",
    "unseen-pairs": "every pair of stage-1 and stage-2 functions that is held out of training",
    "pairs": "every pair that training could show; the trait seen says whether it does",
    "all-pairs": "every pair of functions; the trait seen says whether training has it",
    "new-compositions": "chains held out of training for every symbol",
    "new-primitives": "with functions that training shows only on their own",
}


InTrain = Callable[[Expressions], NDArray[np.bool_]]
"""Predicate: True for each expression that is in training. All expressions must have the same
length.
"""


def plan_splits(
    fields: CtlFields, world: SymbolWorld, key: Key, render: Renderer
) -> tuple[tuple[Split, ...], tuple[str, ...], InTrain]:
    """Draw the splits of a recipe. Also return the warnings to show with the data, and the
    predicate for membership in training.
    """
    try:
        drawn = Splits(fields, world, key)
        return drawn.all(render), drawn.warnings(), drawn.in_train
    except CapacityError:
        # The paper's split sizes do not fit together, but the requested ones may.
        drawn = Splits(fields, world, key, tight=True)
        return drawn.all(render), drawn.warnings(), drawn.in_train


def _tables(rows: Rows, render: Renderer) -> Callable[[int, int], pa.Table]:
    def make(start: int, stop: int) -> pa.Table:
        # At least one chunk, so that an empty range gives an empty table instead of an error.
        starts = range(start, max(stop, start + 1), CHUNK)
        tables = [render.table(low, rows(low, min(low + CHUNK, stop))) for low in starts]
        return pa.concat_tables(tables)

    return make


class Splits:
    """The splits of one recipe.

    Args:
        tight: Reserve only what the recipe requests for each split. In a small world this may be
            the only way to fit all splits, but changing the size of one split then changes the rows
            of others.
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
        """The splits that the recipe requests."""
        splits = []
        for name in SPLITS[self._fields.variant]:
            if name in self._fields.splits:
                n, rows, role = self.split(name)
                rounds = self._rounds(name, n)
                table = _tables(rows, render)
                splits.append(Split(name, n, table, role, DESCRIBE[name], rounds=rounds))
        return tuple(splits)

    def in_train(self, expressions: Expressions) -> NDArray[np.bool_]:
        """True for each expression that is in training. All expressions must have the same
        length.
        """
        return self._training.in_train(expressions.functions.shape[1], expressions)

    def warnings(self) -> tuple[str, ...]:
        """Warnings to show with the data."""
        if self._training.added is None:
            return ()
        warning = (
            f"all {self._training.added.size:,} two-function expressions are added to the drawn "
            "rows of training, as in the public code: those that were also drawn are there "
            "twice, and audit counts them as duplicates"
        )
        return (warning,)

    def split(self, name: str) -> tuple[int, Rows, Role]:
        """Return the size, rows and role of a split."""
        if name in PROBES:
            return self._probe(name)
        if name == "train":
            rows = self._rows(name, self._training.train_parts(), seen=True)
            return self._training.size, rows, "train"
        parts: Parts = [(size, kept.expressions) for size, kept in self._chosen(name)]
        return self._size(name), self._rows(name, parts, seen=False), "test"

    def _rounds(self, name: str, n: int) -> int:
        """Number of rounds of a split in which no length runs out of expressions.

        Every round has other expressions, as many of each length as the split. Tight splits have
        none to spare. Iid goes on only if every expression is drawn on its own.
        """
        bound = name in ("train", *PROBES) or (name == "iid" and self._fields.draw != "independent")
        if self._tight or not n or bound:
            return 1
        rounds = [MOST_TESTED // n]
        rounds += [self._available(name, kept) // size for size, kept in self._chosen(name) if size]
        return max(1, min(rounds))

    def _available(self, name: str, kept: Kept) -> int:
        """Number of expressions of one length that a split has in all rounds, or fewer if counting
        them takes long.
        """
        pool = kept.pool
        if pool.size <= COUNTED:
            return kept.size + len(self._further(name, pool, pool.size))
        taken = self._training.most_excluded(pool.length) + self._kept_of(pool.length)
        return kept.size + pool.size - taken

    def _kept_of(self, length: int) -> int:
        """Number of expressions of a length that are kept for test splits."""
        kept = (part for name in self._test_names for part in self._kept(name))
        return sum(part.size for part in kept if part.pool.length == length)

    def _size(self, split: str) -> int:
        n = self._fields.splits[split].n if split in self._fields.splits else 0
        assert n != "every"
        return n

    def _rows(self, name: str, parts: Parts, seen: bool) -> Rows:
        """Return the rows of a split that consists of these parts, in a keyed order."""
        ends = np.cumsum([0, *(size for size, _ in parts)])
        order: Permutation = self._key.permutation(int(ends[-1]), "shuffle", name)

        def rows(start: int, stop: int) -> ExpressionRows:
            pieces = []
            done = 0
            for number, first, end in in_rounds(int(ends[-1]), start, stop):
                places = order(np.arange(first, end))
                part_of = np.searchsorted(ends, places, side="right") - 1
                for i, (size, expressions) in enumerate(parts):
                    at = np.flatnonzero(part_of == i)
                    if len(at):
                        members = places[at] - ends[i] + number * size
                        pieces.append((at + done, expressions(members)))
                done += end - first
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

    def _chosen(self, name: str) -> list[tuple[int, Kept]]:
        """Choose the parts of a test split or of iid, each with its size: the first expressions
        reserved for it of each length, as evenly as possible.
        """
        if name == "iid":
            parts = map(self._iid, self._training.lengths.values())
            return [(part.size, part) for part in parts]
        wanted = left = self._size(name)
        kept = self._kept(name)
        chosen: list[tuple[int, Kept]] = []
        for i, part in enumerate(kept):
            size = part.size
            if not self._tight:
                size = min(size, _even_share(left, len(kept) - i))
            chosen.append((size, part))
            left -= size
        if left > 0:
            possible = {part.pool.length: part.size for part in kept}
            raise refuse(name, wanted, possible, 1.0, sum(possible.values()))
        return chosen

    @cache  # noqa: B019 - splits live as long as their plan
    def _kept(self, name: str) -> list[Kept]:
        """Reserve expressions for a test split, by length: the paper's size, or more if the recipe
        requests more.

        They are in a keyed order, without the expressions reserved for training or for an earlier
        test split.
        """
        wanted = self._size(name)
        pools = {k: self._pools.test(name, k) for k in self._lengths(name)}
        pools = {k: pool for k, pool in pools.items() if pool.size}
        sizes = {k: pool.size for k, pool in pools.items()}
        space = sum(sizes.values())
        # Search a small space even if it is too small, so that the error can state how much of it
        # is left.
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
            quota = _even_share(left, len(pools) - i)
            search = partial(self._fresh, name, length, pool, quota)
            part = Kept(pool, search, partial(self._further, name, pool))
            if pool.size - self._at_most_taken(name, length) >= quota:
                # The space is certainly large enough, so search it only when a row is requested.
                part.size = quota
            kept.append(part)
            left -= part.size
        return kept

    def _at_most_taken(self, name: str, length: int) -> int:
        """Return the maximum number of expressions of a length that a test split may have to
        exclude.
        """
        by_tests = sum(max(PAPER_TEST, self._size(other)) for other in self._earlier(name))
        return self._training.most_reserved(length) + by_tests

    def _earlier(self, name: str) -> Sequence[str]:
        """Return the test splits that are drawn before this one."""
        return self._test_names[: self._test_names.index(name)]

    def _just_enough(self, name: str, pools: Mapping[int, Pool]) -> list[Kept]:
        """Reserve only the requested number of expressions. If a length has too few, the others
        make up for it.
        """
        wanted = self._size(name)
        fresh = {length: self._fresh(name, length, pool, wanted) for length, pool in pools.items()}
        available = {length: len(ranks) for length, ranks in fresh.items()}
        quotas = equalise(wanted, available, fully=True)
        return [
            Kept(
                pool, partial(_first, fresh[length], quotas[length]), partial(_first, fresh[length])
            )
            for length, pool in pools.items()
        ]

    def _iid(self, draw: LengthDraw) -> Kept:
        """The part of iid that has the length of a draw."""
        pool = self._pools.train(draw.length)

        def search() -> Ints:
            iid = draw.iid_expressions(np.arange(draw.iid_size))
            return pool.rank(iid.symbols, iid.functions)

        part = Kept(pool, search, partial(self._further, "iid", pool))
        part.size = draw.iid_size
        return part

    def _further(self, name: str, pool: Pool, quota: int) -> Ints:
        """Find the ranks of `quota` expressions that are in no split, or fewer if there are not
        enough.
        """
        return self._search(name, pool.length, pool, quota, self._test_names, further=True)

    def _fresh(self, name: str, length: int, pool: Pool, quota: int) -> Ints:
        """Find the ranks of `quota` expressions that are neither in training nor in an earlier test
        split, or fewer if there are not enough.
        """
        return self._search(name, length, pool, quota, self._earlier(name))

    def _search(
        self,
        name: str,
        length: int,
        pool: Pool,
        quota: int,
        excluded: Sequence[str],
        further: bool = False,
    ) -> Ints:
        """Find the ranks of `quota` expressions in a keyed order, without those that are reserved
        for training or kept for some test splits.

        Args:
            name: Name of the split.
            length: Length of the expressions.
            pool: The space to draw from.
            quota: Number of expressions.
            excluded: The test splits.
            further: Also exclude the training rows beyond those reserved for it.
        """
        order = self._key.permutation(pool.size, "test", name, length)
        # Above the range of int64, positions are Python integers.
        kind: Any = object if pool.size > 1 << 62 else np.int64
        kept: list[Ints] = []
        count = low = 0
        while count < quota and low < pool.size:
            # Test twice the missing number of ranks. Most of a test space is free, so one batch
            # usually suffices.
            batch = min(max(1_024, 2 * (quota - count)), LARGEST_BATCH)
            high = min(pool.size, low + batch)
            ranks = order(np.array(range(low, high), dtype=kind))
            e = pool.unrank(ranks)
            fresh: NDArray[np.bool_] = ~self._training.reserved(length, e)
            if further:
                fresh &= ~self._training.in_train(length, e)
            for other, taken in self._of_length(length, excluded):
                fresh &= ~np.isin(other.rank(e.symbols, e.functions), taken)
            kept.append(ranks[fresh][: quota - count])
            count += len(kept[-1])
            low = high
        return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)

    def _of_length(self, length: int, names: Sequence[str]) -> Iterator[tuple[Pool, Ints]]:
        for name in names:
            for part in self._kept(name):
                if part.pool.length == length:
                    yield part.pool, part.ranks

    def _tested(self, length: int) -> list[Expressions]:
        """Return the expressions of a length that are reserved for test splits."""
        return [pool.unrank(ranks) for pool, ranks in self._of_length(length, self._test_names)]


class Kept:
    """Expressions of one length that are reserved for a test split, and further ones.

    Attributes:
        pool: The pool that the expressions come from.
        ranks: Their ranks in the pool, searched for when first needed.
        size: Number of expressions.
    """

    def __init__(
        self, pool: Pool, search: Callable[[], Ints], further: Callable[[int], Ints]
    ) -> None:
        """Take the searches for ranks.

        Args:
            pool: The space.
            search: Finds the ranks.
            further: Finds as many further ranks as requested.
        """
        self.pool = pool
        self._search = search
        self._further = further
        self._found: Ints = np.zeros(0, dtype=np.int64)

    @cached_property
    def ranks(self) -> Ints:
        """Ranks in the pool, searched for on first access."""
        return self._search()

    @cached_property
    def size(self) -> int:
        """Number of expressions."""
        return len(self.ranks)

    def expressions(self, members: Ints) -> Expressions:
        """Return some of the expressions; members from `size` on are further ones."""
        most = int(members.max(initial=0)) + 1 - self.size
        if most <= 0:
            return self.pool.unrank(self.ranks[members])
        if len(self._found) < most:
            # Twice as many as needed, so that round after round repeats few searches.
            self._found = self._further(2 * most)
        return self.pool.unrank(np.concatenate([self.ranks, self._found])[members])


def _first(ranks: Ints, count: int) -> Ints:
    return ranks[:count]


def _even_share(left: int, parts: int) -> int:
    """Return the size of the next of `parts` nearly equal parts. The first parts are larger by
    one.
    """
    return -(-left // parts)


# Rendering: turn arrays of expressions into the columns of a dataset

TRAITS: dict[str, type] = {
    "length": int,
    "functions": str,
    "groups": str,
    "values": str,
    "seen": bool,
}
"""Types of the traits: length of the chain; functions, their groups and the values after each, in
order of application; whether training contains the expression.
"""


SPACE = strings([" "])[0]

LARGEST_TABLE = 4_096
"""Maximum number of phrases in a table, enough for all pairs of 64 functions or all sequences of
four of eight symbols. Building such a table takes a millisecond.
"""

LONGEST_PHRASE = 4
"""Maximum number of words looked up together."""


class JoinedWords:
    """Words joined by spaces.

    Phrases of several words are looked up together, which gives fewer and larger pieces to gather
    and join.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.most = 1
        while self.most < LONGEST_PHRASE and len(words) ** (self.most + 1) <= LARGEST_TABLE:
            self.most += 1
        self._tables: dict[int, pa.Array] = {}

    def pieces(self, codes: NDArray[Any]) -> list[pa.Array]:
        """Return columns whose concatenation is the phrase for each row of `codes` [rows,
        words].
        """
        starts = range(0, codes.shape[1], self.most)
        return [self._look_up(codes[:, start : start + self.most]) for start in starts]

    def _look_up(self, codes: NDArray[Any]) -> pa.Array:
        # The phrases of a table are in the order of `product`: the codes are digits of a number in
        # base len(words).
        number = codes[:, 0].astype(np.int32)
        for i in range(1, codes.shape[1]):
            number = number * len(self.words) + codes[:, i]
        return pc.take(self._table(codes.shape[1]), numbers(number))

    def _table(self, length: int) -> pa.Array:
        if length not in self._tables:
            phrases = map(" ".join, product(self.words, repeat=length))
            self._tables[length] = strings(list(phrases))
        return self._tables[length]


class Renderer:
    """Renders expressions as rows of a dataset."""

    def __init__(self, world: SymbolWorld, order: str, task: str) -> None:
        names = [str(s) for s in range(world.symbols)]
        groups = world.group_of()
        kinds = sorted(set(groups))
        self.names = strings(world.names)
        self.symbols = strings(names)
        self.functions = JoinedWords(world.names)
        self.values = JoinedWords(names)
        self.groups = JoinedWords(kinds)
        self.group_of = np.array([kinds.index(group) for group in groups], dtype=np.int32)
        self.outermost_first = order == "right-to-left"
        self.task = task

    def table(self, start: int, rows: ExpressionRows) -> pa.Table:
        """Return rows as a table. `start` is the index of the first row."""
        n = len(rows.seen)
        if not n:
            return schema(TRAITS).empty_table()
        # Parts are ordered by length. A single gather at the end puts every row into its position.
        origin = np.empty(n, dtype=np.int64)
        origin[np.concatenate([at for at, _ in rows.parts])] = np.arange(n)
        columns = [self._columns(e) for _, e in rows.parts]
        places = numbers(origin)
        joined = {}
        for name in columns[0]:
            by_length = pa.concat_arrays([column[name] for column in columns])
            joined[name] = pc.take(by_length, places)
        joined["seen"] = numbers(rows.seen)
        traits = [joined[name] for name in TRAITS]
        # Null means that the question and the content key are the whole input.
        nothing = pa.nulls(n, pa.string())
        arrays = [
            numbers(np.arange(start, start + n)),
            repeated(self.task, pa.string(), n),
            joined["input"],
            joined["targets"],
            nothing,
            nothing,
            joined["derivation"],
            pa.StructArray.from_arrays(traits, names=list(TRAITS)),
        ]
        return pa.table(arrays, schema=schema(TRAITS))

    def _columns(self, e: Expressions) -> dict[str, pa.Array]:
        n, length = e.functions.shape
        symbol = pc.take(self.symbols, numbers(e.symbols))
        if self.outermost_first:
            words = [*self.functions.pieces(e.functions[:, ::-1]), symbol]
        else:
            words = [symbol, *self.functions.pieces(e.functions)]
        steps = pa.StructArray.from_arrays(
            [
                pc.take(self.names, numbers(e.functions.ravel())),
                pc.take(self.symbols, numbers(e.values.ravel())),
                pa.nulls(n * length, STEP.field("of").type),
            ],
            fields=list(STEP),
        )
        # Offsets of the lists: one target per row, and `length` steps per row.
        ends = np.arange(n + 1, dtype=np.int32)
        answers = pc.take(self.symbols, numbers(e.values[:, -1]))
        return {
            "input": _join(words),
            "targets": pa.ListArray.from_arrays(numbers(ends), answers),
            "derivation": pa.ListArray.from_arrays(numbers(ends * length), steps),
            "length": numbers(np.full(n, length, dtype=np.int64)),
            "functions": _join(self.functions.pieces(e.functions)),
            "groups": _join(self.groups.pieces(self.group_of[e.functions])),
            "values": _join(self.values.pieces(e.values)),
        }


def _join(words: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*words, SPACE)


# Chains of functions as tasks, which have descriptions and can be withheld from training


def chain_tasks(world: SymbolWorld, without: Callable[[Withheld], Plan]) -> Tasks:
    """Build the tasks of a plan: one per chain of functions.

    Args:
        world: The world whose functions form the chains.
        without: Returns the same plan with the given chains withheld from training.
    """
    names = frozenset(world.names)
    return Tasks(
        "functions",
        partial(_describe, world),
        possible=lambda chain: names.issuperset(chain.split(" ")),
        # Single functions are never withheld, because longer chains consist of them.
        always=lambda chain: " " not in chain,
        without=without,
    )


def _describe(world: SymbolWorld, chain: str, level: Level) -> str:
    names = chain.split()
    steps = [f"the function {names[0]}", *names[1:]]
    instruction = f"Apply {', then '.join(steps)} to the symbol and give the resulting symbol."
    if level == "instruction":
        return instruction
    symbols = " ".join(map(str, range(world.symbols)))
    tables = []
    for name in dict.fromkeys(names):  # each function once, in order of application
        images = " ".join(map(str, world.images[world.names.index(name)]))
        tables.append(f"{name} turns {symbols} into {images}")
    return f"{instruction} Of the symbols, in order, {'; '.join(tables)}."


def without_chains(plan: Plan, withheld: Withheld) -> Plan:
    """Return the plan with some chains withheld from training."""
    from taskloom.core.descriptions import withhold

    thinned = withhold(plan, unseen_chains)(withheld)
    return replace(thinned, variants=partial(_unseen_variants, plan, withheld))


def _unseen_variants(plan: Plan, withheld: Withheld, example: Example) -> Iterator[Variant]:
    """Yield variants with the trait `seen` set to false if training no longer contains them."""
    assert plan.variants is not None
    for variant in plan.variants(example):
        varied = variant.example
        if withheld(str(varied.traits["functions"])):
            traits = {**varied.traits, "seen": False}
            variant = replace(variant, example=replace(varied, traits=traits))
        yield variant


def unseen_chains(split: Split, withheld: Withheld) -> Split:
    """Return the split with the trait `seen` set to false for rows that training no longer
    contains.
    """
    if split.role == "train":
        return split

    def rows(start: int, stop: int) -> pa.Table:
        from taskloom.core.descriptions import task_column, with_trait

        table = split.rows(start, stop)
        assert isinstance(table, pa.Table)
        chains = task_column(table, "functions").to_pylist()
        free = pa.array([not withheld(chain) for chain in chains], pa.bool_())
        return with_trait(table, "seen", pc.and_(task_column(table, "seen"), free))

    return replace(split, rows=rows)
