"""Our question about CTL++: do unseen pairs of functions fail on the symbols that the two groups of
functions code differently?

All networks of a training share one function table, and therefore also the difficulty of each
symbol. The unit of analysis is thus the symbol within a table. The correlation within networks is
reported together with two others: with symbols centred over networks, and with the gap of another
network instead of the network's own. Only what a network's own gap predicts beyond these is a
property of the network rather than of the symbol.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.paper_table import count_of
from taskloom.analysis.similarity import Floats, gap
from taskloom.analysis.study import study
from taskloom.experiments.result_table import ResultTable, p_text
from taskloom.experiments.statistics import correct, over_seeds
from taskloom.experiments.statistics.distributions import (
    PERMUTATIONS,
    order_chance,
    pearson,
    rank_correlation,
    ranks,
    t_quantile,
)
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.experiments import similarity_experiments
from taskloom.papers.ctlpp.runs import DrawSetting, ModelSetting, VariantSetting
from taskloom.papers.ctlpp.symbol_similarity import (
    CONVERGED,
    evidence_table,
    group_numbers,
    matrix_figure,
    symbol_cosines,
)
from taskloom.papers.ctlpp.trained_models import TrainedModel, learned_seeds, trained_model


@study(
    "ctlpp/codes",
    describe=(
        "Accuracy of unseen pairs by how differently the groups of functions code the symbol"
        " between the two"
    ),
    experiment=similarity_experiments("A"),
)
def codes(
    runs: Runs,
    *,
    where: str = "readout",
    learner: ModelSetting = "",
    states: str = "",
    variant: VariantSetting = "A",
    draw: DrawSetting = "published",
) -> Finding:
    """Compare, symbol by symbol, how functions' groups code it with the accuracy of the pairs of
    functions around it.

    Args:
        runs: Runs that kept their models.
        where: A layer of the model, or `readout`.
        learner: Model whose runs are used: bilstm, transformer or ndr. Default: ndr, or any model
            if there is no run of it.
        states: A file of states, as `benchmarks/ctlpp_gpu.py train` writes it, in place of kept
            models.
        variant: The variant of CTL++.
        draw: Draw of the training data. Any draw if no run has that one.
    """
    pairs = learned_seeds(
        runs,
        learner=learner,
        variant=variant,
        converged=CONVERGED,
        states=states,
        draw=draw,
        answers=True,
    )
    models = {seed: trained_model(runs, group, seed, states) for group, seed in pairs}
    rows = {seed: symbol_rows(model, where, variant == "A") for seed, model in models.items()}
    table = [{"seed": seed, "ood": models[seed].ood, **seed_row(own)} for seed, own in rows.items()]
    data = ResultTable(
        (
            "seed",
            "symbol",
            "codes",
            "gap of groups",
            "seen pairs",
            "unseen pairs",
            "among its seed's",
        ),
        [{"seed": seed, **row, **_among(row, own)} for seed, own in rows.items() for row in own],
    )
    seeds = count_of([len(rows)], "seed")
    export = pairs[0][0].export
    caption = (
        "Accuracy on the pairs of functions that training does not have, by the gap of groups"
        " (mean cosine within groups less that between them) of the symbol between the two"
        f" functions: {pairs[0][0].label} on {variant}, draw {export}, a point for each symbol of"
        f" {seeds}, which share one function table. The unit is the symbol within the table; all"
        " inputs, so no interval."
    )
    special = [variant] * (variant != "A") + [export] * (export != "published")
    stem = "-".join(["codes", *special])
    best = max(models.values(), key=lambda model: model.ood)
    matrices = symbol_cosines(best, where)
    codes_of_best = matrix_figure(f"{stem}-best", best, matrices, range(len(matrices)), where)
    plot = partial(
        figures.lines,
        x="gap of groups",
        y="unseen pairs",
        series="among its seed's",
        xlabel="gap of groups",
        ylabel="accuracy on unseen pairs",
        joined=False,
        across=GAPS,
    )
    return Finding(
        "CTL++: codes of symbols and unseen pairs",
        _text(table, rows),
        ResultTable(SEED_COLUMNS, table),
        (
            StudyFigure(stem, caption, data, plot),
            *([codes_of_best] if best.succeeds else []),
        ),
    )


GAPS = (0.0, 0.7)
"""Limits of the figure's axis: the range of gaps seen in trained models. The axis is fixed so that
figures of different trainings are comparable.
"""


def _among(row: dict[str, Any], symbols: list[dict[str, Any]]) -> dict[str, str]:
    """Column that tells whether a symbol has the largest gap between groups in its network."""
    largest = max(symbols, key=lambda one: one["gap of groups"])
    return {"among its seed's": "largest gap of its seed" if row is largest else "other symbols"}


SEED_COLUMNS = (
    "seed",
    "ood",
    "separate",
    "scattered",
    "unseen pairs",
    "largest gap",
    "of symbol",
    "right through it",
    "through the others",
    "its share of failures",
    "worst symbol",
    "correlation",
)


def seed_row(symbols: list[dict[str, Any]]) -> dict[str, Any]:
    """Build a row that shows whether a network's unseen pairs fail on the symbol that its groups
    code most differently.

    Args:
        symbols: Result of `symbol_rows`. Every symbol is the intermediate symbol of the same number
            of pairs, so means over symbols are also means over pairs.
    """
    gaps, right = ([row[name] for row in symbols] for name in ("gap of groups", "unseen pairs"))
    kinds = Counter(row["codes"] for row in symbols)
    place = int(np.argmax(gaps))
    failures = sum(1 - share for share in right)
    return {
        **{kind: kinds[kind] for kind in ("separate", "scattered")},
        "unseen pairs": statistics.fmean(right),
        "largest gap": gaps[place],
        "of symbol": symbols[place]["symbol"],
        "right through it": right[place],
        "through the others": statistics.fmean(right[:place] + right[place + 1 :]),
        "its share of failures": (1 - right[place]) / failures if failures else None,
        "worst symbol": symbols[int(np.argmin(right))]["symbol"] if failures else None,
        "correlation": rank_correlation(gaps, right),
    }


def _text(table: list[dict[str, Any]], rows: dict[int, list[dict[str, Any]]]) -> str:
    failing = [row for row in table if row["worst symbol"] is not None]
    if not failing:
        return (
            "No unseen pair of functions fails, so that there is no failure to"
            f" explain.{codes_and_outcomes(table)}"
        )
    symbols = len(next(iter(rows.values())))
    hits = sum(row["of symbol"] == row["worst symbol"] for row in failing)
    return (
        f"In {hits} of {count_of([len(failing)], 'seed')} the symbol with the largest gap of groups"
        " is the one that unseen pairs fail on most; by chance it would be one in"
        f" {symbols}.{_symbol_sentences(rows)}{codes_and_outcomes(table)}"
    )


def _symbol_sentences(rows: dict[int, list[dict[str, Any]]]) -> str:
    """Sentences on how much of the correlation is due to the symbol and to the network."""
    # If a network has the same accuracy on all symbols, they cannot be ranked.
    ranked = [own for own in rows.values() if len({row["unseen pairs"] for row in own}) > 1]
    if len(ranked) < FEWEST:
        return ""
    gaps = np.array([[row["gap of groups"] for row in own] for own in ranked])
    right = np.array([[row["unseen pairs"] for row in own] for own in ranked])
    own = within_networks(gaps, right)
    centred, low, high = centred_correlation(gaps, right)
    return (
        " Spearman's correlation of gap and accuracy over the symbols of a network is"
        f" {_mean_and_interval(own)} on average (t over {len(own)} networks of one table). With the"
        f" gap of another network it is {other_networks(gaps, right):.2f}, with symbols centred"
        f" over networks {centred:.2f} [{low:.2f}, {high:.2f}] (jackknife over networks). Networks"
        f" agree on which symbols are hard: Kendall's W of accuracy is {concordance(right):.2f}. If"
        " gaps are dealt to the networks at random, a correlation as strong as with their own has"
        f" {p_text(own_gap_chance(gaps, right))} (permutation of networks, one test)."
    )


def _mean_and_interval(values: list[float]) -> str:
    estimate = over_seeds(values)
    if math.isnan(estimate.low):
        return f"{estimate.mean:.2f}"
    return f"{estimate.mean:.2f} [{max(-1.0, estimate.low):.2f}, {min(1.0, estimate.high):.2f}]"


def within_networks(gaps: Floats, right: Floats) -> list[float]:
    """Correlation between gap and accuracy over the symbols of each network.

    Args:
        gaps: Gap between groups [networks, symbols].
        right: Accuracy of the unseen pairs with this intermediate symbol [networks, symbols].
    """
    return [
        rank_correlation(gap.tolist(), share.tolist())
        for gap, share in zip(gaps, right, strict=True)
    ]


def other_networks(gaps: Floats, right: Floats) -> float:
    """Mean correlation between a network's accuracy and the gap of another network, over all
    ordered pairs of networks.
    """
    ranked_gaps, ranked_right = _standard_ranks(gaps), _standard_ranks(right)
    products = ranked_right @ ranked_gaps.T
    count = len(products)
    return float((products.sum() - np.trace(products)) / (count * (count - 1)))


def own_gap_chance(gaps: Floats, right: Floats) -> float:
    """Share of assignments of gaps to networks whose mean correlation is at least as strong as with
    their own gaps (two-sided). Assignments never permute symbols, so a symbol's difficulty shared
    by all networks affects all assignments equally.
    """
    products = _standard_ranks(right) @ _standard_ranks(gaps).T
    count = len(products)
    rng = np.random.default_rng(0)
    orders = np.stack([np.arange(count), *(rng.permutation(count) for _ in range(PERMUTATIONS))])
    # The products are centred, so strength is measured as the distance from what any network's gap
    # predicts.
    sums = np.abs(products[np.arange(count), orders].sum(axis=1) - products.mean() * count)
    return float((sums >= sums[0] - 1e-9).mean())


def centred_correlation(gaps: Floats, right: Floats) -> tuple[float, float, float]:
    """Correlation between gap and accuracy, ranked within networks, after subtracting each symbol's
    mean rank over networks; with a 95 % interval.

    The interval comes from a jackknife over networks.
    """
    count = len(gaps)
    value = _centred(gaps, right)
    without = np.array(
        [_centred(np.delete(gaps, k, 0), np.delete(right, k, 0)) for k in range(count)]
    )
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    half = t_quantile(0.975, count - 1) * error
    return value, max(-1.0, value - half), min(1.0, value + half)


def _centred(gaps: Floats, right: Floats) -> float:
    first, second = (_ranks(values) - _ranks(values).mean(axis=0) for values in (gaps, right))
    return pearson(first.ravel().tolist(), second.ravel().tolist())


def concordance(right: Floats) -> float:
    """Kendall's W: agreement of networks on the order of symbols, from 0 to 1, corrected for
    ties.
    """
    ranked = _ranks(right)
    networks, symbols = ranked.shape
    totals = ranked.sum(axis=0)
    spread = float(((totals - totals.mean()) ** 2).sum())
    # Ties reduce the variance of a network's ranks, and with it the largest possible spread of the
    # totals.
    most = networks * float(((ranked - ranked.mean(axis=1, keepdims=True)) ** 2).sum())
    return spread / most if most and symbols > 1 else math.nan


def _ranks(values: Floats) -> Floats:
    return np.array([ranks(row.tolist()) for row in values])


def _standard_ranks(values: Floats) -> Floats:
    """Ranks within rows with mean 0 and norm 1, so that products of rows are correlations."""
    centred = _ranks(values) - (values.shape[1] - 1) / 2
    standard: Floats = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return standard


FEWEST = 4
"""Minimum number of seeds for a correlation, as in the study of curves."""


KINDS = {"separate": "have separate codes", "scattered": "are scattered"}
"""Kinds of codes whose number of symbols is compared with a seed's ood accuracy."""


