"""TaskBench500 on one GPU: SmolLM2-135M adapted to all tasks of a file at once, answers and masses
as compact files.

    python benchmarks/taskbench500/train.py JOBS.yaml --data FOLDER --out FOLDER [--model smollm2]
    [--only NAME...]

JOBS.yaml is a list of jobs, done in their order: `{"name", "data", "parts", "learner", "settings",
"seeds", "answers", "masses"}`. All jobs are done for the first of their seeds, then for the second,
and so on. Each writes `NAME-SEED.parquet` (part, task, separators, input, side, prediction, mass:
every answer is kept) and `NAME-SEED.json` (settings, curves, seconds, machine) when it is done, so
that what is done stays if the rest is stopped. Scores are computed elsewhere, by
`collect_scores.py`.

All tasks of a job are trained in one batch (`fit_tasks`) and answered in batches over all tasks
(`answer_tasks`).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from taskloom import Example
from taskloom.learners.config import read as read_learner
from taskloom.learners.pretrained.encoding import read_sources, read_targets
from taskloom.learners.pretrained.fitted import FittedLanguageModel
from taskloom.learners.pretrained.forward import collate, losses
from taskloom.learners.training.step import computing
from taskloom.recipe.yaml_files import parse

Task = tuple[str, str, bool]
"""Part, function, and whether its sequences have separators."""

ROWS_AT_ONCE = 1_024
"""Candidates of one pass: their logits over the vocabulary are a few gigabytes."""


def read_tasks(
    folder: Path, job: dict[str, Any], most_tasks: int
) -> dict[Task, dict[str, list[dict[str, Any]]]]:
    """Return the rows of each task by split."""
    tasks: dict[Task, dict[str, list[dict[str, Any]]]] = {}
    for row in pq.read_table(folder / f"{job['data']}.parquet").to_pylist():
        if row["part"] in job.get("parts", [row["part"]]):
            task = (row["part"], row["task"], row["separators"])
            tasks.setdefault(task, {"train": [], "test": []})[row["split"]].append(row)
    fewest = max(job["settings"]["batch"], job["settings"].get("shots", 0))
    usable = {task: splits for task, splits in tasks.items() if len(splits["train"]) >= fewest}
    return dict(list(usable.items())[:most_tasks]) if most_tasks else usable


def fit(
    job: dict[str, Any], tasks: dict[Task, Any], model: str
) -> tuple[dict[Task, FittedLanguageModel], float]:
    """Train a job's learner on all its tasks in one batch."""
    learner: Any = read_learner(
        {"learner": job["learner"], "model": model, **job["settings"]}, job["name"]
    )
    names = {json.dumps(task): task for task in tasks}
    train = {
        n: [Example(r["input"], r["targets"]) for r in tasks[t]["train"]] for n, t in names.items()
    }
    began = time.monotonic()
    fitted = learner.fit_tasks(train, None, job["seed"], progress=_report(job["name"]))
    return {names[name]: writer for name, writer in fitted.items()}, time.monotonic() - began


def _report(name: str) -> Any:
    def report(now: Any) -> None:
        if now.step in (1, 10) or now.step % 50 == 0:
            print(
                f"{name}: step {now.step} of {now.steps}, loss {now.loss:.3f}, {now.seconds:.0f} s",
                flush=True,
            )

    return report


def log_masses(
    writers: dict[Task, FittedLanguageModel], pairs: dict[Task, list[tuple[str, str]]]
) -> dict[tuple[Task, str, str], float]:
    """Return the log-probability of every pair of an input and a candidate, end mark included, in
    batches over all tasks.
    """
    first = next(iter(writers.values()))
    base = first.base
    own = [writer.prompt for writer in writers.values() if writer.prompt is not None]
    prompts = torch.stack(own) if own else None
    places = [(place, task, *pair) for place, task in enumerate(writers) for pair in pairs[task]]
    coded = read_targets(base, (candidate for *_, candidate in places))
    found = {}
    base.model.eval()
    for start in range(0, len(places), ROWS_AT_ONCE):
        some = places[start : start + ROWS_AT_ONCE]
        which = torch.tensor([place for place, *_ in some], device=first.device)
        sources = read_sources(base, [text for _, _, text, _ in some], first.learner.join)
        rows = collate(base, sources, [coded[candidate] for *_, candidate in some]).to(first.device)
        with torch.no_grad(), computing("fp32", first.device), base.choice.of(which, even=False):
            each, _, _ = losses(base, rows, prompts, which if own else None)
        for (_, task, text, candidate), loss in zip(some, each.tolist(), strict=True):
            found[task, text, candidate] = -loss
    return found


