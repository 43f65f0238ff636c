"""Panels of reports and of the viewer: small figures that reflow on a phone, follow dark mode and
have a text description.

Each panel draws itself into matplotlib axes, so it can be part of a page, or one of several in an
SVG or PDF file. Positions are in points, and a panel is 360 points wide, because letting matplotlib
arrange them would need a second drawing.

A panel takes about 30 ms and the import of matplotlib 0.33 s. A report on 100 runs takes 2.6 s of
CPU time instead of 1.3 s with hand-written SVG, one on 1,000 runs 10.0 s instead of 7.3
s (38 % more).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.plot_style import COLOURS, GRID, SOFT, TIP

WIDTH = 360
"""Width of a panel in points: pixels on a phone, which it fills."""

LETTER = 6.9
"""Mean width of a letter in points, at a size of 12."""

WIDE_LETTER = 8.6
"""Width of a capital letter in points, at a size of 12."""

LABEL = 20
"""Maximum letters in a line of a label beside an axis."""

MOST_LINES = 3
"""Maximum lines of a label beside an axis."""

LINE = 15
"""Height of a line of text in points."""

MOST_SEEDS = 10
"""Maximum seeds that are drawn as dots. More dots would merge."""

ROW = 22
"""Height of one row of intervals in points."""

SAME_GUESS = 0.01
"""Maximum difference between chance scores that are drawn as one line."""

GUESSING = "chance (most frequent answer)"
"""Label of the chance line."""

QUARTERS = (0, 0.25, 0.5, 0.75, 1)
"""Ticks of the axis of scores."""

MARKERS = ("o", "s", "^", "D")
"""Shapes of series, for readers who cannot distinguish the colours."""

Guess = float | Mapping[str, float] | None
"""Chance score: one for all series, or one for each."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure, or one of several of a section.

    Attributes:
        title: Line above it.
        alt: Description of what it shows.
        height: Height in points, including tick labels.
        margins: Margins left, right, above and below the axes, in points.
        draw: Draws the panel into axes.
    """

    title: str
    alt: str
    height: float
    margins: tuple[float, float, float, float]
    draw: Callable[[Any], None]

    @property
    def svg(self) -> str:
        """The panel as inline SVG."""
        with figures.style(**STYLE):
            figure = _figure(WIDTH, self.height)
            _put(figure, self, 0, 0)
            return figures.page_svg(figure, self.alt, dpi=72)


@dataclass(frozen=True, slots=True)
class Curve:
    """Scores of one split over training steps. A faint curve is a single seed behind the mean."""

    split: str
    steps: tuple[float, ...]
    scores: tuple[float, ...]
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A mean with its interval at a named position of a series. The ends may be missing.

    If there are only a few seeds, their scores are drawn as small dots.
    """

    series: str
    place: str
    mean: float
    low: float | None
    high: float | None
    seeds: tuple[float, ...] = ()

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


STYLE: Any = {"font_size": 12.0, "axes_titlesize": 12.0}


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72))


def _put(figure: Any, panel: Panel, left: float, top: float) -> None:
    """Draw a panel into a figure, this many points from its upper left corner."""
    width, height = (72 * inches for inches in figure.get_size_inches())
    before, after, above, below = panel.margins
    inner = (WIDTH - before - after, panel.height - above - below)
    corner = (left + before, height - top - panel.height + below)
    axis = figure.add_axes(
        (corner[0] / width, corner[1] / height, inner[0] / width, inner[1] / height)
    )
    axis.patch.set_visible(False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0, pad=6)
    axis.set_axisbelow(True)
    panel.draw(axis)


def distinct(labels: Sequence[str], width: int = LABEL) -> dict[str, str]:
    """Shorten labels to a width without making different labels equal.

    >>> distinct(["learner=one, steps=1000", "learner=one, steps=2000"], 12)
    {'learner=one, steps=1000': 'learn…=1000', 'learner=one, steps=2000': 'learn…=2000'}
    """
    half = (width - 1) // 2
    ways: tuple[Callable[[str], str], ...] = (
        lambda text: text[: width - 1] + "…",
        lambda text: f"{text[:half]}…{text[-half:]}",
        lambda text: "…" + text[-(width - 1) :],
    )
    for way in ways:
        short = {text: text if len(text) <= width else way(text) for text in labels}
        if len(set(short.values())) == len(set(labels)):
            return short
    numbers = {text: i for i, text in enumerate(dict.fromkeys(labels), 1)}
    return {
        text: text if len(text) <= width else f"{text[: width - 5]}… {i}"
        for text, i in numbers.items()
    }


