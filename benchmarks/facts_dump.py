"""Building a world of facts from a generated dump: triples a second, and peak memory by size.

    python benchmarks/facts_dump.py [1e6 1e7 …]

Another process writes the dump to a pipe, so that no size needs disk for it. Its lines have the
proportions of a truthy dump: of ten triples one is a fact that the tasks need, one an English
label, and eight are other properties, other languages and values. Entities are numbered up to the
130 million of Wikidata.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENTITY = "http://www.wikidata.org/entity/Q"
DIRECT = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
HIGHEST = 130_000_000
"""Wikidata's highest Q-number, about."""


def write(triples: int) -> None:
    """Write a dump to standard output: blocks of ten lines about one entity."""
    properties = ["P31", "P17", "P106", "P27", "P21", "P19", "P22", "P136"]
    out = sys.stdout.buffer
    step = 0
    while step < triples // 10:
        lines: list[str] = []
        for block in range(step, min(step + 20_000, triples // 10)):
            # A multiplicative step spreads subjects and objects over all numbers.
            x, y = block * 48_271 % HIGHEST + 1, block * 69_621 % HIGHEST + 1
            subject = f"<{ENTITY}{x}>"
            lines.append(f"{subject} <{DIRECT}{properties[block % 8]}> <{ENTITY}{y}> .")
            lines.append(f'{subject} <{LABEL}> "Entity number {x}"@en .')
            for n, language in enumerate(("fr", "de", "es", "zh-hans")):
                lines.append(f'{subject} <{LABEL}> "Nummer {x} {n}"@{language} .')
            lines.append(f'{subject} <{DIRECT}P569> "1900-01-01T00:00:00Z" .')
            lines.append(f"{subject} <{DIRECT}P1343> <{ENTITY}{y}> .")
            lines.append(f'{subject} <http://schema.org/description> "une chose"@fr .')
            lines.append(f'{subject} <{DIRECT}P214> "{x}" .')
        out.write(("\n".join(lines) + "\n").encode())
        step += 20_000


def build(triples: int) -> None:
    """Build a world from such a dump and print one line about it."""
    from taskloom.suites.taskbench.worlds.facts.dump import build_world

    with tempfile.TemporaryDirectory() as folder:
        began, cpu = time.monotonic(), time.process_time()
        manifest = build_world("-", Path(folder) / "world")
        seconds, cpu = time.monotonic() - began, time.process_time() - cpu
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = {
        "triples": manifest["triples"],
        "facts": sum(manifest["facts"].values()),
        "labels": manifest["labels"],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "triples_per_cpu_second": round(manifest["triples"] / cpu),
        "peak_mb": round(peak),
        "written_mb": round(size / 1e6, 1),
    }
    print(json.dumps(row), flush=True)


def main(arguments: list[str]) -> None:
    """Measure each size in processes of its own."""
    if arguments[:1] == ["write"]:
        write(int(arguments[1]))
    elif arguments[:1] == ["build"]:
        build(int(arguments[1]))
    else:
        for size in [int(float(text)) for text in arguments] or [10**6, 10**7]:
            here = [sys.executable, os.path.abspath(__file__)]
            with subprocess.Popen([*here, "write", str(size)], stdout=subprocess.PIPE) as writer:
                subprocess.run([*here, "build", str(size)], stdin=writer.stdout, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
