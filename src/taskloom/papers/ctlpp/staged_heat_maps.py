"""Figures 4, 7 and 8 of CTL++: accuracy on S by the number of shared functions and of shared symbols."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.seed_scores import count_of, interval_columns
from taskloom.analysis.settings import check_split
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seeds
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.small_worlds import staged_experiments
from taskloom.papers.ctlpp.trainings import MODELS, ModelSetting, Trainings, of_learner, trainings

SOLVED = 0.99
"""An accuracy that rounds to the 1.00 of the paper's figures, up to chance errors of a hundredth."""


def heat_map_finding(runs: Runs, number: int, usual: str, learner: str, split: str) -> Finding:
    """Return the heat map of a model on S.

    Args:
        runs: The runs.
        number: Of the paper's figure.
        usual: The learner of that figure.
        learner: Another one instead.
        split: Of which the accuracy is.
    """
    maker = f"reproduce ctlpp/figure{number}"
    trained = trainings(runs, "S", maker)
    if not learner and all(group.model != usual for group in trained):
        others = sorted({group.model for group in trained})
        raise StudyError(
            f"{runs.path} has no runs of {MODELS[usual]} on ctl/S, of which Figure {number} is; 'taskloom {maker}' makes "
            f"some, and learner={others[0]} draws those that are there"
        )
    groups = of_learner(runs, trained, learner or usual)
    check_split(runs, split)
    rows = sorted(
        (_cell(group, split) for group in groups), key=lambda r: (r["overlap"], r["shared symbols"])
    )
    columns = ("overlap", "shared symbols", "mean", "sd", "low", "high", "seeds", "group size")
    data = ResultTable(columns, rows)
    label = groups[0].label
    symbols = groups[0].conditions.get("recipe.symbols")
    counts = [row["seeds"] for row in rows]
    means = (
        f"mean{' ± standard deviation' if max(counts) > 1 else ''} over {count_of(counts, 'seed')}"
    )
    caption = (
        f"Accuracy of {label} on {split} of S ({means}) by shared functions and shared symbols of {symbols}. The unit is "
        f"the seed on one dataset a setting; chance is 1/{symbols}."
    )
    draw = partial(
        heat_map, x="shared symbols", y="overlap", value="mean", spread="sd", ylabel="shared functions"
    )  # fmt: skip
    solved = [
        f"({r['overlap']}, {r['shared symbols']})"
        for r in rows
        if r["mean"] is not None and r["mean"] >= SOLVED
    ]
    return Finding(
        f"CTL++ Figure {number}: {label} on S",
        f"{len(solved)} of {len(rows)} settings (shared functions, shared symbols) reach {SOLVED:g}"
        + (f": {', '.join(solved)}." if solved else "."),
        data,
        (StudyFigure(f"figure{number}", caption, data, draw),),
        notes=(
            "The paper shows these values as shades only, so there are no published numbers to compare with. Its text: to reach "
            "100 %, 16 of 32 functions must be shared, on 6 of 8 symbols.",
            "More shared functions also make the tested groups smaller (column 'group size'); this does not separate the two.",
        ),
    )


def _cell(group: Trainings, split: str) -> dict[str, Any]:
    scores = group.of(split)
    estimate = over_seeds(scores) if len(scores) > 1 else None
    overlap, functions = (
        int(group.conditions[f"recipe.{name}"]) for name in ("overlap", "functions")
    )
    return {
        "overlap": overlap,
        "shared symbols": int(group.conditions["recipe.shared_symbols"]),
        "mean": statistics.fmean(scores) if scores else None,
        "sd": statistics.stdev(scores) if len(scores) > 1 else None,
        **interval_columns(estimate),
        "seeds": len(scores),
        "group size": -(-(functions - overlap) // 4),
    }


def _register(number: int, usual: str) -> Callable[..., Finding]:
    """Register the study of one of the paper's heat maps."""

    @study(
        f"ctlpp/figure{number}",
        describe=f"Accuracy of {MODELS[usual]} on CTL++ S by shared functions and shared symbols",
        place=f"CTL++, Figure {number}",
        experiment=staged_experiments(usual),
    )
    def figure(runs: Runs, *, split: str = "ood", learner: ModelSetting = "") -> Finding:
        """Draw the heat map.

        Args:
            runs: The runs.
            split: The split whose accuracy is drawn.
            learner: Of these runs, the model: bilstm, transformer or ndr; by default that of the figure.
        """
        return heat_map_finding(runs, number, usual, learner, split)

    return figure


figure4 = _register(4, "ndr")
figure7 = _register(7, "transformer")
figure8 = _register(8, "bilstm")
