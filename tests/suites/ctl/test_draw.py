"""The three draws: the published one against a plain re-telling of the public code, and what no
field may move.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import count, islice, product
from typing import Any

import numpy as np
import pytest

import taskloom as tl
from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.ctl.draw import apportion, equalise
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.graphs import Pool, first_places, split_graph
from taskloom.suites.ctl.published_draw import published_draw
from taskloom.suites.ctl.world import SymbolWorld, build
from tests.slow import slow_except


def world_of(variant: str, **fields: Any) -> SymbolWorld:
    return build(CtlFields(variant=variant, splits={"train": {"n": 1}}, **fields))


def choose_from(world: SymbolWorld, variant: str, chain: list[int], symbol: int) -> list[int]:
    """List the functions that may come next, by the paper's rules: a group's own first, then the
    shared ones.
    """
    group = world.group_of()
    if variant == "S":
        if len(chain) % 2 == 0:
            return [*world.groups["a1"], *world.groups["b1"]]
        path = 0 if group[chain[-1]] == "a1" else 1
        assert world.allowed is not None
        shared = [f for i, f in enumerate(world.groups["o"]) if world.allowed[path, i, symbol]]
        return [*world.groups[("a2", "b2")[path]], *shared]
    every = range(world.functions)
    if not chain:
        return list(every)
    return [f for f in every if (group[f] == group[chain[-1]]) == (variant == "R")]


def retell(
    world: SymbolWorld, variant: str, length: int, key: Key, processes: int, wanted: int
) -> list[tuple[int, ...]]:
    """Draw as the public code does, one expression at a time.

    Every process reads the same words from where it stopped, in rounds of 100 expressions.
    """
    words = [int(w) for w in key.child("words").words(0, 200_000)]
    symbols = (
        int(w) % world.symbols
        for block in count()
        for w in key.child("symbols", length).words(block * 1_000, block * 1_000 + 1_000)
    )
    at = [0] * processes
    known: dict[tuple[int, ...], None] = {}
    while len(known) < wanted:
        for process in range(processes):
            for start in list(islice(symbols, 100)):
                chain: list[int] = []
                value = start
                while len(chain) < length:
                    options = choose_from(world, variant, chain, value)
                    place = words[at[process]] % (1 << (len(options) - 1).bit_length())
                    at[process] += 1
                    if place < len(options):
                        chain.append(options[place])
                        value = int(world.images[chain[-1], value])
                known.setdefault((start, *chain))
    return list(known)[:wanted]


SMALL_WORLDS: dict[str, dict[str, Any]] = {
    "A": {"functions": 10, "symbols": 5},
    "R": {"functions": 9, "symbols": 4, "groups": 3, "table_seed": 1},
    "S": {"functions": 14, "symbols": 6, "overlap": 4, "shared_symbols": 3},
}


@pytest.mark.parametrize(
    ("variant", "size", "processes"),
    slow_except(
        product("ARS", ["paper", "small"], [1, 3, 32]),
        ("A", "paper", 1),
        ("R", "paper", 3),
        ("S", "paper", 3),
        ("A", "small", 32),
        ("R", "small", 32),
        ("S", "small", 1),
    ),
)
def test_the_published_draw_is_the_public_codes(variant: str, size: str, processes: int) -> None:
    fields = SMALL_WORLDS[variant] if size == "small" else {}
    world = world_of(variant, **fields)
    key = Key("published", variant, processes)
    for length in (2, 4) if variant == "S" else (2, 3):
        graph = split_graph(world, variant, "seen")
        pool = Pool(graph, world, length)
        for wanted in (1, min(450, pool.size // 2)):
            symbols, functions = published_draw(graph, world, pool, key, processes, wanted)
            ours = [(int(s), *map(int, f)) for s, f in zip(symbols, functions, strict=True)]
            assert ours == retell(world, variant, length, key, processes, wanted)


def test_a_draw_that_needs_more_words_than_expected() -> None:
    """Many rounds, drawn in several blocks, are those of one long draw."""
    world = world_of("S", functions=14, symbols=6, overlap=4, shared_symbols=3)
    graph = split_graph(world, "S", "seen")
    pool = Pool(graph, world, 4)
    many, few = (published_draw(graph, world, pool, Key("p"), 2, n) for n in (4_000, 40))
    assert len(set(zip(many[0].tolist(), map(tuple, many[1].tolist()), strict=True))) == 4_000
    assert (many[0][:40] == few[0]).all()
    assert (many[1][:40] == few[1]).all()


def test_a_draw_of_everything_ends_with_each_expression_once() -> None:
    world = world_of("A", functions=4, symbols=3)
    graph = split_graph(world, "A", "seen")
    pool = Pool(graph, world, 2)
    symbols, functions = published_draw(graph, world, pool, Key("p"), 4, pool.size + 1)
    assert sorted(pool.rank(symbols, functions.astype(np.int64)).tolist()) == list(range(pool.size))


def test_first_places() -> None:
    numbers = np.array([5, 3, 5, 0, 3, 7])
    assert first_places(numbers, 8).tolist() == [0, 1, 3, 5]
    assert first_places(numbers, 1 << 62).tolist() == [0, 1, 3, 5]


def test_iid_is_divided_as_training_is() -> None:
    quotas = equalise(301_000, {2: 4_096, 3: 65_536, 4: 1 << 20, 5: 1 << 24, 6: 1 << 28}, 0.5)
    assert apportion(1_000, quotas) == {2: 6, 3: 109, 4: 295, 5: 295, 6: 295}
    assert sum(apportion(17, {2: 3, 4: 5, 6: 0}).values()) == 17


@pytest.fixture(autouse=True)
def small_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes plans quick: less room is kept for a training split of the paper's size."""
    monkeypatch.setattr("taskloom.suites.ctl.draw.PAPER_TRAIN", 3_000)


