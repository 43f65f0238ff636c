"""Files of scores with known answers, for tests of studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from taskloom.experiments.sources.score_files import open_runs, write_scores
from taskloom.experiments.table import Runs
from taskloom.learners.config import presets_of


def group(
    recipe: str,
    learner: str,
    scores: Mapping[str, Sequence[float]],
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a group with the same settings as the paper, unless `fields` says otherwise."""
    seeds = range(len(next(iter(scores.values()))))
    preset = {"learner.preset": "ctlpp"} if "ctlpp" in presets_of(learner) else {}
    return {
        "recipe": recipe,
        "learner": learner,
        "fields": {**preset, **(fields or {})},
        "n": dict.fromkeys(scores, 1000),
        "seeds": {
            str(seed): {split: values[seed] for split, values in scores.items()} for seed in seeds
        },
    }


def made_up(folder: Path, *groups: dict[str, Any]) -> Runs:
    """Return runs with these scores."""
    return open_runs(write_scores(groups, folder / "scores.json"))


def spread(mean: float, sd: float, n: int) -> list[float]:
    """Return n numbers with just this mean and (sample) standard deviation."""
    steps = [(i - (n - 1) / 2) for i in range(n)]
    scale = sd / (sum(s * s for s in steps) / (n - 1)) ** 0.5
    return [mean + s * scale for s in steps]
