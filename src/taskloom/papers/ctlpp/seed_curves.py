"""Our question about CTL++: when does each seed leave guessing, and does what it has learned by then last?"""

from __future__ import annotations

from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.learning_steps import Curve, first_step, step_columns
from taskloom.analysis.seed_scores import count_of
from taskloom.analysis.settings import ShareSetting
from taskloom.analysis.study import StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import correct
from taskloom.experiments.table import Runs
from taskloom.papers.ctlpp.accuracy_table import model_of_label, short_names
from taskloom.papers.ctlpp.rank_correlations import order_chance, rank_correlation
from taskloom.papers.ctlpp.small_worlds import table_experiments
from taskloom.papers.ctlpp.trainings import Trainings, trainings

SPLITS = ("iid", "ood")


@study(
    "ctlpp/curves",
    describe="Learning curves on CTL++ seed by seed, and the steps at which seeds have learned",
    experiment=table_experiments,
)
def curves(runs: Runs, *, threshold: ShareSetting = 0.95) -> Finding:
    """Draw the curves of every seed; a mean of seeds of which some have learned and others not is like none of them.

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
    points = [
        {"trainings": name, "seed": seed, "split": split, "step": step, "score": score}
        for name, group in zip(names, groups, strict=True)
        for seed, run in sorted(group.runs.items())
        for split in SPLITS
        for step, score in sorted(by_run.get((run, split), {}).items())
    ]
    data = ResultTable(("trainings", "seed", "split", "step", "score"), points)
    seeds = count_of((row["seeds"] for row in rows), "seed")
    caption = (
        f"Accuracy by training step, a line for each seed ({seeds}), so no interval. Models were trained for different numbers of "
        "steps: the axes of one model are alike, those of two are not. The dotted line is chance."
    )
    columns = (
        "trainings",
        "seeds",
        "learned",
        "first",
        "median",
        "last",
        "correlation",
        "corrected_p",
    )
    return Finding(
        "CTL++ learning curves",
        f"Learned: seeds whose iid accuracy reaches {threshold:g}; then the first measured step at which it does, for the earliest "
        "seed, the median and the last. Correlation: Spearman's, over the seeds that learned, of that step with the ood accuracy "
        f"at that step, if they are {FEWEST} or more; negative if seeds that learn sooner do better. Its unit is the seed on one "
        "dataset; p is two-sided, by permutation, and corrected for all correlations of the table (Holm).",
        ResultTable(columns, rows),
        (StudyFigure("curves", caption, data, partial(draw_curves, chance=groups[0].chance)),),
    )


def _when_learned(
    group: Trainings, curves: dict[tuple[str, str], Curve], threshold: float
) -> list[tuple[int, float]]:
    """Return, for each seed that has learned, the step at which it has and its ood accuracy at that step."""
    pairs = []
    for run in group.runs.values():
        step = first_step(curves.get((run, "iid"), {}), threshold)
        ood = curves.get((run, "ood"), {})
        if step is not None and step in ood:
            pairs.append((step, ood[step]))
    return pairs


FEWEST = 4
"""Seeds of which a correlation is given: of three no order is surer than one in three."""


def _sooner_is_better(pairs: list[tuple[int, float]]) -> dict[str, float | None]:
    """Return whether seeds that learn sooner do better on unseen compositions as soon as they have learned, as columns of a row."""
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
"""A split's colour and dashes, which differ in grey as well."""


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