def interval_panel(
    title: str, marks: Sequence[Mark], colours: Mapping[str, int], guess: Guess = None
) -> Panel:
    """Means with their intervals: a row for each position (a learner), and a colour and marker for
    each series (a split).

    Args:
        title: The line above the panel.
        marks: Means to draw.
        colours: Index of each series' colour.
        guess: Chance score.
    """
    places, series = _unique(m.place for m in marks), _unique(m.series for m in marks)
    step = max(ROW, 14 * len(series) + 6, LINE * _line_count(places) + 6)

    def draw(axis: Any) -> None:
        _scores_across(axis, places, step)
        _guess_lines(axis.axvline, guess, colours)
        for mark in marks:
            number = series.index(mark.series)
            middle = step * (places.index(mark.place) + 0.5)
            y = middle + (number - (len(series) - 1) / 2) * 14
            tip = f"{mark.place}, {mark.series}: {mark}"
            colour = _colour(colours, mark.series)
            if mark.low is not None and mark.high is not None:
                _whisker(axis, [mark.low, mark.high], [y, y], colour, tip)
            if 1 < len(mark.seeds) <= MOST_SEEDS:
                _seed_dots(axis, mark.seeds, y, colour)
            _dot(axis, mark.mean, y, colour, number, tip)

    alt = f"{title}. {_listed(marks, 'on')}{_chance(guess)}"
    return Panel(title, alt, 8 + step * len(places) + 38, (_left(places), 14, 8, 38), draw)


def bar_panel(
    title: str, marks: Sequence[Mark], name: str, colours: Mapping[str, int], guess: Guess = None
) -> Panel:
    """Horizontal bars with means by the values of a categorical trait, because a line would suggest
    an order.
    """
    places, series = _unique(m.place for m in marks), _unique(m.series for m in marks)
    step = max(12 * len(series) + 10, LINE * _line_count(places) + 6)
    above = (step - 12 * len(series)) / 2 + 6  # position of the first bar's centre

    def draw(axis: Any) -> None:
        _scores_across(axis, places, step)
        for mark in marks:
            y = step * places.index(mark.place) + above + 12 * series.index(mark.series)
            tip = f"{mark.series}, {name} {mark.place}: {mark}"
            (bar,) = axis.barh(
                y, _within(mark.mean), 10, color=_colour(colours, mark.series), alpha=0.85
            )
            bar.set_gid(TIP + tip)
            bar.set_clip_on(False)
            if mark.low is not None and mark.high is not None:
                ends = [_within(mark.low), _within(mark.high)]
                _line(axis, ends, [y, y], color="black", linewidth=1.5)
        _guess_lines(axis.axvline, guess, colours)

    alt = f"{title} by {name}: {_listed(marks)}{_chance(guess)}"
    return Panel(title, alt, 8 + step * len(places) + 38, (_left(places), 14, 8, 38), draw)


