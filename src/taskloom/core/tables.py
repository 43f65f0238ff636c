"""Output: a table class for terminals, notebooks, pages, Markdown and LaTeX, and JSON for machines.

Data is never interpreted as markup: a name that contains `<b>`, `[bold]` or `\\textbf` is shown
literally.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

LONGEST = 1_500
"""Maximum characters of a text in HTML, because notebooks are for inspecting data, not for printing
a corpus.
"""

SHORT = 28
"""Maximum characters of a cell that is kept on one line of a page, such as a recipe's name or an
interval.
"""

LONGEST_WORD = 24
"""Maximum letters of a word that is kept on one line of a narrow terminal. Longer ones, such as
paths, are folded.
"""

PADDING = 2
"""Number of spaces between two columns on a terminal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        head: Heading of the column.
        value: Returns the cell for a row.
        number: True if the cells are numbers, which are right-aligned.
        wraps: True if even short cells may wrap, so that a wide table fits on a page.
    """

    head: str
    value: Callable[[Any], Any]
    number: bool = False
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and cells as formatted text.

    Attributes:
        heads: The heading of each column.
        cells: Texts, row by row. A cell with an `__html__` method, such as a link, is written as
            markup in HTML and as plain text elsewhere.
        numeric: For each column, True if it is right-aligned.
        title: Line above the table on terminals. Empty for none.
        wraps: For each column, True if its short cells may wrap on a page.
        marks: CSS class of each row on pages, such as `bad`. Empty for none.
        total: Number of rows in the whole table, if `cells` contains only the first ones.
    """

    heads: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    title: str = ""
    wraps: tuple[bool, ...] = ()
    marks: tuple[str, ...] = ()
    total: int = 0

    def __len__(self) -> int:
        return len(self.cells)

    def first(self, n: int) -> Table:
        """Return the first n rows of the table."""
        return replace(self, cells=self.cells[:n])

    def filled(self) -> Table:
        """The table without columns that are empty in every row."""
        kept = [i for i in range(len(self.heads)) if any(row[i] != "" for row in self.cells)]
        return replace(
            self,
            heads=tuple(self.heads[i] for i in kept),
            cells=tuple(tuple(row[i] for i in kept) for row in self.cells),
            numeric=tuple(self.numeric[i] for i in kept),
            wraps=tuple(self.wraps[i] for i in kept) if self.wraps else (),
        )

    def __str__(self) -> str:
        """Return the table as aligned text."""
        widths = [max(map(len, column)) for column in zip(self.heads, *self.cells, strict=True)]
        lines = []
        for row in (self.heads, *self.cells):
            parts = []
            for cell, width, number in zip(row, widths, self.numeric, strict=True):
                parts.append(cell.rjust(width) if number else cell.ljust(width))
            lines.append("  ".join(parts).rstrip())
        return "\n".join(lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the table with Rich.

        Cells are folded between words. Words and numbers are split only if no other column can be
        made narrower.
        """
        from rich.table import Table as Grid
        from rich.text import Text

        if self.title:
            yield Text(printable(self.title), style="bold", no_wrap=True, overflow="ignore")
        grid = Grid(box=None, pad_edge=False, padding=(0, PADDING, 0, 0))
        rows = [[printable(cell) for cell in row] for row in self.cells]
        columns = [[row[place] for row in rows] for place in range(len(self.heads))]
        widths = column_widths(self.heads, columns, options.max_width)
        for place, head in enumerate(self.heads):
            width = None if widths is None else widths[place]
            grid.add_column(Text(head), overflow="fold", no_wrap=place == 0, width=width)
        for row in rows:
            grid.add_row(*map(Text, row))
        if widths is not None:
            # A table with long words may be wider than the terminal, which then wraps its lines.
            whole = sum(widths) + PADDING * len(widths)
            options = options.update(max_width=max(options.max_width, whole))
        yield from grid.__rich_console__(console, options)

    def html(self, *, classes: bool = False) -> str:
        """Return the table as HTML.

        Args:
            classes: Align and wrap with the CSS classes `number`, `short`, `long` and `wraps`,
                which pages define. Default: inline styles, which notebooks keep.
        """
        attributes = _class_attribute if classes else _style_attribute
        heads = []
        for head, number in zip(self.heads, self.numeric, strict=True):
            heads.append(f'<th scope="col"{attributes(number, "")}>{escape(head)}</th>')
        wraps = self.wraps or (False,) * len(self.heads)
        lines = []
        for place, row in enumerate(self.cells):
            mark = self.marks[place] if self.marks else ""
            cells = []
            for cell, number, wrap in zip(row, self.numeric, wraps, strict=True):
                cells.append(
                    f"<td{attributes(number, _width_class(cell, wrap))}>{_html(cell)}</td>"
                )
            opening = f'<tr class="{mark}">' if mark else "<tr>"
            lines.append(f"{opening}{''.join(cells)}</tr>")
        head = f"<thead><tr>{''.join(heads)}</tr></thead>"
        body = "\n".join(lines)
        return f"<table>{head}<tbody>{body}</tbody></table>"

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.heads, ("---",) * len(self.heads), *self.cells]
        return "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        )

    def latex(self) -> str:
        """Return the table as LaTeX, with the rules of the `booktabs` package.

        >>> print(table(["name", "n"], [["a_b", 1000]]).latex())
        \\begin{tabular}{lr}
        \\toprule
        name & n \\\\
        \\midrule
        a\\_b & 1,000 \\\\
        \\bottomrule
        \\end{tabular}
        """
        sides = "".join("r" if number else "l" for number in self.numeric)
        heads, *body = [" & ".join(map(_latex, row)) + r" \\" for row in (self.heads, *self.cells)]
        lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", heads, r"\midrule", *body]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def table(heads: Iterable[str], rows: Iterable[Iterable[Any]], title: str = "") -> Table:
    """Build a table from values. Integers are right-aligned, with thousands separators.

    >>> print(table(["n"], [[1000]]).html().replace("><", ">\\n<"))
    <table>
    <thead>
    <tr>
    <th scope="col" style="text-align:right">n</th>
    </tr>
    </thead>
    <tbody>
    <tr>
    <td style="text-align:right">1,000</td>
    </tr>
    </tbody>
    </table>
    """
    heads = tuple(heads)
    body = [tuple(row) for row in rows]
    numeric = [bool(body) and all(map(_is_whole, column)) for column in zip(*body, strict=True)]
    if not body:
        numeric = [False] * len(heads)
    cells = tuple(tuple(map(cell_text, row)) for row in body)
    return Table(heads, cells, tuple(numeric), title)


def table_of(columns: Sequence[Column], rows: Iterable[Any], most: int | None = None) -> Table:
    """Build a table from columns that format the cells of a row.

    Args:
        columns: The columns.
        rows: The rows.
        most: Maximum number of rows to show. The number of omitted rows is stated. Default: all.
    """
    every = list(rows)
    cells = tuple(tuple(cell_text(column.value(row)) for column in columns) for row in every[:most])
    return Table(
        tuple(column.head for column in columns),
        cells,
        tuple(column.number for column in columns),
        wraps=tuple(column.wraps for column in columns),
        total=len(every),
    )


def cell_text(value: Any) -> str:
    """Format a value as a cell. Integers have thousands separators.

    >>> cell_text(1234), cell_text("1234"), cell_text(True)
    ('1,234', '1234', 'True')
    """
    if isinstance(value, str):
        return value
    return f"{value:,}" if _is_whole(value) else str(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def console() -> Console:
    """Return a console on standard output. If this is not a terminal, the console is wide, so that
    nothing is cut.
    """
    # Imported here, because listing and checking commands do not need Rich (0.04 s).
    from rich.console import Console

    class WholeLines(Console):
        """A console that never cuts lines. If a terminal is too narrow for a table, the terminal
        wraps them.
        """

        def print(self, *objects: Any, **options: Any) -> None:
            """Print without cutting lines at the width of the terminal."""
            super().print(*objects, **{"crop": False, **options})

    return WholeLines(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)


_C1 = re.compile("[\x7f-\x9f]")
"""Terminal control characters that JSON allows unescaped in strings."""


def emit(value: Any) -> None:
    """Print one JSON value on one line."""
    print(_C1.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)))


def plain_text(value: Any) -> str:
    """Format a value as text that Rich prints literally. Integers have thousands separators."""
    return printable(cell_text(value)).replace("[", r"\[")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "duplicate"), counted(1200, "duplicate")
    ('1 duplicate', '1,200 duplicates')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(value: float) -> str:
    """Return a percentage with one decimal."""
    return f"{100 * value:.1f} %"


_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_SLURS = """
    pnssre pnsser puvanzna puvax pbbyvr pbbyl pbba qntb qnexrl qnexvr qnexl snt snttbg tvamb
    tbbx ternfronyy unys-oerrq unys-pnfgr ubaxrl ubaxvr ubaxl ulzvr vawha wnc wvtnobb xnssve
    xnsve xvxr xenhgurnq znevpóa avttn avttre avten cnxv cvpnavaal cvppnavaal cvpxnavaal cbbs
    cbbir enturnq erqfxva furral furtrgm fuvxfn fuvxfr fynag-rlr fcvp fcvpx fcvx fhqnpn
    gbjryurnq jrgonpx jbt jbc lvq
"""
"""Words that WordNet marks as slurs, except most of those with an everyday meaning (spade, queen),
plus some that it does not mark. In ROT13, so that they do not appear in searches of the source.
"""

UNMASKED = "TASKLOOM_UNMASKED"
"""Environment variable that shows slurs unmasked if it is not empty."""


@cache
def slur_pattern() -> str:
    """Return a regular expression that matches slurs as whole words, singular and plural. Use it
    case-insensitively.
    """
    words = codecs.decode(_SLURS, "rot13").split()
    return rf"\b(?:{'|'.join(words)})(?:e?s)?\b"


def printable(text: str) -> str:
    """Return a text that is safe to print on a terminal, because data may come from anywhere.

    Terminal escapes and bidirectional control characters are shown as codes. Slurs are masked
    except for their first letter, because the papers' vocabularies are unfiltered. Data and JSON
    are never masked.
    """
    shown = _ORDERS.sub(lambda match: ascii(match[0])[1:-1], text)
    if os.environ.get(UNMASKED):
        return shown
    return re.sub(slur_pattern(), _masked, shown, flags=re.IGNORECASE)


def _masked(match: re.Match[str]) -> str:
    return match[0][0] + "*" * (len(match[0]) - 1)


def column_widths(
    heads: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> list[int] | None:
    """Return the width of each column on a terminal, or None if everything fits without folding.

    No column is narrower than its longest word, even if the table becomes wider than the terminal,
    because a number split over two lines is easily misread. The remaining width is shared equally
    among the columns that need it.

    Args:
        heads: Heading of each column.
        cells: Cells of each column.
        width: Width of the terminal.

    >>> column_widths(["name", "what"], [["a"], ["one two three four"]], 16)
    [4, 8]
    >>> column_widths(["name", "what"], [["a"], ["one two three four"]], 40)
    """
    from rich.cells import cell_len

    texts = [[head, *column] for head, column in zip(heads, cells, strict=True)]
    wanted = [max(map(cell_len, column)) for column in texts]
    left = width - PADDING * len(heads)
    if sum(wanted) <= left:
        return None
    least = []
    for column in texts:
        longest = max((cell_len(word) for word in _words(column)), default=1)
        least.append(min(longest, LONGEST_WORD))
    least[0] = wanted[0]  # names must stay whole for copying
    # Give one character to the narrowest column that needs it, until no width remains. Tables are
    # small enough for this loop.
    open_places = [i for i in range(len(heads)) if least[i] < wanted[i]]
    while open_places and sum(least) < left:
        narrowest = min(open_places, key=least.__getitem__)
        least[narrowest] += 1
        if least[narrowest] == wanted[narrowest]:
            open_places.remove(narrowest)
    return least


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from text.split()


def _class_attribute(number: bool, width: str) -> str:
    names = " ".join(name for name in ("number" if number else "", width) if name)
    return f' class="{names}"' if names else ""


def _style_attribute(number: bool, width: str) -> str:
    return f' style="text-align:{"right" if number else "left"}"'


def _width_class(cell: str, wraps: bool) -> str:
    if wraps:
        return "wraps"
    return "short" if len(cell) <= SHORT else "long"


def _html(cell: str) -> str:
    as_markup = getattr(cell, "__html__", None)
    return str(as_markup()) if as_markup is not None else text(cell)


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "∞": r"$\infty$",
    "→": r"$\to$",
}
"""Characters that have a special meaning in LaTeX or are missing from its text font."""


def _latex(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in cell.replace("\n", " "))


def text(value: str) -> str:
    """Escape a text for HTML, cut it if it is long, and keep its line breaks."""
    short = value if len(value) <= LONGEST else f"{value[:LONGEST]} … ({len(value):,} characters)"
    return escape(short).replace("\n", "<br>")


def paragraph(value: str, *, strong: bool = False) -> str:
    """Return a paragraph for notebooks."""
    inner = f"<b>{text(value)}</b>" if strong else text(value)
    return f"<p>{inner}</p>"
