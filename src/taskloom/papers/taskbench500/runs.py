"""Runs on TaskBench500 for studies, grouped by model, task and procedure over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from taskloom.analysis.paper_table import repeated_runs
from taskloom.analysis.published_numbers import Conditions, conditions_of, model_name
from taskloom.analysis.study import StudyError
from taskloom.core.errors import TaskloomError
from taskloom.experiments.record import SUITE_SCORE, TASK_FIELD, Run
from taskloom.experiments.table import Runs
from taskloom.suites.taskbench.catalog import composition, family
from taskloom.suites.taskbench.language import name, read
from taskloom.suites.taskbench.language.operators import Expression, Operator

METHODS = {"fine-tune": "fine-tuning", "lora": "fine-tuning", "prompt-tune": "prompt tuning"}
"""The paper's method for each of our learners. LoRA replaces fine-tuning if the weights of all
tasks do not fit in memory.
"""

SHORT = {"fine-tuning": "FT", "prompt tuning": "PT"}

PREFIX = "taskbench/"

MEMORISED = "memorise"
"""Split of examples to memorise."""

CONSTANT = "majority"
"""Learner whose score is that of the best constant answer."""

LABELS, BEST_ON_TEST = "labels", "best on test"
"""Other constants that may be stored: the most frequent training label, and the answer with the
best score on the tests themselves.
"""

REFERENCE, ANSWERS = "reference-compatible", "answers"
"""Additional numbers of a run: its score as computed by the public code, and the mean number of
acceptable answers.
"""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A model adapted to one task.

    Attributes:
        task: The function, in our notation.
        learner: The learner's name.
        shots: Number of training examples. 0: the whole training split.
        conditions: All settings of recipe and learner.
        scores: Scores of each split, by seed.
        further: Other numbers of each split, by name, as means over seeds.
        runs: The digest of each seed's run.
        environment: Machine and other recorded information.
        constants: Scores of constant answers on the same tests, by the way the answer was chosen:
            `CONSTANT` for the `majority` learner, and others if they were stored. Empty without
            such a run.
    """

    task: str
    learner: str
    shots: int
    conditions: Conditions
    scores: Mapping[str, Mapping[int, float]]
    further: Mapping[str, Mapping[str, float]]
    runs: Mapping[int, str]
    environment: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """Fine-tuning or prompt tuning; other learners by their names."""
        return METHODS.get(self.learner, self.learner)

    @property
    def procedure(self) -> str:
        """Method and amount of data in the notation of Table 1: FFT, FPT, 32FT, 32PT."""
        short = SHORT.get(self.method, f" {self.method}")
        return f"{self.shots}{short}" if self.shots else f"F{short}"

    @property
    def separators(self) -> bool:
        """True if # separates the items of the task's sequences."""
        return bool(self.conditions.get("recipe.sequences.separators"))

    @property
    def permuted(self) -> bool:
        """True if the labels were shuffled across inputs."""
        return self.conditions.get("recipe.labels") == "permuted"

    @property
    def balanced(self) -> bool:
        """True if the model was trained on a balanced mixture of two tasks."""
        return bool(self.conditions.get("recipe.balanced"))

    @property
    def pretrained(self) -> bool:
        """True if the model was pre-trained."""
        return bool(self.conditions.get("learner.pretrained", True))

    @property
    def composition(self) -> str:
        """Outermost composition of the task."""
        return composition(_tree(self.task))

    @property
    def family(self) -> str:
        """Families of the task's atoms."""
        return family(_tree(self.task))

    @property
    def parts(self) -> tuple[str, ...]:
        """Atomic tasks that the task is composed of, repeated as often as they occur."""
        return tuple(name(part) for part in _atomic(_tree(self.task)))

    @property
    def split(self) -> str:
        """The split that measures generalisation: `test`, or `dev` if the run has no test split."""
        return "test" if "test" in self.scores or "dev" not in self.scores else "dev"

    def mean(self, split: str) -> float | None:
        """Mean score over seeds on a split. None if the split was not evaluated."""
        known = list(self.scores.get(split, {}).values())
        return statistics.fmean(known) if known else None

    @property
    def adaptability(self) -> float | None:
        """Mean generalisation score over seeds, called adapt_gen in the paper."""
        return self.mean(self.split)

    @property
    def reference_score(self) -> float | None:
        """Generalisation score as computed by the public code. For single words it equals our
        score.
        """
        if self.composition in ("map", "filter", "map_filter"):
            return self.further.get(self.split, {}).get(REFERENCE)
        return self.adaptability

    @property
    def answers(self) -> float | None:
        """Mean number of acceptable answers per input (for sequences, per item)."""
        return self.further.get(self.split, {}).get(ANSWERS)

    @property
    def constant(self) -> float | None:
        """Score of the best constant answer, chosen on training data. None if unknown."""
        return self.constants.get(CONSTANT)

    @property
    def excess(self) -> float | None:
        """Generalisation score minus the score of the best constant answer. None unless both are
        known.

        Negative values are kept. They mean that the model is worse than a single fixed answer.
        """
        score = self.adaptability
        if score is None or self.constant is None:
            return None
        return score - self.constant


