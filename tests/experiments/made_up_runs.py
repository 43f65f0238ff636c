"""Run directories for tests, with scores that the test chooses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa

from taskloom.experiments import files as run_files
from taskloom.experiments.store import Store


def write(
    store: Store,
    scores: Mapping[str, Sequence[float]],
    *,
    recipe: str = "ctl/A",
    learner: str = "bilstm",
    seed: int = 0,
    fields: Mapping[str, Any] | None = None,
    traits: Sequence[Mapping[str, str]] | None = None,
    tasks: Sequence[str] | None = None,
    data: str = "d",
    curve: Sequence[tuple[int, str, float, float]] = (),
    keep: bool = True,
) -> str:
    """Write one run: for each split the score of every item. `data` names the items; `traits` and
    `tasks` go with the items.
    """
    config = {
        "recipes": [{"recipe": recipe, "seed": 0}],
        "learners": [{"learner": learner}],
        "seeds": [seed],
        "train": "train",
        "evaluate": list(scores),
    }
    kind = json.dumps([recipe, learner, dict(fields or {}), data])
    run = blake2b(json.dumps([kind, seed]).encode(), digest_size=16).hexdigest()
    said = {
        "schema": run_files.SCHEMA,
        "run": run,
        "kind": kind,
        "recipe": recipe,
        "learner": learner,
        "seed": seed,
        "fields": dict(fields or {}),
        "scorer": "exact",
        "splits": {
            k: {"n": len(v), "score": sum(v) / len(v) if len(v) else None}
            for k, v in scores.items()
        },
        "data": data,
    }
    rows = [
        {
            "split": split,
            "index": i,
            "task": tasks[i % len(tasks)] if tasks else recipe,
            "input": f"{data} {split} {i}",
            "targets": ["yes"],
            "prediction": "yes" if score == 1 else "no",
            "score": float(score),
            "traits": list((traits[i % len(traits)] if traits else {}).items()),
        }
        for split, values in scores.items()
        for i, score in enumerate(values)
    ]
    predictions = pa.Table.from_pylist(rows, run_files.PREDICTION_COLUMNS) if keep else None
    curves = pa.Table.from_pylist(
        [dict(zip(run_files.CURVE_COLUMNS.names, point, strict=True)) for point in curve],
        run_files.CURVE_COLUMNS,
    )
    beside = Path(store.path) / "work" / f".tmp-{run}"
    environment = {
        "seconds": 1.5,
        "host": "here",
        "versions": {"taskloom": "0.1.0", "python": "3.11"},
    }
    run_files.write_run(beside, config, said, curves, predictions, environment, b"")
    assert store.publish(run, beside)
    return run
