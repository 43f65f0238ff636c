"""Score of a perfect answer by the public code's rule, on data with capitals and in lower case.

    python benchmarks/taskbench500/ceilings.py                  # needs TASKLOOM_DATA; under a
    minute on one core python benchmarks/taskbench500/ceilings.py --data FOLDER    # on the tests
    that make_data.py chose by length python benchmarks/taskbench500/ceilings.py --data FOLDER
    --scores docs/results/taskbench500/scores.json

The public code takes the first n words of an output for its n positions (or the n parts between
separators), and compares them in lower case with the answer sets as they are stored. So an answer
of several words is missed without separators, and an answer with capitals always. The table shows
how much of a perfect answer is left, over the maps of all atomic relations.

With `--scores` it also estimates what the public rule would give on lower-case data. The
predictions of the stored runs were not kept, so each score is multiplied by the ceiling of its
task. With the ceilings of data with capitals, this can be compared with the stored scores by the
public rule, which were computed from the predictions.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import pyarrow.parquet as pq
from make_data import map_tasks

from taskloom import Example
from taskloom.experiments.sources.score_files import open_runs
from taskloom.papers.taskbench500.composition_table import COMPATIBLE, RIGHT, composed_tasks
from taskloom.papers.taskbench500.task_regression import regress
from taskloom.recipe import read
from taskloom.suites.taskbench.scorers import ReferencePositions

SEQUENCES = 40
"""Test sequences of each task, as many as the stored runs have."""

Ceilings = dict[str, float]
"""Mean score of a perfect answer, by task."""


def ceilings(case: str, length: int, separators: bool, tasks: list[str]) -> Ceilings:
    shape = {"length": length, "kept": length // 2, "n": 10 * SEQUENCES, "separators": separators}
    fields = {"catalog": None, "functions": tasks, "sequences": shape, "case": case}
    plan = read("taskbench/500", {**fields, "few_shot": None, "answers": False}).plan()
    scorer: Any = plan.scorer
    tests = plan.split("test")
    scores: dict[str, list[float]] = {}
    table: Any = tests.rows(0, tests.n)
    for row in table.select(["task", "input", "targets", "key"]).to_pylist():
        public = ReferencePositions(scorer.sequences(row["task"]).sets, separators)
        example = Example(row["input"], row["targets"], key=row["key"])
        scores.setdefault(row["task"].removeprefix("taskbench/"), []).append(
            public.score(example.target, example)
        )
    return {task: statistics.fmean(own) for task, own in scores.items()}


def stored_ceilings(folder: Path, lower: bool, separators: bool) -> Ceilings:
    """Score perfect answers to the stored tests, as they are or with their answer sets in lower
    case.
    """
    sets = {
        (row["task"], row["key"]): row["sets"]
        for row in pq.read_table(folder / "positions.parquet").to_pylist()
    }
    chosen = [("split", "==", "test"), ("separators", "==", separators)]
    scores: dict[str, list[float]] = {}
    for row in pq.read_table(folder / "sequences.parquet", filters=chosen).to_pylist():
        if not row["task"].startswith("map("):
            continue
        accepted = sets[row["task"], row["key"]]
        if lower:
            accepted = [[answer.lower() for answer in answers] for answers in accepted]
        example = Example(row["input"], row["targets"], key=row["key"])
        public = ReferencePositions(partial(_same, accepted), separators)
        scores.setdefault(row["task"], []).append(public.score(example.target, example))
    return {task: statistics.fmean(own) for task, own in scores.items()}


def _same(sets: Any, example: Example) -> Any:
    return sets


def estimates(folder: Path, scores: Path) -> None:
    """Estimate r² by the public rule as score × ceiling, and compare with the stored scores by that
    rule.
    """
    groups, _ = composed_tasks(open_runs(scores))
    stored = {(g.composition, g.procedure): g for g in groups if g.scoring == COMPATIBLE}
    for group in groups:
        if group.scoring != RIGHT or group.composition not in ("map", "map (+separators)"):
            continue
        separators = group.composition != "map"
        parts = [t.parts for t in group.tasks]
        line = f"{group.composition}, {group.procedure}:"
        for lower in (False, True):
            limits = stored_ceilings(folder, lower, separators)
            estimated = [t.score * limits[t.one.task] for t in group.tasks]
            r2 = regress(parts, estimated).r2
            line += f" estimate {'in lower case' if lower else 'with capitals'} {r2:.2f},"
            if not lower:
                public = [t.score for t in stored[group.composition, group.procedure].tasks]
                agreement = math.sqrt(regress(estimated, public).r2)
                line += (
                    f" stored {regress(parts, public).r2:.2f} (correlation of the two over tasks"
                    f" {agreement:.2f}),"
                )
        print(line.rstrip(","))


def report(head: str, separators: bool, found: Ceilings) -> None:
    zero = sum(score == 0 for score in found.values())
    mean = statistics.fmean(found.values())
    apart = "with" if separators else "without"
    print(
        f"{head}, {apart} separators: mean {mean:.3f} of {len(found)} maps, {zero} at 0", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tasks", nargs="*", help="maps to list one by one; default: means over all"
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of make_data.py; default: fresh tests, without a limit on length",
    )
    parser.add_argument("--scores", type=Path, help="file of scores for estimates; needs --data")
    args = parser.parse_args()
    if args.data:
        for lower in (True, False):
            for separators in (False, True):
                head = "answer sets in lower case" if lower else "answer sets as stored"
                report(head, separators, stored_ceilings(args.data, lower, separators))
        if args.scores:
            estimates(args.data, args.scores)
        return
    for case in ("lower", "as-is"):
        for length in (4, 8):
            for separators in (False, True):
                found = ceilings(case, length, separators, args.tasks or map_tasks())
                report(f"{case}, {length} items", separators, found)
                for task in args.tasks or ():
                    print(f"  {task} {found[task]:.2f}")


if __name__ == "__main__":
    main()
