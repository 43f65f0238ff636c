"""The world of CTL: function names and tables, groups, and the symbols on which training uses
shared functions.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import Key
from taskloom.suites.ctl.fields import CtlFields

Table = NDArray[np.int64]
Groups = tuple[tuple[int, ...], ...]

MOST_ENTRIES = 1_000_000
"""Maximum number of table entries, because drawing more takes minutes."""

MOST_REGROUPED = 64
"""Maximum number of functions, and of symbols, for which functions can be regrouped."""

RESTARTS = 10
"""Number of starting points in the search for a group distance. In 40 worlds of 12 functions, small
enough to try every division, the best of ten starts was always the optimum.
"""

ROUNDING = 1e-12
"""Minimum change of a distance that counts as an improvement, so that rounding errors have no
effect.
"""

MOST_COUNTS = 40_000_000
"""Maximum number of values computed to count the expressions of a graph. This many take 30 s and
3.6 GB.
"""


@dataclass(frozen=True, slots=True)
class SymbolWorld:
    """Symbols and functions.

    Attributes:
        names: Names of the functions.
        images: `images[f, s]` is the result of applying function f to symbol s.
        groups: Maps a group's name to the positions of its functions.
        allowed: Only for S. `allowed[path, f, s]` is True if shared function f may follow a stage-1
            function of that path on symbol s.
    """

    names: tuple[str, ...]
    images: Table
    groups: dict[str, tuple[int, ...]]
    allowed: NDArray[np.bool_] | None = None

    @property
    def symbols(self) -> int:
        """Number of symbols."""
        return int(self.images.shape[1])

    @property
    def functions(self) -> int:
        """Number of functions."""
        return len(self.names)

    def group_of(self) -> list[str]:
        """Return the group of each function."""
        group_names = [""] * self.functions
        for group, members in self.groups.items():
            for f in members:
                group_names[f] = group
        return group_names


def function_names(count: int) -> tuple[str, ...]:
    """Return distinct names that do not look like symbols: a..z, A..Z, then pairs of letters."""
    letters = string.ascii_letters
    names = list(letters[:count])
    width = 2
    while len(names) < count:
        longer = map("".join, itertools.product(letters, repeat=width))
        names += itertools.islice(longer, count - len(names))
        width += 1
    return tuple(names)


def build(fields: CtlFields) -> SymbolWorld:
    """Build the world of a recipe."""
    names, images = functions_of(fields)
    groups = _groups(fields, len(names))
    _refuse_large(fields, images.size, len(groups))
    allowed = None
    if fields.variant == "S" and fields.allowed:
        allowed = _read_allowed(fields, names, groups, images.shape[1])
    elif fields.variant == "S":
        allowed = draw_allowed(fields)
    return SymbolWorld(names, images, groups, allowed)


def _refuse_large(fields: CtlFields, entries: int, groups: int) -> None:
    """Reject a world whose expressions would take too long to count, before counting starts.

    For each length and step there is one count per table entry and state of the graph. The graphs
    of A and R have one state per group (`taskloom.suites.ctl.graphs`).
    """
    states = {"S": 3, "length": 2}.get(fields.variant, groups + 1)
    longest = fields.max_length
    if fields.variant == "length":
        longest += fields.deeper
    steps = sum(range(fields.min_length, longest + 1))
    counts = entries * states * steps
    if counts > MOST_COUNTS:
        raise RecipeError(
            f"functions: counting the expressions of up to {longest} functions takes {counts:,}"
            f" numbers ({entries:,} table entries in {states:,} states, {steps:,} steps), more than"
            f" {MOST_COUNTS:,}; use fewer functions, symbols or groups, or a lower max_length"
        )


def functions_of(fields: CtlFields) -> tuple[tuple[str, ...], Table]:
    """Return the names and images of the functions, given or drawn. Answers depend only on
    these.
    """
    names, images = _given(fields) if fields.tables is not None else _drawn(fields)
    if fields.group_distance != "given":
        # Groups keep their names, so a function that changes its group also changes its name.
        images = images[regrouped(fields, images)]
    return names, images


def _given(fields: CtlFields) -> tuple[tuple[str, ...], Table]:
    assert fields.tables is not None
    if not fields.tables:
        raise RecipeError(
            "tables: no functions are given; map names to lists of images, e.g. {a: [1, 0]}"
        )
    sizes = {len(images) for images in fields.tables.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise RecipeError(
            "tables: every function needs one image per symbol, but these tables have "
            f"{sorted(sizes)} entries"
        )
    symbols = sizes.pop()
    for name, images in fields.tables.items():
        if not name or name.split() != [name] or name.isdigit():
            raise RecipeError(
                f"tables: '{name}' cannot name a function; a name has no spaces and is not a number"
            )
        for image in images:
            if not 0 <= image < symbols:
                raise RecipeError(
                    f"tables: {name} maps to {image}, which is not one of the symbols 0 to"
                    f" {symbols - 1}"
                )
    return tuple(fields.tables), np.array(list(fields.tables.values()), dtype=np.int64)


def _drawn(fields: CtlFields) -> tuple[tuple[str, ...], Table]:
    """Draw distinct random permutations. They depend only on the table seed and the sizes, so A, R
    and S share their functions.
    """
    count = fields.functions + fields.new_functions
    if count * fields.symbols > MOST_ENTRIES:
        raise RecipeError(
            f"functions: {count} functions of {fields.symbols} symbols have "
            f"{count * fields.symbols:,} table entries, more than {MOST_ENTRIES:,}; counting "
            "would take minutes: use fewer functions or symbols"
        )
    possible = math.factorial(fields.symbols) if fields.symbols <= 20 else None
    if possible is not None and count > possible:
        raise RecipeError(
            f"functions: the recipe needs {count} distinct functions, but {fields.symbols} "
            f"symbols have only {fields.symbols}! = {possible} permutations; use fewer functions "
            "or more symbols"
        )
    rng = Key("ctl/tables", fields.table_seed, fields.symbols).random()
    seen: set[tuple[int, ...]] = set()
    rows: list[tuple[int, ...]] = []
    while len(rows) < count:
        row = list(range(fields.symbols))
        rng.shuffle(row)
        if tuple(row) not in seen:
            seen.add(tuple(row))
            rows.append(tuple(row))
    return function_names(count), np.array(rows, dtype=np.int64)


def slices(functions: list[int], names: list[str]) -> dict[str, tuple[int, ...]]:
    """Split the functions into consecutive groups.

    As in the reference code, each group has ceil(n / groups) functions and the last one fewer. If
    that would leave a group empty, sizes are as even as possible instead.
    """
    if len(functions) < len(names):
        listed = ", ".join(names[:8])
        if len(names) > 8:
            listed += ", …"
        raise RecipeError(
            f"functions: {len(functions)} functions cannot fill the {len(names):,} groups "
            f"{listed}; use at least one function per group"
        )
    size = -(-len(functions) // len(names))
    cuts = [functions[i * size : (i + 1) * size] for i in range(len(names))]
    if not all(cuts):
        base, extra = divmod(len(functions), len(names))
        ends = [base * (i + 1) + min(i + 1, extra) for i in range(len(names))]
        cuts = [functions[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    return {name: tuple(cut) for name, cut in zip(names, cuts, strict=True)}


def _groups(fields: CtlFields, count: int) -> dict[str, tuple[int, ...]]:
    every = list(range(count))
    if fields.variant == "length":
        known = count - fields.new_functions
        if known < 1:
            raise RecipeError(
                f"new_functions: {fields.new_functions} of {count} functions are new, but at "
                "least one must be known"
            )
        return {"known": tuple(every[:known]), "new": tuple(every[known:])}
    if fields.variant == "S":
        if fields.overlap > count:
            raise RecipeError(
                f"overlap: {fields.overlap} shared functions are more than the total of {count} "
                "functions"
            )
        rest = slices(every[fields.overlap :], ["a1", "a2", "b1", "b2"])
        return {**rest, "o": tuple(every[: fields.overlap])}
    return slices(every, list(function_names(fields.groups)))


def compared_groups(fields: CtlFields, count: int) -> list[tuple[int, ...]]:
    """Return the groups whose distance is measured: those that training keeps apart.

    In S these are the two groups of stage 1, whose outputs the shared functions receive.
    """
    groups = _groups(fields, count)
    if fields.variant == "S":
        return [groups["a1"], groups["b1"]]
    return list(groups.values())


def group_facts(fields: CtlFields, world: SymbolWorld) -> dict[str, float]:
    """Return measured properties of the world for the manifest, namely how differently its groups
    behave.
    """
    if fields.variant == "length" or max(world.images.shape) > MOST_REGROUPED:
        return {}
    groups = compared_groups(fields, world.functions)
    if len(groups) < 2:
        return {}
    return {"group_distance": round(group_distance(world.images, groups), 6)}


def group_distance(images: Table, groups: Sequence[Sequence[int]]) -> float:
    """Return the average difference in behaviour between groups of functions, from 0 (identical) to
    1.

    For each input symbol, the functions of a group give a distribution of outputs. The distance
    between two groups is the total variation distance between these distributions, averaged over
    input symbols. For more than two groups it is the mean over pairs.

    >>> swap, keep = [1, 0], [0, 1]
    >>> group_distance(np.array([swap, swap, keep, keep]), [[0, 1], [2, 3]])
    1.0
    >>> group_distance(np.array([swap, keep, swap, keep]), [[0, 1], [2, 3]])
    0.0
    """
    one_hot = _one_hot(images)
    shares = np.stack([one_hot[list(group)].mean(axis=0) for group in groups])
    return float(_mean_distance(shares))


def _one_hot(images: Table) -> NDArray[np.float64]:
    """Return outputs[f, s, o], which is 1 if function f maps s to o and 0 otherwise."""
    return np.eye(images.shape[1])[images]


def _mean_distance(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance between groups, given their shares of outputs [..., group, input,
    output].
    """
    pairs = list(itertools.combinations(range(shares.shape[-3]), 2))
    if not pairs:
        return np.zeros(shares.shape[:-3])
    gaps = [np.abs(shares[..., a, :, :] - shares[..., b, :, :]) for a, b in pairs]
    variation = np.stack([gap.sum(axis=-1) / 2 for gap in gaps])
    mean: NDArray[np.float64] = variation.mean(axis=(0, -1))
    return mean


