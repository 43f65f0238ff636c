"""Examples of a split: a sequence over an Arrow table that builds `Example` objects on demand.

Rows are decoded in blocks, column by column: decoding 4,000 rows together is ten times as fast as
decoding them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core import shards
from taskloom.core.arrow import firsts
from taskloom.core.errors import DataError, echo, nearest
from taskloom.core.example import Example

BLOCK = 1_024
"""Examples decoded at a time when a split is read in order: long enough to be fast, short enough to
start at once.
"""

KEPT = 64
"""Maximum number of decoded blocks in memory: 65,536 examples, 50 to 150 MB. Larger splits keep the
most recently used blocks.
"""

GLANCES = 64
"""Number of examples of a large split that are decoded one by one, at 0.2 ms each. A caller who
reads more probably reads most of them, in any order.
"""

TOGETHER = 4
"""Number of neighbouring blocks decoded together after `GLANCES` single reads."""

MOST_KEPT = 500_000
"""Maximum examples of a split kept in memory for random access: 0.3 to 0.8 GB. Beyond that they are
decoded one by one.
"""

SHOWN = 10
"""Number of examples shown for a split in notebooks."""

COLUMNS = ("index", "task", "input", "target", "targets", "question", "key")
"""Columns that `batches` can return besides traits."""


@dataclass(slots=True)
class _Decoded:
    """Cache of a split: decoded blocks, the last index that was read, and the number of examples
    decoded one by one.
    """

    blocks: dict[int, list[Example]] = field(default_factory=dict)
    last: int = -1
    glances: int = 0


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of a split: `examples[3]`, `examples[:10]`, `for example in examples`,
    `examples.batches(64)`.

    Attributes:
        table: Rows of the split.
        manifest: Manifest of the dataset.
        name: Name of the split.
    """

    table: pa.Table
    manifest: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    name: str = field(default="", compare=False)
    _decoded: _Decoded = field(default_factory=_Decoded, compare=False, repr=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        what = f"'{self.name}' of {self._recipe}" if self._recipe else f"'{self.name}'"
        return f"<Examples {what if self.name else ''}: {len(self):,} rows>".replace(" :", ":")

    def _repr_html_(self) -> str:
        from taskloom.core.tables import paragraph, table

        first = self[:SHOWN]
        numbers = first.table.column("index").to_pylist()
        rows = [
            (i, e.input, " | ".join(e.targets[:5])) for i, e in zip(numbers, first, strict=True)
        ]
        name = ", ".join(part for part in (self._recipe, self.name) if part)
        shown = f", the first {SHOWN}" if len(self) > SHOWN else ""
        head = f"{name or 'examples'}: {len(self):,} examples{shown}"
        return paragraph(head, strong=True) + table(("", "input", "answer"), rows).html()

    @property
    def _recipe(self) -> str:
        return str(self.manifest.get("recipe", {}).get("name", ""))

    def __iter__(self) -> Iterator[Example]:
        return iter(shards.to_examples(self.table))

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> Examples: ...

    def __getitem__(self, index: int | slice) -> Example | Examples:
        if (
            type(index) is int
        ):  # the usual case first: a loop over a split in any order comes here for every example
            decoded = self._decoded
            block = decoded.blocks.get(index // BLOCK)
            if block is not None and index % BLOCK < len(block):
                decoded.last = index
                return block[index % BLOCK]
        return self._part(index) if isinstance(index, slice) else self._look_up(index)

    def _look_up(self, index: int) -> Example:
        """Look up an example that is not decoded yet, or whose index is not a plain `int`."""
        if not hasattr(index, "__index__"):
            raise TypeError(
                "the examples of a split are looked up by number or slice, e.g. examples[0] or"
                f" examples[:10], not {echo(index)}; columns are in batches(n, columns) and"
                " to_pandas()"
            )
        rows = len(self)
        if not -rows <= index < rows:
            raise IndexError(f"the split has {rows} examples; {index} is not one of them")
        row = index % rows
        block, place = divmod(row, BLOCK)
        examples = self._decoded.blocks.get(block)
        follows = abs(row - self._decoded.last) == 1
        self._decoded.last = row
        if examples is not None:
            return examples[place]
        if not follows and rows > KEPT * BLOCK and not self._wanted_whole:
            # Random access: decoding a block would be wasted on one example.
            self._decoded.glances += 1
            return next(iter(shards.to_examples(self.table.slice(row, 1))))
        return self._decode(block)[place]

    @property
    def _wanted_whole(self) -> bool:
        """True if so many examples were read at random that decoding all of them is worthwhile."""
        return self._decoded.glances >= GLANCES and len(self) <= MOST_KEPT

    def _decode(self, block: int) -> list[Example]:
        blocks = self._decoded.blocks
        wanted = [block]
        if self._wanted_whole:
            first = block - block % TOGETHER
            last = min(first + TOGETHER, -(-len(self) // BLOCK))
            wanted = [near for near in range(first, last) if near not in blocks]
        elif len(blocks) >= KEPT:
            del blocks[next(iter(blocks))]
        for one in wanted:
            blocks[one] = list(shards.to_examples(self.table.slice(one * BLOCK, BLOCK)))
        return blocks[block]

    def _part(self, span: slice) -> Examples:
        start, stop, step = span.indices(len(self))
        if step == 1:
            rows = self.table.slice(start, max(0, stop - start))
        else:
            rows = self.table.take(pa.array(range(start, stop, step), pa.int64()))
        return Examples(rows, self.manifest, self.name)

    def batches(
        self, n: int, columns: str | Sequence[str] = ("input", "target")
    ) -> Iterator[dict[str, list[Any]]]:
        """Yield the rows in order as lists by column, n rows at a time. The last batch may be
        shorter.

        Args:
            n: Number of rows in a batch.
            columns: Any of `input`, `target` (the official output), `targets`, `index`, `task`,
                `question` and `key`, or the names of traits.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise DataError(f"batches have a whole number of rows, at least 1, not {n!r}")
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        table = pa.table([self._column(name) for name in names], names=list(names)).combine_chunks()
        for start in range(0, table.num_rows, n):
            yield {name: shards.values(table.column(name).slice(start, n)) for name in names}

    def _column(self, name: str) -> Any:
        traits = self.table.column("traits") if "traits" in self.table.column_names else None
        own = [] if traits is None else [trait.name for trait in traits.type]
        if name == "target":
            return firsts(self.table.column("targets"))
        if name in COLUMNS:
            return self.table.column(name)
        if name in own:
            return pc.struct_field(traits, name)
        raise DataError(f"a batch has no column '{name}'; {nearest(name, [*COLUMNS, *own])}")

    def to_pandas(self) -> Any:
        """Rows as a pandas frame, with a column `target` in addition to `targets` and one column
        per trait.
        """
        table = self.table.append_column("target", pc.list_element(self.table.column("targets"), 0))
        if "traits" in table.column_names:
            traits = table.column("traits")
            table = table.drop_columns(["traits"])
            for trait in traits.type:
                name = (
                    trait.name if trait.name not in table.column_names else f"traits.{trait.name}"
                )
                table = table.append_column(name, pc.struct_field(traits, trait.name))
        try:
            return table.to_pandas()
        except ImportError as error:
            raise DataError("to_pandas needs pandas: pip install pandas") from error
