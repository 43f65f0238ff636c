"""Small sweeps that several tests run, and what is compared of their stores."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from taskloom.experiments.api import Outcome
from taskloom.experiments.execute.driver import Driver
from taskloom.experiments.execute.engines import HereEngine
from taskloom.experiments.files import CONFIG, CURVES, PREDICTIONS, SCORES
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store

SMALL = {
    "symbols": 4,
    "functions": 8,
    "max_length": 4,
    "splits": {"train": {"n": 400}, "iid": {"n": 20}, "ood": {"n": 40}},
}


def recipe(name: str = "ctl/A") -> dict[str, Any]:
    return {"recipe": name, "set": SMALL}


def baselines(seeds: int = 2) -> dict[str, Any]:
    """Cheap: no torch."""
    return {
        "recipes": [recipe("ctl/A"), recipe("ctl/R")],
        "learners": ["majority", "nearest-neighbour"],
        "seeds": seeds,
    }


def networks(seeds: int = 3, steps: int = 40) -> dict[str, Any]:
    """With networks whose seeds are stacked and which leave checkpoints."""
    loop = {
        "steps": steps,
        "batch": 32,
        "rate": 2e-3,
        "warmup": 10,
        "evaluate_every": 20,
        "checkpoint_every": 10,
    }
    return {
        "recipes": [recipe("ctl/A"), recipe("ctl/R")],
        "learners": [
            "majority",
            {"learner": "bilstm", "state": 16, **loop},
            {
                "learner": "transformer",
                "state": 16,
                "heads": 2,
                "layers": 2,
                "feed_forward": 16,
                **loop,
            },
        ],
        "seeds": seeds,
    }


def fill(experiment: dict[str, Any], path: Path) -> Outcome:
    """Run an experiment in this process."""
    checked = check(experiment, "test")
    cells, store = expand(checked), Store(path, create=True)
    return Outcome(store, cells, Driver(store, cells, HereEngine(), checked.resources).run())


def write(folder: Path, experiment: dict[str, Any]) -> Path:
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment))
    return path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from taskloom.cli import main; main()", *arguments]


def taskloom(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, env=environment()
    )


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def contents(path: Path) -> dict[str, str]:
    """Digests of all bytes that are a function of the experiment: the table, and the files of every
    run.
    """
    store = Store(path)
    sink = store.runs()
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, sink.schema) as writer:
        writer.write_table(sink)
    found = {"table": blake2b(buffer.getvalue().to_pybytes(), digest_size=16).hexdigest()}
    for run in store.names():
        for file in (CONFIG, SCORES, CURVES, PREDICTIONS):
            path = store.folder(run) / file
            if path.is_file():  # baselines have no curves
                found[f"{run}/{file}"] = blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return found
