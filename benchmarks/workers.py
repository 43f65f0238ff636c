"""`make` with one and with two workers: by the clock, and in CPU-seconds of all processes together.

    python benchmarks/workers.py [--quick] [--rounds 3]

The clock says something only on a machine with two idle cores. CPU-seconds say what the second
process costs: what it imports and prepares again. Each run is a command in a process of its own, in
turn; the best of some rounds counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

CODE = """
import json, os, resource, sys, time
began = time.perf_counter()
import taskloom as tl
name, out, workers, changes = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
data = tl.make(name, out, workers=workers, set=changes)
wall = time.perf_counter() - began
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu = [one.ru_utime + one.ru_stime for one in used]
print(json.dumps({"wall": wall, "cpu": sum(cpu), "own": cpu[0], "digest": data.digest}))
"""

WORK: dict[str, tuple[str, list[str]]] = {
    "ctl/A, 319,384 rows": ("ctl/A", []),
    "ctl/A-independent, 1.5 million rows": ("ctl/A-independent", ["splits={train: {n: 1500000}}"]),
    "zest/synthetic": ("zest/synthetic", []),
    "taskbench/words": ("taskbench/words", []),
    "babi/diverse-T12, 50,000 rows": ("babi/diverse-T12", ["splits={train: {n: 50000}}"]),
}
QUICK = {
    "ctl/A, 20,000 rows": ("ctl/A", ["splits={train: {n: 20000}}"]),
    "babi/diverse-T12, 4,000 rows": ("babi/diverse-T12", ["splits={train: {n: 4000}}"]),
}


def measure(name: str, changes: list[str], workers: int) -> dict[str, float]:
    """Make a dataset in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            CODE,
            name,
            f"{folder}/d",
            str(workers),
            json.dumps(changes),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    rounds = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 3
    print(
        f"{'work':38} {'clock 1':>8} {'clock 2':>8} {'ratio':>6} {'CPU 1':>7} {'CPU 2':>7}"
        f" {'ratio':>6} {'here':>6}"
    )
    for what, (name, changes) in (QUICK if "--quick" in sys.argv else WORK).items():
        runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        for i in range(2 * rounds):
            workers = 1 + (i + i // 2) % 2  # one first, then the other first
            runs[workers].append(measure(name, changes, workers))
        assert len({run["digest"] for both in runs.values() for run in both}) == 1
        wall, cpu, own = (
            [min(run[k] for run in runs[w]) for w in (1, 2)] for k in ("wall", "cpu", "own")
        )
        clock = f"{wall[0]:8.2f} {wall[1]:8.2f} {wall[0] / wall[1]:6.2f}"
        print(
            f"{what:38} {clock} {cpu[0]:7.2f} {cpu[1]:7.2f} {cpu[1] / cpu[0]:6.2f}"
            f" {own[1] / cpu[1]:6.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