@cache
def _tree(task: str) -> Expression:
    return read(task)


def _atomic(tree: Expression) -> Iterator[Expression]:
    if composition(tree) == "atomic" or not isinstance(tree, Operator):
        yield tree
        return
    for part in tree.parts:
        yield from _atomic(part)


def adaptations(runs: Runs) -> list[Adaptation]:
    """Return the adaptations to each task. Raises an error if no run is on a task of
    TaskBench500.
    """
    known: dict[str, Conditions] = {}
    counts = _answer_counts(runs)
    tasks = _tasks(runs)
    constants = _constants(runs, tasks, known)
    groups = [
        _adaptation(runs, names, tasks, known, counts, constants) for names in repeated_runs(runs)
    ]
    chosen = [one for one in groups if one is not None]
    if not chosen:
        raise StudyError(
            f"{runs.path} has no runs on single tasks of taskbench; this study needs some, e.g. of"
            " 'taskloom reproduce taskbench500/table1' or of an experiment with tasks: each"
        )
    return chosen


def _adaptation(
    runs: Runs,
    names: list[str],
    tasks: Mapping[str, str | None],
    known: dict[str, Conditions],
    counts: Mapping[tuple[str, str], float],
    constants: Mapping[str, Mapping[str, float]],
) -> Adaptation | None:
    first = runs[names[0]]
    task = tasks[_task_text(first)]
    if task is None or first.learner == CONSTANT:
        return None
    conditions = _conditions(runs, names[0], known)
    scores: dict[str, dict[int, float]] = {}
    further: dict[str, dict[str, list[float]]] = {}
    for run in names:
        for split, result in runs[run].splits.items():
            if result.score is not None:
                scores.setdefault(split, {})[runs[run].seed] = float(result.score)
            extra = dict(result.further)
            if (run, split) in counts:
                extra.setdefault(ANSWERS, counts[run, split])
            for label, value in extra.items():
                further.setdefault(split, {}).setdefault(label, []).append(float(value))
    means = {
        split: {k: statistics.fmean(v) for k, v in own.items()} for split, own in further.items()
    }
    by_seed = {runs[run].seed: run for run in names}
    shots = int(conditions.get("learner.shots", 0) or 0)
    environment = runs.environment(names[0])
    own = constants.get(_data_key(task, conditions), {})
    return Adaptation(
        task, first.learner, shots, conditions, scores, means, by_seed, environment, own
    )


def _conditions(runs: Runs, run: str, known: dict[str, Conditions]) -> Conditions:
    """All settings of a run, cached for runs that differ only in their tasks."""
    # Parsing an experiment takes most of the time here, and the tasks of one experiment differ only
    # in name.
    others = {key: value for key, value in runs[run].fields.items() if key != TASK_FIELD}
    key = repr((runs[run].recipe, runs[run].learner, sorted(others.items(), key=str)))
    if key not in known:
        known[key] = conditions_of(runs, run)
    return known[key]


