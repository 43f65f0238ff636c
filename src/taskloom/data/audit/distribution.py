"""Distribution of the rows of a split: label balance, held-out examples, trait values that training
lacks, and the divergence of compositions from training.

Splits named `ood` or `ood-…` should have only held-out examples, and all other splits none. They
are counted by the boolean trait `held_out`, which every example of a task with a held-out rule has.
Data without this trait is not judged.

Atom and compound divergence are those of Keysers et al. 2020, section 2. Atoms are the rules of a
derivation; compounds are its connected parts of two and three steps (a step with one it uses, a
chain of three, a step with two that it uses). The divergence of two distributions is 1 - C_a, where
C_a is the Chernoff coefficient sum p^a q^(1-a) with a = 0.5 for atoms and a = 0.1 for compounds; p
is training and q is test. A compound's occurrences are weighted as in the paper by 1 - max P(G'|G)
over the larger compounds G' around it, so that a compound that occurs only inside one larger
compound does not count twice.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import array_of, firsts, numbers
from taskloom.core.plan import Role
from taskloom.core.seeding import Key
from taskloom.recipe.splits import HELD_OUT, is_held_out_split

SHOWN = 5
APART = ("seen", HELD_OUT)
"""Traits that differ between training and test by definition: whether training has an example, or
examples like it.
"""


@dataclass(frozen=True, slots=True)
class Balance:
    """Distribution of a split's official answers.

    Attributes:
        answers: Number of different answers.
        majority: Accuracy of the best constant answer. Any acceptable answer counts as right.
        evenness: Entropy divided by its maximum; 1 if all answers are equally frequent.
        most: Most frequent answers with their shares.
    """

    split: str
    n: int
    answers: int
    majority: float
    evenness: float
    most: dict[str, float]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of a test split whose trait values do not occur in training."""

    split: str
    trait: str
    values: int
    unseen_values: int
    unseen_rows: float
    examples: list[str]


def first_targets(table: pa.Table) -> pa.Array:
    """Official answer of every row."""
    return firsts(table.column("targets"))


def balances(tables: Mapping[str, pa.Table]) -> list[Balance]:
    """Label balance of every split."""
    results = []
    for name, table in tables.items():
        if not table.num_rows:
            continue
        rows = pc.value_counts(first_targets(table)).to_pylist()
        counted = sorted(
            ((r["counts"], str(r["values"])) for r in rows), key=lambda p: (-p[0], p[1])
        )
        n = table.num_rows
        entropy = -sum(c / n * math.log(c / n) for c, _ in counted)
        evenness = entropy / math.log(len(counted)) if len(counted) > 1 else 0.0
        most = {value: c / n for c, value in counted[:SHOWN]}
        results.append(Balance(name, n, len(counted), _best_constant(table) / n, evenness, most))
    return results


def _best_constant(table: pa.Table) -> int:
    """Maximum number of rows for which a single answer is acceptable."""
    targets = table.column("targets").combine_chunks()
    # Not `group_by`, which would import pandas if it is installed: 0.2 s.
    rows = array_of(pc.list_parent_indices(targets)).astype(np.int64)
    answers = pc.list_flatten(targets).dictionary_encode("encode")
    kinds, codes = len(answers.dictionary), array_of(answers.indices)
    if not (rows[1:] > rows[:-1]).all():
        # Some rows have several answers. Each answer of a row counts once.
        codes = np.unique(rows * kinds + codes) % kinds
    return int(np.bincount(codes).max(initial=0))


def coverages(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[Coverage]:
    """Trait values that training lacks, for every trait and every split other than training."""
    train = [
        t for name, t in tables.items() if roles[name] == "train" and "traits" in t.column_names
    ]
    if not train:
        return []
    results = []
    trained: dict[str, pa.Array] = {}
    for name, table in tables.items():
        if roles[name] == "train" or "traits" not in table.column_names or not table.num_rows:
            continue
        for field in table.schema.field("traits").type:
            if field.name in APART:
                continue
            if field.name not in trained:
                trained[field.name] = _unique_values(train, field.name)
            values, known = _of_one_type(
                [_values(table, field.name).drop_null(), trained[field.name]]
            )
            if not len(values) or not len(known):
                continue
            unseen = values.filter(pc.invert(pc.is_in(values, known)))
            fresh = pc.unique(unseen)
            share = len(unseen) / len(values)
            shown = [str(v) for v in fresh.slice(0, SHOWN).to_pylist()]
            results.append(
                Coverage(name, field.name, len(pc.unique(values)), len(fresh), share, shown)
            )
    return results


def _unique_values(tables: list[pa.Table], trait: str) -> pa.Array:
    """Unique values of a trait across several tables."""
    arrays = [_values(t, trait) for t in tables if _has(t, trait)]
    if not arrays:  # a column of a test file that no file of training has
        return pa.nulls(0)
    return pc.unique(pa.concat_arrays(_of_one_type(arrays)))


def _of_one_type(arrays: list[Any]) -> list[Any]:
    """Return arrays unchanged if their types agree, otherwise as texts. A column may hold numbers
    in one file of a folder and texts in another.
    """
    if len({array.type for array in arrays}) <= 1:
        return arrays
    return [array.cast(pa.string()) for array in arrays]


def _has(table: pa.Table, trait: str) -> bool:
    return any(field.name == trait for field in table.schema.field("traits").type)


def _values(table: pa.Table, trait: str) -> Any:
    column = pc.struct_field(table.column("traits"), trait).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True, slots=True)
class HeldOutCount:
    """Number of held-out rows in a split, and whether it is as expected."""

    split: str
    n: int
    held_out: int
    expected: int

    @property
    def right(self) -> bool:
        """True if all rows of an ood split are held out, or none of another split."""
        return self.held_out == self.expected


def held_out_counts(tables: Mapping[str, pa.Table]) -> list[HeldOutCount]:
    """Count the held-out rows of every split that has the trait. A missing value counts against the
    split.
    """
    counts = []
    for name, table in tables.items():
        traits = (
            table.schema.field("traits").type if "traits" in table.column_names else pa.struct([])
        )
        at = traits.get_field_index(HELD_OUT) if pa.types.is_struct(traits) else -1
        if at < 0 or not pa.types.is_boolean(traits.field(at).type):
            continue
        only = is_held_out_split(name)
        values = pc.struct_field(table.column("traits"), HELD_OUT).fill_null(not only)
        counts.append(
            HeldOutCount(
                name,
                table.num_rows,
                int(pc.sum(values).as_py() or 0),
                table.num_rows if only else 0,
            )
        )
    return counts


SAMPLE = 10_000
"""Maximum examples per split for computing divergences, chosen by a keyed permutation."""

Compound = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Divergence of a test split from training: 0 means equal, 1 means disjoint."""

    split: str
    atoms: float
    compounds: float
    unseen_compounds: float
    examples: int


def divergences(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[Divergence]:
    """Divergence of every split from training, if examples have derivations."""
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
    """Chernoff coefficient of two weightings: the sum of p^alpha q^(1 - alpha), after normalising
    each to 1.

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
    """Count atoms and weighted compounds in a set of derivations."""
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
    """Two-step compounds by edge, and three-step compounds with their two edges."""
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
