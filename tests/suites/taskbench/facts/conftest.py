from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld

from .composed import FactTask

DATA = os.environ.get("TASKLOOM_DATA")


@dataclass(frozen=True)
class Catalogue:
    atoms: dict[str, dict[str, Any]]
    tasks: list[FactTask]

    @property
    def expressions(self) -> list[str]:
        return [task.expression for task in self.tasks]

    def functions(self) -> list[tuple[str, tuple[str, ...]]]:
        return sorted({(task.composition, task.operands) for task in self.tasks})


@pytest.fixture(scope="session")
def data() -> Path:
    if not DATA:
        pytest.skip("TASKLOOM_DATA is not set: the Wikidata subset and the catalogue are not here")
    return Path(DATA)


@pytest.fixture(scope="session")
def catalogue(data: Path) -> Catalogue:
    content = json.loads((data / "taskbench-tasks.json").read_text())
    atoms = {atom["name"]: atom for atom in content["atoms"] if atom["family"] == "factual"}
    tasks = [
        FactTask(t["expr"], t.get("inner_composition") or t["composition"], tuple(t["operands"]))
        for t in content["tasks"]
        if t["family"] == "factual" and t["expr"]
    ]
    return Catalogue(atoms, tasks)


@pytest.fixture(scope="session")
def real(data: Path) -> RdfWorld:
    return RdfWorld(data / "wikidata", keep="memory")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Facts are cached anew in every test; the lexicon, which takes 5 CPU seconds to compile, once
    for all tests.
    """
    words = Path(os.environ["TASKLOOM_CACHE"]) / "taskbench"
    words.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "taskbench").symlink_to(words)
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "facts"
