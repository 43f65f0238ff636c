"""Our question about CTL++: what do layers at test change? The public code trains NDR with 8 and tests it with 10."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.runs import Runs
from taskloom.experiments.statistics import over_seeds
from taskloom.experiments.store import MODEL
from taskloom.learners.saved import load
from taskloom.studies import figures
from taskloom.studies.ctlpp.small_worlds import layer_experiments
from taskloom.studies.ctlpp.trainings import Trainings, trainings
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.seed_scores import count_range
from taskloom.studies.study import StudyError, study

FEWER, MORE = 2, 4
"""Layers below and above those of training that are tried: the public code's 10 for 8 lies within."""

SPLITS = ("iid", "ood")


@study(
    "ctlpp/layers",
    describe="Accuracy on CTL++ by how often the shared layer is applied when answering",
    experiment=layer_experiments,
)
def layers(runs: Runs) -> Finding:
    """Answer the same items with fewer and more layers than in training."""
    groups = [g for g in trainings(runs) if "learner.layers" in g.conditions]
    if not groups:
        raise StudyError(f"{runs.store.path} has no runs of a model whose layer can be applied more or less often")
    rows = [row for group in groups for row in _rows(runs, group)]
    columns = ("trainings", "layers", "trained with", "split", "mean", "low", "high", "seeds")
    data = ResultTable(columns, rows)
    caption = (
        "Accuracy by the number of times that the shared layer is applied when answering. Means over seeds "
        f"({count_range(r['seeds'] for r in rows)}) with 95 % intervals (t over seeds); the items "
        "are the same."
    )
    draw = partial(figures.lines, x="layers", series="split", panel="trainings", xlabel="layers when answering")
    return Finding(
        "CTL++ by the layers at test",
        "The models are those of the runs; only the number of layers when answering changes.",
        data,
        (StudyFigure("layers", caption, data, draw),),
    )


def _rows(runs: Runs, group: Trainings) -> Iterator[dict[str, Any]]:
    trained = int(group.conditions["learner.layers"])
    scores: dict[tuple[int, str], list[float]] = {}
    for run in group.runs.values():
        folder = runs.store.folder(run) / MODEL
        if not folder.is_dir():
            raise StudyError(f"the run {run} of {runs.store.path} kept no model; run it with keep: {{model: true}}")
        fitted: Any = load(folder)
        for split in SPLITS:
            items = runs.store.predictions([run], ["input", "targets"], splits=[split]).to_pylist()
            texts = [item["input"] for item in items]
            for count in range(max(1, trained - FEWER), trained + MORE + 1):
                answers = fitted.with_layers(count).answer(texts)
                right = [a in item["targets"] for a, item in zip(answers, items, strict=True)]
                if right:
                    scores.setdefault((count, split), []).append(sum(right) / len(right))
    for (count, split), values in scores.items():
        estimate = over_seeds(values) if len(values) > 1 else None
        yield {
            "trainings": f"{group.label}, {group.variant}",
            "layers": count,
            "trained with": trained,
            "split": split,
            "mean": statistics.fmean(values),
            "low": estimate.low if estimate else None,
            "high": estimate.high if estimate else None,
            "seeds": len(values),
        }
