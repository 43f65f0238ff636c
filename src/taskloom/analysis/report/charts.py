"""Figures of a report as SVG: small panels that reflow on a phone, follow dark mode and say in words what they show.

Drawn by hand rather than by a plotting library: a panel is text that inherits the page's font and colours, its labels are the
whole names, and a thousand runs are drawn in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#1b6ca8", "#c4472b", "#4f7a1f", "#7b4ea3", "#a8700b", "#1f8080", "#a83f6f", "#5b6b7b")
"""Of the series, in the light; each has a contrast of at least 4.5 to white. The page has lighter ones for the dark."""

OWN = {"train": 7, "iid": 0, "ood": 1}
"""Splits that have a colour of their own on every figure."""

WIDTH = 360
"""Units of a panel: pixels on a phone, where it fills the screen."""

LETTER = 6.9
"""Mean width of a letter at 12 units."""

LABEL = 20
"""Letters of a label beside an axis."""

WHOLE_LINE = 48
"""Letters of a label that has a line of its own."""

ROW = 22
"""Height of a line of a chart."""


SAME_GUESS = 0.01
"""Scores of guessing that differ by no more are drawn as one line."""

Guess = float | Mapping[str, float] | None
"""The score of guessing: of all series, or of each."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure, or one of several of a section: its title, its SVG and what it shows, in words."""

    title: str
    svg: str
    alt: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The scores of one split over training steps; a faint one is a single seed behind the mean."""

    split: str
    steps: tuple[int, ...]
    scores: tuple[float, ...]
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A mean with its interval at a named place of a series; the ends may be missing."""

    series: str
    place: str
    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        ends = (
            "" if self.low is None or self.high is None else f" ({self.low:.2f} to {self.high:.2f})"
        )
        return f"{self.mean:.2f}{ends}"


