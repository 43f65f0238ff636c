"""A report on 1,000 runs, in CPU-seconds.

    python benchmarks/report.py [--keep FOLDER] [--profile] [--shape RECIPES LEARNERS SEEDS]

The store is that of tests/apps/view/test_large.py: 5 recipes × 10 learners × 20 seeds, two splits
of 100 examples each, two traits. The time for many recipes, `--shape 400 10 1`, should be twice
that for half of them.
"""

from __future__ import annotations

import cProfile
import itertools
import json
import math
import pstats
import random
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa

import taskloom as tl
from taskloom.experiments import files as run_files
from taskloom.experiments.store import Store

SHAPE: tuple[int, ...] = (5, 10, 20)
"""Recipes, learners, seeds."""

ITEMS = 100
SPLITS = ("iid", "ood")

COMMAND = """
import resource, sys
from taskloom.cli.app import main
sys.argv = ["taskloom", "report", sys.argv[1], "--out", sys.argv[2]]
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
"""


def fill(folder: Path, recipes: int, learners: int, seeds: int) -> None:
    """Write the runs."""
    store, draw = Store(folder, create=True), random.Random(0)
    for seed, learner, recipe in itertools.product(range(seeds), range(learners), range(recipes)):
        scores = [float(draw.random() < 0.4) for _ in range(2 * ITEMS)]
        write(store, f"ctl/r{recipe}", f"learner-{learner}", seed, scores)


def write(store: Store, recipe: str, learner: str, seed: int, scores: list[float]) -> None:
    """Write one run."""
    kind = json.dumps([recipe, learner])
    run = blake2b(f"{kind} {seed}".encode(), digest_size=16).hexdigest()
    means = {s: sum(scores[i * ITEMS : (i + 1) * ITEMS]) / ITEMS for i, s in enumerate(SPLITS)}
    about = {
        "schema": run_files.SCHEMA,
        "run": run,
        "kind": kind,
        "recipe": recipe,
        "learner": learner,
        "seed": seed,
    }
    about |= {
        "fields": {},
        "scorer": "exact",
        "data": recipe,
        "splits": {s: {"n": ITEMS, "score": m} for s, m in means.items()},
    }
    n = 2 * ITEMS
    columns: dict[str, list[Any]] = {
        "split": [split for split in SPLITS for _ in range(ITEMS)],
        "index": [*range(ITEMS)] * 2,
        "task": [recipe] * n,
        "input": [f"{recipe} {split} {i}" for split in SPLITS for i in range(ITEMS)],
        "targets": [["yes"]] * n,
        "prediction": ["yes" if score else "no" for score in scores],
        "score": scores,
        "traits": [
            [("length", str(2 + i % 5)), ("group", "ab"[i % 2])]
            for _ in SPLITS
            for i in range(ITEMS)
        ],
        "candidates": [None] * n,
        "logprobs": [None] * n,
    }
    table = pa.table(
        [pa.array(columns[f.name], f.type) for f in run_files.PREDICTION_COLUMNS],
        run_files.PREDICTION_COLUMNS,
    )
    config = {
        "recipes": [{"recipe": recipe}],
        "learners": [{"learner": learner}],
        "seeds": [seed],
        "evaluate": [*SPLITS],
    }
    beside = store.path / "work" / f".tmp-{run}"
    run_files.write_run(beside, config, about, None, table, {"seconds": 1.5}, b"")
    store.publish(run, beside)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        kept = sys.argv[sys.argv.index("--keep") + 1] if "--keep" in sys.argv else f"{scratch}/runs"
        runs, out = Path(kept), Path(scratch) / "report.html"
        shape = SHAPE
        if "--shape" in sys.argv:
            place = sys.argv.index("--shape")
            shape = tuple(map(int, sys.argv[place + 1 : place + 4]))
        if not runs.exists():
            fill(runs, *shape)
        began = time.process_time()
        page = tl.report(runs, out)
        took = time.process_time() - began
        digest = blake2b(page.read_bytes()).hexdigest()[:12]
        print(
            f"tl.report on {math.prod(shape):,} runs: {took:.2f} CPU-s, {page.stat().st_size / 1e6:.1f} MB,"
            f" digest {digest}"
        )
        if "--profile" in sys.argv:
            profile = cProfile.Profile()
            profile.runcall(tl.report, runs, out)
            pstats.Stats(profile).sort_stats("tottime").print_stats(40)
            pstats.Stats(profile).sort_stats("cumtime").print_stats("taskloom", 60)
            return
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, str(runs), str(out)],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, peak = map(float, done.stderr.split()[-2:])
        print(f"the command with its start, from the index: {seconds:.2f} CPU-s, {peak:.0f} MB")


if __name__ == "__main__":
    main()
