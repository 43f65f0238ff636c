"""What experiments cost beside their runs, and how generation scales on Ray.

python benchmarks/experiments.py                 10,000 tiny cells: milliseconds a cell (limit 5),
opening the store (limit 2 s) python benchmarks/experiments.py --cells 1000 python
benchmarks/experiments.py ray             generation by 1 and 2 Ray workers: efficiency (limit 85
%); needs an idle machine

A tiny cell is the majority baseline on 200 training and 10 test examples: it learns in
microseconds, so that what is measured is planning, claiming, sending, evaluating, writing six files
durably and renaming them. CPU seconds of driver and workers are given besides the wall clock, since
a busy machine stretches the latter.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import taskloom
from taskloom.experiments import api
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store

TINY = {
    "symbols": 4,
    "functions": 8,
    "max_length": 3,
    "splits": {"train": {"n": 200}, "ood": {"n": 10}},
}
GENERATED = ["splits.train.n=1500000"]
"""Enough shards for the ends not to matter: CTL makes some 400,000 rows a second."""


def cpu() -> tuple[float, float]:
    """CPU seconds of this process, and of its children that have ended."""
    mine, theirs = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return mine.ru_utime + mine.ru_stime, theirs.ru_utime + theirs.ru_stime


def cells(number: int) -> int:
    recipe = {"recipe": "ctl/A", "set": TINY}
    experiment = check(
        {"recipes": [recipe], "learners": ["majority"], "seeds": number, "evaluate": ["ood"]},
        "bench",
    )
    with TemporaryDirectory() as folder:
        began, before = time.perf_counter(), cpu()
        outcome = api.fill(experiment, Path(folder) / "runs")
        wall, after = time.perf_counter() - began, cpu()
        assert len(outcome.runs) == number
        driver, workers = (1000 * (b - a) / number for a, b in zip(before, after, strict=True))
        each = 1000 * wall / number
        print(
            f"{number:,} tiny cells: {each:.2f} ms a cell by the wall clock with {os.cpu_count()}"
            " workers, limit 5"
        )
        print(f"  of CPU: driver {driver:.2f} ms, worker {workers:.2f} ms a cell")
        began, before = time.perf_counter(), cpu()
        table = Store(Path(folder) / "runs").runs()
        opened, spent = time.perf_counter() - began, cpu()[0] - before[0]
        assert table.num_rows == number
        print(
            f"opening {number:,} runs as a table: {opened:.2f} s, {spent:.2f} s of CPU, limit 2"
            " (for 10,000)"
        )
        began = time.perf_counter()
        again = api.fill(experiment, Path(folder) / "runs")
        print(f"finding that nothing is missing: {time.perf_counter() - began:.2f} s")
        assert again.state.done == 0
    return int(driver + workers > 5 or spent > 2 * number / 10_000)


def generation() -> int:
    """The same dataset by one Ray worker and by two; the time of starting Ray is left out."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    took = {}
    for workers in (1, 2):
        ray.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
        with TemporaryDirectory() as folder:
            small = ["splits.train.n=50000"]  # workers start and import before the clock runs
            taskloom.make("ctl/A", Path(folder) / "warm", set=small, engine="ray", shard_rows=1000)
            began, before = time.perf_counter(), cpu()[0]
            data = taskloom.make(
                "ctl/A", Path(folder) / "data", set=GENERATED, engine="ray", shard_rows=20_000
            )
            took[workers], driver = time.perf_counter() - began, cpu()[0] - before
        ray.shutdown()
        rows = len(data.manifest["splits"]["train"]["shards"])
        print(
            f"{workers} Ray workers: {took[workers]:.2f} s for {rows} shards of ctl/A; driver"
            f" {driver:.2f} s of CPU"
        )
    efficiency = took[1] / took[2] / 2
    print(f"efficiency of 2 workers: {100 * efficiency:.0f} %, limit 85 % (2 idle cores)")
    return int(efficiency < 0.85)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("cells", "ray"), default="cells")
    parser.add_argument("--cells", type=int, default=10_000)
    chosen = parser.parse_args()
    return cells(chosen.cells) if chosen.what == "cells" else generation()


if __name__ == "__main__":
    sys.exit(main())
