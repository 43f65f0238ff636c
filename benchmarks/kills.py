"""Training under fire: SIGKILL at random moments, resume, and compare with a run that was left alone.

    python benchmarks/kills.py [--kills 20] [--seed 0] [--longest 3] [--folder FOLDER]

The experiment trains a stack of small bi-LSTMs, a bi-LSTM that starts from a saved one, and a tiny
language model, each as the best of two tries (`best_of`), with a checkpoint every few steps. It is
filled once without a kill. Then it is filled again in another store: every time that a new checkpoint
has been written, the driver, its worker or both are killed after a random time, and the same command
is started again, until that many kills have hit. The last command runs to its end. Scores,
predictions and learning curves of both stores must be the same bytes. Exits with 1 if they are not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import taskloom as tl
from taskloom.learners.training.checkpoint import NAME

COLOURS = ["red", "green", "blue", "white"]

SMALL: dict[str, Any] = {"batch": 16, "warmup": 0, "precision": "fp32", "evaluate_every": 100}
LSTM = {"learner": "bilstm", "state": 12, **SMALL}
LEARNERS: list[dict[str, Any]] = [
    {**LSTM, "steps": 1_000, "checkpoint_every": 20},
    {**LSTM, "steps": 600, "checkpoint_every": 20, "start_from": "START"},
    {
        "learner": "decoder",
        "state": 16,
        "layers": 1,
        "heads": 2,
        "feed_forward": 32,
        "longest_answer": 2,
        **SMALL,
        "steps": 150,
        "checkpoint_every": 5,
    },
]

TARGETS = ("driver", "worker", "both")

PATIENCE = 300.0
"""Seconds to wait for a checkpoint before the kill comes without one."""


def write_experiment(folder: Path) -> Path:
    """Write the data, the model to start from, and the experiment file."""
    chance = random.Random(0)
    data = folder / "mine"
    data.mkdir(parents=True)
    for split, size in (("train", 400), ("dev", 40), ("test", 80)):
        lines = []
        for _ in range(size):
            words = [chance.choice(COLOURS) for _ in range(chance.randint(2, 5))]
            answer = Counter(words).most_common(1)[0][0]
            lines.append(json.dumps({"input": " ".join(words), "target": answer}))
        (data / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [json.loads(line) for line in (data / "train.jsonl").read_text().splitlines()]
    start = folder / "start"
    first = tl.learners.read({**LSTM, "steps": 20})
    first.fit([(row["input"], row["target"]) for row in rows], seed=9).save(start)
    learners = [
        {**block, "start_from": str(start)} if "start_from" in block else block
        for block in LEARNERS
    ]
    experiment = {
        "recipes": [{"recipe": "./mine"}],
        "learners": learners,
        "seeds": 1,
        "best_of": 2,
        "evaluate": ["test"],
    }
    file = folder / "experiment.yaml"
    file.write_text(json.dumps(experiment, indent=1), encoding="utf-8")  # JSON is YAML
    return file


def start(file: Path, store: Path) -> subprocess.Popen[bytes]:
    """Start the driver in a process group of its own."""
    command = [sys.executable, "-m", "taskloom", "run", str(file), "--store", str(store)]
    with (store.parent / f"{store.name}.log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--workers", "1"], stdout=log, stderr=log, start_new_session=True
        )


def finish(process: subprocess.Popen[bytes], store: Path) -> None:
    """Wait for a driver's own end."""
    if process.wait() != 0:
        raise SystemExit(f"the driver failed: {store.parent / f'{store.name}.log'}")


def checkpoints(store: Path) -> dict[Path, int]:
    """Every checkpoint in a store, with the time at which it was written."""
    times = {}
    for path in store.rglob(NAME):
        try:
            times[path] = path.stat().st_mtime_ns
        except FileNotFoundError:  # the run finished in between
            continue
    return times


def finished(store: Path) -> int:
    """Number of finished runs."""
    return len(list(store.glob("*/*/scores.json")))


def wait_for_checkpoint(process: subprocess.Popen[bytes], store: Path) -> bool:
    """Wait until the driver's worker has written a checkpoint; False if the driver ended first."""
    before = checkpoints(store)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        now = checkpoints(store)
        if any(before.get(path) != written for path, written in now.items()):
            return True
        time.sleep(0.02)
    return process.poll() is None


def children(pid: int) -> list[int]:
    """Processes that a process has started, directly or not."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []
    direct = [int(child) for child in listed]
    return [*direct, *(deeper for child in direct for deeper in children(child))]


def kill(process: subprocess.Popen[bytes], target: str) -> None:
    """Kill the driver, its workers, or the whole group."""
    victims = children(process.pid) if target == "worker" else [process.pid]
    if target == "both":
        victims += children(process.pid)
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
    # A driver whose worker was killed starts it again by itself or reports the failure; either
    # way the next command must find the store as good as new.
    if target == "worker":
        time.sleep(0.5)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
    process.wait()


def fill_under_fire(
    file: Path, store: Path, kills: int, longest: float, chance: random.Random
) -> Counter[str]:
    """Fill a store with kills on the way, at most `longest` seconds after a checkpoint, and count
    them by what was killed.
    """
    hit: Counter[str] = Counter()
    share = math.ceil(kills / len(LEARNERS))
    process = start(file, store)
    while sum(hit.values()) < kills:
        # Every learner gets its share of the kills.
        while sum(hit.values()) >= share * (finished(store) + 1) and process.poll() is None:
            time.sleep(0.1)
        if not wait_for_checkpoint(process, store):
            break
        time.sleep(chance.uniform(0.0, longest))
        if process.poll() is not None:
            break
        target = chance.choice(TARGETS)
        kill(process, target)
        hit[target] += 1
        print(f"kill {sum(hit.values())}: {target}, {finished(store)} runs finished", flush=True)
        process = start(file, store)
    finish(process, store)
    return hit


def results(store: Path) -> dict[str, bytes]:
    """The score table of a store; scores, predictions and learning curves of each run."""
    rows = sorted(json.dumps(row) for row in tl.runs(store).table.to_pylist())
    found = {"score table": "\n".join(rows).encode()}
    for path in sorted([*store.rglob("*.parquet"), *store.rglob("scores.json")]):
        found[str(path.relative_to(store))] = path.read_bytes()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the victims")
    parser.add_argument(
        "--longest", type=float, default=3.0, help="seconds between a checkpoint and the kill"
    )
    parser.add_argument("--folder", type=Path, help="where the stores are kept; default: nowhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary) / "kills").resolve()
        file = write_experiment(folder)
        calm, fire = folder / "calm", folder / "fire"
        began = time.monotonic()
        finish(start(file, calm), calm)
        print(f"left alone: {time.monotonic() - began:.0f} s", flush=True)
        chance = random.Random(options.seed)
        hit = fill_under_fire(file, fire, options.kills, options.longest, chance)
        expected, got = results(calm), results(fire)
        different = [name for name in {**expected, **got} if expected.get(name) != got.get(name)]
        print(f"{sum(hit.values())} kills {dict(hit)}; {len(expected)} tables and files compared")
        for name in different:
            print(f"different: {name}")
        if not different:
            print("all equal")
        return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
