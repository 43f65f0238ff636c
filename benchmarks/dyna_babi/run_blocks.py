"""Run the blocks of an experiment file on one GPU, lane by lane, and keep a file of scores of what is finished.

    python benchmarks/dyna_babi/run_blocks.py benchmarks/dyna_babi/blocks.yaml --out OUT --store STORE --seconds 440

A lane is a process that runs its blocks one after the other, each an experiment as `taskloom run` takes it, all in one store. Every
half minute OUT/scores.json is written again, with the answers to single examples; it holds what was finished when time is up.
`--steps N` and `--examples N` shrink everything, to try it on a CPU.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

import taskloom as tl
from taskloom.experiments.runs import runs as open_store
from taskloom.studies.score_files import score_groups, write_scores

TRAITS = ("question", "support", "composition", "group")
"""What the studies of Dyna-bAbI look at."""


WORKERS = {"data": 8}
"""Processes of a lane: one has the GPU, and the data of all lanes are made by several."""


def lanes(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the blocks of each lane."""
    blocks: dict[str, list[dict[str, Any]]] = yaml.safe_load(file.read_text(encoding="utf-8"))["lanes"]
    return blocks


def shrunk(block: dict[str, Any], steps: int, examples: int) -> dict[str, Any]:
    """Return a block with at most so many steps and examples; 0 leaves it as it is."""
    block = dict(block)
    if steps:
        block["learners"] = [_shorter(learner, steps) for learner in block["learners"]]
    if examples:
        sizes = {f"splits.{split}.n": examples for split in ("train", "dev", "test")}
        if block["recipes"][0]["recipe"].startswith("babi/inject"):
            del sizes["splits.test.n"]
        block["recipes"] = [{**recipe, "set": {**recipe.get("set", {}), **sizes}} for recipe in block["recipes"]]
        block["limit"] = 6
    return block


def _shorter(learner: Any, steps: int) -> Any:
    """Return a learner's block with fewer steps of few examples; a name alone is one that takes none."""
    return learner if isinstance(learner, str) else {**learner, "steps": min(steps, learner["steps"]), "batch": 4}


def export(store: Path, out: Path) -> int:
    """Write the file of scores of all finished runs; return how many there are."""
    if not (store / "store.json").is_file():
        return 0
    runs = open_store(store)
    if len(runs):
        groups, items = score_groups(runs, TRAITS)
        write_scores(groups, out / "scores.json", items)
    return len(runs)


def run_lane(args: argparse.Namespace) -> None:
    """Run the blocks of one lane; a block that fails is reported, and the next one begins."""
    for block in lanes(args.file)[args.lane]:
        began = time.monotonic()
        try:
            tl.run(**shrunk(block, args.steps, args.examples), store=args.store, workers=WORKERS.get(args.lane, 1))
            outcome = "done"
        except (tl.TaskloomError, RuntimeError) as error:
            outcome = f"failed: {error}"
        name = block["recipes"][0]["recipe"]
        print(f"{args.lane}: {name}: {outcome} after {time.monotonic() - began:.0f} s", flush=True)


def run_all(args: argparse.Namespace) -> None:
    """Start a process for each lane, and write the scores until all have ended or time is up."""
    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.seconds
    processes = []
    for lane in lanes(args.file):
        command = [sys.executable, *sys.argv, "--lane", lane]
        log = (args.out / f"{lane}.log").open("w", encoding="utf-8")
        processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True))
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        time.sleep(min(args.every, max(0.1, end - time.monotonic())))
        print(f"{args.seconds - (end - time.monotonic()):.0f} s: {export(args.store, args.out)} runs", flush=True)
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its workers as well
    print(f"{export(args.store, args.out)} runs in {args.out / 'scores.json'}")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=440.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two writings of the scores")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--lane", default="")
    args = parser.parse_args()
    run_lane(args) if args.lane else run_all(args)


if __name__ == "__main__":
    main()
