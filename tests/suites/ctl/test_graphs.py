"""Ranks and counts against enumeration, and our samples against the independent checker."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.seeding import Key
from taskloom.suites.ctl import graphs
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.graphs import ChainPool, GroupedOrder, Pool
from taskloom.suites.ctl.world import SymbolWorld, build
from tests.suites.ctl.checker import evaluate, follows


@st.composite
def worlds(draw: st.DrawFn, variant: str) -> SymbolWorld:
    symbols = draw(st.integers(3, 5))
    fields: dict[str, Any] = {"variant": variant, "symbols": symbols, "splits": {"train": {"n": 1}}}
    fields["table_seed"] = draw(st.integers(0, 99))
    if variant == "S":
        # Six functions, so that all chains of three can be tried: four groups of one, and two
        # shared ones.
        fields |= {
            "overlap": 2,
            "shared_symbols": draw(st.integers(-(-symbols // 2), symbols)),
            "functions": 6,
        }
    else:
        groups = draw(st.integers(1, 3))
        fields |= {"groups": groups, "functions": draw(st.integers(groups, 5))}
    return build(CtlFields.model_validate(fields))


def brute(world: SymbolWorld, kind: str, length: int) -> list[tuple[int, ...]]:
    """All expressions of a length that a rule allows, by trying every one."""
    functions = {n: [int(x) for x in world.images[f]] for f, n in enumerate(world.names)}
    groups = {g: [world.names[f] for f in members] for g, members in world.groups.items()}
    allowed: dict[tuple[str, str], set[int]] = {}
    if world.allowed is not None:
        for i, name in enumerate(groups["o"]):
            for path, group in enumerate(("a1", "b1")):
                allowed[group, name] = set(np.flatnonzero(world.allowed[path, i]).tolist())
    found = []
    for symbol, *chain in product(range(world.symbols), *[range(world.functions)] * length):
        words = [str(symbol), *(world.names[f] for f in chain)]
        if follows(kind, groups, allowed, words, evaluate(functions, words)):
            found.append((symbol, *chain))
    return found


def compare(pool: Pool, expected: list[tuple[int, ...]]) -> None:
    assert pool.size == len(expected)
    if not pool.size:
        return
    e = pool.unrank(np.arange(pool.size))
    rows = [(int(s), *map(int, f)) for s, f in zip(e.symbols, e.functions, strict=True)]
    assert sorted(rows) == sorted(expected)
    assert pool.rank(e.symbols, e.functions).tolist() == list(range(pool.size))
    value = e.symbols
    for i in range(pool.length):
        value = pool.world.images[e.functions[:, i], value]
        assert (value == e.values[:, i]).all()
    wide = pool._unrank_wide(np.arange(pool.size, dtype=object))
    assert (wide.functions == e.functions).all()
    assert (wide.values == e.values).all()


@given(worlds("A"), st.integers(1, 3))
def test_a_and_r(world: SymbolWorld, length: int) -> None:
    compare(Pool(graphs.alternating(world), world, length), brute(world, "alternate", length))
    compare(Pool(graphs.repeating(world), world, length), brute(world, "same", length))
    compare(Pool(graphs.anything(world), world, length), brute(world, "any", length))


STAGED = {
    "seen": "seen",
    "cross": "cross",
    "overlap": "overlap",
    "unseen": "unseen",
    "unseen-symbols": "unseen-symbols",
    "any": "stages",
}
"""Our kinds of staged graphs to the checker's rules."""


@given(world=worlds("S"), kind=st.sampled_from(sorted(STAGED)), length=st.integers(1, 3))
def test_s(world: SymbolWorld, kind: str, length: int) -> None:
    compare(Pool(graphs.staged(world, kind), world, length), brute(world, STAGED[kind], length))


@given(worlds("A"), st.integers(1, 3), st.integers(0, 20))
def test_outsiders_have_no_rank(world: SymbolWorld, length: int, seed: int) -> None:
    pool = Pool(graphs.alternating(world), world, length)
    every = Pool(graphs.anything(world), world, length)
    e = every.unrank(np.arange(every.size))
    inside = set(brute(world, "alternate", length))
    ranks = pool.rank(e.symbols, e.functions)
    for row, rank in zip(zip(e.symbols, *e.functions.T, strict=True), ranks, strict=True):
        assert (rank >= 0) == (tuple(map(int, row)) in inside)


@given(
    st.sampled_from([(4, 1), (4, 2), (4, 4), (6, 3), (3, 3)]), st.integers(1, 30), st.integers(0, 9)
)
def test_grouped_orders_are_bijections_that_keep_chains_together(
    shape: tuple[int, int], chains: int, seed: int
) -> None:
    symbols, group = shape
    order = GroupedOrder(Key("g", seed), symbols * chains, symbols, group)
    ranks = order(np.arange(symbols * chains))
    assert sorted(ranks.tolist()) == list(range(symbols * chains))
    assert (order.inverse(ranks) == np.arange(symbols * chains)).all()
    for low in range(0, symbols * chains, group):
        assert len({int(r) % chains for r in ranks[low : low + group]}) == 1


def test_reserved_chains_and_the_rest_are_the_whole() -> None:
    world = build(
        CtlFields(
            variant="length", functions=4, new_functions=1, symbols=3, splits={"train": {"n": 1}}
        )
    )
    order = Key("x").permutation(4**3)
    known = world.groups["known"]
    kept, rest = ChainPool(world, known, 3, order, 0, 10), ChainPool(world, known, 3, order, 10, 64)
    rows = []
    for pool in (kept, rest):
        e = pool.unrank(np.arange(pool.size))
        assert pool.rank(e.symbols, e.functions).tolist() == list(range(pool.size))
        rows += [(int(s), *map(int, f)) for s, f in zip(e.symbols, e.functions, strict=True)]
        other = rest if pool is kept else kept
        assert (other.rank(e.symbols, e.functions) == -1).all()
    assert len(set(rows)) == 3 * 4**3
    assert len({r[1:] for r in rows[: kept.size]}) == 10


def test_spaces_beyond_machine_integers() -> None:
    world = build(CtlFields(variant="A", splits={"train": {"n": 1}}))
    pool = Pool(graphs.alternating(world), world, 40)
    assert pool.size == 8 * 32 * 16**39
    ranks = np.array([0, 1, pool.size // 3, pool.size - 1], dtype=object)
    e = pool.unrank(ranks)
    assert pool.rank(e.symbols, e.functions).tolist() == ranks.tolist()
