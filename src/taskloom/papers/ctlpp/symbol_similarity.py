"""Figures 3, 6 and 9 to 11 of CTL++. Is a symbol represented by the same vector regardless of the
function that produced it? Can a second function use the output of a first one from another cluster
or group?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map, shade_cells
from taskloom.analysis.paper_table import count_range, table_of
from taskloom.analysis.similarity import (
    ALIKE,
    GAP,
    SILHOUETTE,
    ClusterEvidence,
    Floats,
    Labels,
    cosines,
    evidence,
    paper_clusters,
)
from taskloom.analysis.study import NumberSetting, StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.experiments import similarity_experiments
from taskloom.papers.ctlpp.runs import ModelSetting, VariantSetting
from taskloom.papers.ctlpp.trained_models import TrainedModel, chosen_model, outcome_note
from taskloom.suites.ctl.world import SymbolWorld

CONVERGED = 0.5
"""Seeds with a lower iid accuracy are left out, as in Table 1."""


def symbol_cosines(model: TrainedModel, where: str) -> Floats:
    """Cosine matrix of each symbol: [symbol, function, function]."""
    return np.stack([cosines(vectors) for vectors in model.states(where)])


def group_numbers(model: TrainedModel) -> Labels:
    """Index of each function's group."""
    names = list(model.world.groups)
    return np.array([names.index(group) for group in model.world.group_of()], dtype=np.int64)


def matrix_rows(model: TrainedModel, symbol: int, matrix: Floats) -> Iterator[dict[str, Any]]:
    """Yield the cells of a symbol's matrix, ordered by cluster and function."""
    labels, groups = paper_clusters(matrix), model.world.group_of()
    order = sorted(range(len(labels)), key=lambda f: (labels[f], f))
    for row, first in enumerate(order):
        for column, second in enumerate(order):
            yield {
                "symbol": symbol,
                "row": row,
                "column": column,
                "first": model.world.names[first],
                "second": model.world.names[second],
                "group": groups[first],
                "cluster": int(labels[first]) + 1,
                "cosine": round(float(matrix[first, second]), 4),
            }


def draw_matrices(data: ResultTable) -> Any:
    """Draw a cosine matrix for each symbol, from white (0 or less) to black (1).

    A strip shows the groups of the functions, and frames along the diagonal show the clusters of
    the paper's cut.
    """
    with figures.style():
        if not data:
            return figures.without_data()
        symbols = figures.values_of(data, "symbol")
        functions = max(row["row"] for row in data) + 1
        if functions <= 12:
            side = SMALL
        else:
            side = LARGE if len(symbols) < ACROSS else MIDDLE
        figure, axes = figures.canvas(len(symbols), (side + 0.25, side + 0.38), ACROSS)
        groups = sorted({row["group"] for row in data})
        for axis, symbol in zip(axes, symbols, strict=False):
            own = [row for row in data if row["symbol"] == symbol]
            grid = np.zeros((functions, functions))
            for row in own:
                grid[row["row"], row["column"]] = row["cosine"]
            cells = shade_cells(axis, grid)
            firsts = sorted((row for row in own if row["column"] == 0), key=itemgetter("row"))
            _strip(axis, firsts, groups, letters=min(7.0, LETTER * side / functions))
            _frames(axis, firsts)
            axis.set_title(f"symbol {symbol}")
        for axis in axes[
            max(0, len(symbols) - figures.grid_of(len(symbols), ACROSS)[1]) : len(symbols)
        ]:
            axis.set_xlabel("function", labelpad=3)
        _key(figure, axes[: len(symbols)], axes[len(symbols) :], cells, groups)
        return figure


ACROSS = 3
"""Matrices per row. The paper's eight symbols leave a ninth cell free for the key."""

SMALL, MIDDLE, LARGE = 2.1, 2.75, 3.6
"""Width of a matrix in inches: for few functions; for many functions, with three matrices per page;
for many functions, with one or two matrices.
"""

LETTER = 72 * 0.97
"""Total width in points, per inch of a matrix, of the function names below it, which have one
letter each.
"""

