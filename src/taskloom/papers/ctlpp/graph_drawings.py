"""Figures 1, 2 and 5 of CTL++: the sampling graphs of A, S and R, drawn from the recipes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.study import study
from taskloom.experiments.result_table import ResultTable
from taskloom.recipe import read
from taskloom.suites.ctl.fields import CtlFields
from taskloom.suites.ctl.graphs import Graph, split_graph
from taskloom.suites.ctl.world import SymbolWorld, build

START = "start"

BOTH, TRAINING, TEST = "training and test", "training only", "test only"
STROKES: dict[str, tuple[str, Any]] = {
    BOTH: ("#111111", "-"),
    TRAINING: ("#1b6ca8", "--"),
    TEST: ("#c4472b", ":"),
}
"""Colours as in the paper. The line style makes the same distinction without colour."""


def edges(graph: Graph, world: SymbolWorld) -> dict[tuple[str, str], bool]:
    """Return which group may follow which, and whether it may do so after every symbol.

    The traversal combines each node of the graph with the group of the last function, because
    several groups may lead to the same node (such as the start of S, to which every second function
    returns).
    """
    groups = world.group_of()
    following: dict[tuple[str, str], bool] = {}
    seen, waiting = {(0, START)}, [(0, START)]
    while waiting:
        node, last = waiting.pop()
        for f, group in enumerate(groups):
            allowed = graph.step[node, :, f] >= 0
            if not allowed.any():
                continue
            following[last, group] = following.get((last, group), True) and bool(allowed.all())
            for following_node in np.unique(graph.step[node, allowed, f]):
                state = (int(following_node), group)
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
    return following


def graph_table(recipe: str) -> ResultTable:
    """Edges of a recipe's training and test graphs: which group may follow which, and when."""
    fields = read(recipe).fields
    assert isinstance(fields, CtlFields)
    world = build(fields)
    train, test = (
        edges(split_graph(world, fields.variant, split), world) for split in ("seen", "ood")
    )
    rows = []
    for edge in sorted({**train, **test}, key=lambda e: (e[0] != START, e)):
        if edge in train and edge in test:
            when = BOTH
        else:
            when = TRAINING if edge in train else TEST
        every = {**train, **test}[edge]
        rows.append(
            {
                "from": edge[0],
                "to": edge[1],
                "when": when,
                "after": "every symbol" if every else "allowed symbols",
            }
        )
    return ResultTable(("from", "to", "when", "after"), rows)


NODE = 0.27
"""Radius of a circle. The figure's unit is about an inch."""

HEAD = (0.17, 0.065)
"""Length and half the width of an arrow's head."""


def draw_graph(data: ResultTable) -> Any:
    """Draw a sampling graph: groups as circles, and an arrow for each composition that is
    sampled.
    """
    from matplotlib.patches import Circle

    with figures.style():
        names = list(dict.fromkeys(name for row in data for name in (row["from"], row["to"])))
        places = _places(names)
        wide = max(x for x, _ in places.values())
        figure, (axis,) = figures.canvas(1, (wide + 1.2, 3.4))
        for row in _with_returns(data):
            _arrow(axis, _curve(places[row["from"]], places[row["to"]]), row["when"])
        for name, place in places.items():
            face = "#ffffff" if name == START else "#eeeeee"
            axis.add_patch(Circle(place, NODE, facecolor=face, edgecolor="#111111", zorder=2))
            text = name if name == START else f"$G_{{{name}}}$"
            axis.text(
                *place, text, ha="center", va="center", fontsize=10, zorder=3, parse_math=True
            )
        axis.set(xlim=(-0.4, wide + 0.4), ylim=(-1.75, 1.75), aspect="equal")
        axis.axis("off")
        _legend(figure, {row["when"] for row in data})
        return figure


COLUMNS = {START: 0, "a": 1.9, "b": 1.9, "a1": 1.7, "b1": 1.7, "a2": 3.9, "b2": 3.9, "o": 3.9}
ROWS = {START: 0.0, "o": 0.0}

Point = tuple[float, float]


def _places(names: list[str]) -> dict[str, Point]:
    """Positions of groups: stages from left to right, path a above path b, shared groups between
    them.
    """
    return {
        n: (COLUMNS.get(n, 1.9), ROWS.get(n, 0.9 if n.startswith("a") else -0.9)) for n in names
    }


def _with_returns(data: ResultTable) -> list[dict[str, Any]]:
    """Return the arrows to draw. A group that always leads back to the start gets one arrow, to the
    start.
    """
    first = {row["to"] for row in data if row["from"] == START}
    arrows = []
    for name in dict.fromkeys(row["from"] for row in data):
        own = [row for row in data if row["from"] == name]
        back = (
            name != START
            and {row["to"] for row in own} == first
            and len({row["when"] for row in own}) == 1
        )
        arrows += [{**own[0], "to": START}] if back else own
    return arrows


