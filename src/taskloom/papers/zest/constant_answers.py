"""Constant answers as baselines: what a system that always says yes, or always n/a, gets on the same tasks.

Competence has to be read beside them. A task whose answer is usually yes is "solved" by a system that reads neither the description
nor the passage, so that C@75 and C@90 of a weak model may count such tasks and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from taskloom.core.example import Example
from taskloom.core.scoring import ROUNDING
from taskloom.experiments.statistics import over_task_differences
from taskloom.papers.zest.description_runs import SCORES, DescriptionRuns, evaluated, overall
from taskloom.papers.zest.directions import ClaimedDirection, Ends
from taskloom.suites.zest.evaluation.corrected import says_na
from taskloom.suites.zest.evaluation.score_report import Mode, ScoreReport

CONSTANTS = ("yes", "n/a")
"""Answers that settle whole tasks: those of tasks that are usually answered by yes, and those of tasks that no passage answers."""

ALWAYS_YES = "always yes"


def constant_runs(groups: Sequence[DescriptionRuns], mode: Mode) -> list[DescriptionRuns]:
    """Constant answers to the splits that some runs answered, evaluated as these are.

    Args:
        groups: Runs. Those on one half of the input have the same tasks as those on the whole, and share their baselines.
        mode: How they were evaluated.
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
                    baseline.reports[split] = {0: evaluated(kept[number], texts, mode, baseline.notes)}
                    baseline.answered[split] = {0: float(not says_na(answer))}
                    baseline.examples[split] = kept[number]
            baselines.append(baseline)
    return baselines


def _same_tasks(a: Sequence[Example], b: Sequence[Example]) -> bool:
    return [(e.task, e.target) for e in a] == [(e.task, e.target) for e in b]


def above_constant(
    groups: Sequence[DescriptionRuns], baselines: Sequence[DescriptionRuns], splits: Sequence[str]
) -> Iterator[ClaimedDirection]:
    """Yield whether runs are above always saying yes, by each score.

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


def _always_yes(group: DescriptionRuns, baselines: Sequence[DescriptionRuns], split: str) -> ScoreReport | None:
    """Evaluation of always saying yes on the tasks that a group answered; None if the group has none of this version."""
    for baseline in baselines:
        if not baseline.model.startswith(ALWAYS_YES) or split not in group.examples:
            continue
        if split in baseline.examples and _same_tasks(group.examples[split], baseline.examples[split]):
            return baseline.reports[split][0]
    return None


def _over_tasks(reports: Sequence[ScoreReport], constant: ScoreReport, score: str) -> Ends | None:
    """Interval over tasks of the difference to a constant, each task counting with its mean over seeds.

    The overall score is the mean over generalization types, so that a task of a small type weighs more. Weighted differences have
    the right mean, and the spread between types in their variance, which makes the interval a little too wide.
    """
    worth = _worth(score, constant.mode)
    theirs = _by_task(constant, worth)
    ours = [_by_task(report, worth) for report in reports]
    kinds = [s.task.kind for s in constant.tasks if s.task.id in theirs]
    shares = {kind: len(kinds) / (len(set(kinds)) * kinds.count(kind)) for kind in set(kinds)}
    weights = {s.task.id: shares[s.task.kind] for s in constant.tasks if s.task.id in theirs}
    gaps = [weights[task] * (fmean(own[task] for own in ours) - value) for task, value in theirs.items()]
    if len(gaps) < 2:
        return None
    estimate = over_task_differences(gaps)
    return estimate.low, estimate.high


def _worth(score: str, mode: Mode) -> Callable[[float], float]:
    """What a task's F1 counts for a score: itself for the mean, 1 from the threshold of C@T on."""
    if score == "mean":
        return lambda f1: f1
    # The public script compares floats as they are; see `competence_tables.consistency`.
    least = float(score) / 100 - (0.0 if mode == "official" else ROUNDING)
    return lambda f1: float(f1 >= least)


def _by_task(report: ScoreReport, worth: Callable[[float], float]) -> Mapping[str, float]:
    return {s.task.id: worth(s.paired) for s in report.tasks if s.paired is not None}
