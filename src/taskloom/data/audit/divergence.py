"""Atom and compound divergence between training and test (Keysers et al. 2020, section 2).

Atoms are the rules of a derivation; compounds are its connected parts of two and three steps (a step with one it
uses, a chain of three, a step with two that it uses). The divergence of two distributions is 1 - C_a, C_a the
Chernoff coefficient sum p^a q^(1-a): a = 0.5 for atoms, 0.1 for compounds, with p training and q test. A compound's
occurrences are weighted as in the paper by 1 - max P(G'|G) over the larger compounds G' around it, so that what only
ever occurs inside one larger compound does not count twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from taskloom.core.arrow import numbers
from taskloom.core.plan import Role
from taskloom.core.seeding import Key

SAMPLE = 10_000
"""Examples per split that the divergences are computed on, chosen by a keyed permutation."""

Compound = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """How far a test split is from training: 0 equal, 1 nothing in common."""

    split: str
    atoms: float
    compounds: float
    unseen_compounds: float
    examples: int


def divergences(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[Divergence]:
    """Return the divergences of every split from training, where examples have derivations."""
    train = [t for name, t in tables.items() if roles[name] == "train"]
    if not train:
        return []
    known = [d for t in train for d in _derivations(t)]
    if not any(known):
        return []
    atoms, compounds = _profile(known)
    results = []
    for name, table in tables.items():
        if roles[name] == "train":
            continue
        mine = [d for d in _derivations(table) if d]
        if not mine:
            continue
        my_atoms, my_compounds = _profile(mine)
        total = sum(my_compounds.values())
        unseen = (
            sum(w for c, w in my_compounds.items() if c not in compounds) / total if total else 0.0
        )
        results.append(
            Divergence(
                name,
                1 - chernoff(atoms, my_atoms, 0.5),
                1 - chernoff(compounds, my_compounds, 0.1) if total else 0.0,
                unseen,
                len(mine),
            )
        )
    return results


def chernoff(p: Mapping[Any, float], q: Mapping[Any, float], alpha: float) -> float:
    """Sum over p^alpha q^(1 - alpha) of two weightings, each made to sum to 1.

    >>> round(chernoff({"a": 1, "b": 1}, {"a": 3, "b": 3}, 0.5), 9)
    1.0
    >>> chernoff({"a": 1}, {"b": 1}, 0.1)
    0.0
    """
    total_p, total_q = sum(p.values()), sum(q.values())
    if not total_p or not total_q:
        return 0.0
    common = [(float(p[k]) / total_p, float(v) / total_q) for k, v in q.items() if k in p]
    overlap: float = sum(a**alpha * b ** (1 - alpha) for a, b in common) if common else 0.0
    return min(1.0, overlap)


def _derivations(table: pa.Table) -> list[list[dict[str, Any]]]:
    n = table.num_rows
    if n > SAMPLE:
        chosen = Key("audit", "divergence").permutation(n)(np.arange(SAMPLE))
        table = table.take(numbers(np.sort(chosen)))
    return [d or [] for d in table.column("derivation").to_pylist()]


def _profile(
    derivations: Iterable[list[dict[str, Any]]],
) -> tuple[Counter[str], dict[Compound, float]]:
    """Count atoms and weighted compounds of a set of derivations."""
    atoms: Counter[str] = Counter()
    occurrences: list[list[tuple[Compound, list[Compound]]]] = []
    count: Counter[Compound] = Counter()
    inside: dict[Compound, Counter[Compound]] = defaultdict(Counter)
    for steps in derivations:
        atoms.update(step["rule"] for step in steps)
        pairs, triples = _compounds(steps)
        here: list[tuple[Compound, list[Compound]]] = []
        for edge, compound in pairs.items():
            around = [large for edges, large in triples if edge in edges]
            here.append((compound, around))
            count[compound] += 1
            inside[compound].update(set(around))
        here += [(large, []) for _, large in triples]
        occurrences.append(here)
    weights: dict[Compound, float] = defaultdict(float)
    for here in occurrences:
        best: dict[Compound, float] = {}
        for compound, around in here:
            weight = 1 - max(
                (inside[compound][large] / count[compound] for large in around), default=0.0
            )
            best[compound] = max(best.get(compound, 0.0), weight)
        for compound, weight in best.items():
            weights[compound] += weight
    return atoms, {c: w for c, w in weights.items() if w > 0}


Edge = tuple[int, int]


def _compounds(
    steps: list[dict[str, Any]],
) -> tuple[dict[Edge, Compound], list[tuple[tuple[Edge, Edge], Compound]]]:
    """Return the two-step compounds by edge, and the three-step compounds with the two edges that each consists of."""
    used: list[list[int]] = []
    for i, step in enumerate(steps):
        if step["of"] is not None:
            used.append(list(step["of"]))
        else:  # a chain: every step uses the one before it, and the first one the input
            used.append([i - 1] if i else [])
    rule = [step["rule"] for step in steps]
    pairs: dict[Edge, Compound] = {}
    triples: list[tuple[tuple[Edge, Edge], Compound]] = []
    for i, parts in enumerate(used):
        for place, j in enumerate(parts):
            pairs[(j, i)] = (rule[i], place, rule[j])
            for inner, k in enumerate(used[j]):
                triples.append((((k, j), (j, i)), (rule[i], place, rule[j], inner, rule[k])))
            for later in range(place + 1, len(parts)):
                both = ("both", rule[i], place, rule[j], later, rule[parts[later]])
                triples.append((((j, i), (parts[later], i)), both))
    return pairs, triples