STRIP = ("#a8361d", "#9cc3de", "#e0c060", "#7aa870", "#999999")
"""A dark red and a light blue, as in the paper, that can be distinguished without colour."""

FRAME = "#a8361d"


def _key(figure: Any, axes: list[Any], free: list[Any], cells: Any, groups: list[str]) -> None:
    """Draw a legend for shades, strips and frames in the free cell of the grid, if there is one, or
    else next to and below the matrices.
    """
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=STRIP[place % len(STRIP)], label=f"functions of $G_{{{group}}}$")
        for place, group in enumerate(groups)
    ]
    if any(patch.get_label() == CLUSTER for axis in axes for patch in axis.patches):
        handles.append(Patch(facecolor="none", edgecolor=FRAME, label=CLUSTER))
    bar: dict[str, Any] = {"label": "cosine", "ticks": [0, 0.2, 0.4, 0.6, 0.8, 1]}
    if free:
        free[0].set_visible(True)
        free[0].axis("off")
        place = free[0].inset_axes((0.08, 0.72, 0.84, 0.07))
        shades = figure.colorbar(cells, cax=place, orientation="horizontal", **bar)
        legend = free[0].legend(
            handles=handles, loc="upper left", bbox_to_anchor=(0.05, 0.5), frameon=False
        )
    else:
        shades = figure.colorbar(cells, ax=axes, fraction=0.05, **bar)
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), frameon=False
        )
    shades.solids.set(edgecolor="face", linewidth=0.3)
    for text in legend.get_texts():
        text.set_parse_math(True)


CLUSTER = "clusters of the paper's cut"


def _frames(axis: Any, firsts: list[dict[str, Any]]) -> None:
    """Draw a frame around each cluster of several functions, if there is more than one."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    clusters = {
        cluster: [row["row"] for row in own]
        for cluster, own in groupby(firsts, key=itemgetter("cluster"))
    }
    ends = [(places[0] - 0.5, places[-1] + 0.5) for places in clusters.values() if len(places) > 1]
    if len(clusters) < 2 or not ends:
        return
    frames = [Path([(a, a), (b, a), (b, b), (a, b), (a, a)], closed=True) for a, b in ends]
    whole = Path.make_compound_path(*frames)
    for color, width in (
        ("#ffffff", 2.2),
        (FRAME, 1.1),
    ):  # drawn in grey next to white, to distinguish the frame from dark cells
        axis.add_patch(
            PathPatch(whole, fill=False, edgecolor=color, linewidth=width, label=CLUSTER, zorder=3)
        )


def _strip(axis: Any, firsts: list[dict[str, Any]], groups: list[str], letters: float) -> None:
    """Draw the group of each function to the left of the matrix, and the functions' names below
    it.
    """
    from matplotlib.patches import Rectangle

    functions = len(firsts)
    width = 0.05 * functions
    for group, own in groupby(firsts, key=itemgetter("group")):
        places = [row["row"] for row in own]
        colour = STRIP[groups.index(group) % len(STRIP)]
        corner = (-0.5 - 1.4 * width, places[0] - 0.5)
        axis.add_patch(
            Rectangle(corner, width, len(places), facecolor=colour, edgecolor="none", clip_on=False)
        )
    axis.set_xticks(range(functions), [row["first"] for row in firsts], fontsize=letters)
    axis.set_yticks([])
    axis.tick_params(length=0, pad=2)
    for spine in ("top", "right"):
        axis.spines[spine].set_visible(True)


def evidence_table(
    model: TrainedModel, matrices: Floats
) -> tuple[ResultTable, list[ClusterEvidence]]:
    """Statistics of each symbol's matrix, as a table and as values."""
    groups = group_numbers(model)
    values = [evidence(matrix, groups) for matrix in matrices]
    rows = [
        {
            "symbol": symbol,
            "clusters of the cut": one.clusters,
            "silhouette": one.silhouette,
            "gap of clusters": one.gap,
            "gap of groups": one.group_gap,
            "mean cosine": one.mean,
            "codes": one.codes,
        }
        for symbol, one in enumerate(values)
    ]
    return table_of(rows), values


