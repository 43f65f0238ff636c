"""What the rows of a split are: label balance, held-out examples, and values of traits that training lacks.

Splits named `ood` or `ood-…` have held-out examples only, every other split has none. They are counted by the boolean trait
`held_out`, which every example of a task with a held-out part has; data without it are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.plan import Role
from taskloom.recipe.splits import HELD_OUT, is_held_out_split

SHOWN = 5
APART = ("seen", HELD_OUT)
"""Traits that say whether training has an example, or such an example: they differ between training and test by their meaning."""


@dataclass(frozen=True, slots=True)
class Balance:
    """How the official answers of a split are spread.

    Attributes:
        answers: Different answers.
        majority: The share of rows that the best constant answer gets right, where any acceptable answer is right.
        evenness: Entropy over its maximum: 1 for equally frequent answers.
        most: The most frequent answers with their shares.
    """

    split: str
    n: int
    answers: int
    majority: float
    evenness: float
    most: dict[str, float]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a test split has trait values that training lacks."""

    split: str
    trait: str
    values: int
    unseen_values: int
    unseen_rows: float
    examples: list[str]


def first_targets(table: pa.Table) -> pa.Array:
    """Return the official answer of every row."""
    return pc.list_element(table.column("targets"), 0)


def balances(tables: Mapping[str, pa.Table]) -> list[Balance]:
    """Return the label balance of every split."""
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
    """Return the number of rows for which one and the same answer is acceptable, at most."""
    targets = table.column("targets").combine_chunks()
    pairs = pa.table({"row": pc.list_parent_indices(targets), "answer": pc.list_flatten(targets)})
    rows_of = pairs.group_by("answer").aggregate([("row", "count_distinct")])
    return int(pc.max(rows_of.column("row_count_distinct")).as_py())


def coverages(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[Coverage]:
    """Return, for every trait and every split beside training, what of it training never shows."""
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
            known = trained[field.name]
            values = _values(table, field.name).drop_null()
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
    """Return the different values of a trait in several tables."""
    return pc.unique(pa.concat_arrays([_values(t, trait) for t in tables if _has(t, trait)]))


def _has(table: pa.Table, trait: str) -> bool:
    return any(field.name == trait for field in table.schema.field("traits").type)


def _values(table: pa.Table, trait: str) -> Any:
    column = pc.struct_field(table.column("traits"), trait).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True, slots=True)
class HeldOutCount:
    """How many rows of a split are held out, and whether they are as many as they should be."""

    split: str
    n: int
    held_out: int
    expected: int

    @property
    def right(self) -> bool:
        """Return whether all rows of an ood split are held out, or none of another one."""
        return self.held_out == self.expected


def held_out_counts(tables: Mapping[str, pa.Table]) -> list[HeldOutCount]:
    """Count the held-out rows of every split that has the trait; a row without a value is one that should not be there."""
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
