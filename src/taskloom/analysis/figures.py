"""Figures of studies: matplotlib figures from tables of data, readable in greyscale.

Values are distinguished by marker, line style and lightness before colour. `heat_maps` draws
matrices, and `panels` the small figures of reports and the viewer. Nothing is computed here.
Everything drawn is in the data, which are saved next to the figure.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from html import escape
from itertools import pairwise
from typing import Any

from taskloom.analysis import plot_style
from taskloom.analysis.plot_style import for_page, shorten, with_tips
from taskloom.core.errors import MissingExtra, ParameterError
from taskloom.experiments.result_table import ResultTable

MARKERS = ("o", "s", "^", "P", "v", "X", "*", "D")
"""Markers of series. Diamonds come last, because open ones are published numbers."""
SHADES = tuple(light for light, _ in plot_style.SHADES)
"""Colours of series other than splits."""

DASHES = ("-", "--", "-.", ":", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 3)))
"""Line styles of series, so that lines can be distinguished in greyscale."""

RC: Any = {
    "svg.hashsalt": "taskloom",  # without a date, the same data give the same bytes
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Names are plain text, not TeX: a $ would be read as a formula.
    "text.parse_math": False,
    "text.usetex": False,
}

NOT_XML = dict.fromkeys(n for n in range(0x20) if chr(n) not in "\t\n\r")
"""Control characters, which matplotlib copies from names but SVG readers reject."""


@contextmanager
def style(**settings: Any) -> Iterator[None]:
    """Set the style of all figures inside the block.

    Args:
        **settings: Further settings of matplotlib, with `_` for the dots of their names.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("a figure", "matplotlib", "report") from error
    further = {name.replace("_", "."): value for name, value in settings.items()}
    with mpl.rc_context(RC | further):
        yield


_ON_PHONES: ContextVar[bool] = ContextVar("on_phones", default=False)

PHONE = 3.7
"""Width in inches of a figure for phones. Phones then show nine-point type at its actual size."""

PHONE_LABEL = 18
"""Maximum characters of a label on one line on a phone."""


@contextmanager
def for_phones() -> Iterator[None]:
    """Draw all figures inside the block for phones: one panel below the other."""
    token = _ON_PHONES.set(True)
    try:
        yield
    finally:
        _ON_PHONES.reset(token)


