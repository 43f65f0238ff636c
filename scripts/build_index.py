"""Writes the indexes of studies and learners: of each name the module that registers it, and the line about it.

`taskloom list` reads them instead of importing the modules. Run it with `make index` after adding or renaming a study or a
learner, or changing its description. `tests/test_start.py` checks that they are current.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from taskloom.learners import LEARNERS
from taskloom.registry import INDEX, Registry
from taskloom.studies import STUDIES

REGISTRIES: tuple[Registry[Any], ...] = (LEARNERS, STUDIES)


def index(registry: Registry[Any]) -> str:
    """Return the index of what this package registers, one name a line; other packages may be installed."""
    things = {thing.name: [_module(registry, thing.name), thing.describe] for thing in registry}
    ours = {name: entry for name, entry in things.items() if entry[0].startswith("taskloom.")}
    lines = [f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in ours.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _module(registry: Registry[Any], name: str) -> str:
    """Return the module of a name; some are registered by a class in it."""
    origin = registry.origin(name)
    return origin if origin in sys.modules else origin.rpartition(".")[0]


def place(registry: Registry[Any]) -> Path:
    """Return the file of a registry's index."""
    return Path(importlib.import_module(str(registry.package)).__path__[0], INDEX)


if __name__ == "__main__":
    for registry in REGISTRIES:
        place(registry).write_text(index(registry), encoding="utf-8")
