"""Runs on ZEST for studies. Each run's answers to whole splits are evaluated as in the paper.

The answers come from the run. The tasks come from the run's recipe, which generates or reads them
again. A file of scores with predictions is therefore as good as a run store.

Competence has to be compared with constant answers. A task whose answer is usually yes is "solved"
by a system that reads neither the description nor the passage, so C@75 and C@90 of a weak model may
count only such tasks.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.analysis.paper_table import count_of
from taskloom.analysis.published_numbers import Conditions, conditions_of, model_name, recipe_of
from taskloom.analysis.study import StudyError
from taskloom.core.example import Example
from taskloom.core.files import json_digest
from taskloom.core.scoring import ROUNDING
from taskloom.core.shards import to_examples, to_table
from taskloom.experiments.record import Run
from taskloom.experiments.statistics import over_task_differences
from taskloom.experiments.table import Runs
from taskloom.papers.zest.directions import ClaimedDirection, Ends
from taskloom.recipe.yaml_files import parse
from taskloom.suites.zest.evaluation import Undefined, score_examples
from taskloom.suites.zest.evaluation.corrected import says_na
from taskloom.suites.zest.evaluation.score_report import Mode, ScoreReport

SPLITS = ("dev", "test")

SCORES = {"mean": "mean", "75": "C@75", "90": "C@90"}
"""The columns of the paper's tables, by their names in reports."""

INPUTS = {
    "both": "the whole input",
    "question": "the question alone",
    "context": "the passage alone",
}
"""Names of the parts of the input in error messages."""

Measure = Callable[[ScoreReport], float | None]
"""Function that returns a number for the evaluation of a split, or None if it is not defined for
this split.
"""


