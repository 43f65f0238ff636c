"""Build the report of an evaluation from judged instances.

Instances are aggregated to the F1 of tasks, and tasks to tables of mean, C@T and consistency by
type, domain and format. The report is available as a dictionary and as text tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Literal

from taskloom.core.scoring import ROUNDING, competence_at
from taskloom.suites.zest.evaluation.flags import FLAGS
from taskloom.suites.zest.evaluation.official import Entry, Judged, Undefined
from taskloom.suites.zest.evaluation.spans import in_turn, mean, numpy_round
from taskloom.suites.zest.task_files import (
    CLASSIFICATION_WORDS,
    EXTRACTION_WORDS,
    PAPER_NAMES,
    ZestTask,
    first_word,
)

PAIRED = ("paraphrase", "target_semantics")
"""Types for which a model must also be competent in the base task (consistency, section 5.1)."""


@dataclass(frozen=True, slots=True)
class ZestTaskScore:
    """Score of one task.

    Attributes:
        f1: The task's own F1 (section 5.1; NA is the negative class).
        paired: The F1 used for C@T. For paraphrases and flips it is the minimum of the task's own
            F1 and its base task's. None if there is no base task.
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
"""The mean, and for each threshold the share of tasks that reach it."""


def task_f1(gained: float, predicted: int, positive: int) -> float:
    """Compute F1 with the script's conventions: an empty denominator gives 1, so a model that
    always predicts n/a is competent if all answers are n/a.
    """
    precision = gained / predicted if predicted else 1.0
    recall = gained / positive if positive else 1.0
    if precision == 0.0 and recall == 0.0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def task_score(task: ZestTask, judged: Iterable[Judged], exactly: bool) -> ZestTaskScore:
    """Summarise a task. With `exactly`, there are no rounding errors, so the order of instances has
    no effect.

    The script adds scores one by one, with rounding errors. Since Python 3.12, `sum` compensates
    for them.
    """
    entries = [entry for j in judged for entry in j.entries]
    counts = {bucket: sum(b == bucket for b, _ in entries) for bucket in ("tp", "fp", "fn", "tn")}
    scores = [score for bucket, score in entries if bucket == "tp"]
    gained = fsum(scores) if exactly else in_turn(scores)
    f1 = task_f1(gained, counts["tp"] + counts["fp"], counts["tp"] + counts["fn"])
    return ZestTaskScore(task, gained, counts["tp"], counts["fp"], counts["fn"], counts["tn"], f1)


def pair_official(scores: Sequence[ZestTaskScore]) -> list[float | None]:
    """Return the F1 that counts for each task, paired like in the script: with the last base task
    found, or None (dropped) if there is none.
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
                    f"task {task.id} derives from a base task in the gold file, but also from "
                    f"{name}, which is missing there"
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
    """Return the F1 that counts for each task: the minimum of its own F1 and that of all its base
    tasks in the file.
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
    """Return the mean and C@T of the given task scores.

    The public script sums in NumPy's order and compares floats exactly. In the other mode sums are
    exact, and a score equal to the threshold counts.
    """
    rounding = 0.0 if by_script else ROUNDING
    centre = mean(values) if by_script else fsum(values) / len(values)
    return {"mean": centre} | {
        threshold_name(t): competence_at(values, t, rounding) for t in thresholds
    }


def threshold_name(threshold: float) -> str:
    """Format a threshold for reports, such as 75, 90 or 99.5."""
    return f"{threshold:g}"


def table(
    scores: Sequence[ZestTaskScore],
    values: Sequence[float | None],
    group: Callable[[ZestTaskScore], str],
    thresholds: Sequence[float],
    by_script: bool = False,
) -> dict[str, Row]:
    """Build one row per value of a property of the tasks. Tasks without a value are omitted."""
    groups: dict[str, list[float]] = {}
    for score, value in zip(scores, values, strict=True):
        if value is not None:
            groups.setdefault(group(score), []).append(value)
    return {name: row(members, thresholds, by_script) for name, members in groups.items()}


