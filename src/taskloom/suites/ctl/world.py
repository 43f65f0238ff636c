"""The world of CTL: names, function tables, groups, and the symbols on which shared functions are seen."""

from __future__ import annotations

import math
import string
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import Key
from taskloom.suites.ctl.fields import CtlFields

Table = NDArray[np.int64]

MOST_ENTRIES = 1_000_000
"""Table entries above which counting the expressions of a graph takes minutes."""


@dataclass(frozen=True, slots=True)
class SymbolWorld:
    """Symbols and functions.

    Attributes:
        names: Function names.
        images: `images[f, s]` is the symbol that function f makes of symbol s.
        groups: Group name to the positions of its functions.
        allowed: S: `allowed[path, f, s]` says whether shared function f may follow a stage-1 function of that path on symbol s.
    """

    names: tuple[str, ...]
    images: Table
    groups: dict[str, tuple[int, ...]]
    allowed: NDArray[np.bool_] | None = None

    @property
    def symbols(self) -> int:
        """Return the number of symbols."""
        return int(self.images.shape[1])

    @property
    def functions(self) -> int:
        """Return the number of functions."""
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
        for i in range(len(letters) ** width):
            if len(names) == count:
                break
            digits, rest = [], i
            for _ in range(width):
                rest, digit = divmod(rest, len(letters))
                digits.append(letters[digit])
            names.append("".join(reversed(digits)))
        width += 1
    return tuple(names)


def build(fields: CtlFields) -> SymbolWorld:
    """Build the world that a recipe describes."""
    names, images = functions_of(fields)
    groups = _groups(fields, len(names))
    allowed = None
    if fields.variant == "S":
        allowed = (
            _read_allowed(fields, names, groups, images.shape[1])
            if fields.allowed
            else draw_allowed(fields)
        )
    return SymbolWorld(names, images, groups, allowed)


def functions_of(fields: CtlFields) -> tuple[tuple[str, ...], Table]:
    """Return the names and images of the functions, given or drawn: all that an answer depends on."""
    return _given(fields) if fields.tables is not None else _drawn(fields)


