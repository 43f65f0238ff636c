"""What would limit an experiment on a large Ray cluster: the driver's cost of a cell, measured, and
all sizes, simulated.

python benchmarks/experiments_cluster.py                  measures on this machine, then simulates
python benchmarks/experiments_cluster.py --driver-ms 2.0  simulates with a given cost

The simulation: one driver handles cells one after the other; a file server does the operations that
a run costs, one after the other; W workers run cells of T seconds, give or take a fifth. Efficiency
is the share of the workers' time that goes into cells.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

TINY = {
    "symbols": 4,
    "functions": 8,
    "max_length": 3,
    "splits": {"train": {"n": 200}, "ood": {"n": 10}},
}

OPERATIONS = 30
"""Of a run: 29 system calls that name a path in the store or sync a file, counted with strace for a
tiny cell.
"""


def measured(cells: int = 300) -> float:
    """CPU milliseconds of the driver for one cell on Ray, beyond what starting costs."""
    import ray

    from taskloom.experiments import api
    from taskloom.experiments.spec.experiment import check

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    spent = {}
    for number in (10, 10 + cells):
        recipe = {"recipe": "ctl/A", "set": TINY}
        experiment = {
            "recipes": [recipe],
            "learners": ["majority"],
            "seeds": number,
            "evaluate": ["ood"],
        }
        with TemporaryDirectory() as folder:
            before = resource.getrusage(resource.RUSAGE_SELF)
            began = time.perf_counter()
            outcome = api.fill(check(experiment, "bench"), Path(folder) / "runs", engine="ray")
            wall = time.perf_counter() - began
            after = resource.getrusage(resource.RUSAGE_SELF)
            assert not outcome.state.failed
        spent[number] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ray.shutdown()
    each = 1000 * (spent[10 + cells] - spent[10]) / cells
    print(
        f"on Ray, the driver spends {each:.2f} ms of CPU on a cell ({cells} tiny cells, {wall:.1f}"
        " s by the wall clock)"
    )
    return each


def simulated(workers: int, seconds: float, driver: float, server: float, cells: int) -> float:
    """The share of the workers' time that goes into cells."""
    chance = random.Random(0)
    free_driver = free_server = busy = end = 0.0
    events = [(0.0, True, 0.0)] * workers  # (when, whether a worker asks or has run, for how long)
    while events:
        now, asks, run = heapq.heappop(events)
        if asks and cells:
            cells -= 1
            free_driver = max(free_driver, now) + driver
            run = seconds * chance.uniform(0.8, 1.2)
            busy += run
            heapq.heappush(events, (free_driver + run, False, run))
        elif not asks:
            end = free_server = max(free_server, now) + server
            heapq.heappush(events, (free_server, True, 0.0))
    return busy / (end * workers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--driver-ms",
        type=float,
        help="CPU milliseconds of the driver for a cell; measured by default",
    )
    parser.add_argument(
        "--operation-ms", type=float, default=0.05, help="of the file server for one operation"
    )
    chosen = parser.parse_args()
    driver = (chosen.driver_ms if chosen.driver_ms is not None else measured()) / 1000
    server = OPERATIONS * chosen.operation_ms / 1000
    print(f"driver {1000 * driver:.2f} ms a cell: at most {1 / driver:,.0f} cells a second")
    print(
        f"file server {1000 * server:.2f} ms a cell ({OPERATIONS} operations): at most"
        f" {1 / server:,.0f} cells a second"
    )
    sizes = (1, 10, 100, 1000)
    print("seconds a cell  " + "".join(f"{w:>9,} workers" for w in sizes))
    for seconds in (0.1, 1.0, 10.0, 60.0, 600.0):
        row = [simulated(w, seconds, driver, server, 50 * w) for w in sizes]
        print(f"{seconds:>14g}  " + "".join(f"{100 * share:>15.0f} %" for share in row))


if __name__ == "__main__":
    main()
