"""Going on when memory is short: a batch that does not fit is computed in halves, and that is reported."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch

from taskloom.learners.interface import LearnerError

R = TypeVar("R")


def in_halves(rows: list[R], run: Callable[[list[R]], None]) -> None:
    """Run something on rows; where memory is short on half of them at a time, and so on down to one."""
    try:
        run(rows)
        return
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise LearnerError(
                "a single example does not fit into memory; use a smaller model, a shorter input, or bf16"
            ) from None
    torch.cuda.empty_cache()
    half = -(-len(rows) // 2)
    warnings.warn(f"out of memory: {len(rows)} examples are answered {half} at a time", stacklevel=2)
    in_halves(rows[:half], run)
    in_halves(rows[half:], run)
