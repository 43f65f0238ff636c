"""Work under fire: SIGKILL at random moments, resume, and compare with work that was left alone.

    python benchmarks/kills.py [--part make|run|train|ray …] [--kills 20] [--longest 3] [--folder FOLDER]

Each part is a command that fills a folder:

- `make` makes a dataset in small shards with two workers,
- `run` fills a store with baselines, in two workers,
- `train` trains a stack of small bi-LSTMs, a bi-LSTM that starts from a saved one, and a tiny language
  model, each as the best of two tries (`best_of`), with a checkpoint every few steps,
- `ray` fills the store of `run` on a Ray cluster of its own, whose head is killed as well.

The folder is filled once without a kill. Then it is filled again elsewhere: every time that new work
has been written, the driver, its workers or both are killed after a random time, and the same command
is started again. Whenever a filling ends, it must have the same bytes as the first: of a dataset all
files, of a store the score table, scores, predictions and learning curves. The next filling begins
until that many kills have hit. Exits with 1 if anything is different.
"""

from __future__ import annotations

import argparse
import fnmatch
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
from collections.abc import Callable
from dataclasses import dataclass
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

PATIENCE = 300.0
"""Seconds to wait for new work before the kill comes without any."""

HEAD_PATIENCE = 120.0
"""Seconds in which a driver must notice that its Ray head is gone."""

TARGETS = ("driver", "worker", "both")

Contents = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Part:
    """A command that fills a folder.

    Attributes:
        command: The words after `taskloom`, from the folder to fill.
        work: A pattern of the files whose writing shows that work is being done.
        contents: What must be the same in every filling.
        targets: What is killed, chosen at random.
        shares: Number of runs over which the kills are spread.
    """

    command: Callable[[Path], list[str]]
    work: str
    contents: Callable[[Path], Contents]
    targets: tuple[str, ...] = TARGETS
    shares: int = 1


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


def write_baselines(folder: Path) -> Path:
    """Write an experiment of baselines."""
    sizes = {"train": {"n": 400}, "iid": {"n": 200}}
    experiment = {
        "recipes": [{"recipe": "ctl/A-independent", "set": {"splits": sizes}}],
        "learners": ["majority", "nearest-neighbour"],
        "seeds": 12,
    }
    folder.mkdir(parents=True)
    file = folder / "experiment.yaml"
    file.write_text(json.dumps(experiment, indent=1), encoding="utf-8")
    return file


def prepare(name: str, folder: Path) -> Part:
    """Write what a part needs."""
    if name == "make":
        words = ["make", "ctl/A-independent", "--set", "splits.train.n=300000"]
        words += ["--shard-rows", "2000", "--workers", "2"]
        folder.mkdir(parents=True)
        return Part(lambda out: [*words, "-o", str(out)], "*.parquet", files_of)
    trains = name == "train"
    file = write_experiment(folder) if trains else write_baselines(folder)
    words = ["run", str(file), "--workers", "1" if trains else "2"]
    targets = TARGETS
    if name == "ray":
        words += ["--engine", "ray"]
        targets = ("driver", "worker", "head")
    return Part(
        lambda out: [*words, "--store", str(out)],
        NAME if trains else "scores.json",
        results,
        targets,
        len(LEARNERS) if trains else 1,
    )


def start(part: Part, out: Path) -> subprocess.Popen[bytes]:
    """Start the driver in a process group of its own."""
    command = [sys.executable, "-m", "taskloom", *part.command(out)]
    # A driver should notice within seconds, not a minute, that a Ray head is gone.
    environment = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
    with (out.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env=environment
        )


