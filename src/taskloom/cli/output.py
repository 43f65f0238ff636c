"""What the command line prints: tables for people, JSON for machines. Nothing here computes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_C1 = re.compile("[\x7f-\x9f]")
"""Orders to a terminal that JSON allows unescaped in its texts."""
_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def console() -> Console:
    """Return a console on standard output; wide where the output is not a terminal, so that nothing is cut."""
    from taskloom.cli.grid import WholeLines

    return WholeLines(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)


def emit(value: Any) -> None:
    """Print one JSON value on one line."""
    print(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)))


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """Build a table in the one style that we use."""
    from taskloom.cli.grid import Grid

    grid = Grid(printable(title))
    for i, column in enumerate(columns):
        grid.add_column(column, overflow="fold", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(cell(value) for value in row))
    return grid


def cell(value: Any) -> str:
    """Format a value as text that Rich prints as it is; whole numbers in groups of three digits."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return printable(text).replace("[", r"\[")


def printable(text: str) -> str:
    """Return a text with terminal escapes and marks that reorder a line shown by their codes; data may come from anybody."""
    return _ORDERS.sub(lambda match: ascii(match[0])[1:-1], text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "duplicate"), counted(1200, "duplicate")
    ('1 duplicate', '1,200 duplicates')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(value: float) -> str:
    """Format a share with one decimal."""
    return f"{100 * value:.1f} %"