def curve_panel(
    title: str,
    curves: Sequence[Curve],
    colours: Mapping[str, int],
    guess: Guess = None,
    *,
    name: str = "score",
    limits: tuple[float, float] | None = (0.0, 1.0),
) -> Panel:
    """Learning curves: the mean of each split, single seeds as faint lines behind it, and chance as
    a dotted line.

    Args:
        title: The line above the panel.
        curves: Curves to draw.
        colours: Index of each split's colour.
        guess: Chance score.
        name: Label of the measured quantity.
        limits: Ends of the vertical axis. None: those of the data.
    """
    last = max((step for curve in curves for step in curve.steps), default=1)

    def draw(axis: Any) -> None:
        _values_up(axis, name, limits)
        _guess_lines(axis.axhline, guess, colours)
        for curve in sorted(curves, key=lambda c: not c.faint):
            scores = [_within(v) for v in curve.scores] if limits == (0.0, 1.0) else curve.scores
            alone = "o" if len(curve.steps) == 1 else ""
            axis.plot(
                curve.steps,
                scores,
                marker=alone,
                color=_colour(colours, curve.split),
                linewidth=0.8 if curve.faint else 2.0,
                alpha=0.4 if curve.faint else None,
                clip_on=False,
            )
        ticks = _ticks(int(last))
        axis.set_xlim(0, max(1, last))
        axis.set_xticks(ticks, [_short_number(tick) for tick in ticks])
        axis.set_xlabel("training steps")

    ends = [f"{c.split} ends at {c.scores[-1]:.2f}" for c in curves if not c.faint and c.scores]
    alt = f"{title}: learning curves over {int(last):,} steps; {', '.join(ends)}{_chance(guess)}"
    return Panel(title, alt, 226, (52, 22, 10, 40), draw)


def trend_panel(
    title: str, marks: Sequence[Mark], xlabel: str, colours: Mapping[str, int], guess: Guess = None
) -> Panel:
    """Means by the values of a numeric trait: one line per series, with error bars."""
    places, series = _unique(m.place for m in marks), _unique(m.series for m in marks)

    def draw(axis: Any) -> None:
        _values_up(axis, "score", (0.0, 1.0))
        _guess_lines(axis.axhline, guess, colours)
        for number, name in enumerate(series):
            own = [m for m in marks if m.series == name]
            # Series are offset slightly, so that their intervals do not overlap.
            aside = (number - (len(series) - 1) / 2) * 0.01 * len(places)
            across = [places.index(m.place) + aside for m in own]
            colour = _colour(colours, name)
            means = [_within(m.mean) for m in own]
            _line(axis, across, means, color=colour, linewidth=2)
            for x, mark in zip(across, own, strict=True):
                tip = f"{name}, {xlabel} {mark.place}: {mark}"
                if mark.low is not None and mark.high is not None:
                    _whisker(axis, [x, x], [mark.low, mark.high], colour, tip)
                _dot(axis, x, mark.mean, colour, number, tip)
        axis.set_xlim(-0.3, len(places) - 0.7)
        letters = len(places) * max(len(place) for place in places)
        every = max(1, math.ceil(letters * 7 / (WIDTH - 88)))
        axis.set_xticks(range(0, len(places), every), places[::every])
        axis.set_xlabel(xlabel)

    alt = f"{title} by {xlabel}: {_listed(marks)}{_chance(guess)}"
    return Panel(title, alt, 210, (52, 22, 10, 40), draw)


def sheet(
    panels: Sequence[Panel],
    legend: Mapping[str, int],
    guessed: bool,
    inches: float | None = None,
) -> Any:
    """Panels side by side as one figure, for a README, a slide or a paper.

    Args:
        panels: The panels.
        legend: Index of each series' colour.
        guessed: True if panels have a line for chance.
        inches: Width of the figure. One column of a paper has one panel across, its page two.
            Default: at most three across, each 5 inches wide.
    """
    most = 3 if inches is None else max(1, round(inches / figures.WIDTHS["column"]))
    across = figures.grid_of(len(panels), most)[1] if panels else 1
    labels = [*legend, *([GUESSING] if guessed else [])]
    columns = _legend_columns(labels, across * (WIDTH + 20))
    with figures.style(**STYLE):
        figure = _sheet(panels, legend, guessed, across, columns, inches)
        # The width of texts was estimated. If a label would be cut off, use one column fewer.
        while columns > 1 and _is_cut(figure):
            columns -= 1
            figure = _sheet(panels, legend, guessed, across, columns, inches)
        return figures.shown_in_notebooks(figure)