def regrouped(fields: CtlFields, images: Table) -> NDArray[np.int64]:
    """Order the functions so that the groups have the requested distance."""
    count = len(images)
    groups = compared_groups(fields, count)
    if max(images.shape) > MOST_REGROUPED:
        raise RecipeError(
            f"group_distance: {count:,} functions of {images.shape[1]:,} symbols cannot be "
            f"regrouped, because at most {MOST_REGROUPED} functions and symbols are supported; "
            "use fewer"
        )
    if len(groups) < 2:
        raise RecipeError("group_distance: a single group has no distance; use at least 2 groups")
    goal = str(fields.group_distance)
    return _best_order(images.tobytes(), images.shape, tuple(groups), fields.table_seed, goal)


@lru_cache(maxsize=64)
def _best_order(
    content: bytes, shape: tuple[int, ...], groups: Groups, table_seed: int, goal: str
) -> NDArray[np.int64]:
    """The order of `regrouped`. Cached, because studies build the same worlds several times.

    Local search: from several random divisions, swap the best pair of functions until no swap
    helps.

    Args:
        content: The functions' table, as bytes of integers.
        shape: Its numbers of functions and symbols.
        groups: The functions of each group.
        table_seed: Seed of the table, which also seeds the random divisions.
        goal: The requested distance.
    """
    count = shape[0]
    members = [f for group in groups for f in group]
    ends = list(itertools.accumulate(len(group) for group in groups))
    one_hot = _one_hot(np.frombuffer(content, dtype=np.int64).reshape(shape))
    key = Key("ctl/groups", table_seed, count)
    best, best_loss = members, math.inf
    for start in range(RESTARTS):
        rng = key.random(start)
        division = list(members)
        if start:  # the first start is the original division
            rng.shuffle(division)
        division, loss = _improved(goal, one_hot, division, ends)
        if loss < best_loss - ROUNDING:
            best, best_loss = division, loss
    order = np.arange(count)
    order[members] = best
    order.flags.writeable = False  # callers share it
    return order


