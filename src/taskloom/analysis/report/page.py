"""One self-contained HTML file from the sections of a report, and sentences from Jinja templates:
code selects the numbers, and the wording is in a separate file.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files as resource_files
from pathlib import Path
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.panels import Panel, sheet
from taskloom.analysis.plot_style import css_variables
from taskloom.core.errors import MissingExtra, ParameterError, nearest
from taskloom.core.files import atomic
from taskloom.core.tables import Table

MOST_ROWS = 400
"""Maximum rows of a table on a page."""


LONG_ON_PHONES = 8
"""Maximum rows of a table that a narrow screen shows at once."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: text, a table, a figure, preformatted blocks, or several of them.

    Attributes:
        title: Its heading.
        text: A paragraph; empty for none.
        on_screen: End of the paragraph, about interactive elements. It is omitted in print.
        table: The table. A table without rows is not shown.
        figure: SVG text.
        caption: Caption below the figure.
        lists: Groups of lines below the table, each with its introduction; empty for none.
        blocks: Preformatted texts, such as examples; a `Marked` one has a coloured edge.
        folded: Label that unfolds the table; empty for a table that is always shown.
        sentences: Findings, one line each.
        panels: Figures side by side, which reflow on a narrow screen.
        legend: The colours of the panels' series, as numbers.
        guessed: True if the panels have a line for chance.
        explorer: True if the section contains the explorer of examples.
        first: The explorer's initial query.
        inside: Folded sections.
        secondary: True if a narrow screen folds everything below the heading.
    """

    title: str
    text: str = ""
    table: Table | None = None
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
    first: Mapping[str, str] = field(default_factory=dict)
    inside: tuple[Section, ...] = ()
    secondary: bool = False

    @property
    def rows(self) -> str:
        """The rows of the table that are shown, as HTML; empty if there are none."""
        return self.table.first(MOST_ROWS).html(classes=True) if self.table else ""

    def queries(self) -> Iterator[Mapping[str, str]]:
        """Yield the explorer's queries for the rows that are shown."""
        if self.first:
            yield self.first
        for row in self.table.cells[:MOST_ROWS] if self.table else ():
            yield from (cell.query for cell in row if isinstance(cell, Opened))
        for section in self.inside:
            yield from section.queries()

    @property
    def long(self) -> bool:
        """True if a narrow screen folds the table."""
        return self.table is not None and len(self.table) > LONG_ON_PHONES and not self.folded

    @property
    def cut(self) -> str:
        """Note on omitted rows; empty if all are shown."""
        rows = max(len(self.table), self.table.total) if self.table else 0
        return f"The first {MOST_ROWS} of {rows:,} rows." if rows > MOST_ROWS else ""


class Marked(str):
    """A block that is `right` or `wrong`."""

    kind: str

    def __new__(cls, text: str, kind: str) -> Marked:
        """Attach the kind to the text."""
        block = super().__new__(cls, text)
        block.kind = kind
        return block


class Opened(str):
    """A table cell that opens the examples behind it: those that match the explorer's query."""

    query: Mapping[str, str]

    def __new__(cls, text: str, query: Mapping[str, str]) -> Opened:
        """Attach the query to the text."""
        cell = super().__new__(cls, text)
        cell.query = query
        return cell

    def __html__(self) -> str:
        """The cell as a button."""
        query = escape(json.dumps(self.query))
        return (
            f'<button type="button" class="open" data-open="{query}" title="the examples behind'
            f' this number">{escape(self)}</button>'
        )


def write(
    path: Path,
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    headline: str = "",
    tasks: Sequence[Any] = (),
    data: Mapping[str, str] | None = None,
) -> Path:
    """Write the page, completely or not at all.

    Args:
        path: The HTML file.
        title: Its heading.
        lead: The paragraph below it.
        sections: Its parts.
        headline: The most important finding.
        tasks: What the tasks are (`run_sections.TaskNote`).
        data: Data of the explorer by element id. Without it the page has no script.
    """
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtra("a report", "jinja2", "report") from error
    folder = resource_files("taskloom.analysis.report")
    template = Environment(autoescape=True, trim_blocks=True).from_string(
        folder.joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    script = folder.joinpath("explorer.js").read_text(encoding="utf-8") if data else ""
    page = template.render(
        title=title,
        lead=lead,
        headline=headline,
        tasks=tasks,
        sections=sections,
        data=data or {},
        script=script,
        script_hash="sha256-" + b64encode(sha256(script.encode()).digest()).decode(),
        light=Markup(css_variables(dark=False)),  # noqa: S704 - constants of ours
        dark=Markup(css_variables(dark=True)),  # noqa: S704
    )
    with atomic(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class FigureFiles:
    """Files for the figures of a page.

    Attributes:
        folder: Folder to write to.
        formats: Formats: `pdf`, `svg`, `png`.
        inches: Width of each figure; None for panels of 5 inches.
        panels: Substrings of the titles of the panels to draw. Default: all.
    """

    folder: Path
    formats: Sequence[str] = ("svg", "pdf")
    inches: float | None = None
    panels: Sequence[str] = ()

    def __post_init__(self) -> None:
        for form in self.formats:
            if form not in figures.FORMATS:
                known = nearest(form, figures.FORMATS)
                raise ParameterError("format", f"cannot be '{form}'; {known}")

    def chosen(self, section: Section) -> list[Panel]:
        """Panels of a section to draw."""
        if not self.panels:
            return list(section.panels)
        return [p for p in section.panels if any(part in p.title for part in self.panels)]


def write_figures(files: FigureFiles, sections: Sequence[Section]) -> list[Path]:
    """Write the panels of each section as one figure, in files named after its title."""
    with_inner: list[Section] = []
    for section in sections:
        with_inner += (section, *section.inside)
    written: list[Path] = []
    titles: list[str] = []
    for section in with_inner:
        titles += [panel.title for panel in section.panels]
        panels = files.chosen(section)
        if not panels:
            continue
        stem = re.sub(r"\W+", "-", section.title.lower()).strip("-")
        figure = sheet(panels, section.legend, section.guessed, files.inches)
        for ending in files.formats:
            path = files.folder / f"{stem}.{ending}"
            with atomic(path) as beside:
                beside.write_bytes(figures.FORMATS[ending](figure))
            written.append(path)
    if files.panels and not written:
        raise ParameterError("panel", f"is in no title; {nearest(files.panels[0], titles)}")
    return written


FILE = "sentences.j2"
"""File of macros, one per sentence."""


class Sentences:
    """The sentences of a package.

    Args:
        package: Package that has `sentences.j2`, such as `taskloom.analysis.report`.
        **filters: Functions that the templates use to format values.
    """

    def __init__(self, package: str, **filters: Callable[..., str]) -> None:
        self._package = package
        self._filters = filters

    def __call__(self, macro: str, **facts: Any) -> str:
        """Write a sentence.

        Args:
            macro: Name of its macro.
            **facts: Arguments of the macro.
        """
        template = _template(self._package, tuple(self._filters.items()))
        return str(getattr(template, macro)(**facts))


@cache
def _template(package: str, filters: tuple[tuple[str, Callable[..., str]], ...]) -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise MissingExtra("a report", "jinja2", "report") from error
    # Sentences are plain text: terminals print them as they are, and pages escape them.
    environment = Environment(autoescape=False, undefined=StrictUndefined)  # noqa: S701
    own: Mapping[str, Callable[..., str]] = dict(filters)
    environment.filters.update(own)
    text = resource_files(package).joinpath(FILE).read_text(encoding="utf-8")
    return environment.from_string(text).module