def matrix_figure(
    stem: str, model: TrainedModel, matrices: Floats, symbols: Sequence[int], where: str
) -> StudyFigure:
    """Build a figure with the matrices of selected symbols in one network.

    Args:
        stem: Stem of the figure's files.
        model: The network.
        matrices: Cosine matrices of all symbols.
        symbols: Symbols to draw.
        where: The location of the states.
    """
    columns = ("symbol", "row", "column", "first", "second", "group", "cluster", "cosine")
    cells = [row for s in symbols for row in matrix_rows(model, s, matrices[s])]
    caption = (
        f"Cosine of a symbol's vectors at '{where}' by the function that made it: {model.name} (ood"
        f" accuracy {model.ood:.3f}; one model, no interval). Functions are ordered by the paper's"
        f" clusters; the strip shows their group. {len(matrices[0])} functions, {len(symbols)} of"
        f" {len(matrices)} symbols."
    )
    return StudyFigure(stem, caption, ResultTable(columns, cells), draw_matrices)


def similarity_finding(
    runs: Runs,
    number: int,
    *,
    variant: str,
    wanted: str,
    learner: str = "",
    seed: int | None = None,
    where: str = "readout",
    few: bool = False,
    states: str = "",
) -> Finding:
    """Compare the vectors of each symbol in one trained model.

    Args:
        runs: Runs that kept their models.
        number: Number of the paper's figure.
        variant: A or R.
        wanted: `failed` or `successful`, for the seed with the lowest or the highest ood accuracy.
        learner: Name of the learner. Default: NDR, or any if there is no run of NDR.
        seed: Use this seed instead.
        where: The location of the state: `readout`, `layer.K`, `argument`.
        states: A file of states in place of kept models.
        few: True to draw only two symbols: those with the largest and the smallest gap between
            groups.
    """
    model = chosen_model(
        runs,
        learner=learner,
        variant=variant,
        wanted=wanted,
        seed=seed,
        converged=CONVERGED,
        states=states,
    )
    matrices = symbol_cosines(model, where)
    table, values = evidence_table(model, matrices)
    symbols = list(range(len(matrices)))
    if few:
        ranked = sorted(symbols, key=lambda s: values[s].group_gap)
        symbols = [ranked[-1], ranked[0]]
    codes = Counter(v.codes for v in values)
    return Finding(
        f"CTL++ Figure {number}: similarity of representations, {wanted} seed on {variant}",
        f"The paper's cut finds {_counts([v.clusters for v in values])} clusters, as it always"
        f" finds at least two. By the absolute criterion (silhouette at least {SILHOUETTE:g},"
        f" cosines within clusters at least {GAP:g} higher than between) the vectors of"
        f" {codes['separate']} of {len(values)} symbols are separate codes, those of {codes['one']}"
        f" one code (mean cosine at least {ALIKE:g}), and those of {codes['scattered']} are"
        " scattered: neither.",
        table,
        (matrix_figure(f"figure{number}", model, matrices, symbols, where),),
        notes=(*outcome_note(model, wanted), claim_note(wanted, codes)),
    )


CLAIMS = {
    "failed": ("a failed seed has different representations of a symbol, in clusters", "separate"),
    "successful": (
        "a successful seed has no clusters, but one representation of a symbol for all functions",
        "one",
    ),
}
"""The paper's claim about failed and successful seeds (section 4.1), and the code that it implies
for a symbol by the absolute criterion.
"""


def claim_note(wanted: str, codes: Counter[str]) -> str:
    """State the paper's claim about a figure without published numbers, and the number of symbols
    for which it holds by the absolute criterion.
    """
    claim, expected = CLAIMS[wanted]
    return (
        "The paper shows shades only, so there are no published numbers to compare with. Its"
        f" claim: {claim}. By the absolute criterion this holds of {codes[expected]} of"
        f" {codes.total()} symbols here, in one network."
    )


