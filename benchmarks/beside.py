"""All CPU figures of an earlier commit beside today's: CPU seconds of both, by turns, as a table in
Markdown.

    make bench-beside                                                         # 8e2daf1;
    BEFORE=COMMIT for another python benchmarks/beside.py CHECKOUT [--rounds 3] [--only ctl babi/1
    audit]

Every figure is the least of some rounds, each in a process of its own, with the two commits by
turns and each of them first in every other round: what else the machine does can only add. A ratio
below 1 is faster than the other commit; the last line names what is above 1.1. Sizes are such that
all of it takes some eight minutes on two quiet cores. TASKLOOM_DATA names the resources of
TaskBench, without which its tasks on real words and facts are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import multiprocessing
import os
import pkgutil
import re
import resource
import runpy
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from instant_server import serve

HERE = Path(__file__).resolve().parents[1]
LIMIT = 1.1

GENERATED = {
    "ctl/A": 0,
    "ctl/R": 0,
    "ctl/S": 0,
    "ctl/length": 0,
    "babi/1": 9_000,
    "babi/19": 1_000,
    "babi/mix-T7": 1_500,
    "babi/mix-T12": 1_500,
    "babi/diverse-T12": 1_500,
    "babi/concat-T7": 20_000,
    "taskbench/english": 0,
    "taskbench/balanced": 0,
    "taskbench/memorise": 0,
    "zest/synthetic": 6_000,
}
"""With the rows of the first split that are made; 0: all splits."""

WRITTEN: dict[str, tuple[str, list[str]]] = {
    "`ctl/A`": ("ctl/A", []),
    "`ctl/R`": ("ctl/R", []),
    "`ctl/S`": ("ctl/S", []),
    "`ctl/A`, 10^4 drawn rows": ("ctl/A", ["splits.train.n=10000"]),
    "`ctl/A`, 10^6 drawn rows": ("ctl/A", ["splits.train.n=1000000"]),
    "`taskbench/words`, 211 tasks": ("taskbench/words", []),
    "the atomic factual tasks of `taskbench/500`": (
        "taskbench/500",
        ["catalog={families: [factual], compositions: [atomic]}"],
    ),
}
NEEDS_DATA = ("words", "factual", "map(synonyms)")
TINY = {
    "symbols": 4,
    "functions": 8,
    "max_length": 3,
    "splits": {"train": {"n": 200}, "ood": {"n": 10}},
}

MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own in it
"""A file system in memory, on Linux."""

Figures = dict[str, float]
"""CPU seconds by what they are of."""


def cpu() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds that something takes."""
    began = cpu()
    work()
    return cpu() - began


def first_module(*names: str) -> Any:
    """Import the first of some modules that there is: commits call them differently."""
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise SystemExit(f"none of {', '.join(names)} is there")


def checkout() -> Path:
    """Return the checkout whose package this process imports."""
    return Path(str(importlib.import_module("taskloom").__file__)).parents[2]