@contextmanager
def _any_letters() -> Iterator[None]:
    """Ignore missing glyphs of the font. They are kept as text in SVG files, whose viewer has its
    own fonts.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def canvas(
    panels: int,
    size: tuple[float, float],
    across: int = 3,
    *,
    inner: Sequence[float] = (),
    about: Sequence[Any] = (),
    **options: Any,
) -> tuple[Any, list[Any]]:
    """Make a figure with axes: first those of the panels, row by row, then the hidden ones.

    Args:
        panels: Number of panels.
        size: Width and height of one panel, in inches.
        across: Maximum number of panels in a row.
        inner: Width and height of each panel's axes in inches, if panels differ; `size` is then
            that of the labels alone.
        about: Subject of each panel. A new subject starts a new row. Cannot be combined with
            `inner`.
        **options: Options of `matplotlib.figure.Figure.subplots`, such as `sharey`.
    """
    from matplotlib.figure import Figure

    if _ON_PHONES.get():
        across, size = 1, (min(size[0], PHONE), size[1])
    rows, columns = grid_of(panels, across)
    places = places_of(about, columns) if rows > 1 and about else list(range(panels))
    rows = places[-1] // columns + 1
    heights = [max(inner[start : start + columns]) for start in range(0, len(inner), columns)]
    figure = Figure(
        figsize=(size[0] * columns, size[1] * rows + sum(heights)), layout="constrained"
    )
    axes = list(
        figure.subplots(rows, columns, squeeze=False, height_ratios=heights or None, **options).flat
    )
    free = [axis for place, axis in enumerate(axes) if place not in places]
    for axis in free:
        axis.set_visible(False)
    return figure, [*(axes[place] for place in places), *free]


def places_of(about: Sequence[Any], columns: int) -> list[int]:
    """Grid position of each panel, counted row by row. Each new value of `about` starts a new row.

    >>> places_of(["Transformer", "Transformer", "NDR", "NDR", "NDR", "NDR"], 3)
    [0, 1, 3, 4, 5, 6]
    """
    places: list[int] = []
    for number, what in enumerate(about):
        place = places[-1] + 1 if places else 0
        places.append(
            -(-place // columns) * columns if number and what != about[number - 1] else place
        )
    return places


def first_of_rows(axes: Sequence[Any]) -> list[Any]:
    """Leftmost axes of each row, which have the label of the vertical axis."""
    return [axis for axis in axes if axis.get_visible() and axis.get_subplotspec().is_first_col()]


def grid_of(panels: int, across: int = 3) -> tuple[int, int]:
    """Rows and columns for a number of panels. Four panels are arranged two by two, so that none is
    alone in a row.

    >>> grid_of(3), grid_of(4), grid_of(5)
    ((1, 3), (2, 2), (2, 3))
    """
    columns = min(panels, across, 2 if panels == 4 else across)
    return -(-panels // columns), columns


CUT: Any = {"bbox_inches": "tight", "pad_inches": 0.05}
"""Options of `savefig` that crop a figure to its drawing, so that there is no empty strip below the
legend and no label is cut off.
"""


def svg(figure: Any, **options: Any) -> str:
    """Return the figure as SVG text.

    Args:
        figure: The figure.
        **options: Options of matplotlib's `savefig`. Default: crop the figure to its drawing.
    """
    out = io.StringIO()
    with style(), _any_letters():
        figure.savefig(out, format="svg", metadata={"Date": None}, **(options or CUT))
    text = with_tips(shorten(out.getvalue().translate(NOT_XML)))
    return text[text.index("<svg") :]


def page_svg(figure: Any, alt: str, **options: Any) -> str:
    """Figure as part of a page, in the page's colours.

    Args:
        figure: The figure.
        alt: Description of what it shows.
        **options: Options of `savefig`, as in `svg`.
    """
    return for_page(svg(figure, **(options or CUT), transparent=True), alt)


def pdf(figure: Any) -> bytes:
    """Return the figure as the bytes of a PDF file."""
    out = io.BytesIO()
    with style(), _any_letters():
        figure.savefig(out, format="pdf", metadata={"CreationDate": None}, **_cut(figure))
    return out.getvalue()


def png(figure: Any, dpi: int = 300) -> bytes:
    """Return the figure as the bytes of a PNG file."""
    out = io.BytesIO()
    with style(), _any_letters():
        figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None}, **_cut(figure))
    return out.getvalue()


FORMATS: Mapping[str, Callable[[Any], bytes]] = {
    "pdf": lambda figure: pdf(figure),
    "svg": lambda figure: svg(figure, **_cut(figure)).encode(),
    "png": lambda figure: png(figure),
}
"""Writers of figure files by extension."""

WIDTHS = {"column": 3.25, "page": 6.75}
"""Widths of figures in inches: one column of a two-column paper, or its whole page."""


def width_in_inches(width: str | float) -> float:
    """Width of a figure in inches, from `column`, `page` or a number.

    >>> width_in_inches("column"), width_in_inches("5.5")
    (3.25, 5.5)
    """
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    try:
        inches = float(width)
    except ValueError:
        inches = math.nan
    if not 1 <= inches <= 40:
        raise ParameterError("width", f"must be column, page or 1 to 40 inches, not '{width}'")
    return inches


FIXED = "taskloom-fixed-width"
"""Label of a figure with a requested width, so that its files are not cropped."""


def _cut(figure: Any) -> dict[str, Any]:
    return {"bbox_inches": None} if figure.get_label() == FIXED else dict(CUT)


def scale(figure: Any, inches: float) -> None:
    """Scale a finished figure to a width, including its texts, lines and markers."""
    factor = inches / figure.get_figwidth()
    figure.set_size_inches(inches, figure.get_figheight() * factor)
    figure.set_label(FIXED)
    for axis in figure.axes:
        for line_of_numbers in (axis.xaxis, axis.yaxis):
            line_of_numbers.labelpad *= factor
            for tick in line_of_numbers.get_major_ticks():
                tick.set_pad(tick.get_pad() * factor)
    for artist in figure.findobj():
        if hasattr(artist, "set_fontsize"):
            artist.set_fontsize(artist.get_fontsize() * factor)
        if hasattr(artist, "set_linewidth") and hasattr(artist, "get_linewidth"):
            artist.set_linewidth(artist.get_linewidth() * factor)
        if hasattr(artist, "set_markersize"):
            artist.set_markersize(artist.get_markersize() * factor)


def shown_in_notebooks(figure: Any) -> Any:
    """Add the method by which notebooks show a figure, so that it works without pyplot."""
    figure._repr_html_ = partial(image, figure)
    return figure


def image(figure: Any, alt: str = "figure") -> str:
    """Return the figure as an HTML image.

    It is an image rather than inline SVG, so that text in labels cannot become markup and names
    cannot clash with those of another figure.
    """
    data = b64encode(svg(figure, **_cut(figure)).encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}"'
        ' style="background:#fff;max-width:100%">'
    )


def wrapped(title: Any, width: int = 34) -> str:
    """Break a title into lines that fit a panel."""
    return textwrap.fill("" if title is None else str(title), width)


def without_data() -> Any:
    """Figure with a message that there is nothing to draw, because a study's selection may match no
    run.
    """
    figure, (axis,) = canvas(1, (3.4, 0.8))
    axis.axis("off")
    axis.text(0.5, 0.5, "No runs to draw.", ha="center", va="center")
    return figure


def by_panel(data: ResultTable, panel: str) -> dict[Any, list[dict[str, Any]]]:
    """Rows grouped by the value of the column `panel`, in order of appearance. If `panel` is empty,
    all rows are under None.
    """
    if not panel:
        return {None: list(data)}
    return {title: [row for row in data if row[panel] == title] for title in values_of(data, panel)}


def values_of(data: ResultTable, column: str) -> list[Any]:
    """Distinct values of a column, in order of appearance."""
    return list(dict.fromkeys(row[column] for row in data))


def intervals(
    data: ResultTable,
    *,
    place: str,
    series: str,
    panel: str = "",
    mean: str = "mean",
    xlabel: str = "accuracy",
    limits: tuple[float, float] = (0.0, 1.0),
    published: str = "published",
    shared: bool = True,
    ylabel: str = "",
) -> Any:
    """Draw means with their intervals on labelled lines, and published numbers as open diamonds.

    Args:
        data: Rows with `low` and `high`, and published values if there are any.
        place: Column with the labels of the lines.
        series: Column that markers distinguish.
        panel: Column of the panels. Default: one panel.
        mean: Column of the means.
        xlabel: Label of the measured quantity.
        limits: Limits of the horizontal axis.
        published: Column of the published numbers.
        shared: True if all panels have the same lines. Otherwise each panel has its own lines and a
            single series.
        ylabel: Label of the vertical axis. Default: none, since most lines are self-explanatory.
    """
    with style():
        if not data:
            return without_data()
        panels = by_panel(data, panel)
        everywhere, names = values_of(data, place), values_of(data, series)
        if shared:
            lists = [everywhere] * len(panels)
            labels = {value: _on_lines(str(value)) for value in everywhere}
        else:
            lists = [_different(rows, place) for rows in panels.values()]
            labels = {value: str(value) for value in everywhere}
        # Series keep their order in the whole figure.
        present = [sorted(_different(rows, series), key=names.index) for rows in panels.values()]
        width, across = _panel_width(labels.values(), len(panels), shared)
        markers = max(map(len, present)) if shared else 1
        looks = _looks(names)
        heights = [0.2 * len(places) * max(1.6, markers) for places in lists]
        figure, axes = canvas(len(panels), (width, 0.75), across, inner=heights, sharey=shared)
        for axis, (title, rows), places, own in zip(
            axes, panels.items(), lists, present, strict=False
        ):
            for row in rows:
                aside = _shift(own.index(row[series]), len(own)) if shared else 0
                look = looks[names.index(row[series])]
                _mark(axis, row, places.index(row[place]) + aside, look, mean, published)
            axis.set(xlim=_wider(limits), xlabel=xlabel)
            axis.set_title(wrapped(title))
            axis.set_yticks(range(len(places)), [labels[p] for p in places])
            axis.set_ylim(len(places) - 0.5, -0.5)
            axis.grid(axis="x", color=plot_style.GRID, linewidth=0.6)
            axis.set_axisbelow(True)
        columns = grid_of(len(panels), across)[1]
        for axis in axes[: len(panels) : columns]:
            axis.set_ylabel(ylabel)
        has_published = any(row.get(published) is not None for row in data)
        # A single series needs no legend, unless diamonds have to be distinguished from its
        # markers.
        needs_names = shared and (len(names) > 1 or has_published)
        _legend(figure, names if needs_names else [], has_published)
        return figure


def _different(rows: Sequence[Mapping[str, Any]], column: str) -> list[Any]:
    """Distinct values of a column, in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))


