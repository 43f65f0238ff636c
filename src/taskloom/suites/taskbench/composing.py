"""The rule behind the paper's list: all compositions of depth two of some atoms, and the sequence versions of each (appendix A.1).

The paper's own filters follow in this order: what is the same function by its normal form comes once (`union(b, a)` is
`union(a, b)`), and what has fewer than 100 examples is left out, which only a world can tell and so `make` does. What the paper
further chose by hand is in the catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations, product

from taskloom.errors import RecipeError
from taskloom.suites.taskbench.language import (
    OPERATORS,
    Atom,
    Chain,
    Expression,
    Filter,
    Inverse,
    Map,
    Type,
    name,
    read_typed,
)

PAIRED = {"union": "relation", "intersection": "relation", "land": "predicate", "lor": "predicate"}
"""Compositions of two functions of one type, whose order does not matter."""


def compositions(atoms: Iterable[str], kinds: Collection[str]) -> list[str]:
    """The names of all functions of these kinds over these atoms, each once, words before sequences.

    >>> compositions(["father", "mother"], ["chain", "union", "map"])[:3]
    ['chain(father, father)', 'chain(father, mother)', 'chain(mother, father)']

    Args:
        atoms: Names of relations and predicates, inverses included.
        kinds: Of atomic, chain, union, intersection, land, lor, map, filter and map_filter. The last three are made of
            the atoms and of those compositions that are among the kinds.
    """
    typed = [read_typed(atom) for atom in dict.fromkeys(atoms)]
    words = [*typed, *_pairs(typed, kinds)]
    found = [tree for tree, _ in (words if "atomic" in kinds else words[len(typed) :])]
    found += [Map((f,)) for f, kind in words if "map" in kinds and kind.form == "relation"]
    found += [Filter((p,)) for p, kind in words if "filter" in kinds and kind.form == "predicate"]
    if "map_filter" in kinds:
        found += [
            Map((f, Filter((p,))))
            for (f, one), (p, other) in product(typed, repeat=2)
            if one.form == "relation" and other.form == "predicate" and one.source == other.source
        ]
    return list(dict.fromkeys(name(tree) for tree in found))


def _pairs(typed: list[tuple[Expression, Type]], kinds: Collection[str]) -> Iterator[tuple[Expression, Type]]:
    if "chain" in kinds:
        for (outer, after), (inner, before) in product(typed, repeat=2):
            if after.form == before.form == "relation" and after.source == before.target:
                yield Chain((outer, inner)), Type("relation", before.source, after.target)
    for operator, form in PAIRED.items():
        if operator in kinds:
            for (a, one), (b, other) in combinations(typed, 2):
                if one == other and one.form == form:
                    yield OPERATORS[operator]((a, b)), one


def paper_atoms(families: Collection[str]) -> list[str]:
    """The paper's atoms of these families."""
    from taskloom.suites.taskbench.catalog import select

    return [task.expression for task in select(families, ["atomic"])]


def check_atom(text: str) -> str:
    """The normal name of an atom or of the inverse of one; anything else is an error."""
    tree = read_typed(text)[0].normal()
    if not isinstance(tree, Atom | Inverse):
        raise RecipeError(
            f"compose takes atoms, and '{text}' is composed already; give its parts, or name it under functions"
        )
    return tree.notation
