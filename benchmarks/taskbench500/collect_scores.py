"""From the answers and masses of `train.py` to a file of scores that the studies of TaskBench500 read.

    python benchmarks/taskbench500/collect_scores.py OUTPUT --data FOLDER --out docs/results/taskbench500/scores.json

Words are right where any acceptable answer is given, by the suite's own scorer. Sequences are scored position by position by the
suite's scorer, and as the public code does it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import pyarrow.parquet as pq
from make_data import KEPT, LENGTH, MEMORISED

from taskloom import Example
from taskloom.scoring import AnyOf
from taskloom.studies.score_files import write_scores
from taskloom.suites.taskbench.scorers import Positions, ReferencePositions

LEFT_OUT = ("compile", "evaluate_every")
"""Settings that change no result."""

Row = dict[str, Any]
Task = tuple[str, str, bool]


def task_of(row: Row) -> Task:
    return row["part"], row["task"], row["separators"]


def by_task(rows: list[Row]) -> dict[Task, list[Row]]:
    groups: dict[Task, list[Row]] = {}
    for row in rows:
        groups.setdefault(task_of(row), []).append(row)
    return groups


def head(about: Row, task: Task, fields: Row) -> Row:
    """Return the part of a group that says what was trained, and how."""
    job = about["job"]
    settings = {k: v for k, v in job["settings"].items() if k not in LEFT_OUT}
    learner = {f"learner.{key}": value for key, value in {"model": "smollm2", **settings}.items()}
    return {
        "recipe": "taskbench/500",
        "learner": job["learner"],
        "fields": {"recipe.task": f"taskbench/{task[1]}", **fields, **learner},
        "environment": {"gpu": about["gpu"], "commit": about["commit"], "job": job["name"]},
    }


def words(about: Row, rows: list[Row], data: dict[Task, list[Row]]) -> Iterator[Row]:
    scorer, seed = AnyOf(numbers=False), str(about["job"].get("seed", 0))
    for task, own in by_task(rows).items():
        known = {row["input"]: row["targets"] for row in data[task]}
        scores = [scorer.score(r["prediction"], Example(r["input"], known[r["input"]])) for r in own]
        answers = statistics.fmean(len(known[r["input"]]) for r in own)
        further = {seed: {"test": {"answers": round(answers, 3)}}}
        score = {seed: {"test": round(statistics.fmean(scores), 6)}}
        yield {**head(about, task, {}), "n": {"test": len(own)}, "seeds": score, "further": further}


def sequences(about: Row, rows: list[Row], data: dict[Task, list[Row]], sets: dict[Any, Any]) -> Iterator[Row]:
    seed = str(about["job"].get("seed", 0))
    for task, own in by_task(rows).items():
        answers_at = partial(_answers_at, sets, task[1])
        scorer = Positions(answers_at, task[2])
        known = {row["input"]: row for row in data[task]}
        items = [Example(r["input"], known[r["input"]]["targets"], key=known[r["input"]]["key"]) for r in own]
        compatible = ReferencePositions(answers_at, task[2])
        pairs = list(zip((r["prediction"] for r in own), items, strict=True))
        sizes = [len(answers) for item in items for answers in answers_at(item)]
        further = {
            "answers": round(statistics.fmean(sizes), 3),
            "reference-compatible": round(statistics.fmean(compatible.score(p, e) for p, e in pairs), 6),
        }
        score = round(statistics.fmean(scorer.score(p, e) for p, e in pairs), 6)
        fields = {
            "recipe.sequences.length": LENGTH,
            "recipe.sequences.kept": KEPT,
            "recipe.sequences.separators": task[2],
        }
        yield {
            **head(about, task, fields),
            "n": {"test": len(own)},
            "seeds": {seed: {"test": score}},
            "further": {seed: {"test": further}},
        }


def _answers_at(sets: dict[Any, Any], task: str, example: Example) -> Any:
    return sets[task, example.key]


def memorise(about: Row) -> Iterator[Row]:
    """Return the curves of training batches in passing; the score is the last point's."""
    seed = str(about["job"].get("seed", 0))
    for name, points in about["curves"].items():
        task: Task = tuple(json.loads(name))
        fields = {"recipe.memorise": MEMORISED, "recipe.labels": task[0]}
        curve = [[step, "train", round(score, 4)] for step, score, _ in points]
        last = {seed: {"memorise": curve[-1][2]}}
        yield {**head(about, task, fields), "n": {"memorise": MEMORISED}, "seeds": last, "curves": {seed: curve}}


def balanced(about: Row, rows: list[Row]) -> Iterator[Row]:
    """Return the mean mass on each side; the score is the mean over both."""
    seed = str(about["job"].get("seed", 0))
    for task, own in by_task(rows).items():
        sides = sorted({row["side"] for row in own})
        masses = {f"mass {s}": round(statistics.fmean(r["mass"] for r in own if r["side"] == s), 6) for s in sides}
        score = {seed: {"test": round(statistics.fmean(masses.values()), 6)}}
        further = {seed: {"test": masses}}
        group = head(about, task, {"recipe.balanced": True})
        yield {**group, "n": {"test": len(own)}, "seeds": score, "further": further}


def collected(folder: Path, data: Path) -> Iterator[Row]:
    """Yield the groups of all jobs that were finished."""
    tests: dict[str, dict[Task, list[Row]]] = {}
    positions = data / "positions.parquet"
    sets = (
        {(r["task"], r["key"]): r["sets"] for r in pq.read_table(positions).to_pylist()} if positions.exists() else {}
    )
    for path in sorted(folder.glob("*.json")):
        about = json.loads(path.read_text())
        name = about["job"]["data"]
        if name == "memorise":
            yield from memorise(about)
            continue
        answers = path.with_suffix(".parquet")
        if not answers.exists():
            continue  # stopped while it answered
        rows = pq.read_table(answers).to_pylist()
        if name == "balanced":
            yield from balanced(about, rows)
            continue
        if name not in tests:
            table = pq.read_table(data / f"{name}.parquet", filters=[("split", "==", "test")])
            tests[name] = by_task(table.to_pylist())
        if name == "sequences":
            yield from sequences(about, rows, tests[name], sets)
        else:
            yield from words(about, rows, tests[name])


def merged(groups: Iterator[Row]) -> list[Row]:
    """Put the seeds of one task and learner into one group."""
    by_kind: dict[str, Row] = {}
    for group in groups:
        kind = json.dumps([group["recipe"], group["learner"], group["fields"]])
        first = by_kind.setdefault(kind, group)
        for key in ("seeds", "further", "curves"):
            if key in group:
                first[key] |= group[key]
    return list(by_kind.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the folder that train.py wrote to")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    groups = merged(collected(args.output, args.data))
    write_scores(groups, args.out)
    print(f"{args.out}: {len(groups):,} tasks and learners, {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