def _panel_width(labels: Iterable[str], panels: int, shared: bool) -> tuple[float, int]:
    """Width of a panel with its labels in inches, and the maximum number of panels in a row.

    Args:
        labels: Labels of the lines.
        panels: Number of panels.
        shared: True if all panels have the same labels, which are then drawn only at the first
            panel of each row.
    """
    longest = max(len(line) for label in labels for line in label.split("\n"))
    room = 0.065 * longest  # width of the labels in inches
    if _ON_PHONES.get():
        return PHONE, 1
    across = 3 if shared else max(1, min(3, int(WIDEST / (2.6 + room))))
    columns = grid_of(panels, across)[1]
    if columns == 1:
        inner = ALONE
    elif shared:
        inner = 2.9
    else:
        inner = 2.6
    return inner + (room / columns if shared else room), across


WIDEST = 11.0
"""Maximum width of a figure in inches. On a page seven inches wide, nine-point type is then still
about six points.
"""

ALONE = 4.0
"""Width in inches of the axes of a single panel. Panels in a row are narrower, so that three of
them fit a page.
"""

LONGEST_LABEL = 34
"""Maximum characters of a label on one line. Longer labels get two lines, so that they don't take
space from the panels.
"""


def _on_lines(label: str) -> str:
    """Break a label into as few lines as it needs, of about equal length. Words are not broken,
    since many are names.

    >>> _on_lines("one indefinite sentence (answer: maybe)"), _on_lines("as it is")
    ('one indefinite sentence\\n(answer: maybe)', 'as it is')
    """
    if _ON_PHONES.get():
        return textwrap.fill(label, PHONE_LABEL, break_long_words=False, break_on_hyphens=False)
    lines = -(-len(label) // LONGEST_LABEL)
    wraps = (
        textwrap.wrap(label, width, break_long_words=False, break_on_hyphens=False)
        for width in range(-(-len(label) // max(1, lines)), LONGEST_LABEL + 1)
    )
    return (
        label
        if lines < 2
        else "\n".join(next((own for own in wraps if len(own) <= lines), [label]))
    )


def _shift(number: int, count: int) -> float:
    return (number - (count - 1) / 2) * 0.62 / max(2, count)


def _wider(limits: tuple[float, float]) -> tuple[float, float]:
    edge = 0.03 * (limits[1] - limits[0])
    return limits[0] - edge, limits[1] + edge


def is_known(value: Any) -> bool:
    """True if there is a number to draw."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _mark(
    axis: Any,
    row: Mapping[str, Any],
    at: float,
    look: Mapping[str, str],
    mean: str,
    published: str,
) -> None:
    shade, marker = look["color"], look["marker"]
    if is_known(row.get("low")) and is_known(row.get("high")):
        axis.plot(
            [row["low"], row["high"]], [at, at], color=shade, linewidth=1.6, solid_capstyle="butt"
        )
    if is_known(row[mean]):
        axis.plot([row[mean]], [at], marker, color=shade, markersize=5)
    if is_known(row.get(published)):
        axis.plot(
            [row[published]],
            [at],
            "D",
            markersize=7,
            markerfacecolor="none",
            markeredgecolor=plot_style.SOFT,
        )


def _legend(
    figure: Any, names: Sequence[Any], published: bool = False, dashes: Sequence[Any] = ("-",)
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], **look, linestyle=dashes[number % len(dashes)], label=str(name))
        for number, (name, look) in enumerate(zip(names, _looks(names), strict=True))
    ]
    if published:
        empty = {
            "marker": "D",
            "markerfacecolor": "none",
            "markeredgecolor": plot_style.SOFT,
            "linestyle": "none",
        }
        handles.append(Line2D([], [], label="published", **empty))  # type: ignore[arg-type]
    if handles:
        # A letter takes about 0.07 inches, a marker with its gaps 0.6. Entries beyond the width
        # would be cut off at both sides.
        longest = max(len(str(handle.get_label())) for handle in handles)
        fitting = min(4, len(handles), max(1, int(figure.get_figwidth() / (0.6 + 0.07 * longest))))
        lines = -(-len(handles) // fitting)
        figure.set_figheight(figure.get_figheight() + LEGEND * (lines - 1))
        columns = -(
            -len(handles) // lines
        )  # every line has the same number, so four are two by two if only three fit
        figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=columns)


LEGEND = 0.2
"""Height in inches added for each further line of a legend. Otherwise the legend would take space
from the panels.
"""


def natural_order(value: Any) -> tuple[int, float, str]:
    """Sort key for natural order: numbers (including those written as text), then other texts, then
    missing values.

    >>> sorted(["10", "b", None, "nan", "2", "a"], key=natural_order)
    ['2', '10', None, 'a', 'b', 'nan']
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    return (1, 0.0, str(value)) if math.isnan(number) else (0, number, "")


def lines(
    data: ResultTable,
    *,
    x: str,
    series: str,
    y: str = "mean",
    panel: str = "",
    xlabel: str = "",
    ylabel: str = "accuracy",
    limits: tuple[float, float] | None = (0.0, 1.0),
    joined: bool = True,
    threshold: float | None = None,
    row: Callable[[Any], Any] | None = None,
    across: tuple[float, float] | None = None,
) -> Any:
    """Draw one line per series over a numeric column, with error bars if rows have `low` and
    `high`.

    Lines of several series are offset slightly, so that their error bars do not overlap.
    Long lines have a band instead.

    Args:
        data: One row per point.
        x: Column of the horizontal axis.
        series: Column of the lines.
        y: Column of the vertical axis.
        panel: Column of the panels. Default: one panel.
        xlabel: Label of the horizontal axis. Default: the column's name.
        ylabel: Label of the vertical axis.
        limits: Limits of the vertical axis; None for those of the data.
        joined: True to join points by lines.
        threshold: Value at which to draw a dashed line; None for no line.
        row: Function from the title of a panel to its subject. A new subject starts a new row.
        across: Range that the horizontal axis must cover, so that figures can be compared; None for
            the range of the data.
    """
    with style():
        if not data:
            return without_data()
        panels, names = by_panel(data, panel), values_of(data, series)
        about = [row(title) for title in panels] if row else ()
        width = ALONE + 0.6 if len(panels) == 1 else 3.4
        figure, axes = canvas(len(panels), (width, 2.6), about=about, sharey=True)
        dashes: Sequence[Any] = DASHES if joined else ("none",)
        for axis, (title, share) in zip(axes, panels.items(), strict=False):
            gap = _gap(point[x] for point in share) if joined else 0.0
            for number, (name, look) in enumerate(zip(names, _looks(names), strict=True)):
                own = [point for point in share if point[series] == name and is_known(point[y])]
                aside = SPREAD * gap * (number - (len(names) - 1) / 2)
                _line(axis, own, x, y, look, dashes[number % len(dashes)], aside)
            if threshold is not None:
                axis.axhline(threshold, color=plot_style.SOFT, linewidth=1.0, linestyle="--")
            axis.set(xlabel=xlabel or x, title=wrapped(title))
            if limits:
                axis.set_ylim(*_wider(limits))
            _scale_across(axis, [point[x] for point in share], across)
            axis.grid(color=plot_style.GRID, linewidth=0.6)
            axis.set_axisbelow(True)
        for axis in first_of_rows(axes):
            axis.set_ylabel(ylabel)
        _legend(figure, names, dashes=dashes)
        return figure


def _scale_across(axis: Any, places: Sequence[float], across: tuple[float, float] | None) -> None:
    """Set the ends of the horizontal axis and its number of ticks.

    Args:
        axis: The axes.
        places: Positions of the points.
        across: Range that the axis must cover; None for the range of the data.
    """
    if across:
        everything = [*across, *places]
        axis.set_xlim(*_wider((min(everything), max(everything))))
    if max(abs(place) for place in places) >= LONG_NUMBER:
        axis.locator_params(axis="x", nbins=4)


LONG_NUMBER = 100_000
"""Tick labels from this number on are so wide that matplotlib's default number of ticks would
overlap.
"""

MOST_BARS = 20
"""Maximum points of a line with error bars. More bars would hide the lines."""

SPREAD = 0.08
"""Offset between lines, as a share of the gap between two positions, so that their intervals do not
overlap.
"""


def _gap(places: Iterable[float]) -> float:
    """Smallest distance between two different positions, or 0 if there is only one."""
    known = sorted(set(places))
    return min((b - a for a, b in pairwise(known)), default=0.0)


def _looks(names: Sequence[Any]) -> list[dict[str, Any]]:
    """Colour and marker of each series."""
    looks = []
    for number, colour in enumerate(plot_style.series_colours(names)):
        looks.append({"color": colour, "marker": MARKERS[number % len(MARKERS)]})
    return looks


def _line(
    axis: Any,
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    look: dict[str, Any],
    dashes: Any,
    aside: float = 0.0,
) -> None:
    long = dashes != "none" and len(rows) > MOST_BARS
    across = [row[x] + (0.0 if long else aside) for row in rows]
    every = -(-len(rows) // MOST_BARS) if long else 1
    axis.plot(
        across,
        [row[y] for row in rows],
        **look,
        linestyle=dashes,
        linewidth=1.4,
        markersize=4.5,
        markevery=every,
    )
    known = [is_known(row.get("low")) and is_known(row.get("high")) for row in rows]
    if long:
        low, high = (
            [row[end] if k else math.nan for row, k in zip(rows, known, strict=True)]
            for end in ("low", "high")
        )
        axis.fill_between(across, low, high, color=look["color"], alpha=0.18, linewidth=0)
        return
    for place, row, has_interval in zip(across, rows, known, strict=True):
        if has_interval:
            # Projecting line caps would extend beyond 1.
            axis.plot(
                [place, place],
                [row["low"], row["high"]],
                color=look["color"],
                linewidth=1.2,
                solid_capstyle="butt",
            )
