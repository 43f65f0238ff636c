"""The experiments behind the studies of ZEST: a language model that is fine-tuned on
`zest/synthetic`, on all or half of its input.

The paper fine-tunes T5-11B for 25,000 steps on a TPU pod. At full scale these studies fine-tune
SmolLM2-135M for four passes over the same number of tasks, which a GPU does in minutes; `model`
takes any other, and the learner's preset `zest` has the paper's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Experiments = list[dict[str, Any]]

RECIPE = "zest/synthetic"

PARTS = ("both", "question", "context")
"""The whole input, and the halves of the paper's Table 5."""

SMALL_TASKS = {"tasks": {"train": 60, "dev": 40, "test": 40}, "passages": 5}
"""Tasks of every generalization type in a few hundred examples."""

SMALL_LEARNER: dict[str, Any] = {
    "learner": "decoder",
    "state": 48,
    "layers": 1,
    "heads": 2,
    "steps": 60,
    "batch": 16,
    "rate": 3e-3,
    "evaluate_every": 0,
    "longest_answer": 120,
}
"""A text model from scratch that learns in a minute to say n/a, which is all that two cores and few
examples allow.
"""

LONGEST_OF_OTHERS = 360
"""Tokens that an answer of another model may have: its tokeniser may cut words into more pieces
than ours.
"""

FULL_TASKS = {"tasks": {"test": 300}}
"""The paper's sizes, but half of its test tasks: to answer all takes a model of this size longer
than to learn.
"""

FULL_LEARNER: dict[str, Any] = {
    "learner": "fine-tune",
    "steps": 680,
    "batch": 64,
    "rate": 3e-4,
    "warmup": 34,
    "decay": "linear",
    "targets": "first",
    "evaluate_every": 0,
    "longest_answer": 128,
    "precision": "bf16",
    "compile": False,
}
"""Four passes over the 10,760 training examples. Targets are the official answers, as in the
paper's data.
"""

KEPT_TRAITS = ("generalization_type", "domain")
"""Traits that files of scores keep beside the answers; the rest is in the recipe."""

SEEDS = {"quick": 2, "full": 3}


def description_experiments(parts: tuple[str, ...]) -> Callable[[str, str], Experiments]:
    """Experiments on some parts of the input. The whole answers both test splits, half of it dev,
    as in the paper.

    Args:
        parts: Some of `PARTS`.
    """

    def experiments(scale: str, model: str) -> Experiments:
        seeds = range(SEEDS[scale])
        return [
            description_experiment(scale, model, part, splits_of(part), seed)
            for part in parts
            for seed in seeds
        ]

    return experiments


def splits_of(part: str) -> tuple[str, ...]:
    """The splits that runs on a part of the input answer."""
    return ("dev", "test") if part == "both" else ("dev",)


def description_experiment(
    scale: str, model: str, part: str, splits: tuple[str, ...], seed: int
) -> dict[str, Any]:
    """Experiment of one seed on one part of the input."""
    small = scale == "quick"
    learner: dict[str, Any] = dict(SMALL_LEARNER if small else FULL_LEARNER)
    if model:
        learner |= {"learner": "fine-tune", "model": model, "longest_answer": LONGEST_OF_OTHERS}
        for setting in ("state", "layers", "heads"):
            learner.pop(setting, None)
    fields = {
        **(SMALL_TASKS if small else FULL_TASKS),
        **({} if part == "both" else {"parts": part}),
    }
    return {
        "recipes": [{"recipe": RECIPE, "set": fields}],
        "learners": [learner],
        "seeds": [seed],
        "evaluate": list(splits),
    }
