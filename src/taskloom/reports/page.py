"""From findings to one HTML file without outside parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from taskloom.errors import MissingExtra
from taskloom.files import atomic

SHORT = 28
"""Cells of up to so many characters stay on one line."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: words, a table, a figure, or several of them.

    Attributes:
        title: Its heading.
        text: A paragraph; empty for none.
        heads: The table's columns; no table where there are none.
        rows: The table's rows.
        figure: SVG text.
        blocks: Preformatted texts, such as examples; a `Marked` one has a coloured edge.
        numbers: Which columns of the table hold numbers, which stand right.
        folded: Where the table is long and the figure says it all: what to click on to unfold the table.
    """

    title: str
    text: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    figure: str = ""
    blocks: tuple[str, ...] = field(default_factory=tuple)
    numbers: frozenset[int] = frozenset()
    folded: str = ""


class Marked(str):
    """A block that is `right` or `wrong`."""

    kind: str

    def __new__(cls, text: str, kind: str) -> Marked:
        """Text with its kind."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made


def write(path: Path, title: str, lead: str, sections: list[Section]) -> Path:
    """Write the page, whole or not at all."""
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise MissingExtra("a report", "jinja2", "report") from error
    source = files("taskloom.reports").joinpath("page.html.j2").read_text(encoding="utf-8")
    page = (
        Environment(autoescape=True)
        .from_string(source)
        .render(title=title, lead=lead, sections=sections, number=_number, mark=_mark)
    )
    with atomic(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


def _number(section: Section, column: int, cell: Any = None) -> Any:
    kinds = ["number"] if column in section.numbers else []
    return _class(" ".join([*kinds, *(["short"] if cell is not None and len(str(cell)) <= SHORT else [])]))


def _mark(block: str) -> Any:
    return _class(block.kind if isinstance(block, Marked) else "")


def _class(name: str) -> Any:
    from markupsafe import Markup

    return Markup(f' class="{name}"' if name else "")
