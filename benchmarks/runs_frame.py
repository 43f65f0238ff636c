"""Questions to a store of 10,000 small runs, in CPU-seconds: opening it, means with intervals,
comparisons.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import taskloom as tl
from taskloom.experiments import files as run_files
from taskloom.experiments import statistics
from taskloom.experiments.store import Store

RECIPES, LEARNERS, SEEDS, ITEMS = 100, 10, 10, 50


def fill(folder: Path) -> None:
    """100 recipes × 10 learners × 10 seeds, two splits of 50 items each."""
    store = Store(folder, create=True)
    rng = np.random.default_rng(0)
    for recipe in range(RECIPES):
        for learner in range(LEARNERS):
            for seed in range(SEEDS):
                write(
                    store,
                    f"r{recipe}",
                    f"l{learner}",
                    seed,
                    rng.random(2 * ITEMS) < 0.5 + learner / 30,
                )


def write(store: Store, recipe: str, learner: str, seed: int, right: Any) -> None:
    run = blake2b(f"{recipe} {learner} {seed}".encode(), digest_size=16).hexdigest()
    folder = store.folder(run)
    folder.mkdir(parents=True)
    splits = {
        s: {"n": ITEMS, "score": float(right[i * ITEMS : (i + 1) * ITEMS].mean())}
        for i, s in enumerate(("iid", "ood"))
    }
    scores = {
        "schema": run_files.SCHEMA,
        "run": run,
        "kind": recipe + learner,
        "recipe": recipe,
        "learner": learner,
        "seed": seed,
        "scorer": "exact",
    }
    (folder / run_files.SCORES).write_text(
        json.dumps({**scores, "fields": {}, "splits": splits, "data": recipe})
    )
    n = 2 * ITEMS
    columns = {
        "split": ["iid"] * ITEMS + ["ood"] * ITEMS,
        "index": [*range(ITEMS), *range(ITEMS)],
        "task": [recipe] * n,
        "input": [f"{recipe} {i}" for i in range(n)],
        "targets": [["yes"]] * n,
        "prediction": ["yes" if r else "no" for r in right],
        "score": right.astype(float),
        "traits": [[("length", str(i % 5))] for i in range(n)],
        "candidates": [None] * n,
        "logprobs": [None] * n,
    }
    table = pa.table(
        [pa.array(columns[f.name], f.type) for f in run_files.PREDICTION_COLUMNS],
        run_files.PREDICTION_COLUMNS,
    )
    pq.write_table(table, folder / run_files.PREDICTIONS, compression="zstd")


def clock(what: str, call: Callable[[], Any]) -> Any:
    began = time.process_time()
    result = call()
    print(f"{what:<60} {time.process_time() - began:7.2f} CPU-s", flush=True)
    return result


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        patch.dict(os.environ, TASKLOOM_CACHE=f"{scratch}/cache"),
    ):
        fill(Path(scratch) / "runs")
        runs = clock("opening 10,000 runs as a table", lambda: tl.runs(Path(scratch) / "runs"))
        clock("accuracy over seeds, 2,000 groups", lambda: runs.accuracy(over="seeds"))
        clock("the first question about new runs, which opens their files", runs.accuracy)
        clock("accuracy over seeds and items, 2,000 groups, 1,000,000 rows", runs.accuracy)
        clock("accuracy by a trait, 10,000 groups", lambda: runs.accuracy(by="length"))
        again = tl.runs(Path(scratch) / "runs")
        clock("seeds and items as a new process, from the cache", again.accuracy)
        again = tl.runs(Path(scratch) / "runs")
        clock("by a trait as a new process, from the cache", lambda: again.accuracy(by="length"))
        clock("comparing two learners, 2,000 runs, 200 tests", lambda: runs.compare("l1", "l2"))
    a, b = np.random.default_rng(1).random((2, 10_000)) < 0.8
    clock(
        "paired bootstrap, 10,000 items, 10,000 resamples",
        lambda: statistics.paired_bootstrap(a, b),
    )


if __name__ == "__main__":
    main()