def outcome(
    job: dict[str, Any], tasks: dict[Task, Any], writers: dict[Task, FittedLanguageModel], most: int
) -> list[dict[str, Any]]:
    """Return a row for every test row: the answer, or the mass of the row's answers."""
    tests = {
        task: splits["test"][:most] if most else splits["test"] for task, splits in tasks.items()
    }
    places = [(task, row) for task, rows in tests.items() for row in rows]
    heads = [
        {"part": t[0], "task": t[1], "separators": t[2], "input": r["input"], "side": r["side"]}
        for t, r in places
    ]
    if job.get("masses"):
        logs = log_masses(
            writers,
            {t: [(r["input"], c) for r in rows for c in r["targets"]] for t, rows in tests.items()},
        )
        masses = [sum(math.exp(logs[t, r["input"], c]) for c in r["targets"]) for t, r in places]
        return [{**head, "mass": mass} for head, mass in zip(heads, masses, strict=True)]
    learner: Any = next(iter(writers.values())).learner
    asked = {json.dumps(t): [r["input"] for r in rows] for t, rows in tests.items() if rows}
    written = learner.answer_tasks({json.dumps(t): writer for t, writer in writers.items()}, asked)
    texts = [text for name in asked for text in written[name]]
    return [{**head, "prediction": text} for head, text in zip(heads, texts, strict=True)]


def done(job: dict[str, Any], args: argparse.Namespace) -> None:
    """Do one job and write its two files; one whose files are there is done."""
    path = args.out / f"{job['name']}.json"
    if path.exists() and "seconds" in json.loads(path.read_text()):
        return
    began = time.monotonic()
    tasks = read_tasks(args.data, job, args.tasks)
    if args.steps:
        job = {**job, "settings": {**job["settings"], "steps": args.steps}}
    writers, trained = fit(job, tasks, args.model)
    curves = {
        json.dumps(t): [[p.step, p.score, p.loss] for p in w.curve] for t, w in writers.items()
    }
    about = {
        "job": job,
        "curves": curves,
        "training seconds": trained,
        "commit": args.commit,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
    }
    path.write_text(json.dumps(about))
    if job.get("answers") or job.get("masses"):
        rows = outcome(job, tasks, writers, args.tests)
        pq.write_table(
            pa.Table.from_pylist(rows), args.out / f"{job['name']}.parquet", compression="zstd"
        )
    path.write_text(json.dumps({**about, "seconds": time.monotonic() - began}))
    print(
        f"{job['name']}: {len(tasks)} tasks, {time.monotonic() - began:.0f} s, training"
        f" {trained:.0f} s",
        flush=True,
    )


def jobs_by_seed(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each job one seed and a name of its own, the first seeds of all jobs first."""
    rounds = max(len(job.get("seeds", [0])) for job in jobs)
    single = []
    for turn in range(rounds):
        for job in jobs:
            seeds = job.get("seeds", [0])
            if turn < len(seeds):
                rest = {key: value for key, value in job.items() if key != "seeds"}
                single.append({**rest, "name": f"{job['name']}-{seeds[turn]}", "seed": seeds[turn]})
    return single


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--commit", default="", help="of this code, to be written down")
    parser.add_argument(
        "--only", nargs="*", default=[], help="jobs whose names begin so; all by default"
    )
    parser.add_argument("--tasks", type=int, default=0, help="only the first tasks, for a trial")
    parser.add_argument(
        "--tests", type=int, default=0, help="only the first tests of a task, for a trial"
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="steps instead of the job's, for a trial"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for job in jobs_by_seed(parse(args.jobs.read_text(encoding="utf-8"))):
        if not args.only or job["name"].startswith(tuple(args.only)):
            done(job, args)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