def _given(fields: CtlFields) -> tuple[tuple[str, ...], Table]:
    assert fields.tables is not None
    if not fields.tables:
        raise RecipeError(
            "tables: no function is given; write name to list of images, e.g. {a: [1, 0]}"
        )
    sizes = {len(images) for images in fields.tables.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise RecipeError(
            f"tables: every function needs one image per symbol; these tables have {sorted(sizes)} entries"
        )
    symbols = sizes.pop()
    for name, images in fields.tables.items():
        if not name or name.split() != [name] or name.isdigit():
            raise RecipeError(
                f"tables: '{name}' cannot name a function: a name has no blanks and is not a number"
            )
        for image in images:
            if not 0 <= image < symbols:
                raise RecipeError(
                    f"tables: {name} maps to {image}, which is not one of the symbols 0 to {symbols - 1}"
                )
    return tuple(fields.tables), np.array(list(fields.tables.values()), dtype=np.int64)


def _drawn(fields: CtlFields) -> tuple[tuple[str, ...], Table]:
    """Draw different random permutations. They depend only on the table seed and the sizes, so A, R and S share their functions."""
    count = fields.functions + fields.new_functions
    if count * fields.symbols > MOST_ENTRIES:
        raise RecipeError(
            f"functions: {count} functions of {fields.symbols} symbols are {count * fields.symbols:,} table entries, more than "
            f"{MOST_ENTRIES:,}; counting would take minutes: use fewer functions or symbols"
        )
    possible = math.factorial(fields.symbols) if fields.symbols <= 20 else None
    if possible is not None and count > possible:
        raise RecipeError(
            f"functions: the recipe wants {count} different functions, but {fields.symbols} symbols have only "
            f"{fields.symbols}! = {possible} permutations; use fewer functions or more symbols"
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
    """Cut the functions into consecutive groups of ceil(n / groups), the last one smaller, as in the reference; into even
    groups where that would leave one empty."""
    if len(functions) < len(names):
        raise RecipeError(
            f"functions: {len(functions)} functions cannot fill the {len(names):,} groups {', '.join(names[:8])}"
            f"{', …' if len(names) > 8 else ''}; at least one each"
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
                f"new_functions: {fields.new_functions} of {count} functions are new; at least one must be known"
            )
        return {"known": tuple(every[:known]), "new": tuple(every[known:])}
    if fields.variant == "S":
        if fields.overlap > count:
            raise RecipeError(
                f"overlap: {fields.overlap} shared functions are more than the {count} functions there are"
            )
        rest = slices(every[fields.overlap :], ["a1", "a2", "b1", "b2"])
        return {**rest, "o": tuple(every[: fields.overlap])}
    return slices(every, list(function_names(fields.groups)))


def draw_allowed(fields: CtlFields) -> NDArray[np.bool_]:
    """Draw the symbols on which each shared function may be seen after path a and after path b.

    Function i shares k consecutive entries of a symbol order, which is 0..S-1 at first and is drawn anew after each pass over
    all symbols. The unshared symbols, in rising order, are cut in two: the first half for path a, the second for path b.
    """
    symbols, overlap, k = fields.symbols, fields.overlap, fields.shared_symbols
    half = _check_sharing(fields)
    allowed = np.zeros((2, overlap, symbols), dtype=bool)
    key = Key("ctl/allowed", fields.table_seed, symbols, k)
    order = list(range(symbols))
    for i in range(overlap):
        a_pass = -(-symbols // k)  # functions until every symbol was shared once
        if i and i % a_pass == 0:
            order = [int(s) for s in key.permutation(symbols, i)(np.arange(symbols))]
        shared = {order[(i * k + j) % symbols] for j in range(k)}
        rest = [s for s in range(symbols) if s not in shared]
        allowed[:, i, sorted(shared)] = True
        if len(rest) == 1 and not fields.imbalance:
            # One symbol cannot be halved. A coin decides, or path a would always have more.
            side = key.random("side", i).randrange(2)
            allowed[side, i, rest] = True
        else:
            allowed[0, i, rest[:half]] = True
            allowed[1, i, rest[half:]] = True
    return allowed


def _check_sharing(fields: CtlFields) -> int:
    """Number of unshared symbols that path a has; refuse numbers that do not fit each other."""
    symbols, overlap, k = fields.symbols, fields.overlap, fields.shared_symbols
    if k > symbols:
        raise RecipeError(f"shared_symbols: {k} of {symbols} symbols cannot be shared")
    if overlap and overlap * k < symbols:
        raise RecipeError(
            f"overlap: {overlap} shared functions with {k} shared symbols each cover at most {overlap} x {k} = {overlap * k} of "
            f"{symbols} symbols; the shared symbols must cover all: raise overlap or shared_symbols"
        )
    unshared = symbols - k
    half = -(-unshared // 2) + fields.imbalance
    if half > unshared:
        raise RecipeError(
            f"imbalance: {fields.imbalance} is more than the {unshared // 2} unshared symbols of path b"
        )
    return half


def _read_allowed(
    fields: CtlFields, names: tuple[str, ...], groups: dict[str, tuple[int, ...]], symbols: int
) -> NDArray[np.bool_]:
    assert fields.allowed is not None
    shared = [names[f] for f in groups["o"]]
    if sorted(fields.allowed) != sorted(shared):
        raise RecipeError(
            f"allowed: must list just the shared functions {', '.join(shared)}; it lists {', '.join(fields.allowed)}"
        )
    allowed = np.zeros((2, len(shared), symbols), dtype=bool)
    for i, name in enumerate(shared):
        for path, group in enumerate(("a1", "b1")):
            for symbol in fields.allowed[name].get(group, []):
                if not 0 <= symbol < symbols:
                    raise RecipeError(
                        f"allowed.{name}.{group}: {symbol} is not one of the symbols 0 to {symbols - 1}"
                    )
                allowed[path, i, symbol] = True
    return allowed
