"""Supervised training, reinforcement, and one after the other, tested on seen and unseen
compositions.

All arms adapt one model to filters. An instruction says which of four words to keep (`is a noun`,
`cannot be a verb`, `is an adjective or a noun`), and the answer consists of these words. Three
combinations are withheld from training. Their predicates and connectives occur in training, but not
together. Reinforcement (`grpo`) is rewarded by the score of its output and never sees an answer.
The reinforcement arm with a supervised start begins with the final weights of the supervised arm
that has the same seed and as many steps as the start, so the two can be compared seed by seed.

The unit of analysis is the composition, because the question is what happens on compositions that
training lacks, and items of one composition succeed or fail together. Each composition counts once,
with its mean over items and seeds, and intervals are Student's t over compositions.

The task has to be one that the model already knows something about. On a CTL++ world of sixteen
functions (chains of two and three, 4,000 examples), 600 supervised steps at a rate of 3e-4 left
SmolLM2-135M at chance on iid (0.09 to 0.19 of 200 items, one seed, H200), so reinforcement would
have no right answer to reward. The model can learn such a world: it memorises 50 of its rows in 60
steps of 32 (0.92). It already knows much about word classes, so a short supervised start is enough
for it to be right often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.paper_table import (
    PaperTable,
    count_of,
    count_range,
    interval_columns,
    table_of,
)
from taskloom.analysis.study import StudyError, study
from taskloom.core.descriptions import UNSEEN as UNSEEN_TRAIT
from taskloom.experiments.record import Run
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.sources.scored_items import TASK
from taskloom.experiments.statistics import Estimate, holm, over_task_differences
from taskloom.experiments.statistics.distributions import t_two_sided
from taskloom.experiments.table import Runs

CONDITIONS = ("iid", "ood")
"""Test splits: `iid` has compositions seen in training on new words, `ood` has unseen
compositions.
"""

STARTS = {"quick": 2, "gpu": 40}
"""Supervised steps of the start, by scale. For GPU, this is the first of 20, 40, … at which SmolLM2
answered 0.3 of the dev items correctly, in a training with another seed
(benchmarks/reinforcement_gpu.py).
"""

STEPS = {"quick": 2, "gpu": 28}
"""Additional steps after the start, supervised or by reinforcement. The reinforcement-only arm has
the same number.
"""

SUPERVISED = {"batch": 64, "rate": 5e-5}
"""Settings of every supervised step, in the start and in `fine-tune`. Of the rates 5e-5, 1e-4 and
3e-4, the first had the best final score on dev.
"""

REINFORCED: dict[str, dict[str, Any]] = {
    "quick": {"batch": 16, "generations": 8, "rate": 2e-5},
    "gpu": {"batch": 256, "generations": 8, "rate": 1e-5},
}
"""Settings of every reinforcement step. `batch` counts answers, so 256 answers are 32 inputs. Of
the rates 1e-5, 3e-5 and 1e-4, the first had the highest reward at the end of 24 steps.
"""

CHANCE = 1 / 6
"""Accuracy of keeping two of the four words at random."""

ALPHA = 0.05
"""Significance level of a contrast, after Holm's correction over all contrasts of the table."""

NOUN, VERB, ADJECTIVE, ADVERB = (
    f"is_pos_{word}[eng]" for word in ("noun", "verb", "adjective", "adverb")
)
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
"""Filters in training, with their names on pages."""

UNSEEN = {
    f"lnot({ADJECTIVE})": "not an adjective",
    f"lor({NOUN}, {VERB})": "noun or verb",
    f"land({ADJECTIVE}, {NOUN})": "adjective and noun",
}
"""Withheld filters. Their predicates and connectives occur in training in other combinations."""

PHRASES = {
    f"taskbench/filter({predicate})": phrase for predicate, phrase in (SEEN | UNSEEN).items()
}
"""Names of tasks on pages."""

SEQUENCES = {"length": 4, "kept": 2}
"""Sequences have four words, of which the filter keeps two."""

ROWS = {
    "quick": {"train": 40, "dev": 4, "test": 4},
    "gpu": {"train": 640, "dev": 20, "test": 60},
}
"""Number of sequences for each filter, by scale and split."""

SHARED = {"join": "\nAnswer:", "longest_answer": 10}
"""Prompt settings shared by all arms."""


def recipe(scale: str = "gpu") -> dict[str, Any]:
    """Recipe of the filters, with three compositions withheld from training."""
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
    """The arm with the untrained model."""
    return {"learner": "zero-shot", **SHARED, **_named(model)}


