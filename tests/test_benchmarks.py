"""Benchmarks that write what the package reads keep step with it; here with sizes that take no time."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_a_store_of_made_up_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("runs_frame", BENCHMARKS / "runs_frame.py")
    assert spec is not None
    assert spec.loader is not None
    made: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name, size in {"RECIPES": 2, "LEARNERS": 3, "SEEDS": 2, "ITEMS": 5}.items():
        monkeypatch.setattr(made, name, size)
    made.main()
    assert capsys.readouterr().out.count("CPU-s") == 9
