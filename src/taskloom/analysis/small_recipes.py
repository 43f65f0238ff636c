"""The experiment behind the studies of any runs: a recipe of each variant of CTL++, so that there
is something to look at.

The studies ask about anybody's runs (`taskloom study runs/error-traits RUNS`). With these,
`taskloom reproduce runs/error-traits` shows on known data what they give: three worlds, each with a
split near to training and one far from it, and curves and models that are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskloom.core.errors import ParameterError, nearest

WORLD = {"symbols": 4, "functions": 8, "max_length": 4}
"""Small enough for two cores to learn in seconds, with 1,344 expressions to draw training from."""

RECIPES: dict[str, dict[str, Any]] = {
    "ctl/A": {**WORLD, "splits": {"train": {"n": 1_100}, "iid": {"n": 150}, "ood": {"n": 200}}},
    "ctl/R": {**WORLD, "splits": {"train": {"n": 1_100}, "iid": {"n": 150}, "ood": {"n": 200}}},
    "ctl/S": {
        **WORLD,
        "functions": 16,
        "fill": 0.8,
        "overlap": 4,
        "shared_symbols": 2,
        "splits": {"train": {"n": 700}, "iid": {"n": 60}, "ood": {"n": 80}},
    },
}

LEARNERS: dict[str, dict[str, Any]] = {
    "bilstm": {"state": 128, "dropout": 0.2, "rate": 2e-3},
    "transformer": {"state": 64, "layers": 4, "feed_forward": 128, "rate": 1.5e-3},
    "ndr": {
        "state": 64,
        "layers": 5,
        "layers_answering": 5,
        "feed_forward": 128,
        "dropout": 0.1,
        "rate": 1.5e-3,
    },
}

LOOP = {"warmup": 50, "batch": 128, "steps": 600, "evaluate_every": 100}
"""After 600 steps a bi-LSTM knows most of iid and little of ood, so that there are errors to
explain.
"""

FULL_SEEDS = 5


def any_recipe_experiments(scale: str, model: str) -> list[dict[str, Any]]:
    """Return one experiment on three worlds, with curves and models.

    Args:
        scale: `quick` or `full`.
        model: A network of CTL++, a hub id or a folder of weights; a bi-LSTM by default.
    """
    quick = scale == "quick"
    return [
        {
            "recipes": (
                [{"recipe": name, "set": fields} for name, fields in RECIPES.items()]
                if quick
                else [*RECIPES]
            ),
            "learners": [_learner(quick, model or "bilstm")],
            "evaluate": ["iid", "ood"],
            "seeds": 2 if quick else FULL_SEEDS,
            "keep": {"model": True},
        }
    ]


def _learner(quick: bool, model: str) -> dict[str, Any]:
    if model in LEARNERS:
        return {"learner": model, **({**LEARNERS[model], **LOOP} if quick else {"preset": "ctlpp"})}
    if "/" in model or Path(model).is_dir():
        loop = (
            {"steps": 20, "evaluate_every": 10} if quick else {"steps": 600, "evaluate_every": 100}
        )
        return {"learner": "fine-tune", "model": model, "longest_answer": 4, **loop}
    raise ParameterError(
        "model",
        f"must be a network of CTL++, a hub id or a folder of weights, not '{model}';"
        f" {nearest(model, LEARNERS)}",
    )