def supervised(steps: int, model: str = "") -> dict[str, Any]:
    """The supervised arm with this many steps."""
    loop = {"steps": steps, "evaluate_every": 0, "compile": False, "graphs": False}
    return {"learner": "fine-tune", **loop, **SUPERVISED, **SHARED, **_named(model)}


def reinforced(scale: str, model: str = "") -> list[dict[str, Any]]:
    """The arms with reinforcement: after a supervised start, and on its own."""
    loop = {"steps": STEPS[scale], "compile": False, "graphs": False}
    alone = {"learner": "grpo", **loop, **REINFORCED[scale], **SHARED, **_named(model)}
    return [{**alone, "supervised": {"steps": STARTS[scale], **SUPERVISED}}, alone]


def _named(model: str) -> dict[str, Any]:
    return {"model": model} if model else {}


def experiment(scale: str, model: str) -> Mapping[str, Any]:
    """All arms as one experiment. There is no paper for this question, so the `paper` scale is the
    one that we ran.
    """
    scale = "quick" if scale == "quick" else "gpu"
    lengths = (STARTS[scale], STARTS[scale] + STEPS[scale])
    supervised_arms = [supervised(steps, model) for steps in lengths]
    arms = [*reinforced(scale, model), *supervised_arms, untrained(model)]
    return {
        "recipes": [recipe(scale)],
        "learners": arms,
        "seeds": {"quick": 2, "gpu": 3}[scale],
        "evaluate": ["test"],
        # Reinforcement of this model used up to 29 of a GPU's 140 GB.
        "resources": {"gpus": 0.25, "stack": 1},
    }


Scores = dict[str, dict[int, float]]
"""For each composition, the share of its items that each seed got right."""


@study(
    "reinforcement",
    describe="Fine-tuning, GRPO, and one after the other, on seen and unseen compositions",
    experiment=experiment,
    traits=(UNSEEN_TRAIT, TASK),
    needs="a pretrained model, trl",
)
def reinforcement(runs: Runs) -> list[Finding]:
    """Compare the arms on seen and unseen compositions, and further training with its supervised
    start.
    """
    answers = _answers(runs)
    arms = {arm: _scores(own) for arm, own in answers.items() if own}
    if not arms:
        raise StudyError(
            f"{runs.path} has no runs that were tested on seen and unseen compositions; "
            "make some, e.g. with 'taskloom reproduce reinforcement'"
        )
    return [_accuracy(arms, answers), *_gains(arms), *_by_composition(arms), *_rewards(runs)]


Item = tuple[str, str, int, bool]
"""Split, composition, seed, and whether the whole answer is right."""


def _answers(runs: Runs) -> dict[str, list[Item]]:
    """Answers to individual items by arm: the untrained model first, reinforcement last."""
    arms: dict[str, list[Item]] = {}
    for run in _ordered(runs):
        own = arms.setdefault(arm_of(run.learner, run.fields), [])
        table = runs.answers(run.name, ["task", "score", "traits"])
        if table is None:
            continue
        for row in table.to_pylist():
            unseen = dict(row["traits"] or ()).get(UNSEEN_TRAIT)
            if unseen is None or row["score"] is None:
                continue
            split = "ood" if unseen == "true" else "iid"
            task = str(row["task"] or "")
            own.append((split, PHRASES.get(task, task), run.seed, row["score"] == 1))
    return arms


def _ordered(runs: Runs) -> list[Run]:
    return sorted(runs, key=_order)


def _order(run: Run) -> tuple[bool, bool, int, int]:
    """Sort key: the untrained model, supervised arms by their steps, then arms with
    reinforcement.
    """
    steps = int(run.fields.get("learner.steps", 0))
    return run.learner == "grpo", run.learner != "zero-shot", steps, run.seed


def _scores(items: Sequence[Item]) -> dict[str, Scores]:
    """Accuracy of one arm by split, composition and seed."""
    answers: dict[str, dict[str, dict[int, list[bool]]]] = {}
    for split, composition, seed, right in items:
        by_seed = answers.setdefault(split, {}).setdefault(composition, {})
        by_seed.setdefault(seed, []).append(right)
    return {
        split: {name: _shares(by_seed) for name, by_seed in answers[split].items()}
        for split in CONDITIONS
        if split in answers
    }


def _shares(by_seed: Mapping[int, Sequence[bool]]) -> dict[int, float]:
    return {seed: sum(right) / len(right) for seed, right in by_seed.items()}


def _over_seeds(scores: Scores) -> dict[str, float]:
    """Accuracy on each composition, averaged over seeds."""
    return {name: sum(by_seed.values()) / len(by_seed) for name, by_seed in scores.items()}


