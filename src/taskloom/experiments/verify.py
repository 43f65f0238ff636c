"""Checking a run store: what scores.json says of each run, against the run's own predictions.

Sizes, means and means by task are computed again from the stored scores, and the stored scores from the stored answers by
the run's scorer. Code that a run's configuration names by file is never executed: it may have come with the runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.errors import TaskloomError
from taskloom.experiments import files as run_files
from taskloom.experiments.execute.predictions import scorer_name, suite_scores, summary
from taskloom.experiments.rescore import recipe_data, stored_examples
from taskloom.experiments.store import Store

ROUNDING = 1e-9
"""Scores that differ by less are the same number, summed on another machine."""


@dataclass(slots=True)
class RunVerification:
    """What checking a store has shown.

    Attributes:
        runs: Runs that were checked.
        answers: Answers that were scored again.
        unscored: Runs whose answers could not be scored again, with the reason.
        without: Runs that kept no predictions, of which nothing can be checked.
        wrong: What does not agree, a sentence each.
    """

    runs: int = 0
    answers: int = 0
    unscored: dict[str, str] = field(default_factory=dict)
    without: int = 0
    wrong: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


def verify_runs(path: str | Path) -> RunVerification:
    """Check every run of a store.

    Args:
        path: The store.
    """
    store, result = Store(path), RunVerification()
    for run in store.names():
        result.runs += 1
        try:
            _check(store, run, result)
        except TaskloomError as error:
            result.wrong.append(f"{run}: {error}")
    return result


def _check(store: Store, run: str, result: RunVerification) -> None:
    scores = store.scores(run)
    path = store.folder(run) / run_files.PREDICTIONS
    if not path.is_file():
        result.without += 1
        return
    table = run_files.read_parquet(path)
    splits = table["split"].cast(pa.string())
    strange = sorted(set(splits.to_pylist()) - set(scores["splits"]))
    if strange:
        result.wrong.append(
            f"{run}: {run_files.SCORES} lacks the split '{strange[0]}', which has predictions"
        )
    for split, entry in scores["splits"].items():
        part = table.filter(pc.equal(splits, split))
        again = summary(part["task"].to_pylist(), part["score"].to_pylist())
        result.wrong += [
            f"{run}: {split}: {what}"
            for what in _differences(entry, again, ("n", "score", "by_task"))
        ]
    _score_again(store, run, scores, table, result)


def _score_again(
    store: Store, run: str, scores: Mapping[str, Any], table: pa.Table, result: RunVerification
) -> None:
    config = store.config(run)
    if ".py" in config:
        result.unscored[run] = "its configuration names a Python file, which is not executed"
        return
    try:
        data = recipe_data(config)
    except TaskloomError as error:
        result.unscored[run] = str(error)
        return
    if scorer_name(one.data for one in data.values()) != scores["scorer"] or set(data) != set(
        scores["splits"]
    ):
        result.unscored[run] = (
            f"it was scored by '{scores['scorer']}', not by the scorer of its recipe"
        )
        return
    examples = stored_examples(store, table, data)
    rows = zip(
        table["split"].to_pylist(),
        table["prediction"].to_pylist(),
        table["score"].to_pylist(),
        strict=True,
    )
    places_of: dict[str, list[int]] = {}
    for place, (split, prediction, score) in enumerate(rows):
        again = data[split].data.plan.scorer.score(prediction, examples[place])
        places_of.setdefault(split, []).append(place)
        if not _same(again, score):
            index = table["index"][place].as_py()
            result.wrong.append(
                f"{run}: {split} {index}: the answer scores {again:g}, and {score} is stored"
            )
    result.answers += table.num_rows
    predictions = table["prediction"].to_pylist()
    for split, places in places_of.items():
        own = suite_scores(
            data[split].data, [examples[i] for i in places], [predictions[i] for i in places]
        )
        entry = scores["splits"][split]
        result.wrong += [
            f"{run}: {split}: {what}" for what in _differences(entry, own, ("scores",))
        ]


def _differences(
    stored: Mapping[str, Any], again: Mapping[str, Any], keys: tuple[str, ...]
) -> Iterator[str]:
    for key in keys:
        if not _same(stored.get(key), again.get(key)):
            yield f"'{key}' is {_short(stored.get(key))} in {run_files.SCORES}, and {_short(again.get(key))} by the predictions"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return one is None and other is None


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
