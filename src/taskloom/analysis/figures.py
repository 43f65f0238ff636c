"""Figures of studies: from a table of data to a figure of matplotlib that reads as well in grey.

Values are told apart by marker, line and lightness before colour; `heat_maps` has those that are told apart by two columns. Nothing
here computes: what is drawn is in the data, which are saved beside the figure.

SVG files are written shorter than matplotlib does, in about half the bytes. Matplotlib gives every corner of a path as
`L 123.456789 234.567891`. A hundredth of a point is finer than any printer, and most steps are straight, so `h4.72` is the same.
Places are rounded before steps are taken: errors do not add up. Every label names ten fonts; here the drawing does, once.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from taskloom.core.errors import MissingExtra
from taskloom.experiments.result_table import ResultTable

MARKERS = ("o", "s", "^", "P", "v", "X", "*", "D")
"""Diamonds come last: open ones are published numbers."""
SHADES = ("#1b1b1b", "#1b6ca8", "#e0785c", "#6f6f6f", "#8fbfe0", "#a8361d", "#a0a0a0", "#0f4c7a")
"""Neighbours differ in lightness, so that they can be told apart in grey as well."""

DASHES = ("-", "--", "-.", ":", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 3)))
"""Of joined points, so that lines are told apart in grey as well."""

RC: Any = {
    "svg.hashsalt": "taskloom",  # with no date, the same data give the same bytes
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # Names are text, not TeX: a $ in one of them would be read as a formula.
    "text.parse_math": False,
    "text.usetex": False,
}

NOT_XML = dict.fromkeys(n for n in range(0x20) if chr(n) not in "\t\n\r")
"""Control characters, which matplotlib copies from names and no reader of SVG accepts."""


@contextmanager
def style() -> Iterator[None]:
    """Set the look of all figures for a while."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("a figure", "matplotlib", "report") from error
    with mpl.rc_context(RC):
        yield


@contextmanager
def _any_letters() -> Iterator[None]:
    """Ignore letters that the font lacks: they are text in an SVG file, whose reader has fonts of its own."""
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
    """Return a figure and its axes: first those of the panels, row by row, then those that are hidden.

    Args:
        panels: How many there are.
        size: Width and height of one panel, in inches.
        across: The most panels in a row.
        inner: For each panel the inches of what is drawn in it, where they differ: `size` then has those of its labels alone.
        about: For each panel what its row is about: where that changes, a new row begins. Not together with `inner`.
        **options: Of `matplotlib.figure.Figure.subplots`: `sharey`.
    """
    from matplotlib.figure import Figure

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
    """Return the places of panels, counted row by row, where a new row begins for everything that rows are about.

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
    """Return the axes that stand first in a row, where what is up is said."""
    return [axis for axis in axes if axis.get_visible() and axis.get_subplotspec().is_first_col()]


def grid_of(panels: int, across: int = 3) -> tuple[int, int]:
    """Return rows and columns for so many panels; four are two by two, so that none stands alone.

    >>> grid_of(3), grid_of(4), grid_of(5)
    ((1, 3), (2, 2), (2, 3))
    """
    columns = min(panels, across, 2 if panels == 4 else across)
    return -(-panels // columns), columns


CUT: Any = {"bbox_inches": "tight", "pad_inches": 0.05}
"""A figure ends where its drawing does: no empty strip below the legend, and no label that is cut off."""


def svg(figure: Any) -> str:
    """Return a figure as SVG text that can stand inside a page."""
    out = io.StringIO()
    with style(), _any_letters():
        figure.savefig(out, format="svg", metadata={"Date": None}, **CUT)
    text = shorten(out.getvalue().translate(NOT_XML))
    return text[text.index("<svg") :]


def pdf(figure: Any) -> bytes:
    """Return a figure as a PDF file."""
    out = io.BytesIO()
    with style(), _any_letters():
        figure.savefig(out, format="pdf", metadata={"CreationDate": None}, **CUT)
    return out.getvalue()


def wrapped(title: Any, width: int = 34) -> str:
    """Return a title on lines that a panel has room for."""
    return textwrap.fill("" if title is None else str(title), width)


def without_data() -> Any:
    """Return a figure that says that there is nothing to draw: no run may be left after a study's selection."""
    figure, (axis,) = canvas(1, (3.4, 0.8))
    axis.axis("off")
    axis.text(0.5, 0.5, "No runs are left to draw.", ha="center", va="center")
    return figure


