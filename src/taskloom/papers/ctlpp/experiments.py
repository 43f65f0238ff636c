"""Experiments behind the studies of CTL++: the paper's conditions, and a small world that can be
learned in minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskloom.core.errors import ParameterError, nearest
from taskloom.papers.ctlpp.runs import MODELS

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
    "transformer": {
        "learner": "transformer",
        "state": 64,
        "layers": 4,
        "feed_forward": 128,
        "rate": 1.5e-3,
        **_LOOP,
    },
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

SEEDS = {
    "paper": {"bilstm": 25, "transformer": 50, "ndr": 25},
    "gpu": {"bilstm": 25, "transformer": 5, "ndr": 10},
}
"""Number of seeds in Table 1. The paper trains 50 Transformers and uses the first 25 that converge.
"""


def preset_learner(scale: str, name: str, preset: str = "ctlpp") -> dict[str, Any]:
    """A learner at the scale `gpu` or `paper`. The runs of the results page used bf16."""
    rounded = {"precision": "bf16"} if scale == "gpu" else {}
    return {"learner": name, "preset": preset, **rounded}


def models(model: str) -> list[str]:
    """The chosen learner, or the paper's three."""
    if model and model not in MODELS:
        raise ParameterError(
            "model", f"must be one of the paper's models, not '{model}'; {nearest(model, MODELS)}"
        )
    return [model] if model else list(MODELS)


def small(name: str, **changes: Any) -> dict[str, Any]:
    """A recipe in the small world."""
    return {"recipe": name, "set": {**SMALL, **changes}}


def table_experiments(scale: str, model: str) -> Experiments:
    """Experiments of Table 1."""
    if scale == "quick":
        learners = [SMALL_LEARNERS[name] for name in models(model)]
        return [{"recipes": [small("ctl/A"), small("ctl/R")], "learners": learners, "seeds": 3}]
    return [
        {
            "recipes": ["ctl/A", "ctl/R"],
            "learners": [preset_learner(scale, name)],
            "evaluate": ["iid", "ood"],
            "seeds": SEEDS[scale][name],
        }
        for name in models(model)
    ]


def similarity_experiments(variant: str) -> Callable[[str, str], Experiments]:
    """Experiments of the similarity figures on a variant. They save the models, so that the studies
    can inspect their states.
    """

    def experiments(scale: str, model: str) -> Experiments:
        name = models(model or "ndr")[0]
        keep = {"model": True}
        if scale == "quick":
            return [
                {
                    "recipes": [small(f"ctl/{variant}")],
                    "learners": [SMALL_LEARNERS[name]],
                    "seeds": 3,
                    "keep": keep,
                }
            ]
        learners = [preset_learner(scale, name)]
        seeds = {"seeds": SEEDS[scale][name], "keep": keep, "evaluate": ["iid", "ood"]}
        return [{"recipes": [f"ctl/{variant}"], "learners": learners, **seeds}]

    return experiments


DRAWS = ("published", "chains", "independent")


def draw_experiments(scale: str, model: str) -> Experiments:
    """Experiments on how the training data is drawn; everything else is as in Table 1."""
    if scale == "quick":
        return [
            {
                "recipes": [
                    small(name, draw=draw) for name in ("ctl/A", "ctl/R") for draw in DRAWS
                ],
                "learners": [SMALL_LEARNERS[name] for name in models(model or "bilstm")],
                "seeds": 4,
            }
        ]
    return [
        {**block, "grid": {"recipe.draw": list(DRAWS)}} for block in table_experiments(scale, model)
    ]


PROCESSES = (1, 8, 32)
"""Numbers of processes: those of a laptop of the time, a desktop, and the server whose draw the
recipes use.
"""


def process_experiments(scale: str, model: str) -> Experiments:
    """Experiments on the number of processes used for the published draw; everything else is as in
    Table 1.
    """
    if scale == "quick":
        return [
            {
                "recipes": [
                    small(name, processes=n) for name in ("ctl/A", "ctl/R") for n in PROCESSES
                ],
                "learners": [SMALL_LEARNERS[name] for name in models(model or "bilstm")],
                "seeds": 4,
            }
        ]
    return [
        {**block, "grid": {"recipe.processes": list(PROCESSES)}}
        for block in table_experiments(scale, model)
    ]