@dataclass(frozen=True, slots=True)
class DescriptionRuns:
    """Runs of one model on one part of the input that differ only in the seed.

    Attributes:
        model: Name of the model in tables.
        part: Part of the input that the model received: `both`, `question` or `context`.
        conditions: All settings of recipe and learner.
        reports: The evaluation of each split, by seed.
        answered: Share of instances with an answer other than n/a, by split and seed.
        notes: Notes on the evaluation.
        examples: The examples that were answered, by split. Splits that this version generates
            differently are left out.
        predicted: The answers to these examples, by split and seed.
    """

    model: str
    part: str
    conditions: Conditions
    reports: dict[str, dict[int, ScoreReport]]
    answered: dict[str, dict[int, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    examples: dict[str, list[Example]] = field(default_factory=dict, repr=False)
    predicted: dict[str, dict[int, list[str]]] = field(default_factory=dict, repr=False)

    @property
    def by_script(self) -> bool:
        """True if the evaluation follows the public script, which fails on some answers."""
        return any(
            report.mode == "official"
            for by_seed in self.reports.values()
            for report in by_seed.values()
        )

    def values(self, split: str, measure: Measure) -> list[float]:
        """Values of a measure on a split, one per seed."""
        values = [measure(report) for _, report in sorted(self.reports.get(split, {}).items())]
        return [value for value in values if value is not None]


def overall(score: str) -> Measure:
    """Measure of the row Overall: the mean over generalization types, as in the public script."""
    return lambda report: report.overall.get(score)


def of_type(kind: str, score: str) -> Measure:
    """Measure of one generalization type; paraphrases and flips count with their base task."""
    return lambda report: report.by_type.get(kind, {}).get(score)


def tasks_of(groups: Sequence[DescriptionRuns], split: str) -> str:
    """A split with its number of tasks, for captions: `the 114 tasks of dev`."""
    sizes = [
        int(group.conditions.get(f"recipe.tasks.{split}") or 0)
        for group in groups
        if split in group.reports
    ]
    return f"the {count_of(sizes, 'task')} of {split}" if any(sizes) else split


def percent(values: Iterable[float]) -> str:
    """Mean ± standard deviation over seeds in percent, as in the paper's tables.

    >>> percent([0.5, 0.52]), percent([0.5]), percent([])
    ('51.0 ± 1.4', '50.0', '–')
    """
    shares = [100 * value for value in values]
    if not shares:
        return "–"
    mean = f"{statistics.fmean(shares):.1f}"
    return f"{mean} ± {statistics.stdev(shares):.1f}" if len(shares) > 1 else mean


def description_runs(
    runs: Runs, parts: Sequence[str] = ("both",), mode: Mode = "official", totals: bool = False
) -> list[DescriptionRuns]:
    """Return the runs on ZEST with their evaluations. Raises an error if the store has none.

    Args:
        runs: Runs of any kind; those of other suites are left out.
        parts: Only runs on these parts of the input.
        mode: `official`, except where the public script fails, or `corrected`.
        totals: True if the scores of whole splits suffice. A run on data from an earlier version of
            the suite then counts with the scores that were computed at the time of the run.
    """
    kinds: dict[str, list[str]] = {}
    for run in runs:
        kinds.setdefault(_kind(run), []).append(run.name)
    splits: dict[tuple[str, int, str], list[Example]] = {}
    chosen = []
    for names, note in chosen_by_dev(runs, list(kinds.values())):
        group = _group(runs, names, parts, mode, splits, totals)
        if group is not None:
            group.notes.extend([f"{group.model}, {group.part}: {note}"] if note else [])
            chosen.append(group)
    if not chosen:
        raise StudyError(
            f"{runs.path} has no runs on zest with {' or '.join(INPUTS[part] for part in parts)};"
            " make some, e.g. with 'taskloom reproduce zest/table3', or describe your predictions"
            " in a YAML file (docs/how-to/reproduce-a-paper.md)"
        )
    order = ("both", "question", "context")
    return sorted(chosen, key=lambda group: (group.model, order.index(group.part)))


SEARCHED = ("learner.rate", "learner.epochs")
"""Settings that the paper searches."""


def chosen_by_dev(runs: Runs, kinds: Sequence[list[str]]) -> list[tuple[list[str], str]]:
    """Return the best runs on dev among a preset's runs that differ only in searched settings, each
    with a note on the choice. The note is empty if there was no choice.

    Runs without a preset are all kept, because their settings are the user's. Each is a separate
    row.

    Args:
        runs: The runs.
        kinds: Names of runs, grouped so that runs in a group differ only in the seed.
    """
    searches: dict[str, list[list[str]]] = {}
    for names in kinds:
        run = runs[names[0]]
        searched = SEARCHED if "learner.preset" in run.fields else ()
        fields = {key: value for key, value in run.fields.items() if key not in searched}
        same = json_digest([run.recipe, run.learner, fields, run.data])
        searches.setdefault(same, []).append(names)
    return [_best(runs, search) for search in searches.values()]


def _best(runs: Runs, search: Sequence[list[str]]) -> tuple[list[str], str]:
    """The runs of a search with the best score on dev, and a note that names their settings."""
    if len(search) == 1:
        return search[0], ""
    scores = [_on_dev(runs, names) for names in search]
    best = scores.index(max(scores))
    fields = runs[search[best][0]].fields
    settings = [
        f"{key.removeprefix('learner.')} {fields[key]:g}" for key in SEARCHED if key in fields
    ]
    note = f"{', '.join(settings)} is best on dev among {len(search)} settings ({max(scores):.3f})."
    return search[best], note


def _on_dev(runs: Runs, names: Sequence[str]) -> float:
    """Mean score of the dev examples. Raises an error if a run of a search has no dev score."""
    scores = []
    for name in names:
        own = [
            result.score
            for split, result in runs[name].splits.items()
            if _plain(split) == "dev" and result.score is not None
        ]
        if not own:
            raise StudyError(
                f"the run {name} is one of a search, which dev decides, and has no score on dev;"
                " add dev to 'evaluate'"
            )
        scores += own
    return fmean(scores)


def _plain(split: str) -> str:
    """Name of a ZEST split without its recipe, which prefixes the splits of a mix. Empty for splits
    of other data.

    >>> _plain("dev"), _plain("zest/synthetic:dev"), _plain("squad:dev")
    ('dev', 'dev', '')
    """
    recipe, colon, name = split.rpartition(":")
    return name if not colon or recipe.startswith("zest/") else ""


def _kind(run: Run) -> str:
    """Settings shared by runs that differ only in the seed."""
    return json_digest([run.recipe, run.learner, run.fields, run.data])


def _group(
    runs: Runs,
    names: list[str],
    parts: Sequence[str],
    mode: Mode,
    splits: dict[tuple[str, int, str], list[Example]],
    totals: bool,
) -> DescriptionRuns | None:
    conditions = dict(conditions_of(runs, names[0]))
    if not {"recipe.tasks.dev", "recipe.layout", "recipe.parts"} <= set(conditions):
        return None  # not a recipe of zest
    part = str(conditions["recipe.parts"])
    if part not in parts:
        return None
    files = [key for key in conditions if key.startswith("recipe.files.")]
    conditions["recipe.data"] = "crowd-sourced" if files else "generated"
    learner = runs[names[0]].learner
    model = _model(learner, conditions)
    if _learned_from_others(runs, names[0]):
        model = f"{model}, multi-task"
    if not conditions.get("learner.model"):
        conditions["learner.model"] = (
            learner  # a network trained from scratch, or predictions from another tool
        )
    group = DescriptionRuns(model, part, conditions, {})
    seen: dict[tuple[str, tuple[str, ...]], int] = {}
    for run in names:
        seed = runs[run].seed
        for split, answers in _answers(runs, run).items():
            examples = _examples(runs, run, split, splits)
            stored = (
                _stored(runs, run, split, mode) if totals and not _same(examples, answers) else None
            )
            if stored is None:
                _check(runs, run, split, examples, answers)
                group.examples[split] = examples
            texts = answers["prediction"].to_pylist()
            if (first := seen.setdefault((split, tuple(texts)), seed)) != seed and not _constant(
                texts
            ):
                group.notes.append(
                    f"{model}, {part}: seed {seed} gives every answer on {split} that seed {first}"
                    f" {TWICE}"
                )
                continue
            if stored is not None:
                group.notes.append(f"{model}, {part}, {split}: {EARLIER}")
            if stored is None:
                group.predicted.setdefault(split, {})[seed] = texts
            report = evaluated(examples, texts, mode, group.notes) if stored is None else stored
            group.reports.setdefault(split, {})[seed] = report
            if files:  # the files have their own number of tasks, whatever the recipe generates
                conditions[f"recipe.tasks.{split}"] = len(report.tasks)
            group.answered.setdefault(split, {})[seed] = statistics.fmean(
                not says_na(text) for text in texts
            )
    return group


TWICE = "gives, so that the two are one training; it is counted once."

EARLIER = (
    "an earlier version of the suite made these passages; the scores are those that were computed"
    " with the run."
)


def _constant(texts: Sequence[str]) -> bool:
    """True if all answers are the same, for example because several trained models always answer
    n/a.
    """
    return len(set(texts)) == 1


def _model(learner: str, conditions: Conditions) -> str:
    model = model_name(conditions)
    return f"{model}, {learner}" if model else learner


def _answers(runs: Runs, run: str) -> dict[str, pa.Table]:
    rows = runs.answers(run, ["split", "index", "targets", "prediction"])
    if rows is None:
        raise StudyError(
            f"the run {run} kept no predictions, which this study evaluates; run it with"
            " keep.predictions"
        )
    names = rows["split"].cast(pa.string())
    splits = {split: _plain(split) for split in dict.fromkeys(names.to_pylist())}
    return {plain: rows.filter(pc.equal(names, split)) for split, plain in splits.items() if plain}


def _learned_from_others(runs: Runs, run: str) -> bool:
    """True if a run learned from a mix of ZEST and other data."""
    block = parse(runs.config(run))["recipes"][0]
    return isinstance(block, dict) and "mix" in block


def _examples(
    runs: Runs, run: str, split: str, known: dict[tuple[str, int, str], list[Example]]
) -> list[Example]:
    """Examples of a split of the run's recipe, generated once and shared by all runs."""
    recipe = recipe_of(runs, run)
    block = parse(runs.config(run))["recipes"][0]
    seed = int(block.get("seed", 0)) if isinstance(block, dict) else 0
    key = (recipe.digest, seed, split)
    if key not in known:
        plan = recipe.plan(seed)
        planned = next((s for s in plan.splits if s.name == split), None)
        if planned is None:
            raise StudyError(
                f"the run {run} answered the split '{split}', which its recipe does not have"
            )
        known[key] = list(to_examples(to_table(planned.rows(0, planned.n), 0, plan.traits)))
    return known[key]


def _check(
    runs: Runs, run: str, split: str, examples: Sequence[Example], answers: pa.Table
) -> None:
    """Raise an error for part of a split, whose tasks would lack passages, and for data that this
    version generates differently.
    """
    if len(answers) != len(examples):
        raise StudyError(
            f"the run {run} answered {len(answers):,} of the {len(examples):,} examples of"
            f" '{split}'; competence needs all passages of a task: run it without 'limit'"
        )
    if not _same(examples, answers):
        raise StudyError(
            f"{runs.path}: the answers of '{split}' in the run {run} are not those of its recipe in"
            " this version of taskloom; make the runs again"
        )


def _same(examples: Sequence[Example], answers: pa.Table) -> bool:
    """True if a run answered these examples, compared by their gold answers."""
    return [targets[0] for targets in answers["targets"].to_pylist()] == [
        example.target for example in examples
    ]


def _stored(runs: Runs, run: str, split: str, mode: Mode) -> ScoreReport | None:
    """Scores of a split that were computed with the run, if it kept them."""
    stored = runs[run].splits.get(split)
    prefix = "official " if mode == "official" else ""
    if stored is None or stored.score is None:
        return None
    if not all(prefix + head in stored.further for head in SCORES.values()):
        return None
    scores = {name: stored.further[prefix + head] for name, head in SCORES.items()}
    shown: Mode = "official" if mode == "official" else "corrected"
    return ScoreReport(shown, {}, scores, {}, stored.score, {}, {}, (), ())


def evaluated(
    examples: Sequence[Example], predictions: Sequence[str], mode: Mode, notes: list[str]
) -> ScoreReport:
    """Evaluate a split. If the public script would fail, evaluate as described in the paper."""
    try:
        return score_examples(examples, predictions, mode)
    except Undefined as error:
        notes.append(
            f"The public script stops at an answer ({error}); that split is evaluated as the paper"
            " says."
        )
        return score_examples(examples, predictions, "corrected")


CONSTANTS = ("yes", "n/a")
"""Answers that can be right for whole tasks: `yes` if that is the usual answer, `n/a` if no passage
answers the task.
"""

ALWAYS_YES = "always yes"


def constant_runs(groups: Sequence[DescriptionRuns], mode: Mode) -> list[DescriptionRuns]:
    """Evaluate constant answers to the splits that the given runs answered, in the same way as the
    runs.

    Args:
        groups: The runs. Runs on half of the input have the same tasks as those on the whole input
            and share their baselines.
        mode: How the runs were evaluated.
    """
    known: dict[str, list[list[Example]]] = {}
    for group in groups:
        for split, examples in group.examples.items():
            kept = known.setdefault(split, [])
            if not any(_same_tasks(examples, other) for other in kept):
                kept.append(examples)
    most = max((len(kept) for kept in known.values()), default=0)
    baselines = []
    for answer in CONSTANTS:
        for number in range(most):
            name = f"always {answer}" if most == 1 else f"always {answer}, data {number + 1}"
            baseline = DescriptionRuns(name, "none", {}, {})
            for split, kept in known.items():
                if number < len(kept):
                    texts = [answer] * len(kept[number])
                    baseline.reports[split] = {
                        0: evaluated(kept[number], texts, mode, baseline.notes)
                    }
                    baseline.answered[split] = {0: float(not says_na(answer))}
                    baseline.examples[split] = kept[number]
            baselines.append(baseline)
    return baselines


def _same_tasks(a: Sequence[Example], b: Sequence[Example]) -> bool:
    return [(e.task, e.target) for e in a] == [(e.task, e.target) for e in b]


def above_constant(
    groups: Sequence[DescriptionRuns], baselines: Sequence[DescriptionRuns], splits: Sequence[str]
) -> Iterator[ClaimedDirection]:
    """Yield the directions from always answering yes to the runs, for each score.

    Args:
        groups: The runs.
        baselines: Constant answers to their tasks.
        splits: The splits to compare on.
    """
    for group in groups:
        for split in splits:
            constant = _always_yes(group, baselines, split)
            if constant is None:
                continue
            for score, head in SCORES.items():
                values = group.values(split, overall(score))
                theirs = constant.overall[score]
                yield ClaimedDirection(
                    f"{split}: {head} above {ALWAYS_YES}",
                    group.model,
                    None,
                    values,
                    [theirs] * len(values),
                    tasks=_over_tasks(list(group.reports[split].values()), constant, score),
                )


def _always_yes(
    group: DescriptionRuns, baselines: Sequence[DescriptionRuns], split: str
) -> ScoreReport | None:
    """Evaluate always answering yes on the tasks of a group. Returns None if the group has no tasks
    of this version.
    """
    for baseline in baselines:
        if not baseline.model.startswith(ALWAYS_YES) or split not in group.examples:
            continue
        if split in baseline.examples and _same_tasks(
            group.examples[split], baseline.examples[split]
        ):
            return baseline.reports[split][0]
    return None


def _over_tasks(reports: Sequence[ScoreReport], constant: ScoreReport, score: str) -> Ends | None:
    """Interval over tasks of the difference from a constant. Each task counts with its mean over
    seeds.

    The overall score is the mean over generalization types, so a task of a small type has a larger
    weight. The weighted differences have the right mean, but their variance includes the spread
    between types, which makes the interval a little too wide.
    """
    worth = _worth(score, constant.mode)
    theirs = _by_task(constant, worth)
    ours = [_by_task(report, worth) for report in reports]
    kinds = [s.task.kind for s in constant.tasks if s.task.id in theirs]
    shares = {kind: len(kinds) / (len(set(kinds)) * kinds.count(kind)) for kind in set(kinds)}
    weights = {s.task.id: shares[s.task.kind] for s in constant.tasks if s.task.id in theirs}
    gaps = [
        weights[task] * (fmean(own[task] for own in ours) - value) for task, value in theirs.items()
    ]
    if len(gaps) < 2:
        return None
    estimate = over_task_differences(gaps)
    return estimate.low, estimate.high


def _worth(score: str, mode: Mode) -> Callable[[float], float]:
    """Contribution of a task's F1 to a score: the F1 itself for the mean, and 1 for C@T if it is at
    least the threshold.
    """
    if score == "mean":
        return lambda f1: f1
    # The public script compares floats exactly; see `competence_tables.consistency`.
    least = float(score) / 100 - (0.0 if mode == "official" else ROUNDING)
    return lambda f1: float(f1 >= least)


def _by_task(report: ScoreReport, worth: Callable[[float], float]) -> Mapping[str, float]:
    return {s.task.id: worth(s.paired) for s in report.tasks if s.paired is not None}
