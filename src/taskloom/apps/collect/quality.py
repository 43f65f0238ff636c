"""Quality of people's answers: human performance on the tasks, and agreement between annotators.

Human performance is a leave-one-out estimate with the official evaluation, like the paper's Table
10. Each annotator is scored like a model, against the final answers that follow from the other
annotators' answers. If the others' answers do not settle an item, the adjudicator's answer is used,
who has seen all of them. An item with neither is left out.

Agreement is Krippendorff's alpha:

    alpha = 1 - D_observed / D_expected

`D_observed` is the mean difference of two values of the same unit, each unit weighted by its number
of values; `D_expected` that of any two values of all units with at least two (Krippendorff,
Computing Krippendorff's Alpha-Reliability, 2011).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TypeVar

from taskloom.apps.collect.annotation import resolve
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.records import NA, CollectedTask, GivenAnswer, Item
from taskloom.core.seeding import Key
from taskloom.suites.zest import evaluation
from taskloom.suites.zest.evaluation.spans import list_f1
from taskloom.suites.zest.task_files import PAPER_NAMES, Instance, ZestTask

PUBLISHED: dict[str, tuple[int, int, int]] = {
    "normal": (88, 85, 54),
    "paraphrase": (85, 75, 50),
    "combination": (79, 67, 44),
    "target_semantics": (68, 50, 40),
    "structure": (51, 30, 20),
    "overall": (74, 61, 42),
}
"""Table 10: mean, C@75 and C@90 of one author on 55 test tasks."""

MOST_DIFFERENT = 300
"""Maximum distinct values for the exact expected difference. With more, it is estimated from this
many, because its cost grows with their square.
"""

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HumanRow:
    """One row of Table 10: means over annotators, weighted by the number of tasks of each."""

    name: str
    tasks: int
    mean: float
    c75: float
    c90: float


@dataclass(frozen=True, slots=True)
class AnnotatedItem:
    """An item with its task and each person's answer."""

    task: CollectedTask
    item: Item
    answers: Mapping[str, str]


def annotated_items(c: Collection) -> list[AnnotatedItem]:
    """Items of approved tasks that have answers, in the order of their ids."""
    tasks = {t.id: t for t in c.store.each(CollectedTask, stage="approved")}
    answers: dict[str, dict[str, str]] = {}
    for answer in c.store.each(GivenAnswer, stage="work"):
        answers.setdefault(answer.item, {})[answer.person] = answer.value
    items = (i for i in c.store.each(Item) if i.id in answers and i.task in tasks)
    return [AnnotatedItem(tasks[i.task], i, answers[i.id]) for i in items]


def human_performance(rows: Sequence[AnnotatedItem]) -> list[HumanRow]:
    """Estimate human performance by generalization type and overall."""
    people = sorted({p for row in rows for p in row.answers})
    sums: dict[str, list[tuple[int, float, float, float]]] = {}
    for person in people:
        tasks, predictions = _as_model(rows, person)
        if not tasks:
            continue
        report = evaluation.score(tasks, predictions, "official")
        for kind, row in report.by_type.items():
            count = sum(t.kind == kind for t in tasks)
            sums.setdefault(kind, []).append((count, row["mean"], row["75"], row["90"]))
    table = [_row(PAPER_NAMES[kind], sums[kind]) for kind in PAPER_NAMES if kind in sums]
    if table:
        # As in the public script: the unweighted mean over the types that occur.
        means = [
            fsum(values) / len(table)
            for values in zip(*((r.mean, r.c75, r.c90) for r in table), strict=True)
        ]
        table.append(HumanRow("overall", sum(r.tasks for r in table), *means))
    return table


def _row(name: str, parts: Sequence[tuple[int, float, float, float]]) -> HumanRow:
    total = sum(p[0] for p in parts)
    mean, c75, c90 = (fsum(p[0] * p[i] for p in parts) / total for i in (1, 2, 3))
    return HumanRow(name, total, mean, c75, c90)


def _as_model(rows: Sequence[AnnotatedItem], person: str) -> tuple[list[ZestTask], list[str]]:
    """Return gold tasks derived from the other annotators' answers, and predictions from one
    person's answers, for tasks whose base tasks are present.
    """
    instances: dict[str, list[tuple[Instance, str]]] = {}
    tasks: dict[str, CollectedTask] = {}
    for row in rows:
        if person not in row.answers:
            continue
        others = [row.answers[p] for p in sorted(row.answers) if p != person]
        gold = resolve(others, row.task.format)
        if gold is None and row.item.state == "decided":
            gold = row.item.answer
        if gold is not None:
            tasks[row.task.id] = row.task
            instances.setdefault(row.task.id, []).append((Instance("", gold), row.answers[person]))
    # A paraphrase or a flip is scored together with its base task, so the person must have answered
    # that, too.
    bases = {id for id, t in tasks.items() if t.variant == "normal"}
    if not bases:
        return [], []
    kept = [t for t in tasks.values() if t.variant == "normal" or set(t.bases) <= bases]
    kept.sort(key=lambda t: (t.variant != "normal", t.id))
    gold_tasks: list[ZestTask] = []
    predictions: list[str] = []
    for t in kept:
        golds = tuple(instance for instance, _ in instances[t.id])
        gold_tasks.append(ZestTask(t.id, t.question, t.variant, t.bases, t.domain, golds))
        predictions += [prediction for _, prediction in instances[t.id]]
    return gold_tasks, predictions


def alpha(
    units: Iterable[Sequence[V]], difference: Callable[[V, V], float] | None = None
) -> float | None:
    """Compute Krippendorff's alpha.

    Args:
        units: Values of each unit. Units with fewer than two are ignored.
        difference: Squared difference of two values. Default: 0 if they are equal, 1 otherwise
            (nominal data).

    Returns:
        1 for full agreement, 0 for agreement by chance, negative below chance; None if it is
            undefined, because no unit has two values or all values are the same.
    """
    differ = difference or (lambda a, b: float(a != b))
    pairable = [list(unit) for unit in units if len(unit) >= 2]
    totals: Counter[V] = Counter(value for unit in pairable for value in unit)
    n = sum(totals.values())
    if n < 2:
        return None
    observed = sum(_pair_sum(Counter(unit), differ) / (len(unit) - 1) for unit in pairable) / n
    sample = _sample(totals)
    size = sum(sample.values())
    expected = _pair_sum(sample, differ) / (size * (size - 1))
    return 1.0 - observed / expected if expected else None


def _pair_sum(counts: Counter[V], differ: Callable[[V, V], float]) -> float:
    """Sum the differences over all ordered pairs of values."""
    values = list(counts)
    return sum(
        2 * counts[a] * counts[b] * differ(a, b)
        for i, a in enumerate(values)
        for b in values[i + 1 :]
    )


def _sample(totals: Counter[V]) -> Counter[V]:
    if len(totals) <= MOST_DIFFERENT:
        return totals
    values = Key("collect", "alpha").random(len(totals)).sample(list(totals), MOST_DIFFERENT)
    return Counter({value: totals[value] for value in values})


def span_difference(first: str, second: str) -> float:
    """1 minus the word-overlap F1 of two answers. n/a differs completely from every span."""
    if first == second:
        return 0.0
    if NA in (first, second):
        return 1.0
    one, other = first.split("|"), second.split("|")
    # The evaluation's F1 is not symmetric: only the numbers in its first argument are required in
    # the other.
    return 1.0 - (list_f1(one, other) + list_f1(other, one)) / 2