TABLES = range(6)
"""Seeds of function tables. Six tables are enough for a correlation with the distance of their
groups.
"""


def function_table_experiments(scale: str, model: str) -> Experiments:
    """Experiments on the function table. Everything else is as in Table 1, but with data drawn by 8
    processes except at the quick scale.
    """
    if scale == "quick":
        return [
            {
                "recipes": [small("ctl/R", table_seed=seed) for seed in TABLES],
                "learners": [SMALL_LEARNERS[name] for name in models(model or "bilstm")],
                "seeds": 3,
            }
        ]
    grid = {"recipe.table_seed": list(TABLES), "recipe.processes": [8]}
    return [
        {**block, "grid": grid, "seeds": 5} for block in table_experiments(scale, model or "ndr")
    ]


SINGLES = (
    {"include_singles": False, "include_pairs": "added"},
    {"include_singles": True, "include_pairs": False},
)
"""Two conditions. Training contains either every pair of functions, as in the public code, or every
single function, as in the paper's text.
"""


def single_experiments(scale: str, model: str) -> Experiments:
    """Experiments on what training always contains: all pairs of functions, or all single
    functions.
    """
    if scale == "quick":
        return [
            {
                "recipes": [
                    small(name, **extra) for name in ("ctl/A", "ctl/R") for extra in SINGLES
                ],
                "learners": [SMALL_LEARNERS[name] for name in models(model or "bilstm")],
                "seeds": 4,
            }
        ]
    full = table_experiments(scale, model)
    return [
        {**block, "recipes": [{"recipe": r, "set": e} for r in block["recipes"] for e in SINGLES]}
        for block in full
    ]


def layer_experiments(scale: str, model: str) -> Experiments:
    """Experiments on the number of layers at test time, with models that can apply their shared
    layer more or fewer times than in training.
    """
    names = [name for name in models(model) if name != "bilstm"]
    if not names:
        raise ParameterError("model", "must be a model with a shared layer, 'ndr' or 'transformer'")
    keep = {"model": True}
    if scale == "quick":
        recipes = [small("ctl/A"), small("ctl/R")]
        return [
            {"recipes": recipes, "learners": [SMALL_LEARNERS[names[-1]]], "seeds": 3, "keep": keep}
        ]
    full = [block for name in names for block in table_experiments(scale, name)]
    return [{**block, "seeds": 5, "keep": keep} for block in full]


STAGED = {"symbols": 4, "max_length": 4, "fill": 0.8, "functions": 16}
STAGED_SPLITS = {"train": {"n": 700}, "iid": {"n": 60}, "ood": {"n": 80}}
"""A small world of S in which every group has at least two functions."""


def staged_experiments(learner: str) -> Callable[[str, str], Experiments]:
    """Experiments of the heat maps of S for a model."""

    def experiments(scale: str, model: str) -> Experiments:
        name = models(model or learner)[0]
        if name != learner:
            raise ParameterError(
                "model",
                f"must be '{learner}' for this figure, not '{name}'; the others have their own",
            )
        if scale == "quick":
            grid = {"recipe.overlap": [4, 8], "recipe.shared_symbols": [2, 4]}
            recipe = {"recipe": "ctl/S", "set": {**STAGED, "splits": STAGED_SPLITS}}
            return [
                {"recipes": [recipe], "learners": [SMALL_LEARNERS[name]], "seeds": 2, "grid": grid}
            ]
        grid = {"recipe.overlap": [4, 8, 12, 16], "recipe.shared_symbols": [2, 3, 4, 5, 6]}
        learners = [preset_learner(scale, name, "ctlpp-s")]
        return [
            {
                "recipes": ["ctl/S"],
                "learners": learners,
                "seeds": 5,
                "grid": grid,
                "evaluate": ["iid", "ood"],
            }
        ]

    return experiments
