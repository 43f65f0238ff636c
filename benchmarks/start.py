"""CPU seconds of commands that have next to nothing to do but start: least and median of ten
processes each.

    python benchmarks/start.py [--times 10]
    python benchmarks/start.py --beside ../another-checkout     # and another commit, in turn
    python benchmarks/start.py --imports show ctl/A             # what a command imports, by library

User and system time of the whole process, its end included, with bytecode and files in the cache,
as a user meets it at the second call. The machine's other work can only add, so the least is the
figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SMALL = ["--set", "splits.train.n=5000"]
EXPERIMENT = """
recipes: [{recipe: ctl/A, set: {splits: {train: {n: 4600}, iid: {n: 50}, ood: {n: 50}}}}]
learners: [majority, bag-of-words]
seeds: 2
"""
LIBRARIES = "numpy, pyarrow.compute, pydantic.types, typer.main, rich.console, yaml"
TASKLOOM = ["-m", "taskloom"]

WATCH = """
import atexit, importlib._bootstrap as bootstrap, json, sys, time
load, own, inner = bootstrap._load_unlocked, {}, []
def timed(spec):
    began = time.process_time()
    inner.append(0.0)
    try:
        return load(spec)
    finally:
        whole = time.process_time() - began
        own[spec.name] = whole - inner.pop()
        if inner:
            inner[-1] += whole
bootstrap._load_unlocked = timed
atexit.register(lambda: print(json.dumps(own), file=sys.stderr))
from taskloom.cli import run
sys.exit(run(sys.argv[1:]))
"""
"""Runs a command and prints the CPU seconds that each module's own code took while it was
imported.
"""


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which a checkout's package is found, with its bytecode, as where it
    is installed.
    """
    values = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    values.pop("PYTHONDONTWRITEBYTECODE", None)
    return values


def seconds(checkout: Path, arguments: list[str], folder: Path) -> float:
    """Run `python` with these arguments in a folder and return its CPU seconds."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(checkout),
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def commands() -> dict[str, list[str]]:
    """Return what is measured, by name; the store of runs and the dataset are made by `prepare`."""
    return {
        "python -c pass": ["-c", "pass"],
        "the libraries alone": ["-c", f"import {LIBRARIES}"],
        "import taskloom": ["-c", "import taskloom"],
        "taskloom --help": [*TASKLOOM, "--help"],
        "taskloom list": [*TASKLOOM, "list"],
        "taskloom show ctl/A": [*TASKLOOM, "show", "ctl/A"],
        "taskloom make ctl/A, 5,000 rows": [
            *TASKLOOM,
            "make",
            "ctl/A",
            "-o",
            "new",
            "--force",
            *SMALL,
        ],
        "taskloom run, nothing left to do": [
            *TASKLOOM,
            "run",
            "experiment.yaml",
            "--store",
            "runs",
        ],
        "taskloom runs report, 4 runs": [*TASKLOOM, "runs", "report", "runs", "-o", "report.html"],
    }


def prepare(folder: Path) -> None:
    """Write the experiment and run it."""
    (folder / "experiment.yaml").write_text(EXPERIMENT, encoding="utf-8")
    seconds(HERE, [*TASKLOOM, "run", "experiment.yaml", "--store", "runs"], folder)


def imports(arguments: list[str], times: int) -> None:
    """Print the CPU seconds of a command's imports by library: the least of several processes,
    module by module.
    """
    least: dict[str, float] = {}
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, "-c", WATCH, *arguments],
            env=environment(HERE),
            capture_output=True,
            text=True,
            check=True,
        )
        for name, value in json.loads(done.stderr.splitlines()[-1]).items():
            least[name] = min(value, least.get(name, value))
    libraries: dict[str, float] = {}
    for name, value in least.items():
        head = name.partition(".")[0]
        library = "standard library" if head in sys.stdlib_module_names else head
        libraries[library] = libraries.get(library, 0.0) + value
    for library, value in sorted(libraries.items(), key=lambda entry: -entry[1])[:12]:
        print(f"{library:<20} {1000 * value:6.1f} CPU-ms")
    print(f"{'all ' + str(len(least)) + ' modules':<20} {1000 * sum(least.values()):6.1f} CPU-ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=10, help="processes of each command")
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument(
        "--imports", nargs=argparse.REMAINDER, help="a command whose imports are listed instead"
    )
    args = parser.parse_args()
    if args.imports:
        imports(args.imports, args.times)
        return
    checkouts = [HERE, *([args.beside.resolve()] if args.beside else [])]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for name, arguments in commands().items():
            # In turn, so that what else the machine does falls on both alike; the first of each
            # fills caches.
            rounds = [
                [seconds(c, arguments, folder) for c in checkouts] for _ in range(args.times + 1)
            ][1:]
            shown = [
                f"{min(own):5.2f} (median {statistics.median(own):4.2f})"
                for own in zip(*rounds, strict=True)
            ]
            print(f"{name:<34} {'   there '.join(shown)} CPU-s", flush=True)


if __name__ == "__main__":
    main()
