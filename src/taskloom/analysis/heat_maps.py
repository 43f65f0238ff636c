"""Matrices in grey, from light (low) to dark (high): heat maps with a number in each cell, and
shaded cells without numbers.

Nothing is computed here: everything that is drawn is in the data, which are saved next to the
figure.

Large matrices are drawn as one outline per shade. One shape per cell would make a file of a
megabyte, and in viewers with antialiasing the background would show through between neighbouring
cells. So shades are layers: layer k covers all cells of shade k or darker and is drawn over the
layers before it. No two shapes share an edge with nothing below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.experiments.result_table import ResultTable

NARROW = 4.2
"""Width in inches of a heat map below which its colour bar gets more than a twentieth of the width.
"""

WIDEST_LABEL = 7
"""Maximum letters of a horizontal label below a column. Longer labels are tilted."""

LIGHTEST, DARKEST = 0.1, 0.85
"""Shades of the lowest and the highest value, from white (0) to black (1)."""


def heat_map(
    data: ResultTable,
    *,
    x: str,
    y: str,
    value: str,
    panel: str = "",
    spread: str = "",
    xlabel: str = "",
    ylabel: str = "",
    label: str = "accuracy",
    limits: tuple[float, float] = (0.0, 1.0),
    framed: str = "",
    formulas: bool = False,
) -> Any:
    """Draw values by two columns as shades with numbers, light for low and dark for high.

    Args:
        data: One row per cell.
        x: Column of the horizontal axis.
        y: Column of the vertical axis.
        value: Column of the values.
        panel: Column of the panels. Default: one panel.
        spread: Column of standard deviations, printed below the values. Default: none.
        xlabel: Label of the horizontal axis. Default: the column's name.
        ylabel: Label of the vertical axis.
        label: Label of the colour bar.
        limits: Values of the lightest and the darkest shade.
        framed: Column that is true for cells to frame, such as those seen in training.
        formulas: True if the labels of the cells are formulas, such as `G_a`.
    """
    with figures.style():
        if not data:
            return figures.without_data()
        panels = figures.by_panel(data, panel)
        figure, axes, letters = _map_canvas(data, panels, x, y)
        widest_label = max(len(str(row[x])) for row in data)
        tilt: dict[str, Any] = {}
        if widest_label > WIDEST_LABEL:
            tilt = {"rotation": 30, "ha": "right"}
        first_of_rows = axes[:: figures.grid_of(len(panels))[1]]
        for axis, (title, share) in zip(axes, panels.items(), strict=False):
            across = sorted({row[x] for row in share}, key=figures.natural_order)
            down = sorted({row[y] for row in share}, key=figures.natural_order)
            cells = {(across.index(row[x]), down.index(row[y])): row for row in share}
            shades = _shade(axis, _values(cells, value, len(across), len(down)), limits)
            for (column, line), row in cells.items():
                _print(axis, row, column, line, value, spread, limits)
                if framed and row[framed]:
                    _frame(axis, column, line)
            x_labels = [_label(name, formulas) for name in across]
            y_labels = [_label(name, formulas) for name in down]
            axis.set_xticks(range(len(across)), x_labels, parse_math=formulas, **tilt)
            axis.set_yticks(range(len(down)), y_labels, parse_math=formulas)
            axis.set(xlabel=xlabel or x, title=figures.wrapped(title, letters))
            if axis in first_of_rows:
                axis.set_ylabel(ylabel or y)
            axis.tick_params(length=0)
        _bar_of_shades(figure, axes, shades, label, limits)
        return figure


def _map_canvas(
    data: ResultTable, panels: Mapping[Any, Sequence[Mapping[str, Any]]], x: str, y: str
) -> tuple[Any, list[Any], int]:
    """Figure and axes of a heat map, and the number of letters per line of its titles."""
    widest = max(len({row[x] for row in share}) for share in panels.values())
    inner = [0.46 * len({row[y] for row in share}) for share in panels.values()]
    longest = max(len(str(row[y])) for row in data)
    width = 1.5 + 0.62 * widest + 0.07 * max(0, longest - 4)
    # A title is as wide as its panel, or as the cells alone if their labels are long. Otherwise it
    # would run into the next panel.
    letters = max(1, min(34, int(width / 0.09), int(width / 0.075) - longest))
    title_breaks = max(figures.wrapped(title, letters).count("\n") for title in panels)
    size = (width, 1.0 + 0.16 * title_breaks)
    figure, axes = figures.canvas(len(panels), size, inner=inner)
    return figure, axes, letters


def _bar_of_shades(
    figure: Any, axes: Sequence[Any], shades: Any, label: str, limits: tuple[float, float]
) -> None:
    """Draw the colour bar."""
    # A colour bar is twenty times as high as it is wide. In a narrow figure it gets a larger share
    # of the width, so that it does not become a stub.
    fraction = 0.05 * max(1.0, NARROW / figure.get_figwidth()) ** 2
    bar = figure.colorbar(shades, ax=axes, label=label, fraction=fraction)
    bar.ax.set_ylim(*limits)  # no shade is black
    # matplotlib draws this many shades as an image
    bar.solids.set(rasterized=False, edgecolor="face")


def _values(
    cells: Mapping[tuple[int, int], Mapping[str, Any]], value: str, columns: int, lines: int
) -> list[list[float]]:
    """Values of the cells, row by row; NaN for cells without data."""
    grid = []
    for line in range(lines):
        grid.append([_number(cells.get((column, line)), value) for column in range(columns)])
    return grid


def _shade(axis: Any, grid: Sequence[Sequence[float]], limits: tuple[float, float]) -> Any:
    """Draw one shaded cell per number, as shapes rather than as an image, so that it is sharp at
    every size.

    Cells have white borders, because neighbours of the same shade would otherwise have a faint
    seam.
    """
    across, down = ([place - 0.5 for place in range(n + 1)] for n in (len(grid[0]), len(grid)))
    shades = axis.pcolormesh(
        across,
        down,
        grid,
        cmap=_greys(),
        vmin=limits[0],
        vmax=limits[1],
        edgecolors="white",
        linewidth=1.0,
    )
    axis.set_ylim(len(grid) - 0.5, -0.5)  # the first row is at the top
    return shades


def _greys() -> Any:
    """Greys for cells. The lightest differs from white, which marks a cell without items, and the
    darkest hides neither a frame nor a number.
    """
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(
        [colormaps["Greys"](LIGHTEST + i / 255 * (DARKEST - LIGHTEST)) for i in range(256)]
    )


def _label(value: Any, formula: bool) -> str:
    return f"${value}$" if formula else str(value)


def _number(row: Mapping[str, Any] | None, value: str) -> float:
    return math.nan if row is None or row[value] is None else float(row[value])


def _print(
    axis: Any,
    row: Mapping[str, Any],
    at: int,
    down: int,
    value: str,
    spread: str,
    limits: tuple[float, float],
) -> None:
    number = _number(row, value)
    if math.isnan(number):
        return
    text = f"{number:.2f}"
    if spread and figures.is_known(row[spread]):
        text += f"\n±{row[spread]:.2f}"
    dark = (number - limits[0]) / (limits[1] - limits[0]) > 0.62
    axis.text(
        at, down, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "black"
    )


def _frame(axis: Any, at: int, down: int) -> None:
    """Draw a red frame along the border of a cell and a white one inside it. One of the two is
    visible in greyscale, whatever the shade.
    """
    from matplotlib.patches import Rectangle

    for color, inset in (("#ffffff", 0.065), ("#c4472b", 0.03)):
        side = 1 - 2 * inset
        corner = (at - 0.5 + inset, down - 0.5 + inset)
        axis.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=color, linewidth=1.8))


STEPS = 20
"""Number of shades from 0 to 1, in steps of 0.05. About as many greys as the eye can distinguish,
and half the bytes of 32 shades.
"""

Corner = tuple[int, int]
"""Column and row, counted in cells from the upper left."""


def shade_cells(axis: Any, grid: NDArray[np.float64]) -> Any:
    """Draw a square matrix of numbers in shades from white (below the first step) to black (from
    the last step on), with the first row at the top.

    Args:
        axis: Axes to draw into. The middle of the cell in the first row and column is at (0, 0).
        grid: The numbers. Values from 0 to 1 have different shades.

    Returns:
        Artist from which matplotlib's `colorbar` draws a bar of shades.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PathCollection

    colors, norm = shades()
    steps = np.clip(
        np.floor(grid * STEPS + 1e-9), 0, STEPS - 1
    )  # 0.15 / 0.05 is a little less than 3
    for step in range(1, STEPS):
        covered = steps >= step
        if covered.any():
            layer = PathCollection([_path(covered)], facecolors=[colors(step)], edgecolors="none")
            axis.add_collection(layer, autolim=False)
    axis.set(xlim=(-0.5, grid.shape[1] - 0.5), ylim=(grid.shape[0] - 0.5, -0.5), aspect="equal")
    return ScalarMappable(norm, colors)