def by_panel(data: ResultTable, panel: str) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows of each panel, by the panel's value in their first order; all under None where there is no such column."""
    if not panel:
        return {None: list(data)}
    return {title: [row for row in data if row[panel] == title] for title in values_of(data, panel)}


def values_of(data: ResultTable, column: str) -> list[Any]:
    """Return the different values of a column, in their first order."""
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
    """Draw means with their intervals along a line, and published numbers as open diamonds.

    Args:
        data: Rows with `low` and `high`, and published values where there are any.
        place: The column of the lines.
        series: The column that markers tell apart.
        panel: The column of the panels; none by default.
        mean: The column of the means.
        xlabel: What is measured.
        limits: Of the axis.
        published: The column of the published numbers.
        shared: Whether all panels have the same lines; else each has its own, and one series.
        ylabel: What the lines are; nothing by default, since most say it themselves.
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
        # Series keep the order that they have in the whole figure.
        present = [sorted(_different(rows, series), key=names.index) for rows in panels.values()]
        width, across = _panel_width(labels.values(), len(panels), shared)
        markers = max(map(len, present)) if shared else 1
        heights = [0.2 * len(places) * max(1.6, markers) for places in lists]
        figure, axes = canvas(len(panels), (width, 0.75), across, inner=heights, sharey=shared)
        for axis, (title, rows), places, own in zip(
            axes, panels.items(), lists, present, strict=False
        ):
            for row in rows:
                aside = _shift(own.index(row[series]), len(own)) if shared else 0
                _mark(
                    axis,
                    row,
                    places.index(row[place]) + aside,
                    names.index(row[series]),
                    mean,
                    published,
                )
            axis.set(xlim=_wider(limits), xlabel=xlabel)
            axis.set_title(wrapped(title))
            axis.set_yticks(range(len(places)), [labels[p] for p in places])
            axis.set_ylim(len(places) - 0.5, -0.5)
            axis.grid(axis="x", color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
        columns = grid_of(len(panels), across)[1]
        for axis in axes[: len(panels) : columns]:
            axis.set_ylabel(ylabel)
        has_published = any(row.get(published) is not None for row in data)
        # One series needs no legend, unless the diamonds have to be told from its markers.
        needs_names = shared and (len(names) > 1 or has_published)
        _legend(figure, names if needs_names else [], has_published)
        return figure


def _different(rows: Sequence[Mapping[str, Any]], column: str) -> list[Any]:
    """The different values of a column, in their first order."""
    return list(dict.fromkeys(row[column] for row in rows))


def _panel_width(labels: Iterable[str], panels: int, shared: bool) -> tuple[float, int]:
    """Inches of a panel with its labels, and the number of panels that stand in a row at most.

    Args:
        labels: The labels beside the lines.
        panels: The number of panels.
        shared: Whether all panels have the same labels. They then stand at the first panel of a row alone.
    """
    longest = max(len(line) for label in labels for line in label.split("\n"))
    room = 0.065 * longest  # inches of the labels
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
"""Inches of a figure: on a page of seven, type of nine points is then still one of six."""

ALONE = 4.0
"""Inches of a panel that stands alone: beside others it has less, so that three of them fit a page."""

LONGEST_LABEL = 34
"""Letters of a label beside a line; longer ones have two lines, since they would take their room from the panels."""


def _on_lines(label: str) -> str:
    """Return a label on as few lines as it needs, which are about as long; no word is broken, since many are names.

    >>> _on_lines("one indefinite sentence (answer: maybe)"), _on_lines("as it is")
    ('one indefinite sentence\\n(answer: maybe)', 'as it is')
    """
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
    """Return whether there is a number to draw."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _mark(
    axis: Any, row: Mapping[str, Any], at: float, number: int, mean: str, published: str
) -> None:
    shade, marker = SHADES[number % len(SHADES)], MARKERS[number % len(MARKERS)]
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
            markeredgecolor="#444444",
        )