def codes_and_outcomes(table: list[dict[str, Any]]) -> str:
    """A sentence on whether seeds with separate, or with scattered, codes for more symbols are more
    accurate.
    """
    ood = [row["ood"] for row in table]
    counts = {kind: [float(row[kind]) for row in table] for kind in KINDS}
    tested = [kind for kind, own in counts.items() if len(set(own)) > 1]
    if len(table) < FEWEST or len(set(ood)) < 2 or not tested:
        return ""
    corrected = correct([order_chance(counts[kind], ood) for kind in tested], "holm")
    parts = [
        f"with the number of symbols that {KINDS[kind]} is"
        f" {rank_correlation(counts[kind], ood):.2f} ({p_text(float(p))})"
        for kind, p in zip(tested, corrected, strict=True)
    ]
    return (
        f" Over networks, that of ood accuracy {', '.join(parts)}, by permutation, corrected for"
        f" {len(tested)} test{'s' * (len(tested) > 1)} (Holm)."
    )


def mean_gaps(model: TrainedModel) -> tuple[float, float]:
    """Gap between groups at the read-out, averaged over symbols: for all vectors of a symbol, and
    only for pairs of vectors from different input symbols.

    If groups map inputs differently, vectors of one group more often come from the same input.
    Traces of the input in a vector then look like a code of the group. The second value excludes
    this effect.
    """
    groups = group_numbers(model)
    gaps = []
    for symbol, matrix in enumerate(symbol_cosines(model, "readout")):
        inputs = np.argmax(model.world.images == symbol, axis=1)
        different = inputs[:, None] != inputs[None, :]
        gaps.append((gap(matrix, groups), gap(matrix, groups, different)))
    of_all, of_different = np.array(gaps).mean(axis=0).tolist()
    return of_all, of_different


def symbol_rows(model: TrainedModel, where: str, alternating: bool) -> list[dict[str, Any]]:
    """Return statistics of each symbol's matrix, and the accuracy of the pairs with that
    intermediate symbol.

    Args:
        model: The model.
        where: Location of the state.
        alternating: True if training has pairs from different groups (A), False if from the same
            group (R).
    """
    groups, right = group_numbers(model), model.pair_scores()
    table, _ = evidence_table(model, symbol_cosines(model, where))
    seen = (groups[:, None] != groups[None, :]) == alternating
    rows = []
    for row in table:
        starts = np.argmax(model.world.images == row["symbol"], axis=1)
        own = right[starts, np.arange(model.world.functions)]
        shares = {"seen pairs": float(own[seen].mean()), "unseen pairs": float(own[~seen].mean())}
        rows.append(
            {**{name: row[name] for name in ("symbol", "codes", "gap of groups")}, **shares}
        )
    return rows
