"""`python -m tests.fuzz`: feed every target, print counts, exit with status 1 where something
failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import (  # noqa: F401 - they register targets
    targets_files,
    targets_pages,
    targets_replies,
    targets_servers,
    targets_texts,
)
from tests.fuzz.engine import REGRESSIONS, TARGETS, Tally, campaign, prepare, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="of all targets together")
    parser.add_argument(
        "--seconds", type=float, default=1_800, help="time budget; each target has its part of it"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only these")
    parser.add_argument(
        "--regressions", type=Path, default=REGRESSIONS, help="where failures become files"
    )
    parser.add_argument("--json", type=Path, help="also write the counts to this file")
    given = parser.parse_args()
    chosen = [TARGETS[name] for name in given.target or TARGETS]
    whole = sum(target.weight for target in chosen)
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="taskloom-fuzz-") as scratch:
        end, left = (
            time.monotonic() + given.seconds,
            sum(target.weight * target.cost for target in chosen),
        )
        for target in chosen:
            folder = Path(scratch) / target.name
            before = time.monotonic()
            prepare(folder)
            target.warm()
            # What a quick target leaves of its time is for those after it. Nobody's time is spent
            # on warming up, which would leave none for the inputs on a busy machine.
            now = time.monotonic()
            end += now - before
            deadline = now + (end - now) * target.weight * target.cost / left
            left -= target.weight * target.cost
            inputs = round(given.inputs * target.weight / whole)
            tallies[target.name] = campaign(
                target, inputs, given.seed, folder, deadline, given.regressions
            )
            print(table({target.name: tallies[target.name]}).splitlines()[1], flush=True)
            for path in tallies[target.name].failures:
                print(f"  {json.loads(path.read_text())['why'][:150]} -> {path}", flush=True)
        # What the slow targets did not manage in their time goes to the quick ones.
        quick = sorted(
            chosen,
            key=lambda target: tallies[target.name].seconds / max(1, tallies[target.name].inputs),
        )[:6]
        turn = 0
        while sum(t.inputs for t in tallies.values()) < given.inputs and time.monotonic() < end:
            target = quick[turn % len(quick)]
            turn += 1
            folder = Path(scratch) / target.name
            prepare(folder)
            more = campaign(
                target, 2_000, given.seed + 7_919 * turn, folder, end, given.regressions
            )
            tallies[target.name].add(more)
    print("\n" + table(tallies))
    if given.json:
        rows = {
            name: {**t.counts, "seconds": t.seconds, "slowest": t.slowest}
            for name, t in tallies.items()
        }
        given.json.write_text(json.dumps({"seed": given.seed, "targets": rows}, indent=1))
    return 1 if any(tally.failures for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
