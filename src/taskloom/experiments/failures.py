"""Runs that failed: the store keeps the reason of each until it succeeds."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from taskloom.experiments.store import RunSource


def failure(store: RunSource, run: str) -> Path:
    """Return the file that holds the reason of a failed run until the run succeeds."""
    return store.path / "work" / "failed" / f"{run}.json"


def failures(store: RunSource) -> dict[str, str]:
    """Return the reasons of the runs that have failed and not succeeded since."""
    reasons = {}
    for path in sorted((store.path / "work" / "failed").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            reasons[path.stem] = str(json.loads(path.read_text(encoding="utf-8"))["reason"])
    return reasons
