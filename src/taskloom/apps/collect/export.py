"""Exporting a project: ZEST's files with and without answers, a Taskloom dataset with its card,
statistics, agreement, audit and log.

EXPORT/
  zest/train.jsonl dev.jsonl test.jsonl      tasks with answers, one a line, as in ZEST's files
  zest/test_unanswered.jsonl                 what a leaderboard would publish
  recipe.yaml                                a recipe over these files, for `make`, `run`, `show`
  dataset/                                   the same as Parquet with manifest and card
  statistics.json agreement.json audit.json  Table 2, Table 10 with alpha, the audit's findings
  log.jsonl README.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from taskloom.apps.collect.annotation import entity_counts
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.quality import (
    AnnotatedItem,
    alpha,
    annotated_items,
    human_performance,
    span_difference,
)
from taskloom.apps.collect.records import CollectedTask, Item
from taskloom.apps.collect.search import entity_limit
from taskloom.core.files import atomic_folder
from taskloom.data.audit import Audit, audit
from taskloom.data.make import make
from taskloom.recipe import read
from taskloom.suites.zest.task_files import PAPER, Instance, Statistics, ZestTask, statistics

SPLITS = ("train", "dev", "test")

MOST_YES, FEWEST_ANSWERS = 0.8, 10
"""Maximum share of yes among yes and no answers before a split is reported as biased, and the
minimum number of answers for this check.
"""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """An approved task with the items that have a final answer."""

    task: CollectedTask
    items: tuple[Item, ...]
    answers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Contents of an export: tasks by split, and objections to exporting.

    Attributes:
        splits: The finished tasks of each split that has tasks.
        leaks: Leaks of test items. An export with leaks requires confirmation.
        remarks: Remarks for the owner, such as unfinished items or shares that differ from the
            intended ones.
        audit: The audit of the dataset; None if there is nothing to audit.
    """

    splits: Mapping[str, tuple[FinishedTask, ...]]
    leaks: tuple[str, ...]
    remarks: tuple[str, ...]
    audit: Audit | None


def finished_tasks(c: Collection) -> tuple[dict[str, list[FinishedTask]], list[str]]:
    """Return the approved tasks that can be exported, by split, and remarks on the others.

    A task is exported with its items that have a final answer. A variant is left out if the base
    task or the variant has no such items, because the evaluation needs both.
    """
    values: dict[str, tuple[str, ...]] = {
        row.item.id: tuple(row.answers[p] for p in sorted(row.answers))
        for row in annotated_items(c)
    }
    finished: dict[str, FinishedTask] = {}
    open_items = 0
    for task in c.store.each(CollectedTask, stage="approved"):
        items = list(c.store.each(Item, parent=task.id))
        done = tuple(i for i in items if i.state in ("agreed", "decided"))
        open_items += len(items) - len(done)
        if done:
            finished[task.id] = FinishedTask(task, done, tuple(values.get(i.id, ()) for i in done))
    remarks = [phrase("remark_open", count=open_items)] if open_items else []
    lonely = [f for f in finished.values() if not set(f.task.bases) <= finished.keys()]
    for f in lonely:
        del finished[f.task.id]
        remarks.append(phrase("remark_lonely", question=f.task.question))
    order = sorted(finished.values(), key=lambda f: (f.task.variant != "normal", f.task.id))
    return {s: [f for f in order if f.task.split == s] for s in SPLITS}, remarks


def zest_task(c: Collection, finished: FinishedTask) -> ZestTask:
    """Convert a finished task to a task of ZEST's files."""
    task = finished.task
    instances = tuple(Instance(c.passage(i), i.answer) for i in finished.items)
    return ZestTask(task.id, task.question, task.variant, task.bases, task.domain, instances)


def _row(c: Collection, finished: FinishedTask, answered: bool) -> dict[str, Any]:
    task = zest_task(c, finished)
    if not answered:
        return {
            "id": task.id,
            "question": task.question,
            "examples": [{"context": i.context} for i in task.instances],
        }
    kind = {
        "generalization_type": task.kind,
        "derives_from": list(task.derives_from),
        "domain": task.domain,
    }
    examples = [
        {"context": i.context, "answer": i.answer, "all_answers": list(given)}
        for i, given in zip(task.instances, finished.answers, strict=True)
    ]
    return {"id": task.id, "type": kind, "question": task.question, "examples": examples}


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text(
        "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8"
    )


def export(c: Collection, folder: Path, *, despite_leaks: bool = False) -> Release:
    """Write a release into a new folder. If anything fails, nothing is written.

    Args:
        c: The project.
        folder: New folder.
        despite_leaks: Export even if the audit finds leaks.
    """
    if folder.exists():
        raise CollectError(phrase("release_exists", folder=folder))
    try:
        with atomic_folder(folder) as beside:
            return _write(c, beside, despite_leaks)
    except OSError as error:
        raise CollectError(
            phrase("release_unwritten", folder=folder, reason=error.strerror or error)
        ) from error


