"""How the cost of commands grows as their work doubles four times.

    python benchmarks/growth.py [make verify audit run report runs view] [--times 1]

CPU-seconds of a process with its children, the median of as many as `--times` says. The exponent is
the slope of log(seconds) over log(work), by least squares, once the fixed cost is taken off: that of
the same command on next to no work, measured in the same way.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from report import fill

STEPS = 5
LEAST = {"rows": 50_000, "cells": 25, "runs": 125}
"""Smallest work. The fixed cost is measured at a hundredth of it, and at one cell or run."""

TINY = {"rows": 500, "cells": 1, "runs": 1}

EXPERIMENT = """
recipes: [{{recipe: ctl/A, set: {{splits: {{train: {{n: 4600}}, iid: {{n: 50}}, ood: {{n: 50}}}}}}}}]
learners: [majority]
seeds: {cells}
"""
RUNS = "import sys, taskloom as tl; tl.runs(sys.argv[1]).accuracy()"
VIEW = """
import sys
from pathlib import Path
from starlette.testclient import TestClient
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application
folder = Path(sys.argv[1])
app = application([folder])
with TestClient(app, base_url="http://127.0.0.1") as client:
    [name] = [one.name for one in ViewedFolders([folder]).every()]
    for address in (f"/data/{name}/rows?split=train", f"/data/{name}/rows?split=train&q=nowhere"):
        assert client.get(address).status_code == 200
app.state.viewer.close()
"""

TASKLOOM = [sys.executable, "-m", "taskloom"]


def cpu_seconds(command: list[str]) -> float:
    """CPU seconds of a process and its children."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def make(folder: Path, rows: int) -> list[str]:
    """The command that makes some rows."""
    size = f"splits.train.n={rows}"
    return [*TASKLOOM, "make", "ctl/A-independent", "--set", size, "-o", str(folder)]


def dataset(folder: Path, rows: int) -> str:
    """A dataset of some rows; made once."""
    data = folder / f"data-{rows}"
    if not data.exists():
        subprocess.run(make(data, rows), check=True, stdout=subprocess.DEVNULL)
    return str(data)


def store(folder: Path, runs: int) -> str:
    """A store of as many recipes as runs, without an index."""
    path = folder / f"runs-{runs}"
    if not path.exists():
        fill(path, runs, 1, 1)
    return str(path)


def experiment(folder: Path, cells: int) -> list[str]:
    """The command that runs some cells which train nothing."""
    file = folder / f"{cells}.yaml"
    file.write_text(EXPERIMENT.format(cells=cells), encoding="utf-8")
    return [*TASKLOOM, "run", str(file), "--store", str(new(folder))]


def new(folder: Path) -> Path:
    """A path that is not used yet."""
    return Path(tempfile.mkdtemp(dir=folder)) / "new"


PARTS: dict[str, tuple[str, Callable[[Path, int], list[str]]]] = {
    "make": ("rows", lambda folder, n: make(new(folder), n)),
    "verify": ("rows", lambda folder, n: [*TASKLOOM, "verify", "--all", dataset(folder, n)]),
    "audit": ("rows", lambda folder, n: [*TASKLOOM, "audit", dataset(folder, n)]),
    "run": ("cells", experiment),
    "report": (
        "runs",
        lambda folder, n: [
            *TASKLOOM,
            "runs",
            "report",
            store(folder, n),
            "--out",
            f"{new(folder)}.html",
        ],
    ),
    "runs": ("runs", lambda folder, n: [sys.executable, "-c", RUNS, store(folder, n)]),
    "view": ("rows", lambda folder, n: [sys.executable, "-c", VIEW, dataset(folder, n)]),
}


def slope(work: list[int], seconds: list[float]) -> float:
    """Slope of log(seconds) over log(work)."""
    logs = [math.log(n) for n in work], [math.log(s) for s in seconds]
    return statistics.linear_regression(*logs).slope


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for part in given.parts:
            unit, command = PARTS[part]
            work = [LEAST[unit] << step for step in range(STEPS)]
            seconds = []
            for n in [TINY[unit], *work]:
                tries = [cpu_seconds(command(folder, n)) for _ in range(given.times)]
                seconds.append(statistics.median(tries))
            fixed, *rest = seconds
            above = [one - fixed for one in rest]
            exponent = f"{slope(work, above):.2f}" if min(above) > 0 else "none: no more than fixed"
            shown = " ".join(f"{one:.2f}" for one in rest)
            span = f"{work[0]:,} to {work[-1]:,} {unit}"
            print(
                f"{part}: {span}: {shown} CPU-s, fixed {fixed:.2f}, exponent {exponent}", flush=True
            )


if __name__ == "__main__":
    main()
