"""Studies of any runs, whatever they learned: steps until a learner is competent, and accuracy by
the distance between training and test splits.

`taskloom study runs/learning-steps RUNS` analyses your own runs. `taskloom reproduce` makes runs
first, with the experiment in `any_runs.yaml`.

Compound divergence (Keysers et al. 2020) is that of `taskloom audit`: 0 if the test split has the
same compounds as training in the same proportions, 1 if it has none of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.paper_table import repeated_runs, seed_point, seeds_caption
from taskloom.analysis.study import ShareSetting, StudyError, check_choice, study
from taskloom.core.errors import ParameterError, TaskloomError, nearest
from taskloom.core.plan import Role
from taskloom.data import dataset
from taskloom.data.audit.distribution import Divergence, divergences
from taskloom.data.dataset import Dataset
from taskloom.experiments.accuracy import run_labels, short_value, varying
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics.distributions import pearson
from taskloom.experiments.table import Runs
from taskloom.recipe.yaml_files import parse

EXPERIMENTS = Path(__file__).with_name("any_runs.yaml")
"""Experiments that demonstrate these studies if no runs are given."""


def any_recipe_experiments(scale: str, model: str) -> list[dict[str, Any]]:
    """Experiment on three worlds that keeps learning curves and models.

    Args:
        scale: `quick` or `full`.
        model: A learner of the file, a hub id or a folder of weights. Default: the first learner.
    """
    file = parse(EXPERIMENTS.read_text(encoding="utf-8"))
    # Only papers define a separate `paper` scale, so here it means `gpu`.
    scale = "quick" if scale == "quick" else "gpu"
    learners = file["learners"][scale]
    if not model:
        learner = next(iter(learners.values()))
    elif model in learners:
        learner = learners[model]
    elif "/" in model or Path(model).is_dir():
        learner = {**file["pretrained"][scale], "model": model}
    else:
        raise ParameterError(
            "model",
            f"must be a network, a hub id or a folder of weights, not '{model}';"
            f" {nearest(model, learners)}",
        )
    return [{**file["experiments"][scale], "learners": [learner]}]


Curve = dict[int, float]
"""Score by step."""


@study(
    "runs/learning-steps",
    describe="Steps until a learner reaches a threshold on each split, seed by seed",
    experiment=any_recipe_experiments,
)
def learning_steps(runs: Runs, *, threshold: ShareSetting = 0.95, split: str = "") -> Finding:
    """Find the first step at which each seed reaches the threshold.

    Args:
        runs: Runs with learning curves.
        threshold: Score to reach.
        split: Only this split. Default: all but training.
    """
    labels = run_labels(runs)
    curves: dict[tuple[str, str], dict[str, Curve]] = {}
    measured = [point for point in runs.curves().to_pylist() if point["score"] is not None]
    if split and measured:
        check_choice(runs, "split", split, (point["split"] for point in measured))
    for point in measured:
        if split in ("", point["split"]) and (split or point["split"] != "train"):
            group = (labels[point["run"]], point["split"])
            curves.setdefault(group, {}).setdefault(point["run"], {})[point["step"]] = point[
                "score"
            ]
    if not curves:
        raise StudyError(f"{runs.path} has no learning curves; set evaluate_every in the learners")
    rows = [_row(*group, seeds, threshold) for group, seeds in curves.items()]
    columns = ("trainings", "split", "seeds", "reached", "first", "median", "last")
    points = [p for group, seeds in curves.items() for p in _points(*group, seeds)]
    data = ResultTable(("trainings", "split", "step", "mean", "low", "high", "seeds"), points)
    caption = (
        f"Score by training step. {seeds_caption(len(seeds) for seeds in curves.values())}; the"
        f" dashed line is the threshold, {threshold:g}."
    )
    plot = partial(
        figures.lines,
        x="step",
        series="split",
        panel="trainings",
        xlabel="training steps",
        ylabel="score",
        threshold=threshold,
    )
    return Finding(
        "Steps to competence",
        f"The first measured step with a score of at least {threshold:g}, by seed: the earliest, "
        "the median and the last of those that reach it. A seed counts as having reached it even "
        "if its score falls again.",
        ResultTable(columns, rows),
        (StudyFigure("learning-steps", caption, data, plot),),
    )


def first_step(curve: Curve, threshold: float) -> int | None:
    """First step whose score reaches the threshold; None if there is none.

    >>> first_step({100: 0.5, 200: 0.97, 300: 0.9}, 0.95)
    200
    """
    return next((step for step in sorted(curve) if curve[step] >= threshold), None)


def _row(trainings: str, split: str, seeds: dict[str, Curve], threshold: float) -> dict[str, Any]:
    firsts = [
        step for curve in seeds.values() if (step := first_step(curve, threshold)) is not None
    ]
    return {
        "trainings": trainings,
        "split": split,
        "seeds": len(seeds),
        "reached": len(firsts),
        **step_columns(firsts),
    }


def step_columns(firsts: Sequence[int]) -> dict[str, int | None]:
    """Earliest, median and latest of the given steps, as columns of a table's row.

    >>> step_columns([300, 100, 500]), step_columns([])
    ({'first': 100, 'median': 300, 'last': 500}, {'first': None, 'median': None, 'last': None})
    """
    median = round(statistics.median(firsts)) if firsts else None
    return {"first": min(firsts, default=None), "median": median, "last": max(firsts, default=None)}


def _points(trainings: str, split: str, seeds: dict[str, Curve]) -> Iterator[dict[str, Any]]:
    """Yield the mean curve. If seeds stop at different steps, it ends at the first stop, because
    beyond it the mean would jump to that of the remaining seeds.
    """
    for step in sorted(set.intersection(*(set(curve) for curve in seeds.values()))):
        scores = [curve[step] for curve in seeds.values()]
        yield {"trainings": trainings, "split": split, "step": step, **seed_point(scores)}


@study(
    "runs/divergence",
    describe="Accuracy against the compound divergence of each test split from training",
    experiment=any_recipe_experiments,
)
def divergence_accuracy(runs: Runs) -> Finding:
    """Relate the mean accuracy on each split to its distance from training."""
    measured, names = _measured(runs), _learner_names(runs)
    sums: dict[tuple[str, str, str, float, float], list[float]] = {}
    counted = {run for group in repeated_runs(runs) for run in group}
    for row in runs.table.to_pylist():
        known = measured.get((row["run"], row["split"]))
        if known is not None and row["score"] is not None and row["run"] in counted:
            place = (names[row["run"]], row["recipe"], row["split"], known.compounds, known.atoms)
            sums.setdefault(place, []).append(row["score"])
    if not sums:
        raise StudyError(
            f"{runs.path} has no datasets with derivations and a training split (STORE/data), so "
            f"divergence cannot be computed; your own task can give its examples a derivation,"
            " tl.Example(..., derivation=[tl.Step(RULE, VALUE)])"
        )
    columns = ("learner", "recipe", "split", "divergence", "atoms", "mean", "low", "high", "seeds")
    rows: list[dict[str, Any]] = [
        dict(zip(columns, (*place, *_over_seeds(scores)), strict=True))
        for place, scores in sums.items()
    ]
    rows.sort(key=lambda r: (r["learner"], r["divergence"]))
    data = ResultTable(columns, rows)
    caption = (
        "Accuracy of each recipe and split against the compound divergence of the split from"
        f" training: {len(rows)} points. {seeds_caption(row['seeds'] for row in rows)}."
    )
    plot = partial(
        figures.lines,
        x="divergence",
        series="learner",
        joined=False,
        xlabel="compound divergence from training",
    )
    return Finding(
        "Accuracy against compound divergence",
        " ".join(_correlations(rows)),
        data,
        (StudyFigure("divergence", caption, data, plot),),
        notes=(
            (
                "Splits differ in more than their divergence; a correlation over few of them is a"
                " description, not a test."
            ),
        ),
    )


def _learner_names(runs: Runs) -> dict[str, str]:
    """Learner of each run, with the settings in which learners vary. Runs with different names are
    not repetitions.
    """
    columns = [column for column in varying(runs) if column.startswith("learner.")]
    names = {}
    for row in runs.table.to_pylist():
        settings = [
            f"{column.partition('.')[2]} {short_value(row[column])}"
            for column in columns
            if row[column] is not None
        ]
        names[row["run"]] = ", ".join([str(row["learner"]), *settings])
    return names


def _over_seeds(scores: list[float]) -> tuple[float, float | None, float | None, int]:
    """Mean, ends of the interval, and number of scores."""
    point = seed_point(scores)
    return (point["mean"], point["low"], point["high"], point["seeds"])


def _measured(runs: Runs) -> dict[tuple[str, str], Divergence]:
    """Divergence of each run's splits from its training data; each pair of datasets is measured
    once.
    """
    datasets = stored_datasets(runs)
    known: dict[tuple[str, str], dict[str, Divergence]] = {}
    results = {}
    for run in runs.names:
        own = datasets.get(runs[run].data)
        for split in runs[run].splits if own is not None else ():
            source = _source(runs, run, split, own, datasets)
            if own is None or source is None:
                continue
            pair = (own.digest, source.digest)
            if pair not in known:
                known[pair] = {one.split: one for one in _between(own, source)}
            name = split.rpartition(":")[2]
            if name in known[pair]:
                results[run, split] = known[pair][name]
    return results


def stored_datasets(runs: Runs) -> dict[str, Dataset]:
    """Finished datasets of a run store, by digest."""
    datasets = {}
    for folder in sorted((runs.path / "data").glob("*")):
        try:
            data = dataset.load(folder)
        except TaskloomError:
            continue  # not finished, or not a dataset
        datasets[data.digest] = data
    return datasets


def _source(
    runs: Runs, run: str, split: str, own: Dataset | None, datasets: Mapping[str, Dataset]
) -> Dataset | None:
    """Dataset of a split: the run's own, or the one whose first input the run answered. None if it
    is not in the store.
    """
    evaluate = parse(runs.config(run)).get("evaluate") or []
    if all(
        isinstance(entry, str) and "/" not in entry and ".py" not in entry for entry in evaluate
    ):
        return own
    answered = runs.predictions(split, ["index", "input"], runs=[run]).slice(0, 1).to_pylist()
    name = split.rpartition(":")[2]
    for data in datasets.values() if answered else ():
        if name in data.splits and data.role(name) != "train":
            inputs, index = data.table(name)["input"], answered[0]["index"]
            if index < len(inputs) and inputs[index].as_py() == answered[0]["input"]:
                return data
    return None


def _between(own: Dataset, source: Dataset) -> list[Divergence]:
    """Divergences of a dataset's splits from the training split of another."""
    trained = [name for name in own.splits if own.role(name) == "train"]
    tests = [name for name in source.splits if source.role(name) != "train"]
    tables = {f"train {name}": own.table(name) for name in trained} | {
        name: source.table(name) for name in tests
    }
    roles: dict[str, Role] = {f"train {name}": own.role(name) for name in trained}
    return divergences(tables, roles | {name: source.role(name) for name in tests})


def _correlations(rows: list[dict[str, Any]]) -> Iterator[str]:
    for learner in dict.fromkeys(row["learner"] for row in rows):
        own = [row for row in rows if row["learner"] == learner]
        r = pearson([row["divergence"] for row in own], [row["mean"] for row in own])
        text = "too few, or all equal" if math.isnan(r) else f"r = {r:.2f}"
        yield f"{learner}: {text} ({len(own)} splits)."
