"""A small table that prints itself: the result of a query about runs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from taskloom.core.errors import nearest
from taskloom.core.tables import Table
from taskloom.experiments.record import RunsError

Columns = Sequence[str] | Mapping[str, str]
"""Chosen columns: names, or headings by name."""

SCORE = "score"
"""Column of a paper's table that joins `mean`, `low` and `high`."""

DIGITS = 2
"""Default number of decimals in a paper's table."""


class ResultTable:
    """Rows of plain values under named columns.

    `print(rows)` gives an aligned table, a notebook an HTML one; `to_html`, `to_markdown`,
    `to_latex` and `to_csv` write it for pages and papers; `to_pandas`, `to_polars` and `table` give
    it to other tools. `low` and `high` are shown as one interval. Papers choose columns:
    `to_latex({"learner": "Model", "score": "Accuracy"})`.

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
        """The rows as a pandas frame."""
        return to_pandas(self.table)

    def to_polars(self) -> Any:
        """The rows as a Polars frame."""
        return to_polars(self.table)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Values for JSON. Numbers that are not finite are null."""
        return [{c: _plain(v) for c, v in row.items()} for row in self._rows]

    def shown(self) -> Table:
        """The table for display: rounded numbers, and one interval from `low` and `high`."""
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
        """The table as HTML."""
        return self.shown().html()

    def to_markdown(self, columns: Columns = (), digits: int | None = None) -> str:
        """The table as Markdown; the arguments are those of `to_latex`."""
        chosen = columns or digits is not None
        table = self.for_paper(columns, digits or DIGITS) if chosen else self.shown()
        return table.markdown()

    def to_latex(self, columns: Columns = (), digits: int | None = None) -> str:
        """The table as LaTeX, for the `booktabs` package.

        Args:
            columns: Columns, as names or as a mapping from a name to its heading. `score` is the
                mean with its interval. Default: all, with three digits and the interval in a column
                of its own.
            digits: Number of decimals. Default: 2 if columns are chosen.
        """
        chosen = columns or digits is not None
        table = self.for_paper(columns, digits or DIGITS) if chosen else self.shown()
        return table.latex()

    def select(self, columns: Columns) -> ResultTable:
        """The table with only these columns, in this order.

        Args:
            columns: Names, or a mapping from a name to the new one. `score` stands for `mean`,
                `low` and `high`.
        """
        known = [*self.columns, *([SCORE] if self._has_score else [])]
        pairs: list[tuple[str, str]] = []
        for name, head in _headings(columns).items():
            if name not in known:
                raise RunsError(f"the table has no column '{name}'; {nearest(name, known)}")
            if name == SCORE and self._has_score:
                pairs += [(part, part) for part in ("mean", "low", "high")]
            else:
                pairs.append((name, head))
        heads = [head for _, head in pairs]
        return ResultTable(heads, [{new: row[old] for old, new in pairs} for row in self._rows])

    @property
    def _has_score(self) -> bool:
        return SCORE not in self.columns and {"mean", "low", "high"} <= set(self.columns)

    def for_paper(self, columns: Columns = (), digits: int = DIGITS) -> Table:
        """The table for a paper: mean and interval in one cell, rounded.

        Args:
            columns: As in `to_latex`. Default: the columns that distinguish rows, the score, and
                the numbers of examples and seeds.
            digits: Number of decimals.
        """
        known = [*self.columns, *([SCORE] if self._has_score else [])]
        heads = _headings(columns) or self._paper_columns()
        for name in heads:
            if name not in known:
                raise RunsError(f"the table has no column '{name}'; {nearest(name, known)}")
        cells = []
        for row in self._rows:
            cells.append(tuple(_paper_cell(name, row, digits) for name in heads))
        numeric = []
        for name in heads:
            values = [0.0 if name == SCORE else row[name] for row in self._rows]
            numeric.append(all(isinstance(value, int | float) for value in values))
        return Table(tuple(heads.values()), tuple(cells), tuple(numeric))

    def _paper_columns(self) -> dict[str, str]:
        """Columns of a paper's table, without statistics that the interval summarises."""
        if not self._has_score:
            return {name: name.replace("_", " ") for name in self.columns}
        heads = {}
        for name in self.columns:
            if name == "mean":
                heads[SCORE] = SCORE
            elif name not in ("low", "high", "level", "se", "sd", "method"):
                heads[name] = name.rpartition(".")[2].replace("_", " ")
        return heads

    def to_csv(self, columns: Columns = ()) -> str:
        """Values as CSV, with nine digits, so that rounding differences between machines do not
        show.

        Args:
            columns: As in `select`. Default: all.
        """
        if columns:
            return self.select(columns).to_csv()
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, lineterminator="\n")
        writer.writeheader()
        for row in self.to_dicts():
            writer.writerow({name: _nine_digits(value) for name, value in row.items()})
        return out.getvalue()


def _headings(columns: Columns) -> dict[str, str]:
    """Heading of each chosen column."""
    if isinstance(columns, Mapping):
        return dict(columns)
    return {name: name.replace("_", " ") for name in columns}


def score_text(row: Mapping[str, Any], digits: int = DIGITS) -> str:
    """Mean with half the width of its interval, or with both ends if the interval is asymmetric.

    >>> score_text({"mean": 0.951, "low": 0.93, "high": 0.97})
    '0.95 ± 0.02'
    >>> score_text({"mean": 1.0, "low": 0.874, "high": 1.0})
    '1.00 [0.87, 1.00]'
    """
    mean, low, high = row["mean"], row["low"], row["high"]
    text = f"{mean:.{digits}f}"
    if low is None or math.isnan(low):
        return text
    below, above = round(mean - low, digits), round(high - mean, digits)
    if abs(below - above) <= 10**-digits + 1e-9:
        return f"{text} ± {(high - low) / 2:.{digits}f}"
    return f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


def _paper_cell(name: str, row: Mapping[str, Any], digits: int) -> str:
    if name == SCORE and SCORE not in row:
        return score_text(row, digits)
    value = row[name]
    if name not in ("p", "corrected_p") and isinstance(value, float) and math.isfinite(value):
        return f"{round(value, digits) + 0.0:.{digits}f}"
    return _cell(name, {name: value})


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
    """Format a p-value.

    >>> probability(0.0312), probability(0.00002)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float) -> str:
    """Format a p-value with its symbol, for use in a sentence.

    >>> p_text(0.0312), p_text(0.00002)
    ('p = 0.031', 'p < 0.001')
    """
    return f"p {probability(p)}" if p < 0.001 else f"p = {probability(p)}"


def _number(value: float) -> str:
    """Format a number, without a minus sign if it rounds to zero.

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
