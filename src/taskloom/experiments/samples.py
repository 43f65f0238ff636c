"""Several samples of a model: the mean, the majority vote, and pass@k.

A sample is a seed: `samples: 5` in an experiment asks every question five times, and each epoch of
an Inspect log is a sample. The interval of the mean is over samples and items, so the spread between
samples is part of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskloom.core.scoring import bare
from taskloom.experiments.record import Run, RunsError
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import two_way

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

SHOWN_K = (1, 2, 3, 5, 10, 20, 50, 100)
"""Values of k for which pass@k is shown, up to the number of samples."""

Scores = NDArray[np.float64]


def pass_at(right: int, samples: int, k: int) -> float:
    """Probability that at least one of k samples is right, estimated without bias from more of
    them (Chen et al. 2021): one minus the share of all choices of k that have no right one.

    >>> pass_at(1, 4, 1), pass_at(1, 4, 2), pass_at(3, 4, 2)
    (0.25, 0.5, 1.0)
    """
    return 1 - math.comb(samples - right, k) / math.comb(samples, k)


def majority_score(predictions: Sequence[str], scores: Sequence[float]) -> float:
    """Score of the answer that most samples give; of equally frequent ones the first. Answers that
    differ in case, an article or a full stop alone are one.

    >>> majority_score(["garden", "Kitchen.", "kitchen"], [0, 1, 1])
    1
    """
    votes = Counter(map(bare, predictions))
    winner = votes.most_common(1)[0][0]
    place = [bare(prediction) for prediction in predictions].index(winner)
    return scores[place]


def samples(runs: Runs, splits: Sequence[str] = (), level: float = 0.95) -> ResultTable:
    """Mean with its interval, mean number of distinct answers to an item, score of the majority
    vote, and pass@k of runs that differ in the seed alone.

    Args:
        runs: The runs; they must have kept their predictions.
        splits: Only these; all by default.
        level: The confidence level.
    """
    kinds: dict[str, list[Run]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    rows = []
    for own in kinds.values():
        for split in splits or own[0].splits:
            row = _row(runs, own, split, level) if len(own) > 1 else None
            if row is not None:
                rows.append(row)
    if not rows:
        raise RunsError(
            "no model has several samples; ask for them by 'samples: 5' in the experiment"
        )
    most = max(row["samples"] for row in rows)
    passes = [f"pass@{k}" for k in SHOWN_K if k <= most]
    columns = ["recipe", "learner", "split", "samples", "n", "mean", "low", "high"]
    columns += ["distinct", "majority"]
    empty = dict.fromkeys(passes)
    return ResultTable([*columns, *passes], [{**empty, **row} for row in rows])


def _row(runs: Runs, own: Sequence[Run], split: str, level: float) -> dict[str, Any] | None:
    """The measures of the samples of one model on a split; None unless all kept their answers."""
    tables = []
    for run in own:
        answers = runs.answers(run.name, ["split", "index", "prediction", "score"])
        if answers is None:
            return None
        of_split = [row for row in answers.to_pylist() if row["split"] == split]
        tables.append({row["index"]: row for row in of_split})
    items = [index for index in tables[0] if all(index in table for table in tables)]
    if not items:
        return None
    scores: Scores = np.array([[table[i]["score"] for i in items] for table in tables])
    right = (scores >= 1).sum(axis=0).tolist()
    votes = [
        majority_score([t[i]["prediction"] or "" for t in tables], [t[i]["score"] for t in tables])
        for i in items
    ]
    # One distinct answer to every item tells that the model does not sample.
    distinct = [len({bare(table[i]["prediction"] or "") for table in tables}) for i in items]
    estimate = two_way(scores, level)
    count = len(tables)
    passes = {
        f"pass@{k}": sum(pass_at(one, count, k) for one in right) / len(items)
        for k in SHOWN_K
        if k <= count
    }
    return {
        "recipe": own[0].recipe,
        "learner": own[0].learner,
        "split": split,
        "samples": count,
        "n": len(items),
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "distinct": sum(distinct) / len(distinct),
        "majority": sum(votes) / len(votes),
        **passes,
    }