def average(rows: Mapping[str, Row], by_script: bool = False) -> Row:
    """Return the unweighted mean over the categories, which is the overall score of the
    leaderboard.

    The script adds the rows from top to bottom and prints the result. If the shares add up to
    0.055, rounding errors decide between 5 and 6.
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
    """Classify a task as classification or extraction by the first word of its question, like the
    script.
    """
    word = first_word(task.question)
    if word in EXTRACTION_WORDS:
        return "extraction"
    if word in CLASSIFICATION_WORDS:
        return "classification"
    raise Undefined(
        f"the question {task.question[:60]!r} begins with a word that the public script does not "
        "recognise"
    )


Mode = Literal["official", "corrected"]


@dataclass(frozen=True, slots=True)
class InstanceScore:
    """A judged instance: its task, its index in the task, its score and entries, its type of
    mistake, and the flags if the modes differ.
    """

    task: str
    index: int
    score: float
    entries: tuple[Entry, ...]
    mistake: str | None
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """Scores of predictions.

    Attributes:
        mode: `official` or `corrected`.
        by_type: Mean and C@T by generalization type. For paraphrases and flips, of the paired
            values (consistency).
        overall: The unweighted mean over the types.
        own: Mean and C@T without pairing, by `type`, `domain` and `format`.
        instance_mean: The mean over instances, regardless of tasks (the paper's Table 3).
        mistakes: Number of instances in each category of Table 6.
        differences: Number of instances on which the two modes differ, by flag, and of tasks whose
            F1 differs.
        tasks: All tasks with their F1.
        instances: All instances.
        notes: Warnings about the input.
    """

    mode: Mode
    by_type: dict[str, Row]
    overall: Row
    own: dict[str, dict[str, Row]]
    instance_mean: float
    mistakes: dict[str, int]
    differences: dict[str, Any]
    tasks: tuple[ZestTaskScore, ...] = field(repr=False)
    instances: tuple[InstanceScore, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def official_json(self) -> dict[str, Any]:
        """Return the output of the public script: a row for each type, and the overall C@90 as a
        whole percentage.
        """
        return {**self.by_type, "overall": printed(self.overall.get("90", 0.0))}

    def official_csv(self) -> str:
        """Return the script's table of whole percentages, which are truncated rather than
        rounded.
        """
        rows = [*self.by_type.items(), ("average", self.overall)]
        head = "," + ",".join(self.overall)
        return (
            "\n".join(
                [
                    head,
                    *(
                        f"{name}," + ",".join(str(printed(v)) for v in r.values())
                        for name, r in rows
                    ),
                ]
            )
            + "\n"
        )

    def to_dict(self, details: bool = False) -> dict[str, Any]:
        """Convert to JSON values. With `details`, include every task and every instance."""
        payload: dict[str, Any] = {
            "mode": self.mode,
            "n_tasks": len(self.tasks),
            "n_instances": len(self.instances),
            "by_type": self.by_type,
            "overall": self.overall,
            "own": self.own,
            "instance_mean": self.instance_mean,
            "mistakes": self.mistakes,
            "differences": self.differences,
            "notes": list(self.notes),
        }
        if self.mode == "official":
            payload["official"] = self.official_json()
        if details:
            payload["tasks"] = [_task(s) for s in self.tasks]
            payload["instances"] = [_instance(i) for i in self.instances]
        return payload

    def text(self) -> str:
        """Format as text: the paper's tables, the mistakes, and where the two modes differ."""
        columns = list(next(iter(self.own["type"].values()), {}))
        heads = ["mean", *(f"C@{c}" for c in columns[1:])]
        names = {**PAPER_NAMES}
        rows = [
            (names.get(k, k), self.by_type[k]) for k in [*names, *self.by_type] if k in self.by_type
        ]
        rows = list(dict(rows).items())
        out = [
            (
                f"ZEST, {self.mode} evaluation: {len(self.tasks)} tasks, {len(self.instances)}"
                " instances"
            ),
            "",
        ]
        out += _grid("generalization", heads, [*rows, ("overall", self.overall)] if rows else [])
        for by in ("domain", "format"):
            out += ["", *_grid(f"by {by}, unpaired", heads, list(self.own[by].items()))]
        wrong = sum(self.mistakes.values())
        out += ["", f"mistakes: {wrong} of {len(self.instances)} instances"]
        out += [
            f"  {name:<10} {n:>6}  {_percent(n, wrong)}" for name, n in self.mistakes.items() if n
        ]
        d = self.differences
        out += [
            "",
            f"official and corrected differ on {d['instances']} instances and {d['tasks']} tasks",
        ]
        out += [f"  {flag:<20} {n:>6}  {FLAGS[flag]}" for flag, n in d["flags"].items()]
        return "\n".join([*out, *(f"note: {n}" for n in self.notes)])


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f} %" if whole else ""


def _grid(title: str, heads: Sequence[str], rows: Sequence[tuple[str, Row]]) -> list[str]:
    width = max([len(title), *(len(name) for name, _ in rows)])
    lines = [f"{title:<{width}}  " + "  ".join(f"{h:>6}" for h in heads)]
    return lines + [
        f"{name:<{width}}  " + "  ".join(f"{100 * v:6.1f}" for v in r.values()) for name, r in rows
    ]


def _task(score: ZestTaskScore) -> dict[str, Any]:
    task = score.task
    return {
        "id": task.id,
        "type": task.kind,
        "domain": task.domain,
        "format": task.format,
        "f1": score.f1,
        "paired": score.paired,
        "tp": score.tp,
        "fp": score.fp,
        "fn": score.fn,
        "tn": score.tn,
        "gained": score.gained,
    }


def _instance(instance: InstanceScore) -> dict[str, Any]:
    return {
        "task": instance.task,
        "index": instance.index,
        "score": instance.score,
        "entries": [list(e) for e in instance.entries],
        "mistake": instance.mistake,
        "flags": list(instance.flags),
    }