def _sheet(
    panels: Sequence[Panel],
    legend: Mapping[str, int],
    guessed: bool,
    across: int,
    columns: int,
    inches: float | None,
) -> Any:
    """Draw panels in rows, with the legend in columns below them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    heights = []
    for start in range(0, len(panels), across):
        heights.append(40 + max(panel.height for panel in panels[start : start + across]))
    labels = [*legend, *([GUESSING] if guessed else [])]
    width = across * (WIDTH + 20)
    height = sum(heights) + 24 * max(1, -(-len(labels) // columns))
    figure = _figure(width, height)
    for number, panel in enumerate(panels):
        left = number % across * (WIDTH + 20) + 10
        top = sum(heights[: number // across])
        middle, line = (left + WIDTH / 2) / width, 1 - (top + 18) / height
        figure.text(middle, line, panel.title, ha="center", va="baseline", weight="bold")
        _put(figure, panel, left, top + 26)
    handles: list[Any] = [
        Patch(color=COLOURS[number][0], label=name) for name, number in legend.items()
    ]
    if guessed:
        handles.append(Line2D([], [], color=SOFT, linestyle=":", label=GUESSING))
    spacing: Any = {"handlelength": 1.2, "handletextpad": 0.5, "columnspacing": 1.4}
    figure.legend(handles=handles, loc="lower left", ncols=columns, frameon=False, **spacing)
    if inches is not None:
        # Once drawn, all ticks and texts exist and can be scaled.
        figure.draw_without_rendering()
        figures.scale(figure, inches)
    return figure


def _is_cut(figure: Any) -> bool:
    """True if a legend is wider than its figure."""
    figure.draw_without_rendering()
    return any(legend.get_window_extent().x1 > figure.bbox.x1 for legend in figure.legends)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """Number of columns of a legend that fits the width. Matplotlib fills the columns one after the
    other, and each is as wide as its longest label.
    """
    for columns in range(len(labels), 1, -1):
        rows = -(-len(labels) // columns)
        parts = [labels[start : start + rows] for start in range(0, len(labels), rows)]
        if 20 + sum(48 + max(map(_text_width, part)) for part in parts) <= width:
            return columns
    return 1


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _within(score: float) -> float:
    return min(1.0, max(0.0, score))


def _colour(colours: Mapping[str, int], series: str) -> str:
    return COLOURS[colours[series]][0]


def _listed(marks: Sequence[Mark], joined: str = "") -> str:
    """Description of the first marks for the alternative text."""
    if joined:
        return "; ".join(f"{m.place} {joined} {m.series}: {m}" for m in marks[:24])
    return "; ".join(f"{m.series}, {m.place}: {m}" for m in marks[:24])


def on_lines(labels: Sequence[str]) -> dict[str, str]:
    """Labels broken into at most `MOST_LINES` lines; shortened if they need more.

    >>> on_lines(["iid", "COMPOUND+CONJ+COREF+DROP+MOVE"])
    {'iid': 'iid', 'COMPOUND+CONJ+COREF+DROP+MOVE': 'COMPOUND+CONJ+COREF+\\nDROP+MOVE'}
    """
    broken: dict[str, str] = {}
    for label in labels:
        lines = [""]
        for part in re.split(r"(?<=[+ ,/])", label):
            if lines[-1] and len(lines[-1] + part.rstrip()) > LABEL:
                lines.append("")
            lines[-1] += part
        if len(lines) <= MOST_LINES and all(len(line.rstrip()) <= LABEL for line in lines):
            broken[label] = "\n".join(line.rstrip() for line in lines)
    rest = [label for label in labels if label not in broken]
    return broken | distinct(rest)


def _line_count(places: Sequence[str]) -> int:
    return max((text.count("\n") + 1 for text in on_lines(places).values()), default=1)


def _text_width(text: str) -> float:
    """Estimated width of a line in points, at a size of 12. Capitals are wider than the average
    letter.
    """
    wide = sum(letter.isupper() or letter in "+%@…" for letter in text)
    return LETTER * len(text) + (WIDE_LETTER - LETTER) * wide


def _left(places: Sequence[str]) -> float:
    """Left margin in points that leaves room for labels."""
    texts = "\n".join(on_lines(places).values()).split("\n")
    return 14 + max(40.0, *(_text_width(text) for text in texts))


def _scores_across(axis: Any, places: Sequence[str], step: float) -> None:
    """Set up axes with scores across and one row of `step` points for each place."""
    labels = on_lines(places)
    axis.set(xlim=(0, 1), ylim=(step * len(places), 0), xlabel="score")
    axis.set_xticks(QUARTERS, [f"{value:g}" for value in QUARTERS])
    middles = [step * (row + 0.5) for row in range(len(places))]
    axis.set_yticks(middles, [labels[place] for place in places])
    for place, text in zip(places, axis.get_yticklabels(), strict=True):
        shown, whole = ("".join(name.split()) for name in (labels[place], place))
        if shown != whole:
            text.set_gid(TIP + place)
    axis.grid(axis="x", color=GRID, linewidth=1)


def _values_up(axis: Any, name: str, limits: tuple[float, float] | None) -> None:
    if limits is not None:
        axis.set_ylim(*limits)
        if limits == (0.0, 1.0):
            axis.set_yticks(QUARTERS, [f"{value:g}" for value in QUARTERS])
    axis.set_ylabel(name)
    axis.grid(axis="y", color=GRID, linewidth=1)


def _line(axis: Any, across: Sequence[float], up: Sequence[float], **look: Any) -> None:
    """Draw a line that neither changes the limits of the axes nor is clipped by them.

    This takes 0.08 ms; `axis.plot`, which recomputes the limits for each line, takes 0.20 ms.
    """
    from matplotlib.lines import Line2D

    axis.add_artist(Line2D(across, up, clip_on=False, **look))


def _whisker(
    axis: Any, across: Sequence[float], up: Sequence[float], colour: str, tip: str
) -> None:
    look = {"color": colour, "linewidth": 2, "alpha": 0.55, "solid_capstyle": "butt"}
    _line(axis, across, up, **look, gid=TIP + tip)


def _dot(axis: Any, x: float, y: float, colour: str, number: int, tip: str) -> None:
    look = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "markersize": 7}
    _line(axis, [x], [y], **look, markeredgewidth=0, linestyle="none", gid=TIP + tip)


def _seed_dots(axis: Any, scores: Sequence[float], y: float, colour: str) -> None:
    look = {"color": colour, "marker": "o", "markersize": 3, "alpha": 0.5}
    places = [_within(score) for score in scores]
    _line(axis, places, [y] * len(places), **look, markeredgewidth=0, linestyle="none")


def _chance(guess: Guess) -> str:
    levels = _levels(guess)
    if not levels:
        return "."
    values = ", ".join(
        f"{level:.2f} on {name}" if name else f"{level:.2f}" for level, name in levels
    )
    return f". Always giving the most frequent answer scores {values}."


def _levels(guess: Guess) -> list[tuple[float, str]]:
    """Chance scores with the series that they are for; an empty name means all series.

    If the share of the most frequent answer differs between splits, each gets a line in its own
    colour.
    """
    if guess is None or guess == {}:
        return []
    if not isinstance(guess, Mapping):
        return [(guess, "")]
    if max(guess.values()) - min(guess.values()) > SAME_GUESS:
        return [(level, name) for name, level in guess.items()]
    return [(min(guess.values()), "")]


def _guess_lines(line: Callable[..., Any], guess: Guess, colours: Mapping[str, int]) -> None:
    """Draw chance as dotted lines.

    Args:
        line: Draws a line through the axis: its `axvline` or `axhline`.
        guess: Chance score.
        colours: Index of each series' colour.
    """
    for level, name in _levels(guess):
        colour = _colour(colours, name) if name in colours else SOFT
        of = f" on {name}" if name else ""
        tip = f"{TIP}guessing{of}: {level:.3f}"
        line(_within(level), color=colour, linewidth=1.5, linestyle=(0, (1.3, 2)), gid=tip)


def _ticks(last: int) -> list[int]:
    """About four round numbers from 0 to the last.

    >>> _ticks(3000), _ticks(1)
    ([0, 1000, 2000, 3000], [0, 1])
    """
    rough = max(1.0, last / 4)
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough)
    return list(range(0, last + 1, int(step)))


def _short_number(value: int) -> str:
    return f"{value // 1000}k" if value >= 10_000 and value % 1000 == 0 else f"{value:,}"