def finish(process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait for a driver's own end."""
    if process.wait() != 0:
        raise SystemExit(f"the driver failed: {out.parent / f'{out.name}.log'}")


def work_of(part: Part, out: Path) -> dict[Path, int]:
    """Every file that shows work, with the time at which it was written."""
    times = {}
    # Not `rglob`, which fails if a folder is removed meanwhile.
    for folder, _, names in os.walk(out):
        for path in (Path(folder, name) for name in fnmatch.filter(names, part.work)):
            try:
                times[path] = path.stat().st_mtime_ns
            except FileNotFoundError:  # the run finished in between
                continue
    return times


def finished(out: Path) -> int:
    """Number of finished runs."""
    return len(list(out.glob("*/*/scores.json")))


def wait_for_work(process: subprocess.Popen[bytes], part: Part, out: Path) -> bool:
    """Wait until the driver's workers have written something; False if the driver ended first."""
    before = work_of(part, out)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        now = work_of(part, out)
        if any(before.get(path) != written for path, written in now.items()):
            return True
        time.sleep(0.02)
    return process.poll() is None


def children(pid: int) -> list[int]:
    """Processes that a process has started, directly or not."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    direct = [int(child) for child in listed]
    return [*direct, *(deeper for child in direct for deeper in children(child))]


def is_head(pid: int) -> bool:
    """True for the processes of a Ray head."""
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return program.endswith((b"gcs_server", b"raylet"))


def kill(process: subprocess.Popen[bytes], target: str) -> None:
    """Kill the driver, its workers, both, or its Ray head, and wait for the driver's end."""
    below = children(process.pid)
    victims = {
        "driver": [process.pid],
        "worker": [pid for pid in below if not is_head(pid)],
        "both": [process.pid, *below],
        "head": [pid for pid in below if is_head(pid)],
    }[target]
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if target == "head":
        process.wait(HEAD_PATIENCE)
    # A driver whose worker was killed starts it again by itself or reports the failure; either
    # way the next command must find the folder as good as new.
    if target == "worker":
        time.sleep(0.5)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
    process.wait()


def strike(
    process: subprocess.Popen[bytes], part: Part, out: Path, longest: float, chance: random.Random
) -> str | None:
    """Kill something at most `longest` seconds after new work was written, and name it; None if the
    driver ended first.
    """
    if not wait_for_work(process, part, out):
        return None
    time.sleep(chance.uniform(0.0, longest))
    if process.poll() is not None:
        return None
    target = chance.choice(part.targets)
    kill(process, target)
    return target


def torment(
    part: Part, folder: Path, expected: Contents, kills: int, longest: float, chance: random.Random
) -> tuple[Counter[str], list[str]]:
    """Fill folders with kills on the way. Return the kills by what was killed, and what differs."""
    hit: Counter[str] = Counter()
    different: list[str] = []
    fillings = 0
    share = math.ceil(kills / part.shares)
    while True:
        out = folder / f"fire-{fillings}"
        process = start(part, out)
        # Every run gets its share of the kills.
        while (
            part.shares > 1
            and hit.total() >= share * (finished(out) + 1)
            and process.poll() is None
        ):
            time.sleep(0.1)
        if hit.total() < kills:
            target = strike(process, part, out, longest, chance)
            if target is not None:
                hit[target] += 1
                print(f"kill {hit.total()}: {target}, filling {fillings}", flush=True)
                continue
        finish(process, out)
        got = part.contents(out)
        differing = [name for name in {**expected, **got} if expected.get(name) != got.get(name)]
        different += [f"{out.name}: {name}" for name in differing]
        fillings += 1
        if hit.total() >= kills:
            return hit, different


def files_of(folder: Path) -> Contents:
    """All files of a dataset."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def results(store: Path) -> Contents:
    """The score table of a store; scores, predictions and learning curves of each run."""
    rows = sorted(json.dumps(row) for row in tl.runs(store).table.to_pylist())
    found = {"score table": "\n".join(rows).encode()}
    for path in sorted([*store.rglob("*.parquet"), *store.rglob("scores.json")]):
        found[str(path.relative_to(store))] = path.read_bytes()
    return found


PARTS = ("make", "run", "train", "ray")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--kills", type=int, default=20, help="of each part")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the victims")
    parser.add_argument(
        "--longest", type=float, default=3.0, help="seconds between new work and the kill"
    )
    parser.add_argument("--folder", type=Path, help="where results are kept; default: nowhere")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        base = (options.folder or Path(temporary) / "kills").resolve()
        for name in options.part or PARTS:
            folder = base / name
            part = prepare(name, folder)
            calm = folder / "calm"
            began = time.monotonic()
            finish(start(part, calm), calm)
            print(f"{name}: left alone {time.monotonic() - began:.0f} s", flush=True)
            expected = part.contents(calm)
            chance = random.Random(options.seed)
            hit, different = torment(part, folder, expected, options.kills, options.longest, chance)
            print(f"{name}: {hit.total()} kills {dict(hit)}; {len(expected)} files compared")
            for difference in different:
                print(f"different: {difference}")
            print(f"{name}: {'different' if different else 'all equal'}", flush=True)
            failed = failed or bool(different)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
