"""Figures of studies: what is drawn is there to be read, also in grey and in small figures."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from taskloom.analysis import figures, plot_style
from taskloom.analysis.finding import Finding
from taskloom.analysis.findings_folder import write_findings
from taskloom.analysis.heat_maps import heat_map
from taskloom.experiments.result_table import ResultTable


@pytest.mark.parametrize("compositions", [3, 4, 16])
def test_the_bar_of_shades_of_a_narrow_map_is_no_stub(compositions: int) -> None:
    rows = [{"x": "where", "y": f"composition {i}", "mean": 0.5} for i in range(compositions)]
    figure = heat_map(ResultTable(("x", "y", "mean"), rows), x="x", y="y", value="mean")
    assert "<image" not in figures.svg(figure)  # which also lays it out
    assert b"Subtype /Image" not in figures.pdf(figure)
    bar = figure.axes[1].get_position().height * figure.get_figheight()
    assert bar > 1.4  # inches: 0.9 with a twentieth of the width


def test_a_value_of_zero_is_told_from_a_cell_without_items() -> None:
    rows = [{"x": "where", "y": "a", "mean": 0.0}, {"x": "who", "y": "b", "mean": 1.0}]
    figure = heat_map(ResultTable(("x", "y", "mean"), rows), x="x", y="y", value="mean")
    shades = figure.axes[0].collections[0]
    lightest = shades.to_rgba(0.0)[0]
    assert 0.85 < lightest < 0.97


def test_the_one_series_beside_published_numbers_is_named() -> None:
    rows = [
        {"place": "1", "series": "SmolLM2", "mean": 0.5, "published": shown}
        for shown in (0.6, None)
    ]
    for number, labels in ((0, ["SmolLM2", "published"]), (1, [])):
        table = ResultTable(("place", "series", "mean", "published"), rows[number : number + 1])
        figure = figures.intervals(table, place="place", series="series")
        assert [
            text.get_text() for legend in figure.legends for text in legend.get_texts()
        ] == labels


def test_long_labels_leave_the_panels_their_room() -> None:
    widths = []
    for label in ("one indefinite sentence", "one indefinite sentence (answer: maybe)"):
        table = ResultTable(
            ("place", "series", "mean"), [{"place": label, "series": "iid", "mean": 0.5}]
        )
        figure = figures.intervals(table, place="place", series="series")
        figures.svg(figure)
        widths.append(figure.get_figwidth())
    assert widths[0] == widths[1]
    (tick,) = figure.axes[0].get_yticklabels()
    assert tick.get_text() == "one indefinite sentence\n(answer: maybe)"


def test_figures_that_are_compared_have_the_same_axis_across() -> None:
    limits = []
    for most in (0.3, 0.6):
        rows = [{"gap": gap, "of": "one", "mean": 0.5} for gap in (0.0, most)]
        table = ResultTable(("gap", "of", "mean"), rows)
        limits.append(
            figures.lines(table, x="gap", series="of", joined=False, across=(0.0, 0.7))
            .axes[0]
            .get_xlim()
        )
    assert limits[0] == limits[1]
    assert limits[0][1] > 0.7


def test_a_threshold_is_a_dashed_line_across() -> None:
    rows = [{"step": step, "split": "iid", "mean": 0.5} for step in (1, 2)]
    table = ResultTable(("step", "split", "mean"), rows)
    (axis,) = figures.lines(table, x="step", series="split", threshold=0.9).axes
    assert [line.get_ydata()[0] for line in axis.lines if line.get_linestyle() == "--"] == [0.9]
    (axis,) = figures.lines(table, x="step", series="split").axes
    assert [line for line in axis.lines if line.get_linestyle() == "--"] == []


def test_series_that_a_panel_lacks_take_no_room_in_it() -> None:
    rows = [
        {"place": "1", "series": name, "panel": name[-1], "mean": 0.5}
        for name in ("a7", "b7", "a2", "b2")
    ]
    table = ResultTable(("place", "series", "panel", "mean"), rows)
    figure = figures.intervals(table, place="place", series="series", panel="panel")
    heights = [sorted(float(line.get_ydata()[0]) for line in axis.lines) for axis in figure.axes]
    assert heights[0] == heights[1]
    assert sum(heights[0]) == 0  # around the line of their place


def test_lines_differ_in_dashes_and_their_intervals_do_not_hide_each_other() -> None:
    rows = [
        {"step": s, "split": n, "mean": 0.5, "low": 0.4, "high": 0.6}
        for n in ("iid", "ood")
        for s in (10, 20)
    ]
    table = ResultTable(("step", "split", "mean", "low", "high"), rows)
    (axis,) = figures.lines(table, x="step", series="split").axes
    joined = [line for line in axis.lines if line.get_marker() != "None"]
    assert len({line.get_linestyle() for line in joined}) == 2
    bars = [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "None"]
    assert len(set(bars)) == 4
    assert all(abs(place - round(place / 10) * 10) < 1 for place in bars)
    (axis,) = figures.lines(table, x="step", series="split", joined=False).axes
    assert {line.get_linestyle() for line in axis.lines if line.get_marker() != "None"} == {"None"}
    assert {place for line in axis.lines for place in line.get_xdata()} == {10, 20}


def test_intervals_of_long_lines_are_bands() -> None:
    steps = range(figures.MOST_BARS + 1)
    ends: dict[str, float | None] = {"low": 0.4, "high": 0.6}
    rows = [{"step": s, "split": n, "mean": 0.5, **ends} for n in ("iid", "ood") for s in steps]
    rows[3] |= {"low": None, "high": None}
    table = ResultTable(("step", "split", "mean", "low", "high"), rows)
    (axis,) = figures.lines(table, x="step", series="split").axes
    assert len(axis.lines) == len(axis.collections) == 2
    (axis,) = figures.lines(table, x="step", series="split", joined=False).axes
    assert len(axis.lines) == 2 + 2 * len(steps) - 1
    assert len(axis.collections) == 0


@pytest.mark.parametrize("last", [80_000, 300_000, 1_000_000])
def test_numbers_of_steps_do_not_run_into_each_other(last: int) -> None:
    rows = [
        {"step": s, "of": f"learner {n}", "split": "ood", "mean": 0.5}
        for n in range(3)
        for s in (0, last)
    ]
    table = ResultTable(("step", "of", "split", "mean"), rows)
    figure = figures.lines(table, x="step", series="split", panel="of")
    figure.draw_without_rendering()
    labels = [
        text.get_window_extent() for text in figure.axes[0].get_xticklabels() if text.get_text()
    ]
    inside = [
        box for box in labels if figure.axes[0].bbox.x0 - 20 < box.x0 < figure.axes[0].bbox.x1
    ]
    assert len(inside) > 2
    assert all(one.x1 + 2 < other.x0 for one, other in pairwise(inside))


def test_titles_of_a_map_do_not_run_into_its_bar_of_shades() -> None:
    titles = [
        f"{learner}, ctl/A, split {split}"
        for split in ("iid", "ood")
        for learner in ("majority", "nearest-neighbour")
    ]
    rows = [
        {"x": "yes", "y": f"{i} b a b a b", "of": title, "mean": 0.1}
        for title in titles
        for i in range(8)
    ]
    figure = heat_map(
        ResultTable(("x", "y", "of", "mean"), rows), x="x", y="y", value="mean", panel="of"
    )
    figure.draw_without_rendering()
    *panels, bar = figure.axes
    assert max(axis.title.get_window_extent().x1 for axis in panels) < bar.get_window_extent().x0


def test_neighbouring_series_differ_in_grey() -> None:
    from matplotlib.colors import to_rgb

    greys = [
        0.299 * r + 0.587 * g + 0.114 * b
        for r, g, b in map(to_rgb, (*figures.SHADES, figures.SHADES[0]))
    ]
    assert min(abs(a - b) for a, b in pairwise(greys)) > 0.12


def test_published_numbers_are_the_only_diamonds_of_small_figures() -> None:
    assert "D" not in figures.MARKERS[:6]


def test_labels_that_panels_share_take_room_once() -> None:
    names = ["a label of some forty letters, all in all", "b"]
    rows = [
        {"place": n, "series": "s", "panel": panel, "mean": 0.5}
        for n in names
        for panel in (1, 2, 3)
    ]
    table = ResultTable(("place", "series", "panel", "mean"), rows)
    one, three = (
        figures.intervals(data, place="place", series="series", panel="panel").get_figwidth()
        for data in (ResultTable(table.columns, [row for row in rows if row["panel"] == 1]), table)
    )
    assert three < 2 * one


def test_panels_are_as_high_as_what_they_show() -> None:
    """A row of panels with one line each is not as high as one with twelve."""
    rows = [
        {"x": "a", "y": y, "panel": n, "mean": 0.5}
        for n in range(6)
        for y in range(1 if n < 3 else 12)
    ]
    figure = heat_map(
        ResultTable(("x", "y", "panel", "mean"), rows), x="x", y="y", value="mean", panel="panel"
    )
    figures.svg(figure)  # lays it out
    first, second = (figure.axes[place].get_position().height for place in (0, 3))
    assert second == pytest.approx(12 * first, rel=0.05)


@pytest.mark.parametrize(("letters", "columns"), [(3, 3), (40, 2), (70, 1)])
def test_panels_with_long_labels_of_their_own_stand_below_each_other(
    letters: int, columns: int
) -> None:
    rows = [{"place": "a" * letters, "series": "s", "panel": n, "mean": 0.5} for n in range(6)]
    table = ResultTable(("place", "series", "panel", "mean"), rows)
    figure = figures.intervals(table, place="place", series="series", panel="panel", shared=False)
    assert figure.axes[0].get_gridspec().ncols == columns
    assert figure.get_figwidth() < figures.WIDEST


def test_a_long_legend_takes_no_room_from_the_panels() -> None:
    heights = []
    for series in (1, 8):
        rows = [
            {"step": s, "series": f"{n} and a long name", "mean": 0.5}
            for s in (1, 2)
            for n in range(series)
        ]
        figure = figures.lines(
            ResultTable(("step", "series", "mean"), rows), x="step", series="series"
        )
        figures.svg(figure)
        heights.append(figure.axes[0].get_position().height * figure.get_figheight())
    assert heights[1] > 0.9 * heights[0]


def test_panels_about_something_else_begin_a_new_row() -> None:
    """As the learning curves of two models, of which one has three draws of two datasets."""
    titles = [
        "Transformer, A",
        "Transformer, R",
        *(f"NDR, {of} ({draw})" for of in "AR" for draw in ("x", "y", "z")),
    ]
    rows = [
        {"step": step, "split": "iid", "mean": 0.5, "panel": title}
        for title in titles
        for step in (1, 2)
    ]
    table = ResultTable(("step", "split", "mean", "panel"), rows)

    def model(title: str) -> str:
        return title.partition(",")[0]

    figure = figures.lines(table, x="step", series="split", panel="panel", row=model)
    places = {
        axis.get_title(): axis.get_subplotspec().num1 for axis in figure.axes if axis.get_visible()
    }
    assert list(places) == [title for title in titles if title in places]
    assert list(places.values()) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert [axis.get_title() for axis in figure.axes if axis.get_ylabel()] == [
        titles[0],
        titles[2],
        titles[5],
    ]
    few = figures.lines(
        ResultTable(table.columns, rows[:6]), x="step", series="split", panel="panel", row=model
    )
    assert len(few.axes) == 3, "one row is not torn apart"


def test_every_row_of_panels_says_what_is_up() -> None:
    rows = [
        {"step": s, "split": "iid", "panel": panel, "mean": 0.5}
        for s in (1, 2)
        for panel in range(4)
    ]
    table = ResultTable(("step", "split", "panel", "mean"), rows)
    assert [axis.get_ylabel() for axis in figures.lines(table, x="step", series="split", panel="panel").axes] == [
        "accuracy", "", "accuracy", "",
    ]  # fmt: skip
    maps = heat_map(table, x="step", y="split", value="mean", panel="panel", ylabel="part").axes
    assert [axis.get_ylabel() for axis in maps[:4]] == ["part", "", "part", ""]


def test_labels_of_a_map_are_formulas_only_where_that_is_wanted() -> None:
    table = ResultTable(("x", "y", "v"), [{"x": "G_a", "y": "C1", "v": 0.5}])
    plain, formulas = (
        heat_map(table, x="x", y="y", value="v", formulas=wanted).axes[0].get_xticklabels()[0]
        for wanted in (False, True)
    )
    assert (plain.get_text(), plain.get_parse_math()) == ("G_a", False)
    assert (formulas.get_text(), formulas.get_parse_math()) == ("$G_a$", True)


def test_a_figure_is_cut_where_its_drawing_ends() -> None:
    """A label that is longer than its figure is wide is not cut off."""
    figure, (axis,) = figures.canvas(1, (2, 2))
    axis.set_title("a title that is much wider than two inches of a figure are")
    width = float(figures.svg(figure).partition('width="')[2].partition("pt")[0])
    assert width > 3 * 72


def test_black_is_black_in_a_page(tmp_path: Path) -> None:
    """Matplotlib gives black shapes no colour: in a heat map the page's would make them lighter
    than dark grey ones.
    """
    page = write_findings(tmp_path, "A study", "", [Finding("A table")]).read_text()
    style = page.partition("svg.on-white {")[2].partition("}")[0]
    assert "fill: #000" in style


def test_notes_of_a_page_are_prose_and_not_code(tmp_path: Path) -> None:
    page = write_findings(
        tmp_path, "A study", "", [Finding("A table", notes=("One & two.", "Three."))]
    ).read_text()
    assert "<ul" in page
    assert "<li>One &amp; two.</li><li>Three.</li>" in page
    assert "<pre" not in page.partition("<main>")[2]


def test_names_in_any_script_are_drawn_without_a_warning() -> None:
    table = ResultTable(["x", "y", "v"], [{"x": "文", "y": "b", "v": 0.5}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "文" in figures.svg(heat_map(table, x="x", y="y", value="v"))
        figures.pdf(heat_map(table, x="x", y="y", value="v"))


def test_names_with_control_characters_leave_a_drawing_that_can_be_read() -> None:
    rows = [{"x": "a\x1b[31m", "y": "\x00b\tc", "v": 0.5}]
    drawing = figures.svg(heat_map(ResultTable(["x", "y", "v"], rows), x="x", y="y", value="v"))
    tree = ElementTree.fromstring(drawing)  # noqa: S314 - our own
    assert "a[31m" in [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_drawings_of_a_page_follow_its_colours_and_heat_maps_are_on_white() -> None:
    rows = [{"step": s, "split": n, "mean": 0.5} for n in ("iid", "ood", "#14568a") for s in (1, 2)]
    lines = figures.lines(ResultTable(("step", "split", "mean"), rows), x="step", series="split")
    text = figures.page_svg(lines, "curves of <b>")
    assert text.startswith("<svg width=")
    assert 'aria-label="curves of &lt;b&gt;"' in text
    assert f'stroke="var(--c0,{plot_style.COLOURS[0][0]})"' in text
    assert 'stroke="currentColor"' in text
    assert ">#14568a<" in text, "a label is not a colour"
    assert "style" not in text, "the viewer forbids styles"
    assert "on-white" not in text
    cells = ResultTable(("x", "y", "v"), [{"x": "a", "y": "b", "v": 0.3}])
    assert 'class="on-white"' in figures.page_svg(heat_map(cells, x="x", y="y", value="v"), "map")


def test_a_split_has_one_colour_in_all_figures() -> None:
    for names in (("iid", "ood"), ("other", "ood", "iid")):
        rows = [{"step": s, "split": n, "mean": 0.5} for n in names for s in (1, 2)]
        table = ResultTable(("step", "split", "mean"), rows)
        (axis,) = figures.lines(table, x="step", series="split").axes
        colours = dict(zip(names, (line.get_color() for line in axis.lines), strict=True))
        assert colours["iid"] == plot_style.COLOURS[plot_style.SPLITS["iid"]][0]
        assert colours["ood"] == plot_style.COLOURS[plot_style.SPLITS["ood"]][0]
        assert len(set(colours.values())) == len(names)
        assert plot_style.colour_of(names)["ood"] == plot_style.SPLITS["ood"], "also in reports"
