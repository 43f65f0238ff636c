"""Matrices of many cells as shapes: one outline for each shade, so that a figure is small, sharp at every size and without seams.

A shape for each cell would make a file of a megabyte, and viewers that smooth the edge of each shape let the paper shine through
between neighbours. So shades are layers: that of shade k covers all cells of shade k or darker, and lies on the layers before it.
No two shapes share an edge with nothing below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = 20
"""Shades from 0 to 1, steps of 0.05: about as many greys as an eye tells apart, and half the bytes of 32 shades."""

Corner = tuple[int, int]
"""Place across and place down, counted in cells from the upper left."""


def shade_cells(axis: Any, grid: NDArray[np.float64]) -> Any:
    """Draw a square matrix of numbers, from white (below the first step) to black (from the last on), the first row above.

    Args:
        axis: Where it is drawn; the middle of the cell in the first row and column is at (0, 0).
        grid: The numbers, of which 0 to 1 are told apart.

    Returns:
        What matplotlib's `colorbar` makes a bar of shades from.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PathCollection

    colors, norm = shades()
    steps = np.clip(np.floor(grid * STEPS + 1e-9), 0, STEPS - 1)  # 0.15 / 0.05 is a little less than 3
    for step in range(1, STEPS):
        covered = steps >= step
        if covered.any():
            layer = PathCollection([_path(covered)], facecolors=[colors(step)], edgecolors="none")
            axis.add_collection(layer, autolim=False)
    axis.set(xlim=(-0.5, grid.shape[1] - 0.5), ylim=(grid.shape[0] - 0.5, -0.5), aspect="equal")
    return ScalarMappable(norm, colors)


def shades() -> tuple[Any, Any]:
    """Return the colours of the steps, and the numbers at which they begin and end."""
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
    """Yield the closed outlines of the covered cells, corners only; those of holes run in the other direction.

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
        yield [corner for i, corner in enumerate(loop) if _turns(loop[i - 1], corner, loop[(i + 1) % len(loop)])]


def _edges(covered: NDArray[np.bool_]) -> dict[Corner, list[Corner]]:
    """Return the edges between covered cells and others, by where they start, with the covered cell on the right."""
    edges: dict[Corner, list[Corner]] = {}
    padded = np.pad(covered, 1)
    for row, column in zip(*(places.tolist() for places in np.nonzero(covered)), strict=True):
        corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]
        beside = [(row, column + 1), (row + 1, column + 2), (row + 2, column + 1), (row + 1, column)]
        for i, place in enumerate(beside):
            if not padded[place]:
                edges.setdefault(corners[i], []).append(corners[(i + 1) % 4])
    return edges


def _turns(before: Corner, at: Corner, after: Corner) -> bool:
    return (before[0] == at[0]) != (at[0] == after[0])
