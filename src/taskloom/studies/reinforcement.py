"""Supervised training, reinforcement, and one after the other: on the same compositions, tested on seen and unseen ones.

All arms adapt one model to one CTL++ world of sixteen functions. Reinforcement (`grpo`) gets the score of what it writes as its
reward and never sees an answer; a supervised start gives it answers for a while. An arm that starts supervised begins, seed by
seed, with the weights that the supervised arm of as many steps ends with, so that the two are compared seed by seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.runs import Runs
from taskloom.experiments.statistics import over_seeds
from taskloom.studies import figures
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.study import StudyError, study

SPLITS = ("iid", "ood")
"""Seen pairs of functions in new expressions, and expressions of pairs that training never has."""

STARTS: dict[str, tuple[int, int]] = {"quick": (2, 4), "full": (100, 300)}
"""Supervised steps of the two starts, by scale: an early one that leaves much to learn, and a later one."""

STEPS = {"quick": 2, "full": 200}
"""Further steps after a start, supervised or by reinforcement; reinforcement alone takes twice as many."""

SIZES = {"quick": (400, 40), "full": (4_000, 500)}
"""Examples of training, and of each test split. At most half of the 9,216 chains of two and three functions go to training."""

SUPERVISED = {"batch": 64, "rate": 3e-4}
"""Of every supervised step: what a start takes, `fine-tune` takes as well."""


def recipe(scale: str) -> dict[str, Any]:
    """Return the recipe with the sizes of a scale."""
    train, test = SIZES[scale]
    splits = {"train": {"n": train}, "iid": {"n": test}, "ood": {"n": test}}
    return {"recipe": "ctl/A-independent", "set": {"functions": 16, "max_length": 3, "splits": splits}}


def supervised(steps: int, model: str = "") -> dict[str, Any]:
    """Return the supervised arm of so many steps."""
    return {"learner": "fine-tune", "steps": steps, "evaluate_every": 0, **SUPERVISED, **_shared(model)}


def reinforced(scale: str, model: str = "") -> list[dict[str, Any]]:
    """Return the arms with reinforcement: after each start, and alone."""
    batch = {"quick": 16, "full": 64}[scale]
    arm = {"learner": "grpo", "batch": batch, "generations": 8, "rate": 2e-5, **_shared(model)}
    after = [{**arm, "steps": STEPS[scale], "supervised": {"steps": steps, **SUPERVISED}} for steps in STARTS[scale]]
    return [*after, {**arm, "steps": 2 * STEPS[scale]}]


def _shared(model: str) -> dict[str, Any]:
    return {"longest_answer": 4, "compile": False, "graphs": False, **({"model": model} if model else {})}


def experiment(scale: str, model: str) -> Mapping[str, Any]:
    """Return all arms as one experiment."""
    lengths = dict.fromkeys([*STARTS[scale], *(steps + STEPS[scale] for steps in STARTS[scale])])
    return {
        "recipes": [recipe(scale)],
        "learners": [*reinforced(scale, model), *(supervised(steps, model) for steps in lengths)],
        "seeds": {"quick": 2, "full": 4}[scale],
        "evaluate": list(SPLITS),
        "resources": {"gpus": 0.125, "stack": 1},  # such a model leaves most of a GPU idle
    }


@study(
    "reinforcement",
    describe="Fine-tuning against GRPO against one after the other, on seen and unseen compositions",
    experiment=experiment,
)
def reinforcement(runs: Runs) -> list[Finding]:
    """Compare the arms by split, and further training with the start that it began with."""
    arms: dict[str, dict[str, dict[int, float]]] = {}
    for run in runs.names:
        scores = runs.store.scores(run)
        of_arm = arms.setdefault(arm_of(scores["learner"], scores["fields"]), {})
        for split in SPLITS:
            if split in scores["splits"]:
                of_arm.setdefault(split, {})[int(scores["seed"])] = float(scores["splits"][split]["score"])
    if not any(arms.values()):
        raise StudyError(f"{runs.store.path} has no runs that were tested on {' or '.join(SPLITS)}")
    means = [_mean(arm, split, seeds) for arm, splits in sorted(arms.items()) for split, seeds in splits.items()]
    table = ResultTable(("arm", "split", "mean", "low", "high", "seeds"), means)
    plot = partial(figures.intervals, place="arm", series="split")
    caption = "Accuracy by arm and split: means over seeds with 95 % intervals (t over seeds)."
    first = Finding(
        "Accuracy of each arm",
        "iid: new expressions of pairs of functions that training has; ood: of pairs that it never has.",
        table,
        (StudyFigure("arms", caption, table, plot),),
    )
    gains = [row for pair in _pairs(arms) for row in _gains(arms, *pair)]
    columns = ("start", "further", "split", "gain", "low", "high", "seeds")
    second = Finding(
        "What further training adds to its start",
        "The difference between an arm and the supervised start that it continues, seed by seed, with 95 % intervals.",
        ResultTable(columns, gains),
    )
    return [first, second]


def arm_of(learner: str, fields: Mapping[str, Any]) -> str:
    """Return what an arm is called.

    >>> arm_of("grpo", {"learner.steps": 200, "learner.supervised": {"steps": 50, "batch": 32}})
    'SFT 50, GRPO 200'
    """
    steps = fields.get("learner.steps")
    start = fields.get("learner.supervised") or {}
    before = start.get("steps", 0) or fields.get("learner.supervised.steps", 0)
    name = {"fine-tune": "SFT", "grpo": "GRPO"}.get(learner, learner)
    return f"SFT {before}, {name} {steps}" if before else f"{name} {steps}"


def _mean(arm: str, split: str, seeds: Mapping[int, float]) -> dict[str, Any]:
    estimate = over_seeds(list(seeds.values()))
    return {
        "arm": arm,
        "split": split,
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "seeds": len(seeds),
    }


def _pairs(arms: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each supervised start with what continues it: reinforcement, or as many further supervised steps."""
    pairs = []
    for arm in sorted(arms):
        start, comma, further = arm.partition(", GRPO ")
        if comma and start in arms:
            longer = f"SFT {int(start.split()[1]) + int(further)}"
            pairs += [(start, arm), *([(start, longer)] if longer in arms else [])]
    return pairs


def _gains(arms: Mapping[str, Mapping[str, Mapping[int, float]]], start: str, further: str) -> list[dict[str, Any]]:
    rows = []
    for split in SPLITS:
        before, after = arms[start].get(split, {}), arms[further].get(split, {})
        both = sorted(set(before) & set(after))
        if both:
            estimate = over_seeds([after[seed] - before[seed] for seed in both])
            rows.append(
                {
                    "start": start,
                    "further": further,
                    "split": split,
                    "gain": estimate.mean,
                    "low": estimate.low,
                    "high": estimate.high,
                    "seeds": len(both),
                }
            )
    return rows
