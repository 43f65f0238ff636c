"""A run store for tests: two learners on one recipe, with names and answers that somebody with bad
intentions chose.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from taskloom.experiments import files as run_files
from taskloom.experiments.store import Store
from tests.apps.view.hostile import HIDDEN, QUOTES, SCRIPT, TEXTS
from tests.experiments import made_up_runs

TRAITS = [{"length": str(2 + i % 4), "kind": TEXTS[i % 3], SCRIPT: str(i % 2)} for i in range(12)]

SCORES = {"weak": [0, 0, 1, 0, 1, 0], "strong": [1, 1, 1, 0, 1, 1]}


def fill(folder: Path) -> dict[str, list[str]]:
    """Write the store; return the digests of the runs of each learner, by seed."""
    store = Store(folder, create=True)
    runs: dict[str, list[str]] = {}
    for learner, pattern in SCORES.items():
        for seed in range(2):
            scores = [float(pattern[(i + seed) % 6]) for i in range(60)]
            runs.setdefault(learner, []).append(
                made_up_runs.write(
                    store,
                    {"test": scores, SCRIPT: scores[:8]},
                    recipe=f"evil/{SCRIPT}",
                    learner=f"{learner} {QUOTES}",
                    seed=seed,
                    traits=TRAITS,
                    tasks=[f"task {SCRIPT}", HIDDEN],
                    curve=[
                        (step, "test", step / 100, 1 - step / 100) for step in range(0, 100, 10)
                    ],
                )
            )
            _replace_texts(store, runs[learner][-1])
    return runs


def _replace_texts(store: Store, run: str) -> None:
    path = store.folder(run) / run_files.PREDICTIONS
    table = run_files.read_parquet(path)
    rows = table.to_pylist()
    for i, row in enumerate(rows):
        row["input"] = f"{row['split']} {row['index']} {TEXTS[i % len(TEXTS)]}"
        row["prediction"] = f"{row['prediction']} {TEXTS[i % len(TEXTS)]}"
        row["traits"] = list(dict(row["traits"]).items())
    pa.parquet.write_table(pa.Table.from_pylist(rows, run_files.PREDICTION_COLUMNS), path)
    (store.folder(run) / run_files.LOG).write_text(f"log {SCRIPT} {HIDDEN}\n")
