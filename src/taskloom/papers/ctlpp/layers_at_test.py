"""Our question about CTL++: what do layers at test change? The public code trains NDR with 8 and tests it with 10."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.seed_scores import count_range, interval_columns
from taskloom.analysis.study import StudyError, study
from taskloom.core.arguments import path_of
from taskloom.core.files import read_utf8
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_seeds
from taskloom.experiments.table import Runs
from taskloom.learners.saved import load
from taskloom.papers.ctlpp.accuracy_table import CONVERGED, model_of_label, short_names
from taskloom.papers.ctlpp.small_worlds import layer_experiments
from taskloom.papers.ctlpp.trainings import PROCESSES, Trainings, trainings

FEWER, MORE = 2, 4
"""Layers below and above those of training that are tried: the public code's 10 for 8 lies within."""

SPLITS = ("iid", "ood")

FEWEST = 3
"""Seeds of which an interval is given: that of two spans the whole axis."""


Answered = dict[tuple[int, str], dict[int, float]]
"""Accuracy by seed, for a number of layers and a split."""


@study(
    "ctlpp/layers",
    describe="Accuracy on CTL++ by how often the shared layer is applied when answering",
    experiment=layer_experiments,
)
def layers(runs: Runs, *, by_layers: str = "") -> Finding:
    """Answer the same items with fewer and more layers than in training.

    Args:
        runs: Runs that kept their models.
        by_layers: A file of accuracies by layers, in place of kept models.
    """
    groups = [g for g in trainings(runs) if "learner.layers" in g.conditions]
    if not groups:
        raise StudyError(
            f"{runs.path} has no runs of a model whose layer can be applied more or less often; make some, e.g. with "
            "'taskloom reproduce ctlpp/layers'"
        )
    answered = list(_answered(runs, groups, by_layers))
    answered = [one for one in answered if _learned(one[0])] or answered
    answered.sort(key=lambda one: groups.index(one[0]))
    names = short_names([group for group, _ in answered])
    rows = [row for name, one in zip(names, answered, strict=True) for row in _rows(name, *one)]
    columns = ("trainings", "layers", "trained with", "split", "mean", "low", "high", "seeds")
    data = ResultTable(columns, rows)
    caption = (
        "Accuracy by the number of times that the shared layer is applied when answering. Means over seeds "
        f"({count_range(r['seeds'] for r in rows)}), from {FEWEST} on with 95 % intervals. The unit is the seed (t over seeds of "
        "one dataset); the items are the same."
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
        "The models are those of the runs; only the number of layers when answering changes. Seeds that did not learn (an iid "
        f"accuracy of at most {CONVERGED:g}), and trainings of which no seed did, are left out where others did.",
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
        )  # only the published draw is one of processes
        first = [
            g for g in groups if g.table_seed == 0 and g.data_seed == 0
        ]  # files by layers name neither seed
        alike = [g for g in first if (g.model, g.variant, g.draw) == what and g.processes in drawn]
        own = [g for g in alike if set(seeds) <= set(g.seeds)]
        if not own:
            raise StudyError(
                f"{by_layers} has accuracies of {', '.join(what)}, and {runs.path} no such runs; name runs that have them, "
                "such as curves.json beside docs/results/ctlpp/layers.json"
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
    """Answer the test splits of every kept model with each number of layers."""
    trained = int(group.conditions["learner.layers"])
    scores: Answered = {}
    for seed, run in group.runs.items():
        folder = runs.model(run)
        if folder is None:
            raise StudyError(
                f"the run {run} of {runs.path} kept no model; run it with keep: {{model: true}}, or name a file of "
                "accuracies by layers (by_layers=FILE.json; docs/results/ctlpp has one)"
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
    """Return the seeds that learned what they were trained on."""
    return {seed for seed, score in group.scores.get("iid", {}).items() if score > CONVERGED}


def _rows(name: str, group: Trainings, answered: Answered) -> Iterator[dict[str, Any]]:
    learned = _learned(group)
    for (count, split), by_seed in answered.items():
        values = [score for seed, score in by_seed.items() if seed in learned] or list(
            by_seed.values()
        )
        estimate = over_seeds(values) if len(values) >= FEWEST else None
        yield {
            "trainings": name,
            "layers": count,
            "trained with": int(group.conditions["learner.layers"]),
            "split": split,
            "mean": statistics.fmean(values),
            **interval_columns(estimate),
            "seeds": len(values),
        }