def import_suite(recipe: str) -> None:
    """Import all modules of a recipe's suite, which belong to starting (`start.py`) and not to the
    work.
    """
    package = importlib.import_module(f"taskloom.suites.{recipe.partition('/')[0]}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def generate(recipe: str, changes: tuple[str, ...] = ()) -> Figures:
    """Plan a recipe and make its rows."""
    from taskloom.recipe import read

    import_suite(recipe)
    checked = read(recipe, changes)  # builds the models of its fields, once for a process
    n = 0

    def work() -> None:
        nonlocal n
        plan = checked.plan(0)
        most = GENERATED.get(recipe, 0)
        for split in plan.splits[: 1 if most else None]:
            rows: Any = split.rows(0, min(most, split.n) if most else split.n)
            n += rows.num_rows if hasattr(rows, "num_rows") else sum(1 for _ in rows)

    seconds = timed(work)
    return {f"{recipe} | {n:,} rows": seconds}


def synonyms() -> Figures:
    """Make 10,000 sequences of one task."""
    small = ("sequences.n=10000", "answers=false", "few_shot=null", "lexicon=nltk")
    return {
        "map(synonyms) | 10,000 sequences": sum(
            generate("taskbench/map(synonyms[eng])", small).values()
        )
    }


def write(what: str) -> Figures:
    """Make a dataset into a folder."""
    import taskloom

    name, changes = WRITTEN[what]
    if name == "taskbench/500":
        changes = [*changes, f"facts={os.environ['TASKLOOM_DATA']}/wikidata/wikidata-subset.nt.gz"]
    import_suite(name)
    with tempfile.TemporaryDirectory() as folder:
        seconds = timed(lambda: taskloom.make(name, f"{folder}/d", set=changes))
        return {f"{what}, written | {rows_in(f'{folder}/d')}": seconds}


def rows_in(folder: str) -> str:
    """Return the number of rows of a dataset."""
    manifest = json.loads(Path(folder, "manifest.json").read_text(encoding="utf-8"))
    return f"{sum(split['n'] for split in manifest['splits'].values()):,} rows"


def commands() -> Figures:
    """Run commands on a dataset of some 100,000 rows that this checkout made, start included."""
    with tempfile.TemporaryDirectory() as folder:
        size = ["--set", "splits.train.n=100000"]

        def run(*arguments: str) -> float:
            command = [sys.executable, "-c", "from taskloom.cli import main; main()", *arguments]
            return timed(partial(subprocess.run, command, stdout=subprocess.DEVNULL))

        run("make", "ctl/A", "-o", f"{folder}/data", *size)
        rows = rows_in(f"{folder}/data")
        return {
            f"`verify --all` | {rows}": run("verify", "--all", f"{folder}/data"),
            f"`audit` | {rows}": run("audit", f"{folder}/data"),
            f"`make --jsonl` | {rows}": run(
                "make", "ctl/A", "-o", f"{folder}/jsonl", "--jsonl", *size
            ),
        }


def scores() -> Figures:
    """Score the test split of zest/synthetic in both ways."""
    from taskloom.core.seeding import Key
    from taskloom.recipe import read
    from taskloom.suites.zest.evaluation import score

    worlds = first_module(
        "taskloom.suites.zest.synthetic.task_world", "taskloom.suites.zest.synthetic.weaving"
    )
    recipe = read("zest/synthetic")
    build = worlds.task_world if hasattr(worlds, "task_world") else worlds.world
    tasks = worlds.zest_tasks(build(recipe.fields, Key(recipe.digest, 0)), "test")
    rng = Random(0)
    predictions = [noisy(str(i.answer), rng) for task in tasks for i in task.instances]
    return {
        f"scoring ZEST, {mode} | {len(predictions):,} instances": timed(
            partial(score, tasks, predictions, mode)
        )
        for mode in ("official", "corrected")
    }


def noisy(answer: str, rng: Random) -> str:
    """Return a prediction that is right, missing, superfluous or damaged."""
    return rng.choice(
        [answer, answer, answer.upper(), "n/a", "yes", answer[: len(answer) // 2], answer + " more"]
    )


def evaluation() -> Figures:
    """Run the checkout's own script on the evaluation loop, of which it prints milliseconds an
    example.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(checkout() / "benchmarks" / "learners_overhead.py"), run_name="__main__")
    lines = re.findall(r"^(\w+),.*?([\d.]+) ms an example", printed.getvalue(), re.MULTILINE)
    return {
        f"evaluation loop, {name} | 1,000 examples": float(ms)
        for name, ms in lines
        if name != "endpoint"
    }


def cells() -> Figures:
    """Fill a store with 700 tiny cells by one worker, since two wait for each other's files, and
    open it.

    In memory where that can be: ext4 looks for a free number for each new file among those of files
    that were deleted in the last seconds, and the round before has just deleted thousands, so that
    whoever comes first would win. `cells_on_disk.py` measures the same on disk, where nothing is
    deleted between rounds.
    """
    from taskloom.experiments.store import Store

    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        filled = fill_store(Path(folder) / "runs", 700)

        def opened() -> None:
            for _ in range(10):
                Store(Path(folder) / "runs").runs()

        return {
            "experiment, driver and worker | 700 tiny cells": filled,
            "opening runs as a table | 700 runs, ten times": timed(opened),
        }


def fill_store(folder: Path, number: int) -> float:
    """Return the CPU seconds of filling a store with so many tiny cells."""
    from taskloom.experiments import api
    from taskloom.experiments.spec.experiment import check

    recipe = {"recipe": "ctl/A", "set": TINY}
    experiment = check(
        {"recipes": [recipe], "learners": ["majority"], "seeds": number, "evaluate": ["ood"]},
        "bench",
    )
    return timed(lambda: api.fill(experiment, folder, workers=1))


def endpoint() -> Figures:
    """Ask a server that answers at once, 8 at a time; the client's CPU seconds."""
    clients = first_module("taskloom.learners.models.client", "taskloom.learners.asking")
    client = getattr(clients, "ModelClient", None) or clients.Asker
    figures = {}
    with (
        socket.create_server(("127.0.0.1", 0), backlog=64) as listening,
        tempfile.TemporaryDirectory() as folder,
    ):
        server = multiprocessing.get_context("fork").Process(
            target=serve, args=(listening,), daemon=True
        )
        server.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        for name, cache in (
            ("endpoint", None),
            ("endpoint with its cache on disk", Path(folder) / "cache"),
        ):
            model = client(url, "m", "key", clients.Limits(at_once=8), cache)
            model.ask([f"warm {i}" for i in range(50)], 8)
            questions = [f"Is {i} a number? |" for i in range(1000)]
            figures[f"{name} | 1,000 requests"] = timed(partial(model.ask, questions, 8))
        server.terminate()
        server.join()
    return figures


PIECES: dict[str, tuple[Callable[[], Figures], int]] = {
    **{
        name: (partial(generate, name), 2 if "balanced" in name or "memorise" in name else 0)
        for name in GENERATED
    },
    "map(synonyms)": (synonyms, 0),
    **{f"written {what}": (partial(write, what), 0 if "ctl" in what else 2) for what in WRITTEN},
    "verify, audit, jsonl": (commands, 2),
    "scoring": (scores, 2),
    "evaluation": (evaluation, 0),
    "experiment, opening runs": (cells, 0),
    "endpoint": (endpoint, 0),
}
"""What is measured, with the most rounds where one takes long; 0: as many as are asked for."""


def run(tree: Path, piece: str) -> Figures:
    """Measure a piece with the code of a checkout, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    command = [sys.executable, __file__, "--piece", piece]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(piece: str, other: Path, rounds: int) -> Iterator[tuple[str, float, float]]:
    """Yield each figure of a piece, here and there."""
    best: dict[Path, Figures] = {HERE: {}, other: {}}
    for turn in range(rounds):
        for tree in (HERE, other) if turn % 2 else (other, HERE):
            for what, seconds in run(tree, piece).items():
                best[tree][what] = min(seconds, best[tree].get(what, seconds))
    # Suites have had other sizes: figures stand in their order, with today's names, and are
    # compared by example.
    for (what, here), (earlier, there) in zip(best[HERE].items(), best[other].items(), strict=True):
        yield what, here, there * size(what) / size(earlier)


def size(what: str) -> int:
    """Return the number of examples that a figure is of."""
    return (
        int(re.split(r"\| ", what)[1].split(" ")[0].replace(",", ""))
        if re.search(r"\| \d", what)
        else 1
    )


def commit(tree: Path) -> str:
    """Return the commit of a checkout; the name of a folder that is none."""
    if not (tree / ".git").exists():
        return tree.resolve().name
    command = ["/usr/bin/env", "git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", nargs="+", default=[""], help="parts of the names of what is measured"
    )
    parser.add_argument("--piece", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.piece:
        print(json.dumps(PIECES[options.piece][0]()))
        return
    if options.other is None:
        parser.error("name the checkout of another commit")
    chosen = [piece for piece in PIECES if any(part in piece for part in options.only)]
    if not os.environ.get("TASKLOOM_DATA"):
        chosen = [piece for piece in chosen if not any(part in piece for part in NEEDS_DATA)]
    print(
        f"| what | size | {commit(HERE)} | {commit(options.other)} | ratio |\n| --- | --- | --- |"
        " --- | --- |"
    )
    began, slower = time.monotonic(), []
    for piece in chosen:
        rounds = min(options.rounds, PIECES[piece][1] or options.rounds)
        for what, here, there in compare(piece, options.other, rounds):
            print(f"| {what} | {here:.3g} | {there:.3g} | {here / there:.2f} |", flush=True)
            if here > LIMIT * there:
                slower.append(what.partition(" |")[0])
    print(
        f"\nabove {LIMIT}: {', '.join(slower) or 'nothing'} ({time.monotonic() - began:.0f} s in"
        " all)"
    )


if __name__ == "__main__":
    main()
