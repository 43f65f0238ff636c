"""Trainings that are killed at random moments end as those that were left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kills.py"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds workers through /proc")
def test_stacks_and_language_models_survive_kills(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--part", "train", "--kills", "6"]
    command += ["--folder", str(tmp_path / "kills")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all equal" in done.stdout
