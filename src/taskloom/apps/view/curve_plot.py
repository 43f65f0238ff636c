"""Learning curves as numbers for an SVG: a page may hold no script and no style of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 32
"""Size of the plot and its margins, in the units of the viewBox."""

POINTS = 400
"""Points of a line; more than the plot has pixels for are thinned out."""

LINES = 8
"""Lines of a plot: as many as the style sheet has colours for."""


@dataclass(frozen=True, slots=True)
class CurveLine:
    """A line: its name, its points for a polyline, and its last value."""

    name: str
    points: str
    last: float


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """A plot of lines over training steps.

    Attributes:
        title: What is drawn.
        lines: The lines.
        ticks: Values on the vertical axis, with their heights.
        steps: The steps at both ends of the horizontal axis.
    """

    title: str
    lines: list[CurveLine]
    ticks: list[tuple[str, float]]
    steps: tuple[float, float]


def curve_plot(
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    low: float | None = None,
    high: float | None = None,
) -> CurvePlot | None:
    """Return a plot of curves (steps and values); None where there is nothing to draw.

    Args:
        title: What is drawn.
        curves: Points by the name of the line.
        low: The lower end of the vertical axis; the lowest value by default.
        high: The upper end.
    """
    points = [point for curve in curves.values() for point in curve]
    if len({step for step, _ in points}) < 2:
        return None
    first, last = min(p[0] for p in points), max(p[0] for p in points)
    bottom = min([p[1] for p in points] if low is None else [low, *(p[1] for p in points)])
    top = max([p[1] for p in points] if high is None else [high, *(p[1] for p in points)])
    span = (top - bottom) or 1.0

    def place(step: float, value: float) -> str:
        x = LEFT + (step - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        return f"{x:.1f},{_height(value, bottom, span):.1f}"

    lines = []
    for name, curve in list(curves.items())[:LINES]:
        ordered = sorted(curve)
        thinned = ordered[:: max(1, len(ordered) // POINTS)]
        lines.append(CurveLine(name, " ".join(place(*point) for point in thinned), ordered[-1][1]))
    ticks = [bottom + span * i / 4 for i in range(5)]
    return CurvePlot(title, lines, [(f"{tick:.3g}", _height(tick, bottom, span)) for tick in ticks], (first, last))


def _height(value: float, bottom: float, span: float) -> float:
    return HEIGHT - BOTTOM - (value - bottom) / span * (HEIGHT - TOP - BOTTOM)
