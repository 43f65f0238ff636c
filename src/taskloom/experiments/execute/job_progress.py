"""How far a running job is: a small file in its folder, which the driver reads on whatever machine it lives."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from taskloom.learners.interface import Progress
from taskloom.learners.run_watch import watched

FILE = "progress.json"

EVERY = 1.0
"""Seconds between two writes: short for a person who waits, nothing to a file system."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is.

    Attributes:
        step: Training steps that are done, of `steps`; both 0 for what does not learn in steps.
        steps: Training steps in all.
        loss: The training loss.
        answered: Inputs of the split in hand that are answered, of `inputs`.
        inputs: Inputs of the split in hand; 0 while it trains.
    """

    step: int = 0
    steps: int = 0
    loss: float | None = None
    answered: int = 0
    inputs: int = 0

    @property
    def share(self) -> float:
        """Estimate the share of the work that is done: training is taken for nine tenths of it."""
        if not self.steps:
            return 0.0
        return 0.9 * self.step / self.steps

    def __str__(self) -> str:
        if self.inputs:
            return f"answered {self.answered:,} of {self.inputs:,} inputs"
        if self.steps:
            loss = "" if self.loss is None else f", loss {self.loss:.3g}"
            return f"step {self.step:,} of {self.steps:,}{loss}"
        return ""


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[None]:
    """Keep the progress of what the block trains and answers in a file of the folder."""
    last = time.monotonic()
    latest = JobProgress()

    def write(progress: JobProgress) -> None:
        nonlocal last, latest
        latest = progress
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        with contextlib.suppress(OSError, ValueError):  # a full disk stops the run elsewhere; progress is a courtesy
            beside = folder / f".{FILE}"
            beside.write_text(json.dumps(asdict(progress), allow_nan=False), encoding="utf-8")
            os.replace(beside, folder / FILE)

    def step(progress: Progress) -> None:
        write(JobProgress(progress.step, progress.steps, progress.loss))

    def answer(done: int, total: int) -> None:
        write(JobProgress(latest.step, latest.steps, latest.loss, done, total))

    with watched(step, answer):
        yield


def read_progress(folder: Path) -> JobProgress | None:
    """Read how far a job is; None where it has not said so."""
    try:
        return JobProgress(**json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
