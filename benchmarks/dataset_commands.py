"""CPU seconds and memory of commands that read whole datasets and of starting: `verify --all`,
`audit`, `make --jsonl`, `list`.

    python benchmarks/dataset_commands.py [--rows 1000000] python benchmarks/dataset_commands.py
    --beside ../another-checkout     # and the ratio to another commit, in turn

Each command runs in a process of its own, several times where it is short; the least is shown,
since the machine's other work can only add. Below the commands that only start stands what their
libraries alone take.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LIBRARIES = "import numpy, pyarrow, pyarrow.compute, pydantic, typer, rich.console, yaml"


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of a process and its children, and its largest memory in MB."""

    seconds: float
    megabytes: float


def run(checkout: Path, arguments: list[str], times: int, fresh: Path | None = None) -> Cost:
    """Run `python` with arguments several times, `fresh` removed before each, and return the least
    cost.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    costs = []
    for _ in range(times):
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):  # an audit that finds something ends with 1
            raise SystemExit(f"{' '.join(arguments)} ended with status {process.returncode}")
        costs.append(Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return min(costs, key=lambda cost: cost.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="training rows of ctl/A")
    parser.add_argument("--beside", type=Path, help="another checkout")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data, other = Path(scratch) / "data", Path(scratch) / "jsonl"
        size = ["--set", f"splits.train.n={args.rows}"]
        program = ["-m", "taskloom"]
        run(HERE, [*program, "make", "ctl/A", "-o", str(data), *size], 1)
        commands = {
            f"verify --all, {args.rows:,} rows": (
                [*program, "verify", "--all", str(data)],
                1,
                None,
            ),
            f"audit, {args.rows:,} rows": ([*program, "audit", str(data)], 1, None),
            f"make --jsonl, {args.rows:,} rows": (
                [*program, "make", "ctl/A", "-o", str(other), "--jsonl", *size],
                1,
                other,
            ),
            "list": ([*program, "list"], 5, None),
            "show ctl/A": ([*program, "show", "ctl/A"], 5, None),
            "make ctl/A": ([*program, "make", "ctl/A", "-o", str(other)], 3, other),
            "the libraries alone": (["-c", LIBRARIES], 5, None),
        }
        for name, (arguments, times, fresh) in commands.items():
            cost = run(HERE, arguments, times, fresh)
            line = f"{name:<30} {cost.seconds:6.2f} CPU-s {cost.megabytes:6.0f} MB"
            if args.beside is not None:
                before = run(args.beside, arguments, times, fresh)
                line += (
                    f"   there {before.seconds:6.2f} CPU-s {before.megabytes:6.0f} MB,"
                    f" {before.seconds / cost.seconds:.2f}x"
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
