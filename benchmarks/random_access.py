"""`data["train"][i]` one by one, in order and at random, and `batches(n)`: examples a CPU-second,
and what is kept in memory.

python benchmarks/random_access.py [--rows 300000]
"""

from __future__ import annotations

import random
import resource
import sys
import time

import taskloom as tl


def megabytes() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    rows = int(sys.argv[sys.argv.index("--rows") + 1]) if "--rows" in sys.argv else 300_000
    rows_of_train = {"splits": {"train": {"n": rows}}}
    order = list(range(rows))
    random.Random(0).shuffle(order)
    for what, indices in (("in order", sorted(order)), ("at random", order)):
        examples = tl.make("ctl/A-independent", set=rows_of_train)["train"]
        before = megabytes()
        for turn in ("first", "again"):
            began = time.process_time()
            for i in indices:
                examples[i]
            took = time.process_time() - began
            print(
                f"{rows:,} rows {what}, {turn}: {rows / took:,.0f} a CPU-second;"
                f" {megabytes() - before:,.0f} MB more"
            )
    examples = tl.make("ctl/A-independent", set=rows_of_train)["train"]
    for n, which in ((512, "first"), (512, "again"), (32, "again")):
        began = time.process_time()
        count = sum(len(batch["input"]) for batch in examples.batches(n))
        print(
            f"{count:,} rows in batches of {n}, {which}:"
            f" {count / (time.process_time() - began):,.0f} a CPU-second"
        )


if __name__ == "__main__":
    main()