def shades() -> tuple[Any, Any]:
    """Return the colour map and the normalisation of the steps."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap

    greys = ListedColormap([colormaps["Greys"](step / (STEPS - 1)) for step in range(STEPS)])
    return greys, BoundaryNorm(np.linspace(0, 1, STEPS + 1), STEPS)


def _path(covered: NDArray[np.bool_]) -> Any:
    from matplotlib.path import Path

    vertices: list[tuple[float, float]] = []
    codes: list[Any] = []
    for loop in outlines(covered):
        vertices += [(x - 0.5, y - 0.5) for x, y in (*loop, loop[0])]
        codes += [Path.MOVETO, *[Path.LINETO] * (len(loop) - 1), Path.CLOSEPOLY]
    return Path(vertices, codes)


def outlines(covered: NDArray[np.bool_]) -> Iterator[list[Corner]]:
    """Yield the closed outlines of the covered cells as lists of corners. Outlines of holes run in
    the opposite direction.

    >>> [outline] = outlines(np.array([[True, True], [True, True]]))
    >>> outline
    [(0, 0), (2, 0), (2, 2), (0, 2)]
    """
    edges = _edges(covered)
    while edges:
        start = min(edges)
        loop = [start]
        while True:
            ends = edges[loop[-1]]
            following = ends.pop()
            if not ends:
                del edges[loop[-1]]
            if following == start:
                break
            loop.append(following)
        yield [
            corner
            for i, corner in enumerate(loop)
            if _turns(loop[i - 1], corner, loop[(i + 1) % len(loop)])
        ]


def _edges(covered: NDArray[np.bool_]) -> dict[Corner, list[Corner]]:
    """Edges between covered and other cells, by starting point, with covered cells on the right."""
    edges: dict[Corner, list[Corner]] = {}
    padded = np.pad(covered, 1)
    for row, column in zip(*(places.tolist() for places in np.nonzero(covered)), strict=True):
        corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]
        beside = [
            (row, column + 1),
            (row + 1, column + 2),
            (row + 2, column + 1),
            (row + 1, column),
        ]
        for i, place in enumerate(beside):
            if not padded[place]:
                edges.setdefault(corners[i], []).append(corners[(i + 1) % 4])
    return edges


def _turns(before: Corner, at: Corner, after: Corner) -> bool:
    return (before[0] == at[0]) != (at[0] == after[0])
