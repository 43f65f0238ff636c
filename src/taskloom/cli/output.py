"""What the command line prints: tables for people, JSON for machines. Nothing here computes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

_C1 = re.compile("[\x7f-\x9f]")
"""Orders to a terminal that JSON allows unescaped in its texts."""
_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


LONGEST_WORD = 24
"""Letters of a word that a narrow terminal keeps together; a longer one, such as a path, is folded."""

PADDING = 2
"""Columns of blanks between two columns of a table."""


class _Console(Console):
    """A console that never cuts a line: a terminal that is too narrow for a table wraps it."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **{"crop": False, **options})


class _Grid(Table):
    """A table that folds between words, not inside of words or numbers, as long as columns can be narrower elsewhere.

    Args:
        heading: The line above it, which may be wider than the table.
    """

    def __init__(self, heading: str) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, PADDING, 0, 0))
        self.heading = heading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.heading:
            yield Text(printable(self.heading), style="bold", no_wrap=True, overflow="ignore")
        cells = [[str(text) for text in column.cells] for column in self.columns]
        heads = [str(column.header) for column in self.columns]
        fitted = column_widths(heads, cells, options.max_width)
        if fitted is None:
            yield from super().__rich_console__(console, options)
            return
        for column, width in zip(self.columns, fitted, strict=True):
            column.width = width
        whole = sum(fitted) + PADDING * len(fitted)
        yield from super().__rich_console__(console, options.update(max_width=max(options.max_width, whole)))


def column_widths(heads: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return how wide each column of a table is to be; None where everything fits as it is.

    No column is narrower than its longest word, even if the table is then wider than the terminal: a number in two lines is
    misread. What is left goes to all columns alike, as far as they need it.

    Args:
        heads: The head of each column.
        cells: The cells of each column.
        width: That of the terminal.

    >>> column_widths(["name", "what"], [["a"], ["one two three four"]], 16)
    [4, 8]
    >>> column_widths(["name", "what"], [["a"], ["one two three four"]], 40)
    """
    texts = [[head, *column] for head, column in zip(heads, cells, strict=True)]
    wanted = [max(map(cell_len, column)) for column in texts]
    left = width - PADDING * len(heads)
    if sum(wanted) <= left:
        return None
    words = [max((cell_len(word) for text in column for word in text.split()), default=1) for column in texts]
    least = [min(word, LONGEST_WORD) for word in words]
    least[0] = wanted[0]  # names are looked up, and copied
    # One more column of blanks for whoever needs it, in turn, until nothing is left: tables are small.
    open_places = [i for i in range(len(heads)) if least[i] < wanted[i]]
    while open_places and sum(least) < left:
        narrowest = min(open_places, key=least.__getitem__)
        least[narrowest] += 1
        if least[narrowest] == wanted[narrowest]:
            open_places.remove(narrowest)
    return least


def console() -> Console:
    """Return a console on standard output; wide where the output is not a terminal, so that nothing is cut."""
    return _Console(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)


def emit(value: Any) -> None:
    """Print one JSON value on one line."""
    print(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)))


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    """Build a table in the one style that we use."""
    grid = _Grid(title)
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
