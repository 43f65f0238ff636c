"""All benchmarks that need nothing but a CPU, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SKIPPED = {
    "run.py",
    "in_context.py",
    "learners_export.py",
    "learners_gpu.py",
    "learners_language_gpu.py",
    "tasks_each_gpu.py",
}


def main() -> int:
    status = 0
    for script in sorted(Path(__file__).parent.glob("*.py")):
        if script.name in SKIPPED:
            continue
        print(f"== {script.name}", flush=True)
        status |= subprocess.run([sys.executable, str(script)]).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
