"""Held-out examples: splits named `ood` or `ood-…` have nothing else, every other split has none.

Read from the boolean trait `held_out`, which every example of a task with a held-out part has; data without it are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.recipe.splits import HELD_OUT, is_held_out_split


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
        traits = table.schema.field("traits").type if "traits" in table.column_names else pa.struct([])
        at = traits.get_field_index(HELD_OUT) if pa.types.is_struct(traits) else -1
        if at < 0 or not pa.types.is_boolean(traits.field(at).type):
            continue
        only = is_held_out_split(name)
        values = pc.struct_field(table.column("traits"), HELD_OUT).fill_null(not only)
        counts.append(
            HeldOutCount(name, table.num_rows, int(pc.sum(values).as_py() or 0), table.num_rows if only else 0)
        )
    return counts
