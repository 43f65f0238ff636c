"""A folder with one dataset of every kind, and a viewer of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import taskloom as tl
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application
from taskloom.apps.view.suite_process import SuiteProcess
from tests.apps.view.hostile import EXAMPLES, TRAITS, write_dataset


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("viewed")
    tl.make(
        "ctl/A-independent",
        base / "ctl",
        set={"splits": {"train": {"n": 4500}, "ood": {"n": 60}}},
        shard_rows=1000,
    )
    tl.make("babi/15", base / "nested" / "babi", set={"splits": {"train": 8, "test": 8}})
    write_dataset(base / "hostile", EXAMPLES, TRAITS)
    (base / "foreign").mkdir()
    lines = [{"input": f"say {i}", "target": str(i), "traits": {"size": i}} for i in range(5)]
    (base / "foreign" / "test.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return base


@pytest.fixture(scope="session")
def client(folder: Path) -> Iterator[TestClient]:
    app = application([folder])
    with TestClient(app, base_url="http://127.0.0.1:8640") as viewer:
        yield viewer
    app.state.viewer.close()


@pytest.fixture(scope="session")
def pictures() -> Iterator[SuiteProcess]:
    """The process that draws examples, for viewers of a single test: starting one takes half a
    CPU-second.
    """
    process = SuiteProcess()
    yield process
    process.close()


@pytest.fixture(scope="session")
def names(folder: Path) -> dict[str, str]:
    """The names of the datasets and stores in addresses, by the names of their folders."""
    return {one.path.name: one.name for one in ViewedFolders([folder]).every()}
