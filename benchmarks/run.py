"""All benchmarks that need nothing but a CPU, one after the other: `make bench-all`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SKIPPED = {
    "beside.py",
    "ctlpp_scores.py",
    "goals.py",
    "gpu_queue.py",
    "in_context.py",
    "instant_server.py",
    "learners_export.py",
    "learning_curves.py",
    "rounding.py",
    "run.py",
}
"""Those that need another checkout, a model or files of runs, or measure nothing; those whose names
end with `_gpu` need a card.
"""


def main() -> int:
    status = 0
    for script in sorted(Path(__file__).parent.glob("*.py")):
        if script.name in SKIPPED or script.stem.endswith("_gpu"):
            continue
        print(f"== {script.name}", flush=True)
        status |= subprocess.run([sys.executable, str(script)]).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
