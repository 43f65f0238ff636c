"""How many cells an experiment may have: counted before any of them is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from taskloom.experiments.spec.experiment import Experiment, ExperimentError

MOST_RECIPES = 2_000
MOST_CELLS = 200_000
"""Recipes (each takes a tenth of a second to plan) and cells up to which an experiment can be listed in a few minutes."""

Grid = Mapping[str, Sequence[Any]]


def refuse_monsters(experiment: Experiment, recipe_grid: Grid, learner_grid: Grid) -> None:
    """Raise an error for an experiment of more cells than could be listed in minutes."""
    recipes = _count(experiment.recipes, recipe_grid)
    learners = _count(experiment.learners, learner_grid)
    seeds = experiment.seeds if isinstance(experiment.seeds, int) else len(experiment.seeds)
    if recipes > MOST_RECIPES:
        raise ExperimentError(
            f"recipes: {recipes:,} recipes, their grids counted, are more than {MOST_RECIPES:,}; each has to be planned: use "
            "shorter grids, or several experiments on one store"
        )
    if recipes * learners * seeds > MOST_CELLS:
        raise ExperimentError(
            f"{recipes:,} recipes x {learners:,} learners x {seeds:,} seeds are more than {MOST_CELLS:,} runs; use shorter grids, "
            "or several experiments on one store"
        )


def _count(blocks: Sequence[Any], grid: Grid) -> int:
    """Return how many recipes or learners some blocks stand for."""
    total = 0
    for block in blocks:
        own = block.get("grid") if isinstance(block, dict) else None
        sizes = {**grid, **(own if isinstance(own, dict) else {})}.values()
        total += prod(len(values) for values in sizes if isinstance(values, list))
    return total
