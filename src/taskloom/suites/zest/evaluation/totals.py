"""From judged instances to task F1, and from tasks to the tables: mean, C@T, consistency, by type,
domain and format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from taskloom.core.scoring import ROUNDING, competence_at
from taskloom.suites.zest.evaluation.official import Judged, Undefined
from taskloom.suites.zest.evaluation.spans import in_turn, mean, numpy_round
from taskloom.suites.zest.task_files import (
    CLASSIFICATION_WORDS,
    EXTRACTION_WORDS,
    ZestTask,
    first_word,
)

PAIRED = ("paraphrase", "target_semantics")
"""The types for which a model must be competent in the base task as well (consistency, section
5.1).
"""


@dataclass(frozen=True, slots=True)
class ZestTaskScore:
    """One task with what it gained.

    Attributes:
        f1: The task's own F1 (section 5.1, NA is the negative class).
        paired: The F1 that C@T counts: for paraphrases and flips the smaller of own and base; None
            when no base is there.
    """

    task: ZestTask
    gained: float
    tp: int
    fp: int
    fn: int
    tn: int
    f1: float
    paired: float | None = None


Row = dict[str, float]
"""`mean` and a share for each threshold."""


def task_f1(gained: float, predicted: int, positive: int) -> float:
    """Compute F1 with the conventions of the script: an empty denominator gives 1, so all-n/a
    answered by all-n/a is competent.
    """
    precision = gained / predicted if predicted else 1.0
    recall = gained / positive if positive else 1.0
    if precision == 0.0 and recall == 0.0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def task_score(task: ZestTask, judged: Iterable[Judged], exactly: bool) -> ZestTaskScore:
    """Sum up a task; `exactly` sums without rounding errors, so that the order of instances cannot
    matter.

    The script adds one score after the other. Python's `sum` does not since 3.12: it compensates
    rounding errors.
    """
    entries = [entry for j in judged for entry in j.entries]
    counts = {bucket: sum(b == bucket for b, _ in entries) for bucket in ("tp", "fp", "fn", "tn")}
    scores = [score for bucket, score in entries if bucket == "tp"]
    gained = fsum(scores) if exactly else in_turn(scores)
    f1 = task_f1(gained, counts["tp"] + counts["fp"], counts["tp"] + counts["fn"])
    return ZestTaskScore(task, gained, counts["tp"], counts["fp"], counts["fn"], counts["tn"], f1)


def pair_official(scores: Sequence[ZestTaskScore]) -> list[float | None]:
    """Return the value that counts for each task, as the script pairs: the last base found, None
    (dropped) when none is found.
    """
    bases: dict[str, list[float]] = {}
    for s in scores:
        if s.task.kind == "normal":
            bases.setdefault(s.task.id, []).append(s.f1)
    return [_official_value(s, bases) for s in scores]


def _official_value(score: ZestTaskScore, bases: Mapping[str, list[float]]) -> float | None:
    task = score.task
    if task.kind not in PAIRED:
        return score.f1
    if not bases:
        raise Undefined(
            "the gold file has no base tasks; the public script needs one for paraphrases and"
            " semantic flips"
        )
    base: float | None = None
    for name in task.derives_from:
        if name not in bases:
            if base is not None:
                raise Undefined(
                    f"task {task.id} derives from a base task that is there and then from {name},"
                    " which is not"
                )
            continue
        if len(bases[name]) > 1:
            raise Undefined(
                f"the gold file has two base tasks with the id {name}, from which task {task.id}"
                " derives"
            )
        base = bases[name][0]
    return None if base is None else min(score.f1, base)


def pair_corrected(scores: Sequence[ZestTaskScore]) -> list[float | None]:
    """Return the value that counts for each task: the smallest F1 of itself and all of its bases
    that are there.
    """
    bases: dict[str, float] = {}
    for s in scores:
        if s.task.kind == "normal":
            bases[s.task.id] = min(s.f1, bases.get(s.task.id, 1.0))
    values: list[float | None] = []
    for s in scores:
        if s.task.kind not in PAIRED:
            values.append(s.f1)
            continue
        present = [bases[name] for name in s.task.derives_from if name in bases]
        values.append(min([s.f1, *present]) if present else None)
    return values


def row(values: Sequence[float], thresholds: Sequence[float], by_script: bool = False) -> Row:
    """Compute mean and C@T of some tasks.

    The public script sums in NumPy's order and compares floats as they are; otherwise sums are
    exact and a score on the border counts.
    """
    rounding = 0.0 if by_script else ROUNDING
    centre = mean(values) if by_script else fsum(values) / len(values)
    return {"mean": centre} | {
        threshold_name(t): competence_at(values, t, rounding) for t in thresholds
    }


def threshold_name(threshold: float) -> str:
    """Format a threshold as reports name it: 75, 90, 99.5."""
    return f"{threshold:g}"


def table(
    scores: Sequence[ZestTaskScore],
    values: Sequence[float | None],
    group: Callable[[ZestTaskScore], str],
    thresholds: Sequence[float],
    by_script: bool = False,
) -> dict[str, Row]:
    """Compute rows by some property of the tasks; tasks without a value are left out."""
    groups: dict[str, list[float]] = {}
    for score, value in zip(scores, values, strict=True):
        if value is not None:
            groups.setdefault(group(score), []).append(value)
    return {name: row(members, thresholds, by_script) for name, members in groups.items()}


def average(rows: Mapping[str, Row], by_script: bool = False) -> Row:
    """Compute the unweighted mean over the categories: the overall score of the leaderboard.

    The script adds the rows from top to bottom, and prints what that gives: where the shares come
    to 0.055 the last bit decides between 5 and 6.
    """
    add = in_turn if by_script else fsum
    columns = list(next(iter(rows.values()), {}))
    return {c: add([r[c] for r in rows.values()]) / len(rows) for c in columns}


def printed(value: float) -> int:
    """Format a share as the script prints it: rounded to two decimals, then cut to a whole percent
    (0.29 gives 28).
    """
    return int(numpy_round(value) * 100)


def official_format(task: ZestTask) -> str:
    """Sort a task into classification or extraction by the first word of its question, as the
    script does.
    """
    word = first_word(task.question)
    if word in EXTRACTION_WORDS:
        return "extraction"
    if word in CLASSIFICATION_WORDS:
        return "classification"
    raise Undefined(
        f"the question {task.question[:60]!r} begins with a word that the public script does not"
        " know"
    )