def _improved(
    goal: str, one_hot: NDArray[np.float64], division: list[int], ends: list[int]
) -> tuple[list[int], float]:
    """Swap functions of different groups as long as the distance gets closer to its goal."""
    starts = [0, *ends[:-1]]
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    group_of = np.repeat(np.arange(len(ends)), sizes)
    first, second = np.triu_indices(len(division), 1)
    apart = group_of[first] != group_of[second]
    first, second = first[apart], second[apart]
    every = np.arange(len(first))
    outputs = one_hot[division]
    sums = np.stack([outputs[a:b].sum(axis=0) for a, b in zip(starts, ends, strict=True)])
    per_group = np.array(sizes)[:, None, None]
    loss = float(_loss(goal, _mean_distance(sums / per_group)))
    while True:
        # The sums after each possible swap, computed in one step.
        change = outputs[second] - outputs[first]
        tried = np.repeat(sums[None], len(every), axis=0)
        tried[every, group_of[first]] += change
        tried[every, group_of[second]] -= change
        losses = _loss(goal, _mean_distance(tried / per_group))
        best = int(losses.argmin())
        if losses[best] >= loss - ROUNDING:
            return division, loss
        i, j = int(first[best]), int(second[best])
        loss, sums = float(losses[best]), tried[best]
        division[i], division[j] = division[j], division[i]
        outputs[[i, j]] = outputs[[j, i]]


