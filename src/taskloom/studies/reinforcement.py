"""Supervised training, reinforcement, and one after the other: on the same compositions, tested on seen and unseen ones.

All arms adapt one model to filters: an instruction says which of four words are kept (`is a noun`, `cannot be a verb`, `is an
adjective or a noun`), and the answer is the words that are. Some combinations of predicates are withheld from training, of
predicates and connectives that training has in other combinations. Reinforcement (`grpo`) gets the score of what it writes as its
reward and never sees an answer; a supervised start gives it answers for a while. The arm that starts supervised begins, seed by
seed, with the weights that the supervised arm of as many steps ends with, so that the two are compared seed by seed.

Why not a world that no model has read: on a CTL++ world of sixteen functions (chains of two and three, 4,000 examples), 600
supervised steps at a rate of 3e-4 left SmolLM2-135M at chance on iid (0.09 to 0.19 of 200 items, one seed, H200),
where reinforcement has nothing to start from. It is not that nothing is learned: 50 rows of such a world are known by heart after
60 steps of 32 (0.92). Of word classes the model knows much, so that a short start is often right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from taskloom.descriptions import UNSEEN as UNSEEN_TRAIT
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.run_files import CURVES, PREDICTIONS
from taskloom.experiments.runs import Runs
from taskloom.experiments.statistics import Estimate, two_way
from taskloom.studies import figures
from taskloom.studies.findings import Finding, StudyFigure
from taskloom.studies.scored_items import TASK
from taskloom.studies.seed_scores import count_of, count_range, seeds_and_items_caption
from taskloom.studies.study import StudyError, study

CONDITIONS = ("iid", "ood")
"""Compositions that training has, on new words; and compositions that it lacks."""

STARTS = {"quick": 2, "full": 40}
"""Supervised steps of the start, by scale. Full: the first of 20, 40, … at which SmolLM2 got 0.3 of the dev items right, in a
training with another seed (benchmarks/reinforcement_gpu.py)."""

STEPS = {"quick": 2, "full": 28}
"""Further steps after the start, supervised or by reinforcement; reinforcement alone takes as many."""

SUPERVISED = {"batch": 64, "rate": 5e-5}
"""Of every supervised step: what the start takes, `fine-tune` takes as well. Of 5e-5, 1e-4 and 3e-4 the first ended best on dev."""

REINFORCED: dict[str, dict[str, Any]] = {
    "quick": {"batch": 16, "generations": 8, "rate": 2e-5},
    "full": {"batch": 256, "generations": 8, "rate": 1e-5},
}
"""Of every step of reinforcement; `batch` counts answers, so that 256 of them are 32 inputs. Of 1e-5, 3e-5 and 1e-4 the first had
the highest reward at the end of 24 steps."""

NOUN, VERB, ADJECTIVE, ADVERB = (f"is_pos_{word}[eng]" for word in ("noun", "verb", "adjective", "adverb"))
SEEN = {
    NOUN: "noun",
    VERB: "verb",
    ADJECTIVE: "adjective",
    ADVERB: "adverb",
    f"lnot({NOUN})": "not a noun",
    f"lnot({VERB})": "not a verb",
    f"lor({ADJECTIVE}, {NOUN})": "adjective or noun",
    f"lor({ADJECTIVE}, {ADVERB})": "adjective or adverb",
    f"land({NOUN}, {VERB})": "noun and verb",
}
"""What a filter keeps, with what pages call it."""

UNSEEN = {
    f"lnot({ADJECTIVE})": "not an adjective",
    f"lor({NOUN}, {VERB})": "noun or verb",
    f"land({ADJECTIVE}, {NOUN})": "adjective and noun",
}
"""Of predicates and connectives that training has, each in other combinations."""

PHRASES = {f"taskbench/filter({predicate})": phrase for predicate, phrase in (SEEN | UNSEEN).items()}
"""What pages call each task."""

SEQUENCES = {"length": 4, "kept": 2}
"""Four words, of which the filter keeps two: one of six where nothing but that is known."""

ROWS = {"quick": {"train": 40, "dev": 4, "test": 4}, "full": {"train": 640, "dev": 20, "test": 60}}
"""Sequences of each filter, by scale and split."""

SHARED = {"join": "\nAnswer:", "longest_answer": 10}
"""Of every arm: how the model is asked."""


def recipe(scale: str = "full") -> dict[str, Any]:
    """Return the recipe, with the compositions that are withheld."""
    withheld = [f"taskbench/filter({predicate})" for predicate in UNSEEN]
    fields = {
        "functions": [f"filter({predicate})" for predicate in (*SEEN, *UNSEEN)],
        "sequences": {**SEQUENCES, "n": ROWS[scale]},
        "few_shot": None,
        "answers": False,
        "minimum": 1,
        "described": {"level": "instruction", "unseen": withheld},
    }
    return {"recipe": "taskbench/english", "set": fields}


def untrained(model: str = "") -> dict[str, Any]:
    """Return the model as it is."""
    return {"learner": "zero-shot", **SHARED, **_named(model)}


def supervised(steps: int, model: str = "") -> dict[str, Any]:
    """Return the supervised arm of so many steps."""
    loop = {"steps": steps, "evaluate_every": 0, "compile": False, "graphs": False}
    return {"learner": "fine-tune", **loop, **SUPERVISED, **SHARED, **_named(model)}


def reinforced(scale: str, model: str = "") -> list[dict[str, Any]]:
    """Return the arms with reinforcement: after the start, and alone."""
    arm = {"learner": "grpo", **REINFORCED[scale], "compile": False, "graphs": False, **SHARED, **_named(model)}
    alone = {**arm, "steps": STEPS[scale]}
    return [{**alone, "supervised": {"steps": STARTS[scale], **SUPERVISED}}, alone]


def _named(model: str) -> dict[str, Any]:
    return {"model": model} if model else {}


def experiment(scale: str, model: str) -> Mapping[str, Any]:
    """Return all arms as one experiment."""
    lengths = (STARTS[scale], STARTS[scale] + STEPS[scale])
    arms = [*reinforced(scale, model), *(supervised(steps, model) for steps in lengths), untrained(model)]
    return {
        "recipes": [recipe(scale)],
        "learners": arms,
        "seeds": {"quick": 2, "full": 3}[scale],
        "evaluate": ["test"],
        "resources": {"gpus": 0.25, "stack": 1},  # reinforcement of such a model took up to 29 GB of a GPU's 140
    }


Answers = dict[int, list[float]]
"""For each seed, whether each item was answered rightly."""


@study(
    "reinforcement",
    describe="Fine-tuning against GRPO against one after the other, on seen and unseen compositions",
    experiment=experiment,
    traits=(UNSEEN_TRAIT, TASK),
    needs="a pretrained model, trl",
)
def reinforcement(runs: Runs) -> list[Finding]:
    """Compare the arms by condition, and further training with the start that it began with."""
    arms = _arms(runs)
    if not any(arms.values()):
        raise StudyError(
            f"{runs.store.path} has no runs that were tested on seen and unseen compositions; make some, e.g. with 'taskloom "
            "reproduce reinforcement'"
        )
    means = [_mean(arm, split, seeds) for arm, splits in arms.items() for split, seeds in splits.items()]
    table = ResultTable(("arm", "split", "mean", "low", "high", "seeds", "items"), means)
    plot = partial(figures.intervals, place="arm", series="split")
    caption = (
        "Share of items that are right as a whole, by arm and split. "
        f"{seeds_and_items_caption((row['seeds'] for row in means), (row['items'] for row in means), 'item')}."
    )
    first = Finding(
        "Accuracy of each arm",
        "iid: compositions that training has, on new words; ood: compositions that it lacks. An item counts where its whole "
        "answer is right, which is what the reward asks for.",
        table,
        (StudyFigure("arms", caption, table, plot),),
    )
    gains = [row for pair in _pairs(arms) for row in _gains(arms, *pair)]
    second = Finding(
        "What further training adds to its start",
        "The difference between an arm and the supervised start that it continues, and between the two ways to continue it, seed "
        "by seed and item by item, with 95 % intervals over both.",
        ResultTable(("from", "to", "split", "gain", "low", "high", "seeds"), gains),
    )
    return [first, second, *_compositions(runs), *_rewards(runs)]


def _arms(runs: Runs) -> dict[str, dict[str, Answers]]:
    """Return the answers of every arm by condition and seed; short arms first."""
    arms: dict[str, dict[str, Answers]] = {}
    for run in _ordered(runs):
        scores = runs.store.scores(run)
        of_arm = arms.setdefault(arm_of(scores["learner"], scores["fields"]), {})
        for condition, answers in _answers(runs, run).items():
            of_arm.setdefault(condition, {})[int(scores["seed"])] = answers
    return arms


def _ordered(runs: Runs) -> list[str]:
    return sorted(runs.names, key=lambda name: _order(runs.store.scores(name)))


def _order(scores: Mapping[str, Any]) -> tuple[bool, bool, int, int]:
    """Return the place of an arm: the model as it is, supervised arms by their steps, then those with reinforcement."""
    learner, fields = scores["learner"], scores["fields"]
    return learner == "grpo", learner != "zero-shot", int(fields.get("learner.steps", 0)), int(scores["seed"])


def _answers(runs: Runs, run: str) -> dict[str, list[float]]:
    """Return which items of seen and of unseen compositions a run got right, told apart by a trait of theirs."""
    table = runs.store.rows(run, PREDICTIONS, ["score", "traits"])
    conditions: dict[str, list[float]] = {}
    if table is not None:
        for score, traits in zip(table["score"].to_pylist(), table["traits"].to_pylist(), strict=True):
            unseen = dict(traits or ()).get(UNSEEN_TRAIT)
            if unseen is not None and score is not None:
                conditions.setdefault("ood" if unseen == "true" else "iid", []).append(float(score == 1))
    return {name: conditions[name] for name in CONDITIONS if name in conditions}


def arm_of(learner: str, fields: Mapping[str, Any]) -> str:
    """Return what an arm is called.

    >>> arm_of("grpo", {"learner.steps": 200, "learner.supervised": {"steps": 50, "batch": 32}})
    'SFT 50, GRPO 200'
    """
    if learner == "zero-shot":
        return "as it is"
    steps = fields.get("learner.steps")
    start = fields.get("learner.supervised") or {}
    before = start.get("steps", 0) or fields.get("learner.supervised.steps", 0)
    name = {"fine-tune": "SFT", "grpo": "GRPO"}.get(learner, learner)
    return f"SFT {before}, {name} {steps}" if before else f"{name} {steps}"


def _estimate(seeds: Mapping[int, Sequence[float]]) -> Estimate:
    return two_way([seeds[seed] for seed in sorted(seeds)])


def _mean(arm: str, split: str, seeds: Answers) -> dict[str, Any]:
    e = _estimate(seeds)
    return {"arm": arm, "split": split, "mean": e.mean, "low": e.low, "high": e.high,
            "seeds": len(seeds), "items": len(next(iter(seeds.values())))}  # fmt: skip


def _pairs(arms: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each supervised start with what continues it, and the two ways to continue it with each other."""
    pairs = []
    for arm in arms:
        start, comma, further = arm.partition(", GRPO ")
        if comma and start in arms:
            longer = f"SFT {int(start.split()[1]) + int(further)}"
            pairs += [(start, arm), *([(start, longer), (longer, arm)] if longer in arms else [])]
    return pairs


