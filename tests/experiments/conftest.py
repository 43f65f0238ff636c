"""A store that several test modules read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.sweeps import baselines, taskloom, write


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the baselines, filled once by the command."""
    folder = tmp_path_factory.mktemp("filled")
    done = taskloom("run", str(write(folder, baselines())), "--store", "runs", "--workers", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "runs"
