"""A store that several test modules read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.experiments.sweeps import baselines, fill, write


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the baselines, filled in this process; test_faults.py compares it with what the
    command fills.
    """
    folder = tmp_path_factory.mktemp("filled")
    path = write(folder, baselines())
    fill(yaml.safe_load(path.read_text()), folder / "runs")
    return folder / "runs"