@cache
def inputs(name: str, changes: tuple[str, ...] = (), seed: int = 0) -> dict[str, list[str]]:
    d = tl.make(name, seed=seed, set=list(changes))
    return {split: d.table(split).column("input").to_pylist() for split in d.splits}


@pytest.mark.parametrize("name", ["ctl/A", "ctl/R", "ctl/S", "ctl/A-independent", "ctl/length"])
def test_the_size_of_training_moves_no_other_split(name: str) -> None:
    """And the smaller training set is part of the larger one."""
    small, large = (inputs(name, (f"splits.train.n={n}",)) for n in (1_000, 2_500))
    for split in small:
        if split != "train":
            assert small[split] == large[split], split
    assert not Counter(small["train"]) - Counter(large["train"])


def test_training_beyond_the_papers_size() -> None:
    for draw in ("published", "chains", "independent"):
        made = {
            n: tl.make("ctl/R", set=["functions=16", f"splits.train.n={n}", f"draw={draw}"])
            for n in (1_000, 12_000)
        }
        train = set(made[12_000].table("train").column("input").to_pylist())
        for split in ("iid", "ood", "all", "self-loop"):
            rows = [made[n].table(split).column("input").to_pylist() for n in made]
            assert rows[0] == rows[1]
            assert not train & set(rows[0]), (draw, split)
        assert train >= set(made[1_000].table("train").column("input").to_pylist())
        assert all(e.traits["seen"] == (e.input in train) for e in made[12_000]["all-pairs"])


@pytest.mark.parametrize("name", ["ctl/A", "ctl/S"])
def test_a_split_more_or_less_moves_no_other(name: str) -> None:
    every = inputs(name, ("splits.train.n=1000",))
    for split in ("iid", "all"):
        alone = inputs(name, (f"splits={{train: {{n: 1000}}, {split}: {{n: 50}}}}",))
        assert set(alone[split]) <= set(every[split])