def distinct(labels: Sequence[str], width: int = LABEL) -> dict[str, str]:
    """Shorten labels to a width so that different ones stay different.

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


def colour_of(series: Sequence[str]) -> dict[str, int]:
    """Give each series the number of a colour: usual splits always have their own, the others take turns."""
    free = [i for i in range(len(COLOURS)) if i not in {OWN[s] for s in series if s in OWN}] or [0]
    others = [s for s in dict.fromkeys(series) if s not in OWN]
    return {s: OWN[s] for s in series if s in OWN} | {
        s: free[i % len(free)] for i, s in enumerate(others)
    }


def interval_panel(
    title: str,
    marks: Sequence[Mark],
    colours: Mapping[str, int],
    guess: Guess = None,
    *,
    above: bool = False,
) -> Panel:
    """Draw means with their intervals: a line for each place (a learner), a colour and a shape for each series (a split).

    Args:
        title: Above the panel.
        marks: What is drawn.
        colours: Of the series.
        guess: The score of guessing.
        above: Whether the name of a place stands above its line, whole, rather than beside it.
    """
    places, series = _unique(m.place for m in marks), _unique(m.series for m in marks)
    labels = distinct(places, WHOLE_LINE if above else LABEL)
    head = ROW - 4 if above else 0
    left = 8 if above else _left(labels.values())
    step = head + max(ROW, 14 * len(series) + 6)
    top, height = 8, 8 + step * len(places) + 34
    x = _scale(left + 8, WIDTH - 12)
    parts = [_grid(x, top, height - 34), _guess_across(guess, colours, x, top, height - 34)]
    for row, place in enumerate(places):
        middle = top + step * row + head + (step - head) / 2
        if above:
            parts.append(
                _label(labels[place], place, left, top + step * row + head / 2, anchor="start")
            )
        else:
            parts.append(_label(labels[place], place, left, middle))
        for number, name in enumerate(series):
            y = middle + (number - (len(series) - 1) / 2) * 14
            for mark in (m for m in marks if m.place == place and m.series == name):
                parts.append(
                    _dot(
                        mark, x(mark.mean), y, x, colours[name], number, f"{place}, {name}: {mark}"
                    )
                )
    parts.append(_x_numbers(x, height - 18, "score"))
    alt = (
        f"{title}. "
        + "; ".join(f"{m.place} on {m.series}: {m}" for m in marks[:24])
        + _chance(guess)
    )
    return Panel(title, _svg(height, parts, alt), alt)


def curve_panel(
    title: str, curves: Sequence[Curve], colours: Mapping[str, int], guess: Guess = None
) -> Panel:
    """Draw learning curves: the mean of each split, single seeds faintly behind it, guessing as a dotted line."""
    last = max((s for c in curves for s in c.steps), default=1)
    left, top, bottom, height = 48, 10, 190, 226
    low, high = left, WIDTH - 22

    def x(step: float) -> float:
        return low + (high - low) * step / max(1, last)

    def y(score: float) -> float:
        return bottom - (bottom - top) * min(1.0, max(0.0, score))

    parts = [_y_grid(y, left, WIDTH - 14)]
    parts.append(_guess_along(guess, colours, y, left, WIDTH - 14))
    for curve in sorted(curves, key=lambda c: not c.faint):
        points = " ".join(
            f"{x(s):.1f},{y(v):.1f}" for s, v in zip(curve.steps, curve.scores, strict=True)
        )
        kind = "faint" if curve.faint else "line"
        parts.append(f'<polyline class="{kind} s{colours[curve.split]}" points="{points}"/>')
        if len(curve.steps) == 1:
            parts.append(
                f'<circle class="fill s{colours[curve.split]}" cx="{x(curve.steps[0]):.1f}" cy="{y(curve.scores[0]):.1f}" r="3"/>'
            )
    for step in _ticks(last):
        parts.append(
            f'<text x="{x(step):.1f}" y="{bottom + 16}" text-anchor="middle">{_short_number(step)}</text>'
        )
    parts.append(
        f'<text x="{(low + high) / 2:.1f}" y="{height - 4}" text-anchor="middle">training steps</text>'
    )
    parts.append(_y_name((top + bottom) / 2))
    ends = [f"{c.split} ends at {c.scores[-1]:.2f}" for c in curves if not c.faint and c.scores]
    alt = f"{title}: learning curves over {last:,} steps; {', '.join(ends)}{_chance(guess)}"
    return Panel(title, _svg(height, parts, alt), alt)


def trend_panel(
    title: str, marks: Sequence[Mark], xlabel: str, colours: Mapping[str, int], guess: Guess = None
) -> Panel:
    """Draw means over the values of a trait that is a number: one line for each series, bars for the intervals."""
    places, series = _unique(m.place for m in marks), _unique(m.series for m in marks)
    left, top, bottom, height = 48, 10, 170, 210
    low, high = left + 14, WIDTH - 26

    def x(place: str) -> float:
        return low + (high - low) * (
            places.index(place) / (len(places) - 1) if len(places) > 1 else 0.5
        )

    def y(score: float) -> float:
        return bottom - (bottom - top) * min(1.0, max(0.0, score))

    parts = [_y_grid(y, left, WIDTH - 14)]
    parts.append(_guess_along(guess, colours, y, left, WIDTH - 14))
    for number, name in enumerate(series):
        own = [m for m in marks if m.series == name]
        shift = (number - (len(series) - 1) / 2) * 3
        points = " ".join(f"{x(m.place) + shift:.1f},{y(m.mean):.1f}" for m in own)
        parts.append(f'<polyline class="line s{colours[name]}" points="{points}"/>')
        for mark in own:
            at = x(mark.place) + shift
            parts.append(
                f'<g class="s{colours[name]}"><title>{escape(f"{name}, {xlabel} {mark.place}: {mark}")}</title>'
            )
            if mark.low is not None and mark.high is not None:
                parts.append(
                    f'<line class="whisker" x1="{at:.1f}" x2="{at:.1f}" y1="{y(mark.low):.1f}" y2="{y(mark.high):.1f}"/>'
                )
            parts.append(f"{_shape(number, at, y(mark.mean))}</g>")
    every = -(-len(places) * max(len(p) for p in places) * 7 // int(high - low))
    for place in places[:: max(1, every)]:
        parts.append(
            f'<text x="{x(place):.1f}" y="{bottom + 16}" text-anchor="middle">{escape(place)}</text>'
        )
    parts.append(
        f'<text x="{(low + high) / 2:.1f}" y="{height - 6}" text-anchor="middle">{escape(xlabel)}</text>'
    )
    parts.append(_y_name((top + bottom) / 2))
    alt = (
        f"{title} by {xlabel}: "
        + "; ".join(f"{m.series}, {m.place}: {m}" for m in marks[:24])
        + _chance(guess)
    )
    return Panel(title, _svg(height, parts, alt), alt)


def bar_panel(
    title: str, marks: Sequence[Mark], name: str, colours: Mapping[str, int], guess: Guess = None
) -> Panel:
    """Draw means over the values of a trait that is a name, where a line would suggest an order: horizontal bars."""
    places, series = _unique(m.place for m in marks), _unique(m.series for m in marks)
    labels = distinct(places)
    left = _left(labels.values())
    step = 12 * len(series) + 10
    top, height = 8, 8 + step * len(places) + 34
    x = _scale(left + 8, WIDTH - 12)
    parts = [_grid(x, top, height - 34)]
    for row, place in enumerate(places):
        parts.append(_label(labels[place], place, left, top + step * (row + 0.5)))
        for number, one in enumerate(series):
            y = top + step * row + 5 + number * 12
            for mark in (m for m in marks if m.place == place and m.series == one):
                tip = escape(f"{one}, {name} {place}: {mark}")
                parts.append(
                    f'<g class="s{colours[one]}"><title>{tip}</title><rect class="bar" x="{x(0):.1f}" y="{y:.1f}" '
                )
                parts.append(f'width="{x(mark.mean) - x(0):.1f}" height="10" rx="1"/>')
                if mark.low is not None and mark.high is not None:
                    parts.append(
                        f'<line class="ink" x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}" y1="{y + 5:.1f}" y2="{y + 5:.1f}"/>'
                    )
                parts.append("</g>")
    parts += [
        _guess_across(guess, colours, x, top, height - 34),
        _x_numbers(x, height - 18, "score"),
    ]
    alt = (
        f"{title} by {name}: "
        + "; ".join(f"{m.series}, {m.place}: {m}" for m in marks[:24])
        + _chance(guess)
    )
    return Panel(title, _svg(height, parts, alt), alt)


def sheet(panels: Sequence[Panel], legend: Mapping[str, int]) -> str:
    """Return panels side by side as one SVG file that brings its own colours, for a README or a slide."""
    across = min(3, len(panels)) or 1
    tops, y = [], 0.0
    for start in range(0, len(panels), across):
        tops.append(y)
        y += max(_height(p.svg) for p in panels[start : start + across]) + 40
    width, height = across * (WIDTH + 20), y + 24
    parts = []
    for number, panel in enumerate(panels):
        left, top = number % across * (WIDTH + 20) + 10, tops[number // across]
        parts.append(
            f'<text class="head" x="{left + WIDTH / 2}" y="{top + 18}" text-anchor="middle">{escape(panel.title)}</text>'
        )
        parts.append(
            f'<svg x="{left}" y="{top + 26}" width="{WIDTH}" height="{_height(panel.svg)}"{panel.svg[4:]}'
        )
    at = 20.0
    for name, number in legend.items():
        parts.append(
            f'<g class="s{number}"><rect class="bar" x="{at}" y="{y + 2}" width="12" height="12"/></g>'
        )
        parts.append(f'<text x="{at + 18}" y="{y + 12}">{escape(name)}</text>')
        at += 36 + LETTER * len(name)
    if any('class="guess' in panel.svg for panel in panels):
        parts.append(f'<line class="guess" x1="{at}" x2="{at + 22}" y1="{y + 8}" y2="{y + 8}"/>')
        parts.append(f'<text x="{at + 28}" y="{y + 12}">guessing the most frequent answer</text>')
    alt = "; ".join(p.alt for p in panels)
    colours = "".join(f".s{i}{{color:{c}}}" for i, c in enumerate(COLOURS))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img" '
        f'aria-label="{escape(alt[:1500])}" font-family="system-ui, sans-serif" font-size="12" fill="#222">'
        f"<style>{STYLE}{colours}.head{{font-weight:600}}</style>"
        # White below the dark text: a README is also read in dark mode, which an image does not learn of.
        f'<rect width="{width}" height="{height:.0f}" rx="6" fill="#fff"/>{"".join(parts)}</svg>'
    )


QUARTERS = (0, 0.25, 0.5, 0.75, 1)
"""Where the axis of scores has numbers."""

STYLE = (
    ".line{fill:none;stroke:currentColor;stroke-width:2}.faint{fill:none;stroke:currentColor;stroke-width:.8;opacity:.4}"
    ".whisker{stroke:currentColor;stroke-width:2;opacity:.55}.fill{fill:currentColor}.bar{fill:currentColor;opacity:.85}"
    ".grid{stroke:#8884;stroke-width:1}.guess{stroke:#888;stroke-width:1.5;stroke-dasharray:2 3}"
    "[class*='guess s']{stroke:currentColor}"
    ".ink{stroke:#222;stroke-width:1.5}"
)
"""How the parts of a panel are drawn, on the page and in files."""


Scale = Callable[[float], float]
"""From a score to a place on an axis."""


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _left(labels: Iterable[str]) -> float:
    """Return where an axis begins that leaves room for labels on its left."""
    return min(146.0, max(40.0, LETTER * max((len(text) for text in labels), default=0) + 6))


def _scale(low: float, high: float) -> Scale:
    return lambda score: low + (high - low) * min(1.0, max(0.0, score))


def _chance(guess: Guess) -> str:
    levels = _levels(guess, {})
    if not levels:
        return "."
    values = ", ".join(
        f"{level:.2f} on {name}" if name else f"{level:.2f}" for level, name, _ in levels
    )
    return f". Guessing the most frequent answer gives {values}."


def _levels(guess: Guess, colours: Mapping[str, int]) -> list[tuple[float, str, str]]:
    """Return the scores of guessing with the series that they are for (none: for all) and the class of their lines.

    Where splits have other shares of their most frequent answer, each has a line in its own colour.
    """
    if guess is None:
        return []
    if isinstance(guess, Mapping):
        if not guess:
            return []
        if max(guess.values()) - min(guess.values()) > SAME_GUESS:
            return [(level, name, f" s{colours.get(name, 7)}") for name, level in guess.items()]
        guess = min(guess.values())
    return [(guess, "", "")]


def _guess_along(
    guess: Guess, colours: Mapping[str, int], y: Scale, left: float, right: float
) -> str:
    """Draw guessing as lines from left to right."""
    ends = f'x1="{left}" x2="{right}"'
    return "".join(
        f'<line class="guess{kind}" {ends} y1="{y(level):.1f}" y2="{y(level):.1f}">{_guess_title(level, name)}</line>'
        for level, name, kind in _levels(guess, colours)
    )


def _guess_across(
    guess: Guess, colours: Mapping[str, int], x: Scale, top: float, bottom: float
) -> str:
    """Draw guessing as lines from top to bottom."""
    ends = f'y1="{top}" y2="{bottom}"'
    return "".join(
        f'<line class="guess{kind}" {ends} x1="{x(level):.1f}" x2="{x(level):.1f}">{_guess_title(level, name)}</line>'
        for level, name, kind in _levels(guess, colours)
    )


def _guess_title(level: float, name: str) -> str:
    return f"<title>guessing{escape(f' on {name}') if name else ''}: {level:.3f}</title>"


def _label(short: str, whole: str, edge: float, middle: float, anchor: str = "end") -> str:
    title = f"<title>{escape(whole)}</title>" if short != whole else ""
    return f'<text x="{edge:.1f}" y="{middle + 4:.1f}" text-anchor="{anchor}">{escape(short)}{title}</text>'


def _grid(x: Scale, top: float, bottom: float) -> str:
    lines = (
        f'<line class="grid" x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{top}" y2="{bottom}"/>'
        for v in QUARTERS
    )
    return "".join(lines)


def _y_grid(y: Scale, left: float, right: float) -> str:
    parts = []
    for value in QUARTERS:
        parts.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        )
        parts.append(
            f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    return "".join(parts)


def _y_name(middle: float) -> str:
    return (
        f'<text transform="translate(9 {middle:.0f}) rotate(-90)" text-anchor="middle">score</text>'
    )


def _x_numbers(x: Scale, y: float, name: str) -> str:
    parts = [f'<text x="{x(v):.1f}" y="{y}" text-anchor="middle">{v:g}</text>' for v in QUARTERS]
    return "".join(
        [*parts, f'<text x="{x(0.5):.1f}" y="{y + 14}" text-anchor="middle">{name}</text>']
    )


def _dot(mark: Mark, at: float, y: float, x: Scale, colour: int, shape: int, tip: str) -> str:
    whisker = ""
    if mark.low is not None and mark.high is not None:
        ends = f'x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}"'
        whisker = f'<line class="whisker" {ends} y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'<g class="s{colour}"><title>{escape(tip)}</title>{whisker}{_shape(shape, at, y)}</g>'


def _shape(number: int, x: float, y: float) -> str:
    """Draw the mark of a series; the shapes differ for readers who cannot tell the colours."""
    shapes = (
        f'<circle class="fill" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
        f'<rect class="fill" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>',
        f'<path class="fill" d="M{x:.1f} {y - 5:.1f}l5 8.5h-10z"/>',
        f'<path class="fill" d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5-5z"/>',
    )
    return shapes[number % len(shapes)]


def _ticks(last: int) -> list[int]:
    """Return about four round numbers from 0 to the last.

    >>> _ticks(3000), _ticks(1)
    ([0, 1000, 2000, 3000], [0, 1])
    """
    rough = max(1.0, last / 4)
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough)
    return list(range(0, last + 1, int(step)))


def _short_number(value: int) -> str:
    return f"{value // 1000}k" if value >= 10_000 and value % 1000 == 0 else f"{value:,}"


def _svg(height: float, parts: Iterable[str], alt: str) -> str:
    body = "".join(parts)
    head = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(alt[:1500])}"'
    return f"<svg {head}>{body}</svg>"


def _height(svg: str) -> float:
    return float(svg.split('"')[1].split()[3])
