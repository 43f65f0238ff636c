"""Matrices drawn as shapes: every cell is covered by the shades up to its own, and the drawing has
no image and few bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from taskloom.analysis import figures
from taskloom.analysis.heat_maps import STEPS, Corner, outlines, shade_cells
from taskloom.analysis.plot_style import shorten
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.ctlpp.symbol_similarity import draw_matrices


def area(outline: Sequence[Corner]) -> float:
    """Return the area inside an outline, negative where it runs the other way round."""
    return (
        sum(
            x * v - u * y
            for (x, y), (u, v) in zip(outline, [*outline[1:], outline[0]], strict=True)
        )
        / 2
    )


def test_an_outline_with_a_hole_is_two_outlines_in_different_directions() -> None:
    covered = np.ones((3, 3), dtype=bool)
    covered[1, 1] = False
    outer, hole = outlines(covered)
    assert outer == [(0, 0), (3, 0), (3, 3), (0, 3)]
    assert (area(outer), area(hole)) == (9, -1)


@pytest.mark.parametrize("seed", range(5))
def test_outlines_cover_as_many_cells_as_there_are_and_turn_at_every_corner(seed: int) -> None:
    covered = np.random.default_rng(seed).random((9, 7)) < 0.5
    loops = list(outlines(covered))
    assert sum(map(area, loops)) == covered.sum()
    for loop in loops:
        for before, at, after in zip(
            [loop[-1], *loop[:-1]], loop, [*loop[1:], loop[0]], strict=True
        ):
            assert (before[0] == at[0]) != (at[0] == after[0])


def test_each_cell_has_the_shade_of_its_number() -> None:
    """The layers at the middle of a cell are those of all steps up to its own."""
    with figures.style():
        grid = np.array([[1.0, 0.15, -0.4], [0.15, 1.0, 0.62], [-0.4, 0.049, 1.0]])
        _, (axis,) = figures.canvas(1, (3, 3))
        shade_cells(axis, grid)
        paths = [layer.get_paths()[0] for layer in axis.collections]
        depth = [
            [sum(path.contains_point((x, y)) for path in paths) for x in range(3)] for y in range(3)
        ]
    assert len(paths) == STEPS - 1
    assert depth == [[19, 3, 0], [3, 19, 12], [0, 0, 19]]


def matrices(symbols: int, functions: int) -> ResultTable:
    rng = np.random.default_rng(0)
    rows = [
        {
            "symbol": s,
            "row": r,
            "column": c,
            "first": chr(65 + r),
            "group": "ab"[r % 2],
            "cluster": 1,
            "cosine": rng.normal(0.4, 0.1),
        }
        for s in range(symbols)
        for r in range(functions)
        for c in range(functions)
    ]
    return ResultTable(tuple(rows[0]), rows)


def test_matrices_are_shapes_in_a_page_and_in_print() -> None:
    figure = draw_matrices(matrices(2, 16))
    drawing = figures.svg(figure)
    assert "<image" not in drawing
    assert "Subtype /Image" not in figures.pdf(figure).decode("latin-1")
    assert (
        len(drawing) < 2 * 16**2 * 80
    )  # bytes, of noise alone and with labels; a shape for each cell takes 230


def test_neighbours_of_one_group_are_one_piece_of_the_strip() -> None:
    table = matrices(1, 4)
    rows = [{**row, "group": "aabb"[row["row"]]} for row in table]
    figure = draw_matrices(ResultTable(table.columns, rows))
    assert [patch.get_height() for patch in figure.axes[0].patches] == [2, 2]
    assert figure.axes[0].get_xlabel() == "function"


def test_names_of_functions_can_be_read_on_a_page() -> None:
    """Eight matrices of 32 functions, as in the paper: a page of the documentation is 908 pixels
    wide, 9.46 inches.
    """
    figure = draw_matrices(matrices(8, 32))
    assert figure.get_figwidth() <= 9.46
    sizes = {label.get_fontsize() for axis in figure.axes[:8] for label in axis.get_xticklabels()}
    assert min(sizes) >= 6
    figures.svg(figure)  # lays it out
    width = figure.axes[0].get_position().width * figure.get_figwidth()
    assert 72 * width / 32 > 0.95 * max(sizes)  # or letters would run into each other
    assert not figure.legends, "the key stands in the ninth place"


def test_clusters_of_several_functions_are_framed() -> None:
    table = matrices(1, 5)
    rows = [{**row, "cluster": (1, 1, 2, 3, 3)[row["row"]]} for row in table]
    figure = draw_matrices(ResultTable(table.columns, rows))
    white, red = (patch for patch in figure.axes[0].patches if not patch.get_fill())
    assert red.get_linewidth() < white.get_linewidth()
    corners = {tuple(corner) for corner in red.get_path().vertices.tolist()}
    assert corners == {(x, y) for ends in ((-0.5, 1.5), (2.5, 4.5)) for x in ends for y in ends}
    (legend,) = figure.legends
    assert legend.get_texts()[-1].get_text() == "clusters of the paper's cut"


def test_matrices_without_runs_say_so() -> None:
    assert "No runs to draw" in figures.svg(draw_matrices(ResultTable(("symbol",), [])))


def test_a_short_drawing_keeps_labels_that_are_turned_or_have_fonts_of_their_own() -> None:
    def label(family: str, turn: str, text: str) -> str:
        style = f"font-size: 9px; font-family: {family}; text-anchor: middle"
        return (
            f'<g id="text_1">\n <text style="{style}" x="1.23456" y="2" transform="rotate({turn} 1'
            f' 2)">{text}</text>\n</g>'
        )

    labels = [
        label("A, serif", "-0", "one"),
        label("A, serif", "-90", "two"),
        label("B", "-0", "three"),
    ]
    assert shorten("\n".join(["<svg width='1'>", *labels, "</svg>"])).split("\n") == [
        "<svg font-family=\"A, serif\" width='1'>",
        '<text style="font-size: 9px; text-anchor: middle" x="1.23" y="2">one</text>',
        (
            '<text style="font-size: 9px; text-anchor: middle" x="1.23" y="2" transform="rotate(-90'
            ' 1 2)">two</text>'
        ),
        (
            '<text style="font-size: 9px; font-family: B; text-anchor: middle" x="1.23"'
            ' y="2">three</text>'
        ),
        "</svg>",
    ]
