"""Our questions about CTL++ that learning curves answer. When does each seed rise above chance, and
does it keep what it has learned? How does the number of layers at test time affect accuracy? (The
public code trains NDR with 8 layers and tests it with 10.)
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.any_runs import Curve, first_step, step_columns
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.paper_table import count_of, count_range, interval_columns, table_of
from taskloom.analysis.study import ShareSetting, StudyError, study
from taskloom.core.files import path_of, read_utf8
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import correct, over_seeds
from taskloom.experiments.statistics.distributions import order_chance, rank_correlation
from taskloom.experiments.table import Runs
from taskloom.learners.saved import load
from taskloom.papers.ctlpp.accuracy_table import CONVERGED, model_of_label, short_names
from taskloom.papers.ctlpp.experiments import layer_experiments, table_experiments
from taskloom.papers.ctlpp.runs import PROCESSES, Trainings, trainings

SPLITS = ("iid", "ood")


@study(
    "ctlpp/curves",
    describe="Learning curves on CTL++ seed by seed, and the steps at which seeds have learned",
    experiment=table_experiments,
)
def curves(runs: Runs, *, threshold: ShareSetting = 0.95) -> Finding:
    """Draw a curve for every seed. If some seeds have learned and others have not, the mean curve
    describes none of them.

    Args:
        runs: Runs with learning curves.
        threshold: The accuracy from which a seed counts as having learned.
    """
    by_run: dict[tuple[str, str], Curve] = {}
    for point in runs.curves().to_pylist():
        if point["score"] is not None and point["split"] in SPLITS:
            by_run.setdefault((point["run"], point["split"]), {})[point["step"]] = point["score"]
    groups = [g for g in trainings(runs) if any((run, "iid") in by_run for run in g.runs.values())]
    if not groups:
        raise StudyError(
            f"{runs.path} has no learning curves on iid; set evaluate_every in the learners"
        )
    names = short_names(groups)
    rows = [_row(name, group, by_run, threshold) for name, group in zip(names, groups, strict=True)]
    tested = [row for row in rows if row["corrected_p"] is not None]
    for row, p in zip(tested, correct([row["corrected_p"] for row in tested], "holm"), strict=True):
        row["corrected_p"] = float(p)
    points = []
    for name, group in zip(names, groups, strict=True):
        for (seed, run), split in product(sorted(group.runs.items()), SPLITS):
            line = {"trainings": name, "seed": seed, "split": split}
            curve = sorted(by_run.get((run, split), {}).items())
            points += [{**line, "step": step, "score": score} for step, score in curve]
    data = ResultTable(("trainings", "seed", "split", "step", "score"), points)
    seeds = count_of((row["seeds"] for row in rows), "seed")
    caption = (
        f"Accuracy by training step, a line for each seed ({seeds}), so no interval. Models were"
        " trained for different numbers of steps: the axes of one model are alike, those of two"
        " are not. The dotted line is chance."
    )
    return Finding(
        "CTL++ learning curves",
        f"Learned: seeds whose iid accuracy reaches {threshold:g}; then the first measured step at"
        " which it does, for the earliest seed, the median and the last. Correlation: Spearman's,"
        " over the seeds that learned, of that step with the ood accuracy at that step, if they"
        f" are {FEWEST} or more; negative if seeds that learn sooner do better. Its unit is the"
        " seed on one dataset; p is two-sided, by permutation, and corrected for all correlations"
        " of the table (Holm).",
        table_of(rows),
        (StudyFigure("curves", caption, data, partial(draw_curves, chance=groups[0].chance)),),
    )


def _when_learned(
    group: Trainings, curves: dict[tuple[str, str], Curve], threshold: float
) -> list[tuple[int, float]]:
    """For each seed that has learned, return the step at which it did and its ood accuracy at that
    step.
    """
    pairs = []
    for run in group.runs.values():
        step = first_step(curves.get((run, "iid"), {}), threshold)
        ood = curves.get((run, "ood"), {})
        if step is not None and step in ood:
            pairs.append((step, ood[step]))
    return pairs


FEWEST = 4
"""Minimum number of seeds for a correlation. With three seeds, even a perfect one occurs by
chance in one of three cases.
"""


def _sooner_is_better(pairs: list[tuple[int, float]]) -> dict[str, float | None]:
    """Correlation between learning early and accuracy on unseen compositions right after learning,
    as columns of a row.
    """
    steps, scores = [float(step) for step, _ in pairs], [score for _, score in pairs]
    if len(pairs) < FEWEST or len(set(steps)) == 1 or len(set(scores)) == 1:
        return {"correlation": None, "corrected_p": None}
    return {
        "correlation": rank_correlation(steps, scores),
        "corrected_p": order_chance(steps, scores),
    }


def _row(
    name: str, group: Trainings, curves: dict[tuple[str, str], Curve], threshold: float
) -> dict[str, Any]:
    own = [curves[run, "iid"] for run in group.runs.values() if (run, "iid") in curves]
    firsts = [step for curve in own if (step := first_step(curve, threshold)) is not None]
    return {
        "trainings": name,
        "seeds": len(own),
        "learned": len(firsts),
        **step_columns(firsts),
        **_sooner_is_better(_when_learned(group, curves, threshold)),
    }


LINES: dict[str, tuple[str, Any]] = {
    "iid": ("#111111", "-"),
    "ood": (figures.SHADES[1], (0, (3, 1))),
}
"""Colour and line style of each split. The line styles distinguish the splits without colour."""


def draw_curves(data: ResultTable, chance: float = 0.125) -> Any:
    """Draw a panel for each group of trainings and a thin line for each seed and split."""
    from matplotlib.lines import Line2D

    with figures.style():
        panels = figures.values_of(data, "trainings")
        about = [model_of_label(title) for title in panels]
        figure, axes = figures.canvas(len(panels), (3.6, 2.5), about=about, sharey=True)
        longest = {
            model: max(row["step"] for row in data if model_of_label(row["trainings"]) == model)
            for model in about
        }
        for axis, title in zip(axes, panels, strict=False):
            lines: dict[tuple[int, str], tuple[list[int], list[float]]] = {}
            for row in data:
                if row["trainings"] == title:
                    steps, scores = lines.setdefault((row["seed"], row["split"]), ([], []))
                    steps.append(row["step"])
                    scores.append(row["score"])
            for (_, split), (steps, scores) in lines.items():
                colour, dashes = LINES[split]
                axis.plot(
                    [step / 1000 for step in steps],
                    scores,
                    color=colour,
                    linestyle=dashes,
                    linewidth=0.9,
                )
            axis.axhline(chance, color="#444444", linewidth=1.0, linestyle=":")
            end = longest[model_of_label(title)] / 1000
            axis.set(
                title=title,
                xlabel="thousand training steps",
                xlim=(-0.03 * end, 1.03 * end),
                ylim=(-0.03, 1.03),
            )
            axis.grid(color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
        for axis in figures.first_of_rows(axes):
            axis.set_ylabel("accuracy")
        handles = [
            Line2D([], [], color=c, linestyle=d, linewidth=0.9, label=s)
            for s, (c, d) in LINES.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        return figure


FEWER, MORE = 2, 4
"""Number of layers to test below and above the number used in training. The public code's 10
instead of 8 is within this range.
"""

FEWEST_LAYERED = 3
"""Minimum number of seeds for an interval. With two seeds it would span the whole axis."""


Answered = dict[tuple[int, str], dict[int, float]]
"""Accuracy by seed, for a number of layers and a split."""


@study(
    "ctlpp/layers",
    describe="Accuracy on CTL++ by how often the shared layer is applied when answering",
    experiment=layer_experiments,
)
def layers(runs: Runs, *, by_layers: str = "") -> Finding:
    """Evaluate the same items with fewer and more layers than in training.

    Args:
        runs: Runs that kept their models.
        by_layers: A file of accuracies by layers, in place of kept models.
    """
    groups = [g for g in trainings(runs) if "learner.layers" in g.conditions]
    if not groups:
        raise StudyError(
            f"{runs.path} has no runs of a model whose layer can be applied more or less often;"
            " make some, e.g. with 'taskloom reproduce ctlpp/layers'"
        )
    answered = list(_answered(runs, groups, by_layers))
    answered = [one for one in answered if _learned(one[0])] or answered
    answered.sort(key=lambda one: groups.index(one[0]))
    names = short_names([group for group, _ in answered])
    rows = [
        row for name, one in zip(names, answered, strict=True) for row in _layer_rows(name, *one)
    ]
    columns = ("trainings", "layers", "trained with", "split", "mean", "low", "high", "seeds")
    data = ResultTable(columns, rows)
    caption = (
        "Accuracy by the number of times that the shared layer is applied when answering. Means"
        f" over seeds ({count_range(r['seeds'] for r in rows)}), from {FEWEST_LAYERED} on with 95 %"
        " intervals. The unit is the seed (t over seeds of one dataset); the items are the same."
    )
    draw = partial(
        figures.lines,
        x="layers",
        series="split",
        panel="trainings",
        xlabel="layers when answering",
        row=model_of_label,
    )
    return Finding(
        "CTL++ by the layers at test",
        "The models are those of the runs; only the number of layers when answering changes. Seeds"
        f" that did not learn (an iid accuracy of at most {CONVERGED:g}), and trainings of which no"
        " seed did, are left out where others did.",
        data,
        (StudyFigure("layers", caption, data, draw),),
    )


def _answered(
    runs: Runs, groups: list[Trainings], by_layers: str
) -> Iterator[tuple[Trainings, Answered]]:
    if not by_layers:
        yield from ((group, _answers(runs, group)) for group in groups)
        return
    for entry in _entries(path_of(by_layers)):
        what = (entry["learner"], entry["variant"], entry["draw"])
        seeds: list[int] = entry["seeds"]
        drawn = (
            None,
            entry.get("processes", PROCESSES),
        )  # only the published draw depends on processes
        first = [
            g for g in groups if g.table_seed == 0 and g.data_seed == 0
        ]  # files of accuracies by layers record neither seed
        alike = [g for g in first if (g.model, g.variant, g.draw) == what and g.processes in drawn]
        own = [g for g in alike if set(seeds) <= set(g.seeds)]
        if not own:
            raise StudyError(
                f"{by_layers} has accuracies of {', '.join(what)}, {runs.path} has no such runs;"
                " name runs that have them, such as curves.json beside"
                " docs/results/ctlpp/layers.json"
            )
        yield (
            own[0],
            {
                (int(count), split): dict(zip(seeds, values, strict=True))
                for split, counts in entry["accuracy"].items()
                for count, values in counts.items()
            },
        )


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries: list[dict[str, Any]] = json.loads(read_utf8(path, StudyError))["trainings"]
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError(
            f"{path} has no accuracies by layers ({type(error).__name__}: {error})"
        ) from error
    return entries


def _answers(runs: Runs, group: Trainings) -> Answered:
    """Evaluate every saved model on the test splits with each number of layers."""
    trained = int(group.conditions["learner.layers"])
    scores: Answered = {}
    for seed, run in group.runs.items():
        folder = runs.model(run)
        if folder is None:
            raise StudyError(
                f"the run {run} of {runs.path} kept no model; run it with keep: {{model: true}}, or"
                " name a file of accuracies by layers (by_layers=FILE.json; docs/results/ctlpp has"
                " one)"
            )
        fitted: Any = load(folder)
        for split in SPLITS:
            items = runs.predictions(split, ["input", "targets"], runs=[run]).to_pylist()
            texts = [item["input"] for item in items]
            for count in range(max(1, trained - FEWER), trained + MORE + 1):
                answers = fitted.with_layers(count).answer(texts)
                right = [a in item["targets"] for a, item in zip(answers, items, strict=True)]
                if right:
                    scores.setdefault((count, split), {})[seed] = sum(right) / len(right)
    return scores


def _learned(group: Trainings) -> set[int]:
    """The seeds that learned their training data."""
    return {seed for seed, score in group.scores.get("iid", {}).items() if score > CONVERGED}


def _layer_rows(name: str, group: Trainings, answered: Answered) -> Iterator[dict[str, Any]]:
    learned = _learned(group)
    for (count, split), by_seed in answered.items():
        values = [score for seed, score in by_seed.items() if seed in learned] or list(
            by_seed.values()
        )
        estimate = over_seeds(values) if len(values) >= FEWEST_LAYERED else None
        yield {
            "trainings": name,
            "layers": count,
            "trained with": int(group.conditions["learner.layers"]),
            "split": split,
            "mean": statistics.fmean(values),
            **interval_columns(estimate),
            "seeds": len(values),
        }