def _curve(start: Point, end: Point) -> list[Point]:
    """The four control points of the Bézier curve from the border of one circle to that of another,
    or back to the same circle.
    """
    if start == end:
        side = 1 if start[1] > 0 else -1
        left, right = (
            (side * 0.5 * way, side * 0.866) for way in (-1, 1)
        )  # sixty degrees above the horizontal
        return [
            _towards(start, by, NODE * far)
            for by, far in ((left, 1), (left, 3.2), (right, 3.2), (right, 1))
        ]
    bend = 0.0 if start[0] < end[0] else 0.12
    if end[0] < start[0]:  # back to the start, around the outside
        bend = math.copysign(0.4, start[1]) if start[1] else 0.0
    across, up = end[0] - start[0], end[1] - start[1]
    middle = ((start[0] + end[0]) / 2 + bend * up, (start[1] + end[1]) / 2 - bend * across)
    first, last = (_towards(p, (middle[0] - p[0], middle[1] - p[1]), NODE) for p in (start, end))
    # Raise the quadratic curve with control point `middle` to an equivalent cubic curve.
    controls = [((p[0] + 2 * middle[0]) / 3, (p[1] + 2 * middle[1]) / 3) for p in (first, last)]
    return [first, *controls, last]


def _towards(place: Point, direction: Point, distance: float) -> Point:
    length = math.hypot(*direction)
    return (
        place[0] + distance * direction[0] / length,
        place[1] + distance * direction[1] / length,
    )


def _arrow(axis: Any, curve: list[Point], when: str) -> None:
    """Draw a curve with a solid arrowhead. With dotted lines, matplotlib's own arrowheads would be
    dotted, too.
    """
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    colour, line = STROKES[when]
    *before, tip = curve
    back = (before[-1][0] - tip[0], before[-1][1] - tip[1])
    foot = _towards(tip, back, HEAD[0])
    sides = [
        _towards(foot, turned, HEAD[1]) for turned in ((-back[1], back[0]), (back[1], -back[0]))
    ]
    path = Path([*before, _towards(tip, back, 0.8 * HEAD[0])], [Path.MOVETO, *[Path.CURVE4] * 3])
    axis.add_patch(
        PathPatch(path, fill=False, edgecolor=colour, linestyle=line, linewidth=1.5, zorder=1)
    )
    axis.add_patch(
        Polygon([tip, *sides], closed=True, facecolor=colour, edgecolor="none", zorder=1)
    )


def _legend(figure: Any, kinds: set[str]) -> None:
    from matplotlib.lines import Line2D

    shown = [kind for kind in STROKES if kind in kinds]
    handles = [
        Line2D([], [], color=STROKES[k][0], linestyle=STROKES[k][1], linewidth=1.5, label=k)
        for k in shown
    ]
    figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=len(handles))


def finding(number: int, recipe: str) -> Finding:
    """Build a finding with the sampling graph of a recipe."""
    data = graph_table(recipe)
    variant = recipe.rpartition("/")[2]
    caption = (
        f"Sampling graph of {variant}, from the recipe {recipe}. A circle is a group of functions,"
        " an arrow a composition that is sampled: the group at its head is applied to the result"
        " of the group at its foot. A group with an arrow to the start is followed by whatever may"
        " come first."
    )
    return Finding(
        f"CTL++ Figure {number}: sampling graph of {variant}",
        "",
        data,
        (StudyFigure(f"figure{number}", caption, data, draw_graph),),
        notes=tuple(_notes(data)),
    )


def _notes(data: ResultTable) -> Iterator[str]:
    allowed = [
        f"G_{row['from']} to G_{row['to']}" for row in data if row["after"] == "allowed symbols"
    ]
    if allowed:
        yield (
            f"{' and '.join(allowed)}: only after the symbols that the second function is allowed"
            " to follow."
        )


@study(
    "ctlpp/figure1",
    describe="Sampling graph of CTL++ A",
    place="CTL++, Figure 1",
    from_recipes=True,
)
def figure1(scale: str) -> Finding:
    """Draw the sampling graph of A."""
    return finding(1, "ctl/A")


@study(
    "ctlpp/figure2",
    describe="Sampling graph of CTL++ S",
    place="CTL++, Figure 2",
    from_recipes=True,
)
def figure2(scale: str) -> Finding:
    """Draw the sampling graph of S."""
    return finding(2, "ctl/S")


@study(
    "ctlpp/figure5",
    describe="Sampling graph of CTL++ R",
    place="CTL++, Figure 5",
    from_recipes=True,
)
def figure5(scale: str) -> Finding:
    """Draw the sampling graph of R."""
    return finding(5, "ctl/R")
