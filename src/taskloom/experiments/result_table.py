"""A small table that prints itself: the answer to a question about runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from taskloom.experiments.record import RunsError


class ResultTable:
    """Rows of plain values under named columns.

    `print(rows)` gives an aligned table, a notebook an HTML one; `to_pandas`, `to_polars` and `table` give it to other tools.
    Where there are `low` and `high`, they are shown as one interval.

    Args:
        columns: Names, in order.
        rows: A mapping for each row, with all columns.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        self.columns = tuple(columns)
        self._rows = [{c: row[c] for c in self.columns} for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self._rows[place]

    @property
    def table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return pa.table({c: pa.array([_plain(row[c]) for row in self._rows]) for c in self.columns})

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame."""
        return to_pandas(self.table)

    def to_polars(self) -> Any:
        """Return the rows as a Polars frame."""
        return to_polars(self.table)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the values for JSON, where what is not finite is null."""
        return [{c: _plain(v) for c, v in row.items()} for row in self._rows]

    def shown(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return heads and cells as people read them."""
        heads = [c for c in self.columns if c not in ("high", "level")]
        return (
            tuple(
                "interval" if h == "low" and "high" in self.columns else h.replace("_", " ")
                for h in heads
            ),
            [tuple(_cell(h, row) for h in heads) for row in self._rows],
        )

    def __str__(self) -> str:
        heads, cells = self.shown()
        numeric = self._numeric()
        widths = [max(len(x) for x in column) for column in zip(heads, *cells, strict=True)]

        def line(values: Sequence[str]) -> str:
            parts = [
                v.rjust(w) if n else v.ljust(w)
                for v, w, n in zip(values, widths, numeric, strict=True)
            ]
            return "  ".join(parts).rstrip()

        return "\n".join([line(heads), *(line(row) for row in cells)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads, cells = self.shown()
        sides = ["right" if number else "left" for number in self._numeric()]
        head = "".join(
            f'<th style="text-align:{side}">{escape(h)}</th>'
            for h, side in zip(heads, sides, strict=True)
        )
        rows = (
            "".join(
                f'<td style="text-align:{side}">{escape(v)}</td>'
                for v, side in zip(row, sides, strict=True)
            )
            for row in cells
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _numeric(self) -> list[bool]:
        """Return which of the shown columns are numbers."""
        return [
            all(isinstance(r[c], int | float) for r in self._rows)
            for c in self.columns
            if c not in ("high", "level")
        ]


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "low" and "high" in row:
        return (
            ""
            if value is None or math.isnan(value)
            else f"[{_number(value)}, {_number(row['high'])}]"
        )
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name in ("p", "corrected_p"):
        return probability(value)
    return f"{value:,}" if isinstance(value, int) else _number(value)


def probability(p: float) -> str:
    """Format a p-value as people write it.

    >>> probability(0.0312), probability(0.00002)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float) -> str:
    """Return a p-value with its name, as a sentence has it.

    >>> p_text(0.0312), p_text(0.00002)
    ('p = 0.031', 'p < 0.001')
    """
    return f"p {probability(p)}" if p < 0.001 else f"p = {probability(p)}"


def _number(value: float) -> str:
    """Format a number; what rounds to zero has no minus.

    >>> _number(-0.0004), _number(-0.02)
    ('0.000', '-0.020')
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{round(value, 3) + 0.0:.3f}"


def to_pandas(table: pa.Table) -> Any:
    """Convert an Arrow table to a pandas frame."""
    try:
        return table.to_pandas()
    except ImportError as error:
        raise RunsError("to_pandas needs pandas: pip install pandas") from error


def to_polars(table: pa.Table) -> Any:
    """Convert an Arrow table to a Polars frame."""
    try:
        import polars
    except ImportError as error:
        raise RunsError("to_polars needs Polars: pip install polars") from error
    return polars.from_arrow(table)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
