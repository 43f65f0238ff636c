"""CPU seconds of tiny cells on disk, of an earlier commit and of today's by turns, where no file is
deleted between rounds.

    python benchmarks/cells_on_disk.py CHECKOUT [--rounds 3] [--cells 700] [--disk FOLDER]

`beside.py` measures the same in memory: on disk, ext4 looks for a free number for each new file
among those of files that were deleted in the last seconds, so that a round would pay for the one
before it. A first round of each commit is not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from beside import HERE, commit, fill_store


def run(tree: Path, folder: Path, cells: int) -> float:
    """Return the CPU seconds of filling a store with the code of a checkout, in a process of its
    own.
    """
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    command = [sys.executable, __file__, "--fill", str(folder), "--cells", str(cells)]
    return float(
        subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=700)
    parser.add_argument(
        "--disk", type=Path, help="where stores are written; where temporary files are by default"
    )
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        print(fill_store(options.fill, options.cells))
        return
    if options.other is None:
        parser.error("name the checkout of another commit")
    trees = (options.other, HERE)
    with tempfile.TemporaryDirectory(dir=options.disk) as parent:
        rounds = [
            [
                run(tree, Path(parent) / f"{turn}-{place}", options.cells)
                for place, tree in enumerate(trees)
            ]
            for turn in range(options.rounds + 1)
        ][1:]
    for tree, seconds in zip(trees, zip(*rounds, strict=True), strict=True):
        print(
            f"{commit(tree)}: {', '.join(f'{one:.2f}' for one in seconds)} CPU-seconds for"
            f" {options.cells} tiny cells"
        )


if __name__ == "__main__":
    main()
