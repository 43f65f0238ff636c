"""Figures of a report, as SVG text that stands inside the page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.errors import MissingExtra

COLOURS = {"train": "#888888", "iid": "#1b6ca8", "ood": "#c4472b"}
OTHERS = ("#5a7d2a", "#7b4ea3", "#b8860b", "#2a8c8c", "#a83f6f", "#4a5a6a", "#d07b3c", "#35608f")
ACROSS = 3
"""Panels side by side; more go below."""


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


def colours(names: Sequence[str]) -> dict[str, str]:
    """Give each name a colour: the usual splits always have their own, the others take turns."""
    rest = [n for n in dict.fromkeys(names) if n not in COLOURS]
    return {**COLOURS, **{n: OTHERS[i % len(OTHERS)] for i, n in enumerate(rest)}}


def curves(panels: Mapping[str, Sequence[Curve]], guesses: Mapping[str, float] | None = None) -> str:
    """Draw learning curves side by side, one panel a recipe and learner.

    Args:
        panels: The curves of each panel, by its title.
        guesses: By title, the score of guessing, drawn as a dotted line.
    """
    figure, axes = _panels(len(panels), 3.4)
    colour = colours([line.split for lines in panels.values() for line in lines])
    for axis, (title, lines) in zip(axes, panels.items(), strict=False):
        for line in lines:
            style: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.45} if line.faint else {"linewidth": 2}
            if len(line.steps) == 1:  # a line needs two points
                style["marker"] = "o"
            label = None if line.faint else line.split
            axis.plot(line.steps, line.scores, label=label, color=colour[line.split], **style)
        if guesses and title in guesses:
            axis.axhline(guesses[title], color="#999999", linewidth=1, linestyle=":")
        axis.set(title=title, xlabel="training steps", ylim=(0, 1.02))
    axes[0].set_ylabel("accuracy")
    drawn = {line.split for lines in panels.values() for line in lines}
    _legend(figure, sorted(drawn, key=list(colour).index), colour)
    return _svg(figure)


def intervals(panels: Mapping[str, Sequence[Mark]]) -> str:
    """Draw means with their intervals: one panel a recipe, one line a learner, one colour a split."""
    places = list(dict.fromkeys(m.place for marks in panels.values() for m in marks))
    series = list(dict.fromkeys(m.series for marks in panels.values() for m in marks))
    figure, axes = _panels(len(panels), 1.1 + 0.42 * len(places) + 0.12 * len(series))
    colour = colours(series)
    for axis, (title, marks) in zip(axes, panels.items(), strict=False):
        for mark in marks:
            shift = (series.index(mark.series) - (len(series) - 1) / 2) * 0.6 / max(2, len(series))
            y = places.index(mark.place) + shift
            axis.plot([mark.mean], [y], "o", color=colour[mark.series], markersize=5)
            if mark.low is not None and mark.high is not None:
                axis.plot([mark.low, mark.high], [y, y], color=colour[mark.series], linewidth=2, alpha=0.6)
        axis.set(title=title, xlim=(-0.02, 1.02), yticks=range(len(places)), yticklabels=places, xlabel="score")
        axis.set_ylim(len(places) - 0.5, -0.5)
    _legend(figure, series, colour)
    return _svg(figure)


def trends(panels: Mapping[str, Sequence[Mark]], xlabels: Mapping[str, str]) -> str:
    """Draw means over the values of a trait: one panel a trait and split, one line a learner, bars for the intervals."""
    figure, axes = _panels(len(panels), 3.0)
    series = list(dict.fromkeys(m.series for marks in panels.values() for m in marks))
    colour = colours(series)
    for axis, (title, marks) in zip(axes, panels.items(), strict=False):
        places = list(dict.fromkeys(m.place for m in marks))
        for name in series:
            own = [m for m in marks if m.series == name]
            x = [places.index(m.place) + (series.index(name) - (len(series) - 1) / 2) * 0.08 for m in own]
            axis.plot(x, [m.mean for m in own], "o-", color=colour[name], linewidth=1.5, markersize=4)
            for at, mark in zip(x, own, strict=True):
                if mark.low is not None and mark.high is not None:
                    axis.plot([at, at], [mark.low, mark.high], color=colour[name], linewidth=1.5, alpha=0.5)
        wide = sum(len(p) for p in places) > 24
        axis.set(title=title, xlabel=xlabels[title], ylim=(-0.02, 1.02), xticks=range(len(places)))
        axis.set_xticklabels([p[:16] for p in places], rotation=40 if wide else 0, ha="right" if wide else "center")
    axes[0].set_ylabel("score")
    _legend(figure, series, colour)
    return _svg(figure)


def _panels(n: int, height: float) -> tuple[Any, Any]:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("a report", "matplotlib", "report") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    # A fixed salt and no date: the same runs give the same bytes.
    mpl.rcParams.update({"svg.hashsalt": "taskloom", "svg.fonttype": "none", "font.family": "sans-serif"})
    # Names and traits are text, not TeX: with a $ in them they would be read as formulas, which fails or shows something else.
    mpl.rcParams.update({"text.parse_math": False, "text.usetex": False})
    across = 2 if n == 4 else min(n, ACROSS)
    down = -(-n // across)
    figure, axes = pyplot.subplots(down, across, figsize=(4.6 * across, height * down), sharey=True, squeeze=False)
    flat = list(axes.flat)
    for axis in flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.title.set_fontsize(11)
    for axis in flat[n:]:
        axis.set_visible(False)
    return figure, flat


def _legend(figure: Any, names: Sequence[str], colour: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=colour[n], linewidth=3, label=n) for n in names]
    figure.legend(handles=lines, frameon=False, loc="upper center", ncols=min(6, len(names)), bbox_to_anchor=(0.5, 0.0))


def _svg(figure: Any) -> str:
    from matplotlib import pyplot

    figure.tight_layout()
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    return out.getvalue()[out.getvalue().index("<svg") :]