def _write(c: Collection, folder: Path, despite_leaks: bool) -> Release:
    with c.store.snapshot():  # others may continue to work during the export
        return _write_snapshot(c, folder, despite_leaks)


def _write_snapshot(c: Collection, folder: Path, despite_leaks: bool) -> Release:
    release = prepare(c, folder)
    if release.leaks and not despite_leaks:
        raise CollectError(
            phrase("release_leaks", count=len(release.leaks), first=release.leaks[0])
        )
    tables = {
        name: statistics([zest_task(c, f) for f in tasks]) for name, tasks in release.splits.items()
    }
    _write_json(folder / "statistics.json", {name: s.to_dict() for name, s in tables.items()})
    _write_json(folder / "agreement.json", agreement_report(c))
    _write_json(folder / "audit.json", _audit_json(release))
    c.store.write_log(folder / "log.jsonl")
    (folder / "README.md").write_text(card(c, tables, release), encoding="utf-8")
    return release


def prepare(c: Collection, folder: Path) -> Release:
    """Write the files and the dataset of a release into a folder, and audit them."""
    finished, remarks = finished_tasks(c)
    splits = {name: tuple(tasks) for name, tasks in finished.items() if tasks}
    if not splits:
        raise CollectError(phrase("release_empty"))
    (folder / "zest").mkdir(parents=True)
    for name, tasks in splits.items():
        _write_lines(folder / "zest" / f"{name}.jsonl", [_row(c, f, True) for f in tasks])
    _write_lines(
        folder / "zest" / "test_unanswered.jsonl",
        [_row(c, f, False) for f in splits.get("test", ())],
    )
    files = "".join(f"  {name}: zest/{name}.jsonl\n" for name in splits)
    (folder / "recipe.yaml").write_text(f"suite: zest\nfiles:\n{files}", encoding="utf-8")
    # The recipe is named after the project, because the folder has a temporary name until the
    # release is complete.
    recipe = replace(read(folder / "recipe.yaml"), name=recipe_name(c.file.name))
    data = make(recipe, folder / "dataset")
    report = audit(data)
    leaks = [*_audit_leaks(report), *task_leaks(splits)]
    missing = [phrase("remark_split", split=name) for name in SPLITS if name not in splits]
    return Release(
        splits,
        tuple(leaks),
        (*remarks, *missing, *_near_remarks(report), *share_remarks(c), *yes_remarks(splits)),
        report,
    )


def recipe_name(project: str) -> str:
    """Name of a project's recipe in manifests and audits.

    >>> recipe_name("Parks of our county")
    'Parks-of-our-county'
    """
    return re.sub(r"[^\w-]+", "-", project).strip("-") or "collection"


def _audit_leaks(report: Audit) -> list[str]:
    leaks = [
        phrase("leak_inputs", count=o.exact, split=o.split, other=o.other)
        for o in report.leaks
        if o.exact
    ]
    return leaks + [
        phrase("leak_pairs", count=p.same + p.reversed, split=p.split) for p in report.pairs
    ]


def _near_remarks(report: Audit) -> list[str]:
    """Remarks on near-duplicates of training inputs. Most of them are other questions about the
    same passage, as in ZEST itself.
    """
    return [
        phrase("remark_near", count=o.near, split=o.split, other=o.other)
        for o in report.leaks
        if o.near
    ]


def task_leaks(splits: Mapping[str, Sequence[FinishedTask]]) -> list[str]:
    """Leaks between tasks: a question in two splits, or a variant in a different split from its
    base task.
    """
    leaks = []
    where: dict[str, str] = {}
    homes = {f.task.id: name for name, tasks in splits.items() for f in tasks}
    for name, tasks in splits.items():
        for f in tasks:
            words = " ".join(f.task.question.lower().split())
            if where.setdefault(words, name) != name:
                leaks.append(
                    phrase(
                        "leak_question", question=f.task.question, split=where[words], other=name
                    )
                )
            for base in f.task.bases:
                if homes.get(base, name) != name:
                    leaks.append(
                        phrase("leak_base", question=f.task.question, split=name, other=homes[base])
                    )
    return leaks


