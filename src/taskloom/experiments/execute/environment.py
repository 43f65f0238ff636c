"""What a run says of the machine and the libraries that made it: for people, and for estimates of cost. No result
depends on it."""

from __future__ import annotations

import os
import platform
import sys
import time
from functools import cache
from importlib import metadata
from typing import Any

import taskloom
from taskloom.experiments.spec.cells import Cell

LIBRARIES = ("numpy", "pyarrow", "torch", "transformers", "peft", "scikit-learn", "ray")


@cache
def _machine() -> dict[str, Any]:
    versions = {"taskloom": taskloom.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def environment(cell: Cell, kind: str, together: int, seconds: float) -> dict[str, Any]:
    """Describe machine, versions, the recipe and settings in full, and how long the run took.

    Args:
        cell: The run.
        kind: `alone`, or whether `seeds` or `tasks` were trained together.
        together: How many were.
        seconds: Of this run; its share where several were trained together.
    """
    torch: Any = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
    recipes = [part.recipe.to_dict() for part in cell.data.parts]
    return {
        "seconds": round(seconds, 3),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "trained": kind,
        "together": together,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "gpu": gpu,
        **_machine(),
        "recipe": recipes[0] if len(recipes) == 1 else recipes,
        "settings": cell.settings,
    }