def _gains(arms: Mapping[str, Mapping[str, Answers]], start: str, further: str) -> list[dict[str, Any]]:
    rows = []
    for split in CONDITIONS:
        before, after = arms[start].get(split, {}), arms[further].get(split, {})
        both = sorted(set(before) & set(after))
        if both:
            # A difference d of two answers as the share (1 + d) / 2: its interval does not collapse where no answer has changed.
            e = _estimate({s: [(1 + b - a) / 2 for a, b in zip(before[s], after[s], strict=True)] for s in both})
            gain = {"gain": 2 * e.mean - 1, "low": 2 * e.low - 1, "high": 2 * e.high - 1, "seeds": len(both)}
            rows.append({"from": start, "to": further, "split": split, **gain})
    return rows


def _compositions(runs: Runs) -> list[Finding]:
    """Return the accuracy of each arm on each composition, where runs have kept the tasks of their items and got some right."""
    answers: dict[str, dict[str, list[bool]]] = {}
    for run in _ordered(runs):
        scores = runs.store.scores(run)
        table = runs.store.rows(run, PREDICTIONS, ["task", "score"])
        for row in [] if table is None else table.to_pylist():
            if row["task"] in PHRASES and row["score"] is not None:
                of_arm = answers.setdefault(arm_of(scores["learner"], scores["fields"]), {})
                of_arm.setdefault(PHRASES[row["task"]], []).append(row["score"] == 1)
    arms = [arm for arm, of_arm in answers.items() if any(map(any, of_arm.values()))]
    if not arms:
        return []
    rows = [
        {"kept": phrase, "split": "ood" if phrase in UNSEEN.values() else "iid",
         **{arm: sum(own) / len(own) if (own := answers[arm].get(phrase)) else None for arm in arms}}
        for phrase in PHRASES.values()
    ]  # fmt: skip
    counts = count_range(len(own) for arm in arms for own in answers[arm].values())
    text = (
        f"The share of answers that are right ({counts} of each arm, over all its seeds), by what the filter keeps; arms that get "
        "nothing right are left out. Guessing two of the four words gives 0.17."
    )
    return [Finding("Accuracy by composition", text, ResultTable(("kept", "split", *arms), rows))]