def share_remarks(c: Collection) -> list[str]:
    """Remarks on entities with more than the allowed share of a domain's passages."""
    remarks = []
    for domain in c.file.domains:
        counts = entity_counts(c, domain.name)
        total = sum(counts.values())
        limit = entity_limit(total, c.file.entity_share, len(c.entities(domain.name)))
        over = [f"{entity} ({n} / {total})" for entity, n in counts.most_common(3) if n > limit]
        if over:
            share = f"{c.file.entity_share:.0%}"
            remarks.append(
                phrase("remark_entities", domain=domain.name, share=share, entities=", ".join(over))
            )
    return remarks


def yes_remarks(splits: Mapping[str, Sequence[FinishedTask]]) -> list[str]:
    """Remarks on splits whose yes/no tasks are nearly always answered yes. A model could learn to
    answer yes instead of learning the tasks.
    """
    remarks = []
    for name, tasks in splits.items():
        yes_no = [f for f in tasks if f.task.format == "yes/no"]
        items = [item for f in yes_no for item in f.items]
        answers = [item.answer for item in items if item.answer in ("yes", "no")]  # excluding n/a
        share = answers.count("yes") / len(answers) if answers else 0.0
        if len(answers) >= FEWEST_ANSWERS and share > MOST_YES:
            remarks.append(phrase("remark_yes", split=name, share=f"{share:.0%}"))
    return remarks


def agreement_report(c: Collection) -> dict[str, Any]:
    """Report alpha by answer format, the number of items on which annotators agree, and Table
    10.
    """
    rows = annotated_items(c)
    stages = c.store.stages(Item)
    return {
        "alpha": {format: alpha(units, differ) for format, (units, differ) in _units(rows).items()},
        "items": {
            stage: stages.get(stage, 0) for stage in ("open", "agreed", "disputed", "decided")
        },
        "human_performance": [asdict(row) for row in human_performance(rows)],
    }


def _units(
    rows: Sequence[AnnotatedItem],
) -> dict[str, tuple[list[list[str]], Callable[[str, str], float] | None]]:
    units: dict[str, list[list[str]]] = {}
    for row in rows:
        units.setdefault(row.task.format, []).append(list(row.answers.values()))
    return {
        format: (values, span_difference if format == "span" else None)
        for format, values in units.items()
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _audit_json(release: Release) -> dict[str, Any]:
    report = release.audit.to_dict() if release.audit else {}
    return {"leaks": list(release.leaks), "remarks": list(release.remarks), "dataset": report}


TABLE2 = (
    ("(task, passage) pairs", "pairs", "{:,}"),
    ("Avg. passage words", "passage_words", "{:.0f}"),
    ("Number of tasks", "tasks", "{:,}"),
    ("Avg. task len [words]", "task_words", "{:.1f}"),
    ("Share of n/a answers", "na", "{:.2f}"),
    ("Share of classification", "classification", "{:.2f}"),
)
"""Rows of the paper's Table 2."""


def table2(tables: Mapping[str, Statistics]) -> list[tuple[str, list[str], list[str]]]:
    """Rows of Table 2: the name of each row, the values of our splits, and the paper's values for
    the same splits.
    """
    return [
        (
            head,
            [form.format(getattr(s, field)) for s in tables.values()],
            [form.format(PAPER[name][field]) for name in tables],
        )
        for head, field, form in TABLE2
    ]


def card(c: Collection, tables: Mapping[str, Statistics], release: Release) -> str:
    """Write the card of a release."""
    head = f"| | {' | '.join(tables)} |\n| --- |{' ---: |' * len(tables)}\n"
    rows = "".join(f"| {name} | {' | '.join(ours)} |\n" for name, ours, _ in table2(tables))
    people = c.file.annotators
    worded = sum(bool(f.task.suggested) for tasks in release.splits.values() for f in tasks)
    models = f" {worded} questions were worded with the help of a model." if worded else ""
    notes = (
        "".join(f"- {text}\n" for text in (*release.leaks, *release.remarks))
        or "- nothing to report\n"
    )
    domains = ", ".join(f"{d.name} ({len(c.entities(d.name))} entities)" for d in c.file.domains)
    return (
        f"# {c.file.name}\n\nTasks given by descriptions, collected as ZEST was (Weller et al."
        f" 2020, section 4) with `taskloom collect`.\n\nDomains: {domains}. {people} annotators"
        " answered each item without seeing each other; yes/no by majority, spans by the shortest"
        f" answer that most others contain, the rest by an adjudicator.{models}\n\n{head}{rows}\n##"
        f" The audit\n\n{notes}\n## Use\n\n```\ntaskloom make recipe.yaml -o data\ntaskloom score"
        " zest --gold zest/test.jsonl --pred PREDICTIONS\n```\n\n`log.jsonl` has every change with"
        " its author; the only personal data in it are names. `agreement.json` has the agreement of"
        " the annotators (Krippendorff's alpha). The release has no licence yet: add one before you"
        " publish it.\n"
    )
