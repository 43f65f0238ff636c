"""The experiments behind the studies of CTL++: the paper's conditions, and a small world that two cores learn in minutes."""

from __future__ import annotations

from typing import Any

from taskloom.errors import ParameterError, nearest
from taskloom.studies.ctlpp.trainings import MODELS

Experiments = list[dict[str, Any]]

SMALL: dict[str, Any] = {
    "symbols": 4,
    "functions": 8,
    "max_length": 4,
    "splits": {"train": {"n": 1_100}, "iid": {"n": 150}, "ood": {"n": 200}},
}
"""A world whose training data all three models learn within 1,500 steps."""

_LOOP = {"warmup": 50, "batch": 128, "steps": 1_500, "evaluate_every": 500}
SMALL_LEARNERS: dict[str, dict[str, Any]] = {
    "bilstm": {"learner": "bilstm", "state": 128, "dropout": 0.2, "rate": 2.0e-3, **_LOOP},
    "transformer": {"learner": "transformer", "state": 64, "layers": 4, "feed_forward": 128, "rate": 1.5e-3, **_LOOP},
    "ndr": {
        "learner": "ndr",
        "state": 64,
        "layers": 5,
        "layers_answering": 5,
        "feed_forward": 128,
        "dropout": 0.1,
        "rate": 1.5e-3,
        **_LOOP,
    },
}

PAPER_SEEDS = {"bilstm": 25, "transformer": 50, "ndr": 25}
"""Of the Transformer 50 are trained, and the first 25 that converge are counted."""


def models(model: str) -> list[str]:
    """Return the chosen learner, or the paper's three."""
    if model and model not in MODELS:
        raise ParameterError("model", f"must be one of the paper's models, not '{model}'; {nearest(model, MODELS)}")
    return [model] if model else list(MODELS)


def small(name: str, **changes: Any) -> dict[str, Any]:
    """Return a recipe in the small world."""
    return {"recipe": name, "set": {**SMALL, **changes}}


def table_experiments(scale: str, model: str) -> Experiments:
    """Return the experiments of Table 1."""
    if scale == "quick":
        learners = [SMALL_LEARNERS[name] for name in models(model)]
        return [{"recipes": [small("ctl/A"), small("ctl/R")], "learners": learners, "seeds": 3}]
    return [
        {
            "recipes": ["ctl/A", "ctl/R"],
            "learners": [{"learner": name, "preset": "ctlpp"}],
            "evaluate": ["iid", "ood"],
            "seeds": PAPER_SEEDS[name],
        }
        for name in models(model)
    ]