def _legend(
    figure: Any, names: Sequence[Any], published: bool = False, dashes: Sequence[Any] = ("-",)
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], **_look(number), linestyle=dashes[number % len(dashes)], label=str(name))
        for number, name in enumerate(names)
    ]
    if published:
        empty = {
            "marker": "D",
            "markerfacecolor": "none",
            "markeredgecolor": "#444444",
            "linestyle": "none",
        }
        handles.append(Line2D([], [], label="published", **empty))  # type: ignore[arg-type]
    if handles:
        # A letter takes about 0.07 inches, a marker with its gaps 0.6; more in a row than fit would be cut off at both sides.
        longest = max(len(str(handle.get_label())) for handle in handles)
        fitting = min(4, len(handles), max(1, int(figure.get_figwidth() / (0.6 + 0.07 * longest))))
        lines = -(-len(handles) // fitting)
        figure.set_figheight(figure.get_figheight() + LEGEND * (lines - 1))
        columns = -(
            -len(handles) // lines
        )  # as many in every line: four are two by two where three would fit
        figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=columns)


LEGEND = 0.2
"""Inches of a further line of a legend: without them it would take its room from the panels."""


def natural_order(value: Any) -> tuple[int, float, str]:
    """Return a key that sorts numbers as numbers, also where they are text, and before other texts and what is no value.

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
    """Draw one line a series over a numeric column, with bars for the intervals where rows have `low` and `high`.

    Lines of several series are moved aside a little, so that their bars do not hide each other. Long lines have a band instead.

    Args:
        data: A row for each point.
        x: The column across.
        series: The column of the lines.
        y: The column up.
        panel: The column of the panels; none by default.
        xlabel: What is across; the column's name by default.
        ylabel: What is up.
        limits: Of the axis up; None: as the data are.
        joined: Whether points are joined by lines.
        threshold: Where a dashed line goes across; None: nowhere.
        row: From the title of a panel to what its row is about, so that panels of another begin a new row.
        across: What the axis across has at least, so that figures can be compared; None: as the data are.
    """
    with style():
        if not data:
            return without_data()
        panels, names = by_panel(data, panel), values_of(data, series)
        about = [row(title) for title in panels] if row else ()
        figure, axes = canvas(
            len(panels), (ALONE + 0.6 if len(panels) == 1 else 3.4, 2.6), about=about, sharey=True
        )
        dashes: Sequence[Any] = DASHES if joined else ("none",)
        for axis, (title, share) in zip(axes, panels.items(), strict=False):
            gap = _gap(row[x] for row in share) if joined else 0.0
            for number, name in enumerate(names):
                own = [row for row in share if row[series] == name and is_known(row[y])]
                aside = SPREAD * gap * (number - (len(names) - 1) / 2)
                _line(axis, own, x, y, number, dashes[number % len(dashes)], aside)
            if threshold is not None:
                axis.axhline(threshold, color="#444444", linewidth=1.0, linestyle="--")
            axis.set(
                xlabel=xlabel or x,
                title=wrapped(title),
                **({"ylim": _wider(limits)} if limits else {}),
            )
            if across:
                places = [*across, *(row[x] for row in share)]
                axis.set_xlim(*_wider((min(places), max(places))))
            if max(abs(row[x]) for row in share) >= LONG_NUMBER:
                axis.locator_params(axis="x", nbins=4)
            axis.grid(color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
        for axis in first_of_rows(axes):
            axis.set_ylabel(ylabel)
        _legend(figure, names, dashes=dashes)
        return figure


LONG_NUMBER = 100_000
"""From here on the numbers below an axis are so long that as many as matplotlib chooses would run into each other."""

MOST_BARS = 20
"""Points of a line whose intervals are bars of their own; more would be a hatching that hides the lines."""

SPREAD = 0.08
"""How far lines are moved aside, as a share of the gap between two places: else their intervals would hide each other."""


def _gap(places: Iterable[float]) -> float:
    """Return the smallest distance between two different places; 0 where there is but one."""
    known = sorted(set(places))
    return min((b - a for a, b in pairwise(known)), default=0.0)


def _look(number: int) -> dict[str, Any]:
    """Return the shade and the marker of a series."""
    return {"color": SHADES[number % len(SHADES)], "marker": MARKERS[number % len(MARKERS)]}


def _line(
    axis: Any,
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    number: int,
    dashes: Any,
    aside: float = 0.0,
) -> None:
    look = _look(number)
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
            # Projecting caps would reach beyond 1.
            axis.plot(
                [place, place],
                [row["low"], row["high"]],
                color=look["color"],
                linewidth=1.2,
                solid_capstyle="butt",
            )


_PATH = re.compile(r' d="([MLz\d.\s-]+)"')
_COMMAND = re.compile(r"([MLz])\s*(-?[\d.]+)?\s*(-?[\d.]+)?")
_FONTS = re.compile(r"font-family: ([^;\"]+); ")
_NOT_TURNED = re.compile(r' transform="rotate\(-0 [^)"]*\)"')
_EMPTY = re.compile(r'\n *<g id="\w+"/>')
_AROUND_TEXT = re.compile(r'<g id="(?:text|[xy]tick)_\d+">\n *(<text [^\n]*</text>)\n *</g>')
_PLACE = re.compile(r' ([xy])="(-?\d+\.\d{3,})"')
_INDENT = re.compile(r"\n +<")


def shorten(svg: str) -> str:
    """Return the same drawing in fewer bytes.

    Args:
        svg: The text of an `<svg>` element that matplotlib wrote.
    """
    short = _PATH.sub(lambda match: f' d="{spelled_as_steps(match[1])}"', svg)
    fonts = Counter(_FONTS.findall(short)).most_common(1)
    if fonts:
        family = fonts[0][0]
        short = short.replace(f"font-family: {family}; ", "").replace(
            "<svg ", f'<svg font-family="{family}" ', 1
        )
    short = _PLACE.sub(
        lambda match: f' {match[1]}="{_number(round(float(match[2]) * 100))}"', short
    )
    short = _EMPTY.sub("", _NOT_TURNED.sub("", short))
    for _ in range(2):  # a label is in a group of its own, which is in that of its tick
        short = _AROUND_TEXT.sub(r"\1", short)
    return _INDENT.sub("\n<", short)


def spelled_as_steps(path: str) -> str:
    """Return a path of `M`, `L` and `z` as steps, in hundredths of its unit.

    >>> spelled_as_steps("M 10.001 5 L 14.72 5 L 14.72 9.5 z M 0 0 L 1 -2 ")
    'M10 5h4.72v4.5zM0 0l1-2'
    """
    out, x, y = [], 0, 0
    for command, across, up in _COMMAND.findall(path):
        if command == "z":
            out.append("z")
            continue
        to_x, to_y = (round(float(place) * 100) for place in (across, up))
        out.append(f"M{_pair(to_x, to_y)}" if command == "M" else _step(to_x - x, to_y - y))
        x, y = to_x, to_y
    return "".join(out)


def _step(across: int, up: int) -> str:
    if not up:
        return f"h{_number(across)}"
    return f"l{_pair(across, up)}" if across else f"v{_number(up)}"


def _pair(across: int, up: int) -> str:
    return f"{_number(across)}{'' if up < 0 else ' '}{_number(up)}"


def _number(hundredths: int) -> str:
    """Return a number of hundredths in the fewest letters.

    >>> _number(472), _number(-5), _number(300), _number(0)
    ('4.72', '-.05', '3', '0')
    """
    sign, (whole, rest) = "-" if hundredths < 0 else "", divmod(abs(hundredths), 100)
    decimals = f".{rest:02}".rstrip("0") if rest else ""
    return f"{sign}{whole or ('' if decimals else 0)}{decimals}"