@pytest.mark.parametrize("name", ["ctl/A", "ctl/S", "ctl/A-independent"])
def test_training_takes_what_a_smaller_iid_leaves_and_nothing_else(name: str) -> None:
    whole, half = (inputs(name, ("splits.train.n=1000", f"splits.iid.n={n}")) for n in (1_000, 500))
    for split in whole:
        if split not in ("train", "iid"):
            assert whole[split] == half[split], split
    assert set(half["iid"]) < set(whole["iid"])
    fresh = set(half["train"]) - set(whole["train"])
    assert fresh
    assert fresh <= set(whole["iid"]) - set(half["iid"])


def test_what_draws_have_in_common() -> None:
    """The draw, the pairs and the single functions are training's: tests that cannot be in training
    stay as they are.
    """
    small = "splits.train.n=1000"
    published, independent = inputs("ctl/A", (small,)), inputs("ctl/A-independent", (small,))
    for split in ("ood", "pairs", "all-pairs"):
        assert published[split] == independent[split]
    mirrored = inputs("ctl/A", (small, "order=left-to-right"))
    for split, rows in mirrored.items():
        assert [" ".join(reversed(row.split())) for row in rows] == published[split]


def test_every_chain_of_s_with_all_its_symbols() -> None:
    """A start symbol that the training graph allows is missing only at the end of the draw."""
    d = tl.make("ctl/S", set=["splits={train: {n: 6000}}", "draw=chains"])
    fields: Any = read("ctl/S").fields
    world = build(fields)
    pool = Pool(split_graph(world, "S", "seen"), world, 6)
    chains: dict[tuple[str, ...], set[int]] = {}
    for e in d["train"]:
        if e.traits["length"] == 6:
            chains.setdefault(tuple(str(e.traits["functions"]).split()), set()).add(
                int(e.input.split()[-1])
            )
    whole = 0
    for chain, symbols in chains.items():
        functions = np.array([[world.names.index(f) for f in chain]] * world.symbols)
        allowed = np.flatnonzero(pool.rank(np.arange(world.symbols), functions) >= 0)
        assert symbols <= set(allowed.tolist())
        whole += len(symbols) == len(allowed)
    assert whole >= 0.9 * len(chains)
    assert sum(map(len, chains.values())) / len(chains) > 2


@pytest.mark.parametrize("draw", ["published", "chains", "independent"])
@pytest.mark.parametrize("name", ["ctl/R", "ctl/S"])
def test_any_range_alone(name: str, draw: str) -> None:
    whole, again = (read(name, ["splits.train.n=3000", f"draw={draw}"]).plan(5) for _ in range(2))
    for split in reversed(whole.splits):
        rows: Any = split.rows(0, split.n)
        low = split.n // 3
        alone: Any = again.split(split.name).rows(low, low + 7)
        assert alone.to_pylist() == rows.slice(low, 7).to_pylist()


def test_seeds_draw_other_chains() -> None:
    a, b = (inputs("ctl/A", ("splits.train.n=1000",), seed)["train"] for seed in (1, 2))
    long = [{x for x in rows if len(x.split()) == 7} for rows in (a, b)]
    assert not long[0] & long[1]


def test_fewer_processes_draw_fewer_symbols_per_chain() -> None:
    means = []
    for processes in (1, 8, 32):
        rows = inputs("ctl/R", ("splits={train: {n: 20000}}", f"processes={processes}"))["train"]
        chains = Counter(x.rsplit(" ", 1)[0] for x in rows if len(x.split()) == 7)
        means.append(sum(chains.values()) / len(chains))
    # The last round is cut off; before it a chain meets 8 (1 - (7/8)^processes) symbols: 1, 5.25
    # and 7.89.
    assert means[0] == pytest.approx(1, abs=0.01)
    assert means[1] == pytest.approx(5.25, abs=0.35)
    assert means[2] == pytest.approx(7.89, abs=0.6)