def _rewards(runs: Runs) -> list[Finding]:
    """Return the mean reward in training by step, where runs have kept it."""
    points: dict[tuple[str, int], list[float]] = {}
    for run in _ordered(runs):
        scores = runs.store.scores(run)
        table = runs.store.rows(run, CURVES, ["step", "split", "score"]) if scores["learner"] == "grpo" else None
        for row in [] if table is None else table.to_pylist():
            if row["split"] == "train" and row["score"] is not None:
                points.setdefault((arm_of(scores["learner"], scores["fields"]), row["step"]), []).append(row["score"])
    if not points:
        return []
    rows: list[dict[str, Any]] = [
        {"arm": arm, "step": step, "reward": sum(rewards) / len(rewards), "seeds": len(rewards)}
        for (arm, step), rewards in points.items()
    ]
    data = ResultTable(("arm", "step", "reward", "seeds"), rows)
    plot = partial(figures.lines, x="step", y="reward", series="arm", xlabel="step of reinforcement", ylabel="reward")
    seeds = count_of((row["seeds"] for row in rows), "seed")
    caption = (
        f"Mean reward of the answers that are sampled in training, over {seeds}; intervals are not drawn, since every "
        "step has other inputs."
    )
    text = "The share of sampled answers that are right, on the inputs of training, as reinforcement goes on."
    return [Finding("The reward in training", text, figures=(StudyFigure("rewards", caption, data, plot),))]
