"""Our question about CTL++: do unseen pairs of functions fail on the symbols that the groups of functions code differently?"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from taskloom.experiments.result_table import ResultTable, p_text
from taskloom.experiments.runs import Runs
from taskloom.experiments.statistics import over_seeds
from taskloom.studies import figures
from taskloom.studies.ctlpp.rank_correlations import order_chance, rank_correlation
from taskloom.studies.ctlpp.small_worlds import similarity_experiments
from taskloom.studies.ctlpp.symbol_similarity import (
    CONVERGED,
    evidence_table,
    group_numbers,
    matrix_figure,
    symbol_cosines,
)
from taskloom.studies.ctlpp.trained_models import TrainedModel, learned_seeds, trained_model
from taskloom.studies.ctlpp.trainings import DrawSetting, ModelSetting, VariantSetting
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
    draw: DrawSetting = "published",
) -> Finding:
    """Compare, symbol by symbol, the codes of its groups with the pairs of functions that it stands between.

    Args:
        runs: Runs that kept their models.
        where: A layer of the model, or `readout`.
        learner: Of these runs, the model: bilstm, transformer or ndr; ndr by default, or any where no run is of it.
        states: A file of states, as `benchmarks/ctlpp_gpu.py train` writes it, in place of kept models.
        variant: The variant of CTL++.
        draw: Runs whose training data were drawn so; any, where no run is of that draw.
    """
    pairs = learned_seeds(
        runs, learner=learner, variant=variant, converged=CONVERGED, states=states, draw=draw, answers=True
    )
    models = {seed: trained_model(runs, group, seed, states) for group, seed in pairs}
    rows = {seed: symbol_rows(model, where, variant == "A") for seed, model in models.items()}
    table = [{"seed": seed, "ood": models[seed].ood, **seed_row(own)} for seed, own in rows.items()]
    data = ResultTable(
        ("seed", "symbol", "codes", "gap of groups", "seen pairs", "unseen pairs", "among its seed's"),
        [{"seed": seed, **row, **_among(row, own)} for seed, own in rows.items() for row in own],
    )
    seeds = count_of([len(rows)], "seed")
    caption = (
        "Accuracy on the pairs of functions that training does not have, by the gap of groups (mean cosine within groups less that "
        f"between them) of the symbol between the two functions: {pairs[0][0].label} on {variant}, draw {draw}, a point for each "
        f"symbol of {seeds}; all inputs, so no interval."
    )
    special = [variant] * (variant != "A") + [draw] * (draw != "published")
    stem = "-".join(["codes", *special])
    best = max(models.values(), key=lambda model: model.ood)
    matrices = symbol_cosines(best, where)
    codes_of_best = matrix_figure(f"{stem}-best", best, matrices, range(len(matrices)), where)
    plot = partial(
        figures.lines, x="gap of groups", y="unseen pairs", series="among its seed's", xlabel="gap of groups",
        ylabel="accuracy on unseen pairs", joined=False, across=GAPS,
    )  # fmt: skip
    return Finding(
        "CTL++: codes of symbols and unseen pairs",
        _text(table, symbols=len(next(iter(rows.values())))),
        ResultTable(SEED_COLUMNS, table),
        (
            StudyFigure(stem, caption, data, plot),
            *([codes_of_best] if best.succeeds else []),
        ),
    )


GAPS = (0.0, 0.7)
"""Of the figure's axis: as far as the gaps of trained models reach, so that figures of different trainings can be compared."""


def _among(row: dict[str, Any], symbols: list[dict[str, Any]]) -> dict[str, str]:
    """Return whether a symbol is the one that the groups of its network code most differently."""
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
    """Return whether the unseen pairs of one network fail on the symbol that its groups code most differently.

    Args:
        symbols: What `symbol_rows` returns. Every symbol stands between as many pairs, so means over symbols are means over pairs.
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


def _text(table: list[dict[str, Any]], symbols: int) -> str:
    failing = [row for row in table if row["worst symbol"] is not None]
    if not failing:
        return f"No unseen pair of functions fails, so that there is no failure to explain.{codes_and_outcomes(table)}"
    hits = sum(row["of symbol"] == row["worst symbol"] for row in failing)
    known = [row["correlation"] for row in table if not math.isnan(row["correlation"])]
    mean = statistics.fmean(known) if known else math.nan
    estimate = over_seeds(known) if len(known) > 1 else None
    interval = (
        f" [{max(-1.0, estimate.low):.2f}, {min(1.0, estimate.high):.2f}]"
        if estimate and not math.isnan(estimate.low)
        else ""
    )
    return (
        f"In {hits} of {count_of([len(failing)], 'seed')} the symbol with the largest gap of groups is the one that unseen pairs "
        f"fail on most; by chance it would be in one of {symbols} (so often or more: "
        f"{p_text(at_least(hits, len(failing), 1 / symbols))}). Spearman's correlation of gap and accuracy over the symbols "
        f"of a seed is {mean:.2f}{interval} on average (t over seeds).{codes_and_outcomes(table)}"
    )


FEWEST = 4
"""Seeds of which a correlation is given, as in the study of curves."""


KINDS = {"separate": "have separate codes", "scattered": "are scattered"}
"""The numbers of symbols that a seed's ood accuracy is compared with."""


def codes_and_outcomes(table: list[dict[str, Any]]) -> str:
    """Return a sentence on whether seeds with separate, or with scattered, codes for more symbols do better."""
    ood, parts = [row["ood"] for row in table], []
    for kind, words in KINDS.items():
        counts = [float(row[kind]) for row in table]
        if len(table) >= FEWEST and len(set(counts)) > 1 and len(set(ood)) > 1:
            rho, p = rank_correlation(counts, ood), order_chance(counts, ood)
            parts.append(f"with the number of symbols that {words} is {rho:.2f} ({p_text(p)})")
    return f" Over seeds, that of ood accuracy {', '.join(parts)}, by permutation." if parts else ""


def at_least(hits: int, trials: int, chance: float) -> float:
    """Return the probability of so many hits or more.

    >>> at_least(1, 2, 0.5), at_least(0, 3, 0.1)
    (0.75, 1.0)
    """
    return min(
        1.0, sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(hits, trials + 1))
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
