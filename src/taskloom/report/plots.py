"""Figures of a report, as SVG text that stands inside the page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskloom.errors import MissingExtra

COLOURS = {"train": "#888888", "iid": "#1b6ca8", "ood": "#c4472b"}


@dataclass(frozen=True, slots=True)
class Curve:
    """The scores of one split over training steps."""

    split: str
    steps: tuple[int, ...]
    scores: tuple[float, ...]


def curves(panels: Mapping[str, Sequence[Curve]], chance: float) -> str:
    """Learning curves side by side, one panel a recipe, with the level of guessing."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("a report", "matplotlib", "report") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    # A fixed salt and no date: the same runs give the same bytes.
    mpl.rcParams.update({"svg.hashsalt": "taskloom", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.4), sharey=True, squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for line in lines:
            colour = COLOURS.get(line.split, "#5a7d2a")
            axis.plot(line.steps, line.scores, label=line.split, color=colour, linewidth=2)
        axis.axhline(chance, color="#bbbbbb", linewidth=1, linestyle=":")
        axis.set(title=title, xlabel="training steps", ylim=(0, 1.02))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("accuracy")
    axes[0][-1].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return out.getvalue()[out.getvalue().index("<svg") :]
