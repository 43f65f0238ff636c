"""From findings to one HTML file that needs nothing from outside."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from taskloom.analysis.report.charts import STYLE, Panel, sheet
from taskloom.core.errors import MissingExtra
from taskloom.core.files import atomic

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
        wraps: Whether its cells may break even where they are short, so that a table of many columns fits a page.
    """

    head: str
    value: Callable[[Any], Any]
    number: bool = False
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: words, a table, a figure, preformatted blocks, or several of them.

    Attributes:
        title: Its heading.
        text: A paragraph; empty for none.
        on_screen: The end of the paragraph, on what can be opened or chosen; it is not printed.
        columns: The table's columns.
        rows: What the table has a row for; no table where there are none.
        figure: SVG text.
        caption: Of the figure, below it.
        lists: Lines below the table, one group after the other, each with the words that lead to it; empty for none.
        blocks: Preformatted texts, such as examples; a `Marked` one has a coloured edge.
        folded: The line that unfolds the table; empty for a table that is always shown.
        sentences: Findings, one line each.
        panels: Figures side by side, which reflow on a narrow screen.
        legend: The colours of the panels' series, as numbers.
        guessed: Whether the panels have a line for guessing.
        explorer: Whether the examples behind the numbers are opened here.
    """

    title: str
    text: str = ""
    columns: tuple[Column, ...] = ()
    rows: tuple[Any, ...] = ()
    figure: str = ""
    blocks: tuple[str, ...] = ()
    folded: str = ""
    sentences: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()
    legend: Mapping[str, int] = field(default_factory=dict)
    guessed: bool = False
    explorer: bool = False
    on_screen: str = ""
    caption: str = ""
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def cells(self) -> list[list[Any]]:
        """Return the cells of the rows that are shown."""
        return [[column.value(row) for column in self.columns] for row in self.rows[:MOST_ROWS]]

    @property
    def cut(self) -> str:
        """Return the note on rows that are left out; empty where all are shown."""
        return (
            f"The first {MOST_ROWS} of {len(self.rows):,} rows."
            if len(self.rows) > MOST_ROWS
            else ""
        )


class Marked(str):
    """A block that is `right` or `wrong`."""

    kind: str

    def __new__(cls, text: str, kind: str) -> Marked:
        """Attach the kind to the text."""
        block = super().__new__(cls, text)
        block.kind = kind
        return block


class Opened(str):
    """A cell that opens the examples behind it: those that the explorer's query selects."""

    query: Mapping[str, str]

    def __new__(cls, text: str, query: Mapping[str, str]) -> Opened:
        """Attach the query to the text."""
        cell = super().__new__(cls, text)
        cell.query = query
        return cell


def write(
    path: Path,
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    headline: str = "",
    data: Mapping[str, str] | None = None,
) -> Path:
    """Write the page, whole or not at all.

    Args:
        path: The HTML file.
        title: Its heading.
        lead: The paragraph below it.
        sections: Its parts.
        headline: The one finding that a reader should take along.
        data: What the explorer of examples shows, by the ids of its elements; without it the page has no script.
    """
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtra("a report", "jinja2", "report") from error
    folder = files("taskloom.analysis.report")
    template = Environment(autoescape=True, trim_blocks=True).from_string(
        folder.joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    script = folder.joinpath("explorer.js").read_text(encoding="utf-8") if data else ""
    page = template.render(
        title=title,
        lead=lead,
        headline=headline,
        sections=sections,
        data=data or {},
        script=script,
        script_hash="sha256-" + b64encode(sha256(script.encode()).digest()).decode(),
        chart_style=Markup(STYLE),  # noqa: S704 - a constant of ours
        css=_cell_class,
        mark=_block_class,
        opened=_opened,
    )
    with atomic(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


def write_figures(folder: Path, sections: Sequence[Section]) -> None:
    """Write the figure of each section as an SVG file named after its title."""
    for section in sections:
        figure = section.figure or (sheet(section.panels, section.legend) if section.panels else "")
        if figure:
            with atomic(folder / f"{section.title.lower().replace(' ', '-')}.svg") as beside:
                beside.write_text(figure, encoding="utf-8")


def _cell_class(column: Column, cell: Any = None) -> Any:
    kinds = ["number"] if column.number else []
    if cell is not None:
        kinds.append(_width_class(column, cell))
    return _class(" ".join(kinds))


def _width_class(column: Column, cell: Any) -> str:
    if column.wraps:
        return "wraps"
    return "short" if len(str(cell)) <= SHORT else "long"


def _opened(cell: Any) -> Any:
    """Return a cell, as a button where it opens examples."""
    if not isinstance(cell, Opened):
        return cell
    from markupsafe import Markup

    text = '<button type="button" class="open" data-open="{}" title="the examples behind this number">{}</button>'
    return Markup(text).format(  # noqa: S704 - a constant of ours; what goes in is escaped
        json.dumps(cell.query), str(cell)
    )


def _block_class(block: str) -> Any:
    return _class(block.kind if isinstance(block, Marked) else "")


@lru_cache
def _class(name: str) -> Any:
    """Return an attribute; a page has tens of thousands of cells and a handful of classes."""
    from markupsafe import Markup

    return Markup(' class="{}"').format(name) if name else Markup("")
