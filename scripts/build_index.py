"""Writes the indexes of studies and learners: of each name the module that registers it, and the
line about it.

`taskloom list` reads them instead of importing the modules. Run it with `make index` after adding
or renaming a study or a learner, or changing its description. `tests/test_start.py` checks that
they are current.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from taskloom.analysis import STUDIES
from taskloom.core.registry import INDEX, Registry
from taskloom.learners import LEARNERS

REGISTRIES: tuple[Registry[Any], ...] = (LEARNERS, STUDIES)


def index(registry: Registry[Any], package: str) -> str:
    """The index of what a package registers, one name a line."""
    things = {thing.name: [_module(registry, thing.name), thing.describe] for thing in registry}
    ours = {name: entry for name, entry in things.items() if entry[0].startswith(f"{package}.")}
    lines = [
        f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}"
        for name, entry in ours.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _module(registry: Registry[Any], name: str) -> str:
    """Return the module of a name; some are registered by a class in it."""
    origin = registry.origin(name)
    return origin if origin in sys.modules else origin.rpartition(".")[0]


if __name__ == "__main__":
    for registry in REGISTRIES:
        for package, folder in registry.folders():
            (folder / INDEX).write_text(index(registry, package), encoding="utf-8")
