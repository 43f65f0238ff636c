"""Speed of the bAbI tasks 14 to 20 against the public Lua generator: `python
benchmarks/babi_numbered.py [FILES...]`.

Prints CPU seconds for 1,000 new questions of each task beside the reference's, as a ratio, and with
published files as arguments the CPU seconds that reading, answering and comparing each of them
takes. The reference's figures were measured on another day and machine: at most 2.5 CPU-seconds for
1,000 questions of most tasks, about 130 for task 19.
"""

from __future__ import annotations

import sys
import time

from taskloom.core.seeding import Key
from taskloom.suites.babi.numbered import TASKS
from taskloom.suites.babi.solve_file import solve_file

QUESTIONS = 1_000
REFERENCE = dict.fromkeys(TASKS, 2.5) | {19: 130.0}
EXACT = {19}
"""For the others the reference's figure is an upper bound, and so is the ratio."""


def generation(number: int) -> float:
    """Measure the CPU seconds for the questions of as many stories as are needed."""
    key = Key("benchmark", number)
    start = time.process_time()
    made = index = 0
    while made < QUESTIONS:
        made += len(TASKS[number].make(key.random(index)))
        index += 1
    return (time.process_time() - start) * QUESTIONS / made


def main(files: list[str]) -> None:
    print(f"{'task':28}{'ours, s':>10}{'reference, s':>14}{'ratio':>10}{'examples/s':>12}")
    for number, task in TASKS.items():
        seconds = min(generation(number) for _ in range(3))
        sign = " " if number in EXACT else "<"
        reference, ratio = (
            f"{sign} {REFERENCE[number]:.1f}",
            f"{sign} {REFERENCE[number] / seconds:.0f}",
        )
        print(
            f"{number}"
            f" {task.name:25}{seconds:10.3f}{reference:>14}{ratio:>10}{QUESTIONS / seconds:12.0f}"
        )
    for file in files:
        start = time.process_time()
        report = solve_file(file)
        seconds = time.process_time() - start
        print(
            f"solve task {report.number}: {len(report.solved)} questions in {seconds:.3f}"
            " CPU-seconds"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
