"""Splits of the recipes: sizes, rules, disjointness, settings that cannot be."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError
from taskloom.recipe import read
from tests.slow import slow_except
from tests.suites.ctl.checker import evaluate, follows

FEW = {"A": ("functions=16", "splits.train.n=2500"), "R": ("functions=16", "splits.train.n=2500")}
"""Half of the functions, so that there are 1,024 pairs instead of 4,096."""


def small(name: str) -> tuple[str, ...]:
    return FEW.get(name[4], ("splits.train.n=2500",))


RECIPES = ["ctl/A", "ctl/A-independent", "ctl/R", "ctl/S", "ctl/S-independent", "ctl/length"]
RULES = {
    "A": {"train": "alternate", "iid": "alternate", "ood": "same", "pairs": "alternate"},
    "R": {"train": "same", "iid": "same", "ood": "alternate", "self-loop": "same", "pairs": "same"},
    "S": {
        "train": "seen",
        "iid": "seen",
        "ood": "cross",
        "self-loop": "same",
        "overlap": "overlap",
        "cross-unseen-symbols": "unseen-symbols",
        "unseen-pairs": "unseen",
        "pairs": "seen",
        "all-pairs": "stages",
    },
    "length": {},
}


@cache
def data(name: str, seed: int = 0) -> tl.Dataset:
    return tl.make(name, seed=seed, set=small(name))


@pytest.mark.parametrize("name", slow_except(RECIPES, "ctl/A", "ctl/S", "ctl/length"))
def test_every_sample_obeys_the_rules(name: str) -> None:
    from taskloom.suites.ctl.world import build

    d = data(name)
    fields = read(name, small(name)).fields
    world = build(fields)  # type: ignore[arg-type]
    functions = {n: [int(x) for x in world.images[f]] for f, n in enumerate(world.names)}
    groups = {g: [world.names[f] for f in members] for g, members in world.groups.items()}
    allowed = {}
    if world.allowed is not None:
        for i, f in enumerate(groups["o"]):
            for path, group in enumerate(("a1", "b1")):
                allowed[group, f] = {s for s in range(world.symbols) if world.allowed[path, i, s]}
    variant = d.manifest["recipe"]["variant"]
    for split in d.splits:
        rule = RULES[variant].get(split, "any")
        for example in d[split]:
            words = example.input.split()[::-1]
            trace = evaluate(functions, words)
            assert example.targets == (str(trace[-1]),)
            assert example.traits["length"] == len(words) - 1
            assert example.traits["functions"] == " ".join(words[1:])
            assert example.traits["values"] == " ".join(map(str, trace[1:]))
            assert [(s.rule, s.value) for s in example.derivation] == list(
                zip(words[1:], map(str, trace[1:]), strict=True)
            )
            if not (split == "train" and len(words) == 2):
                assert follows(rule, groups, allowed, words, trace), (split, example)


@pytest.mark.parametrize("name", RECIPES)
def test_splits_are_disjoint_and_without_repeats(name: str) -> None:
    d = data(name)
    inputs = {split: d.table(split).column("input").to_pylist() for split in d.splits}
    for split in d.splits:
        repeats = len(inputs[split]) - len(set(inputs[split]))
        if split == "train" and d.manifest["warnings"]:
            pairs = Counter(x for x in inputs[split] if len(x.split()) == 3)
            assert set(pairs.values()) == {
                1,
                2,
            }, "every pair once for itself, and once more if it was drawn"
            assert repeats == sum(count - 1 for count in pairs.values()) > 0
        else:
            assert repeats == 0, split
    drawn = [s for s in d.splits if d.role(s) != "probe"]
    for i, a in enumerate(drawn):
        for b in drawn[i + 1 :]:
            assert not set(inputs[a]) & set(inputs[b]), (a, b)


@pytest.mark.parametrize("name", RECIPES)
def test_probes_know_what_training_has(name: str) -> None:
    d = data(name)
    train = set(d.table("train").column("input").to_pylist())
    for split in d.splits:
        for example in d[split]:
            assert example.traits["seen"] == (example.input in train), (split, example.input)


def lengths(name: str, split: str) -> Counter[int]:
    return Counter(int(e.traits["length"]) for e in data(name)[split])


def test_singles_pairs_and_sizes() -> None:
    independent = lengths("ctl/A-independent", "train")
    assert independent[1] == 128
    assert sum(independent.values()) == 2_500
    published = lengths("ctl/A", "train")
    assert 1 not in published
    assert sum(published.values()) == 2_500 + 1_024
    assert published[2] == 500 + 1_024
    assert not lengths("ctl/A", "iid")[2]
    assert set(lengths("ctl/S", "train")) == {2, 4, 6}


def test_pairs_instead_of_drawn_ones() -> None:
    d = tl.make(
        "ctl/A-independent", set=[*small("ctl/A"), "include_singles=false", "include_pairs=true"]
    )
    counts = Counter(e.traits["length"] for e in d["train"])
    assert sum(counts.values()) == 2_500
    assert counts[2] == 1_024 == len({e.input for e in d["train"] if e.traits["length"] == 2})
    assert d.manifest["warnings"] == []


FULL = {
    "ctl/A": 304_096,
    "ctl/A-reference": 304_096,
    "ctl/A-independent": 300_000,
    "ctl/R": 304_096,
    "ctl/R-reference": 304_096,
    "ctl/R-independent": 300_000,
    "ctl/S": 301_152,
    "ctl/S-reference": 301_152,
    "ctl/S-independent": 300_000,
    "ctl/length": 100_000,
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if "ref" in n else n for n in FULL]
)
def test_full_sizes(name: str) -> None:
    sizes = {s.name: s.n for s in read(name).plan(0).splits}
    assert sizes["train"] == FULL[name]
    assert sizes["iid"] == sizes["ood"] == 1_000
    if name in ("ctl/A", "ctl/R"):
        assert (sizes["pairs"], sizes["all-pairs"]) == (4_096, 8_192)
    if name == "ctl/S":
        assert (sizes["pairs"], sizes["all-pairs"], sizes["unseen-pairs"]) == (1_152, 1_536, 384)


@pytest.mark.slow
def test_lengths_are_equalised_as_in_the_spec() -> None:
    changes = ["include_singles=false", "splits={train: {n: 300000}, iid: {n: 1000}}"]
    plan = read("ctl/R-independent", changes).plan(0)
    counts: Counter[int] = Counter()
    for split in plan.splits:
        table = split.rows(0, split.n)
        counts.update(len(x.split()) - 1 for x in table.column("input").to_pylist())  # type: ignore[union-attr]
    assert dict(counts) == {2: 2_048, 3: 32_768, 4: 88_728, 5: 88_728, 6: 88_728}


def test_test_lengths_are_even() -> None:
    assert Counter(e.traits["length"] for e in data("ctl/A")["ood"]) == dict.fromkeys(
        range(2, 7), 200
    )
    assert Counter(e.traits["length"] for e in data("ctl/S")["ood"]) == {2: 256, 4: 372, 6: 372}


def test_the_length_recipe() -> None:
    d = data("ctl/length")
    lengths = {s: {e.traits["length"] for e in d[s]} for s in d.splits}
    assert lengths["train"] == {1, 2, 3, 4, 5}
    assert lengths["valid"] == {6}
    assert lengths["ood"] == {7, 8}
    chains = {e.traits["functions"] for e in d["train"]} | {e.traits["functions"] for e in d["iid"]}
    assert not chains & {e.traits["functions"] for e in d["new-compositions"]}
    new = {"i", "j"}
    assert all(new & set(str(e.traits["functions"]).split()) for e in d["new-primitives"])
    assert {
        e.traits["functions"] for e in d["train"] if new & set(str(e.traits["functions"]).split())
    } == new


def test_seeds_share_no_more_than_chance() -> None:
    a, b = (set(data("ctl/A", seed).table("ood").column("input").to_pylist()) for seed in (42, 43))
    # Of length 2 about 200 * 200 / 1,024 = 39 coincide, of length 3 about 5.
    assert len(a & b) < 80


def test_left_to_right_is_the_mirror() -> None:
    mirrored = tl.make("ctl/A", set=["order=left-to-right", "splits={train: {n: 500}}"])
    example = mirrored["train"][0]
    assert example.input.split()[0].isdigit()
    assert tl.apply("ctl/A", example.input, set=["order=left-to-right"]).targets == example.targets


def test_chains_with_all_their_symbols() -> None:
    """A chain that iid took a member of is the only incomplete kind, but for the last one."""
    d = tl.make("ctl/A", set=["splits.train.n=12000", "draw=chains", "functions=16"])
    chains = Counter(e.traits["functions"] for e in d["train"] if e.traits["length"] == 6)
    assert Counter(chains.values()).most_common(1)[0][0] == 8
    assert len(chains) < sum(chains.values()) / 6
    train = set(d.table("train").column("input").to_pylist())
    assert not train & {e.input for s in ("iid", "ood", "all") for e in d[s]}
    assert all(e.traits["seen"] == (e.input in train) for e in d["pairs"])


def test_one_given_function_is_enough_to_apply_it() -> None:
    assert tl.apply("ctl/A", "f f 0", set=["tables={f: [1, 2, 0]}"]).targets == ("2",)


def test_many_symbols_and_functions() -> None:
    d = tl.make(
        "ctl/A-independent",
        set=[
            "symbols=120",
            "functions=300",
            "splits={train: {n: 40000}, iid: {n: 100}, ood: {n: 100}}",
        ],
    )
    assert max(int(e.target) for e in d["ood"]) > 99
    names = {name for e in d["ood"] for name in str(e.traits["functions"]).split()}
    assert any(len(name) == 2 for name in names)


def test_very_long_chains() -> None:
    changes = [
        "min_length=30",
        "max_length=31",
        "splits={train: {n: 400}, iid: {n: 50}, ood: {n: 50}}",
    ]
    d = tl.make("ctl/A-independent", set=[*changes, "include_singles=false"])
    assert {e.traits["length"] for e in d["ood"]} == {30, 31}
    assert len({e.input for s in d.splits for e in d[s]}) == 500


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("ctl/A", ["symbols=3", "functions=7"], ["3! = 6", "7 distinct functions"]),
        (
            "ctl/A-independent",
            ["splits.train.n=999999999"],
            ["0.5 x 4,096 = 2,048", "only 143,165,696"],
        ),
        ("ctl/A-independent", ["splits.train.n=100"], ["256 of length 1", "raise splits.train.n"]),
        ("ctl/A", ["splits.ood.n=99999999999"], ["splits.ood", "length 2: 4,096"]),
        ("ctl/A", ["splits.pairs.n=5000"], ["splits.pairs", "4,096"]),
        ("ctl/A", ["splits.train.n=every"], ["splits.train: n must be a number"]),
        ("ctl/A", ["splits.self-loop.n=10"], ["no split 'self-loop'"]),
        ("ctl/A", ["groups=40"], ["32 functions cannot fill the 40 groups"]),
        ("ctl/S", ["overlap=1"], ["1 x 6 = 6 of 8"]),
        ("ctl/S", ["overlap=40"], ["40 shared functions"]),
        ("ctl/S", ["overlap=30"], ["2 functions cannot fill the 4 groups"]),
        ("ctl/S", ["shared_symbols=9"], ["9 of 8"]),
        ("ctl/S", ["imbalance=2"], ["imbalance: 2", "1 unshared"]),
        ("ctl/S", ["groups=3"], ["2 paths"]),
        ("ctl/A", ["symbols=10000", "functions=300"], ["3,000,000 table entries"]),
        ("ctl/A", ["functions=10000", "groups=10000"], ["80,000 table entries in 10,001 states"]),
        (
            "ctl/R",
            ["symbols=1000", "functions=1000", "groups=500"],
            ["1,000,000 table entries in 501 states", "use fewer functions, symbols or groups"],
        ),
        ("ctl/length", ["symbols=500", "max_length=64", "deeper=64"], ["up to 128 functions"]),
        ("ctl/A", ["draw=chains", "symbols_per_chain=3"], ["symbols_per_chain: 3 "]),
        (
            "ctl/S",
            ["draw=chains", "symbols_per_chain=2"],
            ["only for draw 'chains' of variants A and R"],
        ),
        (
            "ctl/A",
            ["symbols_per_chain=2"],
            ["symbols_per_chain: only for draw 'chains'", "'published' of A"],
        ),
        ("ctl/A", ["draw=publshed"], ["draw"]),
        ("ctl/A", ["processes=0"], ["processes"]),
        ("ctl/length", ["draw=published"], ["draw: variant length", "'independent'"]),
        (
            "ctl/A",
            ["max_length=12"],
            ["expressions of length 12", "draw: independent"],
        ),
        ("ctl/A", ["splits.iid.n=400000000"], ["splits.iid", "400,000,000"]),
        ("ctl/A", ["groups=100000000"], ["groups", "less than or equal to 10000"]),
        (
            "ctl/A",
            ["groups=10000"],
            ["32 functions cannot fill the 10,000 groups a, b, c, d, e, f, g, h, …;"],
        ),
        ("ctl/length", ["deeper=10000000000"], ["deeper", "less than or equal to 64"]),
        ("ctl/A", ["overlap=8"], ["overlap: only for variant S, not for A"]),
        ("ctl/S", ["deeper=2"], ["deeper: only for variant length, not for S"]),
        ("ctl/R", ["min_length=7"], ["min_length 7", "max_length 6"]),
        ("ctl/R", ["variant=Q"], ["variant"]),
        ("ctl/A", ["tables={a: [0, 1], b: [0]}"], ["one image per symbol"]),
        ("ctl/A", ["tables={a: [0, 2]}"], ["maps to 2"]),
        ("ctl/A", ["tables={'1': [0, 1]}"], ["cannot name a function"]),
        ("ctl/S", ["allowed={a: {a1: [0]}}"], ["allowed", "shared functions"]),
        ("ctl/length", ["new_functions=8", "functions=0"], ["functions"]),
    ],
)
def test_impossible_settings_are_refused_with_the_arithmetic(
    name: str, changes: list[str], words: list[str]
) -> None:
    with pytest.raises(RecipeError) as caught:
        read(name, changes).plan(0)
    for word in words:
        assert word in str(caught.value)


def test_overlap_of_unusual_numbers() -> None:
    """Five functions over four groups: the reference's slicing leaves one group empty; ours is
    even.
    """
    from taskloom.suites.ctl.world import slices

    assert slices([1, 2, 3, 4, 5], ["w", "x", "y", "z"]) == {
        "w": (1, 2),
        "x": (3,),
        "y": (4,),
        "z": (5,),
    }
    assert slices(list(range(10)), ["w", "x", "y", "z"]) == {
        "w": (0, 1, 2),
        "x": (3, 4, 5),
        "y": (6, 7, 8),
        "z": (9,),
    }
