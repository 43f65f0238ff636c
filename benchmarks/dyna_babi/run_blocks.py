"""Run the blocks of an experiment file on one GPU, lane by lane, and keep a file of scores of what
is finished.

    python benchmarks/dyna_babi/run_blocks.py benchmarks/dyna_babi/blocks.yaml --out OUT --store
    STORE --seconds 440

A lane is a process that runs its blocks one after the other, each an experiment as `taskloom run`
takes it, all in one store. Every half minute OUT/scores.json is written again, with the answers to
single examples; it holds what was finished when time is up. `--lane NAME` runs one lane here and
then writes the scores; a block `{doses, after, part, learner}` continues the models that runs on
some training data kept with doses of the part's mix. `--best-rate` takes the rate of the run in the
store that did best on dev. `--steps N`, `--examples N` and `--batch N` shrink everything, to try it
on a CPU.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

import taskloom as tl
from taskloom.experiments import api
from taskloom.experiments.sources import runs as open_store
from taskloom.experiments.sources.score_files import score_groups, write_scores
from taskloom.experiments.spec import experiment as spec
from taskloom.papers.dyna_babi.runs import story_trainings
from taskloom.papers.dyna_babi.training_sets import KINDS

TRAITS = ("question", "support", "composition", "group")
"""What the studies of Dyna-bAbI look at."""


DATA_WORKERS = 8
"""Processes that make the data of all lanes (`data…`); another lane has one, on the GPU."""


def lanes(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the blocks of each lane."""
    blocks: dict[str, list[dict[str, Any]]] = yaml.safe_load(file.read_text(encoding="utf-8"))[
        "lanes"
    ]
    return blocks


def shrunk(block: dict[str, Any], steps: int, examples: int, batch: int) -> dict[str, Any]:
    """Return a block with at most so many steps and examples; 0 leaves it as it is."""
    block = dict(block)
    if "doses" in block:
        learner = _shorter(block["learner"], steps, batch) if steps else block["learner"]
        return {**block, "learner": learner, **({"doses": [1, 2], "limit": 6} if examples else {})}
    if steps:
        block["learners"] = [_shorter(learner, steps, batch) for learner in block["learners"]]
    if examples:
        sizes = {f"splits.{split}.n": examples for split in ("train", "dev", "test")}
        if block["recipes"][0]["recipe"].startswith("babi/inject"):
            del sizes["splits.test.n"]
        block["recipes"] = [
            {**recipe, "set": {**recipe.get("set", {}), **sizes}} for recipe in block["recipes"]
        ]
        block["limit"] = 6
    return block


def _shorter(learner: Any, steps: int, batch: int) -> Any:
    """Return a learner's block with fewer steps, or passes, of few examples; a name alone is one
    that takes none.
    """
    if isinstance(learner, str):
        return learner
    length = "epochs" if "epochs" in learner else "steps"
    return {**learner, length: min(steps, learner[length]), "batch": batch}


def dose_blocks(block: dict[str, Any], store: Path) -> list[dict[str, Any]]:
    """Return an experiment for each dose of the mix, for every run on that training data that kept
    its model.
    """
    blocks = []
    runs = open_store(store)
    for group in story_trainings(runs, (block["after"],)):
        for seed, run in group.by_seed.items() if group.part == block["part"] else ():
            folder = runs.model(run)
            if folder is not None:
                blocks += [
                    {
                        "recipes": [
                            {
                                "recipe": f"babi/mix-{group.part}",
                                "set": {"splits.train.n": n * KINDS[group.part]},
                            }
                        ],
                        "learners": [{**block["learner"], "start_from": str(folder)}],
                        "seeds": [seed],
                        "evaluate": ["mix"],
                        **({"limit": block["limit"]} if "limit" in block else {}),
                    }
                    for n in block["doses"]
                ]
    return blocks


def export(store: Path, out: Path) -> int:
    """Write the file of scores of all finished runs; return how many there are."""
    if not (store / "store.json").is_file():
        return 0
    out.mkdir(parents=True, exist_ok=True)
    with (out / "scores.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # lanes that end at one time write one after the other
        runs = open_store(store)
        if len(runs):
            groups, items = score_groups(runs, TRAITS, curves=True)
            write_scores(groups, out / "scores.json", items)
    return len(runs)


def best_rate(store: Path) -> float:
    """Return the rate of the run with the highest accuracy on dev; of equal ones the lowest rate."""
    scored = []
    for run in open_store(store) if (store / "store.json").is_file() else ():
        if "dev" in run.splits:
            scored.append((run.splits["dev"].score, -run.fields["learner.rate"]))
    if not scored:
        raise SystemExit(f"{store} has no run that was answered on dev; run the lane 'rates' first")
    return float(-max(scored)[1])


def run_lane(args: argparse.Namespace) -> int:
    """Run the blocks of one lane; a block that fails is reported, and the next one begins. Return
    how many failed.
    """
    data, failed = args.lane.startswith("data"), 0
    # In this process Ctrl-C stops a training between two steps.
    where: dict[str, Any] = {"workers": DATA_WORKERS} if data else {"engine": "here"}
    for block in lanes(args.file)[args.lane]:
        block = shrunk(block, args.steps, args.examples, args.batch)
        if args.best_rate:
            rate = best_rate(args.store)
            block["learners"] = [{**learner, "rate": rate} for learner in block["learners"]]
        for one in dose_blocks(block, args.store) if "doses" in block else [block]:
            began = time.monotonic()
            try:
                faults = api.fill(spec.check(one, args.lane), args.store, **where).state.failed
                outcome = f"failed: {faults}" if faults else "done"
            except (tl.TaskloomError, RuntimeError) as error:
                outcome = f"failed: {error}"
            failed += outcome != "done"
            # a training and its captured steps hold each other, and much memory of the GPU
            gc.collect()
            name = one["recipes"][0]["recipe"]
            print(
                f"{args.lane}: {name}: {outcome} after {time.monotonic() - began:.0f} s", flush=True
            )
            print(f"{export(args.store, args.out)} runs in {args.out / 'scores.json'}", flush=True)
    return failed


def run_all(args: argparse.Namespace) -> None:
    """Start a process for each lane, and write the scores until all have ended or time is up."""
    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.seconds
    processes = []
    for lane in lanes(args.file):
        command = [sys.executable, *sys.argv, "--lane", lane]
        log = (args.out / f"{lane}.log").open("w", encoding="utf-8")
        processes.append(
            subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        )
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        time.sleep(min(args.every, max(0.1, end - time.monotonic())))
        print(
            f"{args.seconds - (end - time.monotonic()):.0f} s: {export(args.store, args.out)} runs",
            flush=True,
        )
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its workers as well
    print(f"{export(args.store, args.out)} runs in {args.out / 'scores.json'}")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=440.0)
    parser.add_argument(
        "--every", type=float, default=30.0, help="seconds between two writings of the scores"
    )
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4, help="with --steps")
    parser.add_argument("--lane", default="")
    parser.add_argument("--best-rate", action="store_true")
    args = parser.parse_args()
    if args.lane:
        sys.exit(run_lane(args))
    run_all(args)


if __name__ == "__main__":
    main()
