"""From findings to one HTML file that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from taskloom.errors import MissingExtra
from taskloom.files import atomic

SHORT = 28
"""Cells of up to this many characters stay on one line: a recipe's name, an interval, a shortened digest."""

MOST_ROWS = 400
"""Rows of one table; nobody reads a page with more."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        head: Its heading.
        value: Gives the cell of a row.
        number: Whether its cells are numbers, which are aligned to the right.
    """

    head: str
    value: Callable[[Any], Any]
    number: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: words, a table, a figure, preformatted blocks, or several of them.

    Attributes:
        title: Its heading.
        text: A paragraph; empty for none.
        columns: The table's columns.
        rows: What the table has a row for; no table where there are none.
        figure: SVG text.
        blocks: Preformatted texts, such as examples; a `Marked` one has a coloured edge.
        folded: The line that unfolds the table; empty for a table that is always shown.
    """

    title: str
    text: str = ""
    columns: tuple[Column, ...] = ()
    rows: tuple[Any, ...] = ()
    figure: str = ""
    blocks: tuple[str, ...] = ()
    folded: str = ""

    @property
    def cells(self) -> list[list[Any]]:
        """Return the cells of the rows that are shown."""
        return [[column.value(row) for column in self.columns] for row in self.rows[:MOST_ROWS]]

    @property
    def cut(self) -> str:
        """Return the note on rows that are left out; empty where all are shown."""
        return f"The first {MOST_ROWS} of {len(self.rows):,} rows." if len(self.rows) > MOST_ROWS else ""


class Marked(str):
    """A block that is `right` or `wrong`."""

    kind: str

    def __new__(cls, text: str, kind: str) -> Marked:
        """Attach the kind to the text."""
        block = super().__new__(cls, text)
        block.kind = kind
        return block


def write(path: Path, title: str, lead: str, sections: list[Section]) -> Path:
    """Write the page, whole or not at all."""
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise MissingExtra("a report", "jinja2", "report") from error
    source = files("taskloom.reports").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True).from_string(source)
    page = template.render(title=title, lead=lead, sections=sections, css=_cell_class, mark=_block_class)
    with atomic(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


def write_figures(folder: Path, sections: list[Section]) -> None:
    """Write the figure of each section as an SVG file named after its title."""
    for section in sections:
        if section.figure:
            with atomic(folder / f"{section.title.lower().replace(' ', '-')}.svg") as beside:
                beside.write_text(section.figure, encoding="utf-8")


def _cell_class(column: Column, cell: Any = None) -> Any:
    kinds = ["number"] if column.number else []
    return _class(" ".join([*kinds, *(["short"] if cell is not None and len(str(cell)) <= SHORT else [])]))


def _block_class(block: str) -> Any:
    return _class(block.kind if isinstance(block, Marked) else "")


def _class(name: str) -> Any:
    from markupsafe import Markup

    return Markup(' class="{}"').format(name) if name else Markup("")