def _constants(
    runs: Runs, tasks: Mapping[str, str | None], known: dict[str, Conditions]
) -> dict[str, dict[str, float]]:
    """Test scores of constant answers, by task and data."""
    constants = {}
    for run in runs:
        task, score = tasks[_task_text(run)], run.score("test")
        if run.learner == CONSTANT and task is not None and score is not None:
            key = _data_key(task, _conditions(runs, run.name, known))
            constants[key] = {**run.splits["test"].further, CONSTANT: score}
    return constants


WHICH_TASKS = ("recipe.task", "recipe.functions", "recipe.catalog", "recipe.compose")
"""Settings that only select tasks. The data of a single task do not depend on them."""


def _data_key(task: str, conditions: Conditions) -> str:
    """Task and settings of its data. Runs on the same data have the same key, whatever was
    trained.
    """
    settings = {
        k: v
        for k, v in conditions.items()
        if k.startswith("recipe.") and not k.startswith(WHICH_TASKS)
    }
    return repr((task, sorted(settings.items())))


def _tasks(runs: Runs) -> dict[str, str | None]:
    """Normalised task of each task text in the runs, each parsed only once."""
    return {text: _task(text) for text in dict.fromkeys(map(_task_text, runs))}


def _task_text(run: Run) -> str:
    """The task of a run as it was written."""
    return str(run.fields.get(TASK_FIELD) or run.recipe)


def _task(text: str) -> str | None:
    """Normalised name of a task. None for a mixture of tasks and for anything that is not a
    task.
    """
    if not text.startswith(PREFIX):
        return None
    try:
        return name(read(text.removeprefix(PREFIX)))
    except TaskloomError:
        return None  # a recipe of many tasks, such as taskbench/500


def _answer_counts(runs: Runs) -> dict[tuple[str, str], float]:
    """Mean number of acceptable answers by run and split, if predictions were kept."""
    if SUITE_SCORE + ANSWERS in runs.table.column_names:
        return {}
    sums: dict[tuple[str, str], list[float]] = {}
    for row in runs.predictions(columns=["split", "traits"]).to_pylist():
        count = dict(row["traits"] or ()).get(ANSWERS)
        if count is not None:
            sums.setdefault((row["run"], row["split"]), []).append(float(count))
    return {place: statistics.fmean(counts) for place, counts in sums.items()}


PROCEDURES = ("FFT", "FPT", "32FT", "32PT")


def procedures(chosen: Iterable[Adaptation]) -> list[str]:
    """Procedures of the given adaptations, starting with the paper's in the paper's order."""
    present = list(dict.fromkeys(one.procedure for one in chosen))
    return [
        *(p for p in PROCEDURES if p in present),
        *sorted(p for p in present if p not in PROCEDURES),
    ]


def generalising(runs: Runs) -> list[Adaptation]:
    """Adaptations that measure generalisation: pre-trained models, true labels, no mixtures, and no
    memorisation.
    """
    chosen = [
        one
        for one in adaptations(runs)
        if one.pretrained and not one.permuted and not one.balanced and MEMORISED not in one.scores
        if one.adaptability is not None
    ]
    if not chosen:
        raise StudyError(
            f"{runs.path} has no run of a pre-trained model with a score on 'test' or 'dev';"
            " evaluate one of these splits"
        )
    return chosen


def model_notes(chosen: Iterable[Adaptation]) -> list[str]:
    """Notes for every page on the models and methods that produced its numbers."""
    chosen = list(chosen)
    models = sorted({model_name(one.conditions) or one.learner for one in chosen})
    notes = [f"Model: {', '.join(models)} (the paper: T5-base, 220M parameters)."]
    if any(one.learner == "lora" for one in chosen):
        ranks = sorted(
            {str(one.conditions.get("learner.rank")) for one in chosen if one.learner == "lora"}
        )
        notes.append(
            f"Fine-tuning is LoRA of rank {', '.join(ranks)} on all linear maps, many tasks in one"
            " batch (the paper: all weights)."
        )
    return notes