def _loss(goal: str, distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far distances are from the requested one; lower is better."""
    if goal == "smallest":
        return distance
    if goal == "largest":
        return -distance
    return np.abs(distance - float(goal))


def draw_allowed(fields: CtlFields) -> NDArray[np.bool_]:
    """Draw the symbols on which training shows each shared function after path a and after path b.

    Function i shares k consecutive entries of a symbol order. The order is 0..S-1 at first and is
    drawn again after each pass over all symbols. The unshared symbols, in ascending order, are
    split in half: the first half for path a, the second for path b.
    """
    symbols, overlap, k = fields.symbols, fields.overlap, fields.shared_symbols
    half = _check_sharing(fields)
    allowed = np.zeros((2, overlap, symbols), dtype=bool)
    key = Key("ctl/allowed", fields.table_seed, symbols, k)
    order = list(range(symbols))
    for i in range(overlap):
        a_pass = -(-symbols // k)  # number of functions until every symbol was shared once
        if i and i % a_pass == 0:
            order = [int(s) for s in key.permutation(symbols, i)(np.arange(symbols))]
        shared = {order[(i * k + j) % symbols] for j in range(k)}
        rest = [s for s in range(symbols) if s not in shared]
        allowed[:, i, sorted(shared)] = True
        if len(rest) == 1 and not fields.imbalance:
            # A single symbol cannot be split. Draw its path at random, because otherwise path a
            # would always get more.
            side = key.random("side", i).randrange(2)
            allowed[side, i, rest] = True
        else:
            allowed[0, i, rest[:half]] = True
            allowed[1, i, rest[half:]] = True
    return allowed


def _check_sharing(fields: CtlFields) -> int:
    """Return the number of unshared symbols of path a. Raises an error if the numbers are
    inconsistent.
    """
    symbols, overlap, k = fields.symbols, fields.overlap, fields.shared_symbols
    if k > symbols:
        raise RecipeError(f"shared_symbols: cannot share {k} of {symbols} symbols")
    if overlap and overlap * k < symbols:
        raise RecipeError(
            f"overlap: {overlap} shared functions with {k} shared symbols each cover at most"
            f" {overlap} x {k} = {overlap * k} of {symbols} symbols; the shared symbols must cover"
            " all: raise overlap or shared_symbols"
        )
    unshared = symbols - k
    half = -(-unshared // 2) + fields.imbalance
    if half > unshared:
        raise RecipeError(
            f"imbalance: {fields.imbalance} is more than the {unshared // 2} unshared symbols of"
            " path b"
        )
    return half


def _read_allowed(
    fields: CtlFields, names: tuple[str, ...], groups: dict[str, tuple[int, ...]], symbols: int
) -> NDArray[np.bool_]:
    assert fields.allowed is not None
    shared = [names[f] for f in groups["o"]]
    if sorted(fields.allowed) != sorted(shared):
        raise RecipeError(
            f"allowed: must list exactly the shared functions {', '.join(shared)}, but it lists "
            f"{', '.join(fields.allowed)}"
        )
    allowed = np.zeros((2, len(shared), symbols), dtype=bool)
    for i, name in enumerate(shared):
        for path, group in enumerate(("a1", "b1")):
            for symbol in fields.allowed[name].get(group, []):
                if not 0 <= symbol < symbols:
                    raise RecipeError(
                        f"allowed.{name}.{group}: {symbol} is not one of the symbols 0 to"
                        f" {symbols - 1}"
                    )
                allowed[path, i, symbol] = True
    return allowed
