"""How well people do the tasks: a leave-one-out estimate with the official evaluation, as the paper's Table 10 has one.

Each annotator is scored like a model, against the answers that the others give without this one. Where the others do not settle an
item, the adjudicator's answer is used, who has seen all of them; an item with neither is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.final_answers import resolve
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item
from taskloom.suites.zest import evaluation
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


@dataclass(frozen=True, slots=True)
class HumanRow:
    """One row of Table 10: the means over annotators, weighted by the number of tasks that each did."""

    name: str
    tasks: int
    mean: float
    c75: float
    c90: float


@dataclass(frozen=True, slots=True)
class AnnotatedItem:
    """An item with its task and what each person answered."""

    task: CollectedTask
    item: Item
    answers: Mapping[str, str]


def annotated_items(c: Collection) -> list[AnnotatedItem]:
    """Return the items of approved tasks that have answers, in the order of their ids."""
    tasks = {t.id: t for t in c.store.each(CollectedTask, stage="approved")}
    answers: dict[str, dict[str, str]] = {}
    for answer in c.store.each(GivenAnswer, stage="work"):
        answers.setdefault(answer.item, {})[answer.person] = answer.value
    items = (i for i in c.store.each(Item) if i.id in answers and i.task in tasks)
    return [AnnotatedItem(tasks[i.task], i, answers[i.id]) for i in items]


def human_performance(rows: Sequence[AnnotatedItem]) -> list[HumanRow]:
    """Estimate the performance of people, by generalization type and overall."""
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
        # As the public script does: the unweighted mean over the types that are there.
        means = [fsum(values) / len(table) for values in zip(*((r.mean, r.c75, r.c90) for r in table), strict=True)]
        table.append(HumanRow("overall", sum(r.tasks for r in table), *means))
    return table


def _row(name: str, parts: Sequence[tuple[int, float, float, float]]) -> HumanRow:
    total = sum(p[0] for p in parts)
    mean, c75, c90 = (fsum(p[0] * p[i] for p in parts) / total for i in (1, 2, 3))
    return HumanRow(name, total, mean, c75, c90)


def _as_model(rows: Sequence[AnnotatedItem], person: str) -> tuple[list[ZestTask], list[str]]:
    """Build gold tasks from the others' answers and predictions from a person's, where base tasks are there too."""
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
    # A paraphrase or a flip is scored together with its base task, which the person must have done, too.
    bases = {id for id, t in tasks.items() if t.variant == "normal"}
    kept = [t for t in tasks.values() if t.variant == "normal" or set(t.bases) <= bases]
    kept.sort(key=lambda t: (t.variant != "normal", t.id))
    gold_tasks = [
        ZestTask(t.id, t.question, t.variant, t.bases, t.domain, tuple(i for i, _ in instances[t.id])) for t in kept
    ]
    return gold_tasks if bases else [], [prediction for t in kept for _, prediction in instances[t.id]]