def _counts(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _register(number: int, variant: str, wanted: str, few: bool = False) -> Callable[..., Finding]:
    """Register the study of one of the paper's similarity figures."""

    @study(
        f"ctlpp/figure{number}",
        describe=f"Similarity of symbols' representations by function, {wanted} NDR on {variant}",
        place=f"CTL++, Figure {number}",
        experiment=similarity_experiments(variant),
    )
    def figure(
        runs: Runs,
        *,
        seed: NumberSetting | None = None,
        where: str = "readout",
        learner: ModelSetting = "",
        states: str = "",
    ) -> Finding:
        """Draw the similarities of one seed.

        Args:
            runs: Runs that kept their models.
            seed: Seed of the model. Default: the one that fits the figure best.
            where: A layer of the model, or `readout`.
            learner: Model whose runs are used: bilstm, transformer or ndr. Default: ndr, or any
                model if there is no run of it.
            states: A file of states, as `benchmarks/ctlpp_gpu.py train` writes it, in place of kept
                models.
        """
        settings: dict[str, Any] = {
            "learner": learner,
            "seed": seed,
            "where": where,
            "states": states,
        }
        return similarity_finding(runs, number, variant=variant, wanted=wanted, few=few, **settings)

    return figure


figure3 = _register(3, "R", "failed", few=True)
figure9 = _register(9, "R", "successful")
figure10 = _register(10, "R", "failed")
figure11 = _register(11, "A", "failed")


def answers_through(right: NDArray[np.bool_], world: SymbolWorld, symbol: int) -> NDArray[np.bool_]:
    """Boolean matrix [first, second]: True if the composition of the two functions is answered
    correctly when `symbol` is the intermediate result.
    """
    starts = np.argmax(world.images == symbol, axis=1)
    through: NDArray[np.bool_] = right[starts, np.arange(world.functions)]
    return through


def telling_symbol(gaps: Sequence[float], right: NDArray[np.bool_], world: SymbolWorld) -> int:
    """The symbol with the largest gap between clusters, among those with wrong answers, because a
    figure with only right answers would show nothing. If no symbol has wrong answers, all symbols
    are considered.
    """
    symbols = range(world.symbols)
    failing = [s for s in symbols if not answers_through(right, world, s).all()]
    return max(failing or symbols, key=lambda symbol: gaps[symbol])


def accuracy_cells(
    right: NDArray[np.bool_], world: SymbolWorld, symbol: int, firsts: Labels, seconds: Labels
) -> NDArray[np.float64]:
    """Share of right answers by the label of the first and of the second function: [first, second].

    Only inputs with this intermediate symbol count, which is one input per first function.

    Args:
        right: True if the composition of two functions is answered correctly: [start symbol, first,
            second].
        world: The functions.
        symbol: The intermediate symbol.
        firsts: Label (cluster or group) of each function when it is applied first.
        seconds: Label of each function when it is applied second.
    """
    of_symbol = answers_through(right, world, symbol)
    return np.array(
        [
            [
                of_symbol[np.ix_(firsts == a, seconds == b)].mean()
                for b in range(int(seconds.max()) + 1)
            ]
            for a in range(int(firsts.max()) + 1)
        ]
    )


@study(
    "ctlpp/figure6",
    describe=(
        "Accuracy of two functions by the cluster, and by the group, of the first and the group of"
        " the second"
    ),
    place="CTL++, Figure 6",
    experiment=similarity_experiments("R"),
)
def figure6(
    runs: Runs,
    *,
    seed: NumberSetting | None = None,
    symbol: NumberSetting | None = None,
    where: str = "readout",
    learner: ModelSetting = "",
    states: str = "",
    variant: VariantSetting = "R",
) -> Finding:
    """Compute the accuracy of two-function compositions by cluster, for one intermediate symbol of
    a failed seed (in the paper, on R).

    Args:
        runs: Runs that kept their models.
        seed: Seed of the model. Default: the one that fits the figure best.
        symbol: Symbol between the two functions. Default: among those with wrong answers, the one
            whose clusters differ most.
        where: A layer of the model, or `readout`.
        learner: Model whose runs are used: bilstm, transformer or ndr. Default: ndr, or any model
            if there is no run of it.
        states: A file of states, as `benchmarks/ctlpp_gpu.py train` writes it, in place of kept
            models.
        variant: The variant of CTL++.
    """
    model = chosen_model(
        runs,
        learner=learner,
        variant=variant,
        wanted="failed",
        seed=seed,
        converged=CONVERGED,
        states=states,
        answers=True,
    )
    matrices, groups = symbol_cosines(model, where), group_numbers(model)
    gaps = [evidence(m, groups).gap for m in matrices]
    widest = int(np.argmax(gaps))
    right = model.pair_scores()
    if symbol is None:
        chosen = telling_symbol(gaps, right, model.world)
        why = _why(chosen, widest, asked=False)
    else:
        chosen = _checked(model, symbol)
        why = _why(chosen, widest, asked=True)
    names = [f"G_{name}" for name in model.world.groups]
    clusters = paper_clusters(matrices[chosen])
    rows = [
        *_rows(
            "(a) clusters",
            right,
            model,
            chosen,
            clusters,
            [f"C{i + 1}" for i in range(int(clusters.max()) + 1)],
        ),
        *_rows("(b) groups", right, model, chosen, groups, names),
    ]
    data = ResultTable(("panel", "first", "second", "accuracy", "inputs"), rows)
    draw = partial(
        heat_map, x="second", y="first", value="accuracy", panel="panel",
        xlabel="group of the second function", ylabel="first function", formulas=True,
    )  # fmt: skip
    caption = (
        "Share of right answers after two functions whose intermediate value is the symbol"
        f" {chosen}: {model.name} (ood accuracy {model.ood:.3f}; one model, all inputs"
        f" ({count_range(row['inputs'] for row in rows)} a cell), so no interval)."
    )
    return Finding(
        "CTL++ Figure 6: accuracy by cluster and group",
        f"{why} Over all symbols and pairs of functions {right.mean():.3f} of the"
        " answers are right.",
        data,
        (StudyFigure("figure6" if variant == "R" else f"figure6-{variant}", caption, data, draw),),
        notes=(*outcome_note(model, "failed"), SHADES),
    )


SHADES = (
    "The paper shows shades only, so there are no published numbers to compare with. Its claim, of"
    " one symbol of a failed seed on R: one cluster works with the functions of one group alone,"
    " the other with those of both."
)


def _why(chosen: int, widest: int, asked: bool) -> str:
    """Explain in a sentence why this symbol is shown."""
    if chosen == widest:
        return f"Symbol {chosen} has the largest gap between clusters."
    if asked:
        return (
            f"Symbol {chosen} was asked for; symbol {widest} has the largest gap between clusters."
        )
    return (
        f"Symbol {chosen} has the largest gap between clusters of the symbols with wrong answers;"
        f" through symbol {widest}, which has the largest of all, every answer is right."
    )


def _checked(model: TrainedModel, symbol: int) -> int:
    """Return the symbol, or raise an error if the world does not have it."""
    if symbol >= model.world.symbols:
        raise StudyError(
            f"symbol is {symbol}; this world has the symbols 0 to {model.world.symbols - 1}"
        )
    return symbol


def _rows(
    panel: str,
    right: NDArray[np.bool_],
    model: TrainedModel,
    symbol: int,
    firsts: Labels,
    labels: Sequence[str],
) -> Iterator[dict[str, Any]]:
    seconds = group_numbers(model)
    cells = accuracy_cells(right, model.world, symbol, firsts, seconds)
    for a, label in enumerate(labels):
        for b, group in enumerate(model.world.groups):
            inputs = int((firsts == a).sum() * (seconds == b).sum())
            yield {
                "panel": panel,
                "first": label,
                "second": f"G_{group}",
                "accuracy": float(cells[a, b]),
                "inputs": inputs,
            }
