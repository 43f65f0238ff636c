"""A small table that prints itself: the answer to a question about runs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from taskloom.core.tables import Table
from taskloom.experiments.record import RunsError


class ResultTable:
    """Rows of plain values under named columns.

    `print(rows)` gives an aligned table, a notebook an HTML one; `to_html`, `to_markdown`,
    `to_latex` and `to_csv` write it for pages and papers; `to_pandas`, `to_polars` and `table` give
    it to other tools. `low` and `high` are shown as one interval.

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
        """The rows as an Arrow table."""
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

    def shown(self) -> Table:
        """The table as people read it: rounded numbers, one interval from `low` and `high`."""
        names = [c for c in self.columns if c not in ("high", "level")]
        heads = tuple(self._head(name) for name in names)
        cells = tuple(tuple(_cell(name, row) for name in names) for row in self._rows)
        numeric = tuple(all(isinstance(r[c], int | float) for r in self._rows) for c in names)
        return Table(heads, cells, numeric)

    def _head(self, name: str) -> str:
        is_interval = name == "low" and "high" in self.columns
        return "interval" if is_interval else name.replace("_", " ")

    def __str__(self) -> str:
        return str(self.shown())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the table as HTML."""
        return self.shown().html()

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return self.shown().markdown()

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the `booktabs` package."""
        return self.shown().latex()

    def to_csv(self) -> str:
        """Return the values as CSV, with numbers of nine digits: rounding on another machine does
        not reach them.
        """
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, lineterminator="\n")
        writer.writeheader()
        for row in self.to_dicts():
            writer.writerow({name: _nine_digits(value) for name, value in row.items()})
        return out.getvalue()


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if name == "low" and "high" in row:
        if value is None or math.isnan(value):
            return ""
        return f"[{_number(value)}, {_number(row['high'])}]"
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


def _nine_digits(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value
