"""Tables and the console on Rich; apart from `output`, since commands are listed and checked without Rich (0.04 s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

LONGEST_WORD = 24
"""Letters of a word that a narrow terminal keeps together; a longer one, such as a path, is folded."""

PADDING = 2
"""Columns of blanks between two columns of a table."""


class WholeLines(Console):
    """A console that never cuts a line: a terminal that is too narrow for a table wraps it."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print without cutting lines at the width of the terminal."""
        super().print(*objects, **{"crop": False, **options})


class Grid(Table):
    """A table that folds between words, not inside of words or numbers, as long as columns can be narrower elsewhere.

    Args:
        heading: The line above it, which may be wider than the table.
    """

    def __init__(self, heading: str) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, PADDING, 0, 0))
        self.heading = heading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.heading:
            yield Text(self.heading, style="bold", no_wrap=True, overflow="ignore")
        cells = [[str(text) for text in column.cells] for column in self.columns]
        heads = [str(column.header) for column in self.columns]
        fitted = column_widths(heads, cells, options.max_width)
        if fitted is None:
            yield from super().__rich_console__(console, options)
            return
        for column, width in zip(self.columns, fitted, strict=True):
            column.width = width
        whole = sum(fitted) + PADDING * len(fitted)
        yield from super().__rich_console__(
            console, options.update(max_width=max(options.max_width, whole))
        )


def column_widths(
    heads: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> list[int] | None:
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
    words = [
        max((cell_len(word) for text in column for word in text.split()), default=1)
        for column in texts
    ]
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