def _seeds(scores: Scores) -> list[int]:
    return sorted({seed for by_seed in scores.values() for seed in by_seed})


def arm_of(learner: str, fields: Mapping[str, Any]) -> str:
    """Name of an arm in tables and figures.

    >>> arm_of("grpo", {"learner.steps": 200, "learner.supervised": {"steps": 50, "batch": 32}})
    'SFT 50, GRPO 200'
    """
    if learner == "zero-shot":
        return "untrained"
    steps = fields.get("learner.steps")
    start = fields.get("learner.supervised") or {}
    before = start.get("steps", 0) or fields.get("learner.supervised.steps", 0)
    name = {"fine-tune": "SFT", "grpo": "GRPO"}.get(learner, learner)
    return f"SFT {before}, {name} {steps}" if before else f"{name} {steps}"


ARMS = PaperTable(
    unit="compositions",
    name="arms",
    title="Accuracy of each arm",
    text=(
        "iid: compositions that training has, on new words. ood: compositions that it lacks. An "
        "item counts if its whole answer is right, which is also what the reward asks for. "
        "Intervals are at 95 %, over compositions (t); there is none if all compositions score "
        "the same."
    ),
    caption=(
        "Share of items that are right as a whole, by arm and split. Means over {units}, with 95 % "
        "intervals (t over compositions); each composition counts with its mean over {seeds}. "
        f"Chance is {CHANCE:.2f}."
    ),
    columns=("arm", "split", "mean", "low", "high", "compositions", "seeds", "items"),
    axes={"place": "arm", "series": "split"},
    as_drawn=True,
)


def _accuracy(arms: Mapping[str, dict[str, Scores]], answers: Mapping[str, list[Item]]) -> Finding:
    cells = []
    for arm, splits in arms.items():
        for split, scores in splits.items():
            seeds = _seeds(scores)
            items = sum(item[0] == split and item[2] == seeds[0] for item in answers[arm])
            sizes = {"seeds": len(seeds), "items": items}
            means = list(_over_seeds(scores).values())
            cells.append(ARMS.cell({"arm": arm, "split": split}, means, {}, of={}, further=sizes))
    trained = count_of((cell.further["seeds"] for cell in cells), "seed")
    return ARMS.finding(cells, caption=ARMS.caption.replace("{seeds}", trained))


