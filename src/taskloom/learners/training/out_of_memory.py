"""Recovery from running out of memory: a batch that does not fit is computed in halves, with a
warning.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from taskloom.learners.interface import LearnerError

R = TypeVar("R")


WORDS = ("can't allocate memory", "CUDA error: out of memory")
"""Messages of out-of-memory errors without a type in torch, raised on a CPU and on a GPU that other
processes have filled.
"""


def is_short(error: RuntimeError) -> bool:
    """True if an error means that memory is exhausted."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in WORDS)


@contextlib.contextmanager
def room_for(what: str) -> Iterator[None]:
    """Raise a one-sentence error if memory runs out in a computation that cannot be halved."""
    try:
        yield
    except RuntimeError as error:
        if not is_short(error):
            raise
        raise _too_large(what) from None


def check_room(what: str, numbers: int) -> None:
    """Raise an error if the machine has too little memory for this many fp32 numbers. The system
    may grant more memory than it has and then kill the process that uses it.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # the system does not report its memory
        return
    if 4 * numbers > memory:
        raise _too_large(what)


def _too_large(what: str) -> LearnerError:
    return LearnerError(
        f"{what} does not fit into memory; use a smaller one, or fewer seeds at once"
    )


def in_halves(rows: list[R], run: Callable[[list[R]], None]) -> None:
    """Run a function on rows. If memory runs out, run it on halves, down to single rows."""
    try:
        run(rows)
        return
    except RuntimeError as error:
        if not is_short(error):
            raise
        if len(rows) == 1:
            raise LearnerError(
                "a single example does not fit into memory; use a smaller model, a shorter input,"
                " or bf16"
            ) from None
    torch.cuda.empty_cache()
    half = -(-len(rows) // 2)
    warnings.warn(
        f"out of memory: {len(rows)} examples are answered {half} at a time", stacklevel=2
    )
    in_halves(rows[:half], run)
    in_halves(rows[half:], run)
