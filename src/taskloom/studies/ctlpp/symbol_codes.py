"""Our question about CTL++: do unseen pairs of functions fail on the symbols that the groups of functions code differently?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.runs import Runs
from taskloom.studies import figures
from taskloom.studies.ctlpp.small_worlds import similarity_experiments
from taskloom.studies.ctlpp.symbol_similarity import CONVERGED, evidence_table, group_numbers, symbol_cosines
from taskloom.studies.ctlpp.trained_models import TrainedModel, learned_seeds, trained_model
from taskloom.studies.ctlpp.trainings import ModelSetting, VariantSetting
from taskloom.studies.divergence_accuracy import pearson
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.seed_scores import count_of
from taskloom.studies.study import study


@study(
    "ctlpp/codes",
    describe="Accuracy of unseen pairs by how differently the groups of functions code the symbol between the two",
    experiment=similarity_experiments("A"),
)
def codes(
    runs: Runs,
    *,
    where: str = "readout",
    learner: ModelSetting = "",
    states: str = "",
    variant: VariantSetting = "A",
) -> Finding:
    """Compare, symbol by symbol, the codes of its groups with the pairs of functions that it stands between."""
    pairs = learned_seeds(runs, learner=learner, variant=variant, converged=CONVERGED, states=states)
    rows = [
        {"seed": seed, **row}
        for group, seed in pairs
        for row in symbol_rows(trained_model(runs, group, seed, states), where, variant == "A")
    ]
    columns = ("seed", "symbol", "codes", "gap of groups", "seen pairs", "unseen pairs")
    data = ResultTable(columns, rows)
    rho = rank_correlation([row["gap of groups"] for row in rows], [row["unseen pairs"] for row in rows])
    seeds = count_of([len(pairs)], "seed")
    caption = (
        "Accuracy on the pairs of functions that training does not have, by the gap of groups (mean cosine within groups less that "
        f"between them) of the symbol between the two functions: {pairs[0][0].label} on {variant}, a point for each symbol of "
        f"{seeds}; all inputs, so no interval."
    )
    draw = partial(
        figures.lines, x="gap of groups", y="unseen pairs", series="seed", xlabel="gap of groups",
        ylabel="accuracy on unseen pairs", joined=False,
    )  # fmt: skip
    return Finding(
        "CTL++: codes of symbols and unseen pairs",
        f"Spearman's correlation of the gap of groups with the accuracy on unseen pairs is {rho:.2f} over {len(rows)} symbols of "
        f"{seeds}. Symbols of one network are not independent, so there is no interval.",
        data,
        (StudyFigure("codes", caption, data, draw),),
    )


def symbol_rows(model: TrainedModel, where: str, alternating: bool) -> list[dict[str, Any]]:
    """Return what the matrix of each symbol says, and the accuracy of the pairs that the symbol stands between.

    Args:
        model: The model.
        where: The place of the state.
        alternating: Whether training has pairs of different groups (A), or of the same (R).
    """
    groups, right = group_numbers(model), model.pair_scores()
    table, _ = evidence_table(model, symbol_cosines(model, where))
    seen = (groups[:, None] != groups[None, :]) == alternating
    rows = []
    for row in table:
        starts = np.argmax(model.world.images == row["symbol"], axis=1)
        own = right[starts, np.arange(model.world.functions)]
        shares = {"seen pairs": float(own[seen].mean()), "unseen pairs": float(own[~seen].mean())}
        rows.append({**{name: row[name] for name in ("symbol", "codes", "gap of groups")}, **shares})
    return rows


def rank_correlation(x: list[float], y: list[float]) -> float:
    """Return Spearman's correlation, nan where one side does not vary; equal values share their mean rank.

    >>> round(rank_correlation([1.0, 2.0, 3.0, 4.0], [9.0, 7.0, 7.0, 1.0]), 3)
    -0.949
    """
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: list[float]) -> list[float]:
    array = np.asarray(values)
    return [float((array < value).sum() + ((array == value).sum() - 1) / 2) for value in array]
