"""Figure 6 of CTL++: does a second function understand what a first one, of another cluster or group, gives it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.seed_scores import count_range
from taskloom.analysis.settings import NumberSetting
from taskloom.analysis.similarity import Labels, evidence, paper_clusters
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.small_worlds import similarity_experiments
from taskloom.papers.ctlpp.symbol_similarity import CONVERGED, group_numbers, symbol_cosines
from taskloom.papers.ctlpp.trained_models import TrainedModel, chosen_model, outcome_note
from taskloom.papers.ctlpp.trainings import ModelSetting, VariantSetting
from taskloom.suites.ctl.world import SymbolWorld


def accuracy_cells(
    right: NDArray[np.bool_], world: SymbolWorld, symbol: int, firsts: Labels, seconds: Labels
) -> NDArray[np.float64]:
    """Return the share of right answers by the label of the first and of the second function: [first, second].

    Only inputs whose intermediate value is the symbol count: for each first function there is one.

    Args:
        right: Whether each two functions are answered right: [start symbol, first, second].
        world: The functions.
        symbol: The intermediate value.
        firsts: The label (cluster or group) of each function as the first.
        seconds: The label of each function as the second.
    """
    starts = np.argmax(world.images == symbol, axis=1)
    of_symbol = right[starts, np.arange(world.functions)]
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
    describe="Accuracy of two functions by the cluster, and by the group, of the first and the group of the second",
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
    """Compute the accuracy after two functions for one intermediate symbol of a failed seed; on R in the paper.

    Args:
        runs: Runs that kept their models.
        seed: The seed whose model is looked at; by default the one that fits the figure best.
        symbol: The symbol between the two functions; by default the one whose clusters differ most.
        where: A layer of the model, or `readout`.
        learner: Of these runs, the model: bilstm, transformer or ndr; ndr by default, or any where no run is of it.
        states: A file of states, as `benchmarks/ctlpp_gpu.py train` writes it, in place of kept models.
        variant: The variant of CTL++.
    """
    model = chosen_model(
        runs, learner=learner, variant=variant, wanted="failed", seed=seed, converged=CONVERGED, states=states, answers=True
    )  # fmt: skip
    matrices, groups = symbol_cosines(model, where), group_numbers(model)
    gaps = [evidence(m, groups).gap for m in matrices]
    widest = int(np.argmax(gaps))
    chosen = widest if symbol is None else _checked(model, symbol)
    right = model.pair_scores()
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
        f"Share of right answers after two functions whose intermediate value is the symbol {chosen}: {model.name} (ood accuracy "
        f"{model.ood:.3f}; one model, all inputs ({count_range(row['inputs'] for row in rows)} a cell), so no interval)."
    )
    return Finding(
        "CTL++ Figure 6: accuracy by cluster and group",
        f"{_why(chosen, widest)} Over all symbols and pairs of functions {right.mean():.3f} of the answers are right.",
        data,
        (StudyFigure("figure6" if variant == "R" else f"figure6-{variant}", caption, data, draw),),
        notes=(*outcome_note(model, "failed"), SHADES),
    )


SHADES = (
    "The paper shows shades only, so there are no published numbers to compare with. Its claim, of one symbol of a failed seed on "
    "R: one cluster works with the functions of one group alone, the other with those of both."
)


def _why(chosen: int, widest: int) -> str:
    """Return a sentence on the symbol that is shown."""
    if chosen == widest:
        return f"Symbol {chosen} has the largest gap between clusters."
    return f"Symbol {chosen} was asked for; symbol {widest} has the largest gap between clusters."


def _checked(model: TrainedModel, symbol: int) -> int:
    """Return a symbol that was asked for; refuse one that the world does not have."""
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