def _pairs(arms: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of each supervised start with its two continuations, and of the continuations with each
    other.
    """
    pairs = []
    for arm in arms:
        start, comma, further = arm.partition(", GRPO ")
        if not comma or start not in arms:
            continue
        pairs.append((start, arm))
        longer = f"SFT {int(start.split()[1]) + int(further)}"
        if longer in arms:
            pairs += [(start, longer), (longer, arm)]
    return pairs


def gains_by_composition(before: Scores, after: Scores) -> dict[str, float]:
    """Mean difference between two arms on each composition, over the seeds that both arms have."""
    gains = {}
    for name, own in before.items():
        other = after.get(name, {})
        both = sorted(set(own) & set(other))
        if both:
            gains[name] = sum(other[seed] - own[seed] for seed in both) / len(both)
    return gains


def _gains(arms: Mapping[str, dict[str, Scores]]) -> Iterator[Finding]:
    """Yield the gain of further training over its supervised start, by composition."""
    rows: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    p_values = []
    for start, further in _pairs(arms):
        for split in CONDITIONS:
            before, after = arms[start].get(split, {}), arms[further].get(split, {})
            gains = gains_by_composition(before, after)
            if not gains:
                continue
            mean = sum(gains.values()) / len(gains)
            estimate = over_task_differences(list(gains.values())) if len(gains) > 1 else None
            ends = interval_columns(estimate)
            seeds = len(set(_seeds(before)) & set(_seeds(after)))
            sizes = {"compositions": len(gains), "seeds": seeds}
            about = {"from": start, "to": further, "split": split, "gain": mean, **ends}
            rows.append({**about, "p": None, **sizes, "outcome": ""})
            p_values.append(_p_value(estimate))
            dots += _dots(f"{further} - {start}", split, gains, mean, ends)
    if not rows:
        return
    # A contrast without a p-value still counts in the correction. Leaving it out would favour the
    # others.
    for row, p in zip(rows, holm(p_values).tolist(), strict=True):
        row["p"] = p
        row["outcome"] = _outcome(row["gain"], p)
    yield Finding(
        "What further training adds to its start",
        "Differences between an arm and the supervised start that it continues, and between the"
        " two continuations. Each composition counts once, with its mean over items and over the"
        " seeds that both arms have; intervals are at 95 %, over compositions (t). p is two-sided,"
        f" with Holm's correction for the {len(rows)} contrasts of this table. A contrast with a"
        f" corrected p above {ALPHA:g} is inconclusive.",
        table_of(rows),
        (_gains_figure(dots),),
    )


def _p_value(estimate: Estimate | None) -> float:
    """Two-sided p-value of a mean difference. 1 if the differences are all equal or if there is
    only one, because no test is possible.
    """
    if estimate is None or math.isnan(estimate.low):
        return 1.0
    return t_two_sided(estimate.mean / estimate.se, estimate.df)


def _outcome(gain: float, p: float) -> str:
    if p > ALPHA:
        return "inconclusive"
    return "higher" if gain > 0 else "lower"


def _dots(
    contrast: str, split: str, gains: Mapping[str, float], mean: float, ends: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows of the figure: every composition, then the mean over compositions."""
    for name, gain in gains.items():
        row = {"place": name, "kind": "one composition", "gain": gain, "low": None, "high": None}
        yield {"contrast": contrast, "split": split, **row}
    place = f"mean of {len(gains)} ({split})"
    row = {"place": place, "kind": "mean and 95 % interval", "gain": mean, **ends}
    yield {"contrast": contrast, "split": split, **row}


def _gains_figure(dots: Sequence[dict[str, Any]]) -> StudyFigure:
    data = ResultTable(("contrast", "split", "place", "kind", "gain", "low", "high"), list(dots))
    plot = partial(
        figures.intervals,
        place="place",
        series="kind",
        panel="contrast",
        mean="gain",
        xlabel="difference in accuracy",
        limits=(-0.3, 0.3),
    )
    caption = (
        "Differences in accuracy by composition, and their means over the compositions of a split "
        "with 95 % intervals (t over compositions). A dot is the mean over the seeds of both arms."
    )
    return StudyFigure("gains", caption, data, plot)


def _by_composition(arms: Mapping[str, dict[str, Scores]]) -> list[Finding]:
    """Accuracy of each arm on each composition, if runs kept the tasks of their items."""
    means: dict[str, dict[str, float]] = {}
    for arm, splits in arms.items():
        own = {
            name: mean for scores in splits.values() for name, mean in _over_seeds(scores).items()
        }
        known = {name: mean for name, mean in own.items() if name in PHRASES.values()}
        # An arm without a single right answer would be a column of zeros.
        if any(known.values()):
            means[arm] = known
    if not means:
        return []
    rows: list[dict[str, Any]] = []
    for phrase in PHRASES.values():
        split = "ood" if phrase in UNSEEN.values() else "iid"
        scores = {arm: own.get(phrase) for arm, own in means.items()}
        rows.append({"kept": phrase, "split": split, **scores})
    seeds = count_range(len(_seeds(scores)) for arm in means for scores in arms[arm].values())
    text = (
        f"Share of right answers (mean over {seeds} seeds), by what the filter keeps. Arms without "
        f"any right answer are left out. Chance, two of four words, is {CHANCE:.2f}."
    )
    table = ResultTable(("kept", "split", *means), rows)
    return [Finding("Accuracy by composition", text, table)]


def _rewards(runs: Runs) -> list[Finding]:
    """Mean reward in training by step, if runs kept it."""
    points: dict[tuple[str, int], list[float]] = {}
    for run in _ordered(runs):
        if run.learner != "grpo":
            continue
        table = runs.curve(run.name, ["step", "split", "score"])
        if table is None:
            continue
        arm = arm_of(run.learner, run.fields)
        for row in table.to_pylist():
            if row["split"] == "train" and row["score"] is not None:
                points.setdefault((arm, row["step"]), []).append(row["score"])
    if not points:
        return []
    rows: list[dict[str, Any]] = [
        {"arm": arm, "step": step, "reward": sum(rewards) / len(rewards), "seeds": len(rewards)}
        for (arm, step), rewards in points.items()
    ]
    data = ResultTable(("arm", "step", "reward", "seeds"), rows)
    plot = partial(
        figures.lines,
        x="step",
        y="reward",
        series="arm",
        xlabel="step of reinforcement",
        ylabel="reward",
    )
    seeds = count_of((row["seeds"] for row in rows), "seed")
    caption = (
        f"Mean reward of the answers sampled in training, over {seeds}. There are no intervals, "
        "since every step has other inputs."
    )
    text = "Share of sampled answers that are right, on training inputs, by step of reinforcement."
    figure = StudyFigure("rewards", caption, data, plot)
    return [Finding("The reward in training", text, figures=(figure,))]
