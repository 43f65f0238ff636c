"""Printing: tables for people, JSON for machines. Nothing here computes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from taskloom.core import tables
from taskloom.core.tables import Table
from taskloom.core.tables import printable as printable

if TYPE_CHECKING:
    from rich.console import Console


_C1 = re.compile("[\x7f-\x9f]")
"""Orders to a terminal that JSON allows unescaped in its texts."""


def console() -> Console:
    """Return a console on standard output; wide where the output is not a terminal, so that nothing
    is cut.
    """
    # Here and not above: commands are listed and checked without Rich (0.04 s).
    from rich.console import Console

    class WholeLines(Console):
        """A console that never cuts a line: a terminal that is too narrow for a table wraps it."""

        def print(self, *objects: Any, **options: Any) -> None:
            """Print without cutting lines at the width of the terminal."""
            super().print(*objects, **{"crop": False, **options})

    return WholeLines(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)


def emit(value: Any) -> None:
    """Print one JSON value on one line."""
    print(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)))


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """Build a table in the one style that we use."""
    return tables.table(columns, rows, title)


def cell(value: Any) -> str:
    """Format a value as text that Rich prints as it is; whole numbers in groups of three digits."""
    return printable(tables.cell_text(value)).replace("[", r"\[")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "duplicate"), counted(1200, "duplicate")
    ('1 duplicate', '1,200 duplicates')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(value: float) -> str:
    """Format a share with one decimal."""
    return f"{100 * value:.1f} %"
