"""Files of scores on tasks of TaskBench500 with known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.suites.taskbench.catalog import select

PAPER = {"learner.model": "t5-base"}
"""The paper's own model, so that numbers are compared."""


def adapted(
    task: str,
    score: float,
    learner: str = "prompt-tune",
    *,
    split: str = "test",
    fields: Mapping[str, Any] | None = None,
    further: Mapping[str, float] | None = None,
    curve: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Return the group of one task: its score, other numbers of it, and its curve on the split."""
    group: dict[str, Any] = {
        "recipe": "taskbench/500",
        "learner": learner,
        "fields": {"recipe.task": f"taskbench/{task}", **PAPER, **(fields or {})},
        "n": {split: 50},
        "seeds": {"0": {split: score}},
    }
    if further:
        group["further"] = {"0": {split: dict(further)}}
    if curve:
        group["curves"] = {"0": [[step, split, value] for step, value in curve.items()]}
    return group


def constant(task: str, score: float, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the group of a task's best constant answer."""
    return {
        "recipe": "taskbench/500",
        "learner": "majority",
        "fields": {"recipe.task": f"taskbench/{task}", **(fields or {})},
        "n": {"test": 50},
        "seeds": {"0": {"test": score}},
    }


def chains() -> list[tuple[str, tuple[str, ...]]]:
    """Return the paper's chains with their atoms."""
    return [(task.expression, task.operands) for task in select(["lexical", "factual"], ["chain"])]


def with_r2(
    x: Sequence[float], slope: float, intercept: float, r2: float, seed: int = 0
) -> NDArray[np.float64]:
    """Return y whose line over x has just this slope, intercept and r²."""
    across = np.asarray(x)
    line = slope * across + intercept
    noise = np.random.default_rng(seed).standard_normal(len(across))
    design = np.stack([across, np.ones(len(across))], axis=1)
    noise -= design @ np.linalg.lstsq(design, noise, rcond=None)[0]
    explained = float(((line - line.mean()) ** 2).sum())
    y: NDArray[np.float64] = line + noise * np.sqrt(
        explained * (1 - r2) / r2 / float(noise @ noise)
    )
    return y
