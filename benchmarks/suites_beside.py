"""Speed of all suites beside another commit: CPU seconds of whole recipes, planned and made, in turn.

    git worktree add --detach ../before 8e2daf1        # the commit before recipes were brought in line with the papers
    python benchmarks/suites_beside.py ../before [--rounds 3] [--recipes ctl/A zest/synthetic]

Every figure is the best of some rounds, each in a process of its own, the two commits by turns; the first round fills the cache.
A ratio below 1 is faster than the other commit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

RECIPES = {
    "ctl/A": 0,
    "ctl/R": 0,
    "ctl/S": 0,
    "ctl/length": 0,
    "babi/1": 9_000,
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

MAKE = """
import json, sys, time
from taskloom.recipe import read
name, most = sys.argv[1], int(sys.argv[2])
start, n = time.process_time(), 0
plan = read(name).plan(0)
for split in plan.splits[: 1 if most else None]:
    rows = split.rows(0, min(most, split.n) if most else split.n)
    n += rows.num_rows if hasattr(rows, "num_rows") else sum(1 for _ in rows)
print(json.dumps([n, time.process_time() - start]))
"""


def seconds(checkout: Path, recipe: str, most: int) -> tuple[int, float]:
    """Make a recipe with the code of a checkout; return its rows and CPU seconds."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MAKE, recipe, str(most)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    rows, cpu = json.loads(output)
    return int(rows), float(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    options = parser.parse_args()
    ours = Path(__file__).parent.parent
    print(f"{'recipe':<22}{'rows':>9}{'here':>9}{'other':>9}{'ratio':>8}   CPU s, best of {options.rounds}")
    for recipe in options.recipes:
        best: dict[Path, float] = {}
        for turn in range(options.rounds):
            for checkout in (ours, options.other) if turn % 2 else (options.other, ours):
                rows, cpu = seconds(checkout, recipe, RECIPES.get(recipe, 0))
                best[checkout] = min(cpu, best.get(checkout, cpu))
        here, there = best[ours], best[options.other]
        print(f"{recipe:<22}{rows:>9,}{here:>9.2f}{there:>9.2f}{here / there:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
