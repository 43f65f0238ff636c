"""Speed of the CTL suite beside the public code's (57 s wall, 63 s CPU for `A` with all test splits
on two cores).

python benchmarks/ctl.py [--large]

Each figure is measured in a fresh process. Prints CPU seconds, the limit that we set ourselves, and
the ratio to the reference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

REFERENCE_CPU = {"ctl/A": 63.0, "ctl/R": 62.0, "ctl/S": 78.0}

GENERATE = """
import json, resource, sys, time
import taskloom
from taskloom.data.make import make
from taskloom.recipe import read
make("ctl/A", set=["splits={train: {n: 1000}}"])  # libraries load their parts at first use
began = time.process_time()
plan = read(sys.argv[1]).plan(0)
rows = 0
for split in plan.splits:
    for start in range(0, split.n, plan.shard_rows):
        rows += split.rows(start, min(split.n, start + plan.shard_rows)).num_rows
seconds = time.process_time() - began
print(json.dumps({"cpu": seconds, "rows": rows, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

WRITE = """
import json, resource, sys, tempfile, time
import taskloom
from taskloom.data.make import make
make("ctl/A", set=["splits={train: {n: 1000}}"])
began = time.process_time()
with tempfile.TemporaryDirectory() as folder:
    data = make(sys.argv[1], folder + "/d", set=sys.argv[2:])
    seconds = time.process_time() - began
rows = sum(e["n"] for e in data.manifest["splits"].values())
print(json.dumps({"cpu": seconds, "rows": rows, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

IMPORT = """
import json, time
began = time.process_time()
import taskloom
print(json.dumps({"cpu": time.process_time() - began}))
"""


def measure(code: str, *arguments: str) -> dict[str, float]:
    """Return the best of three fresh processes: the machine's other work can only add."""
    runs = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout))
    return min(runs, key=lambda r: r["cpu"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="also 10^7 examples (minutes)")
    args = parser.parse_args()
    took = measure(IMPORT)["cpu"]
    print(f"import taskloom: {took:.3f} CPU-seconds (limit 0.3)")
    for name, reference in REFERENCE_CPU.items():
        generated, written = measure(GENERATE, name), measure(WRITE, name)
        print(
            f"{name}: {generated['rows']:,} examples generated in {generated['cpu']:.2f}"
            " CPU-seconds (limit 0.6)"
        )
        print(
            f"  with Parquet {written['cpu']:.2f} (limit 1.5), peak {written['mb']:.0f} MB (limit"
            " 400)"
        )
        print(
            f"  reference {reference:.0f} CPU-seconds: {reference / written['cpu']:.0f} times as"
            " fast, with Parquet"
        )
    sizes = [10_000, 100_000, 1_000_000] + ([10_000_000] if args.large else [])
    for n in sizes:
        large = measure(WRITE, "ctl/A", f"splits={{train: {{n: {n}}}}}")
        print(
            f"ctl/A with {n:,} examples: {1e6 * large['cpu'] / n:.2f} CPU-microseconds each, peak"
            f" {large['mb']:.0f} MB"
        )


if __name__ == "__main__":
    main()
