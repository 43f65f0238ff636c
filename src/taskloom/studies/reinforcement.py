"""Supervised training, reinforcement, and one after the other: on the same compositions, tested on seen and unseen ones.

All arms adapt one model to English relations and their compositions, described before each word. Two compositions are withheld
from training. Reinforcement (`grpo`) gets the score of what it writes as its reward and never sees an answer; a supervised start
gives it answers for a while. An arm that starts supervised begins, seed by seed, with the weights that the supervised arm of as
many steps ends with, so that the two are compared seed by seed.

Why not a world that no model has read: on a CTL++ world of sixteen functions (chains of two and three, 4,000 examples), 600
supervised steps at a rate of 3e-4 left SmolLM2-135M at chance on iid (0.09 to 0.19 of 200 items, one seed, H200),
where reinforcement has nothing to start from. Of these relations it knows some: 1 of 40 answers is right before any training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from taskloom.descriptions import UNSEEN as UNSEEN_TRAIT
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.runs import Runs
from taskloom.experiments.statistics import over_seeds
from taskloom.experiments.store import PREDICTIONS
from taskloom.studies import figures
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.study import StudyError, study

CONDITIONS = ("iid", "ood")
"""Compositions that training has, on new words; and compositions that it lacks."""

STARTS: dict[str, tuple[int, int]] = {"quick": (2, 4), "full": (50, 200)}
"""Supervised steps of the two starts, by scale: an early one that leaves much to learn, and a later one."""

STEPS = {"quick": 2, "full": 100}
"""Further steps after a start, supervised or by reinforcement; reinforcement alone takes twice as many."""

LIMITS = {"quick": 40, "full": 600}
"""Items that are tested, of both conditions together."""

SUPERVISED = {"batch": 64, "rate": 1e-4}
"""Of every supervised step: what a start takes, `fine-tune` takes as well."""

SEEN = (
    "antonyms[eng]",
    "hyponyms[eng]",
    "synonyms[eng]",
    "union(antonyms[eng], synonyms[eng])",
    "chain(antonyms[eng], hyponyms[eng])",
    "chain(hyponyms[eng], antonyms[eng])",
)
UNSEEN = ("chain(antonyms[eng], synonyms[eng])", "union(antonyms[eng], hyponyms[eng])")
"""Of relations and operators that training has, each in other compositions."""


def recipe() -> dict[str, Any]:
    """Return the recipe, with the compositions that are withheld."""
    described = {"level": "instruction", "unseen": [f"taskbench/{name}" for name in UNSEEN]}
    functions = {"functions": [*SEEN, *UNSEEN], "few_shot": None, "answers": False}
    return {"recipe": "taskbench/english", "set": {**functions, "described": described}}


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
    return {"longest_answer": 8, "compile": False, "graphs": False, **({"model": model} if model else {})}


def experiment(scale: str, model: str) -> Mapping[str, Any]:
    """Return all arms as one experiment."""
    lengths = dict.fromkeys([*STARTS[scale], *(steps + STEPS[scale] for steps in STARTS[scale])])
    return {
        "recipes": [recipe()],
        "learners": [*reinforced(scale, model), *(supervised(steps, model) for steps in lengths)],
        "seeds": {"quick": 2, "full": 3}[scale],
        "evaluate": ["test"],
        "limit": LIMITS[scale],
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
        for condition, score in _scores(runs, run).items():
            of_arm.setdefault(condition, {})[int(scores["seed"])] = score
    if not any(arms.values()):
        raise StudyError(f"{runs.store.path} has no runs that were tested on seen and unseen compositions")
    means = [
        _mean(arm, split, seeds) for arm, splits in sorted(arms.items()) for split, seeds in sorted(splits.items())
    ]
    table = ResultTable(("arm", "split", "mean", "low", "high", "seeds"), means)
    plot = partial(figures.intervals, place="arm", series="split")
    caption = "Accuracy by arm and split: means over seeds with 95 % intervals (t over seeds)."
    first = Finding(
        "Accuracy of each arm",
        "iid: compositions that training has, on new words; ood: compositions that it lacks.",
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


def _scores(runs: Runs, run: str) -> dict[str, float]:
    """Return the mean score of a run on seen and on unseen compositions: by a trait of its items, or by the names of its splits."""
    splits = runs.store.scores(run)["splits"]
    named = {name: float(splits[name]["score"]) for name in CONDITIONS if name in splits}
    table = None if named else runs.store.rows(run, PREDICTIONS, ["score", "traits"])
    if table is None:
        return named
    groups: dict[str, list[float]] = {}
    for score, traits in zip(table["score"].to_pylist(), table["traits"].to_pylist(), strict=True):
        unseen = dict(traits or ()).get(UNSEEN_TRAIT)
        if unseen is not None and score is not None:
            groups.setdefault("ood" if unseen == "true" else "iid", []).append(score)
    return {condition: sum(values) / len(values) for condition, values in groups.items()}


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


def _interval(scores: Sequence[float]) -> dict[str, float]:
    """Return the ends of the interval over seeds; none where there is one seed."""
    if len(scores) < 2:
        return {"low": math.nan, "high": math.nan}
    estimate = over_seeds(scores)
    return {"low": estimate.low, "high": estimate.high}


def _mean(arm: str, split: str, seeds: Mapping[int, float]) -> dict[str, Any]:
    scores = list(seeds.values())
    mean = sum(scores) / len(scores)
    return {"arm": arm, "split": split, "mean": mean, **_interval(scores), "seeds": len(scores)}


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
    for split in CONDITIONS:
        before, after = arms[start].get(split, {}), arms[further].get(split, {})
        both = sorted(set(before) & set(after))
        if both:
            gains = [after[seed] - before[seed] for seed in both]
            gain = {"gain": sum(gains) / len(gains), **_interval(gains), "seeds": len(both)}
            rows.append({"start": start, "further": further, "split": split, **gain})
    return rows
