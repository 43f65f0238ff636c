"""Speed of the story suite beside the reference: CPU seconds of generation, examples a second, peak
memory.

    python benchmarks/babi_speed.py [--quick] python benchmarks/babi_speed.py --beside
    ../another-checkout     # ratios to another commit, made in turn python benchmarks/babi_speed.py
    --least ../another-checkout      # the same, each row by its least time: for a busy machine

The reference's figures are those of its public generator on one core: diverse(T7) and diverse(T12)
were run in full, mix(T7) and mix(T12) extrapolated from a twentieth. Each recipe is made in a
process of its own, so that peak memory is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

REFERENCE = {
    "babi/mix-T7": 3_240.0,
    "babi/mix-T12": 11_880.0,
    "babi/diverse-T7": 1_170.0,
    "babi/diverse-T12": 1_822.0,
}
"""CPU seconds; diverse(T12) came out short, at 22,287 of 24,772."""

ONE = """
import json, resource, sys, time
from taskloom.recipe import read
plan = read(sys.argv[1]).plan(0)
next(iter(plan.splits[0].rows(0, 1)))  # the first row imports NumPy
start, n = time.process_time(), 0
for split in plan.splits:
    for _ in split.rows(0, split.n):
        n += 1
seconds = time.process_time() - start
print(json.dumps({"n": n, "seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

SOME = """
import sys, time
from taskloom.recipe import read
split = read(sys.argv[1]).plan(0).splits[0]
next(iter(split.rows(0, 1)))  # the first row imports NumPy
start = time.process_time()
n = sum(1 for _ in split.rows(0, min(split.n, int(sys.argv[2]))))
print(time.process_time() - start, n)
"""

BESIDE = {
    "babi/1": 9_000,
    "babi/3": 1_000,
    "babi/mix-T7": 1_500,
    "babi/mix-T12": 1_500,
    "babi/diverse-T7": 1_500,
}
BESIDE |= {"babi/diverse-T12": 1_500, "babi/concat-T7": 20_000}
"""Examples that are made of each recipe beside another commit."""

ROUNDS = 5

EACH = """
import json, sys, time
from taskloom.recipe import read
split, least = read(sys.argv[1]).plan(0).splits[0], []
for again in range(5):
    rows, times = split.rows(0, int(sys.argv[2])), []
    for _ in range(int(sys.argv[2])):
        start = time.perf_counter_ns()
        next(rows)
        times.append(time.perf_counter_ns() - start)
    least = [min(pair) for pair in zip(least, times)] if least else times
print(json.dumps(least))
"""

LEAST = ("babi/diverse-T12", "babi/mix-T12")
LEAST_ROWS = 400

SOLVE = """
import json, time
from taskloom.recipe import read
from taskloom.suites.babi.export import babi_text
from taskloom.suites.babi.solve_file import solve_text
text = "".join(babi_text(read("babi/mix-T12").plan(0).splits[0].rows(0, 1000)))
start = time.process_time()
report = solve_text(text)
print(json.dumps({"n": 1000, "seconds": time.process_time() - start, "wrong": len(report.differences)}))
"""


def measure(code: str, *arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(other: Path) -> None:
    """Print how much CPU time examples take for one second of another checkout: of each the best of
    some rounds in turn.
    """
    trees = [Path(__file__).parents[1], other]
    print(f"{'recipe':18} {'examples':>9} {'per s':>8} {'other':>8} {'ratio of times':>15}")
    for name, most in BESIDE.items():
        best = [float("inf"), float("inf")]
        for i in range(2 * ROUNDS):
            which = (i + i // 2) % 2  # one first, then the other first
            environment = os.environ | {"PYTHONPATH": str(trees[which].resolve() / "src")}
            command = [sys.executable, "-c", SOME, name, str(most)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            seconds, n = done.stdout.split()
            best[which] = min(best[which], float(seconds))
        rates = [int(n) / seconds for seconds in best]
        print(
            f"{name:18} {int(n):9,} {rates[0]:8,.0f} {rates[1]:8,.0f} {best[0] / best[1]:15.2f}",
            flush=True,
        )


def compare_least(other: Path) -> None:
    """Print how long rows take in two checkouts, in turn: of each row the least time, so that what
    interrupts it does not count.
    """
    trees = [Path(__file__).parents[1], other]
    print(f"{'recipe':18} {'us a row':>9} {'other':>8} {'times as fast':>14}")
    for name in LEAST:
        least: list[list[int]] = [[], []]
        for i in range(2 * ROUNDS):
            which = (i + i // 2) % 2
            environment = os.environ | {"PYTHONPATH": str(trees[which].resolve() / "src")}
            command = [sys.executable, "-c", EACH, name, str(LEAST_ROWS)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            times = json.loads(done.stdout)
            least[which] = [min(pair) for pair in zip(least[which] or times, times, strict=True)]
        ours, theirs = (sum(times) / LEAST_ROWS / 1000 for times in least)
        print(f"{name:18} {ours:9.1f} {theirs:8.1f} {theirs / ours:14.2f}", flush=True)


def main() -> None:
    if "--beside" in sys.argv:
        compare(Path(sys.argv[sys.argv.index("--beside") + 1]))
        return
    if "--least" in sys.argv:
        compare_least(Path(sys.argv[sys.argv.index("--least") + 1]))
        return
    recipes = ["babi/1", "babi/3", "babi/mix-T12"] if "--quick" in sys.argv else [
        *(f"babi/{n}" for n in range(1, 14)), "babi/mix-T2", *REFERENCE, "babi/concat-T7",
    ]  # fmt: skip
    print(
        f"{'recipe':18} {'examples':>9} {'CPU s':>8} {'per s':>8} {'peak MB':>8}"
        f" {'reference s':>12} {'ratio':>8}"
    )
    for name in recipes:
        got = measure(ONE, name)
        reference = REFERENCE.get(name)
        beside = f"{reference:12,.0f} {reference / got['seconds']:7,.0f}x" if reference else ""
        rate = got["n"] / got["seconds"]
        print(
            f"{name:18} {got['n']:9,.0f} {got['seconds']:8.2f} {rate:8,.0f} {got['mb']:8.0f}"
            f" {beside}",
            flush=True,
        )
    got = measure(SOLVE)
    print(
        f"solve, mix-T12     {got['n']:9,.0f} {got['seconds']:8.2f}"
        f" {got['n'] / got['seconds']:8,.0f}   (with all minimal supports)"
    )


if __name__ == "__main__":
    main()
