"""The figure of composed against atomic adaptability: points, least-squares lines, the diagonal."""

from __future__ import annotations

from typing import Any

from taskloom.analysis import figures
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.taskbench500.task_regression import regress

ACROSS = 2
"""Panels in a row: their legends have long lines."""


def draw_regressions(data: ResultTable) -> Any:
    """Draw a panel for each procedure, a marker and a line for each composition."""
    with figures.style():
        procedures = figures.values_of(data, "procedure")
        compositions = figures.values_of(data, "composition")
        figure, axes = figures.canvas(len(procedures), (3.6, 3.7), ACROSS, sharey=True)
        for axis, procedure in zip(axes, procedures, strict=False):
            axis.plot([0, 1], [0, 1], ":", color="#999999", linewidth=0.9)
            for number, composition in enumerate(compositions):
                own = [r for r in data if (r["procedure"], r["composition"]) == (procedure, composition)]
                if own:
                    _draw(axis, own, number, composition)
            axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), title=procedure)
            axis.set_xlabel("mean accuracy of the atomic parts")
            axis.grid(color="#eeeeee", linewidth=0.6)
            axis.set_axisbelow(True)
            axis.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(0.0, -0.16))
        for axis in axes[: len(procedures) : ACROSS]:
            axis.set_ylabel("accuracy of the composed task")
        return figure


def _draw(axis: Any, rows: list[dict[str, Any]], number: int, composition: str) -> None:
    shade = figures.SHADES[number % len(figures.SHADES)]
    marker = figures.MARKERS[number % len(figures.MARKERS)]
    dashes: Any = figures.DASHES[number % len(figures.DASHES)]
    x, y = [r["atomic"] for r in rows], [r["composed"] for r in rows]
    line = regress(x, y, parts=[r["parts"].split() for r in rows])
    # Filled marks would hide each other where many tasks score nothing.
    axis.plot(x, y, marker, markersize=3.6, markerfacecolor="none", markeredgecolor=shade, markeredgewidth=0.8)
    known = line.r2 == line.r2
    ends = f" [{line.r2_low:.2f}, {line.r2_high:.2f}]" if known and line.r2_low == line.r2_low else ""
    label = f"{composition}: r² {line.r2:.2f}{ends}, n = {len(rows)}" if known else f"{composition}, n = {len(rows)}"
    if known:
        across = [min(x), max(x)]
        up = [line.slope * value + line.intercept for value in across]
        axis.plot(across, up, linestyle=dashes, color=shade, linewidth=1.4)
    axis.plot([], [], marker, linestyle=dashes, color=shade, markerfacecolor="none", label=label)
