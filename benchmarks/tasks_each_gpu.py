"""`taskloom run` with `tasks: each` beside the bare many-task path, on the same data, model and
settings.

    python benchmarks/tasks_each_gpu.py --out OUT --model FOLDER [--random] [--steps 300] [--recipe
    taskbench/english]

FOLDER is a model folder, or `smollm2`; with `--random` its config and tokeniser are enough, since
speed does not depend on the weights. Writes tasks_each.json: seconds of the command in all, of its
training and answering, of `fit_tasks` with answering called directly, and a row for every task.
`--alone N` also trains N tasks one after the other, which is what `tasks: each` would cost without
the mixed batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

import taskloom as tl
from taskloom.data import Examples
from taskloom.experiments.execute.predictions import data_folder, part_of, read_examples, read_part
from taskloom.experiments.record import TASK_FIELD
from taskloom.experiments.spec.cells import Cell, expand
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store


def experiment(args: argparse.Namespace) -> dict[str, Any]:
    """The experiment that a person would write."""
    tuned = {
        "learner": "prompt-tune",
        "model": args.model,
        "pretrained": not args.random,
        "n": args.n,
    }
    training = {
        "steps": args.steps,
        "evaluate_every": 0,
        "precision": args.precision,
        "batch": args.batch,
    }
    training["longest_answer"] = args.longest_answer
    recipe = {"recipe": args.recipe, "set": json.loads(args.set)} if args.set else args.recipe
    return {
        "recipes": [recipe],
        "learners": [{**tuned, **training}],
        "tasks": "each",
        "evaluate": ["test"],
        "limit": args.limit,
    }


def by_run(args: argparse.Namespace, store: Path) -> dict[str, Any]:
    """Time the one command; the seconds of its runs, which share the training, are training and
    answering alone.
    """
    began = time.monotonic()
    runs = tl.run(**experiment(args), store=store, workers=1)
    seconds = time.monotonic() - began
    about = [runs.environment(name) for name in runs.names]
    rows = [{k: row[k] for k in (TASK_FIELD, "n", "score")} for row in runs.table.to_pylist()]
    ways = sorted({f"{one['trained']}, {one['together']} together" for one in about})
    return {
        "in all": seconds,
        "training and answering": sum(one["seconds"] for one in about),
        "ways": ways,
        "rows": rows,
    }


def parts(store: Store, cells: list[Cell], split: str, limit: int = 0) -> dict[str, Examples]:
    """Each task's part of a split of the store's dataset."""
    return {
        cell.task: read_part(part_of(store, cell, cell.data.parts[0], split, limit))
        for cell in cells
    }


def directly(args: argparse.Namespace, path: Path) -> dict[str, float]:
    """Time `fit_tasks` and the answers on the dataset that the command has made."""
    store, cells = Store(path), expand(check(experiment(args), "the benchmark"))
    learner: Any = cells[0].learner
    train, test = parts(store, cells, "train"), parts(store, cells, "test", args.limit)
    assert data_folder(store, cells[0].data.key).is_dir()
    began = time.monotonic()
    fitted = learner.fit_tasks(train, {"test": test}, 0)
    trained = time.monotonic() - began
    place = cells[0].data.parts[0]
    rows = {
        cell.task: read_examples(part_of(store, cell, place, "test", args.limit)) for cell in cells
    }
    learner.answer_tasks(fitted, {task: [e.input for e in some] for task, some in rows.items()})
    seconds = {
        "training": trained,
        "training and answering": time.monotonic() - began,
        "answered": sum(map(len, rows.values())),
    }
    for cell in cells[: args.alone]:
        again = time.monotonic()
        learner.fit(train[cell.task], {"test": test[cell.task]}, 0)
        seconds[f"alone: {cell.task}"] = time.monotonic() - again
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--random", action="store_true", help="random weights of the model's architecture"
    )
    parser.add_argument("--recipe", default="taskbench/english")
    parser.add_argument("--set", default="", help="fields of the recipe, as JSON")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument(
        "--longest-answer", type=int, default=8, help="tokens; random weights never end an answer"
    )
    parser.add_argument(
        "--limit", type=int, default=0, help="answer at most so many test inputs of a task; 0: all"
    )
    parser.add_argument("--precision", default="bf16" if torch.cuda.is_available() else "fp32")
    parser.add_argument(
        "--alone", type=int, default=0, help="also train this many tasks one after the other"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs"
        about: dict[str, Any] = {"command": " ".join(sys.argv), "torch": torch.__version__}
        about["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        about["run"] = by_run(args, store)
        (args.out / "tasks_each.json").write_text(json.dumps(about, indent=1))
        about["directly"] = directly(args, store)
        (args.out / "tasks_each.json").write_text(json.dumps(about, indent=1))
    print(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()
